// options:

// Each point by itself: 1 times 1 neighbours a thread.
extern "C" __global__ void __launch_bounds__(256) map(THALWEG_PARAMETER(8)) {
  begin();
  float *const p0 = (float *)a.w[3];
  float *const p1 = (float *)a.w[5];
  const i32 n = (i32)a.w[0];
  const i32 first = (i32)blockIdx.x * 256 + (i32)threadIdx.x;
  __align__(16) float r0[1][1];
  #pragma unroll
  for (i32 u = 0; u < 1; u++) {
    const i32 j = first + u * 256;
    if (j < n) {
      const i32 i0 = j;
      r0[u][0] = load1(p0 + i0 * 1);
    }
  }
  #pragma unroll
  for (i32 u = 0; u < 1; u++) {
    const i32 j = first + u * 256;
    if (j < n) {
      const i32 i0 = j;
      __align__(16) float y1[1];
      #pragma unroll
      for (i32 v = 0; v < 1; v++) {
        const float n0 = r0[u][v];
        y1[v] = n0;
      }
      store1(p1 + i0 * 1, y1[0]);
    }
  }
}

// options: -fmad=false

// Sort of the indices of a scatter: digits of indices counted.
extern "C" __global__ void __launch_bounds__(256) scatter(THALWEG_PARAMETER(10)) {
  begin();
  const u32 n = (u32)a.w[4];
  const u32 tiles = (u32)a.w[6];
  const u32 t = threadIdx.x;
  const u32 lane = t % 32u;
  const u32 warp = t / 32u;
  const u32 row = blockIdx.x / tiles;
  const u32 tile = blockIdx.x % tiles;
  const i64 begin = 0;
  i64 *const indices = (i64 *)a.w[0];
  __shared__ u32 counts[256];
  counts[t] = 0u;
  __syncthreads();
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    const u32 i = tile * 2048u + k * 256u + t;
    if (i < n) {
      u64 own;
      {
        u64 place_1 = (u64)load1(indices + (begin + (i64)i * (i64)a.w[8]));
        if (a.w[5] <= place_1) {
          *(u32 *)a.w[9] = 1;
          place_1 = a.w[5];
        }
        own = place_1 << 32ull | (u64)i;
      }
      atomicAdd((u32 *)(counts + ((u32)(own >> 32ull) >> (u32)a.w[7] & 255u)), (u32)1u);
    }
  }
  __syncthreads();
  u32 *const in_tiles = (u32 *)a.w[2];
  store1(in_tiles + (((i64)row * 256 + (i64)t) * (i64)tiles + (i64)tile), counts[t]);
}

// options: -fmad=false

// Sort of the indices of a scatter: where digits of tiles begin.
extern "C" __global__ void __launch_bounds__(256) scatter(THALWEG_PARAMETER(10)) {
  begin();
  const u32 n = (u32)a.w[4];
  const u32 tiles = (u32)a.w[6];
  const u32 t = threadIdx.x;
  const u32 lane = t % 32u;
  const u32 warp = t / 32u;
  const i64 which = (i64)blockIdx.x * 8 + (i64)warp;
  const i64 begin = which * (i64)tiles;
  u32 *const in_tiles = (u32 *)a.w[2];
  u32 *const totals = (u32 *)a.w[3];
  u32 before = 0u;
  for (u32 first = 0u; first < tiles; first += 128u) {
    __align__(16) u32 own[4];
    #pragma unroll
    for (u32 k = 0u; k < 4u; k++) {
      const u32 i = first + 32u * k + lane;
      own[k] = i < tiles ? load1(in_tiles + (begin + (i64)i)) : 0u;
    }
    #pragma unroll
    for (u32 k = 0u; k < 4u; k++) {
      const u32 i = first + 32u * k + lane;
      u32 x = own[k];
      {
        #pragma unroll
        for (u32 b_1 = 0u; b_1 < 5u; b_1++) {
          const u32 o_1 = 1u << b_1;
          const u32 other_1 = __shfl_up_sync(0xffffffffu, x, o_1);
          if (o_1 <= lane) {
            x = x + other_1;
          }
        }
      }
      if (i < tiles) {
        store1(in_tiles + (begin + (i64)i), before + x - own[k]);
      }
      before = before + __shfl_sync(0xffffffffu, x, 31u);
    }
  }
  if (lane == 0u) {
    store1(totals + which, before);
  }
}

// options: -fmad=false

