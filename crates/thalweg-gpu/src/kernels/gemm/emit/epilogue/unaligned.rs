//! Epilogue that stores accumulators unchanged to rows of any alignment, such as those of an odd length, and neither
//! loads nor stores anything else.
//!
//! In: accumulators in shared memory. Out: statements by which a warp stores row after row; each thread has two
//! neighbours that are an aligned pair in memory. A row that begins or ends within a pair has a single element there.
//! The single elements of all rows of a warp are stored together at the end, so that the loop over rows has no
//! branches.

use crate::emit::access::Stand;
use crate::emit::nodes::value;
use crate::ir::{Expr, Statement, Type};
use crate::kernels::gemm::emit::epilogue::{CHANGE_PLACES, Epilogue, PassThreads, SUM_AT, u32};

/// Number of rows whose loads and stores a warp interleaves.
const BESIDE: u32 = 4;

impl Epilogue<'_> {
    /// Emits the epilogue for unaligned rows; `None` for results of another form, and where passes are
    /// a loop.
    pub(super) fn stored_unaligned(&self) -> Option<Vec<Statement>> {
        let (class, epilogue) = (self.part.class, self.epilogue);
        if epilogue.staged {
            return None;
        }
        let body = &class.body;
        let k = class.stored_unaligned(epilogue.result.1)?;
        let store = body.stores[0];
        let access = body.accesses[k];
        let size = access.dtype.size() as u32;
        let warps = match epilogue.by {
            PassThreads::Block(threads) => threads / 32,
            PassThreads::Warp { .. } => 1,
            PassThreads::Thread { .. } => return None,
        };
        let beside = BESIDE.min(epilogue.rows / warps);
        if beside == 0 || epilogue.rows % (beside * warps) != 0 {
            return None;
        }
        let pass = Expr::name("pass", Type::I32);
        let ty = Type::Stored(access.dtype);
        let nodes = self.part.compute(
            body,
            &Stand {
                position: &|_| unreachable!("nothing is gathered"),
                point: pass.clone(),
                step: pass.clone(),
                lanes: 1,
            },
            &|k| self.part.sum(&Expr::name("own", Type::Held(epilogue.sums)), k),
            &[],
        );
        let own_warp = if warps == 1 { Expr::Number(0, Type::U32) } else { u32("t") / Expr::Number(32, Type::U32) };
        let vector = Statement::StoreVector {
            operand: format!("p{k}"),
            at: Expr::name("there_to", Type::I64),
            from: ("z".into(), vec![]),
        };
        let address = self.part.params.space.accesses[k].base.read(Type::U64);
        let name = format!("p{k}");
        let text = self
            .text(&pass)
            .ty("Result", ty)
            .number("BESIDE", beside)
            .number("WARPS", warps)
            .number("STEP", beside * warps)
            .number("PAIRS", epilogue.columns / 64)
            .number("EDGES", 2 * epilogue.rows / warps)
            .number("SIZE", size)
            .value("address", address)
            .operand(&name, ty)
            .value("own_warp", own_warp)
            .value("begins", self.part.position(k).to(Type::I64))
            .value("packed", Expr::Pack(access.dtype, Box::new(value(body, store.node))))
            .given("nodes", nodes)
            .given("store_vector", vec![vector]);
        let unroll = if self.is_warp() { "rolled" } else { "unroll" };
        let passes = format!("for pass: i32 in 0..PASSES {unroll} {{");
        let rows = ROWS.replace("PLACE;", PLACE).replace("to_row[", &format!("{name}["));
        let mut out = self.part.accesses().declare(&|i| i == k);
        out.push(self.declare_accumulators());
        out.extend(text.statements(&[SUM_AT, &passes, CHANGE_PLACES, &rows, "}"]));
        Some(out)
    }
}

/// DSL text that computes the coordinates of row `line`, whether the row exists (`there`), and its offset in memory
/// (`begin`).
const PLACE: &str = r"
let x = Index(row0) + Index(line), y = Index(column0);
let row = x, column = y, there = x < Index(m);
decomposed;
let begin = begins, odd = u32((address / SIZE + u64(begin)) % 2);
";

const ROWS: &str = r"
let most = n - column0 < COLUMNS ? i32(n - column0) : COLUMNS;
for first_line: u32 in own_warp..ROWS by STEP {
    var to: i64[BESIDE];
    var taken: Sum[BESIDE][PAIRS][2];
    var last: i32[BESIDE];
    for o: u32 in 0..BESIDE unroll {
        let line = first_line + o * WARPS;
        PLACE;
        let first = t % 32 * 2 + odd;
        to[o] = begin + i64(first);
        last[o] = there ? most - i32(first) - 1 : 0;
        for c: u32 in 0..PAIRS unroll {
            taken[o][c][0] = sum_at(line * PITCH + first + c * 64);
            taken[o][c][1] = sum_at(line * PITCH + first + c * 64 + 1);
        }
    }
    for o: u32 in 0..BESIDE unroll {
        for c: u32 in 0..PAIRS unroll {
            var z: Result[2];
            for v: i32 in 0..2 unroll {
                let own = taken[o][c][v];
                nodes;
                z[v] = packed;
            }
            let there_to = to[o] + i64(c * 64);
            if i32(c * 64) < last[o] { store_vector; }
        }
    }
}
// The first and the last element of each row, where it is alone.
for e: u32 in t % 32..EDGES by 32 {
    let line = own_warp + e / 2 * WARPS;
    PLACE;
    let at = e % 2 == 1 ? most - 1 : 0;
    let alone = e % 2 == 1 ? (most - i32(odd)) % 2 == 1 : odd == 1;
    let own = sum_at(line * PITCH + u32(at < 0 ? 0 : at));
    nodes;
    if there && alone && most > 0 { to_row[begin + i64(at)] = packed; }
}
";
