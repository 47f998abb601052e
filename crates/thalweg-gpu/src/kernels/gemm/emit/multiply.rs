//! Arithmetic of a step on operands in shared memory: by tensor cores, or by CUDA cores in order.

use crate::dsl::Text;
use crate::ir::{Definition, Expr, Routine, Statement, Type};
use crate::kernels::gemm::emit::element_of;
use crate::kernels::gemm::{GemmClass, LINE, LINE_ELEMENTS, Math, Tile};
use thalweg_ir::DType;

/// Threads of a block along columns, on CUDA cores.
const COLUMN_THREADS: u32 = 16;

/// Dimensions of a thread's accumulator registers. On tensor cores the last one is the four accumulators of an
/// instruction.
pub(super) fn shape(class: &GemmClass) -> Vec<u32> {
    let Tile { m, n, warps, .. } = class.tile;
    match class.math {
        Math::Warpgroup => vec![1, n / 8, 4],
        Math::Plain => vec![m / COLUMN_THREADS, n / COLUMN_THREADS],
        _ => vec![m / warps[0] / 16, n / warps[1] / 8, 4],
    }
}

/// Definitions (of functions) that the multiplications of a step need.
pub(super) fn definitions(class: &GemmClass) -> Vec<Definition> {
    let ([left, right], columns) = (lines_contiguous(class), class.tile.n);
    let of = || Definition::Warpgroups { f16: class.dtype == DType::F16, left: Some(left), right, columns };
    (class.math == Math::Warpgroup).then(of).into_iter().collect()
}

/// Whether lines (M of A, N of B) rather than terms (K) are contiguous in shared memory, for each operand.
fn lines_contiguous(class: &GemmClass) -> [bool; 2] {
    [0, 1].map(|f| !class.layout(f).along)
}

/// DSL environment of a step's multiplications.
fn text(class: &GemmClass) -> Text<'static> {
    let Tile { m, n, k, warps, .. } = class.tile;
    let (left, right, dtype) = (class.layout(0), class.layout(1), class.sums);
    let shape = shape(class);
    // On CUDA cores a thread has up to four neighbouring rows or columns of each range.
    let own = [m, n].map(|side| (side / COLUMN_THREADS).min(4));
    Text::new()
        .ty("Sum", Type::Held(dtype))
        .ty("Element", element_of(class))
        .number("I_VECTORS", (shape[0] / 4).max(1))
        .number("J_VECTORS", (shape[1] / 4).max(1))
        .number("ACROSS", COLUMN_THREADS)
        .number("OWN0", own[0])
        .number("OWN1", own[1])
        .number("SPAN0", own[0] * COLUMN_THREADS)
        .number("SPAN1", own[1] * COLUMN_THREADS)
        .number("I", shape[0])
        .number("J", shape[1])
        .number("PAIRS", (shape[1] / 2).max(1))
        .number("TERMS", k)
        .number("WARPS", warps[1])
        .number("ROWS", m / warps[0])
        .number("COLUMNS", n / warps[1])
        .number("PITCH", class.epilogue().pitch())
        .number("PITCH0", left.pitch)
        .number("PITCH1", right.pitch)
        .number("ALL0", left.all)
        .number("ALL1", right.all)
        .holds("ALONG0", left.along)
        .holds("ALONG1", right.along)
        .holds("PLAIN", class.math == Math::Plain)
        .holds("F16", class.dtype == DType::F16)
        .holds("WARPGROUP", class.math == Math::Warpgroup)
        .elements("s0", element_of(class))
        .elements("s1", element_of(class))
        .elements("sum", Type::Held(dtype))
        .elements("sums", Type::Held(dtype))
        .value("t", Expr::name("t", Type::U32))
        .value("from", Expr::name("from", Type::I32))
        .value("pass", Expr::name("pass", Type::I32))
        .function("multiply_add", move |x| Routine::MultiplyAdd(dtype).of(x.to_vec()))
        .function("tf32", |x| Routine::Bits.of([Routine::Tf32.of(x.to_vec())]))
}

/// Whether threads load vectors of four elements from shared memory: floats of chips without asynchronous copies, whose
/// compilers may not see that neighbouring loads are aligned.
fn loads_vectors(class: &GemmClass) -> bool {
    let Tile { m, n, .. } = class.tile;
    class.is_staged() && class.dtype.is_float() && class.element_size() == 4 && m.min(n) >= 4 * COLUMN_THREADS
}

