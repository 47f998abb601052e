// options: -fmad=false

// Scatter: the copy of the tensor.
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(24)) {
  begin();
  if (a.w[0] == a.w[3]) {
    return;
  }
  float *const tensor = (float *)a.w[0];
  i64 *const index = (i64 *)a.w[1];
  float *const values = (float *)a.w[2];
  float *const to = (float *)a.w[3];
  const u32 counted = blockIdx.x * 128u + threadIdx.x;
  if (counted >= (u32)a.w[15]) {
    return;
  }
  const u32 g = counted;
  const Split cut = split(g, a.w[13], a.w[14]);
  const u32 high = cut.q;
  const u32 low = cut.r;
  const u32 along = (i64)a.w[16] == 0 ? low : high;
  u32 rest = (i64)a.w[16] == 0 ? high : low;
  i64 at0 = 0;
  i64 at1 = 0;
  i64 at2 = 0;
  i64 at3 = 0;
  i64 at4 = 0;
  {
    const Split s = split(rest, a.w[17], a.w[18]);
    const i64 i = (i64)s.r;
    rest = s.q;
    at0 = at0 + i * (i64)a.w[19];
    at1 = at1 + i * (i64)a.w[20];
    at2 = at2 + i * (i64)a.w[21];
    at3 = at3 + i * (i64)a.w[22];
    at4 = at4 + i * (i64)a.w[23];
  }
  __align__(16) float raw[4];
  loadv(raw, tensor + (at0 + (i64)along * (i64)a.w[7]));
  storev(to + (at3 + (i64)along * (i64)a.w[10]), raw);
}

// options: -fmad=false

// Sort of the indices of a scatter: digits of indices counted.
FN u32 digit_of(u64 pair, u32 shift) { return (u32)(pair >> 32) >> shift & 255; }
// The pair of an index.
FN u64 named(i64 place, u32 i, u64 places, u32 *fault) {
  if ((u64)place >= places) { *fault = 1; place = (i64)places; }
  return (u64)place << 32 | i;
}
extern "C" __global__ void __launch_bounds__(256) scatter(THALWEG_PARAMETER(10)) {
  begin();
  const u32 n = (u32)a.w[4], tiles = (u32)a.w[6], t = threadIdx.x, lane = t % 32, warp = t / 32;
  __shared__ u32 counts[256];
  const u32 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const i64 *from = (const i64 *)a.w[0];
  #define PAIR(i) named(load1(from + (i64)(i) * (i64)a.w[8]), i, a.w[5], (u32 *)a.w[9])
  counts[t] = 0;
  __syncthreads();
  #pragma unroll
  for (u32 k = 0; k < 8; k++) {
    const u32 i = tile * 2048 + k * 256 + t;
    if (i < n) atomicAdd(&counts[digit_of(PAIR(i), (u32)a.w[7])], 1u);
  }
  __syncthreads();
  store1((u32 *)a.w[2] + ((i64)row * 256 + t) * tiles + tile, counts[t]);
}

// options: -fmad=false

// Sort of the indices of a scatter: where digits of tiles begin.
// The sum of what lanes up to this one have.
FN u32 sum_to(u32 x, u32 lane) {
  #pragma unroll
  for (u32 o = 1; o < 32; o *= 2) { const u32 other = __shfl_up_sync(0xffffffffu, x, o); if (lane >= o) x += other; }
  return x;
}
extern "C" __global__ void __launch_bounds__(256) scatter(THALWEG_PARAMETER(10)) {
  begin();
  const u32 n = (u32)a.w[4], tiles = (u32)a.w[6], t = threadIdx.x, lane = t % 32, warp = t / 32;
  const i64 which = (i64)blockIdx.x * 8 + warp;
  u32 *const counts = (u32 *)a.w[2] + which * tiles;
  u32 before = 0;
  for (u32 first = 0; first < tiles; first += 128) {
    u32 own[4];
    #pragma unroll
    for (u32 k = 0; k < 4; k++) { const u32 i = first + 32 * k + lane; own[k] = i < tiles ? load1(counts + i) : 0; }
    #pragma unroll
    for (u32 k = 0; k < 4; k++) {
      const u32 i = first + 32 * k + lane, x = sum_to(own[k], lane);
      if (i < tiles) store1(counts + i, before + x - own[k]);
      before += __shfl_sync(0xffffffffu, x, 31);
    }
  }
  if (lane == 0) store1((u32 *)a.w[3] + which, before);
}

