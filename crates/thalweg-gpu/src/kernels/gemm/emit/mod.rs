//! Fused GEMM: tiles of the result, whose operands A and B (the *factors*) are copied or computed into shared memory a
//! few terms at a time, and whose accumulators are passed to the epilogue through shared memory.
//! docs/gpu-contractions.md explains the design.
//!
//! In: a [`GemmClass`]. Out: a program. Nothing here knows sizes; `gemm::select` chooses the class of a contraction.
//!
//! * `factor`: copies or computes an operand into shared memory; `staged`: copies through registers; `strided`: an
//!   operand with more dimensions than a matrix. `multiply`: the arithmetic. `epilogue`: the epilogue. `part`: bodies of prologues and epilogue.

pub mod epilogue;
pub mod factor;
mod multiply;
pub mod part;
mod staged;
mod strided;

use crate::dsl::Text;
use crate::emit::loops::Native;
use crate::ir::{Action, Expr, For, Kernel, Layout, Name, Statement, Type, Unroll};
use crate::kernels::gemm::emit::factor::Factor;
use crate::kernels::gemm::params::{BatchParams, GemmParams, ProblemParams};
use crate::kernels::gemm::{GemmClass, Math, Split, Tile};
use thalweg_ir::{DType, ElementOp};

/// Element type in shared memory: the memory format where tensor cores take bf16 or f16.
pub(crate) fn element_of(class: &GemmClass) -> Type {
    if class.math.is_narrow() { Type::Stored(class.dtype) } else { Type::Held(class.dtype) }
}

/// Lines (rows of A, columns of B) of operand `number`: the number of lines of a tile, the index of the tile's first
/// line (an i32), and the number of lines of the whole operand (an i64).
pub(crate) fn lines(class: &GemmClass, number: usize) -> (u32, Expr, Expr) {
    let (tall, first, most) = if number == 0 { (class.tile.m, "row0", "m") } else { (class.tile.n, "column0", "n") };
    (tall, Expr::name(first, Type::I64).to(Type::I32), Expr::name(most, Type::I64))
}

/// DSL function for the offset of a 16-byte chunk from the beginning of a stage, in elements. A stage consists of
/// groups of `outers` lines of 128 bytes; the chunk begins at element `inner` (a multiple of eight) of line `outer`.
/// 128-byte swizzle as `wgmma` reads it: the chunk's index is XORed with the line's index modulo eight.
const IN_LINES: &str = r"
fn in_lines(outer, outers, inner) = inner / LINE * (outers * LINE) + outer * LINE + ((inner % LINE / 8 ^ outer & 7) * 8);
";

/// Name with an index as suffix, of an operand or a dimension: `s0`.
pub(crate) fn of(name: &str, number: usize) -> Name {
    format!("{name}{number}")
}

/// Declares an array over a range of the dynamic shared memory.
pub(crate) fn shared_part(name: Name, ty: Type, elements: u32, at: u32) -> Statement {
    Statement::SharedPart { name, ty, shape: vec![elements], of: "shared".into(), at }
}

