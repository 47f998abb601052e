//! Flash attention: two products, with softmax or other weights between them in one kernel, `Σ_j w(q·k[j])·v[j]`, with
//! a loop over blocks of keys `j`.
//!
//! A warp has 16 rows. It computes the scores of a block of keys, which stay in its registers as accumulators of the
//! first product and become operand A of the second one. Nothing of size rows × keys is in any memory. Where weights
//! are exponentials, the accumulators are rescaled when a larger score comes (online softmax,
//! [`thalweg_kernel::Weights`]).
//!
//! In: a [`AttentionClass`]. Out: a program. docs/gpu-contractions.md explains the design.
//!
//! * `multiply`: the two products of a step. `score`, `scale`: bodies on a score (scale, mask). `softmax`: from scores
//!   to weights.
//! * `copied`, `tma`, `persistent`: copies of rows, keys and values, and the main loop.

mod copied;
mod multiply;
mod persistent;
mod scale;
mod score;
mod softmax;
mod tma;

use crate::dsl::Text;
use crate::emit::loops::Native;
use crate::ir::{Expr, Kernel, Layout, Statement, Type};
use crate::kernels::attention::AttentionClass;
use crate::kernels::attention::emit::scale::{Scaled, scaled};
use crate::kernels::attention::emit::score::Point;
use crate::kernels::attention::params::AttentionParams;
use crate::kernels::gemm::emit::factor::{Copy, Placing, Side};
use crate::kernels::gemm::emit::{batches_of, epilogue, shared_part};
use crate::kernels::gemm::{LINE_ELEMENTS, Math};
use thalweg_ir::DType;
use thalweg_kernel::CausalMask;

/// Emitter of a flash attention kernel.
struct Attention<'a> {
    class: &'a AttentionClass,
    params: &'a AttentionParams,
    layout: &'a Layout,
    native: Native<'a>,
    scaled: Option<Scaled>,
    points: Vec<Point>,
}

fn i32(name: &str) -> Expr {
    Expr::name(name, Type::I32)
}

fn u32(name: &str) -> Expr {
    Expr::name(name, Type::U32)
}

fn i64(name: &str) -> Expr {
    Expr::name(name, Type::I64)
}

fn f32(name: &str) -> Expr {
    Expr::name(name, Type::Held(DType::F32))
}

/// Builds the kernel of a class key.
pub fn kernel(class: &AttentionClass, native: Native) -> Kernel {
    let (params, layout) = AttentionParams::new(class);
    let scaled = scaled(class, &params);
    let mut streamed = Attention { class, params: &params, layout: &layout, native, scaled, points: vec![] };
    streamed.points = (0..class.points.len()).map(|n| streamed.point(n)).collect();
    let mut body = streamed.begin();
    body.extend(match &class.tma {
        Some(factors) if class.block.persistent => streamed.persistent(factors),
        Some(factors) => streamed.tma(factors),
        None => streamed.copied(),
    });
    Kernel {
        name: "contraction",
        block: class.threads(),
        blocks: Some(if class.block.persistent { 1 } else { class.block.blocks }),
        params: layout.clone(),
        definitions: multiply::definitions(class),
        body,
    }
}

