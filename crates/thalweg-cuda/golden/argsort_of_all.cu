// options:

// Rows along: 512 threads each, read in every pass. Phase 0, several blocks a row.
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(16)) {
  begin();
  float *const p0 = (float *)a.w[8];
  i64 *const p1 = (i64 *)a.w[10];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const u32 chunks = (u32)a.w[2];
  const u32 tile = blockIdx.x / chunks;
  const u32 chunk = blockIdx.x % chunks;
  const i32 begin = (i32)((u64)chunk * a.w[3]);
  const i32 stop = n - begin < (i32)a.w[3] ? n : begin + (i32)a.w[3];
  const u32 t = threadIdx.x % 512u;
  const i32 own_row = (i32)tile * 1 + (i32)(threadIdx.x / 512u);
  const bool live = own_row < rows;
  const i32 row = live ? own_row : rows - 1;
  float *const b0 = (float *)a.w[13];
  i64 *const b1 = (i64 *)a.w[14];
  {
    #pragma unroll 4
    for (i32 q = begin + (i32)t; q < stop; q += 512) {
      const i32 j0 = q;
      __align__(16) float r0[4];
      loadv(r0, p0 + j0 * 4);
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = r0[v];
        if (live) {
          set_at(b0, ((i64)row * (i64)n + (i64)q) * 4 + (i64)v, (float)n0);
        }
      }
    }
  }
}

// options: -fmad=false

// Scan of rows in memory: Argsort of f32, digits counted.

typedef float S;
typedef u32 Key;
constexpr bool PLACES = true;
FN Key key_of(S raw) { const u32 b = f32_bits(raw); Key key = raw != raw ? 0xffffffffu : raw == 0 ? 0x80000000u : b >> 31 ? ~b : b | 0x80000000u;  return key; }
// Radix sorts of long rows, from the lowest digit on (docs/cuda.md, "Sorts"). In front of it stand S, the element in memory; Key, its key; `key_of`, which makes the one of the
// other, in the order that is wanted; PLACES, whether places are asked for. Behind it is a kernel that counts all digits at once, or a pass that moves elements to where theirs are.
constexpr u32 DIGITS = 256, WARPS = DIGITS / 32, EACH = sizeof(S) == 8 ? 8 : 16, TILE = DIGITS * EACH;
// Two at least, so that the last one reads from somewhere else than it writes to.
constexpr u32 PASSES = sizeof(S) < 2 ? 2 : sizeof(S), COPIES = 16 / PASSES;
FN u32 digit_of(Key key, u32 pass) { return pass < sizeof(S) ? (u32)(key >> 8 * pass) & DIGITS - 1 : 0; }

// The sum of what threads of the block up to this one have. `sums` is shared memory for a number of each warp, free again behind the next barrier.
FN u32 sum_to(u32 x, u32 *sums) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  #pragma unroll
  for (u32 o = 1; o < 32; o *= 2) { const u32 other = __shfl_up_sync(0xffffffffu, x, o); if (lane >= o) x += other; }
  if (lane == 31) sums[warp] = x;
  __syncthreads();
  for (u32 w = 0; w < warp; w++) x += sums[w];
  return x;
}

// Where a pass of a row reads and writes: whence in the lower half, whither in the upper one; 0 where it is left out.
enum : u32 { GIVEN = 1, FIRST = 2, SECOND = 3, RESULT = 4 };

// What is counted of a row, put down by the last one of its blocks: where each digit of each pass begins, and which passes there are. A pass in which all digits are the same moves
// nothing. Counters are 0 again.
FN void starts_of_digits(u32 *counters, u32 *starts, u32 n, u32 *sums) {
  const u32 t = threadIdx.x;
  u32 many = 0;
  #pragma unroll
  for (u32 p = 0; p < PASSES; p++) {
    const u32 own = atomicExch(counters + p * DIGITS + t, 0u), up_to = sum_to(own, sums);
    store1(starts + p * DIGITS + t, up_to - own);
    const bool same = __syncthreads_or(own == n);
    many |= (same ? 0u : 1u) << p;
  }
  for (u32 p = 0; __popc(many) < 2; p++) many |= 1u << p;
  if (t < PASSES) {
    const u32 before = __popc(many & (1u << t) - 1), count = __popc(many);
    const u32 whence = before == 0 ? GIVEN : before % 2 ? FIRST : SECOND, whither = before + 1 == count ? RESULT : before % 2 ? SECOND : FIRST;
    store1(starts + PASSES * DIGITS + t, many >> t & 1 ? whence | whither << 16 : 0);
  }
}

