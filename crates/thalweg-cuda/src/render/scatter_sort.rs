//! Indices of a scatter sorted by the place that they name.
//!
//! In: rows of indices. Out: rows of pairs (place in the upper half, number of the index in the lower), sorted by place
//! and then by number; those out of range, which name the place behind the last one, come last. A radix sort from the
//! lowest digit on: each pass counts digits in tiles, finds where each digit of each tile begins, and moves the pairs
//! there; of rows of one tile a pass is one launch.
//!
//! Always true: a pass keeps pairs of the same digit in order.

use std::fmt::Write;
use thalweg_gpu::class::sorted::{BITS, DIGITS, EACH, HEAD, SortClass, SortStep};

/// The source of a launch of a sort, with one function, `scatter`.
pub fn source(class: &SortClass) -> String {
    let head = "  const u32 n = (u32)a.w[4], tiles = (u32)a.w[6], t = threadIdx.x, lane = t % 32, warp = t / 32;\n";
    let body = match class.step {
        SortStep::Count => count(&pairs(class)),
        SortStep::Offsets => offsets(),
        SortStep::Move => moved(&pairs(class)),
    };
    let mut functions = String::new();
    if class.step != SortStep::Offsets {
        functions += "FN u32 digit_of(u64 pair, u32 shift) { return (u32)(pair >> 32) >> shift & ";
        let _ = writeln!(functions, "{}; }}", DIGITS - 1);
    }
    if class.dims.is_some() {
        functions += NAMED;
    }
    if class.step != SortStep::Count {
        functions += SUM_TO;
    }
    format!(
        r#"
{functions}extern "C" __global__ void __launch_bounds__({DIGITS}) scatter(THALWEG_PARAMETER({words})) {{
  begin();
{head}{body}}}
"#,
        words = HEAD + 2 * class.dims.unwrap_or(0) as usize,
    )
}

/// Defines `PAIR(i)`, which is read where the row is known.
fn pairs(class: &SortClass) -> String {
    let Some(dims) = class.dims else {
        return "  const u64 *const from = (const u64 *)a.w[0] + (i64)row * n;\n#define PAIR(i) load1(from + (i))\n"
            .into();
    };
    let mut at = String::from("  const i64 *from = (const i64 *)a.w[0];\n");
    if dims > 0 {
        at += "  u32 rest = row;\n";
    }
    for d in (0..dims as usize).rev() {
        let w = HEAD + 2 * d;
        let _ = writeln!(at, "  from += (i64)(rest % (u32)a.w[{w}]) * (i64)a.w[{}]; rest /= (u32)a.w[{w}];", w + 1);
    }
    at + "#define PAIR(i) named(load1(from + (i64)(i) * (i64)a.w[8]), i, a.w[5], (u32 *)a.w[9])\n"
}

/// How often each digit stands in a tile.
fn count(read: &str) -> String {
    let tile = EACH * DIGITS;
    format!(
        r#"  __shared__ u32 counts[{DIGITS}];
  const u32 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
{read}  counts[t] = 0;
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < {EACH}; k++) {{
    const u32 i = tile * {tile} + k * {DIGITS} + t;
    if (i < n) atomicAdd(&counts[digit_of(PAIR(i), (u32)a.w[7])], 1u);
  }}
  __syncthreads();
  store1((u32 *)a.w[2] + ((i64)row * {DIGITS} + t) * tiles + tile, counts[t]);
"#
    )
}

/// Where each tile's pairs of a digit begin, among those of the digit; and how many of these there are.
fn offsets() -> String {
    let warps = DIGITS / 32;
    format!(
        r#"  const i64 which = (i64)blockIdx.x * {warps} + warp;
  u32 *const counts = (u32 *)a.w[2] + which * tiles;
  u32 before = 0;
  for (u32 first = 0; first < tiles; first += 128) {{
    u32 own[4];
#pragma unroll
    for (u32 k = 0; k < 4; k++) {{ const u32 i = first + 32 * k + lane; own[k] = i < tiles ? load1(counts + i) : 0; }}
#pragma unroll
    for (u32 k = 0; k < 4; k++) {{
      const u32 i = first + 32 * k + lane, x = sum_to(own[k], lane);
      if (i < tiles) store1(counts + i, before + x - own[k]);
      before += __shfl_sync(0xffffffffu, x, 31);
    }}
  }}
  if (lane == 0) store1((u32 *)a.w[3] + which, before);
"#
    )
}

