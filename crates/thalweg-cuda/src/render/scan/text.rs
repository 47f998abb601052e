//! What all kernels of scans are written with, and those without chunks: a thread a row, or some threads of a warp.

use super::{BLOCK, POINTS, ScanClass, WARP, WORDS};
use crate::render::monoid::combined;
use crate::render::types::{constant, held, pack, stored, unpack};
use thalweg_ir::{DType, Monoid, ScanOp};

/// What all ways are written with.
pub(super) struct Text {
    /// Of an element in memory.
    pub(super) element: &'static str,
    /// What is accumulated.
    pub(super) wide: &'static str,
    pub(super) identity: String,
    /// The element `raw` as such.
    pub(super) value: String,
    /// What is accumulated, `y`, as an element.
    pub(super) narrowed: String,
    /// The place of point `i`.
    pub(super) place: &'static str,
    /// Functions before the kernel.
    pub(super) combined: String,
}

/// What a scan accumulates.
pub struct Running {
    /// Its type.
    pub wide: &'static str,
    /// Of nothing.
    pub identity: String,
    /// Two of them, `x` before `y`, put together.
    pub combined: String,
    /// Functions that this needs.
    pub functions: &'static str,
}

impl Running {
    /// Of elements of that dtype.
    pub fn new(op: ScanOp, dtype: DType) -> Running {
        let carried = if dtype.is_float() { DType::F64 } else { Monoid::widest(dtype) };
        let wide = held(carried);
        let monoid = op.monoid().expect("what is no sort runs a monoid");
        let identity = constant(carried, (monoid.row().neutral)(carried).to_bits(carried));
        // A running logarithm is its own state: the logarithm of two sums is found from theirs.
        let (combined, functions) = match monoid {
            Monoid::LogSumExp => ("log_add(x, y)".into(), LOG_ADD),
            other => (combined(other, carried, "x", "y"), ""),
        };
        Running { wide, identity, combined, functions }
    }
}

const LOG_ADD: &str = r#"
#ifndef LOG_ADD
#define LOG_ADD
FN double log_add(double x, double y) {
  double high = larger(x, y), low = smaller(x, y);
  if (high != high) return high;
  if (high == -__longlong_as_double(0x7ff0000000000000ll) || high == __longlong_as_double(0x7ff0000000000000ll)) return high;
  return high + log1p(exp(low - high));
}
#endif"#;

impl Text {
    pub(super) fn new(class: &ScanClass) -> Text {
        let Running { wide, identity, combined, functions } = Running::new(class.op, class.dtype);
        Text {
            element: stored(class.dtype),
            wide,
            identity,
            value: unpack(class.dtype, "raw"),
            narrowed: narrow(class.dtype, "y"),
            place: if class.reverse { "(n - 1 - i)" } else { "i" },
            combined: format!("{functions}\nFN {wide} combined({wide} x, {wide} y) {{ return {combined}; }}"),
        }
    }

    /// How every kernel begins, with blocks of that many threads at most.
    pub(super) fn head(&self, block: usize) -> String {
        let Text { element: s, combined, .. } = self;
        format!(
            r#"{combined}
// Where a point of a warp lies in shared memory: spread, so that threads eight points apart do not meet in a bank.
FN u32 slot(u32 s) {{ return s + s / 32; }}
extern "C" __global__ void __launch_bounds__({block}) scan(THALWEG_PARAMETER({WORDS})) {{
  begin();
  const {s} *const from = (const {s} *)a.w[0];
  {s} *const to = ({s} *)a.w[1];
  const i64 rows = (i64)a.w[2], n = (i64)a.w[3], row_step = (i64)a.w[4], step = (i64)a.w[5];
  const u32 t = threadIdx.x, lane = t % 32, warp = t / 32;
"#
        )
    }

    /// A thread a row, a few points at a time so that several loads are on their way.
    pub(super) fn in_order(&self) -> String {
        let Text { element: s, wide, identity, value, narrowed, place, .. } = self;
        self.head(32)
            + &format!(
                r#"  const i64 row = (i64)blockIdx.x * 32 + t, start = row * row_step;
  if (row >= rows) return;
  {wide} y = {identity};
  for (i64 first = 0; first < n; first += {POINTS}) {{
    {s} loaded[{POINTS}] = {{}};
    #pragma unroll
    for (int k = 0; k < {POINTS}; k++) {{
      const i64 i = first + k;
      if (i < n) loaded[k] = element_at(from, start + {place} * step);
    }}
    #pragma unroll
    for (int k = 0; k < {POINTS}; k++) {{
      const i64 i = first + k;
      const {s} raw = loaded[k];
      y = combined(y, ({wide}){value});
      if (i < n) set_at(to, start + {place} * step, ({s}){narrowed});
    }}
  }}
}}
"#
            )
    }

