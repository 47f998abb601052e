// options: -fmad=false

// Scatter: the copy of the tensor.
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(17)) {
  begin();
  if (a.w[0] == a.w[3]) {
    return;
  }
  i64 *const tensor = (i64 *)a.w[0];
  i64 *const index = (i64 *)a.w[1];
  i64 *const values = (i64 *)a.w[2];
  i64 *const to = (i64 *)a.w[3];
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
  __align__(16) i64 raw[1];
  loadv(raw, tensor + (at0 + (i64)along * (i64)a.w[7]));
  storev(to + (at3 + (i64)along * (i64)a.w[10]), raw);
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
