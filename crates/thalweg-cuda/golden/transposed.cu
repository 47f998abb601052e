// options:

// Tiles of 32 times 32 vectors, 4 neighbours each.
extern "C" __global__ void __launch_bounds__(256) map(THALWEG_PARAMETER(19)) {
  begin();
  float *const p0 = (float *)a.w[5];
  float *const p1 = (float *)a.w[8];
  float *const p2 = (float *)a.w[11];
  const Split along = split(blockIdx.x, a.w[15], a.w[16]);
  const Split across = split(along.q, a.w[17], a.w[18]);
  const i32 i1 = (i32)(along.r * 32u + threadIdx.x / 8u);
  const i32 first0 = (i32)(across.r * 32u + threadIdx.x % 8u);
  __align__(16) float r0[4][4];
  __align__(16) float r1[4][4];
  #pragma unroll
  for (i32 u = 0; u < 4; u++) {
    const i32 i0 = first0 + u * 8;
    if (i0 < (i32)(u32)a.w[1] && i1 < (i32)(u32)a.w[3]) {
      {
        const i64 at = (i64)(i0 * (i32)a.w[6] + i1 * 4 * (i32)a.w[7]);
        for (i32 v = 0; v < 4; v++) {
          r0[u][v] = load1(p0 + (at + (i64)v * (i64)(i32)a.w[7]));
        }
      }
      loadv(r1[u], p1 + (i0 * (i32)a.w[9] + i1 * 4));
    }
  }
  #pragma unroll
  for (i32 u = 0; u < 4; u++) {
    const i32 i0 = first0 + u * 8;
    if (i0 < (i32)(u32)a.w[1] && i1 < (i32)(u32)a.w[3]) {
      __align__(16) float y2[4];
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = r0[u][v];
        const float n1 = r1[u][v];
        const float n2 = n0 + n1;
        y2[v] = n2;
      }
      storev(p2 + (i0 * (i32)a.w[12] + i1 * 4), y2);
    }
  }
}
