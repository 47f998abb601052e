//! Scans along rows in memory: running sums, products, extremes, logarithms of sums of exponentials, and sorts.
//!
//! A block takes one row (or rows side by side, where neighbours in memory are rows), chunk by chunk, carrying what it has so far. Floats are accumulated in f64 and each result is rounded once, as on every
//! device. Sorts merge runs: a block sorts a stretch in shared memory, then pairs of sorted stretches are merged, each element finding its place by a
//! binary search, which is stable.

use super::types::{held, pack, stored, unpack};
use crate::compiler::Compiler;
use crate::launch::Word;
use crate::program::{Draft, Plan};
use crate::render::UnitKey;
use std::fmt::Write;
use thalweg_ir::{DType, ScanOp};

/// What decides the source of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScanClass {
    /// Which.
    pub op: ScanOp,
    /// From the end; of a sort: descending.
    pub reverse: bool,
    /// Of the elements.
    pub dtype: DType,
}

/// Words: from, to, rows, points, step from row to row, from point to point; of a sort also the lengths of runs and a second pair of pieces.
pub const WORDS: usize = 10;
/// Threads of a block.
const BLOCK: u32 = 256;

impl ScanClass {
    /// Adds the launches of a scan of `[rows, points, row step, point step]` from one piece of scratch memory to another (or the same).
    pub fn add(self, plan: &mut Plan, compiler: &Compiler, sizes: [usize; 4], [from, to]: [u16; 2]) {
        let mut words = vec![0; WORDS];
        words[2..6].copy_from_slice(&sizes.map(|s| s as u64));
        let patches = vec![(0, Word::Scratch(from, 0)), (1, Word::Scratch(to, 0))];
        if matches!(self.op, ScanOp::Sort | ScanOp::Argsort) {
            return self.add_sort(plan, compiler, sizes, [from, to]);
        }
        let grid = [sizes[0] as u32, 1, 1];
        let unit = compiler.unit(UnitKey::Scan(self));
        plan.stages.push(Draft { unit, grid, block: BLOCK, shared: 0, words, patches });
    }

    /// Keys and places, then merges of ever longer runs between two pairs of pieces, then what was asked for.
    fn add_sort(self, plan: &mut Plan, compiler: &Compiler, sizes: [usize; 4], [from, to]: [u16; 2]) {
        let [rows, n, ..] = sizes;
        let total = rows * n;
        let mut piece = |bytes: usize| {
            plan.scratch.push(bytes.max(64));
            plan.scratch.len() as u16 - 1
        };
        let copy = piece(self.dtype.size() * total);
        let keys = [piece(8 * total), piece(8 * total)];
        let places = [piece(4 * total), piece(4 * total)];
        let unit = compiler.unit(UnitKey::Scan(self));
        let grid = [u32::try_from(total.div_ceil(BLOCK as usize)).expect("fewer than 2^31 blocks").max(1), 1, 1];
        let mut stage = |what: u64, run: usize, at: usize| {
            let mut words = vec![0; WORDS + 3];
            words[2..6].copy_from_slice(&sizes.map(|s| s as u64));
            (words[6], words[7]) = (what, run as u64);
            let patches = vec![
                (0, Word::Scratch(from, 0)),
                (1, Word::Scratch(to, 0)),
                (8, Word::Scratch(keys[at], 0)),
                (9, Word::Scratch(places[at], 0)),
                (10, Word::Scratch(keys[1 - at], 0)),
                (11, Word::Scratch(places[1 - at], 0)),
                (12, Word::Scratch(copy, 0)),
            ];
            plan.stages.push(Draft { unit: unit.clone(), grid, block: BLOCK, shared: 0, words, patches });
        };
        stage(0, 1, 0);
        let (mut run, mut at) = (1, 0);
        while run < n {
            stage(1, run, at);
            (run, at) = (run * 2, 1 - at);
        }
        stage(2, run, at);
    }
}

/// The source of a scan with one function, `scan`.
pub fn source(class: &ScanClass) -> String {
    let mut out = String::new();
    if matches!(class.op, ScanOp::Sort | ScanOp::Argsort) {
        sort(class, &mut out)
    } else {
        running(class, &mut out)
    }
    out
}

