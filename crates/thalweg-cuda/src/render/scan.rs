//! Scans along rows in memory: running sums, products, extremes and logarithms of sums of exponentials. Sorts are in [`sort`](super::sort).
//!
//! In: rows of a piece of scratch memory. Out: launches. Floats are accumulated in f64 and each result is rounded once, as on every device.
//!
//! Each thread takes eight neighbouring points: it folds them, the block scans the totals of its threads (a *turn*), and each thread gives out its points. A row is cut into *chunks* of
//! turns, which are put together in order; so where rows are too few to keep the chip busy, several blocks share one: a launch folds each chunk, and in a second one each
//! block begins with what the chunks before its own give.
//!
//! Always true: where rows lie along memory, results have the same bits whatever the number of rows and blocks, since chunks follow from the length of a row alone.

use super::sort;
use super::types::{held, pack, stored, unpack};
use crate::compiler::Compiler;
use crate::launch::Word;
use crate::program::{Draft, Plan, blocks};
use crate::render::UnitKey;
use thalweg_ir::{DType, ScanOp};

/// A scan of rows of scratch memory.
#[derive(Clone, Copy, Debug)]
pub struct RowScan {
    /// Which.
    pub op: ScanOp,
    /// From the end; of a sort: descending.
    pub reverse: bool,
    /// Of the elements.
    pub dtype: DType,
    /// How many rows.
    pub rows: usize,
    /// Points of a row.
    pub points: usize,
    /// Elements from row to row.
    pub row_step: usize,
    /// Elements from point to point.
    pub point_step: usize,
    /// The piece with the elements.
    pub from: u16,
    /// The piece for the result; may be the same.
    pub to: u16,
}

/// What decides the source of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScanClass {
    /// Which.
    pub op: ScanOp,
    /// From the end; of a sort: descending.
    pub reverse: bool,
    /// Of the elements.
    pub dtype: DType,
    /// How rows are shared.
    pub way: Way,
}

/// Who has a row, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// A thread.
    InOrder,
    /// A few threads of a warp.
    Short,
    /// A block of one to eight warps, or several of them.
    Long,
    /// A column of threads of a block, whose neighbours have neighbouring rows; or several.
    Across,
    /// Of a sort: a block has a stretch of a row, or rows that fit one.
    Stretch,
    /// Of a sort: a block has a stretch of two runs that are merged.
    Merge,
}

/// Words: from, to, rows, points, step from row to row, from point to point; threads of a row, or points of a chunk; blocks of a row, chunks of a block, chunks of a row, whether chunks are only folded,
/// partial results, rows of a block.
const WORDS: usize = 13;
/// Threads of a block.
const BLOCK: usize = 256;
/// Points of a thread in a turn.
const POINTS: usize = 8;
/// Points of a warp in a turn.
const WARP: usize = 32 * POINTS;
/// Chunks of a row at most: each block folds the partial results of those before its own.
const CHUNKS: usize = 512;
/// Turns of a row above which blocks may share it.
const LONG: usize = 4;

impl RowScan {
    /// The class of its source, in order.
    pub fn class(&self) -> ScanClass {
        ScanClass { op: self.op, reverse: self.reverse, dtype: self.dtype, way: Way::InOrder }
    }

    /// Adds its launches.
    pub fn add(self, plan: &mut Plan, compiler: &Compiler) {
        let RowScan { op, dtype, rows, points: n, .. } = self;
        if rows * n == 0 {
            return;
        }
        if matches!(op, ScanOp::Sort | ScanOp::Argsort) {
            return sort::add(self, plan, compiler);
        }
        // Of products in another order one may overflow where the other vanishes.
        if op == ScanOp::Prod && dtype.is_float() {
            return self.draft(plan, compiler, Way::InOrder, blocks(rows, 32), 32, &[]);
        }
        if self.point_step != 1 && self.row_step == 1 && rows >= 8 {
            let most = rows.next_power_of_two();
            let deep = n.div_ceil(POINTS).next_power_of_two().clamp(1, BLOCK / most.clamp(8, 32));
            let wide = most.clamp(8, BLOCK / deep);
            return self.add_chunks(plan, compiler, Way::Across, wide, deep);
        }
        if n <= WARP {
            let threads = n.div_ceil(POINTS).next_power_of_two().clamp(1, 32);
            let grid = blocks(rows, BLOCK / threads);
            return self.draft(plan, compiler, Way::Short, grid, BLOCK as u32, &[threads]);
        }
        // No more warps than have points.
        let deep = n.div_ceil(POINTS).next_power_of_two().clamp(32, BLOCK);
        self.add_chunks(plan, compiler, Way::Long, 1, deep);
    }

