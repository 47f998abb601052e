//! Warp-specialized persistent TMA GEMM: a producer thread copies the operands by TMA, and two consumer teams compute a
//! tile each, so that one multiplies while the other runs its epilogue (ping-pong).
//!
//! In: a [`TmaGemmClass`]. Out: a program. docs/gpu-contractions.md explains the design.
//!
//! A launch may have several products with one left operand and one shape (grouped GEMM): their arguments follow each
//! other, and tiles are numbered through all of them.

use crate::dsl::Text;
use crate::emit::loops::Native;
use crate::ir::{Action, Definition, Expr, Kernel, Layout, Routine, Shuffle, Statement, Type};
use crate::kernels::gemm::LINE;
use crate::kernels::gemm::emit::{batches_of, epilogue, next_place, registers, shared_part, which_tile};
use crate::kernels::gemm::tma::boxes::Boxes;
use crate::kernels::gemm::tma::params::TmaGemmParams;
use crate::kernels::gemm::tma::{TERMS, TmaFactor, TmaGemmClass};
use thalweg_ir::DType;

/// Registers per thread of the producer warpgroup.
const LESS: u32 = 24;

struct TmaGemm<'a> {
    class: &'a TmaGemmClass,
    params: TmaGemmParams,
    /// Layout of the arguments of all GEMMs of the launch.
    layout: Layout,
    /// Number of 64-bit argument words of one GEMM.
    words: usize,
}

/// Builds the kernel of a class key.
pub fn kernel(class: &TmaGemmClass, native: Native) -> Kernel {
    let (params, layout) = TmaGemmParams::new(class);
    let words = layout.words();
    let fed = TmaGemm { class, params, layout: layout.repeated(class.products as usize), words };
    let f16 = class.dtype == DType::F16;
    let [left, right] = fed.lines_contiguous();
    let epilogue = class.epilogue();
    let own = (&fed.params.result, &fed.params.problem.fault);
    let [before, result] = match class.interleaved() {
        0 => [vec![], fed.within(epilogue::statements(&epilogue, own, native, fed.store_accumulators()))],
        _ => epilogue::interleaved(&epilogue, own, native, &|own| fed.within(own)),
    };
    let mut body = fed.begin();
    let text = fed.text().given("before", before).given("result", result);
    body.extend(text.statements(&[BEGIN, COPIES, &fed.tiles(COMPUTE)]));
    Kernel {
        name: "contraction",
        block: class.threads(),
        blocks: Some(1),
        params: fed.layout.clone(),
        definitions: vec![Definition::Warpgroups { f16, left: Some(left), right, columns: class.tile.n }],
        body,
    }
}

