// options:

// Rows side by side: 8 vectors of them a block, 32 threads for the points of each. Phase 0, several blocks a row.
struct sum_float { FN static float of(float x, float y) { return x + y; } };
extern "C" __global__ void __launch_bounds__(256) rows(THALWEG_PARAMETER(20)) {
  begin();
  float *const p0 = (float *)a.w[10];
  float *const p1 = (float *)a.w[13];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const u32 chunks = (u32)a.w[2];
  const u32 tile = blockIdx.x / chunks;
  const u32 chunk = blockIdx.x % chunks;
  const i32 begin = (i32)((u64)chunk * a.w[3]);
  const i32 stop = n - begin < (i32)a.w[3] ? n : begin + (i32)a.w[3];
  const u32 tx = threadIdx.x % 8u;
  const u32 t = threadIdx.x / 8u;
  const i32 own_row = (i32)tile * 8 + (i32)tx;
  const bool live = own_row < rows;
  const i32 row = live ? own_row : rows - 1;
  const i32 i0 = row;
  __align__(16) float value0[4];
  {
    __align__(16) float f0[4];
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      f0[v] = 0.0f;
    }
    #pragma unroll 4
    for (i32 q = begin + (i32)t; q < stop; q += 32) {
      const i32 j1 = q;
      __align__(16) float r0[4];
      loadv(r0, p0 + (i0 * 4 + j1 * (i32)a.w[12]));
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = r0[v];
        f0[v] = sum_float::of(f0[v], n0);
      }
    }
    fold_points<sum_float, 8>(f0);
    __shared__ float fparts0[8][4][8];
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      if (threadIdx.x % 32u < 8u) {
        fparts0[t / 4u][v][tx] = f0[v];
      }
    }
    __syncthreads();
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      value0[v] = fparts0[0][v][tx];
      for (i32 d = 1; d < 8; d++) {
        value0[v] = sum_float::of(value0[v], fparts0[d][v][tx]);
      }
    }
    if (t == 0u && live) {
      {
        float *const shares0 = (float *)a.w[18];
        storev(shares0 + ((i64)chunk * (i64)rows + (i64)row) * 4, value0);
      }
      __threadfence();
    }
    __shared__ u32 last[1];
    __syncthreads();
    if (threadIdx.x == 0u) {
      u32 *const counters = (u32 *)a.w[19];
      const u32 came = atomicAdd((u32 *)(counters + tile), (u32)1u);
      last[0] = came == chunks - 1u ? 1u : 0u;
      if (came == chunks - 1u) {
        counters[tile] = 0;
      }
      __threadfence();
    }
    __syncthreads();
    if (last[0] == 0u) {
      return;
    }
    float *const shares0 = (float *)a.w[18];
    __align__(16) float g0[4];
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      g0[v] = 0.0f;
    }
    #pragma unroll 4
    for (u32 c = t; c < chunks; c += 32u) {
      __align__(16) float x[4];
      loadv_cold(x, shares0 + ((i64)c * (i64)rows + (i64)row) * 4);
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        g0[v] = sum_float::of(g0[v], x[v]);
      }
    }
    fold_points<sum_float, 8>(g0);
    __shared__ float gparts0[8][4][8];
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      if (threadIdx.x % 32u < 8u) {
        gparts0[t / 4u][v][tx] = g0[v];
      }
    }
    __syncthreads();
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      value0[v] = gparts0[0][v][tx];
      for (i32 d = 1; d < 8; d++) {
        value0[v] = sum_float::of(value0[v], gparts0[d][v][tx]);
      }
    }
  }
  {
    __align__(16) float y1[4];
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      const float n0 = value0[v];
      y1[v] = n0;
    }
    if (t == 0u && live) {
      storev(p1 + i0 * 4, y1);
    }
  }
}