/// Each pair to where its digit's are, in the order in which they were.
fn moved(read: &str) -> String {
    let (tile, warps) = (EACH * DIGITS, DIGITS / 32);
    format!(
        r#"  __shared__ u32 counts[{warps}][{DIGITS}];
  __shared__ u32 starts[{DIGITS}];
  __shared__ u32 sums[{warps}];
  const u32 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
{read}  u64 *const to = (u64 *)a.w[1] + (i64)row * n;
  const u32 shift = (u32)a.w[7], first = tile * {tile} + warp * {stretch} + lane;
  u64 pairs[{EACH}];
#pragma unroll
  for (u32 k = 0; k < {EACH}; k++) pairs[k] = first + 32 * k < n ? PAIR(first + 32 * k) : 0;
  // Of digit t: how many the row has, and how many of them the tiles before.
  u32 total = 0, offset = 0;
  if (tiles > 1) {{
    total = load1((u32 *)a.w[3] + (i64)row * {DIGITS} + t);
    offset = load1((u32 *)a.w[2] + ((i64)row * {DIGITS} + t) * tiles + tile);
  }}
  for (u32 w = 0; w < {warps}; w++) counts[w][t] = 0;
  __syncthreads();
  // How many of the same digit a warp has met before, in the order of its stretch.
  u32 ranks[{EACH}];
#pragma unroll
  for (u32 k = 0; k < {EACH}; k++) {{
    const bool inside = first + 32 * k < n;
    const u32 digit = digit_of(pairs[k], shift);
    u32 same = __ballot_sync(0xffffffffu, inside);
#pragma unroll
    for (u32 bit = 0; bit < {BITS}; bit++) {{
      const bool one = digit >> bit & 1;
      const u32 ones = __ballot_sync(0xffffffffu, one);
      same &= one ? ones : ~ones;
    }}
    const u32 below = __popc(same & ((1u << lane) - 1)), before = counts[warp][digit];
    __syncwarp();
    if (inside && below == 0) counts[warp][digit] = before + __popc(same);
    __syncwarp();
    ranks[k] = before + below;
  }}
  __syncthreads();
  // How many of digit t the warps before have.
  u32 before = 0;
  for (u32 w = 0; w < {warps}; w++) {{ const u32 own = counts[w][t]; counts[w][t] = before; before += own; }}
  if (tiles == 1) total = before;
  // Where the tile's pairs with digit t go: behind those with smaller digits, and behind those of tiles before.
  u32 start = sum_to(total, lane);
  if (lane == 31) sums[warp] = start;
  __syncthreads();
  for (u32 w = 0; w < warp; w++) start += sums[w];
  starts[t] = start - total + offset;
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < {EACH}; k++) {{
    const u32 digit = digit_of(pairs[k], shift);
    if (first + 32 * k < n) store1(to + (starts[digit] + counts[warp][digit] + ranks[k]), pairs[k]);
  }}
"#,
        stretch = EACH * 32,
    )
}

const NAMED: &str = r#"// The pair of an index.
FN u64 named(i64 place, u32 i, u64 places, u32 *fault) {
  if ((u64)place >= places) { *fault = 1; place = (i64)places; }
  return (u64)place << 32 | i;
}
"#;

const SUM_TO: &str = r#"// The sum of what lanes up to this one have.
FN u32 sum_to(u32 x, u32 lane) {
#pragma unroll
  for (u32 o = 1; o < 32; o *= 2) { const u32 other = __shfl_up_sync(0xffffffffu, x, o); if (lane >= o) x += other; }
  return x;
}
"#;
