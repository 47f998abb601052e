// options:

// Rows along: 64 threads each, 4 vectors a thread held in registers.
struct sum_float { FN static float of(float x, float y) { return x + y; } };
extern "C" __global__ void __launch_bounds__(64) rows(THALWEG_PARAMETER(24)) {
  begin();
  u16 *const p0 = (u16 *)a.w[10];
  u16 *const p1 = (u16 *)a.w[13];
  u16 *const p2 = (u16 *)a.w[16];
  u16 *const p3 = (u16 *)a.w[19];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const i32 begin = 0;
  const i32 stop = n;
  const u32 t = threadIdx.x % 64u;
  const i32 own_row = (i32)blockIdx.x * 1 + (i32)(threadIdx.x / 64u);
  const bool live = own_row < rows;
  const i32 row = live ? own_row : rows - 1;
  const i32 i0 = row;
  float value0;
  {
    __align__(16) float f0[8];
    #pragma unroll
    for (i32 v = 0; v < 8; v++) {
      f0[v] = 0.0f;
    }
    __align__(16) u16 r0[4][8];
    __align__(16) u16 r1[4][8];
    #pragma unroll
    for (i32 k = 0; k < 4; k++) {
      const i32 q = k * 64 + (i32)t;
      {
        const i32 j1 = q;
        loadv(r0[k], p0 + (i0 * (i32)a.w[11] + j1 * 8));
        loadv(r1[k], p1 + (i0 * (i32)a.w[14] + j1 * 8));
      }
    }
    #pragma unroll
    for (i32 k = 0; k < 4; k++) {
      const i32 q = k * 64 + (i32)t;
      {
        const i32 j1 = q;
        #pragma unroll
        for (i32 v = 0; v < 8; v++) {
          const float n0 = bf16_of_pair(r1[k], v);
          const float n1 = n0;
          const float n2 = bf16_of_pair(r0[k], v);
          const float n3 = n2;
          const float n4 = n3 * n1;
          f0[v] = sum_float::of(f0[v], n4);
        }
      }
    }
    value0 = fold_warp<sum_float, 64>(fold_lanes<sum_float>(f0));
    __shared__ float fparts0[2];
    if (threadIdx.x % 32u == 0u) {
      fparts0[threadIdx.x / 32u] = value0;
    }
    __syncthreads();
    value0 = fold_parts<sum_float, 64>(fparts0);
  }
  {
    __align__(16) u16 r2[1];
    r2[0] = load1(p2 + i0 * (i32)a.w[17]);
    __align__(16) u16 y3[1];
    #pragma unroll
    for (i32 v = 0; v < 1; v++) {
      const float n0 = from_bf16(r2[0]);
      const float n1 = n0;
      const float n2 = value0;
      const float n3 = n2 + n1;
      const float n4 = sigmoid(n3);
      const float n5 = n3 * n4;
      const float n6 = round_bf16((float)n5);
      y3[v] = bits_bf16(n6);
    }
    if (t == 0u && live) {
      store1(p3 + i0 * (i32)a.w[20], y3[0]);
    }
  }
}
