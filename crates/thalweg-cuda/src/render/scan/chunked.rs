//! Scans by blocks: a turn of all threads after the other, a chunk after the other.

use super::text::Text;
use super::{BLOCK, POINTS, WARP};

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
    /// A block has points side by side; they go through shared memory, so that a warp touches neighbours at once and
    /// each thread has eight in a row.
    pub(super) fn long(&self) -> String {
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
        if (i < stop) loaded[k] = element_at(from, start + {place} * step);
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
          if (i < stop) set_at(to, start + {place} * step, mine[slot(lane + 32 * k)]);
        }}
"#
            ),
        })
    }

    /// Threads side by side have rows side by side.
    pub(super) fn across(&self) -> String {
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
        if (i < stop && live) loaded[k] = element_at(from, start + {place} * step);
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
          if (i < stop && live) set_at(to, start + {place} * step, ({s}){narrowed});
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
      for (i64 c = 0; c < share * own; c++) base = combined(base, element_at(partials, {partial}));
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
    if (folded && {keeps}) set_at(partials, {partial}, part);
    base = combined(base, part);
  }}
}}
"#
            )
    }
}
