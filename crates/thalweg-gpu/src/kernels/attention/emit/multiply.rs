//! The two products of an attention step: scores from rows and keys in shared memory, and sums of values by weights in
//! registers.

use crate::dsl::Text;
use crate::ir::{Definition, Expr, Routine, Statement, Type};
use crate::kernels::attention::AttentionClass;
use crate::kernels::attention::emit::Attention;
use crate::kernels::gemm::{LINE, LINE_ELEMENTS, Math};
use thalweg_ir::DType;

/// Definitions that a step's routines need.
pub(super) fn definitions(class: &AttentionClass) -> Vec<Definition> {
    if class.math != Math::Warpgroup {
        return vec![];
    }
    let f16 = class.dtype == DType::F16;
    let of = |left, right: usize, columns| Definition::Warpgroups { f16, left, right: !class.along[right], columns };
    vec![of(Some(!class.along[0]), 1, class.block.keys), of(None, 2, class.sizes[1])]
}

impl Attention<'_> {
    /// DSL environment of the two products. `slot` is a pipeline stage, a u32.
    fn product_text(&self, slot: &Expr) -> Text<'static> {
        let class = self.class;
        let [depth, columns] = class.sizes;
        let [rows, keys, values] = [0, 1, 2].map(|f| class.layout(f));
        let slice = if class.along[0] { 64 * LINE_ELEMENTS } else { depth * LINE_ELEMENTS };
        let dtype = class.dtype;
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
            .holds("SCORES_BY_FOURS", class.scores_by_fours())
            .value("slot", slot.clone())
            .value("yes", Expr::Constant(DType::Bool, 1))
            .function("bits", |x| Routine::Bits.of(x.to_vec()))
            .function("tf32", |x| Routine::Bits.of([Routine::Tf32.of(x.to_vec())]))
            .function("pack", move |x| Routine::Pair(dtype).of(x.to_vec()));
        let names = [("s0", "ALONG0", "ACROSS0"), ("s1", "ALONG1", "ACROSS1"), ("s2", "ALONG2", "ACROSS2")];
        names.into_iter().enumerate().fold(text, |text, (f, (name, along, across))| {
            text.elements(name, self.element()).holds(along, class.along[f]).holds(across, !class.along[f])
        })
    }

    /// Emits the start of the first product of the block of keys in a pipeline stage, by warpgroups. Where terms are
    /// contiguous, a slice of lines has 64 of them; where lines are, 64 lines.
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

    /// Emits the packing of the weights as operand A of the second product.
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

    /// Emits the start of the second product of a block of keys, by warpgroups.
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

    /// Emits the first product of a block of keys (scores).
    pub(super) fn scores(&self, slot: &Expr) -> Vec<Statement> {
        if self.class.math == Math::Warpgroup {
            let mut out = self.begin_scores(slot);
            out.extend(Text::new().statements(&["warpgroup_wait(0);"]));
            return out;
        }
        let text = if self.class.math == Math::Tf32 { SCORES_F32 } else { SCORES };
        vec![Statement::Scope(self.product_text(slot).statements(&[text]))]
    }

    /// Emits the second product of a block of keys (weighted sums of values).
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

    /// Declares registers for the weights, as operand A of the second product.
    pub(super) fn fragments(&self) -> Statement {
        Statement::Registers { name: "w".into(), ty: Type::U32, shape: vec![self.class.block.keys / 16, 4] }
    }
}

/// Rows, keys and values have been rounded to TF32 after their copy ([`crate::kernels::attention::emit::copied`]).
/// Offsets are i32: signed additions cannot wrap around, so the compiler folds them into addressing.
const SCORES_F32: &str = r"
when SCORES_BY_FOURS {
    let left = i32(warp * (DEPTH * 16) + lane * 4);
    let right = i32(slot * ALL1 + lane / 4 * PITCH1 + lane % 4 * 4);
    for p: i32 in 0..DEPTH by 16 unroll {
        var x: u32[2][4];
        for h: i32 in 0..2 unroll {
            for e: i32 in 0..4 unroll { x[h][e] = bits(s0[left + (p * 16 + h * 128 + e)]); }
        }
        for q: i32 in 0..EIGHTS by 4 unroll {
            var y: u32[4][4];
            for j: i32 in 0..4 unroll {
                for e: i32 in 0..4 unroll { y[j][e] = bits(s1[right + ((q + j) * 8 * PITCH1 + p + e)]); }
            }
            for e: i32 in 0..2 unroll {
                for j: i32 in 0..4 unroll { multiply_tf32(s[q + j], x[e], y[j][e * 2], y[j][e * 2 + 1]); }
            }
        }
    }
} else {
    let left = i32(ALONG0 ? (warp * 16 + lane / 4) * PITCH0 + lane % 4 : lane % 4 * PITCH0 + warp * 16 + lane / 4);
    let right = i32(slot * ALL1 + (ALONG1 ? lane / 4 * PITCH1 + lane % 4 : lane % 4 * PITCH1 + lane / 4));
    fn row(n, term) = bits(s0[left + (ALONG0 ? n * PITCH0 + term : term * PITCH0 + n)]);
    fn key(n, term) = bits(s1[right + (ALONG1 ? n * PITCH1 + term : term * PITCH1 + n)]);
    for p: i32 in 0..DEPTH by 8 unroll {
        var x: u32[1][4];
        for e: i32 in 0..4 unroll { x[0][e] = row(e % 2 * 8, p + e / 2 * 4); }
        for j: i32 in 0..EIGHTS unroll { multiply_tf32(s[j], x[0], key(j * 8, p), key(j * 8, p + 4)); }
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

/// Terms within eight are permuted: a thread's two scores are its two terms.
const SUMS_F32: &str = r"
let right = i32(slot * ALL2 + (ALONG2 ? lane / 4 * PITCH2 + lane % 4 * 2 : lane % 4 * 2 * PITCH2 + lane / 4));
fn value(column, key) = bits(s2[right + (ALONG2 ? column * PITCH2 + key : key * PITCH2 + column)]);
for p: i32 in 0..EIGHTS unroll {
    var x: u32[1][4];
    for e: i32 in 0..4 unroll { x[0][e] = tf32(s[p][e % 2 * 2 + e / 2]); }
    for j: i32 in 0..COLUMNS unroll { multiply_tf32(sum[j], x[0], value(j * 8, p * 8), value(j * 8, p * 8 + 1)); }
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
