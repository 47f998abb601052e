//! Pairwise rows: each row combines a row of one operand with a row of another (distances between points).
//!
//! A thread has several neighbouring rows of one operand and one row of the other; neighbouring threads have different
//! rows of the latter. So each load of the latter serves all of the thread's pairs, and loads of the former are uniform
//! in a warp. Threads do not divide rows, and only accumulators are held from one vector to the next.

use crate::body::{Wanted, wanted};
use crate::emit::access::Stand;
use crate::emit::index::decompose;
use crate::emit::nodes::{Names, statements, value};
use crate::ir::{Expr, For, Routine, Statement, Type, Unroll};
use crate::kernels::reduce::emit::{Rows, lane, lanes, number};
use thalweg_kernel::{Fold, Phase};

/// Variable with the index of the current row among the thread's rows.
fn own() -> Expr {
    Expr::name("u", Type::I32)
}

impl Rows<'_> {
    /// Emits the coordinates of a thread's rows: its first row has the coordinates `i0` and `i1`.
    pub(super) fn stand_in_pairs(&self, rows: u8) -> Vec<Statement> {
        let t = self.t;
        let set = |name: &str, value: Expr| Statement::Let(name.into(), value);
        let place = |name: &str| self.place(name);
        let row = Expr::Block.to(t) * number(256, t) + Expr::Thread.to(t);
        let mut out = vec![
            set("row", row),
            Statement::when(place("row").ge(place("rows")), vec![Statement::Return]),
            set("t", number(0, Type::U32)),
            set("many", self.params.chunks_or_extent.read(t)),
        ];
        out.extend(decompose(&self.class.space, &self.params.body.space, 0..2, place("row"), "g"));
        out.push(set("i0", place("g0") * number(rows.into(), t)));
        out.push(set("i1", place("g1")));
        out
    }

    /// Emits the loop over a thread's rows. Iterations beyond the last row repeat that row with `live` false.
    fn each_row(&self, rows: u8, body: Vec<Statement>) -> Statement {
        let t = self.t;
        let place = |name: &str| self.place(name);
        let mut inner = vec![
            Statement::Let("own_row".into(), place("g0") * number(rows.into(), t) + own().to(t)),
            Statement::Let("live".into(), place("own_row").lt(place("many"))),
            Statement::Let(
                "i0".into(),
                crate::kernels::reduce::emit::live().select(place("own_row"), place("many") - number(1, t)),
            ),
        ];
        inner.extend(body);
        Statement::count("u", rows.into(), Unroll::All, inner)
    }

    /// Accumulator register of the thread's row `u` at lane `v`.
    fn in_pairs(&self, f: &Fold) -> Expr {
        let ty = Type::Held(self.fold_dtype(f.slot));
        Expr::Element { of: format!("pairs{}", f.slot), at: vec![own(), lane()], ty }
    }

    /// Emits the only pass, and the once-a-row phases after it. If bit `k` of `still` is set, access `k` has the same
    /// element for all rows of a thread.
    pub(super) fn pairs(&self, rows: u8, still: u64) -> Vec<Statement> {
        let (pass, once) = self.phases.list.split_first().expect("rows have a pass");
        let mut out = vec![];
        for f in &pass.body.folds {
            let ty = Type::Held(self.fold_dtype(f.slot));
            let shape = vec![rows.into(), self.v as u32];
            out.push(Statement::Registers { name: format!("pairs{}", f.slot), ty, shape });
            let clear = Statement::Set(self.in_pairs(f), self.identity(f));
            out.push(Statement::count("u", rows.into(), Unroll::All, vec![lanes(self.v, vec![clear])]));
        }
        let (from, below, step) = (number(0, self.t), self.place("n"), number(1, self.t));
        let body = self.vector_of_pairs(pass, rows, still);
        out.push(Statement::For(For { name: "q".into(), ty: self.t, from, below, step, unroll: Unroll::Never, body }));
        let mut each = vec![];
        for f in &pass.body.folds {
            let dtype = self.fold_dtype(f.slot);
            each.push(self.registers("f", f, self.v));
            each.push(lanes(self.v, vec![Statement::Set(self.partial_result("f", f, lane()), self.in_pairs(f))]));
            let all = Routine::FoldLanes(f.op, dtype).of([Expr::Whole(format!("f{}", f.slot), Type::Held(dtype))]);
            each.push(Statement::Set(self.value_at(f.slot, number(0, Type::I32)), all));
        }
        each.extend(once.iter().filter_map(|phase| self.once(phase, Some(None))));
        out.push(self.each_row(rows, each));
        out
    }

    /// Emits the loop body for a vector of points of all rows of a thread: all loads are before the first use of one.
    fn vector_of_pairs(&self, pass: &Phase, rows: u8, still: u64) -> Vec<Statement> {
        let body = &pass.body;
        let is_still = |k: usize| still >> k & 1 == 1;
        let position = |k: usize| self.position(k, true);
        let [point, step] = self.point();
        let stand = Stand { position: &position, point, step, lanes: self.v };
        let loaded: Vec<usize> = wanted(body).iter().enumerate().filter(|(_, w)| w.load).map(|(k, _)| k).collect();
        let want = Wanted { load: true, ..Wanted::default() };
        let mut out = self.row_point();
        for &k in loaded.iter().filter(|k| is_still(**k)) {
            out.push(self.accesses.elements(k, self.v, &[]));
            out.extend(self.accesses.fetch(k, want, &stand, [&[], &[]]));
        }
        let mut moving = vec![];
        for &k in loaded.iter().filter(|k| !is_still(**k)) {
            out.push(self.accesses.elements(k, self.v, &[rows.into()]));
            moving.extend(self.accesses.fetch(k, want, &stand, [&[own()], &[]]));
        }
        out.push(self.each_row(rows, moving));
        let none = |what: &str| -> ! { unreachable!("a pass over pairs has no {what}") };
        let names = Names {
            load: &|k| match is_still(k as usize) {
                true => self.accesses.element(k as usize, &[]),
                false => self.accesses.element(k as usize, &[own()]),
            },
            index: &|_, _| none("positions"),
            valid: &|_| none("masks"),
            gather: &|_, _, _| none("gathers"),
            value: &|_, _| none("values of rows"),
            scalar: &|s| self.scalar(s),
            reciprocal: &|s| self.reciprocal(s),
            native: self.native,
        };
        let mut each = statements(body, &names);
        for f in &body.folds {
            let both = Routine::Combine(f.op, self.fold_dtype(f.slot)).of([self.in_pairs(f), value(body, f.node)]);
            each.push(Statement::Set(self.in_pairs(f), both));
        }
        out.push(Statement::count("u", rows.into(), Unroll::All, vec![lanes(self.v, each)]));
        out
    }
}
