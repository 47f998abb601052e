//! Reductions of row kernels: from threads' partial results to the values of a row.
//!
//! In: each thread's partial results. Out: statements that set `value{slot}` in every thread of the row. They reduce
//! over lanes, over threads of a group, over the threads that divide an outer-axis row, and in a split stage over
//! blocks, by partial results in scratch memory.

use crate::ir::{Action, Atomic, Expr, For, Name, Routine, Statement, Type, Unroll};
use crate::kernels::reduce::emit::{Rows, lane, lanes, live, number, thread, value_name};
use crate::kernels::reduce::{RowSplit, RowStrategy, runs_after_last_pass};
use crate::target::MAX_CORESIDENT_BLOCKS;
use thalweg_kernel::{Fold, Phase};

/// Maximum bytes of shared memory for the folds of an outer-axis pass. A block may need two such buffers, for points
/// and for blocks' partial results, of the 48 KiB that it gets without requesting more.
const MAX_FOLD_BYTES: usize = 16 << 10;

/// Condition that the thread is the first of its warp.
fn leads() -> Expr {
    (Expr::Thread % number(32, Type::U32)).same(number(0, Type::U32))
}

/// Index of the thread's warp in its block.
pub(super) fn warp() -> Expr {
    Expr::Thread / number(32, Type::U32)
}

/// Emits a store to shared memory of a value of each warp's first thread, indexed by warp.
pub(super) fn leave_in_warps(name: Name, ty: Type, value: Expr) -> Statement {
    Statement::when(leads(), vec![Statement::Set(Expr::Element { of: name, at: vec![warp()], ty }, value)])
}

