// options:

// Rows along: 512 threads each, read in every pass. Phase 0, several blocks a row.
struct sum_float { FN static float of(float x, float y) { return x + y; } };
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(20)) {
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
  const u32 t = threadIdx.x % 512u;
  const i32 own_row = (i32)tile * 1 + (i32)(threadIdx.x / 512u);
  const bool live = own_row < rows;
  const i32 row = live ? own_row : rows - 1;
  const i32 i0 = row;
  float value0;
  {
    __align__(16) float f0[4];
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      f0[v] = 0.0f;
    }
    #pragma unroll 4
    for (i32 q = begin + (i32)t; q < stop; q += 512) {
      const i32 j1 = q;
      __align__(16) float r0[4];
      loadv(r0, p0 + (i0 * (i32)a.w[11] + j1 * 4));
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = r0[v];
        f0[v] = sum_float::of(f0[v], n0);
      }
    }
    value0 = fold_warp<sum_float, 512>(fold_lanes<sum_float>(f0));
    __shared__ float fparts0[16];
    if (threadIdx.x % 32u == 0u) {
      fparts0[threadIdx.x / 32u] = value0;
    }
    __syncthreads();
    value0 = fold_parts<sum_float, 512>(fparts0);
    if (t == 0u && live) {
      {
        float *const shares0 = (float *)a.w[18];
        store1(shares0 + ((i64)row * (i64)chunks + (i64)chunk), value0);
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
    __align__(16) float g0[1];
    #pragma unroll
    for (i32 v = 0; v < 1; v++) {
      g0[v] = 0.0f;
    }
    #pragma unroll 4
    for (u32 c = t; c < chunks; c += 512u) {
      __align__(16) float x[1];
      loadv_cold(x, shares0 + ((i64)row * (i64)chunks + (i64)c));
      #pragma unroll
      for (i32 v = 0; v < 1; v++) {
        g0[v] = sum_float::of(g0[v], x[v]);
      }
    }
    value0 = fold_warp<sum_float, 512>(fold_lanes<sum_float>(g0));
    __shared__ float gparts0[16];
    if (threadIdx.x % 32u == 0u) {
      gparts0[threadIdx.x / 32u] = value0;
    }
    __syncthreads();
    value0 = fold_parts<sum_float, 512>(gparts0);
  }
  {
    __align__(16) float y1[1];
    #pragma unroll
    for (i32 v = 0; v < 1; v++) {
      const float n0 = value0;
      y1[v] = n0;
    }
    if (t == 0u && live) {
      store1(p1 + i0 * (i32)a.w[14], y1[0]);
    }
  }
}