// How many elements of the same digit stand before each of a thread's in its warp's stretch, counted on in `counts`; those up to `count` of the stretch, of which a thread has
// every 32nd.
FN void ranks_in_warp(const u32 (&digit)[EACH], u32 count, u32 *counts, u32 (&ranks)[EACH]) {
  const u32 lane = threadIdx.x % 32;
  #pragma unroll
  for (u32 k = 0; k < EACH; k++) {
    const bool inside = 32 * k + lane < count;
    u32 same = __ballot_sync(0xffffffffu, inside);
    #pragma unroll
    for (u32 bit = 0; bit < 8; bit++) {
      const bool one = digit[k] >> bit & 1;
      const u32 ones = __ballot_sync(0xffffffffu, one);
      same &= one ? ones : ~ones;
    }
    const u32 below = __popc(same & ((1u << lane) - 1)), before = counts[digit[k]];
    __syncwarp();
    if (inside && below == 0) counts[digit[k]] = before + __popc(same);
    __syncwarp();
    ranks[k] = before + below;
  }
}

// How often this thread's digit stands in the tiles of the row before this one, which has it `total` times. `own` is where the tile tells that: the count in 31 bits, and whether it
// is that of all tiles up to there.
FN u32 tiles_before(u64 *own, u32 tag, u32 tile, u32 total) {
  constexpr u32 AHEAD = 4;
  const u64 head = (u64)tag << 32;
  tell(own, head | total | (tile == 0 ? 1u << 31 : 0));
  u32 before = 0;
  u64 times = 0;
  for (u32 back = 1; back <= tile;) {
    const u32 from = back;
    u64 words[AHEAD];
    #pragma unroll
    for (u32 k = 0; k < AHEAD; k++) words[k] = back + k <= tile ? told(own - (u64)(back + k) * DIGITS) : 0;
    #pragma unroll
    for (u32 k = 0; k < AHEAD; k++) {
      // Behind one that is not told yet, nothing is taken; behind a whole one, nothing is left.
      if (back > tile || (u32)(words[k] >> 32) != tag) break;
      before += (u32)words[k] & ~(1u << 31);
      back = (u32)words[k] >> 31 ? tile + 1 : back + 1;
    }
    if (back == from) look_again(times++);
  }
  if (tile > 0 && is_told(tile)) tell(own, head | before + total | 1u << 31);
  return before;
}

extern "C" __global__ void __launch_bounds__(256) scan(THALWEG_PARAMETER(14)) {
  begin();
  const u32 n = (u32)a.w[3], tiles = (u32)a.w[6], t = threadIdx.x;
  const u32 shares = (u32)a.w[7], row = blockIdx.x / shares, share = blockIdx.x % shares;
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
}

// options: -fmad=false

// Scan of rows in memory: Argsort of f32, moved to where its digit is.

typedef float S;
typedef u32 Key;
constexpr bool PLACES = true;
FN Key key_of(S raw) { const u32 b = f32_bits(raw); Key key = raw != raw ? 0xffffffffu : raw == 0 ? 0x80000000u : b >> 31 ? ~b : b | 0x80000000u;  return key; }
// Radix sorts of long rows, from the lowest digit on (docs/cuda.md, "Sorts"). In front of it stand S, the element in memory; Key, its key; `key_of`, which makes the one of the
// other, in the order that is wanted; PLACES, whether places are asked for. Behind it is a kernel that counts all digits at once, or a pass that moves elements to where theirs are.
constexpr u32 DIGITS = 256, WARPS = DIGITS / 32, EACH = sizeof(S) == 8 ? 8 : 16, TILE = DIGITS * EACH;
// Two at least, so that the last one reads from somewhere else than it writes to.
constexpr u32 PASSES = sizeof(S) < 2 ? 2 : sizeof(S), COPIES = 16 / PASSES;
FN u32 digit_of(Key key, u32 pass) { return pass < sizeof(S) ? (u32)(key >> 8 * pass) & DIGITS - 1 : 0; }

// The sum of what threads of the block up to this one have. `sums` is shared memory for a number of each warp, free again behind the next barrier.
FN u32 sum_to(u32 x, u32 *sums) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  #pragma unroll
  for (u32 o = 1; o < 32; o *= 2) { const u32 other = __shfl_up_sync(0xffffffffu, x, o); if (lane >= o) x += other; }
  if (lane == 31) sums[warp] = x;
  __syncthreads();
  for (u32 w = 0; w < warp; w++) x += sums[w];
  return x;
}

// Where a pass of a row reads and writes: whence in the lower half, whither in the upper one; 0 where it is left out.
enum : u32 { GIVEN = 1, FIRST = 2, SECOND = 3, RESULT = 4 };

