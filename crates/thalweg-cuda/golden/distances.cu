// options:

// Rows that are pairs: 4 a thread.
struct sum_float { FN static float of(float x, float y) { return x + y; } };
extern "C" __global__ void __launch_bounds__(256) rows(THALWEG_PARAMETER(26)) {
  begin();
  float *const p0 = (float *)a.w[12];
  float *const p1 = (float *)a.w[16];
  float *const p2 = (float *)a.w[20];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const i32 row = (i32)blockIdx.x * 256 + (i32)threadIdx.x;
  if (row >= rows) {
    return;
  }
  const u32 t = 0u;
  const i32 many = (i32)a.w[2];
  const Split gs1 = split((u32)row, a.w[8], a.w[9]);
  const i32 g1 = (i32)gs1.r;
  const i32 gq1 = (i32)gs1.q;
  const i32 g0 = gq1;
  const i32 i0 = g0 * 4;
  const i32 i1 = g1;
  float value0;
  __align__(16) float pairs0[4][4];
  #pragma unroll
  for (i32 u = 0; u < 4; u++) {
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      pairs0[u][v] = 0.0f;
    }
  }
  #pragma unroll 1
  for (i32 q = 0; q < n; q++) {
    const i32 j2 = q;
    __align__(16) float r1[4];
    loadv(r1, p1 + (i0 * (i32)a.w[17] + i1 * (i32)a.w[18] + j2 * 4));
    __align__(16) float r0[4][4];
    #pragma unroll
    for (i32 u = 0; u < 4; u++) {
      const i32 own_row = g0 * 4 + u;
      const bool live = own_row < many;
      const i32 i0 = live ? own_row : many - 1;
      loadv(r0[u], p0 + (i0 * (i32)a.w[13] + i1 * (i32)a.w[14] + j2 * 4));
    }
    #pragma unroll
    for (i32 u = 0; u < 4; u++) {
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = r1[v];
        const float n1 = r0[u][v];
        const float n2 = n1 - n0;
        const float n3 = n2 * n2;
        pairs0[u][v] = sum_float::of(pairs0[u][v], n3);
      }
    }
  }
  #pragma unroll
  for (i32 u = 0; u < 4; u++) {
    const i32 own_row = g0 * 4 + u;
    const bool live = own_row < many;
    const i32 i0 = live ? own_row : many - 1;
    __align__(16) float f0[4];
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      f0[v] = pairs0[u][v];
    }
    value0 = fold_lanes<sum_float>(f0);
    {
      __align__(16) float y2[1];
      #pragma unroll
      for (i32 v = 0; v < 1; v++) {
        const float n0 = value0;
        y2[v] = n0;
      }
      if (t == 0u && live) {
        store1(p2 + (i0 * (i32)a.w[21] + i1 * (i32)a.w[22]), y2[0]);
      }
    }
  }
}
