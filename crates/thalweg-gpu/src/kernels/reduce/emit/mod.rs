//! Row kernels: bodies with reductions and scans over the rows of their domain.
//!
//! Strategies, each with all phases in one kernel or a kernel for each pass (a *stage*):
//!
//! * along (inner-axis): a group of threads a row, lanes along the row. The row is *held* in registers from its first
//!   pass on where it fits, else each pass reads it *again*;
//! * across (outer-axis): lanes are neighbouring rows (columns of memory), threads of a block divide the points of a
//!   row. Where rows are to be read once, several blocks *hold* a segment of each row in registers;
//! * pairs: a thread has several rows, which share the elements of an operand;
//! * ordered: a warp a row, in the order of [`thalweg_kernel::order`], for strict kernels.
//!
//! A stage may be *split*: several blocks divide a row and store partial results in scratch memory. The last one of
//! them to finish combines these in a fixed order. Later stages read the results of folds from scratch memory and
//! recompute what follows from them.
//!
//! * `begin`: coordinates of threads. `once`, `pass`: phases. `folds`: from threads' partial results to values of rows.
//!   `online`: two fused passes. `scans`: scans between two passes. `paired`: the whole kernel for pairs.

mod begin;
mod folds;
mod once;
mod online;
mod paired;
mod pass;
mod scans;

use crate::body::wanted;
use crate::emit::access::Accesses;
use crate::emit::index::{decompose, offset};
use crate::emit::loops::Native;
use crate::ir::{Definition, Expr, Kernel, Name, Slot, Statement, Type, Unroll};
use crate::kernels::reduce::params::{RowsCounts, RowsParams};
use crate::kernels::reduce::{RowSplit, RowStrategy, RowsClass, left, power, runs_after_last_pass};
use std::cell::Cell;
use thalweg_ir::DType;
use thalweg_kernel::{Access, AccessClass, Body, Fold, OnlinePasses, Phase, Phases, Rescaling};

/// Builds the kernel of a class key.
pub fn kernel(body: &Body, class: &RowsClass, native: Native) -> Kernel {
    let phases = class.phases(body);
    let (params, layout) = RowsParams::new(class, body, &RowsCounts::new(class, body, &phases));
    let list = all_accesses(body, &phases);
    let rows = Rows {
        body,
        class,
        online: class.passes(body, &phases),
        tile: Cell::new(None),
        phases: &phases,
        params: &params,
        accesses: Accesses { list: &list, class: &class.space, params: &params.body.space, tag: "" },
        t: Type::index(class.space.wide),
        v: class.space.lanes as usize,
        first_buffer: body.accesses.len(),
        native,
    };
    let (name, block) = (class.name(body), class.strategy.block());
    Kernel { name, block, blocks: None, params: layout, definitions: rows.definitions(), body: rows.function() }
}

/// Accesses of a body, followed by accesses to its buffers.
fn all_accesses(body: &Body, phases: &Phases) -> Vec<Access> {
    let buffer = |&dtype: &DType| Access { operand: None, dtype, class: AccessClass::Contiguous, per_row: false };
    body.accesses.iter().copied().chain(phases.buffers.iter().map(buffer)).collect()
}

struct Rows<'a> {
    body: &'a Body,
    class: &'a RowsClass,
    online: Option<OnlinePasses>,
    /// Number of vectors per thread of the register tile that the emitted code loops over at present, if any.
    tile: Cell<Option<u8>>,
    phases: &'a Phases,
    params: &'a RowsParams,
    accesses: Accesses<'a>,
    /// Type of indices.
    t: Type,
    /// Number of lanes of a vector.
    v: usize,
    /// Index of the first access that is a buffer.
    first_buffer: usize,
    native: Native<'a>,
}

/// Integer literal of a type.
fn number(n: usize, ty: Type) -> Expr {
    Expr::Number(n as i64, ty)
}

/// Variable with the index of an element in the thread's vector (not the lane of the warp).
fn lane() -> Expr {
    Expr::name("v", Type::I32)
}

/// Variable with the index of the thread within its row.
fn thread() -> Expr {
    Expr::name("t", Type::U32)
}

/// Condition that the thread's row exists.
fn live() -> Expr {
    Expr::name("live", Type::BOOL)
}

/// Emits an unrolled loop over lanes.
fn lanes(n: usize, body: Vec<Statement>) -> Statement {
    Statement::lanes(n, Unroll::All, body)
}

/// Name of the variable that holds a value of the row.
fn value_name(slot: u16) -> Name {
    format!("value{slot}")
}