impl TmaGemm<'_> {
    /// Whether lines (M of A, N of B) rather than terms (K) are contiguous in shared memory, for each operand.
    fn lines_contiguous(&self) -> [bool; 2] {
        self.class.factors.map(|f| !f.along)
    }

    fn several(&self) -> bool {
        self.class.products > 1
    }

    /// Wraps statements so that, in a grouped GEMM, they read the arguments of the product that the block computes now.
    fn within(&self, body: Vec<Statement>) -> Vec<Statement> {
        match self.several() {
            true => vec![Statement::Within(Expr::name("own_words", Type::U32), body)],
            false => body,
        }
    }

    /// Emits the declarations of ranges of shared memory: operands and mbarriers.
    fn begin(&self) -> Vec<Statement> {
        let (class, stages) = (self.class, self.class.tile.stages);
        let element = Type::Stored(class.dtype);
        let all = [0, 1].map(|f| stages * class.all(f));
        let barriers = class.barriers_at();
        vec![
            Statement::Shared { name: "shared".into(), ty: Type::Stored(DType::U8), shape: vec![] },
            shared_part("s0".into(), element, all[0], 0),
            shared_part("s1".into(), element, all[1], all[0] * 2),
            shared_part("full".into(), Type::U64, stages, barriers),
            // The mbarriers of the ping-pong schedule follow those of the stages.
            shared_part("empty".into(), Type::U64, stages + 2, barriers + 8 * stages),
            shared_part("turns".into(), Type::U64, 2, barriers + 16 * stages),
        ]
    }

    /// Emits stores of the accumulators of an epilogue pass from a warp's registers to shared memory.
    fn store_accumulators(&self) -> Vec<Statement> {
        let epilogue = self.class.epilogue();
        let lines_contiguous = self.class.tile.n / epilogue.columns;
        let case = |pass: u32| {
            let part = Expr::Number((pass / lines_contiguous).into(), Type::I32);
            (("sum".into(), vec![part]), pass % lines_contiguous * (epilogue.columns / 8))
        };
        epilogue::store_accumulators_of_pass(&epilogue, (0..epilogue.passes).map(case).collect())
    }

    /// Emits the TMA copies of a step of an operand, or (`rest`) of B's last lines, which do not fill a tile.
    fn copies(&self, number: usize, rest: bool) -> Vec<Statement> {
        let (class, params) = (self.class, &self.params);
        let factor = class.factors[number];
        let (factor, map) = match rest {
            true => {
                (TmaFactor { interleaved: 0, ..factor }, params.rest.as_ref().expect("a class with a rest has its map"))
            }
            false => (factor, &params.maps[number]),
        };
        let (line, lines) = if number == 0 { ("row0", class.tile.m) } else { ("column0", class.tile.n) };
        let slot = Expr::name("slot", Type::U32);
        let step = Expr::name("i", Type::I32) * Expr::Number(TERMS.into(), Type::I32);
        let boxes = Boxes {
            factor,
            number,
            batch: Type::U32,
            dims: &params.dims[number],
            map: map.slot(),
            counts: [lines, TERMS],
            first: [Expr::name(line, Type::I64), step],
            to: slot.clone() * Expr::Number(class.all(number).into(), Type::U32),
            barrier: ("full".into(), slot),
        };
        self.within(boxes.statements())
    }

    /// Emits the multiplications of a step. The 64 rows of an instruction are 64 lines of terms in shared memory
    /// (K-major), or 64 elements of each term's line (M-major).
    fn multiply(&self) -> Vec<Statement> {
        let class = self.class;
        let [left, right] = self.lines_contiguous();
        let step = |lines_contiguous: bool| if lines_contiguous { 16 * LINE } else { 32 };
        Text::new()
            .number("ALL0", class.all(0))
            .number("ALL1", class.all(1))
            .number("SLICE", TERMS * LINE)
            .number("STEPS", TERMS / 16)
            .number("PARTS", class.rows() / 64)
            .number("PART", 64 * LINE)
            .number("OWN", class.rows() * LINE)
            .number("STEP0", step(left))
            .number("STEP1", step(right))
            .number("COLUMNS", class.tile.n)
            .holds("TEAM", class.tile.team > 1)
            .holds("F16", class.dtype == DType::F16)
            .holds("ACROSS0", left)
            .holds("ACROSS1", right)
            .elements("s0", Type::Stored(class.dtype))
            .elements("s1", Type::Stored(class.dtype))
            .elements("sum", Type::Held(DType::F32))
            .value("slot", Expr::name("slot", Type::U32))
            .value("group", Expr::name("group", Type::U32))
            .value("i", Expr::name("i", Type::I32))
            .statements(&[r"
let x = matrix(s0[slot * ALL0], SLICE), y = matrix(s1[slot * ALL1], SLICE);
warpgroup_fence;
for p: u32 in 0..STEPS unroll {
    for part: u32 in 0..PARTS unroll {
        let own = (TEAM ? group % 2 * OWN : u32(0)) + part * PART + p * STEP0;
        warpgroup_multiply(F16, ACROSS0, ACROSS1, COLUMNS, sum[part], further(x, own), further(y, p * STEP1), i > 0 || p > 0);
    }
}
warpgroup_commit;
"])
    }

    /// Builds the DSL loop over the tiles of a block; `body` uses the tile's number.
    fn tiles(&self, body: &str) -> String {
        let numbers = match self.several() {
            true => {
                "for all: u32 in block..tiles * PRODUCTS by blocks {\nlet own_words = all / tiles * END, at = all % tiles;\n"
            }
            false => "for at: u32 in block..tiles by blocks {\n",
        };
        format!("{numbers}{body}\n}}")
    }

    fn text(&self) -> Text<'static> {
        let (class, params) = (self.class, &self.params);
        let (team, stages) = (class.tile.team, class.tile.stages);
        let maps = params.maps.iter().chain(&params.rest);
        let of_product = |n: usize| maps.clone().map(move |map| map.slot().repeated(n, &self.layout));
        let ahead = (0..class.products as usize).flat_map(of_product);
        let first_lane = Routine::Shuffle(Shuffle::From, Type::U32);
        let which = which_tile(&params.problem, Expr::name("at", Type::U32), [class.tile.m, class.tile.n]);
        let copies = || -> Vec<Statement> {
            let text = self.copy_text(which.clone(), batches_of(2, &params.batch, Type::U32));
            text.statements(&[&self.tiles(COPY)])
        };
        Text::new()
            .params(&self.layout)
            .number("TERMS", TERMS)
            .number("TEAM", team)
            .number("STAGES", stages)
            .number("WARPS", 4 * team)
            .number("LESS", LESS)
            .number("MORE", registers(2 * team, LESS))
            .number("ROWS", if team == 1 { 0 } else { class.rows() })
            .number("PARTS", class.rows() / 64)
            .number("EIGHTS", class.tile.n / 8)
            .number("PRODUCTS", class.products)
            .number("END", self.words as u32)
            .function("same_in_warp", move |x| first_lane.of([x[0].clone(), Expr::Number(0, Type::U32)]))
            .elements("full", Type::U64)
            .elements("empty", Type::U64)
            .elements("turns", Type::U64)
            .value("row0", Expr::name("row0", Type::I64))
            .given("maps_ahead", ahead.map(|map| Statement::Do(Action::TensorMapPrefetch(map))).collect())
            .given("copies", copies())
            .given("which", which.clone())
            .given("next", next_place("slot", "phase", stages))
            .given("multiply", vec![Statement::Scope(self.multiply())])
    }

    /// DSL environment of the producer thread, which issues the TMA copies.
    fn copy_text(&self, which: Vec<Statement>, batches: Vec<Statement>) -> Text<'static> {
        let class = self.class;
        Text::new()
            .number("STAGES", class.tile.stages)
            .number("PRODUCTS", class.products)
            .number("END", self.words as u32)
            .number("BYTES", (class.all(0) + class.all(1)) * 2)
            .elements("full", Type::U64)
            .elements("empty", Type::U64)
            .value("tiles", Expr::name("tiles", Type::U32))
            .value("steps", Expr::name("steps", Type::I32))
            .value("slot", Expr::name("slot", Type::U32))
            .value("phase", Expr::name("phase", Type::U32))
            .given("which", which)
            .given("batches", batches)
            .holds("REST", class.rest)
            .number("COLUMNS", class.tile.n)
            .value("n", Expr::name("n", Type::I64))
            .value("column0", Expr::name("column0", Type::I64))
            .given("copy_left", self.copies(0, false))
            .given("copy_right", self.copies(1, false))
            .given("copy_rest", if class.rest { self.copies(1, true) } else { vec![] })
            .given("next", next_place("slot", "phase", class.tile.stages))
    }
}