// options: -fmad=false

// Sort of the indices of a scatter: indices moved to where their digits are.
FN u32 digit_of(u64 pair, u32 shift) { return (u32)(pair >> 32) >> shift & 255; }
// The pair of an index.
FN u64 named(i64 place, u32 i, u64 places, u32 *fault) {
  if ((u64)place >= places) { *fault = 1; place = (i64)places; }
  return (u64)place << 32 | i;
}
// The sum of what lanes up to this one have.
FN u32 sum_to(u32 x, u32 lane) {
  #pragma unroll
  for (u32 o = 1; o < 32; o *= 2) { const u32 other = __shfl_up_sync(0xffffffffu, x, o); if (lane >= o) x += other; }
  return x;
}
extern "C" __global__ void __launch_bounds__(256) scatter(THALWEG_PARAMETER(10)) {
  begin();
  const u32 n = (u32)a.w[4], tiles = (u32)a.w[6], t = threadIdx.x, lane = t % 32, warp = t / 32;
  __shared__ u32 counts[8][256];
  __shared__ u32 starts[256];
  __shared__ u32 sums[8];
  const u32 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const i64 *from = (const i64 *)a.w[0];
  #define PAIR(i) named(load1(from + (i64)(i) * (i64)a.w[8]), i, a.w[5], (u32 *)a.w[9])
  u64 *const to = (u64 *)a.w[1] + (i64)row * n;
  const u32 shift = (u32)a.w[7], first = tile * 2048 + warp * 256 + lane;
  u64 pairs[8];
  #pragma unroll
  for (u32 k = 0; k < 8; k++) pairs[k] = first + 32 * k < n ? PAIR(first + 32 * k) : 0;
  // Of digit t: how many the row has, and how many of them the tiles before.
  u32 total = 0, offset = 0;
  if (tiles > 1) {
    total = load1((u32 *)a.w[3] + (i64)row * 256 + t);
    offset = load1((u32 *)a.w[2] + ((i64)row * 256 + t) * tiles + tile);
  }
  for (u32 w = 0; w < 8; w++) counts[w][t] = 0;
  __syncthreads();
  // How many of the same digit a warp has met before, in the order of its stretch.
  u32 ranks[8];
  #pragma unroll
  for (u32 k = 0; k < 8; k++) {
    const bool inside = first + 32 * k < n;
    const u32 digit = digit_of(pairs[k], shift);
    u32 same = __ballot_sync(0xffffffffu, inside);
    #pragma unroll
    for (u32 bit = 0; bit < 8; bit++) {
      const bool one = digit >> bit & 1;
      const u32 ones = __ballot_sync(0xffffffffu, one);
      same &= one ? ones : ~ones;
    }
    const u32 below = __popc(same & ((1u << lane) - 1)), before = counts[warp][digit];
    __syncwarp();
    if (inside && below == 0) counts[warp][digit] = before + __popc(same);
    __syncwarp();
    ranks[k] = before + below;
  }
  __syncthreads();
  // How many of digit t the warps before have.
  u32 before = 0;
  for (u32 w = 0; w < 8; w++) { const u32 own = counts[w][t]; counts[w][t] = before; before += own; }
  if (tiles == 1) total = before;
  // Where the tile's pairs with digit t go: behind those with smaller digits, and behind those of tiles before.
  u32 start = sum_to(total, lane);
  if (lane == 31) sums[warp] = start;
  __syncthreads();
  for (u32 w = 0; w < warp; w++) start += sums[w];
  starts[t] = start - total + offset;
  __syncthreads();
  #pragma unroll
  for (u32 k = 0; k < 8; k++) {
    const u32 digit = digit_of(pairs[k], shift);
    if (first + 32 * k < n) store1(to + (starts[digit] + counts[warp][digit] + ranks[k]), pairs[k]);
  }
}

