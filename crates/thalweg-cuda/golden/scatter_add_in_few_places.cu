// options:

// Each point by itself: 1 times 1 neighbours a thread.
extern "C" __global__ void __launch_bounds__(256) map(THALWEG_PARAMETER(8)) {
  begin();
  i64 *const p0 = (i64 *)a.w[3];
  i64 *const p1 = (i64 *)a.w[5];
  const i32 n = (i32)a.w[0];
  const i32 first = (i32)blockIdx.x * 256 + (i32)threadIdx.x;
  __align__(16) i64 r0[1][1];
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
      __align__(16) i64 y1[1];
      #pragma unroll
      for (i32 v = 0; v < 1; v++) {
        const i64 n0 = r0[u][v];
        y1[v] = n0;
      }
      store1(p1 + i0 * 1, y1[0]);
    }
  }
}

// options:

// Scatter: Add of i64, counted in tables of all places, several a block.
extern "C" __global__ void __launch_bounds__(512) scatter(THALWEG_PARAMETER(11)) {
  begin();
  THALWEG_SHARED(room);
  u32 *const table = (u32 *)room;
  const u32 places = (u32)a.w[6];
  const u32 tables = (u32)a.w[7];
  for (u32 i = threadIdx.x; i < places * tables; i += 512u) {
    table[i] = 0u;
  }
  __syncthreads();
  const u32 own = threadIdx.x & tables - 1u;
  float *const p0 = (float *)a.w[3];
  const i32 n = (i32)a.w[0];
  for (i32 first = (i32)blockIdx.x * 2048 + (i32)threadIdx.x; first < n; first += (i32)gridDim.x * 2048) {
    __align__(16) float r0[4][4];
    #pragma unroll
    for (i32 u = 0; u < 4; u++) {
      const i32 j = first + u * 512;
      if (j < n) {
        const i32 i0 = j;
        loadv(r0[u], p0 + i0 * 4);
      }
    }
    #pragma unroll
    for (i32 u = 0; u < 4; u++) {
      const i32 j = first + u * 512;
      if (j < n) {
        const i32 i0 = j;
        #pragma unroll
        for (i32 v = 0; v < 4; v++) {
          const float n0 = r0[u][v];
          const float n1 = floorf(n0);
          const i64 n2 = to_int<i64>(n1);
          const u64 place = (u64)n2;
          if (place < (u64)places) {
            atomicAdd((u32 *)(table + (own + (u32)place * tables)), (u32)1u);
          } else {
            *(u32 *)a.w[5] = 1;
          }
        }
      }
    }
  }
  __syncthreads();
  i64 *const to = (i64 *)a.w[8];
  i64 *const value = (i64 *)a.w[10];
  for (u32 i = threadIdx.x; i < places; i += 512u) {
    u32 sum = 0u;
    for (u32 k = 0u; k < tables; k++) {
      sum = sum + table[i * tables + k];
    }
    if (sum >= 1u) {
      atomicAdd((u64 *)(to + (i64)i * (i64)a.w[9]), (u64)((u64)sum * (u64)load1(value + 0)));
    }
  }
}
