// options:

// Rows along: 1024 threads each, 4 vectors a thread held in registers.
struct Scan0 {
  typedef double Wide;
  FN static Wide identity() { return -0.0; }
  FN static Wide of(Wide x, Wide y) { return x + y; }
  FN static Wide wide(float x) { return (Wide)x; }
  FN static float narrow(Wide y) { return (float)y; }
};
extern "C" __global__ void __launch_bounds__(1024) scanned(THALWEG_PARAMETER(18)) {
  begin();
  float *const p0 = (float *)a.w[10];
  float *const p1 = (float *)a.w[13];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const i32 begin = 0;
  const i32 stop = n;
  const u32 t = threadIdx.x % 1024u;
  const i32 own_row = (i32)blockIdx.x * 1 + (i32)(threadIdx.x / 1024u);
  const bool live = own_row < rows;
  const i32 row = live ? own_row : rows - 1;
  const i32 i0 = row;
  __align__(16) float b0[4][4];
  {
    __align__(16) float r0[4][4];
    #pragma unroll
    for (i32 k = 0; k < 4; k++) {
      const i32 q = k * 1024 + (i32)t;
      if (q < stop) {
        const i32 j1 = q;
        loadv(r0[k], p0 + (i0 * (i32)a.w[11] + j1 * 4));
      }
    }
    #pragma unroll
    for (i32 k = 0; k < 4; k++) {
      const i32 q = k * 1024 + (i32)t;
      if (q < stop) {
        const i32 j1 = q;
        #pragma unroll
        for (i32 v = 0; v < 4; v++) {
          const float n0 = r0[k][v];
          b0[k][v] = n0;
        }
      }
    }
    __shared__ Scan0::Wide parts0[128];
    scan_row<Scan0, 1024, false>(b0, t, (u32)n, parts0, Alone());
  }
  {
    #pragma unroll
    for (i32 k = 0; k < 4; k++) {
      const i32 q = k * 1024 + (i32)t;
      if (q < stop) {
        const i32 j1 = q;
        __align__(16) float y1[4];
        #pragma unroll
        for (i32 v = 0; v < 4; v++) {
          const float n0 = b0[k][v];
          y1[v] = n0;
        }
        if (live) {
          storev(p1 + (i0 * (i32)a.w[14] + j1 * 4), y1);
        }
      }
    }
  }
}
