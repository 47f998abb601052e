// options: -fmad=false

// Rows in order, a warp each.
struct sum_float { FN static float of(float x, float y) { return x + y; } };
extern "C" __global__ void __launch_bounds__(256) rows(THALWEG_PARAMETER(18)) {
  begin();
  float *const p0 = (float *)a.w[10];
  float *const p1 = (float *)a.w[13];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const i32 begin = 0;
  const i32 stop = n;
  const u32 t = threadIdx.x % 32u;
  const i32 row = (i32)blockIdx.x * 8 + (i32)(threadIdx.x / 32u);
  if (row >= rows) {
    return;
  }
  const bool live = true;
  const i32 i0 = row;
  float value0;
  {
    Tree<sum_float, float> tree0;
    tree0.count = 0;
    for (i32 run = 0; run < (i32)a.w[4]; run++) {
      for (i32 block = 0; block < (i32)a.w[5]; block += 4096) {
        __align__(16) float f0[1];
        f0[0] = 0.0f;
        const i32 end = (i32)a.w[5] - block < 4096 ? (i32)a.w[5] : block + 4096;
        for (i32 e = block + (i32)t; e < end; e += 32) {
          const i32 q = run * (i32)a.w[5] + e;
          const i32 j1 = q;
          __align__(16) float r0[1];
          r0[0] = load1(p0 + (i0 * (i32)a.w[11] + j1 * 1));
          #pragma unroll
          for (i32 v = 0; v < 1; v++) {
            const float n0 = r0[v];
            f0[0] = sum_float::of(f0[0], n0);
          }
        }
        tree0.push(__shfl_sync(0xffffffffu, fold_warp<sum_float, 32>(f0[0]), 0));
      }
    }
    value0 = tree0.take(0.0f);
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