impl Rows<'_> {
    fn is_outer_axis(&self) -> bool {
        self.class.space.across
    }

    fn row_dims(&self) -> usize {
        self.class.space.kept as usize
    }

    /// Variable with the type of indices.
    fn place(&self, name: &str) -> Expr {
        Expr::name(name, self.t)
    }

    fn fold_dtype(&self, slot: u16) -> DType {
        self.body.dtype(self.body.folds[slot as usize].node)
    }

    fn identity(&self, f: &Fold) -> Expr {
        let dtype = self.fold_dtype(f.slot);
        Expr::Constant(dtype, f.op.identity(dtype))
    }

    /// Register with a value of the row, at lane `v`.
    fn value(&self, slot: u16) -> Expr {
        self.value_at(slot, lane())
    }

    fn value_at(&self, slot: u16, lane: Expr) -> Expr {
        let ty = Type::Held(self.phases.values[slot as usize]);
        let of = value_name(slot);
        if self.is_outer_axis() { Expr::Element { of, at: vec![lane], ty } } else { Expr::Name(of, ty) }
    }

    fn held_row(&self) -> Option<(u16, u8, bool)> {
        match self.class.strategy {
            RowStrategy::Registers { group, steps, exact } if self.class.stage.is_none() || self.class.is_chained() => {
                Some((group, steps, exact))
            }
            RowStrategy::RegistersOfBlocks { deep, steps, .. } => Some((deep, steps, false)),
            RowStrategy::Reread { group } => self.tile.get().map(|steps| (group, steps, false)),
            _ => None,
        }
    }

    /// Whether the elements of an access are loaded once and kept in registers for later passes.
    fn cached(&self, k: usize) -> bool {
        self.held_row().is_some()
            && k < self.first_buffer
            && !self.body.accesses[k].per_row
            && self.loading(k).nth(1).is_some()
    }

    /// Indices of this kernel's passes that load through an access.
    fn loading(&self, k: usize) -> impl Iterator<Item = usize> + '_ {
        let first = self.class.stage.map_or(0, |s| s.phase as usize);
        let own = self.phases.list.iter().enumerate().skip(first);
        own.filter(move |(_, p)| !p.once && wanted(&p.body)[k].load).map(|(number, _)| number)
    }

    /// Definitions of the kernel's folds, scans and states.
    fn definitions(&self) -> Vec<Definition> {
        let mut out: Vec<Definition> = vec![];
        for f in &self.body.folds {
            let of = Definition::Monoid(f.op, self.fold_dtype(f.slot));
            if !out.contains(&of) {
                out.push(of);
            }
        }
        if self.class.has_scans(self.body) {
            let scans = self.phases.list.iter().flat_map(|p| &p.scans);
            out.extend(scans.map(|s| {
                let dtype = self.phases.buffers[s.from as usize];
                Definition::Scan { number: s.from, op: s.scan.op, dtype }
            }));
        }
        let states = self.online.iter().flat_map(|o| &o.list).enumerate();
        out.extend(states.map(|(number, fold)| {
            let mean = matches!(fold.how, Rescaling::Shifted { weighted: false, power: 2.., .. });
            Definition::State { number: number as u16, dtype: fold.dtype, power: power(fold), mean }
        }));
        out
    }

    fn function(&self) -> Vec<Statement> {
        let mut out = self.begin();
        if let RowStrategy::Pairwise { rows, still } = self.class.strategy {
            out.extend(self.pairs(rows, still));
            return out;
        }
        let list = &self.phases.list;
        let stage = self.class.stage;
        let current = stage.map(|s| s.phase as usize);
        // Values of the row that folds of earlier stages have stored are loaded.
        let together = self.online.as_ref().map(|o| o.phases.clone()).unwrap_or(0..0);
        let inside = |number: usize| together.contains(&number) && current.is_none_or(|c| c + 1 == together.end);
        if let Some(current) = current {
            let own = self.class.online.map_or(u16::MAX, |o| o.own);
            for (_, phase) in list[..current].iter().enumerate().filter(|(number, _)| !inside(*number)) {
                let folds = phase.body.folds.iter().map(|f| f.slot).filter(|&slot| slot < own);
                folds.chain(left(phase)).for_each(|slot| out.push(self.read_value(slot)));
            }
        }
        for (number, phase) in list.iter().enumerate() {
            if inside(number) {
                if number == together.start {
                    out.push(self.online_pass(self.online.as_ref().expect("passes that run together")));
                }
                continue;
            }
            match current {
                // A once-a-row phase is recomputed by every later stage, and stored by the first.
                Some(c) if phase.once && number <= c => {
                    let first = !list[number..c].iter().any(|p| !p.once);
                    let stores = first && self.class.split() != RowSplit::Combined;
                    out.extend(self.once(phase, stores.then(|| self.is_first_chunk())));
                }
                Some(c) if number == c => out.push(self.pass(phase, number)),
                Some(c) if self.class.is_chained() && number > c => {
                    match phase.once {
                        true => out.extend(self.once(phase, Some(self.is_first_chunk()))),
                        false => out.push(self.pass(phase, number)),
                    };
                }
                // The second launch of a split pass runs what follows it.
                Some(_) if self.class.split() == RowSplit::Stored => {}
                // After a user-defined combine of the last pass, a launch of its own runs the remaining phases.
                Some(_) if runs_after_last_pass(self.phases, number) => {}
                Some(c) if phase.once && !list[c + 1..].iter().any(|p| !p.once) => {
                    out.extend(self.once(phase, Some(None)));
                }
                Some(_) => {}
                None if phase.once => out.extend(self.once(phase, Some(self.is_first_chunk()))),
                None => out.push(self.pass(phase, number)),
            }
        }
        out
    }

    /// Condition that the block has the first chunk of its row; `None` where blocks do not divide rows.
    fn is_first_chunk(&self) -> Option<Expr> {
        self.class.is_shared().then(|| Expr::name("chunk", Type::U32).same(number(0, Type::U32)))
    }

    /// Offset in elements of an access: for the row alone, or with `point` for the row's current point.
    fn position(&self, k: usize, point: bool) -> Expr {
        let space = &self.class.space;
        let row = offset(space, &self.params.body.space, k, 0..self.row_dims(), "i");
        let own =
            point.then(|| offset(space, &self.params.body.space, k, self.row_dims()..space.rank(), "j")).flatten();
        Expr::sum(row.into_iter().chain(own), self.t)
    }

    /// Row-major index of the current point in the domain, and the step from lane to lane.
    fn point(&self) -> [Expr; 2] {
        let wide = |name: &str| self.place(name).to(Type::I64);
        let v = number(self.v, Type::I64);
        match self.is_outer_axis() {
            true => [wide("row") * v * wide("n") + wide("q"), wide("n")],
            false => [(wide("row") * wide("n") + wide("q")) * v, number(1, Type::I64)],
        }
    }

    /// Index of the current point's lane `v` in a buffer in memory.
    fn buffer_place(&self) -> Expr {
        let wide = |name: &str| self.place(name).to(Type::I64);
        let vector = match self.is_outer_axis() {
            true => wide("q") * wide("rows") + wide("row"),
            false => wide("row") * wide("n") + wide("q"),
        };
        vector * number(self.v, Type::I64) + lane().to(Type::I64)
    }

    /// Emits the coordinates of the current point, which has index `q` in its row.
    fn row_point(&self) -> Vec<Statement> {
        let row_dims = self.row_dims()..self.class.space.rank();
        decompose(&self.class.space, &self.params.body.space, row_dims, self.place("q"), "j")
    }

    fn scalar(&self, slot: u16) -> Slot {
        self.params.body.scalar(slot)
    }

    fn reciprocal(&self, slot: u16) -> Option<Slot> {
        self.params.body.reciprocal(self.body, slot)
    }

    /// Variable with the address of the fault slot; 0 for threads whose row does not exist.
    fn fault(&self) -> Expr {
        Expr::name("fault", Type::U64)
    }

    /// Declares the accumulator registers of all folds of a phase, for all lanes.
    fn fold_registers<'b>(&'b self, phase: &'b Phase) -> impl Iterator<Item = Statement> + 'b {
        phase.body.folds.iter().map(|f| self.registers("f", f, self.v))
    }

    /// Declares `n` registers of partial results of a fold.
    fn registers(&self, from: &str, f: &Fold, n: usize) -> Statement {
        let ty = Type::Held(self.fold_dtype(f.slot));
        Statement::Registers { name: format!("{from}{}", f.slot), ty, shape: vec![n as u32] }
    }

    /// Register with a lane's partial result of a fold.
    fn partial_result(&self, from: &str, f: &Fold, lane: Expr) -> Expr {
        let ty = Type::Held(self.fold_dtype(f.slot));
        Expr::Element { of: format!("{from}{}", f.slot), at: vec![lane], ty }
    }

    /// Emits the assignment of the identity to all partial results of a fold.
    fn cleared(&self, from: &str, f: &Fold, n: usize) -> Statement {
        lanes(n, vec![Statement::Set(self.partial_result(from, f, lane()), self.identity(f))])
    }
}
