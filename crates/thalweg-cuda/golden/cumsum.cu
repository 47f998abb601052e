// options:

// Rows along: 512 threads each, read in every pass. Phase 0, several blocks a row.
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
        if (live) set_at(b0, ((i64)row * n + q) * 4 + v, (float)n0);
      }
    }
  }
}

// options: -fmad=false

// Scan of rows in memory: Sum of f32, blocks that share a row, or one.
FN double combined(double x, double y) { return x + y; }
// Where a point of a warp lies in shared memory: spread, so that threads eight points apart do not meet in a bank.
FN u32 slot(u32 s) { return s + s / 32; }
extern "C" __global__ void __launch_bounds__(256) scan(THALWEG_PARAMETER(13)) {
  begin();
  const float *const from = (const float *)a.w[0];
  float *const to = (float *)a.w[1];
  const i64 rows = (i64)a.w[2], n = (i64)a.w[3], row_step = (i64)a.w[4], step = (i64)a.w[5];
  const u32 t = threadIdx.x, lane = t % 32, warp = t / 32;
  const u32 shares = (u32)a.w[7];
  const i64 chunk = (i64)a.w[6], own = (i64)a.w[8], chunks = (i64)a.w[9], share = blockIdx.x % shares;
  const bool folded = a.w[10] != 0;
  double *const partials = (double *)a.w[11];
  const i64 row = blockIdx.x / shares;
  __shared__ float points[8][256 + 256 / 32];
  float *const mine = points[warp];
  const u32 turn_points = blockDim.x * 8;
  const i64 start = row * row_step;
  // Two of them, so that a barrier a turn is enough.
  __shared__ double totals[2][8], carried[1];
  double base = -0.0;
  if (share > 0 && !folded) {
    if (warp == 0) {
      #pragma unroll 8
      for (i64 c = 0; c < share * own; c++) base = combined(base, element_at(partials, row * chunks + c));
      carried[0] = base;
    }
    __syncthreads();
    base = carried[0];
  }
  u32 turn = 0;
  for (i64 c = share * own; c < (share + 1) * own && c < chunks; c++) {
    double part = -0.0;
    const i64 stop = (c + 1) * chunk < n ? (c + 1) * chunk : n;
    for (i64 first = c * chunk; first < stop; first += turn_points) {
      double x[8];
      const i64 head = first + warp * 256;
      float loaded[8] = {};
      #pragma unroll
      for (int k = 0; k < 8; k++) {
        const i64 i = head + lane + 32 * k;
        if (i < stop) loaded[k] = element_at(from, start + i * step);
      }
      #pragma unroll
      for (int k = 0; k < 8; k++) mine[slot(lane + 32 * k)] = loaded[k];
      __syncwarp();
      #pragma unroll
      for (int k = 0; k < 8; k++) {
        const float raw = mine[slot(lane * 8 + k)];
        x[k] = head + lane * 8 + k < stop ? (double)raw : -0.0;
        if (k) x[k] = combined(x[k - 1], x[k]);
      }
      double before = -0.0, all = -0.0;
      before = x[8 - 1];
      for (u32 o = 1; o < 32; o *= 2) {
        const double other = __shfl_up_sync(0xffffffffu, before, o);
        if (lane >= o) before = combined(other, before);
      }
      if (lane == 31) totals[turn][warp] = before;
      before = __shfl_up_sync(0xffffffffu, before, 1);
      if (lane == 0) before = -0.0;
      __syncthreads();
      #pragma unroll
      for (u32 w = 0; w < 8; w++) {
        if (w * 32 >= blockDim.x) break;
        if (w == warp) before = combined(all, before);
        all = combined(all, totals[turn][w]);
      }
      turn ^= 1;
      if (!folded) {
        const double carry = combined(combined(base, part), before);
        #pragma unroll
        for (int k = 0; k < 8; k++) {
          const double y = combined(carry, x[k]);
          mine[slot(lane * 8 + k)] = (float)y;
        }
        __syncwarp();
        #pragma unroll
        for (int k = 0; k < 8; k++) {
          const i64 i = head + lane + 32 * k;
          if (i < stop) set_at(to, start + i * step, mine[slot(lane + 32 * k)]);
        }
      }
      part = combined(part, all);
    }
    if (folded && t == 0) set_at(partials, row * chunks + c, part);
    base = combined(base, part);
  }
}

// options:

// Rows along: 512 threads each, read in every pass. Phase 1, several blocks a row.
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
        const float n0 = element_at(b0, ((i64)row * n + q) * 4 + v);
        y1[v] = n0;
      }
      if (live) {
        storev(p1 + (i0 * (i32)a.w[14] + j1 * 4), y1);
      }
    }
  }
}