// options: -fmad=false

// Sort of the indices of a scatter: digits of pairs of place and number counted.
FN u32 digit_of(u64 pair, u32 shift) { return (u32)(pair >> 32) >> shift & 255; }
extern "C" __global__ void __launch_bounds__(256) scatter(THALWEG_PARAMETER(10)) {
  begin();
  const u32 n = (u32)a.w[4], tiles = (u32)a.w[6], t = threadIdx.x, lane = t % 32, warp = t / 32;
  __shared__ u32 counts[256];
  const u32 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const u64 *const from = (const u64 *)a.w[0] + (i64)row * n;
  #define PAIR(i) load1(from + (i))
  counts[t] = 0;
  __syncthreads();
  #pragma unroll
  for (u32 k = 0; k < 8; k++) {
    const u32 i = tile * 2048 + k * 256 + t;
    if (i < n) atomicAdd(&counts[digit_of(PAIR(i), (u32)a.w[7])], 1u);
  }
  __syncthreads();
  store1((u32 *)a.w[2] + ((i64)row * 256 + t) * tiles + tile, counts[t]);
}

// options: -fmad=false

// Sort of the indices of a scatter: pairs of place and number moved to where their digits are.
FN u32 digit_of(u64 pair, u32 shift) { return (u32)(pair >> 32) >> shift & 255; }
// The sum of what lanes up to this one have.
FN u32 sum_to(u32 x, u32 lane) {
  #pragma unroll
  for (u32 o = 1; o < 32; o *= 2) { const u32 other = __shfl_up_sync(0xffffffffu, x, o); if (lane >= o) x += other; }
  return x;
}
extern "C" __global__ void __launch_bounds__(256) scatter(THALWEG_PARAMETER(10)) {
  begin();
  const u32 n = (u32)a.w[4], tiles = (u32)a.w[6], t = threadIdx.x, lane = t % 32, warp = t / 32;
  __shared__ u32 counts[8][256];
  __shared__ u32 starts[256];
  __shared__ u32 sums[8];
  const u32 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const u64 *const from = (const u64 *)a.w[0] + (i64)row * n;
  #define PAIR(i) load1(from + (i))
  u64 *const to = (u64 *)a.w[1] + (i64)row * n;
  const u32 shift = (u32)a.w[7], first = tile * 2048 + warp * 256 + lane;
  u64 pairs[8];
  #pragma unroll
  for (u32 k = 0; k < 8; k++) pairs[k] = first + 32 * k < n ? PAIR(first + 32 * k) : 0;
  // Of digit t: how many the row has, and how many of them the tiles before.
  u32 total = 0, offset = 0;
  if (tiles > 1) {
    total = load1((u32 *)a.w[3] + (i64)row * 256 + t);
    offset = load1((u32 *)a.w[2] + ((i64)row * 256 + t) * tiles + tile);
  }
  for (u32 w = 0; w < 8; w++) counts[w][t] = 0;
  __syncthreads();
  // How many of the same digit a warp has met before, in the order of its stretch.
  u32 ranks[8];
  #pragma unroll
  for (u32 k = 0; k < 8; k++) {
    const bool inside = first + 32 * k < n;
    const u32 digit = digit_of(pairs[k], shift);
    u32 same = __ballot_sync(0xffffffffu, inside);
    #pragma unroll
    for (u32 bit = 0; bit < 8; bit++) {
      const bool one = digit >> bit & 1;
      const u32 ones = __ballot_sync(0xffffffffu, one);
      same &= one ? ones : ~ones;
    }
    const u32 below = __popc(same & ((1u << lane) - 1)), before = counts[warp][digit];
    __syncwarp();
    if (inside && below == 0) counts[warp][digit] = before + __popc(same);
    __syncwarp();
    ranks[k] = before + below;
  }
  __syncthreads();
  // How many of digit t the warps before have.
  u32 before = 0;
  for (u32 w = 0; w < 8; w++) { const u32 own = counts[w][t]; counts[w][t] = before; before += own; }
  if (tiles == 1) total = before;
  // Where the tile's pairs with digit t go: behind those with smaller digits, and behind those of tiles before.
  u32 start = sum_to(total, lane);
  if (lane == 31) sums[warp] = start;
  __syncthreads();
  for (u32 w = 0; w < warp; w++) start += sums[w];
  starts[t] = start - total + offset;
  __syncthreads();
  #pragma unroll
  for (u32 k = 0; k < 8; k++) {
    const u32 digit = digit_of(pairs[k], shift);
    if (first + 32 * k < n) store1(to + (starts[digit] + counts[warp][digit] + ranks[k]), pairs[k]);
  }
}