/// Emits the computation of a tile's coordinates from its linear index: `product` of the batch, `row0`, `column0`.
pub fn which_tile(params: &ProblemParams, number: Expr, [m, n]: [u32; 2]) -> Vec<Statement> {
    let tiles = [&params.row_tiles, &params.column_tiles].map(|tiles| tiles.read(Type::U32));
    let [high, wide] = tiles;
    Text::new()
        .value("row_tiles", high)
        .value("column_tiles", wide)
        .value("number", number)
        .number("M", m)
        .number("N", n)
        .statements(&[r"
// Tiles that are computed side by side share rows and columns: they go in groups of eight tiles of rows.
let high = row_tiles, wide = column_tiles, product = number / (high * wide), tile = number % (high * wide);
let first = tile / (8 * wide) * 8, rows = min(high - first, 8), within = tile - first * wide;
let row0 = i64(first + within % rows) * M, column0 = i64(within / rows) * N;
"])
}

/// Emits the offset of product `product` of the batch in each operand: `batch0`, `batch1`, …, of type `ty`.
pub(crate) fn batches_of(factors: usize, batch: &[BatchParams], ty: Type) -> Vec<Statement> {
    let (mut out, mut rest) = (vec![], Expr::name("product", Type::U32));
    let mut moved = vec![vec![]; factors];
    for (d, own) in batch.iter().enumerate().rev() {
        let name = of("in_batch", d);
        out.push(Statement::Split { name: name.clone(), of: rest, param: own.size.slot() });
        for (stride, moved) in own.strides.iter().zip(&mut moved) {
            moved.push(Expr::Remainder(name.clone()).to(ty) * stride.read(ty));
        }
        rest = Expr::Quotient(name);
    }
    out.extend(moved.into_iter().enumerate().map(|(f, all)| Statement::Let(of("batch", f), Expr::sum(all, ty))));
    out
}

/// Emits the advance to the next of `stages` pipeline stages. After the last stage, the first one follows and the phase
/// flips.
pub(crate) fn next_place(place: &str, phase: &str, stages: u32) -> Vec<Statement> {
    let text = Text::new().number("STAGES", stages);
    let [own, phase] = [place, phase].map(|name| Expr::name(name, Type::U32));
    text.variable("place", own)
        .variable("phase", phase)
        .statements(&["place += 1; if place == STAGES { place = 0; phase ^= 1; }"])
}

/// Registers of a multiprocessor, and maximum registers of a consumer thread.
const REGISTERS: u32 = 65536;
const MAX_REGISTERS: u32 = 240;

/// Registers per consumer thread of `groups` warpgroups, if the producer warpgroup keeps only `less` (`setmaxnreg`).
/// All warpgroups share the block's allocation at launch, which is the same for each thread: a warpgroup that requests
/// more than is left waits forever.
pub(crate) fn registers(groups: u32, less: u32) -> u32 {
    let eights = |n: u32| n / 8 * 8;
    let first = eights(REGISTERS / (128 * (groups + 1)));
    eights((first * (groups + 1) - less) / groups).min(MAX_REGISTERS)
}

/// Emits nested loops over a thread's accumulators. `body` gets the loop indices, and the accumulator's linear index.
pub(crate) fn each_sum(shape: &[u32], body: impl FnOnce(Vec<Expr>, Expr) -> Vec<Statement>) -> Vec<Statement> {
    let index = |d: usize| Expr::name(of("u", d), Type::I32);
    let at: Vec<Expr> = (0..shape.len()).map(index).collect();
    let size = |d: usize| Expr::Number(shape[d].into(), Type::I32);
    let number = (1..shape.len()).fold(index(0), |n, d| n * size(d) + index(d));
    let (from, step) = (Expr::Number(0, Type::I32), Expr::Number(1, Type::I32));
    (0..shape.len()).rev().fold(body(at, number), |body, d| {
        let (from, step) = (from.clone(), step.clone());
        let turns = For { name: of("u", d), ty: Type::I32, from, below: size(d), step, unroll: Unroll::All, body };
        vec![Statement::For(turns)]
    })
}

/// Emitter of a tiled GEMM.
struct Tiles<'a> {
    class: &'a GemmClass,
    params: &'a GemmParams,
    layout: &'a Layout,
    /// Dimensions of the register array `sum`, which holds a thread's accumulators.
    shape: Vec<u32>,
    factors: [Factor<'a>; 2],
}

/// Builds the kernel of a class key.
pub fn kernel(class: &GemmClass, native: Native) -> Kernel {
    let (params, layout) = GemmParams::new(class);
    let factors = [0, 1].map(|f| Factor::new(class, &params, f, native));
    let tiles = Tiles { class, params: &params, layout: &layout, shape: multiply::shape(class), factors };
    let mut body = tiles.begin();
    if class.split != Some(Split::Added) {
        body.extend(tiles.turns());
    }
    if class.split.is_some() {
        body.extend(tiles.reduce_splits());
    }
    if class.split != Some(Split::Stored) {
        let epilogue = class.epilogue();
        body.extend(epilogue::statements(
            &epilogue,
            (&params.result, &params.problem.fault),
            native,
            multiply::store_accumulators(class),
        ));
    }
    Kernel {
        name: "contraction",
        block: class.tile.threads(),
        blocks: Some(class.tile.blocks),
        params: layout,
        definitions: multiply::definitions(class),
        body,
    }
}

impl Tiles<'_> {
    fn sum(&self) -> Type {
        Type::Held(self.class.sums)
    }

    /// Emits statements that set all accumulators to 0.
    fn cleared(&self) -> Vec<Statement> {
        let zero = Expr::Constant(self.class.sums, 0);
        each_sum(&self.shape, |at, _| {
            vec![Statement::Set(Expr::Element { of: "sum".into(), at, ty: self.sum() }, zero)]
        })
    }

    /// Emits the statements before the main loop: coordinates of the tile, and declarations.
    fn begin(&self) -> Vec<Statement> {
        let class = self.class;
        let Tile { m, n, k, stages, .. } = class.tile;
        let mut out = vec![Statement::Shared { name: "shared".into(), ty: Type::Stored(DType::U8), shape: vec![] }];
        let text = Text::new()
            .params(self.layout)
            .number("TERMS", k)
            .holds("SPLIT", matches!(class.split, Some(Split::Exchanged | Split::Stored)))
            .holds("ADDED", class.split == Some(Split::Added));
        out.extend(text.statements(&[r"
let m = param rows, n = param columns, k = param terms, t = thread;
when SPLIT {
    // Several blocks share the terms of a tile.
    let shares = param split.splits, share = block % shares, own_tile = block / shares;
    let first_step = i32(share * param split.steps), end_step = first_step + i32(param split.steps);
    let steps = min(end_step, i32((k + (TERMS - 1)) / TERMS));
} else when ADDED {
    let shares = param split.splits, own_tile = block;
} else {
    let steps = i32((k + (TERMS - 1)) / TERMS);
}
"]));
        let number = if class.split.is_some() { Expr::name("own_tile", Type::U32) } else { Expr::Block };
        out.extend(which_tile(&self.params.problem, number, [m, n]));
        out.extend(batches_of(2, &self.params.batch, Type::I64));
        if class.split != Some(Split::Added) {
            let (left, element) = (stages * class.layout(0).all, element_of(class));
            out.push(shared_part("s0".into(), element, left, 0));
            out.push(shared_part("s1".into(), element, stages * class.layout(1).all, left * class.element_size()));
            out.extend(self.factors.iter().flat_map(Factor::declared));
        }
        out.push(Statement::Registers { name: "sum".into(), ty: self.sum(), shape: self.shape.clone() });
        out.extend(self.cleared());
        out
    }

    /// Emits the main loop over the terms, software-pipelined with `stages` steps in flight.
    fn turns(&self) -> Vec<Statement> {
        let (class, factors) = (self.class, &self.factors);
        let stages = class.tile.stages;
        let i32 = |name: &str| Expr::name(name, Type::I32);
        let of_both = |f: &dyn Fn(&Factor) -> Vec<Statement>| factors.iter().flat_map(f).collect::<Vec<_>>();
        let first = if class.split.is_some() { i32("first_step") } else { Expr::Number(0, Type::I32) };
        let first_of = |s: Expr| if class.split.is_some() { i32("first_step") + s } else { s };
        let prepared = i32("i") + Expr::Number(stages.into(), Type::I32);
        let text = Text::new()
            .number("STAGES", stages)
            .number("BEFORE", stages - 1)
            .number("WAITS", stages - 2)
            .holds("ASYNC", !class.is_staged())
            .holds("WARPGROUP", class.math == Math::Warpgroup)
            .value("FIRST", first)
            .value("steps", i32("steps"))
            .given("ahead", of_both(&|f| [f.early(first_of(i32("s")), i32("s")), f.late(i32("s"))].concat()))
            .given("loop_ahead", of_both(&|f| f.early(i32("next"), i32("to"))))
            .given("loop_behind", of_both(&|f| f.late(i32("to"))))
            .given("prepare", of_both(&|f| f.prepare(prepared.clone(), i32("from"))))
            .given("multiply", multiply::step(class));
        text.statements(&[r"
for s: i32 in 0..BEFORE unroll {
    if FIRST + s < steps { ahead; }
    when ASYNC { copies_commit; }
}
var from = i32(0), to = i32(BEFORE);
for i: i32 in FIRST..steps {
    when ASYNC { copies_wait(WAITS); }
    when WARPGROUP { async_fence; }
    barrier;
    let next = i + BEFORE;
    // Warpgroups multiply while the next steps are asked for.
    when WARPGROUP { multiply; }
    if next < steps { loop_ahead; }
    when ASYNC { copies_commit; }
    when WARPGROUP { warpgroup_wait(0); } else { multiply; }
    if next < steps { loop_behind; }
    prepare;
    from = from + 1 == STAGES ? 0 : from + 1;
    to = to + 1 == STAGES ? 0 : to + 1;
}
when ASYNC { copies_wait(0); }
"])
    }

    /// Emits the split-K reduction: every block stores its partial accumulators in scratch memory, by thread, and the
    /// last block to finish adds them all in order, or a second launch. The other blocks exit here.
    fn reduce_splits(&self) -> Vec<Statement> {
        let (class, ty) = (self.class, self.sum());
        let (threads, all) = (class.tile.threads(), class.sums_of_thread() * class.tile.threads());
        let sum = |at: &[Expr]| Expr::Element { of: "sum".into(), at: at.to_vec(), ty };
        let other = |at: &[Expr]| Expr::Element { of: "other".into(), at: at.to_vec(), ty };
        // Offset of an accumulator of split `s`.
        let place = |s: &str, number: Expr| {
            let share = Expr::name(s, Type::U32).to(Type::I64) * Expr::Number(all.into(), Type::I64);
            let within = (number * Expr::Number(threads.into(), Type::I32)).to(Type::I64);
            Expr::name("own", Type::I64) + share + within
        };
        let leave = each_sum(&self.shape, |at, number| {
            vec![Statement::SetScratch { name: "left".into(), at: place("share", number), value: sum(&at) }]
        });
        let take = each_sum(&self.shape, |at, number| {
            let found = Expr::Fresh(ty, "left".into(), Box::new(place("s", number)));
            vec![Statement::Set(other(&at), found)]
        });
        let add = each_sum(&self.shape, |at, _| {
            let both = Expr::Operation(ElementOp::Add, class.sums, vec![sum(&at), other(&at)]);
            vec![Statement::Set(sum(&at), both)]
        });
        let others = Statement::Registers { name: "other".into(), ty, shape: self.shape.clone() };
        let text = Text::new()
            .ty("Sum", ty)
            .params(self.layout)
            .number("ALL", all)
            .holds("EXCHANGED", class.split == Some(Split::Exchanged))
            .holds("STORED", class.split == Some(Split::Stored))
            .holds("ADDED", class.split == Some(Split::Added))
            .value("t", Expr::name("t", Type::U32))
            .value("shares", Expr::name("shares", Type::U32))
            .value("own_tile", Expr::name("own_tile", Type::U32))
            .given("leave", leave)
            .given("clear", self.cleared())
            .given("add_share", [vec![others], take, add].concat());
        text.statements(&[r"
scratch left: Sum = param split.partials;
let own = i64(own_tile) * i64(shares) * ALL + i64(t);
when EXCHANGED {
leave;
fence;
shared last_share: u32[1];
barrier;
if t == 0 {
    scratch counters: u32 = param split.counters;
    let before = atomic_add(counters[own_tile], 1);
    last_share[0] = before == shares - 1 ? u32(1) : 0;
    if before == shares - 1 { counters[own_tile] = 0; }
    fence;
}
barrier;
if last_share[0] == 0 { return; }
}
when STORED { leave; } else {
    when EXCHANGED { clear; }
    for s: u32 in 0..shares { add_share; }
}
"])
    }
}

/// Wraps a routine call as a list of one statement.
pub(crate) fn routine(action: Action) -> Vec<Statement> {
    vec![Statement::Do(action)]
}

#[cfg(test)]
mod tests {
    use super::registers;

    #[test]
    fn registers_of_consumers_and_producer_fit_a_block() {
        assert_eq!([(2, 24), (3, 32), (4, 24)].map(|(groups, less)| registers(groups, less)), [240, 160, 112]);
    }
}