    /// Blocks of `wide` rows side by side, `deep` threads for each.
    fn add_chunks(self, plan: &mut Plan, compiler: &Compiler, way: Way, wide: usize, deep: usize) {
        let (turn, tiles, n) = (deep * POINTS, self.rows.div_ceil(wide), self.points);
        let chunk = n.div_ceil(CHUNKS).next_multiple_of(turn).max(turn);
        let chunks = n.div_ceil(chunk).max(1);
        let chip = compiler.chip().multiprocessors as usize;
        let few = tiles < 2 * chip && n > LONG * turn;
        let most = if few { (4 * chip).div_ceil(tiles.max(1)) } else { 1 };
        let own = chunks.div_ceil(most);
        let shares = chunks.div_ceil(own);
        let grid = blocks(tiles * shares, 1);
        let block = (wide * deep) as u32;
        if shares == 1 {
            return self.draft(plan, compiler, way, grid, block, &[chunk, 1, own, chunks, 0, 0, wide]);
        }
        plan.scratch.push((8 * self.rows * chunks).max(64));
        let piece = plan.scratch.len() as u16 - 1;
        for fold in [1, 0] {
            self.draft(plan, compiler, way, grid, block, &[chunk, shares, own, chunks, fold, 0, wide]);
            if let Some(stage) = plan.stages.last_mut() {
                stage.patches.push((11, Word::Scratch(piece, 0)));
            }
        }
    }

    /// A launch with these words behind the sizes.
    fn draft(self, plan: &mut Plan, compiler: &Compiler, way: Way, grid: u32, block: u32, more: &[usize]) {
        let mut words = vec![0; WORDS];
        let sizes = [self.rows, self.points, self.row_step, self.point_step];
        words[2..].iter_mut().zip(sizes.iter().chain(more)).for_each(|(w, &v)| *w = v as u64);
        let patches = vec![(0, Word::Scratch(self.from, 0)), (1, Word::Scratch(self.to, 0))];
        let unit = compiler.unit(UnitKey::Scan(ScanClass { way, ..self.class() }));
        plan.stages.push(Draft { unit, grid: [grid.max(1), 1, 1], block, shared: 0, words, patches });
    }
}

/// The source of a scan with one function, `scan`.
pub fn source(class: &ScanClass) -> String {
    let text = Text::new(class);
    match class.way {
        Way::InOrder => text.in_order(),
        Way::Short => text.short(),
        Way::Long => text.long(),
        Way::Across => text.across(),
        Way::Stretch | Way::Merge => sort::source(class),
    }
}

/// What all ways are written with.
struct Text {
    /// Of an element in memory.
    element: &'static str,
    /// What is accumulated.
    wide: &'static str,
    identity: &'static str,
    /// The element `raw` as such.
    value: String,
    /// What is accumulated, `y`, as an element.
    narrowed: String,
    /// The place of point `i`.
    place: &'static str,
    /// Functions before the kernel.
    combined: String,
}