/// Emits the multiplications of a step.
pub(super) fn step(class: &GemmClass) -> Vec<Statement> {
    match class.math {
        Math::Warpgroup => warpgroup(class),
        Math::Plain if loads_vectors(class) => text(class).statements(&[STEP, PLAIN_VECTORS]),
        Math::Plain => text(class).statements(&[STEP, PLAIN]),
        Math::Tf32 => text(class).statements(&[STEP, WARPS, NARROW_F32]),
        Math::Narrow => text(class).statements(&[STEP, WARPS, NARROW]),
    }
}

const STEP: &str = r"
let first0 = u32(from) * ALL0, first1 = u32(from) * ALL1;
";

const PLAIN: &str = r"
for p: u32 in 0..TERMS unroll {
    var x: Sum[I];
    var y: Sum[J];
    for i: u32 in 0..I unroll { x[i] = Sum(s0[first0 + p * PITCH0 + i / OWN0 * SPAN0 + t / ACROSS * OWN0 + i % OWN0]); }
    for j: u32 in 0..J unroll { y[j] = Sum(s1[first1 + p * PITCH1 + j / OWN1 * SPAN1 + t % ACROSS * OWN1 + j % OWN1]); }
    for i: u32 in 0..I unroll {
        for j: u32 in 0..J unroll { sum[i][j] = multiply_add(x[i], y[j], sum[i][j]); }
    }
}
";

/// Stores the accumulators of a pass of few rows: those of a range of threads. Indices of registers are
/// constants, though the pass is none.
const STAGED_ACCUMULATORS: &str = r"
for side: u32 in 0..SIDES unroll {
    if u32(pass) / PASSES == side && t / (ROWS / OWN0 * ACROSS) == u32(pass) % PASSES {
        for i: u32 in 0..OWN0 unroll {
            for j: u32 in 0..J unroll {
                sums[(t / ACROSS * OWN0 % ROWS + i) * PITCH + j / OWN1 * SPAN1 + t % ACROSS * OWN1 + j % OWN1]
                    = sum[side * OWN0 + i][j];
            }
        }
    }
}
";

/// Like `PLAIN`, with loads of vectors. A thread has four neighbouring rows and columns of each range.
const PLAIN_VECTORS: &str = r"
for p: u32 in 0..TERMS unroll {
    var x: Element[I_VECTORS][4];
    var y: Element[J_VECTORS][4];
    for i: u32 in 0..I_VECTORS unroll { load_shared(x[i], s0[first0 + p * PITCH0 + i * SPAN0 + t / ACROSS * OWN0]); }
    for j: u32 in 0..J_VECTORS unroll { load_shared(y[j], s1[first1 + p * PITCH1 + j * SPAN1 + t % ACROSS * OWN1]); }
    for i: u32 in 0..I unroll {
        for j: u32 in 0..J unroll {
            sum[i][j] = multiply_add(Sum(x[i / 4][i % 4]), Sum(y[j / 4][j % 4]), sum[i][j]);
        }
    }
}
";

const WARPS: &str = r"
let lane = t % 32, rows_at = t / 32 / WARPS * ROWS, columns_at = t / 32 % WARPS * COLUMNS;
";

/// Offsets are i32: signed additions cannot wrap around, so the compiler folds them into addressing.
const NARROW_F32: &str = r"
let row_own = rows_at + lane / 4, column_own = columns_at + lane / 4, term_own = lane % 4;
let left = i32(first0 + (ALONG0 ? row_own * PITCH0 + term_own : term_own * PITCH0 + row_own));
let right = i32(first1 + (ALONG1 ? column_own * PITCH1 + term_own : term_own * PITCH1 + column_own));
fn row(n, term) = tf32(s0[left + (ALONG0 ? n * PITCH0 + term : term * PITCH0 + n)]);
fn column(n, term) = tf32(s1[right + (ALONG1 ? n * PITCH1 + term : term * PITCH1 + n)]);
for p: i32 in 0..TERMS by 8 unroll {
    var x: u32[I][4];
    var y: u32[J][2];
    for i: i32 in 0..I unroll {
        for e: i32 in 0..4 unroll { x[i][e] = row(i * 16 + e % 2 * 8, p + e / 2 * 4); }
    }
    for j: i32 in 0..J unroll {
        for e: i32 in 0..2 unroll { y[j][e] = column(j * 8, p + e * 4); }
    }
    for i: i32 in 0..I unroll {
        for j: i32 in 0..J unroll { multiply_tf32(sum[i][j], x[i], y[j][0], y[j][1]); }
    }
}
";