impl Rows<'_> {
    /// Emits the reduction of a pass's folds over lanes and threads of a group: `value{slot}` in all threads.
    pub(super) fn fold_inner(&self, phase: &Phase, group: u16, from: &str) -> Vec<Statement> {
        let mut out = vec![];
        let value = |f: &Fold| self.value_at(f.slot, number(0, Type::I32));
        for f in &phase.body.folds {
            let dtype = self.fold_dtype(f.slot);
            let ty = Type::Held(dtype);
            let own = Routine::FoldLanes(f.op, dtype).of([Expr::Whole(format!("{from}{}", f.slot), ty)]);
            out.push(Statement::Set(value(f), Routine::FoldThreads(f.op, dtype, group).of([own])));
            if group > 32 {
                let name = format!("{from}parts{}", f.slot);
                out.push(Statement::Shared { name: name.clone(), ty, shape: vec![u32::from(group / 32)] });
                out.push(leave_in_warps(name, ty, value(f)));
            }
        }
        if group > 32 && !phase.body.folds.is_empty() {
            out.push(Statement::Barrier);
            for f in &phase.body.folds {
                let dtype = self.fold_dtype(f.slot);
                let parts = Expr::Whole(format!("{from}parts{}", f.slot), Type::Held(dtype));
                out.push(Statement::Set(value(f), Routine::FoldWarps(f.op, dtype, group).of([parts])));
            }
        }
        out
    }

    /// Emits the reduction of a pass's folds over the threads that divide the points of a row: `value{slot}[v]` in all
    /// threads. Threads of a warp reduce by shuffles, warps through shared memory. If all folds together exceed shared
    /// memory, they use it one after the other.
    pub(super) fn fold_outer(&self, phase: &Phase, wide: u16, deep: u16, from: &str) -> Vec<Statement> {
        let v = self.v;
        // Threads of a warp with the same rows.
        let near = if wide * deep < 32 { 1 } else { (32 / wide).max(1) };
        let parts = deep / near;
        let bytes = |f: &Fold| self.fold_dtype(f.slot).size().max(4) * wide as usize * parts as usize * v;
        let folds = &phase.body.folds;
        let all: usize = folds.iter().map(bytes).sum();
        let mut out = vec![];
        let room = format!("{from}room{}", folds.first().map_or(0, |f| f.slot));
        for f in folds.iter().filter(|_| near > 1) {
            let (monoid, dtype) = (f.op, self.fold_dtype(f.slot));
            out.push(Statement::Do(Action::FoldPoints { monoid, dtype, wide, registers: format!("{from}{}", f.slot) }));
        }
        if all > MAX_FOLD_BYTES {
            let largest = folds.iter().map(bytes).max().unwrap_or(0).max(MAX_FOLD_BYTES);
            let ty = Type::Stored(thalweg_ir::DType::U8);
            out.push(Statement::Shared { name: room.clone(), ty, shape: vec![largest as u32] });
        }
        let part = if near > 1 { thread() / number(near.into(), Type::U32) } else { thread() };
        let element = |f: &Fold, part: Expr| {
            let (of, ty) = (format!("{from}parts{}", f.slot), Type::Held(self.fold_dtype(f.slot)));
            Expr::Element { of, at: vec![part, lane(), Expr::name("tx", Type::U32)], ty }
        };
        let mut left = &folds[..];
        while !left.is_empty() {
            let mut end = 0;
            let mut fits = |f: &Fold| {
                end += bytes(f);
                end <= MAX_FOLD_BYTES
            };
            let (round, rest) = left.split_at(left.iter().take_while(|f| fits(f)).count().max(1));
            let mut at = 0;
            for f in round {
                let (name, ty) = (format!("{from}parts{}", f.slot), Type::Held(self.fold_dtype(f.slot)));
                let shape = vec![parts.into(), v as u32, wide.into()];
                out.push(match all > MAX_FOLD_BYTES {
                    true => Statement::SharedPart { name, ty, shape, of: room.clone(), at: at as u32 },
                    false => Statement::Shared { name, ty, shape },
                });
                at += bytes(f);
                let leave = Statement::Set(element(f, part.clone()), self.partial_result(from, f, lane()));
                let first = (Expr::Thread % number(32, Type::U32)).lt(number(wide.into(), Type::U32));
                let leave = if near > 1 { Statement::when(first, vec![leave]) } else { leave };
                out.push(lanes(v, vec![leave]));
            }
            out.push(Statement::Barrier);
            for f in round {
                let value = || self.value(f.slot);
                let next = element(f, Expr::name("d", Type::I32));
                let both = Routine::Combine(f.op, self.fold_dtype(f.slot)).of([value(), next]);
                let others = For {
                    name: "d".into(),
                    ty: Type::I32,
                    from: number(1, Type::I32),
                    below: number(parts.into(), Type::I32),
                    step: number(1, Type::I32),
                    unroll: Unroll::Free,
                    body: vec![Statement::Set(value(), both)],
                };
                let first = Statement::Set(value(), element(f, number(0, Type::I32)));
                out.push(lanes(v, vec![first, Statement::For(others)]));
            }
            if !rest.is_empty() {
                out.push(Statement::Barrier);
            }
            left = rest;
        }
        out
    }

    /// Index at which a row's value is stored in memory between stages; of its first lane for outer-axis rows.
    fn place_of_value(&self) -> Expr {
        match self.is_outer_axis() {
            true => self.place("row").to(Type::I64) * number(self.v, Type::I64),
            false => self.place("row").to(Type::I64),
        }
    }

    /// Operand through which later stages read a value of each row: its declaration, name and type.
    fn values_in_memory(&self, slot: u16) -> (Statement, Name, Type) {
        let (name, ty) = (format!("left{slot}"), Type::Held(self.phases.values[slot as usize]));
        let param = self.params.values[slot as usize].slot();
        (Statement::Operand { name: name.clone(), ty, param }, name, ty)
    }

    /// Emits `f` of each lane of a row's value and of the lane's index in memory.
    fn each_lane(&self, f: impl Fn(Expr, Expr) -> Statement) -> Statement {
        match self.is_outer_axis() {
            true => {
                let own = f(lane(), self.place_of_value() + lane().to(Type::I64));
                Statement::lanes(self.v, Unroll::Free, vec![own])
            }
            false => f(number(0, Type::I32), self.place_of_value()),
        }
    }

    /// Emits the load of a value that an earlier stage has stored.
    pub(super) fn read_value(&self, slot: u16) -> Statement {
        let (operand, name, ty) = self.values_in_memory(slot);
        let read = |lane: Expr, at: Expr| {
            Statement::Set(self.value_at(slot, lane), Expr::Load(ty, name.clone(), Box::new(at)))
        };
        Statement::Scope(vec![operand, self.each_lane(read)])
    }

    /// Emits the end of a stage's folds: the last block of a split row combines its partial results, and values are
    /// stored for later stages.
    pub(super) fn finish(&self, phase: &Phase, number: usize) -> Vec<Statement> {
        let mut out = vec![];
        match self.class.split() {
            RowSplit::Exchanged if !phase.body.folds.is_empty() => {
                out.extend(self.leave_partials(&phase.body.folds, vec![]));
                out.extend(self.gather_partials(phase));
            }
            RowSplit::Stored => {
                let left = self.stored_partials(&phase.body.folds);
                return vec![Statement::when(
                    thread().same(crate::kernels::reduce::emit::number(0, Type::U32)).and(live()),
                    left,
                )];
            }
            _ => {}
        }
        out.extend(self.leave_values(&phase.body.folds, number));
        out
    }

    /// Emits the all-reduce over the blocks that hold a row's segments: `value{slot}[v]` in all threads. Threads of a
    /// warp reduce by shuffles, warps through shared memory, blocks through the exchange buffer.
    pub(super) fn fold_blocks(&self, f: &Fold, wide: u16) -> Vec<Statement> {
        let (monoid, dtype, v) = (f.op, self.fold_dtype(f.slot), self.v);
        let ty = Type::Held(dtype);
        let [parts, all] = ["fparts", "all"].map(|name| format!("{name}{}", f.slot));
        let [tile, chunk, chunks] = ["tile", "chunk", "chunks"].map(|name| Expr::name(name, Type::U32));
        // Two 64-bit words an element; narrow dtypes use one of them.
        let each = number(2 * v * wide as usize, Type::U64);
        let place = number(f.slot.into(), Type::U64) * self.params.runs_or_tiles.read(Type::U64) + tile.to(Type::U64);
        let first = place * chunks.clone().to(Type::U64) * each;
        let part = Expr::Element { of: parts.clone(), at: vec![lane(), Expr::name("tx", Type::U32), warp()], ty };
        let leads = (Expr::Thread % number(32, Type::U32)).lt(number(wide.into(), Type::U32));
        let leave = Statement::when(leads, vec![Statement::Set(part, self.partial_result("f", f, lane()))]);
        vec![
            Statement::Do(Action::FoldPoints { monoid, dtype, wide, registers: format!("f{}", f.slot) }),
            Statement::Shared {
                name: parts.clone(),
                ty,
                shape: vec![v as u32, wide.into(), MAX_CORESIDENT_BLOCKS as u32 + 1],
            },
            Statement::Shared { name: all.clone(), ty, shape: vec![v as u32, wide.into()] },
            lanes(v, vec![leave]),
            Statement::Do(Action::FoldBlocks {
                monoid,
                dtype,
                value: value_name(f.slot),
                parts,
                all,
                ticket: "own".into(),
                at: [first, chunk, chunks],
            }),
        ]
    }

    /// Emits stores of the folds' results for the stages after phase `number`; `None` if no such stage reads them.
    pub(super) fn leave_values(&self, folds: &[Fold], number: usize) -> Option<Statement> {
        let list = &self.phases.list;
        let more = (number + 1..list.len()).any(|n| !list[n].once || runs_after_last_pass(self.phases, n));
        if self.class.stage.is_none() || folds.is_empty() || !more {
            return None;
        }
        let mut out = vec![];
        for f in folds {
            let (operand, name, _) = self.values_in_memory(f.slot);
            let leave = |lane: Expr, at: Expr| Statement::Store {
                operand: name.clone(),
                at,
                value: self.value_at(f.slot, lane),
            };
            out.push(Statement::Scope(vec![operand, self.each_lane(leave)]));
        }
        Some(Statement::when(thread().same(crate::kernels::reduce::emit::number(0, Type::U32)).and(live()), out))
    }

    /// Index of a chunk's partial result in memory; of its first lane for outer-axis rows.
    fn place_of_partial(&self, chunk: Expr) -> Expr {
        let wide = |name: &str| self.place(name).to(Type::I64);
        let chunk = chunk.to(Type::I64);
        match self.is_outer_axis() {
            true => (chunk * wide("rows") + wide("row")) * number(self.v, Type::I64),
            false => wide("row") * Expr::name("chunks", Type::U32).to(Type::I64) + chunk,
        }
    }

    /// Operand with the partial results of a fold: its declaration, name and type.
    fn partials_in_memory(&self, slot: u16) -> (Statement, Name, Type) {
        let (name, ty) = (format!("shares{slot}"), Type::Held(self.fold_dtype(slot)));
        let param = self.params.partials[slot as usize].slot();
        (Statement::Operand { name: name.clone(), ty, param }, name, ty)
    }

    /// Emits stores of the partial results of folds.
    fn stored_partials(&self, folds: &[Fold]) -> Vec<Statement> {
        let of = |f: &Fold| {
            let (operand, name, _) = self.partials_in_memory(f.slot);
            let at = self.place_of_partial(Expr::name("chunk", Type::U32));
            let leave = match self.is_outer_axis() {
                true => Statement::StoreVector { operand: name, at, from: (value_name(f.slot), vec![]) },
                false => Statement::Store { operand: name, at, value: self.value_at(f.slot, number(0, Type::I32)) },
            };
            Statement::Scope(vec![operand, leave])
        };
        folds.iter().map(of).collect()
    }

    /// Emits stores of partial results of folds, then `more`. All blocks of a row but the last one exit here.
    pub(super) fn leave_partials(&self, folds: &[Fold], more: Vec<Statement>) -> Vec<Statement> {
        let zero = || number(0, Type::U32);
        let mut left = self.stored_partials(folds);
        left.extend(more);
        left.push(Statement::Do(Action::Fence));
        let last = || Expr::Element { of: "last".into(), at: vec![number(0, Type::I32)], ty: Type::U32 };
        let chunks = Expr::name("chunks", Type::U32);
        let came = Expr::name("came", Type::U32).same(chunks - number(1, Type::U32));
        let tile = || Expr::name("tile", Type::U32);
        let again = Statement::Do(Action::Reset { counters: "counters".into(), at: tile() });
        let count = vec![
            Statement::Operand {
                name: "counters".into(),
                ty: Type::U32,
                param: self.params.counters_or_exchange.slot(),
            },
            Statement::Atomic {
                op: Atomic::Add,
                name: "counters".into(),
                at: tile(),
                value: number(1, Type::U32),
                before: Some("came".into()),
            },
            Statement::Set(last(), came.clone().select(number(1, Type::U32), zero())),
            Statement::when(came, vec![again]),
            Statement::Do(Action::Fence),
        ];
        vec![
            Statement::when(thread().same(zero()).and(live()), left),
            Statement::Shared { name: "last".into(), ty: Type::U32, shape: vec![1] },
            Statement::Barrier,
            Statement::when(Expr::Thread.same(zero()), count),
            Statement::Barrier,
            Statement::when(last().same(zero()), vec![Statement::Return]),
        ]
    }

    /// Emits the combination of the partial results of all chunks of a row.
    pub(super) fn gather_partials(&self, phase: &Phase) -> Vec<Statement> {
        let n = if self.is_outer_axis() { self.v } else { 1 };
        let mut out = vec![];
        let step = match self.class.strategy {
            RowStrategy::OuterAxis { deep, .. } => deep as u32,
            other => other.block() / other.rows(),
        };
        for f in &phase.body.folds {
            let (operand, name, ty) = self.partials_in_memory(f.slot);
            let read = ("x".to_string(), vec![]);
            let at = self.place_of_partial(Expr::name("c", Type::U32));
            let next = Expr::Element { of: "x".into(), at: vec![lane()], ty };
            let own = || self.partial_result("g", f, lane());
            let both = Routine::Combine(f.op, self.fold_dtype(f.slot)).of([own(), next]);
            let body = vec![
                Statement::Registers { name: "x".into(), ty, shape: vec![n as u32] },
                Statement::LoadVector { to: read, operand: name, at, fresh: true },
                lanes(n, vec![Statement::Set(own(), both)]),
            ];
            out.push(operand);
            out.push(self.registers("g", f, n));
            out.push(self.cleared("g", f, n));
            out.push(Statement::For(For {
                name: "c".into(),
                ty: Type::U32,
                from: thread(),
                below: Expr::name("chunks", Type::U32),
                step: number(step as usize, Type::U32),
                unroll: Unroll::Times(4),
                body,
            }));
        }
        out.extend(match self.class.strategy {
            RowStrategy::OuterAxis { wide, deep } => self.fold_outer(phase, wide, deep, "g"),
            other => self.fold_inner(phase, (other.block() / other.rows()) as u16, "g"),
        });
        out
    }
}