    /// Rows of at most 256 points, as many of them a warp as there are threads for.
    pub(super) fn short(&self) -> String {
        let Text { element: s, wide, identity, value, narrowed, place, .. } = self;
        let each = |then: &str| {
            format!(
                r#"  #pragma unroll
  for (int k = 0; k < {POINTS}; k++) {{
    const u32 p = lane + 32 * k, r = p * reciprocal >> 16;
    const i64 i = p - r * (u32)n, at = (first + r) * row_step + {place} * step;
    if (p < count) {then}
  }}"#
            )
        };
        let load = each("loaded[k] = element_at(from, at);");
        let spread = each(&format!("mine[slot(r * threads * {POINTS} + (u32)i)] = loaded[k];"));
        let store = each(&format!("set_at(to, at, mine[slot(r * threads * {POINTS} + (u32)i)]);"));
        self.head(BLOCK)
            + &format!(
                r#"  const u32 threads = (u32)a.w[6], own = 32 / threads, part = lane % threads;
  const i64 first = ((i64)blockIdx.x * {warps} + warp) * own, live = rows - first < own ? rows - first : own;
  const u32 count = live > 0 ? (u32)(live * n) : 0;
  // A quotient of two numbers up to 256 by a product.
  const u32 reciprocal = (65535 + (u32)n) / (u32)n;
  __shared__ {s} points[{warps}][{WARP} + {WARP} / 32];
  {s} *const mine = points[warp];
  {s} loaded[{POINTS}] = {{}};
  {load}
  {spread}
  __syncwarp();
  {wide} x[{POINTS}];
  #pragma unroll
  for (int k = 0; k < {POINTS}; k++) {{
    const {s} raw = mine[slot(lane * {POINTS} + k)];
    x[k] = part * {POINTS} + k < n ? ({wide}){value} : {identity};
    if (k) x[k] = combined(x[k - 1], x[k]);
  }}
  {wide} before = x[{POINTS} - 1];
  for (u32 o = 1; o < threads; o *= 2) {{
    const {wide} other = __shfl_up_sync(0xffffffffu, before, o);
    if (part >= o) before = combined(other, before);
  }}
  before = __shfl_up_sync(0xffffffffu, before, 1);
  if (part == 0) before = {identity};
  #pragma unroll
  for (int k = 0; k < {POINTS}; k++) {{
    const {wide} y = combined(before, x[k]);
    mine[slot(lane * {POINTS} + k)] = {narrowed};
  }}
  __syncwarp();
  {store}
}}
"#,
                warps = BLOCK / 32,
            )
    }
}

/// An accumulated value as an element in memory.
fn narrow(dtype: DType, y: &str) -> String {
    match dtype {
        DType::F64 => y.into(),
        DType::F32 => format!("(float){y}"),
        DType::BF16 => pack(dtype, &format!("bf16_of({y})")),
        DType::F16 => pack(dtype, &format!("f16_of({y})")),
        // Sums modulo 2.
        DType::Bool => format!("(u8)({y} & 1)"),
        other => format!("({}){y}", held(other)),
    }
}
