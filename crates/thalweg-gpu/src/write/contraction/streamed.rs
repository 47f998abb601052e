//! Flash attention: two products, with softmax or other weights between them in one kernel, `Σ_j w(q·k[j])·v[j]`, with
//! a loop over blocks of keys `j`.
//!
//! A warp has 16 rows. It computes the scores of a block of keys, which stay in its registers as accumulators of the
//! first product and enter the second one as its left factor. Nothing of size rows × keys is in any memory. Where
//! weights are exponentials, the accumulators are rescaled when a larger score comes (online softmax,
//! [`thalweg_kernel::Weights`]).
//!
//! In: a [`StreamedClass`]. Out: a program. docs/gpu-contractions.md explains the design.
//!
//! * `multiply`: the two products of a step. `point`, `scaled`: bodies on a score (scale, mask). `weigh`: from scores
//!   to weights.
//! * `copied`, `feed`, `stay`: copies of rows, keys and values, and the main loop.

mod copied;
mod feed;
mod multiply;
mod point;
mod scaled;
mod stay;
mod weigh;

use super::factor::{Copy, Placing, Side};
use super::{batches_of, result, shared_part};
use crate::class::contraction::{LINE_ELEMENTS, Math};
use crate::class::streamed::{HEAD, StreamedClass, StreamedSlots};
use crate::ir::{Expr, Kernel, Statement, Type};
use crate::text::Text;
use crate::write::looped::Native;
use point::Point;
use scaled::{Scaled, scaled};
use thalweg_ir::DType;
use thalweg_kernel::CausalMask;

/// A kernel that is being generated.
struct Streamed<'a> {
    class: &'a StreamedClass,
    slots: &'a StreamedSlots,
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

/// The kernel.
pub fn kernel(class: &StreamedClass, native: Native) -> Kernel {
    let slots = StreamedSlots::new(class);
    let mut streamed = Streamed { class, slots: &slots, native, scaled: scaled(class, &slots), points: vec![] };
    streamed.points = (0..class.points.len()).map(|n| streamed.point(n)).collect();
    let mut body = streamed.begin();
    body.extend(match &class.fed {
        Some(factors) if class.block.stays => streamed.stays(factors),
        Some(factors) => streamed.fed(factors),
        None => streamed.copied(),
    });
    Kernel {
        name: "contraction",
        block: class.threads(),
        blocks: Some(if class.block.stays { 1 } else { class.block.blocks }),
        words: slots.end,
        definitions: multiply::definitions(class),
        body,
    }
}

impl Streamed<'_> {
    /// Prologue: ranges of shared memory, and numbers of threads.
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
        out.extend(Text::new().statements(&[r"
let m = i64(word 0), n = i64(word 1), keys = i64(word 2), depth = i64(word 3);
let t = thread, lane = t % 32, warp = t / 32;
"]));
        out
    }

    /// Element type of a factor, in memory and in shared memory.
    fn element(&self) -> Type {
        let dtype = self.class.dtype;
        if self.class.math == Math::Tf32 { Type::Held(dtype) } else { Type::Stored(dtype) }
    }

    /// Environment of all DSL texts here.
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
            .holds("SEEN", class.seen.is_some())
            .value("lowest", Expr::Constant(DType::F32, f32::NEG_INFINITY.to_bits().into()))
            .value("zero", Expr::Constant(DType::F32, 0))
            .value("one", Expr::Constant(DType::F32, 1f32.to_bits().into()))
            .elements("s", Type::Held(DType::F32))
            .elements("sum", Type::Held(DType::F32))
            .elements("w", Type::U32);
        let text = values.into_iter().fold(text, |text, name| text.value(name, i64(name)));
        ["t", "lane", "warp"].into_iter().fold(text, |text, name| text.value(name, u32(name)))
    }

    /// Offset of a tile's product in each factor.
    fn batches(&self) -> Vec<Statement> {
        batches_of(3, self.class.batch, |d| HEAD + 5 * d, Type::I64)
    }

    /// Statements that compute how many keys a block of rows sees, and the number of steps.
    fn seen(&self) -> Vec<Statement> {
        let text = self.text().number("AHEAD", self.slots.ahead as u32);
        let Some((point, CausalMask { moved, hidden, .. })) = &self.class.seen else {
            return text.statements(&["let seen = keys, steps = i32((seen + (KEYS - 1)) / KEYS);"]);
        };
        let scalar = |slot: u16| Expr::Scalar(DType::F32, self.slots.points[*point as usize].scalars + slot as usize);
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
            SEEN_KEYS,
            r"
let hides = known;
let ahead = hides ? i64(word AHEAD) + moved : 0;
let seen = hides ? seen_keys(row0 + ROWS + ahead - 1) : keys;
let steps = i32((seen + (KEYS - 1)) / KEYS);
",
        ])
    }

    /// Causal mask on accumulators: sets hidden scores to -∞, in blocks of keys that some rows of the warpgroup see
    /// only partly.
    fn hide(&self) -> Vec<Statement> {
        self.text().value("step", i32("step")).value("ahead", i64("ahead")).statements(&[r"
if i64(step + 1) * KEYS > row0 + i64(warp / 4 * 64) + ahead {
    for h: u32 in 0..2 unroll {
        // A thread's first keys of eight are seen below this one.
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

    /// Declarations for the loads of the score bodies.
    fn declared(&self) -> Vec<Statement> {
        self.points.iter().flat_map(|p| p.declared.clone()).collect()
    }

    /// Loads for the scores of a step.
    fn fetch(&self, step: &Expr) -> Vec<Statement> {
        let all = self.fetch_points(step);
        if all.is_empty() { all } else { vec![Statement::Scope(all)] }
    }

    /// Loads for the first step.
    fn first_fetch(&self) -> Vec<Statement> {
        let fetch = self.fetch(&Expr::Number(0, Type::I32));
        match fetch.is_empty() {
            true => fetch,
            false => vec![Statement::when(Expr::Number(0, Type::I32).lt(i32("steps")), fetch)],
        }
    }

    /// Computes weights from the scores of step `step`, with the loads of the next step in flight.
    fn make(&self) -> Vec<Statement> {
        let points = |of: &dyn Fn(&Point) -> Vec<Statement>| self.points.iter().flat_map(of).collect::<Vec<_>>();
        let compute = points(&|p| p.compute.clone());
        let mut out = match &self.class.seen {
            None => compute,
            Some(_) => {
                let mut whole = points(&|p| p.seen.as_ref().unwrap_or(&p.compute).clone());
                whole.extend(self.hide());
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

    /// Epilogue.
    fn result(&self) -> Vec<Statement> {
        let handed = self.class.handed();
        let hand_on = if self.class.fed.is_some() {
            let case = |pass: u32| (("sum".into(), vec![]), pass * (LINE_ELEMENTS / 8));
            result::hand_on_pass(&handed, (0..handed.passes).map(case).collect())
        } else {
            result::hand_on_rows(&handed, self.class.sizes[1] / 8)
        };
        result::statements(&handed, &self.slots.result, self.native, hand_on)
    }
}

/// Number of visible keys, `most` clamped to the number of keys.
const SEEN_KEYS: &str = r"
fn seen_keys(most) = most < 0 ? 0 : most < keys ? most : keys;
";
