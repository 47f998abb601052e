//! Epilogue of a tile: its body runs on the accumulators, a pass at a time.
//!
//! Accumulators go through shared memory, where neighbouring threads take neighbouring columns whatever thread computed
//! them. So the epilogue's other loads and its stores access whole cache lines. Either all threads of a block run a
//! pass together, some rows at a time, or each warp runs passes of its own.
//!
//! A warp may compute out of bounds, too (`warp`). Accumulators that are stored unchanged to rows of any alignment are
//! stored in pairs (`stored_unaligned`). With interleaved columns of B, threads own vectors of the result, and
//! accumulators stay in registers (`interleaved`).

mod interleaved;
mod unaligned;
mod warp;

use crate::body::{Wanted, wanted};
use crate::dsl::Text;
use crate::emit::access::{Stand, lane_number};
use crate::emit::loops::Native;
use crate::emit::nodes::value;
use crate::ir::{Expr, Name, Statement, Type, Unroll};
use crate::kernels::gemm::emit::part::BodyEmitter;
use crate::kernels::gemm::emit::shared_part;
use crate::kernels::gemm::{EpilogueShape, PassThreads};
use crate::operands::BodyParams;
use crate::params::FaultAddress;

/// Maximum number of vectors that each thread of a warp loads at a time, before it processes the first.
const MAX_AHEAD: u32 = 8;
/// Maximum number of warps of a block.
const MAX_WARPS: u32 = 32;

/// Emits the epilogue after the main loop; `store_accumulators` stores the accumulators of pass `pass` to `sums`. The
/// epilogue uses the i64 variables `m`, `n`, `row0` and `column0` (by warps, `warp_row`), the u32 variables `product`
/// and `t`, and the byte array `shared`.
pub fn statements(
    epilogue: &EpilogueShape<'_>,
    (params, fault): (&BodyParams, &FaultAddress),
    native: Native,
    store_accumulators: Vec<Statement>,
) -> Vec<Statement> {
    let part = BodyEmitter { class: &epilogue.result.0, params, fault, tag: "", native };
    let result = Epilogue { epilogue, part, store_accumulators };
    result.stored_unaligned().or_else(|| result.by_warp()).unwrap_or_else(|| result.by_points())
}

/// Emits the epilogue on accumulators in registers: statements before the main loop, and statements after the main
/// loop. `within` wraps the statements that read kernel arguments.
pub fn interleaved(
    epilogue: &EpilogueShape<'_>,
    (params, fault): (&BodyParams, &FaultAddress),
    native: Native,
    within: &dyn Fn(Vec<Statement>) -> Vec<Statement>,
) -> [Vec<Statement>; 2] {
    let part = BodyEmitter { class: &epilogue.result.0, params, fault, tag: "", native };
    Epilogue { epilogue, part, store_accumulators: vec![] }.interleaved(within)
}

