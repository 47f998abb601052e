//! Online passes: two passes over a row fused by rescaling identities ([`thalweg_kernel::online_passes`]), for sums of
//! powers of deviations from a mean.
//!
//! In: the phases to fuse. Out: statements that traverse the row in tiles, which threads hold in registers. In every
//! [`TILES`]-th tile a thread computes the mean of its own elements, and what depends on it once a row. Its elements of
//! that tile and the next ones are shifted by this mean, which is near enough to the row's mean that little cancels. So
//! the second pass's folds take each element as it is loaded, like the first's. Their results over [`TILES`] tiles
//! become a *state*, and states are combined over tiles, threads and blocks.
//!
//! Inner-axis rows only, which later passes read again. Deviations from the row's maximum or minimum, and values
//! selected by it, are not fused: they would have to be recomputed whenever a new maximum or minimum comes, which took
//! twice as long as two passes.

use crate::body::{Wanted, wanted};
use crate::emit::access::Stand;
use crate::ir::{Action, Expr, For, Routine, Statement, Type, Unroll};
use crate::kernels::reduce::emit::folds::leave_in_warps;
use crate::kernels::reduce::emit::{Rows, number, thread};
use crate::kernels::reduce::{RowSplit, RowStrategy};
use thalweg_ir::{DType, ElementOp, Scalar};
use thalweg_kernel::{Fold, OnlineFold, OnlinePasses, Rescaling, Shift};

/// Number of vectors per thread in a tile of a row.
const TILE: u8 = 4;

/// Variable with the state of the online fold `l`.
fn state(l: usize) -> Expr {
    Expr::Name(format!("s{l}"), Type::State(l as u16))
}

/// Variable that counts elements, a u32.
fn counted(name: &str) -> Expr {
    Expr::name(name, Type::U32)
}

/// Float constant of a dtype.
fn float(dtype: DType, value: f64) -> Expr {
    Expr::Constant(dtype, Scalar::Float(value).to_bits(dtype))
}