/// Parts of the kernel for chunks.
struct Chunked {
    /// Who is who.
    names: String,
    /// Totals of a turn that the block puts together, and rows that it has, at most.
    most: [usize; 2],
    /// Who folds what comes before the block, and who keeps the fold of a chunk; of each row one.
    chosen: [&'static str; 2],
    /// The number of a thread's row among those of the block.
    column: &'static str,
    /// The place of a partial result.
    partial: &'static str,
    /// Fills `x` with the thread's points, folded one by one.
    load: String,
    /// Finds `before`, what the threads before give in the turn, and `all`, what the turn gives.
    scan: String,
    /// Gives out the points, after `carry`.
    store: String,
}

impl Text {
    fn new(class: &ScanClass) -> Text {
        let float = class.dtype.is_float();
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
            (ScanOp::Sum, true) => "-0.0",
            (ScanOp::Sum, false) => "0",
            (ScanOp::Prod, _) => "1",
            (ScanOp::Max | ScanOp::LogSumExp, true) => "-__longlong_as_double(0x7ff0000000000000ll)",
            (_, true) => "__longlong_as_double(0x7ff0000000000000ll)",
            (ScanOp::Max, false) => "Int<i64>::low",
            _ => "Int<i64>::high",
        };
        let log_add = r#"
FN double log_add(double x, double y) {
  double high = larger(x, y), low = smaller(x, y);
  if (high != high) return high;
  if (high == -__longlong_as_double(0x7ff0000000000000ll) || high == __longlong_as_double(0x7ff0000000000000ll)) return high;
  return high + log1p(exp(low - high));
}"#;
        let log_add = if class.op == ScanOp::LogSumExp { log_add } else { "" };
        Text {
            element: stored(class.dtype),
            wide,
            identity,
            value: unpack(class.dtype, "raw"),
            narrowed: narrow(class.dtype, "y"),
            place: if class.reverse { "(n - 1 - i)" } else { "i" },
            combined: format!("{log_add}\nFN {wide} combined({wide} x, {wide} y) {{ return {of}; }}"),
        }
    }

