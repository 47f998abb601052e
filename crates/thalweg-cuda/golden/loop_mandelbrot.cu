// options: -fmad=false

// Each point by itself: 1 times 4 neighbours a thread.
extern "C" __global__ void __launch_bounds__(256) map(THALWEG_PARAMETER(10)) {
  begin();
  float *const p0 = (float *)a.w[3];
  float *const p1 = (float *)a.w[5];
  i32 *const p2 = (i32 *)a.w[7];
  const i32 n = (i32)a.w[0];
  const i32 first = (i32)blockIdx.x * 256 + (i32)threadIdx.x;
  __align__(16) float r0[1][4];
  __align__(16) float r1[1][4];
  #pragma unroll
  for (i32 u = 0; u < 1; u++) {
    const i32 j = first + u * 256;
    if (j < n) {
      const i32 i0 = j;
      loadv(r0[u], p0 + i0 * 4);
      loadv(r1[u], p1 + i0 * 4);
    }
  }
  #pragma unroll
  for (i32 u = 0; u < 1; u++) {
    const i32 j = first + u * 256;
    if (j < n) {
      const i32 i0 = j;
      __align__(16) i32 y2[4];
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = r0[u][v];
        const float n1 = r1[u][v];
        const float n2 = 0.5f;
        const float n3 = n0 * n2;
        float n4_0 = 0.0f;
        float n4_1 = 0.0f;
        i32 n4_2 = (i32)0x0u;
        #pragma unroll 1
        for (u32 n4_t = 0u; n4_t < 200u; n4_t++) {
          const float n4n0 = n4_0;
          const float n4n1 = n4_1;
          const float n4n2 = n4n0 * n4n0;
          const float n4n3 = n4n1 * n4n1;
          const float n4n4 = n4n2 + n4n3;
          const float n4n5 = 4.0f;
          const bool n4n6 = n4n4 <= n4n5;
          if (!n4n6) {
            break;
          }
          const float n4n7 = n4n2 - n4n3;
          const float n4n8 = n3;
          const float n4n9 = n4n7 + n4n8;
          const float n4n10 = n4n0 + n4n0;
          const float n4n11 = n4n1 * n4n10;
          const float n4n12 = n1;
          const float n4n13 = n4n11 + n4n12;
          const i32 n4n14 = n4_2;
          const i32 n4n15 = (i32)0x1u;
          const i32 n4n16 = int_add<i32>(n4n14, n4n15);
          n4_0 = n4n9;
          n4_1 = n4n13;
          n4_2 = n4n16;
        }
        const i32 n5 = n4_2;
        y2[v] = n5;
      }
      storev(p2 + i0 * 4, y2);
    }
  }
}