impl Rows<'_> {
    /// Emits the pass that fuses two passes, and the once-a-row phases between them.
    pub(super) fn online_pass(&self, online: &OnlinePasses) -> Statement {
        let (first, second) = (online.phases.start, online.phases.end - 1);
        let [one, two] = [first, second].map(|p| &self.phases.list[p]);
        let RowStrategy::Reread { group } = self.class.strategy else {
            unreachable!("rows that are {:?} have no online passes", self.class.strategy)
        };
        let mut out: Vec<Statement> = self.fold_registers(one).chain(self.fold_registers(two)).collect();
        out.extend(self.clear_folds(&one.body.folds));
        out.extend(self.clear_folds(&two.body.folds));
        for l in 0..online.list.len() {
            out.push(Statement::Variable(format!("s{l}"), Routine::NoState(l as u16).of([])));
        }
        out.push(Statement::Variable("many".into(), number(0, Type::U32)));
        let tiles = self.tiles(online, group);
        out.push(tiles);
        out.push(Statement::when(self.is_some("many"), self.put(online, &two.body.folds)));
        out.extend(self.fold_inner(one, group, "f"));
        out.extend(self.combine_states(online, group, "s"));
        out.extend(self.online_partials(online, group));
        for phase in &self.phases.list[first + 1..second] {
            out.extend(self.once(phase, Some(None)));
        }
        for (l, fold) in online.list.iter().enumerate() {
            out.push(Statement::Set(self.row_value(fold.second), self.result(l, fold)));
        }
        let folds: Vec<Fold> = one.body.folds.iter().copied().chain(self.own_folds(online)).collect();
        out.extend(self.leave_values(&folds, second));
        Statement::Scope(out)
    }

    fn row_value(&self, slot: u16) -> Expr {
        self.value_at(slot, number(0, Type::I32))
    }

    fn is_some(&self, name: &str) -> Expr {
        number(0, Type::U32).lt(counted(name))
    }

    /// Emits the loop over the tiles of a row.
    fn tiles(&self, online: &OnlinePasses, group: u16) -> Statement {
        let (first, second) = (online.phases.start, online.phases.end - 1);
        let [one, two] = [first, second].map(|p| &self.phases.list[p]);
        let v = number(self.v, Type::U32);
        let more = |name: &str| Statement::Set(counted(name), counted(name) + v.clone());
        self.tile.set(Some(TILE));
        let mut tile = self.loads(&[first, second], group);
        let mut mean = vec![
            Statement::when(self.is_some("many"), self.put(online, &two.body.folds)),
            Statement::Variable("few".into(), number(0, Type::U32)),
        ];
        // Folds of the first pass over this tile alone, in registers of their own; the row's accumulators are kept.
        mean.extend(self.fold_registers(one));
        mean.extend(self.clear_folds(&one.body.folds));
        mean.push(self.over_tile(Some(more("few")), self.steps(one, first).inner, group));
        for f in &one.body.folds {
            mean.push(self.reduced_lanes(f));
        }
        mean.extend(self.localised(online, &one.body.folds));
        self.tile.set(None);
        for phase in &self.phases.list[first + 1..second] {
            mean.extend(self.once(phase, None));
        }
        mean.push(Statement::Set(counted("many"), number(0, Type::U32)));
        let turn = || Expr::name("turn", Type::I32);
        let tiles = self.class.online.map_or(1, |o| o.tiles);
        let every = (turn() % number(tiles.into(), Type::I32)).same(number(0, Type::I32));
        tile.push(Statement::when(every, mean));
        // Folds of the second pass restart whenever a new mean is computed.
        let again = counted("many").same(number(0, Type::U32));
        tile.push(Statement::when(again, self.clear_folds(&two.body.folds)));
        self.tile.set(Some(TILE));
        tile.push(self.over_tile(None, self.steps(one, first).inner, group));
        tile.push(self.over_tile(Some(more("many")), self.steps(two, second).inner, group));
        self.tile.set(None);
        tile.push(Statement::Set(turn(), turn() + number(1, Type::I32)));
        // Threads whose position in the last tile is beyond the row's end have no elements of it.
        let below = self.place("stop") - thread().to(self.t);
        let tiles = For {
            name: "tile_of_row".into(),
            ty: self.t,
            from: self.place("begin"),
            below,
            step: number(TILE as usize * group as usize, self.t),
            unroll: Unroll::Free,
            body: tile,
        };
        let turn = Statement::Variable("turn".into(), number(0, Type::I32));
        Statement::Scope(vec![turn, Statement::For(tiles)])
    }

    /// Emits the combination of the sums of the tiles shifted by one mean into the states.
    fn put(&self, online: &OnlinePasses, folds: &[Fold]) -> Vec<Statement> {
        let mut out: Vec<Statement> = folds.iter().map(|f| self.reduced_lanes(f)).collect();
        for (l, fold) in online.list.iter().enumerate() {
            let both = Routine::CombineStates(l as u16).of([state(l), self.state_of(l, fold)]);
            out.push(Statement::Set(state(l), both));
        }
        out
    }

    /// Emits the reduction of a fold over the lanes of a thread, to one value.
    fn reduced_lanes(&self, f: &Fold) -> Statement {
        let dtype = self.fold_dtype(f.slot);
        let own = Expr::Whole(format!("f{}", f.slot), Type::Held(dtype));
        Statement::Set(self.row_value(f.slot), Routine::FoldLanes(f.op, dtype).of([own]))
    }

    /// Folds of the second pass whose results go into states of online folds.
    fn own_folds(&self, online: &OnlinePasses) -> Vec<Fold> {
        let second = &self.phases.list[online.phases.end - 1].body;
        let is_own = |f: &Fold| online.list.iter().any(|l| l.second == f.slot);
        second.folds.iter().copied().filter(is_own).collect()
    }

    fn clear_folds(&self, folds: &[Fold]) -> Vec<Statement> {
        folds.iter().map(|f| self.cleared("f", f, self.v)).collect()
    }

    /// Emits the loop over a thread's vectors of a tile.
    fn over_tile(&self, before: Option<Statement>, inner: Vec<Statement>, group: u16) -> Statement {
        let t = self.t;
        let own = Rows::step().to(t) * number(group.into(), t) + thread().to(t);
        let inside = before.into_iter().chain(self.row_point()).chain(inner).collect();
        let turn = vec![
            Statement::Let("q".into(), self.place("tile_of_row") + own),
            Statement::when(self.place("q").lt(self.place("stop")), inside),
        ];
        Statement::count("k", TILE.into(), Unroll::All, turn)
    }

    /// Emits the loads of all elements of a tile that the passes in `passes` use.
    fn loads(&self, passes: &[usize], group: u16) -> Vec<Statement> {
        let mut want = vec![Wanted::default(); self.first_buffer];
        for &number in passes {
            for (all, own) in want.iter_mut().zip(wanted(&self.phases.list[number].body)) {
                all.load |= own.load;
            }
        }
        let position = |k: usize| self.position(k, true);
        let [point, step] = self.point();
        let stand = Stand { position: &position, point, step, lanes: self.v };
        let (mut out, mut fetched) = (vec![], vec![]);
        for (k, &want) in want.iter().enumerate().filter(|(_, w)| w.load) {
            out.push(self.accesses.elements(k, self.v, &[TILE.into()]));
            fetched.extend(self.accesses.arrays(k, Wanted::default(), self.v, &[]));
            fetched.extend(self.accesses.fetch(k, want, &stand, [&[Rows::step()], &[]]));
        }
        if !fetched.is_empty() {
            out.push(self.over_tile(None, fetched, group));
        }
        out
    }

    /// Emits the replacement of the first pass's sums by means over the thread's elements.
    fn localised(&self, online: &OnlinePasses, folds: &[Fold]) -> Vec<Statement> {
        let mut out = vec![];
        for f in folds {
            let (slot, dtype) = (f.slot, self.fold_dtype(f.slot));
            let is_mean =
                |l: &OnlineFold| matches!(l.how, Rescaling::Shifted { from: Shift::Mean(s), .. } if s == slot);
            if online.list.iter().any(is_mean) {
                let most = float(dtype, if dtype == DType::F64 { f64::MAX } else { f32::MAX as f64 });
                let few = counted("few").to(Type::Held(dtype));
                let mean = Routine::OwnMean(dtype).of([self.row_value(slot), few, self.points(dtype), most]);
                out.push(Statement::Set(self.row_value(slot), mean));
            }
        }
        out
    }

    /// Expression of the number of points of a row, as a float.
    fn points(&self, dtype: DType) -> Expr {
        self.place("n").to(Type::Held(dtype)) * float(dtype, self.v as f64)
    }

    /// Expression of the state of the elements that were shifted by the current mean.
    fn state_of(&self, l: usize, fold: &OnlineFold) -> Expr {
        let Rescaling::Shifted { lower, .. } = &fold.how else { unreachable!("what is chosen takes two passes") };
        let many = counted("many").to(Type::Held(fold.dtype));
        let lower = lower.iter().map(|slot| slot.map_or(many.clone(), |slot| self.row_value(slot)));
        let all = [many.clone(), self.row_value(fold.shift)].into_iter().chain(lower);
        Routine::State(l as u16).of(all.chain([self.row_value(fold.second)]))
    }

    /// Expression of an online fold's final value, from the row's state.
    fn result(&self, l: usize, fold: &OnlineFold) -> Expr {
        let (dtype, shift) = (fold.dtype, self.row_value(fold.shift));
        match fold.how {
            Rescaling::Shifted { exact: true, from: Shift::Mean(first), .. } => {
                let digits = float(dtype, if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 });
                let both = vec![self.row_value(first), self.points(dtype)];
                let mean = Expr::Operation(ElementOp::Div, dtype, both);
                Routine::AboutMean(dtype).of([state(l), shift, mean, digits])
            }
            _ => Routine::About(dtype).of([state(l), shift]),
        }
    }

    /// Emits the reduction of states over a group of threads: all of them get the result.
    fn combine_states(&self, online: &OnlinePasses, group: u16, tag: &str) -> Vec<Statement> {
        let mut out = vec![];
        let name = |l: usize| format!("{tag}states{l}");
        for l in 0..online.list.len() {
            let ty = Type::State(l as u16);
            out.push(Statement::Set(state(l), Routine::StatesOfWarp(l as u16, group).of([state(l)])));
            out.push(Statement::Shared { name: name(l), ty, shape: vec![u32::from(group / 32)] });
            out.push(leave_in_warps(name(l), ty, state(l)));
        }
        out.push(Statement::Barrier);
        for l in 0..online.list.len() {
            let parts = Expr::Whole(name(l), Type::State(l as u16));
            out.push(Statement::Set(state(l), Routine::StatesOfBlock(l as u16, group).of([parts])));
        }
        out
    }

    /// Emits, in a split stage, the stores of the blocks' states and partial results, and their combination by the last
    /// block.
    fn online_partials(&self, online: &OnlinePasses, group: u16) -> Vec<Statement> {
        if self.class.split() != RowSplit::Exchanged {
            return vec![];
        }
        let one = &self.phases.list[online.phases.start];
        let name = |l: usize| format!("states{l}");
        let place = |chunk: &str| {
            let chunks = counted("chunks").to(Type::I64);
            self.place("row").to(Type::I64) * chunks + counted(chunk).to(Type::I64)
        };
        let mut out: Vec<Statement> = (0..online.list.len())
            .map(|l| {
                let param = self.params.states[l].slot();
                Statement::Operand { name: name(l), ty: Type::State(l as u16), param }
            })
            .collect();
        let leave = |l| Statement::Do(Action::StoreState { operand: name(l), at: place("chunk"), value: state(l) });
        out.extend(self.leave_partials(&one.body.folds, (0..online.list.len()).map(leave).collect()));
        out.extend(self.gather_partials(one));
        for l in 0..online.list.len() {
            let other = Expr::LoadState(l as u16, name(l), Box::new(place("c")));
            let both = Routine::CombineStates(l as u16).of([state(l), other]);
            out.push(Statement::Set(state(l), Routine::NoState(l as u16).of([])));
            out.push(Statement::For(For {
                name: "c".into(),
                ty: Type::U32,
                from: thread(),
                below: counted("chunks"),
                step: number(group.into(), Type::U32),
                unroll: Unroll::Free,
                body: vec![Statement::Set(state(l), both)],
            }));
        }
        out.extend(self.combine_states(online, group, "g"));
        out
    }
}
