// options:

// Rows along: 512 threads each, read in every walk. Phase 0, several blocks a row.
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(19)) {
  begin();
  float *const p0 = (float *)a.w[10];
  float *const p1 = (float *)a.w[13];
  const i32 rows = (i32)a.w[0], n = (i32)a.w[1];
  const u32 chunks = (u32)a.w[2], tile = blockIdx.x / chunks, chunk = blockIdx.x % chunks;
  const i32 begin = (i32)(chunk * a.w[3]), stop = n - begin < (i32)a.w[3] ? n : begin + (i32)a.w[3];
  const u32 t = threadIdx.x % 512;
  i32 row = (i32)tile * 1 + threadIdx.x / 512;
  const bool live = row < rows;
  if (!live) row = rows - 1;
  const i32 i0 = row;
  float *const b0 = (float *)a.w[17];
  {
    #pragma unroll 4
    for (i32 q = begin + t; q < stop; q += 512) {
      const i32 j1 = q;
      __align__(16) float r0[4];
      loadv(r0, p0 + (i0 * (i32)a.w[11] + j1 * 4));
      #pragma unroll
      for (int v = 0; v < 4; v++) {
        const float n0 = r0[v];
        if (live) b0[((i64)row * n + q) * 4 + v] = n0;
      }
    }
  }
}

// options: -fmad=false

// Scan of rows in memory: Sum of f32.
FN double log_add(double x, double y) {
  double high = larger(x, y), low = smaller(x, y);
  if (high != high) return high;
  if (high == -__longlong_as_double(0x7ff0000000000000ll) || high == __longlong_as_double(0x7ff0000000000000ll)) return high;
  return high + log1p(exp(low - high));
}
FN double combined(double x, double y) { return x + y; }
extern "C" __global__ void __launch_bounds__(256) scan(THALWEG_PARAMETER(10)) {
  begin();
  const float *const from = (const float *)a.w[0];
  float *const to = (float *)a.w[1];
  const i64 n = (i64)a.w[3], step = (i64)a.w[5], start = (i64)blockIdx.x * (i64)a.w[4];
  const u32 t = threadIdx.x, lane = t % 32, warp = t / 32;
  __shared__ double warps[256 / 32];
  double carry = -0.0;
  if (false) {
    // Of products in another order one may overflow where the other vanishes.
    if (t == 0) for (i64 i = 0; i < n; i++) {
      const i64 at = start + (i) * step;
      const float raw = from[at];
      const double y = carry = combined(carry, (double)raw);
      to[at] = (float)y;
    }
    return;
  }
  for (i64 first = 0; first < n; first += 256) {
    const i64 i = first + t;
    const i64 at = start + (i) * step;
    double x = -0.0;
    if (i < n) { const float raw = from[at]; x = (double)raw; }
    for (int o = 1; o < 32; o *= 2) {
      const double before = __shfl_up_sync(0xffffffffu, x, o);
      if (lane >= o) x = combined(before, x);
    }
    if (lane == 31) warps[warp] = x;
    __syncthreads();
    double total = carry;
    for (u32 w = 0; w < 256 / 32; w++) {
      if (w == warp) x = combined(total, x);
      total = combined(total, warps[w]);
    }
    carry = total;
    if (i < n) { const double y = x; to[at] = (float)y; }
    __syncthreads();
  }
}

// options:

// Rows along: 512 threads each, read in every walk. Phase 1, several blocks a row.
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(19)) {
  begin();
  float *const p0 = (float *)a.w[10];
  float *const p1 = (float *)a.w[13];
  const i32 rows = (i32)a.w[0], n = (i32)a.w[1];
  const u32 chunks = (u32)a.w[2], tile = blockIdx.x / chunks, chunk = blockIdx.x % chunks;
  const i32 begin = (i32)(chunk * a.w[3]), stop = n - begin < (i32)a.w[3] ? n : begin + (i32)a.w[3];
  const u32 t = threadIdx.x % 512;
  i32 row = (i32)tile * 1 + threadIdx.x / 512;
  const bool live = row < rows;
  if (!live) row = rows - 1;
  const i32 i0 = row;
  float *const b0 = (float *)a.w[17];
  {
    #pragma unroll 4
    for (i32 q = begin + t; q < stop; q += 512) {
      const i32 j1 = q;
      __align__(16) float y1[4];
      #pragma unroll
      for (int v = 0; v < 4; v++) {
        const float n0 = b0[((i64)row * n + q) * 4 + v];
        y1[v] = n0;
      }
      if (live) {
        storev(p1 + (i0 * (i32)a.w[14] + j1 * 4), y1);
      }
    }
  }
}