const NARROW: &str = r"
for p: u32 in 0..TERMS by 16 unroll {
    var x: u32[I][4];
    var y: u32[PAIRS][4];
    for i: u32 in 0..I unroll {
        when ALONG0 {
            fragments(x[i], s0[first0 + (rows_at + i * 16 + lane % 16) * PITCH0 + p + lane / 16 * 8]);
        } else {
            fragments_transposed(
                x[i], s0[first0 + (p + lane % 8 + lane / 16 * 8) * PITCH0 + rows_at + i * 16 + lane / 8 % 2 * 8]
            );
        }
    }
    for j: u32 in 0..PAIRS unroll {
        when ALONG1 {
            fragments(
                y[j], s1[first1 + (columns_at + j * 16 + lane / 16 * 8 + lane % 8) * PITCH1 + p + lane / 8 % 2 * 8]
            );
        } else {
            fragments_transposed(
                y[j], s1[first1 + (p + lane / 8 % 2 * 8 + lane % 8) * PITCH1 + columns_at + j * 16 + lane / 16 * 8]
            );
        }
    }
    for i: u32 in 0..I unroll {
        for j: u32 in 0..J unroll {
            when F16 {
                multiply_f16(sum[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
            } else {
                multiply_bf16(sum[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
            }
        }
    }
}
";

/// Emits the multiplications of a warpgroup: its 64 rows by all columns. Contiguous lines are either terms, or 64 rows
/// or columns at a time.
fn warpgroup(class: &GemmClass) -> Vec<Statement> {
    let Tile { n, k, .. } = class.tile;
    let [left, right] = lines_contiguous(class);
    let step = |lines_contiguous: bool| if lines_contiguous { 16 * LINE } else { 32 };
    let body = text(class)
        .number("OWN", if left { k * LINE_ELEMENTS } else { 64 * LINE_ELEMENTS })
        .number("SLICE", k * LINE)
        .number("STEPS", k / 16)
        .number("STEP0", step(left))
        .number("STEP1", step(right))
        .number("WIDE", n)
        .holds("ACROSS0", left)
        .holds("ACROSS1", right)
        .value("yes", Expr::Constant(DType::Bool, 1))
        .statements(&[
            STEP,
            r"
let x = matrix(s0[first0 + t / 128 * OWN], SLICE), y = matrix(s1[first1], SLICE);
warpgroup_fence;
for p: u32 in 0..STEPS unroll {
    warpgroup_multiply(F16, ACROSS0, ACROSS1, WIDE, sum[0], further(x, p * STEP0), further(y, p * STEP1), yes);
}
warpgroup_commit;
",
        ]);
    vec![Statement::Scope(body)]
}

/// Emits stores of the accumulators of pass `pass` to `sums` in shared memory, from the threads that have them.
pub(super) fn store_accumulators(class: &GemmClass) -> Vec<Statement> {
    if class.is_staged() {
        let (rows, span) = (class.epilogue().rows, class.tile.m.min(4 * COLUMN_THREADS));
        let text = text(class).number("ROWS", rows).number("SIDES", class.tile.m / span).number("PASSES", span / rows);
        return text.statements(&[STAGED_ACCUMULATORS]);
    }
    let high = match class.math {
        Math::Plain => (class.tile.m / COLUMN_THREADS).min(4),
        _ => shape(class)[0],
    };
    text(class).number("HIGH", high).statements(&[r"
when PLAIN {
    for i: u32 in 0..HIGH unroll {
        for j: u32 in 0..J unroll {
            sums[(t / ACROSS * 4 + i) * PITCH + j / 4 * 64 + t % ACROSS * 4 + j % 4] = sum[u32(pass) * 4 + i][j];
        }
    }
} else when WARPGROUP {
    if t / 128 == u32(pass) {
        for j: u32 in 0..J unroll {
            for e: u32 in 0..4 unroll {
                sums[(t / 32 % 4 * 16 + t % 32 / 4 + e / 2 * 8) * PITCH + j * 8 + t % 4 * 2 + e % 2] = sum[0][j][e];
            }
        }
    }
} else {
    if t / 32 / WARPS == u32(pass) {
        for i: u32 in 0..HIGH unroll {
            for j: u32 in 0..J unroll {
                for e: u32 in 0..4 unroll {
                    sums[(i * 16 + t % 32 / 4 + e / 2 * 8) * PITCH + t / 32 % WARPS * COLUMNS + j * 8 + t % 4 * 2 + e % 2]
                        = sum[i][j][e];
                }
            }
        }
    }
}
"])
}
