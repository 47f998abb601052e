//! Epilogue on accumulator registers. B's columns are interleaved in shared memory, so that each thread owns contiguous
//! columns of the result.
//!
//! A multiplication gives a thread two columns of every eight. The column of a line of B follows from its position in
//! shared memory alone, and a TMA copy stores lines in any order that strides can express. So a thread owns vectors of
//! the result, and loads and stores these: nothing goes through shared memory, and no thread waits. The first loads are
//! issued before the main loop.

use crate::emit::access::lane_number;
use crate::ir::{Action, Expr, Routine, Statement, Type};
use crate::kernels::gemm::emit::epilogue::{Epilogue, PassThreads};
use thalweg_ir::DType;

/// Bytes of epilogue loads that a thread has in flight, and maximum number of passes whose loads are in flight.
const AHEAD_BYTES: u32 = 64;
const MAX_AHEAD: u32 = 4;

impl Epilogue<'_> {
    /// Emits the statements before and after the main loop.
    pub(super) fn interleaved(&self, within: &dyn Fn(Vec<Statement>) -> Vec<Statement>) -> [Vec<Statement>; 2] {
        let (epilogue, v) = (self.epilogue, self.lanes());
        if let Some(access) = self.part.class.rounded(epilogue.result.1) {
            return [vec![], within(self.interleaved_unaligned(access))];
        }
        let PassThreads::Thread { across } = epilogue.by else { unreachable!("they are dealt") };
        let (accesses, fetched) = (self.part.accesses(), self.fetched());
        let number = |n: u32| Expr::Number(n.into(), Type::I32);
        let bytes: usize = fetched.iter().map(|f| accesses.list[f.0].dtype.size() * v as usize).sum();
        let ahead = (AHEAD_BYTES / (bytes as u32).max(1)).clamp(1, MAX_AHEAD).min(epilogue.passes);
        let pass = Expr::name("pass", Type::I32);
        let turn = [pass.clone() % number(ahead)];
        let turn: &[Expr] = if fetched.is_empty() { &[] } else { &turn };
        let place = |pass: &Expr| self.text(pass).statements(&[PLACE]);
        // Loads for pass `at`, to the registers of this pass.
        let fetch = |at: &Expr| {
            let loads = self.with_stand(|stand| {
                fetched.iter().flat_map(|&(k, wants)| accesses.fetch(k, wants, stand, [turn, turn])).collect()
            });
            let mut out = place(at);
            out.push(Statement::when(Expr::name("inside", Type::BOOL), loads));
            vec![Statement::Scope(out)]
        };
        let arrays = fetched.iter().flat_map(|&(k, wants)| accesses.arrays(k, wants, v as usize, &[ahead]));
        let mut before: Vec<Statement> = arrays.collect();
        let mut next = vec![];
        if !fetched.is_empty() {
            let first = self.text(&pass).number("AHEAD", ahead).given("fetch", fetch(&pass));
            let mut own = self.declared();
            own.extend(first.statements(&["for pass: i32 in 0..AHEAD unroll { fetch; }"]));
            before.push(Statement::Scope(within(own)));
            let behind = pass.clone() + number(ahead);
            next.push(Statement::when(behind.clone().lt(number(epilogue.passes)), fetch(&behind)));
        }
        let (half, wide) = (pass.clone() % number(2), pass.clone() / number(2) % number(across));
        let lane = lane_number();
        let eight = wide * number(v / 2) + lane.clone() / number(2);
        let at = vec![pass.clone() / number(2 * across), eight, half * number(2) + lane % number(2)];
        let own = Expr::Element { of: "sum".into(), at, ty: Type::Held(epilogue.sums) };
        let text = self
            .text(&pass)
            .given("place", place(&pass))
            .given("compute", self.compute(own, turn, Some(Expr::name("inside", Type::BOOL))))
            .given("next", next);
        let mut behind = self.declared();
        behind.extend(text.statements(&["for pass: i32 in 0..PASSES unroll { place; compute; next; }"]));
        [before, within(behind)]
    }

    /// Emits stores of rounded accumulators to rows of any alignment. The last tile is not interleaved, and is stored
    /// element by element.
    fn interleaved_unaligned(&self, access: usize) -> Vec<Statement> {
        let PassThreads::Thread { across } = self.epilogue.by else { unreachable!("they are dealt") };
        let dtype = self.part.class.body.accesses[access].dtype;
        let (name, ty) = (format!("p{access}"), Type::Stored(dtype));
        let pass = Expr::name("pass", Type::I32);
        let begins = self.part.position(access).to(Type::I64);
        let store = Statement::Do(Action::StoreInterleaved {
            operand: name.clone(),
            at: Expr::name("begin", Type::I64),
            from: "words".into(),
            kept: Expr::name("there", Type::BOOL),
        });
        let pair = move |x: &[Expr]| Routine::Pair(dtype).of([x[0].clone(), x[1].clone()]);
        let packed = move |x: &[Expr]| {
            let narrow = Expr::Cast(DType::F32, dtype, Box::new(x[0].clone()));
            Expr::Pack(dtype, Box::new(narrow))
        };
        let text = self
            .text(&pass)
            .number("BLOCKS", across)
            .number("HALVES", self.epilogue.passes / across)
            .number("TILE", across * self.epilogue.columns)
            .number("EIGHTS", across * 4)
            .operand("result", ty)
            .elements("sum", Type::Held(self.epilogue.sums))
            .value("begins", begins)
            .value("warp_row", crate::kernels::gemm::emit::epilogue::i64("warp_row"))
            .value("column0", crate::kernels::gemm::emit::epilogue::i64("column0"))
            .function("pair", pair)
            .function("packed", packed)
            .given("store", vec![store]);
        let source = ANYWHERE.replace("result[", &format!("{name}["));
        let mut out = self.part.accesses().declare(&|i| i == access);
        let text = text.operand(&name, ty);
        out.extend(text.statements(&[&source]));
        out
    }
}

const ANYWHERE: &str = r"
for half: i32 in 0..HALVES unroll {
    let x = Index(warp_row) + Index(half / 2 * 64 + half % 2 * 8) + Index(t % 32 / 4), y = Index(column0);
    let row = x, column = y, there = x < Index(m);
    decomposed;
    let begin = begins;
    if column0 + TILE > n {
        for e: i32 in 0..EIGHTS unroll {
            for v: i32 in 0..2 unroll {
                let one = i64(e * 8 + v) + i64(t % 4 * 2);
                if there && column0 + one < n { result[begin + one] = packed(sum[half / 2][e][half % 2 * 2 + v]); }
            }
        }
    } else {
        var words: u32[BLOCKS][4];
        for b: i32 in 0..BLOCKS unroll {
            for w: i32 in 0..4 unroll {
                words[b][w] = pair(sum[half / 2][b * 4 + w][half % 2 * 2], sum[half / 2][b * 4 + w][half % 2 * 2 + 1]);
            }
        }
        store;
    }
}
";

const PLACE: &str = r"
let line = t % 32 / 4, first_lane = t % 4 * LANES;
let x = Index(row0) + Index(line), y = Index(column0) + Index(first_lane);
let inside = x < Index(m) && y < Index(n);
let row = x, column = y / LANES;
decomposed;
";
