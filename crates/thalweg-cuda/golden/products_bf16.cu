// options:

// Matrix product of bf16.
FN float multiply_add(float x, float y, float sum) { return x * y + sum; }
extern "C" __global__ void __launch_bounds__(256) matmul(THALWEG_PARAMETER(15)) {
  begin();
  __shared__ float as[16][64 + 4], bs[16][64 + 4];
  const i64 m = (i64)a.w[3], n = (i64)a.w[4], k = (i64)a.w[5];
  const i64 ar = (i64)a.w[6], ac = (i64)a.w[7], br = (i64)a.w[8], bc = (i64)a.w[9];
  const u32 t = threadIdx.x, tx = t % 16, ty = t / 16;
  const i64 column = (i64)blockIdx.x * 64;
  for (i64 row = (i64)blockIdx.y * 64; row < m; row += (i64)gridDim.y * 64) for (u32 product = blockIdx.z; product < (u32)a.w[14]; product += gridDim.z) {
    const u16 *pa = (const u16 *)a.w[0], *pb = (const u16 *)a.w[1];
    u32 rest = product;
    { const Split s = split(rest, a.w[10], a.w[11]); rest = s.q; pa += s.r * (i64)a.w[12]; pb += s.r * (i64)a.w[13]; }
    float sum[4][4] = {};
    for (i64 first = 0; first < k; first += 16) {
      for (u32 e = t; e < 16 * 64; e += 256) {
        // Neighbouring threads read along what lies side by side.
        const u32 i = ac == 1 ? e / 16 : e % 64, j = ac == 1 ? e % 16 : e / 64;
        float x = 0;
        if (row + i < m && first + j < k) { const u16 raw = load1(pa + (row + i) * ar + (first + j) * ac); x = from_bf16(raw); }
        as[j][i] = x;
        const u32 p = bc == 1 ? e / 64 : e % 16, q = bc == 1 ? e % 64 : e / 16;
        float y = 0;
        if (first + p < k && column + q < n) { const u16 raw = load1(pb + (first + p) * br + (column + q) * bc); y = from_bf16(raw); }
        bs[p][q] = y;
      }
      __syncthreads();
      const u32 most = k - first < 16 ? (u32)(k - first) : 16;
      for (u32 p = 0; p < most; p++) {
        float x[4], y[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) { x[i] = as[p][ty * 4 + i]; y[i] = bs[p][tx + 16 * i]; }
        #pragma unroll
        for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] = multiply_add(x[i], y[j], sum[i][j]);
      }
      __syncthreads();
    }
    u16 *const pc = (u16 *)a.w[2] + (i64)product * m * n;
    for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) {
      const i64 r = row + ty * 4 + i, c = column + tx + 16 * j;
      if (r < m && c < n) store1(pc + r * n + c, (u16)to_bf16(sum[i][j]));
    }
  }
}