// options: -fmad=false

// Scatter: Add of f32, a thread a run of sorted indices.
struct sum_float { FN static float of(float x, float y) { return x + y; } };
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(24)) {
  begin();
  float *const tensor = (float *)a.w[0];
  i64 *const index = (i64 *)a.w[1];
  float *const values = (float *)a.w[2];
  float *const to = (float *)a.w[3];
  const u32 counted = blockIdx.x * 128u + threadIdx.x;
  if (counted >= (u32)a.w[15]) {
    return;
  }
  const u32 g = counted;
  const Split cut = split(g, a.w[13], a.w[14]);
  const u32 high = cut.q;
  const u32 low = cut.r;
  const u32 along = (i64)a.w[16] == 0 ? low : high;
  u32 rest = (i64)a.w[16] == 0 ? high : low;
  i64 at0 = 0;
  i64 at1 = 0;
  i64 at2 = 0;
  i64 at3 = 0;
  i64 at4 = 0;
  {
    const Split s = split(rest, a.w[17], a.w[18]);
    const i64 i = (i64)s.r;
    rest = s.q;
    at0 = at0 + i * (i64)a.w[19];
    at1 = at1 + i * (i64)a.w[20];
    at2 = at2 + i * (i64)a.w[21];
    at3 = at3 + i * (i64)a.w[22];
    at4 = at4 + i * (i64)a.w[23];
  }
  u64 *const sorted = (u64 *)a.w[12];
  const u32 n = (u32)a.w[5];
  const u32 place = (u32)(load1(sorted + (at4 + (i64)along)) >> 32ull);
  if (place == (u32)a.w[6]) {
    return;
  }
  if (0 < (i64)along && (u32)(load1(sorted + (at4 + ((i64)along - 1))) >> 32ull) == place) {
    return;
  }
  __align__(16) float elements[4];
  loadv(elements, to + (at3 + (i64)place * (i64)a.w[10]));
  for (u32 first = along; first < n; first += 8u) {
    __align__(16) u64 pairs[8];
    __align__(16) float raws[8][4];
    __align__(16) bool mine[8];
    #pragma unroll
    for (i32 k = 0; k < 8; k++) {
      pairs[k] = first + (u32)k < n ? load1(sorted + (at4 + (i64)(first + (u32)k))) : 0xffffffffffffffffull;
    }
    #pragma unroll
    for (i32 k = 0; k < 8; k++) {
      mine[k] = (u32)(pairs[k] >> 32ull) == place;
      if (mine[k]) {
        loadv(raws[k], values + (at2 + (i64)(u32)pairs[k] * (i64)a.w[9]));
      }
    }
    #pragma unroll
    for (i32 k = 0; k < 8; k++) {
      if (mine[k]) {
        #pragma unroll
        for (i32 v = 0; v < 4; v++) {
          elements[v] = sum_float::of(elements[v], raws[k][v]);
        }
      }
    }
    if (!mine[7]) {
      break;
    }
  }
  storev(to + (at3 + (i64)place * (i64)a.w[10]), elements);
}
