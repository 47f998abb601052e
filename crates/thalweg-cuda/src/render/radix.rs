//! Radix sorts of long rows in memory (`radix.cuh`).
//!
//! In: rows of elements. Out: the rows sorted, or the places that their elements came from; equal keys keep their order.
//! First the digits of all passes are counted, and the last block of a row finds where each digit begins. Then there is
//! a launch for each digit, from the lowest on: a block brings its tile in order of the digit and moves it to where that
//! belongs, which is behind what tiles before have of the digit; these tell it as they go (Adinets and Merrill 2022). So
//! a pass reads and writes each element once. Elements move as they are, and the key is made of them anew; places move
//! with them only where they are asked for.
//!
//! Always true: a pass in which all keys of a row agree moves nothing.

use super::TOLD;
use super::sort::key;
use super::types::stored;
use thalweg_gpu::class::radix::{DIGITS, WORDS};
use thalweg_gpu::class::scan::{ScanClass, Way};
use thalweg_gpu::class::sort::is_wide;
use thalweg_ir::ScanOp;

/// What stands behind the prelude.
pub const RADIX: &str = include_str!("radix.cuh");

/// The source of a launch, with one function, `scan`.
pub fn source(class: &ScanClass) -> String {
    let (element, key, flip) = (stored(class.dtype), key(class.dtype), if class.reverse { "key = ~key;" } else { "" });
    let wide = if is_wide(class.dtype) { "u64" } else { "u32" };
    let places = class.op == ScanOp::Argsort;
    let body = if class.way == Way::Count { COUNT } else { PASS };
    format!(
        r#"
{TOLD}
typedef {element} S;
typedef {wide} Key;
constexpr bool PLACES = {places};
FN Key key_of(S raw) {{ {key} {flip} return key; }}
{RADIX}
extern "C" __global__ void __launch_bounds__({DIGITS}) scan(THALWEG_PARAMETER({WORDS})) {{
  begin();
  const u32 n = (u32)a.w[3], tiles = (u32)a.w[6], t = threadIdx.x;
{body}}}
"#
    )
}

/// Digits of all passes, of every so manieth tile of a row.
const COUNT: &str = r#"  const u32 shares = (u32)a.w[7], row = blockIdx.x / shares, share = blockIdx.x % shares;
  const S *const from = (const S *)a.w[0] + (i64)row * (i64)a.w[4];
  __shared__ u32 counts[PASSES][COPIES][DIGITS], sums[WARPS];
  for (u32 i = t; i < PASSES * COPIES * DIGITS; i += DIGITS) (&counts[0][0][0])[i] = 0;
  __syncthreads();
  // Of eight passes most digits are often the same: a thread counts how often one comes again before it tells. With few there are more tables instead.
  constexpr bool RUNS = PASSES == 8;
  u32 latest[PASSES], again[PASSES];
#pragma unroll
  for (u32 p = 0; p < PASSES; p++) latest[p] = again[p] = 0;
  for (u32 tile = share; tile < tiles; tile += shares) {
    S raw[EACH];
#pragma unroll
    for (u32 k = 0; k < EACH; k++) { const u32 i = tile * TILE + k * DIGITS + t; if (i < n) raw[k] = element_at(from, i * (i64)a.w[5]); }
#pragma unroll
    for (u32 k = 0; k < EACH; k++) {
      if (tile * TILE + k * DIGITS + t >= n) continue;
      const Key key = key_of(raw[k]);
#pragma unroll
      for (u32 p = 0; p < PASSES; p++) {
        const u32 digit = digit_of(key, p);
        if (!RUNS) {
          atomicAdd(&counts[p][t % COPIES][digit], 1u);
        } else if (digit == latest[p]) {
          again[p]++;
        } else {
          if (again[p]) atomicAdd(&counts[p][t % COPIES][latest[p]], again[p]);
          latest[p] = digit;
          again[p] = 1;
        }
      }
    }
  }
#pragma unroll
  for (u32 p = 0; p < PASSES; p++)
    if (RUNS && again[p]) atomicAdd(&counts[p][t % COPIES][latest[p]], again[p]);
  __syncthreads();
  u32 *const counters = (u32 *)a.w[13], *const own = counters + row * PASSES * DIGITS;