// Sort of the indices of a scatter: indices moved to where their digits are.
extern "C" __global__ void __launch_bounds__(256) scatter(THALWEG_PARAMETER(10)) {
  begin();
  const u32 n = (u32)a.w[4];
  const u32 tiles = (u32)a.w[6];
  const u32 t = threadIdx.x;
  const u32 lane = t % 32u;
  const u32 warp = t / 32u;
  const u32 row = blockIdx.x / tiles;
  const u32 tile = blockIdx.x % tiles;
  const i64 begin = 0;
  i64 *const indices = (i64 *)a.w[0];
  __shared__ u32 counts[8][256];
  __shared__ u32 starts[256];
  __shared__ u32 sums[8];
  u64 *const to = (u64 *)a.w[1];
  const u32 shift = (u32)a.w[7];
  const u32 first = tile * 2048u + warp * 256u + lane;
  __align__(16) u64 pairs[8];
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    u64 own = 0ull;
    if (first + 32u * k < n) {
      {
        const u32 i_1 = first + 32u * k;
        u64 place_1 = (u64)load1(indices + (begin + (i64)i_1 * (i64)a.w[8]));
        if (a.w[5] <= place_1) {
          *(u32 *)a.w[9] = 1;
          place_1 = a.w[5];
        }
        own = place_1 << 32ull | (u64)i_1;
      }
    }
    pairs[k] = own;
  }
  u32 total = 0u;
  u32 offset = 0u;
  if (1u < tiles) {
    u32 *const in_tiles = (u32 *)a.w[2];
    u32 *const totals = (u32 *)a.w[3];
    total = load1(totals + ((i64)row * 256 + (i64)t));
    offset = load1(in_tiles + (((i64)row * 256 + (i64)t) * (i64)tiles + (i64)tile));
  }
  for (u32 w = 0u; w < 8u; w++) {
    counts[w][t] = 0u;
  }
  __syncthreads();
  __align__(16) u32 ranks[8];
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    const bool inside = first + 32u * k < n;
    const u32 digit = (u32)(pairs[k] >> 32ull) >> shift & 255u;
    u32 same = __ballot_sync(0xffffffffu, inside);
    #pragma unroll
    for (u32 bit = 0u; bit < 8u; bit++) {
      const bool one = (digit >> bit & 1u) == 1u;
      const u32 with_one = __ballot_sync(0xffffffffu, one);
      same = same & (one ? with_one : with_one ^ 4294967295u);
    }
    const u32 below = (u32)__popc(same & (1u << lane) - 1u);
    const u32 before = counts[warp][digit];
    __syncwarp();
    if (inside && below == 0u) {
      counts[warp][digit] = before + (u32)__popc(same);
    }
    __syncwarp();
    ranks[k] = before + below;
  }
  __syncthreads();
  u32 before = 0u;
  for (u32 w = 0u; w < 8u; w++) {
    const u32 own = counts[w][t];
    counts[w][t] = before;
    before = before + own;
  }
  if (tiles == 1u) {
    total = before;
  }
  u32 start = total;
  {
    #pragma unroll
    for (u32 b_2 = 0u; b_2 < 5u; b_2++) {
      const u32 o_2 = 1u << b_2;
      const u32 other_2 = __shfl_up_sync(0xffffffffu, start, o_2);
      if (o_2 <= lane) {
        start = start + other_2;
      }
    }
  }
  if (lane == 31u) {
    sums[warp] = start;
  }
  __syncthreads();
  for (u32 w = 0u; w < warp; w++) {
    start = start + sums[w];
  }
  starts[t] = start - total + offset;
  __syncthreads();
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    const u32 digit = (u32)(pairs[k] >> 32ull) >> shift & 255u;
    if (first + 32u * k < n) {
      store1(to + ((i64)row * (i64)n + (i64)(starts[digit] + counts[warp][digit] + ranks[k])), pairs[k]);
    }
  }
}

// options: -fmad=false