fn running(class: &ScanClass, out: &mut String) {
    let (s, float) = (stored(class.dtype), class.dtype.is_float());
    let wide = if float { "double" } else { "i64" };
    let of = match (class.op, float) {
        (ScanOp::Sum, true) => "x + y",
        (ScanOp::Prod, true) => "x * y",
        (ScanOp::Sum, false) => "(i64)((u64)x + (u64)y)",
        (ScanOp::Prod, false) => "(i64)((u64)x * (u64)y)",
        (ScanOp::Max, _) => "larger(x, y)",
        (ScanOp::Min, _) => "smaller(x, y)",
        _ => "log_add(x, y)",
    };
    let identity = match (class.op, float) {
        (ScanOp::Sum, true) => "-0.0".to_string(),
        (ScanOp::Sum, false) => "0".into(),
        (ScanOp::Prod, _) => "1".into(),
        (ScanOp::Max | ScanOp::LogSumExp, true) => "-__longlong_as_double(0x7ff0000000000000ll)".into(),
        (_, true) => "__longlong_as_double(0x7ff0000000000000ll)".into(),
        (ScanOp::Max, false) => "Int<i64>::low".into(),
        _ => "Int<i64>::high".into(),
    };
    let value = unpack(class.dtype, "raw");
    let narrowed = narrow(class.dtype, "y");
    // Products, sums of exponentials and the like go one after the other where the order could be seen.
    let _ = write!(
        out,
        r#"
FN double log_add(double x, double y) {{
  double high = larger(x, y), low = smaller(x, y);
  if (high != high) return high;
  if (high == -__longlong_as_double(0x7ff0000000000000ll) || high == __longlong_as_double(0x7ff0000000000000ll)) return high;
  return high + log1p(exp(low - high));
}}
FN {wide} combined({wide} x, {wide} y) {{ return {of}; }}
extern "C" __global__ void __launch_bounds__({BLOCK}) scan(THALWEG_PARAMETER({WORDS})) {{
  begin();
  const {s} *const from = (const {s} *)a.w[0];
  {s} *const to = ({s} *)a.w[1];
  const i64 n = (i64)a.w[3], step = (i64)a.w[5], start = (i64)blockIdx.x * (i64)a.w[4];
  const u32 t = threadIdx.x, lane = t % 32, warp = t / 32;
  __shared__ {wide} warps[{BLOCK} / 32];
  {wide} carry = {identity};
  if ({sequential}) {{
    // Of products in another order one may overflow where the other vanishes.
    if (t == 0) for (i64 i = 0; i < n; i++) {{
      const i64 at = start + ({place}) * step;
      const {s} raw = from[at];
      const {wide} y = carry = combined(carry, ({wide}){value});
      to[at] = {narrowed};
    }}
    return;
  }}
  for (i64 first = 0; first < n; first += {BLOCK}) {{
    const i64 i = first + t;
    const i64 at = start + ({place}) * step;
    {wide} x = {identity};
    if (i < n) {{ const {s} raw = from[at]; x = ({wide}){value}; }}
    for (int o = 1; o < 32; o *= 2) {{
      const {wide} before = __shfl_up_sync(0xffffffffu, x, o);
      if (lane >= o) x = combined(before, x);
    }}
    if (lane == 31) warps[warp] = x;
    __syncthreads();
    {wide} total = carry;
    for (u32 w = 0; w < {BLOCK} / 32; w++) {{
      if (w == warp) x = combined(total, x);
      total = combined(total, warps[w]);
    }}
    carry = total;
    if (i < n) {{ const {wide} y = x; to[at] = {narrowed}; }}
    __syncthreads();
  }}
}}
"#,
        sequential = float && class.op == ScanOp::Prod,
        place = if class.reverse { "n - 1 - i" } else { "i" },
    );
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

fn sort(class: &ScanClass, out: &mut String) {
    let s = stored(class.dtype);
    // Unsigned integers in the order of the elements: NaN the largest, zeros equal.
    let key = match class.dtype {
        DType::F64 => "i64 b = __double_as_longlong(raw); u64 key = raw != raw ? ~0ull : raw == 0 ? 1ull << 63 : b < 0 ? ~(u64)b : (u64)b | 1ull << 63;".to_string(),
        DType::F32 => "u32 b = f32_bits(raw); u64 key = raw != raw ? 0xffffffffull : raw == 0 ? 0x80000000ull : b >> 31 ? (u32)~b : b | 0x80000000u;".into(),
        DType::BF16 | DType::F16 => format!(
            "float v = {}; u32 b = raw; u64 key = v != v ? 0xffffull : v == 0 ? 0x8000ull : b >> 15 ? (u16)~b : b | 0x8000u;",
            unpack(class.dtype, "raw")
        ),
        DType::U8 | DType::U32 | DType::Bool => "u64 key = raw;".into(),
        _ => "u64 key = (u64)(i64)raw ^ 0x8000000000000000ull;".into(),
    };
    let flip = if class.reverse { "key = ~key;" } else { "" };
    let result = if class.op == ScanOp::Argsort {
        "((i64 *)a.w[1])[at] = (i64)place;".to_string()
    } else {
        format!("(({s} *)a.w[1])[at] = (({s} *)a.w[12])[row * n + (i64)place];")
    };
    let _ = write!(
        out,
        r#"
extern "C" __global__ void __launch_bounds__({BLOCK}) scan(THALWEG_PARAMETER({words})) {{
  begin();
  const i64 n = (i64)a.w[3], step = (i64)a.w[5], run = (i64)a.w[7];
  const i64 g = (i64)blockIdx.x * {BLOCK} + threadIdx.x;
  if (g >= (i64)a.w[2] * n) return;
  const i64 row = g / n, i = g % n, start = row * (i64)a.w[4], at = start + i * step;
  u64 *const keys = (u64 *)a.w[8] + row * n, *const next_keys = (u64 *)a.w[10] + row * n;
  u32 *const places = (u32 *)a.w[9] + row * n, *const next_places = (u32 *)a.w[11] + row * n;
  if (a.w[6] == 0) {{
    const {s} raw = ((const {s} *)a.w[0])[at];
    {key} {flip}
    keys[i] = key;
    places[i] = (u32)i;
    // The result may lie over it.
    (({s} *)a.w[12])[g] = raw;
  }} else if (a.w[6] == 1) {{
    // The place of an element among two runs: its own number and how many of the other run come before it. Of equal ones the left run's come first.
    const i64 pair = i / (2 * run) * (2 * run), middle = pair + run < n ? pair + run : n, end = pair + 2 * run < n ? pair + 2 * run : n;
    const bool left = i < middle;
    const u64 key = keys[i];
    i64 low = left ? middle : pair, high = left ? end : middle;
    const i64 base = low;
    while (low < high) {{
      const i64 m = (low + high) / 2;
      const bool before = left ? keys[m] < key : keys[m] <= key;
      if (before) low = m + 1; else high = m;
    }}
    const i64 to = left ? i + (low - base) : pair + (i - middle) + (low - base);
    next_keys[to] = key;
    next_places[to] = places[i];
  }} else {{
    const u32 place = places[i];
    {result}
  }}
}}
"#,
        words = WORDS + 3,
    );
}