// What is counted of a row, put down by the last one of its blocks: where each digit of each pass begins, and which passes there are. A pass in which all digits are the same moves
// nothing. Counters are 0 again.
FN void starts_of_digits(u32 *counters, u32 *starts, u32 n, u32 *sums) {
  const u32 t = threadIdx.x;
  u32 many = 0;
  #pragma unroll
  for (u32 p = 0; p < PASSES; p++) {
    const u32 own = atomicExch(counters + p * DIGITS + t, 0u), up_to = sum_to(own, sums);
    store1(starts + p * DIGITS + t, up_to - own);
    const bool same = __syncthreads_or(own == n);
    many |= (same ? 0u : 1u) << p;
  }
  for (u32 p = 0; __popc(many) < 2; p++) many |= 1u << p;
  if (t < PASSES) {
    const u32 before = __popc(many & (1u << t) - 1), count = __popc(many);
    const u32 whence = before == 0 ? GIVEN : before % 2 ? FIRST : SECOND, whither = before + 1 == count ? RESULT : before % 2 ? SECOND : FIRST;
    store1(starts + PASSES * DIGITS + t, many >> t & 1 ? whence | whither << 16 : 0);
  }
}

// How many elements of the same digit stand before each of a thread's in its warp's stretch, counted on in `counts`; those up to `count` of the stretch, of which a thread has
// every 32nd.
FN void ranks_in_warp(const u32 (&digit)[EACH], u32 count, u32 *counts, u32 (&ranks)[EACH]) {
  const u32 lane = threadIdx.x % 32;
  #pragma unroll
  for (u32 k = 0; k < EACH; k++) {
    const bool inside = 32 * k + lane < count;
    u32 same = __ballot_sync(0xffffffffu, inside);
    #pragma unroll
    for (u32 bit = 0; bit < 8; bit++) {
      const bool one = digit[k] >> bit & 1;
      const u32 ones = __ballot_sync(0xffffffffu, one);
      same &= one ? ones : ~ones;
    }
    const u32 below = __popc(same & ((1u << lane) - 1)), before = counts[digit[k]];
    __syncwarp();
    if (inside && below == 0) counts[digit[k]] = before + __popc(same);
    __syncwarp();
    ranks[k] = before + below;
  }
}

// How often this thread's digit stands in the tiles of the row before this one, which has it `total` times. `own` is where the tile tells that: the count in 31 bits, and whether it
// is that of all tiles up to there.
FN u32 tiles_before(u64 *own, u32 tag, u32 tile, u32 total) {
  constexpr u32 AHEAD = 4;
  const u64 head = (u64)tag << 32;
  tell(own, head | total | (tile == 0 ? 1u << 31 : 0));
  u32 before = 0;
  u64 times = 0;
  for (u32 back = 1; back <= tile;) {
    const u32 from = back;
    u64 words[AHEAD];
    #pragma unroll
    for (u32 k = 0; k < AHEAD; k++) words[k] = back + k <= tile ? told(own - (u64)(back + k) * DIGITS) : 0;
    #pragma unroll
    for (u32 k = 0; k < AHEAD; k++) {
      // Behind one that is not told yet, nothing is taken; behind a whole one, nothing is left.
      if (back > tile || (u32)(words[k] >> 32) != tag) break;
      before += (u32)words[k] & ~(1u << 31);
      back = (u32)words[k] >> 31 ? tile + 1 : back + 1;
    }
    if (back == from) look_again(times++);
  }
  if (tile > 0 && is_told(tile)) tell(own, head | before + total | 1u << 31);
  return before;
}

extern "C" __global__ void __launch_bounds__(256) scan(THALWEG_PARAMETER(14)) {
  begin();
  const u32 n = (u32)a.w[3], tiles = (u32)a.w[6], t = threadIdx.x;
  const u32 pass = (u32)a.w[7], lane = t % 32, warp = t / 32;
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
}

// options:

// Rows along: 512 threads each, read in every pass. Phase 1, several blocks a row.
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(16)) {
  begin();
  float *const p0 = (float *)a.w[8];
  i64 *const p1 = (i64 *)a.w[10];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const u32 chunks = (u32)a.w[2];
  const u32 tile = blockIdx.x / chunks;
  const u32 chunk = blockIdx.x % chunks;
  const i32 begin = (i32)((u64)chunk * a.w[3]);
  const i32 stop = n - begin < (i32)a.w[3] ? n : begin + (i32)a.w[3];
  const u32 t = threadIdx.x % 512u;
  const i32 own_row = (i32)tile * 1 + (i32)(threadIdx.x / 512u);
  const bool live = own_row < rows;
  const i32 row = live ? own_row : rows - 1;
  float *const b0 = (float *)a.w[13];
  i64 *const b1 = (i64 *)a.w[14];
  {
    #pragma unroll 4
    for (i32 q = begin + (i32)t; q < stop; q += 512) {
      const i32 j0 = q;
      __align__(16) i64 y1[4];
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const i64 n0 = element_at(b1, ((i64)row * (i64)n + (i64)q) * 4 + (i64)v);
        y1[v] = n0;
      }
      if (live) {
        storev(p1 + j0 * 4, y1);
      }
    }
  }
}
