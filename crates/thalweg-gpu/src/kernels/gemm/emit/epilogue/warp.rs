//! Epilogue of a warp on its own accumulators, pass by pass, where out-of-bounds elements may be computed, too.
//!
//! There are no branches around arithmetic: only loads and stores are guarded. So the compiler interleaves the elements
//! of two vectors, and loads of the next pass are in flight while this one computes. A warp is alone on its scheduler
//! there, so it would wait for every late load.

use crate::body::is_harmless;
use crate::emit::access::lane_number;
use crate::ir::{Expr, Statement, Type};
use crate::kernels::gemm::emit::epilogue::{CHANGE_PLACES, Epilogue, MAX_AHEAD, SUM_AT};

/// Number of vectors whose computations a thread interleaves.
const BESIDE: u32 = 2;

impl Epilogue<'_> {
    /// Emits the epilogue of a warp; `None` where its vectors are too many to be in flight together.
    pub(super) fn by_warp(&self) -> Option<Vec<Statement>> {
        let (epilogue, v) = (self.epilogue, self.lanes());
        let each = epilogue.rows * (epilogue.columns / v) / 32;
        if !self.is_warp() || !is_harmless(&self.part.class.body) || !(1..=MAX_AHEAD).contains(&each) {
            return None;
        }
        let (accesses, fetched) = (self.part.accesses(), self.fetched());
        let (pass, u) = (Expr::name("pass", Type::I32), Expr::name("u", Type::U32));
        let number: &[Expr] = if fetched.is_empty() { &[] } else { std::slice::from_ref(&u) };
        let place = |pass: &Expr| self.text(pass).value("u", u.clone()).statements(&[PLACE]);
        let fetch = |pass: &Expr| {
            let loads = self.with_stand(|stand| {
                fetched.iter().flat_map(|&(k, wants)| accesses.fetch(k, wants, stand, [number, number])).collect()
            });
            let mut out = place(pass);
            out.push(Statement::when(Expr::name("inside", Type::BOOL), loads));
            vec![Statement::Scope(out)]
        };
        let mut out = self.declared();
        out.push(self.declare_accumulators());
        let mut next = vec![];
        if !fetched.is_empty() {
            for &(k, wants) in &fetched {
                out.extend(accesses.arrays(k, wants, v as usize, &[each]));
            }
            let first = self.text(&pass).given("fetch", fetch(&Expr::Number(0, Type::I32)));
            out.extend(first.statements(&["for u: u32 in 0..EACH unroll { fetch; }"]));
            let behind = pass.clone() + Expr::Number(1, Type::I32);
            next.push(Statement::when(
                behind.clone().lt(Expr::Number(epilogue.passes.into(), Type::I32)),
                fetch(&behind),
            ));
        }
        let at = vec![Expr::name("o", Type::U32), lane_number()];
        let own = Expr::Element { of: "taken".into(), at, ty: Type::Held(epilogue.sums) };
        let text = self
            .text(&pass)
            .number("BESIDE", BESIDE.min(each))
            .given("place", place(&pass))
            .given("compute", self.compute(own, number, Some(Expr::name("inside", Type::BOOL))))
            .given("next", next);
        out.extend(text.statements(&[SUM_AT, "for pass: i32 in 0..PASSES rolled {", CHANGE_PLACES, VECTORS, "}"]));
        Some(out)
    }
}

const PLACE: &str = r"
let c = t % 32 + u * 32, line = c / WIDE, first_lane = c % WIDE * LANES;
let x = Index(row0) + Index(line), y = Index(column0) + Index(first_lane);
let inside = x < Index(m) && y < Index(n);
let row = x, column = y / LANES;
decomposed;
";

const VECTORS: &str = r"
for first_u: u32 in 0..EACH by BESIDE unroll {
    var taken: Sum[BESIDE][LANES];
    for o: u32 in 0..BESIDE unroll {
        let c = t % 32 + (first_u + o) * 32;
        for v: u32 in 0..LANES unroll { taken[o][v] = sum_at(c / WIDE * PITCH + c % WIDE * LANES + v); }
    }
    for o: u32 in 0..BESIDE unroll {
        let u = first_u + o;
        place;
        compute;
        next;
    }
}
";