const BEGIN: &str = r"
let m = param rows, n = param columns, t = thread, group = same_in_warp(t / 128), team = group / TEAM;
let tiles = param tiles, steps = i32((param terms + (TERMS - 1)) / TERMS);
if t == 0 {
    for s: u32 in 0..STAGES { barrier_start(full[s], 1); }
    // Each warp arrives for itself when it has read a stage.
    for s: u32 in 0..STAGES + 2 { barrier_start(empty[s], WARPS); }
    barriers_started;
}
barrier;
// Steps of all tiles of the block cycle through the pipeline stages.
var slot = u32(0), phase = u32(0);
";

const COPIES: &str = r"
if team == 2 {
    registers_less(LESS);
    if t % 128 == 0 {
        maps_ahead;
        copies;
    }
    return;
}
registers_more(MORE);
var own = u32(0);
";

const COPY: &str = r"
which;
batches;
for i: i32 in 0..steps {
    barrier_wait(empty[slot], phase ^ 1);
    barrier_expect(full[slot], BYTES);
    copy_left;
    when REST {
        if column0 + COLUMNS > n { copy_rest; } else { copy_right; }
    } else { copy_right; }
    next;
}
";

/// Main loop of the consumers, in a ping-pong schedule: the first team computes the even tiles of the block, the second
/// the odd ones. One team multiplies while the other runs its epilogue.
const COMPUTE: &str = r"
if own % 2 != team {
    let behind = slot + u32(steps);
    phase ^= behind / STAGES & 1;
    slot = behind % STAGES;
} else {
    which;
    let warp_row = row0 + i64((ROWS > 0 ? group % 2 * ROWS : u32(0)) + t / 32 % 4 * 16);
    before;
    var sum: f32[PARTS][EIGHTS][4];
    var last = u32(0);
    // An mbarrier distinguishes a phase from the next one only: a team waits for no step before all warps of the other team
    // have waited for all of their own.
    barrier_wait(turns[team], (own / 2 & 1) ^ (team == 0 ? u32(1) : 0));
    for i: i32 in 0..steps {
        barrier_wait(full[slot], phase);
        if i + 1 == steps {
            warp_barrier;
            if t % 32 == 0 { barrier_arrive(turns[team ^ 1]); }
        }
        multiply;
        // The previous step's stage may be overwritten.
        if i > 0 {
            warpgroup_wait(1);
            if t % 32 == 0 { barrier_arrive(empty[last]); }
        }
        last = slot;
        next;
    }
    warpgroup_wait(0);
    if t % 32 == 0 { barrier_arrive(empty[last]); }
    result;
}
own += 1;
";