#pragma unroll
  for (u32 p = 0; p < PASSES; p++) {
    u32 count = 0;
#pragma unroll
    for (u32 c = 0; c < COPIES; c++) count += counts[p][c][t];
    if (count) atomicAdd(own + p * DIGITS + t, count);
  }
  __threadfence();
  __syncthreads();
  __shared__ bool last;
  if (t == 0) {
    u32 *const through = counters + (u32)a.w[2] * PASSES * DIGITS + row;
    last = atomicAdd(through, 1u) == shares - 1;
    if (last) *through = 0;
    __threadfence();
  }
  __syncthreads();
  if (last) starts_of_digits(own, (u32 *)a.w[8] + (i64)row * (PASSES * DIGITS + PASSES), n, sums);
"#;

/// One digit.
const PASS: &str = r#"  const u32 pass = (u32)a.w[7], lane = t % 32, warp = t / 32;
  __shared__ S elements[TILE];
  __shared__ u32 places[PLACES ? TILE : 1], counts[WARPS][DIGITS], local[DIGITS], begins[DIGITS], sums[WARPS];
  __shared__ u64 drawn;
  u64 *const words = (u64 *)a.w[13];
  const Ticket own = ticket(words, &drawn);
  const u32 row = own.number / tiles, tile = own.number % tiles;
  const u32 *const starts = (const u32 *)a.w[8] + (i64)row * (PASSES * DIGITS + PASSES);
  const u32 way = load1(starts + PASSES * DIGITS + pass), whence = way & 0xffff, whither = way >> 16;
  if (!way) return;
  const S *from = (const S *)a.w[whence == SECOND ? 10 : 9] + (i64)row * n;
  if (whence == GIVEN) from = (const S *)a.w[0] + (i64)row * (i64)a.w[4];
  const u32 *const from_places = (const u32 *)a.w[whence == SECOND ? 12 : 11] + (i64)row * n;
  const i64 step = whence == GIVEN ? (i64)a.w[5] : 1;
  const u32 first = tile * TILE, stretch = warp * 32 * EACH, count = n - first < TILE ? n - first : TILE;
  S raw[EACH];
  u32 place[EACH], digit[EACH], ranks[EACH];
#pragma unroll
  for (u32 k = 0; k < EACH; k++) {
    const u32 s = stretch + 32 * k + lane;
    if (s < count) raw[k] = element_at(from, (first + s) * step);
    if (PLACES) place[k] = whence == GIVEN || s >= count ? first + s : element_at(from_places, first + s);
  }
#pragma unroll
  for (u32 w = 0; w < WARPS; w++) counts[w][t] = 0;
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < EACH; k++) digit[k] = stretch + 32 * k + lane < count ? digit_of(key_of(raw[k]), pass) : 0;
  ranks_in_warp(digit, stretch < count ? count - stretch : 0, counts[warp], ranks);
  __syncthreads();
  u32 total = 0;
#pragma unroll
  for (u32 w = 0; w < WARPS; w++) { const u32 of_warp = counts[w][t]; counts[w][t] = total; total += of_warp; }
  const u32 before = tiles_before(words + 8 + (u64)own.number * DIGITS + t, own.tag, tile, total);
  const u32 here = sum_to(total, sums) - total;
  local[t] = here;
  begins[t] = load1(starts + pass * DIGITS + t) + before - here;
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < EACH; k++) {
    if (stretch + 32 * k + lane >= count) continue;
    const u32 at = local[digit[k]] + counts[warp][digit[k]] + ranks[k];
    elements[at] = raw[k];
    if (PLACES) places[at] = place[k];
  }
  __syncthreads();
  S *const to = (S *)a.w[whither == SECOND ? 10 : 9] + (i64)row * n;
  u32 *const to_places = (u32 *)a.w[whither == SECOND ? 12 : 11] + (i64)row * n;
#pragma unroll
  for (u32 k = 0; k < EACH; k++) {
    const u32 s = k * DIGITS + t;
    if (s >= count) continue;
    const S element = elements[s];
    const u32 at = begins[digit_of(key_of(element), pass)] + s;
    const i64 result = (i64)row * (i64)a.w[4] + at * (i64)a.w[5];
    if (whither != RESULT) {
      set_at(to, at, element);
      if (PLACES) set_at(to_places, at, places[s]);
    } else if (PLACES) {
      set_at((i64 *)a.w[1], result, (i64)places[s]);
    } else {
      set_at((S *)a.w[1], result, element);
    }
  }
"#;