/// Emits stores of the accumulators of each warp's 16 rows to shared memory, in `eights` blocks of eight columns.
pub fn store_accumulators_of_rows(epilogue: &EpilogueShape<'_>, eights: u32) -> Vec<Statement> {
    Text::new()
        .number("EIGHTS", eights)
        .number("PITCH", epilogue.pitch())
        .value("t", u32("t"))
        .elements("sum", Type::Held(epilogue.sums))
        .elements("sums", Type::Held(epilogue.sums))
        .statements(&[r"
for j: u32 in 0..EIGHTS unroll {
    for e: u32 in 0..4 unroll {
        sums[(t / 32 * 16 + t % 32 / 4 + e / 2 * 8) * PITCH + j * 8 + t % 4 * 2 + e % 2] = sum[j][e];
    }
}
"])
}

/// Emits stores of the accumulators of a warp's pass to shared memory.
pub fn store_accumulators_of_pass(
    epilogue: &EpilogueShape<'_>,
    cases: Vec<((Name, Vec<Expr>), u32)>,
) -> Vec<Statement> {
    let to = ("sums".into(), vec![u32("t") / Expr::Number(32, Type::U32)]);
    let (pass, pitch, eights) = (Expr::name("pass", Type::I32), epilogue.pitch(), epilogue.columns / 8);
    crate::kernels::gemm::emit::routine(crate::ir::Action::StoreAccumulators { pass, to, pitch, eights, cases })
}

fn i64(name: &str) -> Expr {
    Expr::name(name, Type::I64)
}

fn u32(name: &str) -> Expr {
    Expr::name(name, Type::U32)
}

struct Epilogue<'a> {
    epilogue: &'a EpilogueShape<'a>,
    part: BodyEmitter<'a>,
    store_accumulators: Vec<Statement>,
}

impl Epilogue<'_> {
    fn is_warp(&self) -> bool {
        matches!(self.epilogue.by, PassThreads::Warp { .. })
    }

    /// Index of a thread among the threads that run a pass, and the number of these threads.
    fn threads(&self) -> (Expr, u32) {
        match self.epilogue.by {
            PassThreads::Block(threads) => (u32("t"), threads),
            PassThreads::Warp { .. } | PassThreads::Thread { .. } => (u32("t") % Expr::Number(32, Type::U32), 32),
        }
    }

    /// Row and column of a pass's first element.
    fn origin(&self, pass: &Expr) -> [Expr; 2] {
        let number = |n: u32| Expr::Number(n.into(), Type::I32);
        let (rows, columns) = (self.epilogue.rows, self.epilogue.columns);
        match self.epilogue.by {
            PassThreads::Block(_) => [i64("row0") + (pass.clone() * number(rows)).to(Type::I64), i64("column0")],
            PassThreads::Warp { across, .. } => {
                let (high, wide) = (pass.clone() / number(across), pass.clone() % number(across));
                let row = i64("warp_row") + (high * number(64)).to(Type::I64);
                [row, i64("column0") + (wide * number(columns)).to(Type::I64)]
            }
            PassThreads::Thread { across } => {
                let (high, half) = (pass.clone() / number(2 * across), pass.clone() % number(2));
                let wide = pass.clone() / number(2) % number(across);
                let row = i64("warp_row") + (high * number(64) + half * number(8)).to(Type::I64);
                [row, i64("column0") + (wide * number(columns)).to(Type::I64)]
            }
        }
    }

    /// Declares the shared memory for accumulators.
    fn declare_accumulators(&self) -> Statement {
        let (ty, elements) = (Type::Held(self.epilogue.sums), self.epilogue.rows * self.epilogue.pitch());
        match self.epilogue.by {
            PassThreads::Block(_) => shared_part("sums".into(), ty, elements, 0),
            PassThreads::Thread { .. } => unreachable!("sums stay in registers"),
            PassThreads::Warp { at, .. } => {
                let shape = vec![MAX_WARPS, elements];
                Statement::SharedPart { name: "sums".into(), ty, shape, of: "shared".into(), at }
            }
        }
    }

    fn is_sums(&self, access: usize) -> bool {
        self.part.class.body.accesses[access].operand == Some(self.epilogue.result.1)
    }

    fn lanes(&self) -> u32 {
        self.part.class.space.lanes as u32
    }

    /// Declarations of the operands and index maps of the body's accesses.
    fn declared(&self) -> Vec<Statement> {
        let (body, wants) = (&self.part.class.body, wanted(&self.part.class.body));
        let stored = |k: usize| body.stores.iter().any(|s| s.access as usize == k);
        self.part.accesses().declare(&|k| !self.is_sums(k) && (stored(k) || wants[k] != Wanted::default()))
    }

    /// Accesses, except the accumulators, whose elements are loaded or whose indices are computed before the body.
    fn fetched(&self) -> Vec<(usize, Wanted)> {
        let wants = wanted(&self.part.class.body);
        let fetched = |&k: &usize| !self.is_sums(k) && (wants[k].load || wants[k].position);
        (0..wants.len()).filter(fetched).map(|k| (k, wants[k])).collect()
    }

    /// DSL environment of the epilogue, with the coordinates of pass `pass`.
    fn text(&self, pass: &Expr) -> Text<'static> {
        let (index, [row0, column0], (lane, threads)) = (self.part.index(), self.origin(pass), self.threads());
        let (rows, v) = (self.epilogue.rows, self.lanes());
        let wide = self.epilogue.columns / v;
        let place = ["row", "column"].map(|name| Expr::name(name, index));
        let [row, column] = place;
        Text::new()
            .ty("Index", index)
            .ty("Sum", Type::Held(self.epilogue.sums))
            .number("ROWS", rows)
            .number("PASSES", self.epilogue.passes)
            .number("COLUMNS", self.epilogue.columns)
            .number("PITCH", self.epilogue.pitch())
            .number("LANES", v)
            .number("WIDE", wide)
            .number("ALL", rows * wide)
            .number("THREADS", threads)
            .number("EACH", rows * wide / threads)
            .number("AHEAD", MAX_AHEAD.min(rows * wide / threads).max(1))
            .holds("WARP", self.is_warp())
            .value("t", u32("t"))
            .value("m", i64("m"))
            .value("n", i64("n"))
            .value("lane", lane)
            .value("row0", row0)
            .value("column0", column0)
            .elements("sums", Type::Held(self.epilogue.sums))
            .given("hand_on", self.store_accumulators.clone())
            .given("decomposed", self.part.decomposed([u32("product"), row, column]))
    }

    /// Calls `then` with the position of a thread's vector in the domain of the epilogue.
    fn with_stand<T>(&self, then: impl FnOnce(&Stand) -> T) -> T {
        let position = |k: usize| self.part.position(k);
        let at = |name: &str| Expr::name(name, self.part.index()).to(Type::I64);
        let point = (u32("product").to(Type::I64) * i64("m") + at("x")) * i64("n") + at("y");
        let step = Expr::Number(1, Type::I64);
        then(&Stand { position: &position, point, step, lanes: self.lanes() as usize })
    }

    /// Emits the body for a vector: `own` is the vector's accumulators, `number` its index in the arrays of loaded
    /// elements. Results are stored only if `inside` holds, or always without `inside`.
    fn compute(&self, own: Expr, number: &[Expr], inside: Option<Expr>) -> Vec<Statement> {
        let (accesses, body, v) = (self.part.accesses(), &self.part.class.body, self.lanes() as usize);
        let stores = || body.stores.iter().map(|s| (s.access as usize, s.node));
        let mut out: Vec<Statement> = stores().map(|(k, _)| accesses.result(k, v)).collect();
        let load = |k: u16| {
            if self.is_sums(k as usize) { self.part.sum(&own, k) } else { accesses.element(k as usize, number) }
        };
        let mut lane = self.with_stand(|stand| self.part.compute(body, stand, &load, number));
        lane.extend(stores().map(|(k, node)| accesses.set(k, value(body, node))));
        out.push(Statement::lanes(v, Unroll::All, lane));
        let kept = self.with_stand(|stand| stores().map(|(k, _)| accesses.store(k, stand)).collect::<Vec<_>>());
        match inside {
            Some(inside) => out.push(Statement::when(inside, kept)),
            None => out.extend(kept),
        }
        out
    }

    /// Emits an epilogue in which each thread processes its vectors one after the other.
    fn by_points(&self) -> Vec<Statement> {
        let (accesses, v) = (self.part.accesses(), self.lanes() as usize);
        let mut loads = vec![];
        for (k, wants) in self.fetched() {
            loads.extend(accesses.arrays(k, wants, v, &[]));
            loads.extend(self.with_stand(|stand| accesses.fetch(k, wants, stand, [&[], &[]])));
        }
        let own = Expr::Element { of: "own".into(), at: vec![lane_number()], ty: Type::Held(self.epilogue.sums) };
        let text = self.text(&Expr::name("pass", Type::I32));
        let text = text.given("loads", loads).given("compute", self.compute(own, &[], None));
        let (unroll, each) = match self.epilogue.by {
            PassThreads::Block(_) => ("unroll", "for c: u32 in lane..ALL by THREADS {"),
            PassThreads::Warp { .. } => ("rolled", "for u: u32 in 0..EACH unroll(AHEAD) { let c = lane + u * THREADS;"),
            PassThreads::Thread { .. } => unreachable!("sums stay in registers"),
        };
        let unroll = if self.epilogue.staged { "rolled" } else { unroll };
        let passes = format!("for pass: i32 in 0..PASSES {unroll} {{");
        let mut out = self.declared();
        out.push(self.declare_accumulators());
        out.extend(text.statements(&[SUM_AT, &passes, CHANGE_PLACES, each, POINT, "} }"]));
        out
    }
}

/// DSL function that reads an accumulator from shared memory.
const SUM_AT: &str = r"
fn sum_at(i) = WARP ? sums[t / 32][i] : sums[i];
";

/// DSL procedure that stores the accumulators of a pass to shared memory, between barriers.
const CHANGE_PLACES: &str = r"
when WARP { warp_barrier; } else { barrier; }
hand_on;
when WARP { warp_barrier; } else { barrier; }
";

const POINT: &str = r"
let line = c / WIDE, x = Index(row0) + Index(line);
if x < Index(m) {
    let first_lane = c % WIDE * LANES, y = Index(column0) + Index(first_lane);
    if y < Index(n) {
        let row = x, column = y / LANES;
        decomposed;
        loads;
        var own: Sum[LANES];
        for v: u32 in 0..LANES unroll { own[v] = sum_at(line * PITCH + first_lane + v); }
        compute;
    }
}
";