impl Attention<'_> {
    /// Emits the statements before the main loop: ranges of shared memory, and indices of threads.
    fn begin(&self) -> Vec<Statement> {
        let class = self.class;
        let size = class.dtype.size() as u32;
        let element = self.element();
        let [rows, keys, values] = [0, 1, 2].map(|f| class.layout(f)[1]);
        let stages = class.stages();
        let mut out = vec![
            Statement::Shared { name: "shared".into(), ty: Type::Stored(DType::U8), shape: vec![] },
            shared_part("s0".into(), element, rows, 0),
            shared_part("s1".into(), element, stages * keys, rows * size),
            shared_part("s2".into(), element, stages * values, (rows + stages * keys) * size),
        ];
        out.extend(Text::new().params(self.layout).statements(&[r"
let m = param rows, n = param columns, keys = param keys, depth = param depth;
let t = thread, lane = t % 32, warp = t / 32;
"]));
        out
    }

    /// Type of the elements of rows (queries), keys and values, in memory and in shared memory.
    fn element(&self) -> Type {
        let dtype = self.class.dtype;
        if self.class.math == Math::Tf32 { Type::Held(dtype) } else { Type::Stored(dtype) }
    }

    /// DSL environment of flash attention: names and constants that every text uses.
    fn text(&self) -> Text<'static> {
        let class = self.class;
        let keys = class.block.keys;
        let values = ["row0", "column0", "m", "n", "keys", "depth"];
        let text = Text::new()
            .number("KEYS", keys)
            .number("EIGHTS", keys / 8)
            .number("FRAGMENTS", keys / 16)
            .number("COLUMNS", class.sizes[1] / 8)
            .number("STAGES", class.stages())
            .number("ROWS", class.rows())
            .number("WARPS", class.block.warps)
            .holds("ONCE", class.once.is_some())
            .holds("NARROW", class.math.is_narrow())
            .holds("TF32", class.math == Math::Tf32)
            .holds("WARPGROUP", class.math == Math::Warpgroup)
            .holds("SEEN", class.causal.is_some())
            .value("lowest", Expr::Constant(DType::F32, f32::NEG_INFINITY.to_bits().into()))
            .value("zero", Expr::Constant(DType::F32, 0))
            .value("one", Expr::Constant(DType::F32, 1f32.to_bits().into()))
            .elements("s", Type::Held(DType::F32))
            .elements("sum", Type::Held(DType::F32))
            .elements("w", Type::U32);
        let text = values.into_iter().fold(text, |text, name| text.value(name, i64(name)));
        ["t", "lane", "warp"].into_iter().fold(text, |text, name| text.value(name, u32(name)))
    }

    /// Emits the variables `batch0` to `batch2`, the tile's offsets along the batch of rows, keys and values.
    fn batches(&self) -> Vec<Statement> {
        batches_of(3, &self.params.batch, Type::I64)
    }

    /// Emits the computation of the number of keys that a block of rows attends to, and of the number of steps.
    fn visible_keys(&self) -> Vec<Statement> {
        let text = self.text().params(self.layout);
        let Some((point, CausalMask { moved, hidden, .. })) = &self.class.causal else {
            return text.statements(&["let seen = keys, steps = i32((seen + (KEYS - 1)) / KEYS);"]);
        };
        let scalar = |slot: u16| Expr::Scalar(DType::F32, self.params.points[*point as usize].scalar(slot));
        let of = |op, args| Expr::Operation(op, DType::F32, args);
        use thalweg_ir::ElementOp::{Abs, Eq, Lt, Trunc};
        let mut known = Expr::Constant(DType::Bool, 1);
        let mut moved_by = Expr::Number(0, Type::I64);
        if let Some(slot) = hidden {
            let lowest = Expr::Constant(DType::F32, f32::NEG_INFINITY.to_bits().into());
            known = of(Eq, vec![scalar(*slot), lowest]);
        }
        if let Some((slot, minus)) = moved {
            let by = scalar(*slot);
            let most = Expr::Constant(DType::F32, 16777216f32.to_bits().into());
            let near = of(Lt, vec![of(Abs, vec![by.clone()]), most]);
            let whole = of(Eq, vec![of(Trunc, vec![by.clone()]), by.clone()]);
            known = known.and(near).and(whole);
            let by = Expr::Cast(DType::F32, DType::I64, Box::new(by));
            moved_by = if *minus { Expr::Number(0, Type::I64) - by } else { by };
        }
        text.value("known", known).value("moved", moved_by).statements(&[
            VISIBLE_KEYS,
            r"
let hides = known;
let ahead = hides ? param causal_offset + moved : 0;
let seen = hides ? seen_keys(row0 + ROWS + ahead - 1) : keys;
let steps = i32((seen + (KEYS - 1)) / KEYS);
",
        ])
    }

    /// Emits the causal mask on accumulators: sets hidden scores to -∞, in blocks of keys that some rows of the
    /// warpgroup attend to only partly.
    fn mask_hidden(&self) -> Vec<Statement> {
        self.text().value("step", i32("step")).value("ahead", i64("ahead")).statements(&[r"
if i64(step + 1) * KEYS > row0 + i64(warp / 4 * 64) + ahead {
    for h: u32 in 0..2 unroll {
        // Keys below this one are visible, of each thread's first keys of eight.
        let below = row0 + i64(warp * 16 + lane / 4 + h * 8) + ahead - i64(step) * KEYS;
        let most = i32(below < 0 ? 0 : below < KEYS ? below : KEYS) - i32(lane % 4) * 2;
        for j: i32 in 0..EIGHTS unroll {
            for e: i32 in 0..2 unroll {
                if j * 8 + e >= most { s[j][2 * i32(h) + e] = lowest; }
            }
        }
    }
}
"])
    }

    /// Declarations of the registers and operands that the score bodies load.
    fn declared(&self) -> Vec<Statement> {
        self.points.iter().flat_map(|p| p.declared.clone()).collect()
    }

    /// Emits the loads of the score bodies for step `step`, a block of keys.
    fn fetch(&self, step: &Expr) -> Vec<Statement> {
        let all = self.fetch_points(step);
        if all.is_empty() { all } else { vec![Statement::Scope(all)] }
    }

    /// Emits the loads of the score bodies for step 0, guarded by the condition that the block has any step.
    fn first_fetch(&self) -> Vec<Statement> {
        let fetch = self.fetch(&Expr::Number(0, Type::I32));
        match fetch.is_empty() {
            true => fetch,
            false => vec![Statement::when(Expr::Number(0, Type::I32).lt(i32("steps")), fetch)],
        }
    }

    /// Emits the computation of weights from the scores of step `step`, with the loads of the next step in flight.
    fn make(&self) -> Vec<Statement> {
        let points = |of: &dyn Fn(&Point) -> Vec<Statement>| self.points.iter().flat_map(of).collect::<Vec<_>>();
        let compute = points(&|p| p.compute.clone());
        let mut out = match &self.class.causal {
            None => compute,
            Some(_) => {
                let mut whole = points(&|p| p.seen.as_ref().unwrap_or(&p.compute).clone());
                whole.extend(self.mask_hidden());
                vec![Statement::If(Expr::name("hides", Type::BOOL), whole, compute)]
            }
        };
        let next = i32("step") + Expr::Number(1, Type::I32);
        let ahead = self.fetch(&next);
        if !ahead.is_empty() {
            out.push(Statement::when(next.lt(i32("steps")), ahead));
        }
        out.extend(self.weigh());
        out
    }

    /// Emits the epilogue, which stores the results of a tile of rows.
    fn result(&self) -> Vec<Statement> {
        let epilogue = self.class.epilogue();
        let store_accumulators = if self.class.tma.is_some() {
            let case = |pass: u32| (("sum".into(), vec![]), pass * (LINE_ELEMENTS / 8));
            epilogue::store_accumulators_of_pass(&epilogue, (0..epilogue.passes).map(case).collect())
        } else {
            epilogue::store_accumulators_of_rows(&epilogue, self.class.sizes[1] / 8)
        };
        epilogue::statements(&epilogue, (&self.params.result, &self.params.fault), self.native, store_accumulators)
    }
}

/// Number of visible keys: `most` clamped to the number of keys.
const VISIBLE_KEYS: &str = r"
fn seen_keys(most) = most < 0 ? 0 : most < keys ? most : keys;
";
