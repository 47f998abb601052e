//! Passes over the points of a row, with their reductions.

use crate::body::{Wanted, wanted};
use crate::emit::access::Stand;
use crate::emit::nodes::{Names, statements, value};
use crate::ir::{Action, Expr, For, Routine, Statement, Type, Unroll};
use crate::kernels::reduce::emit::{Rows, lane, live, number, thread};
use crate::kernels::reduce::{RowSplit, RowStrategy, operations};
use crate::space::Addressing;
use thalweg_kernel::order::BLOCK as ORDERED;
use thalweg_kernel::{Body, Phase, Store};

/// Number of operations, over all lanes, up to which the compiler unrolls the loop over vectors that are read again in
/// each pass.
const UNROLLED_OPERATIONS: usize = 2048;

/// Statements for the points of a row: loads before the points, loads of a vector of points, and its computation.
pub(super) struct Steps {
    pub(super) ahead: Vec<Statement>,
    pub(super) fetched: Vec<Statement>,
    pub(super) inner: Vec<Statement>,
}

impl Rows<'_> {
    /// Variable `k`: the index of the current vector among a thread's vectors of a row or tile.
    pub(super) fn step() -> Expr {
        Expr::name("k", Type::I32)
    }

    /// Emits a pass with its reductions and scans.
    pub(super) fn pass(&self, phase: &Phase, index: usize) -> Statement {
        if self.class.split() == RowSplit::Combined {
            // The points were read by an earlier launch.
            return Statement::Scope([self.gather_partials(phase), self.finish(phase, index)].concat());
        }
        let mut out = vec![];
        let ordered = self.class.strategy == RowStrategy::Ordered;
        for f in &phase.body.folds {
            if ordered {
                let (name, dtype) = (format!("tree{}", f.slot), self.fold_dtype(f.slot));
                out.push(Statement::Tree { name, monoid: f.op, dtype });
            } else {
                out.push(self.registers("f", f, self.v));
                out.push(self.cleared("f", f, self.v));
            }
        }
        let Steps { ahead, fetched, inner } = self.steps(phase, index);
        out.extend(ahead);
        match self.class.strategy {
            _ if let Some((group, steps, exact)) = self.held_row() => {
                // All loads of the row are issued before the first use.
                out.extend(self.row_arrays(phase, steps));
                let parts = [fetched, inner].into_iter().filter(|p| !p.is_empty());
                out.extend(parts.map(|part| self.over_held(part, (group, steps, exact))));
            }
            RowStrategy::Registers { group: step, .. }
            | RowStrategy::Reread { group: step }
            | RowStrategy::OuterAxis { deep: step, .. }
            | RowStrategy::RegistersOfBlocks { deep: step, .. } => {
                let (from, below) = (self.place("begin") + thread().to(self.t), self.place("stop"));
                let body = [self.row_point(), fetched, inner].concat();
                let times = UNROLLED_OPERATIONS / (operations(&phase.body, &self.class.space) * self.v).max(1);
                let (step, unroll) = (number(step.into(), self.t), Unroll::Times(times.clamp(1, 4) as u32));
                out.push(Statement::For(For { name: "q".into(), ty: self.t, from, below, step, unroll, body }));
            }
            RowStrategy::Ordered => out.extend(self.ordered(phase, [fetched, inner].concat())),
            RowStrategy::Pairwise { .. } => unreachable!("their pass is another"),
        }
        match self.class.strategy {
            RowStrategy::Ordered | RowStrategy::Pairwise { .. } => {}
            RowStrategy::OuterAxis { wide, deep } => out.extend(self.fold_outer(phase, wide, deep, "f")),
            RowStrategy::RegistersOfBlocks { wide, .. } => {
                out.extend(phase.body.folds.iter().flat_map(|f| self.fold_blocks(f, wide)))
            }
            RowStrategy::Registers { group, .. } | RowStrategy::Reread { group } => {
                out.extend(self.fold_inner(phase, group, "f"))
            }
        }
        out.extend(self.finish(phase, index));
        out.extend(self.scans(phase));
        Statement::Scope(out)
    }

    /// Emits the loop over the vectors of a row, or of a row's tile, that a thread holds in registers.
    fn over_held(&self, part: Vec<Statement>, (group, steps, exact): (u16, u8, bool)) -> Statement {
        let own = Rows::step().to(self.t) * number(group.into(), self.t) + thread().to(self.t);
        let of_part = self.class.is_chained() || self.class.is_held_by_blocks();
        let place = if of_part { self.place("begin") + own } else { own };
        let inside = [self.row_point(), part].concat();
        let inside = match exact {
            true => Statement::Scope(inside),
            false => Statement::when(self.place("q").lt(self.place("stop")), inside),
        };
        Statement::count("k", steps.into(), Unroll::All, vec![Statement::Let("q".into(), place), inside])
    }

    /// Emits a strict pass, which folds each run of points block by block, with lanes in order.
    fn ordered(&self, phase: &Phase, inner: Vec<Statement>) -> Vec<Statement> {
        let t = self.t;
        let (runs, length) = (self.params.runs_or_tiles.read(t), || self.params.run_points.read(t));
        let place = |name: &str| self.place(name);
        let block = || number(ORDERED, t);
        let mut turn: Vec<Statement> = vec![];
        for f in &phase.body.folds {
            turn.push(self.registers("f", f, 1));
            turn.push(Statement::Set(self.partial_result("f", f, number(0, Type::I32)), self.identity(f)));
        }
        let short = (length() - place("block")).lt(block());
        turn.push(Statement::Let("end".into(), short.select(length(), place("block") + block())));
        let point = Statement::Let("q".into(), place("run") * length() + place("e"));
        let for_each = |name: &str, from: Expr, below: Expr, step: Expr, body: Vec<Statement>| {
            Statement::For(For { name: name.into(), ty: t, from, below, step, unroll: Unroll::Free, body })
        };
        let points = [vec![point], self.row_point(), inner].concat();
        turn.push(for_each("e", place("block") + thread().to(t), place("end"), number(32, t), points));
        for f in &phase.body.folds {
            let (dtype, own) = (self.fold_dtype(f.slot), self.partial_result("f", f, number(0, Type::I32)));
            let all = Routine::FoldThreads(f.op, dtype, 32).of([own]);
            let first = Routine::FirstLane(dtype).of([all]);
            turn.push(Statement::Do(Action::Push { tree: format!("tree{}", f.slot), value: first }));
        }
        let blocks = for_each("block", number(0, t), length(), block(), turn);
        let mut out = vec![for_each("run", number(0, t), runs, number(1, t), vec![blocks])];
        for f in &phase.body.folds {
            let of = Expr::Taken { tree: format!("tree{}", f.slot), identity: Box::new(self.identity(f)) };
            out.push(Statement::Set(self.value_at(f.slot, number(0, Type::I32)), of));
        }
        out
    }

    /// Declares registers of the elements that only this pass loads of a held row.
    fn row_arrays(&self, phase: &Phase, steps: u8) -> Vec<Statement> {
        let wants = wanted(&phase.body);
        let own = (0..self.first_buffer).filter(|&k| wants[k].load && !self.cached(k) && !self.is_ahead(k));
        own.map(|k| self.accesses.elements(k, self.v, &[steps.into()])).collect()
    }

    /// Whether an access is loaded before the points of a pass, since all points read the same element. Not in passes
    /// over tiles.
    fn is_ahead(&self, k: usize) -> bool {
        self.tile.get().is_none()
            && k < self.first_buffer
            && self.body.accesses[k].per_row
            && self.body.accesses[k].operand.is_some()
            && matches!(self.class.space.addressing[k], Addressing::Strided { .. })
    }

    /// Emits the statements for a point of a row; `q` is the index of its vector.
    pub(super) fn steps(&self, phase: &Phase, index: usize) -> Steps {
        let body = &phase.body;
        let position = |k: usize| self.position(k, true);
        let [point, step] = self.point();
        let stand = Stand { position: &position, point, step, lanes: self.v };
        let held_row = self.held_row().is_some();
        let mut steps = self.fetches(body, index, &stand);
        let point_stores = || body.stores.iter().filter(|s| (s.access as usize) < self.first_buffer);
        steps.inner.extend(point_stores().map(|s| self.accesses.result(s.access as usize, self.v)));
        let k = [Rows::step()];
        let names = Names {
            load: &|access| match (access as usize).checked_sub(self.first_buffer) {
                Some(b) if held_row => self.buffered(b),
                Some(b) => {
                    let dtype = self.phases.buffers[b];
                    let place = Box::new(self.buffer_place());
                    Expr::Unpack(dtype, Box::new(Expr::Scratch(Type::Stored(dtype), format!("b{b}"), place)))
                }
                None if held_row && !self.is_ahead(access as usize) => self.accesses.element(access as usize, &k),
                None => self.accesses.element(access as usize, &[]),
            },
            index: &|k, dtype| self.accesses.position(k as usize, dtype, &[]),
            valid: &|k| self.accesses.valid(k as usize, &[]),
            gather: &|k, offset, inside| self.accesses.gathered(k as usize, &stand, [offset, inside, self.fault()]),
            value: &|slot, _| self.value(slot),
            scalar: &|s| self.scalar(s),
            reciprocal: &|s| self.reciprocal(s),
            native: self.native,
        };
        let mut each = statements(body, &names);
        for f in &body.folds {
            let ordered = self.class.strategy == RowStrategy::Ordered;
            let own = || self.partial_result("f", f, if ordered { number(0, Type::I32) } else { lane() });
            let both = Routine::Combine(f.op, self.fold_dtype(f.slot)).of([own(), value(body, f.node)]);
            each.push(Statement::Set(own(), both));
        }
        each.extend(body.stores.iter().map(|s| self.keep(body, s)));
        steps.inner.push(crate::kernels::reduce::emit::lanes(self.v, each));
        let stores: Vec<Statement> = point_stores().map(|s| self.accesses.store(s.access as usize, &stand)).collect();
        if !stores.is_empty() {
            steps.inner.push(Statement::when(live(), stores));
        }
        steps
    }

    /// Emits a pass's loads before the loop over points, its loads of a vector of points ahead of their computation,
    /// and index arithmetic during the computation.
    fn fetches(&self, body: &Body, index: usize, stand: &Stand<'_>) -> Steps {
        let held_row = self.held_row().is_some();
        let first_pass = |k: usize| self.loading(k).next() == Some(index);
        let mut steps = Steps { ahead: vec![], fetched: vec![], inner: vec![] };
        let of_row = |k: usize| self.position(k, false);
        let (point, step) = (stand.point.clone(), stand.step.clone());
        let row = Stand { position: &of_row, point, step, lanes: stand.lanes };
        let wants = wanted(body);
        let used = wants.iter().enumerate().take(self.first_buffer).filter(|(_, w)| w.load || w.position);
        let arrays = |k: usize, want: Wanted| self.accesses.arrays(k, want, self.v, &[]);
        for (k, &want) in used {
            if self.is_ahead(k) {
                steps.ahead.extend(arrays(k, want));
                steps.ahead.extend(self.accesses.fetch(k, want, &row, [&[], &[]]));
            } else if held_row {
                // Loads come first. Indices are recomputed where they are used, which takes fewer registers than
                // holding them.
                let (load, place) = (Wanted { position: false, ..want }, Wanted { load: false, ..want });
                if want.load && (!self.cached(k) || first_pass(k)) {
                    steps.fetched.extend(arrays(k, Wanted::default()));
                    steps.fetched.extend(self.accesses.fetch(k, load, stand, [&[Rows::step()], &[]]));
                }
                if want.position {
                    steps.inner.extend(arrays(k, place));
                    steps.inner.extend(self.accesses.fetch(k, place, stand, [&[], &[]]));
                }
            } else {
                steps.fetched.extend(arrays(k, want));
                steps.fetched.extend(self.accesses.fetch(k, want, stand, [&[], &[]]));
            }
        }
        steps
    }

    /// Register with an element of a buffer.
    fn buffered(&self, b: usize) -> Expr {
        let ty = Type::Held(self.phases.buffers[b]);
        Expr::Element { of: format!("b{b}"), at: vec![Rows::step(), lane()], ty }
    }

    /// Emits the store of a node of a point: to a buffer of the row, or to the registers of its vector's store.
    fn keep(&self, body: &Body, s: &Store) -> Statement {
        let node = value(body, s.node);
        match (s.access as usize).checked_sub(self.first_buffer) {
            Some(b) if self.held_row().is_some() => Statement::Set(self.buffered(b), node),
            Some(b) => {
                let value = Expr::Pack(self.phases.buffers[b], Box::new(node));
                let set = Statement::SetScratch { name: format!("b{b}"), at: self.buffer_place(), value };
                Statement::when(live(), vec![set])
            }
            None => self.accesses.set(s.access as usize, node),
        }
    }
}
