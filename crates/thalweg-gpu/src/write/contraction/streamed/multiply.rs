//! The two products of a step: on what is in shared memory, and on the weights in registers.

use super::Streamed;
use crate::class::contraction::{LINE, LINE_ELEMENTS, Math};
use crate::class::streamed::StreamedClass;
use crate::ir::{Definition, Expr, Routine, Statement, Type};
use crate::text::Text;
use thalweg_ir::DType;

/// What the routines of a step are made of.
pub(super) fn definitions(class: &StreamedClass) -> Vec<Definition> {
    if class.math != Math::Warpgroup {
        return vec![];
    }
    let f16 = class.dtype == DType::F16;
    let of = |left, right: usize, columns| Definition::Warpgroups { f16, left, right: !class.along[right], columns };
    vec![of(Some(!class.along[0]), 1, class.block.keys), of(None, 2, class.sizes[1])]
}

impl Streamed<'_> {
    /// What texts here are read with; `slot` is a place in shared memory, a u32.
    fn product_text(&self, slot: &Expr) -> Text<'static> {
        let class = self.class;
        let [depth, columns] = class.sizes;
        let [rows, keys, values] = [0, 1, 2].map(|f| class.layout(f));
        let slice = if class.along[0] { 64 * LINE_ELEMENTS } else { depth * LINE_ELEMENTS };
        let (dtype, narrow) = (class.dtype, Type::Stored(class.dtype));
        let element = if class.math == Math::Tf32 { Type::Held(dtype) } else { narrow };
        let text = self
            .text()
            .number("DEPTH", depth)
            .number("WIDE", columns)
            .number("PITCH0", rows[0])
            .number("PITCH1", keys[0])
            .number("PITCH2", values[0])
            .number("ALL1", keys[1])
            .number("ALL2", values[1])
            .number("DEPTH_LINES", depth * LINE)
            .number("KEYS_LINES", class.block.keys * LINE)
            .number("ROWS_LINES", class.rows() * LINE)
            .number("WIDE_LINES", columns * LINE)
            .number("OWN", if class.block.warps <= 4 { 0 } else { slice })
            .number("TERMS", 16 * LINE)
            .holds("F16", dtype == DType::F16)
            .value("slot", slot.clone())
            .value("yes", Expr::Constant(DType::Bool, 1))
            .function("tf32", |x| Routine::Tf32.of(x.to_vec()))
            .function("pack", move |x| Routine::Pair(dtype).of(x.to_vec()));
        let names = [("s0", "ALONG0", "ACROSS0"), ("s1", "ALONG1", "ACROSS1"), ("s2", "ALONG2", "ACROSS2")];
        names.into_iter().enumerate().fold(text, |text, (f, (name, along, across))| {
            text.elements(name, element).holds(along, class.along[f]).holds(across, !class.along[f])
        })
    }

    /// Begins the first product of the block of keys in a place in shared memory, by warpgroups. Where terms are neighbours, 64
    /// of them are a slice of lines; where lines are, 64 of those.
    pub(super) fn begin_scores(&self, slot: &Expr) -> Vec<Statement> {
        vec![Statement::Scope(self.product_text(slot).statements(&[r"
let x = matrix(s0[OWN > 0 ? t / 128 * OWN : u32(0)], DEPTH_LINES), y = matrix(s1[slot * ALL1], DEPTH_LINES);
fn far0(p) = ALONG0 ? p / 4 * ROWS_LINES + p % 4 * 32 : p * TERMS;
fn far1(p) = ALONG1 ? p / 4 * KEYS_LINES + p % 4 * 32 : p * TERMS;
warpgroup_fence;
for p: u32 in 0..DEPTH / 16 unroll {
    warpgroup_multiply(F16, ACROSS0, ACROSS1, KEYS, s, further(x, far0(p)), further(y, far1(p)), p > 0);
}
warpgroup_commit;
"]))]
    }

    /// The weights as the left factor of the second product.
    pub(super) fn pack(&self) -> Vec<Statement> {
        self.product_text(&Expr::Number(0, Type::U32)).statements(&[r"
for p: i32 in 0..FRAGMENTS unroll {
    w[p][0] = pack(s[2 * p][0], s[2 * p][1]);
    w[p][1] = pack(s[2 * p][2], s[2 * p][3]);
    w[p][2] = pack(s[2 * p + 1][0], s[2 * p + 1][1]);
    w[p][3] = pack(s[2 * p + 1][2], s[2 * p + 1][3]);
}
"])
    }

    /// Begins the second product of a block of keys, by warpgroups.
    pub(super) fn begin_sums(&self, slot: &Expr) -> Vec<Statement> {
        vec![Statement::Scope(self.product_text(slot).statements(&[r"
let z = matrix(s2[slot * ALL2], KEYS_LINES);
warpgroup_fence;
for p: u32 in 0..FRAGMENTS unroll {
    let far = ALONG2 ? p / 4 * WIDE_LINES + p % 4 * 32 : p * TERMS;
    warpgroup_multiply(F16, ACROSS2, ACROSS2, WIDE, sum, w[p], further(z, far), yes);
}
warpgroup_commit;
"]))]
    }

    /// The first product of a block of keys.
    pub(super) fn scores(&self, slot: &Expr) -> Vec<Statement> {
        if self.class.math == Math::Warpgroup {
            let mut out = self.begin_scores(slot);
            out.extend(Text::new().statements(&["warpgroup_wait(0);"]));
            return out;
        }
        let text = if self.class.math == Math::Tf32 { SCORES_F32 } else { SCORES };
        vec![Statement::Scope(self.product_text(slot).statements(&[text]))]
    }

    /// The second product of a block of keys.
    pub(super) fn sums(&self, slot: &Expr) -> Vec<Statement> {
        if self.class.math == Math::Warpgroup {
            let mut out = vec![self.fragments()];
            out.extend(self.pack());
            out.extend(self.begin_sums(slot));
            out.extend(Text::new().statements(&["warpgroup_wait(0);"]));
            return out;
        }
        let text = if self.class.math == Math::Tf32 { SUMS_F32 } else { SUMS };
        vec![Statement::Scope(self.product_text(slot).statements(&[text]))]
    }

    /// Registers for the weights as a left factor.
    pub(super) fn fragments(&self) -> Statement {
        Statement::Registers { name: "w".into(), ty: Type::U32, shape: vec![self.class.block.keys / 16, 4] }
    }
}

const SCORES_F32: &str = r"
let first = slot * ALL1;
fn left(row, term) = tf32(s0[ALONG0 ? row * PITCH0 + term : term * PITCH0 + row]);
fn right(key, term) = tf32(s1[first + (ALONG1 ? key * PITCH1 + term : term * PITCH1 + key)]);
for p: u32 in 0..DEPTH by 8 unroll {
    let low = p + lane % 4, high = low + 4, row = warp * 16 + lane / 4;
    var x: u32[1][4];
    x[0][0] = left(row, low);
    x[0][1] = left(row + 8, low);
    x[0][2] = left(row, high);
    x[0][3] = left(row + 8, high);
    for j: u32 in 0..EIGHTS unroll {
        multiply_tf32(s[j], x[0], right(j * 8 + lane / 4, low), right(j * 8 + lane / 4, high));
    }
}
";

const SCORES: &str = r"
let first = slot * ALL1;
for p: u32 in 0..DEPTH by 16 unroll {
    var x: u32[1][4];
    when ALONG0 {
        fragments(x[0], s0[(warp * 16 + lane % 16) * PITCH0 + p + lane / 16 * 8]);
    } else {
        fragments_transposed(x[0], s0[(p + lane % 8 + lane / 16 * 8) * PITCH0 + warp * 16 + lane / 8 % 2 * 8]);
    }
    for j: u32 in 0..EIGHTS / 2 unroll {
        var y: u32[1][4];
        when ALONG1 {
            fragments(y[0], s1[first + (j * 16 + lane / 16 * 8 + lane % 8) * PITCH1 + p + lane / 8 % 2 * 8]);
        } else {
            fragments_transposed(y[0], s1[first + (p + lane / 8 % 2 * 8 + lane % 8) * PITCH1 + j * 16 + lane / 16 * 8]);
        }
        when F16 {
            multiply_f16(s[2 * j], x[0], y[0][0], y[0][1]);
            multiply_f16(s[2 * j + 1], x[0], y[0][2], y[0][3]);
        } else {
            multiply_bf16(s[2 * j], x[0], y[0][0], y[0][1]);
            multiply_bf16(s[2 * j + 1], x[0], y[0][2], y[0][3]);
        }
    }
}
";

/// The order of terms within eight is the threads' own: a thread's two scores are its two terms.
const SUMS_F32: &str = r"
let first = slot * ALL2;
fn right(column, key) = tf32(s2[first + (ALONG2 ? column * PITCH2 + key : key * PITCH2 + column)]);
for p: u32 in 0..EIGHTS unroll {
    var x: u32[1][4];
    x[0][0] = tf32(s[p][0]);
    x[0][1] = tf32(s[p][2]);
    x[0][2] = tf32(s[p][1]);
    x[0][3] = tf32(s[p][3]);
    let key = p * 8 + lane % 4 * 2;
    for j: u32 in 0..COLUMNS unroll {
        multiply_tf32(sum[j], x[0], right(j * 8 + lane / 4, key), right(j * 8 + lane / 4, key + 1));
    }
}
";

const SUMS: &str = r"
let first = slot * ALL2;
for p: u32 in 0..FRAGMENTS unroll {
    var x: u32[1][4];
    x[0][0] = pack(s[2 * p][0], s[2 * p][1]);
    x[0][1] = pack(s[2 * p][2], s[2 * p][3]);
    x[0][2] = pack(s[2 * p + 1][0], s[2 * p + 1][1]);
    x[0][3] = pack(s[2 * p + 1][2], s[2 * p + 1][3]);
    for j: u32 in 0..COLUMNS / 2 unroll {
        var y: u32[1][4];
        when ALONG2 {
            fragments(y[0], s2[first + (j * 16 + lane / 16 * 8 + lane % 8) * PITCH2 + p * 16 + lane / 8 % 2 * 8]);
        } else {
            fragments_transposed(y[0], s2[first + (p * 16 + lane / 8 % 2 * 8 + lane % 8) * PITCH2 + j * 16 + lane / 16 * 8]);
        }
        when F16 {
            multiply_f16(sum[2 * j], x[0], y[0][0], y[0][1]);
            multiply_f16(sum[2 * j + 1], x[0], y[0][2], y[0][3]);
        } else {
            multiply_bf16(sum[2 * j], x[0], y[0][0], y[0][1]);
            multiply_bf16(sum[2 * j + 1], x[0], y[0][2], y[0][3]);
        }
    }
}
";