    /// How every kernel begins, with blocks of that many threads at most.
    fn head(&self, block: usize) -> String {
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
    fn in_order(&self) -> String {
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
      if (i < n) loaded[k] = from[start + {place} * step];
    }}
    #pragma unroll
    for (int k = 0; k < {POINTS}; k++) {{
      const i64 i = first + k;
      const {s} raw = loaded[k];
      y = combined(y, ({wide}){value});
      if (i < n) to[start + {place} * step] = {narrowed};
    }}
  }}
}}
"#
            )
    }

    /// Rows of at most 256 points, as many of them a warp as there are threads for.
    fn short(&self) -> String {
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
        let load = each("loaded[k] = from[at];");
        let spread = each(&format!("mine[slot(r * threads * {POINTS} + (u32)i)] = loaded[k];"));
        let store = each(&format!("to[at] = mine[slot(r * threads * {POINTS} + (u32)i)];"));
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

    /// A block has points side by side; they go through shared memory, so that a warp touches neighbours at once and each thread has eight in a row.
    fn long(&self) -> String {
        let Text { element: s, wide, identity, value, narrowed, place, .. } = self;
        let warps = BLOCK / 32;
        self.chunked(&Chunked {
            names: format!(
                r#"
  const i64 row = blockIdx.x / shares;
  __shared__ {s} points[{warps}][{WARP} + {WARP} / 32];
  {s} *const mine = points[warp];
  const u32 turn_points = blockDim.x * {POINTS};
"#
            ),
            most: [warps, 1],
            chosen: ["warp == 0", "t == 0"],
            column: "0",
            partial: "row * chunks + c",
            load: format!(
                r#"
      const i64 head = first + warp * {WARP};
      {s} loaded[{POINTS}] = {{}};
      #pragma unroll
      for (int k = 0; k < {POINTS}; k++) {{
        const i64 i = head + lane + 32 * k;
        if (i < stop) loaded[k] = from[start + {place} * step];
      }}
      #pragma unroll
      for (int k = 0; k < {POINTS}; k++) mine[slot(lane + 32 * k)] = loaded[k];
      __syncwarp();
      #pragma unroll
      for (int k = 0; k < {POINTS}; k++) {{
        const {s} raw = mine[slot(lane * {POINTS} + k)];
        x[k] = head + lane * {POINTS} + k < stop ? ({wide}){value} : {identity};
        if (k) x[k] = combined(x[k - 1], x[k]);
      }}
"#
            ),
            scan: format!(
                r#"
      before = x[{POINTS} - 1];
      for (u32 o = 1; o < 32; o *= 2) {{
        const {wide} other = __shfl_up_sync(0xffffffffu, before, o);
        if (lane >= o) before = combined(other, before);
      }}
      if (lane == 31) totals[turn][warp] = before;
      before = __shfl_up_sync(0xffffffffu, before, 1);
      if (lane == 0) before = {identity};
      __syncthreads();
      #pragma unroll
      for (u32 w = 0; w < {warps}; w++) {{
        if (w * 32 >= blockDim.x) break;
        if (w == warp) before = combined(all, before);
        all = combined(all, totals[turn][w]);
      }}
"#
            ),
            store: format!(
                r#"
        #pragma unroll
        for (int k = 0; k < {POINTS}; k++) {{
          const {wide} y = combined(carry, x[k]);
          mine[slot(lane * {POINTS} + k)] = {narrowed};
        }}
        __syncwarp();
        #pragma unroll
        for (int k = 0; k < {POINTS}; k++) {{
          const i64 i = head + lane + 32 * k;
          if (i < stop) to[start + {place} * step] = mine[slot(lane + 32 * k)];
        }}
"#
            ),
        })
    }

    /// Threads side by side have rows side by side.
    fn across(&self) -> String {
        let Text { element: s, wide, identity, value, narrowed, place, .. } = self;
        self.chunked(&Chunked {
            names: format!(
                r#"
  const u32 width = (u32)a.w[12], column = t % width, depth = t / width, deep = blockDim.x / width;
  const i64 row = (i64)(blockIdx.x / shares) * width + column;
  const bool live = row < rows;
  const u32 turn_points = deep * {POINTS};
"#
            ),
            most: [BLOCK, BLOCK],
            chosen: ["depth == 0 && live", "depth == 0 && live"],
            column: "column",
            partial: "c * rows + row",
            load: format!(
                r#"
      const i64 head = first + depth * {POINTS};
      {s} loaded[{POINTS}] = {{}};
      #pragma unroll
      for (int k = 0; k < {POINTS}; k++) {{
        const i64 i = head + k;
        if (i < stop && live) loaded[k] = from[start + {place} * step];
      }}
      #pragma unroll
      for (int k = 0; k < {POINTS}; k++) {{
        const {s} raw = loaded[k];
        x[k] = head + k < stop ? ({wide}){value} : {identity};
        if (k) x[k] = combined(x[k - 1], x[k]);
      }}
"#
            ),
            scan: format!(
                r#"
      totals[turn][t] = x[{POINTS} - 1];
      __syncthreads();
      for (u32 d = 0; d < deep; d++) {{
        if (d == depth) before = all;
        all = combined(all, totals[turn][d * width + column]);
      }}
"#
            ),
            store: format!(
                r#"
        #pragma unroll
        for (int k = 0; k < {POINTS}; k++) {{
          const i64 i = head + k;
          const {wide} y = combined(carry, x[k]);
          if (i < stop && live) to[start + {place} * step] = {narrowed};
        }}
"#
            ),
        })
    }

    fn chunked(&self, parts: &Chunked) -> String {
        let Text { wide, identity, .. } = self;
        let Chunked { most: [totals, rows_of_block], chosen: [folds, keeps], column, partial, .. } = parts;
        let [names, load, scan, store] = [&parts.names, &parts.load, &parts.scan, &parts.store].map(|p| p.trim());
        self.head(BLOCK)
            + &format!(
                r#"  const u32 shares = (u32)a.w[7];
  const i64 chunk = (i64)a.w[6], own = (i64)a.w[8], chunks = (i64)a.w[9], share = blockIdx.x % shares;
  const bool folded = a.w[10] != 0;
  {wide} *const partials = ({wide} *)a.w[11];
  {names}
  const i64 start = row * row_step;
  // Two of them, so that a barrier a turn is enough.
  __shared__ {wide} totals[2][{totals}], carried[{rows_of_block}];
  {wide} base = {identity};
  if (share > 0 && !folded) {{
    if ({folds}) {{
      #pragma unroll 8
      for (i64 c = 0; c < share * own; c++) base = combined(base, partials[{partial}]);
      carried[{column}] = base;
    }}
    __syncthreads();
    base = carried[{column}];
  }}
  u32 turn = 0;
  for (i64 c = share * own; c < (share + 1) * own && c < chunks; c++) {{
    {wide} part = {identity};
    const i64 stop = (c + 1) * chunk < n ? (c + 1) * chunk : n;
    for (i64 first = c * chunk; first < stop; first += turn_points) {{
      {wide} x[{POINTS}];
      {load}
      {wide} before = {identity}, all = {identity};
      {scan}
      turn ^= 1;
      if (!folded) {{
        const {wide} carry = combined(combined(base, part), before);
        {store}
      }}
      part = combined(part, all);
    }}
    if (folded && {keeps}) partials[{partial}] = part;
    base = combined(base, part);
  }}
}}
"#
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