// Scatter: Add of f32, a thread a chunk of a run of sorted indices.
struct sum_float { FN static float of(float x, float y) { return x + y; } };
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(27)) {
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
  const u32 line = rest;
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
  float *const partials = (float *)a.w[24];
  const u64 own = load1(sorted + (at4 + (i64)along));
  const u32 place = (u32)(own >> 32ull);
  if (place == (u32)a.w[6]) {
    return;
  }
  const u32 at = along;
  const bool further = 0 < (i64)along && (u32)(load1(sorted + (at4 + ((i64)along - 1))) >> 32ull) == place;
  if (further && at % (u32)a.w[26] >= 1u) {
    return;
  }
  const u32 next = at - at % (u32)a.w[26] + (u32)a.w[26];
  const u32 end = next < (u32)a.w[5] ? next : (u32)a.w[5];
  const u32 begin = further ? at + 1u : at;
  __align__(16) float elements[4];
  if (further) {
    loadv(elements, values + (at2 + (i64)(u32)own * (i64)a.w[9]));
  } else {
    loadv(elements, to + (at3 + (i64)place * (i64)a.w[10]));
  }
  for (u32 first = begin; first < end; first += 8u) {
    __align__(16) u64 pairs[8];
    __align__(16) float raws[8][4];
    __align__(16) bool mine[8];
    #pragma unroll
    for (i32 k = 0; k < 8; k++) {
      pairs[k] = first + (u32)k < end ? load1(sorted + (at4 + (i64)(first + (u32)k))) : 0xffffffffffffffffull;
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
  if (further) {
    storev(partials + ((i64)(at / (u32)a.w[26]) * (i64)a.w[25] + (i64)line * 4), elements);
  } else {
    storev(to + (at3 + (i64)place * (i64)a.w[10]), elements);
  }
}

// options: -fmad=false

// Scatter: Add of f32, a warp the chunks of a run of sorted indices.
struct sum_float { FN static float of(float x, float y) { return x + y; } };
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(27)) {
  begin();
  __shared__ float all[4][4][32];
  float *const tensor = (float *)a.w[0];
  i64 *const index = (i64 *)a.w[1];
  float *const values = (float *)a.w[2];
  float *const to = (float *)a.w[3];
  const u32 counted = blockIdx.x * 128u + threadIdx.x;
  if (counted >= (u32)a.w[15]) {
    return;
  }
  const u32 g = counted / 32u;
  const Split cut = split(g, a.w[13], a.w[14]);
  const u32 high = cut.q;
  const u32 low = cut.r;
  const u32 along = (i64)a.w[16] == 0 ? low : high;
  u32 rest = (i64)a.w[16] == 0 ? high : low;
  const u32 line = rest;
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
  float *const partials = (float *)a.w[24];
  const u32 lane = threadIdx.x % 32u;
  const u32 warp = threadIdx.x / 32u;
  if (along == 0u) {
    return;
  }
  const u32 place = (u32)(load1(sorted + (at4 + (i64)(along * (u32)a.w[26]))) >> 32ull);
  if (place == (u32)a.w[6]) {
    return;
  }
  if ((u32)(load1(sorted + (at4 + (i64)(along * (u32)a.w[26] - 1u))) >> 32ull) != place) {
    return;
  }
  if (1u < along) {
    if ((u32)(load1(sorted + (at4 + (i64)((along - 1u) * (u32)a.w[26] - 1u))) >> 32ull) == place) {
      return;
    }
  }
  const u32 chunks = ((u32)a.w[5] + (u32)a.w[26] - 1u) / (u32)a.w[26];
  __align__(16) float elements[4];
  u32 d = along + lane;
  bool more = d < chunks;
  if (more) {
    more = (u32)(load1(sorted + (at4 + (i64)(d * (u32)a.w[26]))) >> 32ull) == place;
  }
  const bool some = more;
  #pragma unroll
  for (u32 v = 0u; v < 4u; v++) {
    if (some) {
      elements[v] = load1(partials + ((i64)d * (i64)a.w[25] + (i64)line * 4 + (i64)v));
    }
  }
  while (more) {
    d = d + 32u;
    more = d < chunks;
    if (more) {
      more = (u32)(load1(sorted + (at4 + (i64)(d * (u32)a.w[26]))) >> 32ull) == place;
    }
    if (more) {
      #pragma unroll
      for (u32 v = 0u; v < 4u; v++) {
        const float raw = load1(partials + ((i64)d * (i64)a.w[25] + (i64)line * 4 + (i64)v));
        {
          elements[v] = sum_float::of(elements[v], raw);
        }
      }
    }
  }
  const u32 count = (u32)__popc(__ballot_sync(0xffffffffu, some));
  if (some) {
    #pragma unroll
    for (u32 v = 0u; v < 4u; v++) {
      all[v][warp][lane] = elements[v];
    }
  }
  #pragma unroll
  for (u32 b = 0u; b < 5u; b++) {
    const u32 other = lane + (16u >> b);
    __syncwarp();
    if (other < count) {
      if (lane < 16u >> b) {
        #pragma unroll
        for (u32 v = 0u; v < 4u; v++) {
          const float raw = all[v][warp][other];
          {
            elements[v] = sum_float::of(elements[v], raw);
          }
          all[v][warp][lane] = elements[v];
        }
      }
    }
  }
  if (lane == 0u) {
    #pragma unroll
    for (u32 v = 0u; v < 4u; v++) {
      float whole = load1(to + (at3 + (i64)place * (i64)a.w[10] + (i64)v));
      {
        whole = sum_float::of(whole, elements[v]);
      }
      store1(to + (at3 + (i64)place * (i64)a.w[10] + (i64)v), whole);
    }
  }
}
