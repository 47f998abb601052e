// options: -fmad=false

// Contraction of bf16 on plain cores: tiles of 64 times 64, 16 terms a step.
extern "C" __global__ void __launch_bounds__(256, 2) contraction(THALWEG_PARAMETER(52)) {
  begin();
  THALWEG_SHARED_LINES(shared);
  const i64 m = (i64)a.w[0], n = (i64)a.w[1], k = (i64)a.w[2];
  const u32 t = threadIdx.x;
  u32 *const fault = (u32 *)a.w[5];
  // Tiles that are computed side by side share rows and columns: they go in groups of eight tiles of rows.
  const u32 high = (u32)a.w[3], wide = (u32)a.w[4], product = blockIdx.x / (high * wide), tile = blockIdx.x % (high * wide);
  const u32 first = tile / (8 * wide) * 8, rows = high - first < 8 ? high - first : 8, within = tile - first * wide;
  const i64 row0 = (i64)(first + within % rows) * 64, column0 = (i64)(within / rows) * 64;
  i64 batch0 = 0, batch1 = 0;
  u32 rest = product;
  { const Split s = split(rest, a.w[6], a.w[7]); rest = s.q; batch0 += s.r * (i64)a.w[8]; batch1 += s.r * (i64)a.w[9]; }
  float *const s0 = (float *)shared, *const s1 = s0 + 3264;
  u16 *const pa0 = (u16 *)a.w[16];
  __align__(16) u16 ra0[1][4];

  i32 fetched0 = 0;
  auto fetch0 = [&](i32 step) {
    #pragma unroll
    for (u32 u = 0; u < 1; u++) {
      const u32 c = t + u * 256, line = c / 4, term = c % 4 * 4;
      const i64 x = (i32)row0 + line, p = (i64)step * 16 + term;
      fetched0 = step;
      if (x < m && p < k) {
        const i32 row = (i32)x, column = (i32)(p / 4);
        const i32 i0 = batch0;
        const i32 i1 = row;
        const i32 i2 = column;

        loadv(ra0[u], pa0 + (i0 * (i32)a.w[17] + i1 * (i32)a.w[18] + i2 * 4));

      }
    }
  };
  auto put0 = [&](i32 slot) {
    #pragma unroll
    for (u32 u = 0; u < 1; u++) {
      const u32 c = t + u * 256, line = c / 4, term = c % 4 * 4;
      const i64 x = (i32)row0 + line, p = (i64)fetched0 * 16 + term;
      float y[4] = {};
      if (x < m && p < k) {
        const i32 row = (i32)x, column = (i32)(p / 4);
        const i32 i0 = batch0;
        const i32 i1 = row;
        const i32 i2 = column;
        #pragma unroll
        for (int v = 0; v < 4; v++) {
          const float n0 = bf16_of_pair(ra0[u], v);
          y[v] = (float)(round_bf16(n0));
        }
      }
      #pragma unroll
      for (int v = 0; v < 4; v++) s0[slot * 1088 + (term + v) * 68 + line] = y[v];
    }
  };
  u16 *const pb0 = (u16 *)a.w[30];
  __align__(16) u16 rb0[1][4];

  i32 fetched1 = 0;
  auto fetch1 = [&](i32 step) {
    #pragma unroll
    for (u32 u = 0; u < 1; u++) {
      const u32 c = t + u * 256, term = c / 16, line = c % 16 * 4;
      const i64 x = (i32)column0 + line, p = (i64)step * 16 + term;
      fetched1 = step;
      if (x < n && p < k) {
        const i32 row = (i32)p, column = (i32)(x / 4);
        const i32 i0 = batch1;
        const i32 i1 = row;
        const i32 i2 = column;

        {
          const i64 at = (i64)(i0 * (i32)a.w[31] + i1 * (i32)a.w[32] + i2 * 4 * (i32)a.w[33]);
          for (i32 v = 0; v < 4; v++) {
            rb0[u][v] = load1(pb0 + (at + (i64)v * (i64)(i32)a.w[33]));
          }
        }

      }
    }
  };
  auto put1 = [&](i32 slot) {
    #pragma unroll
    for (u32 u = 0; u < 1; u++) {
      const u32 c = t + u * 256, term = c / 16, line = c % 16 * 4;
      const i64 x = (i32)column0 + line, p = (i64)fetched1 * 16 + term;
      float y[4] = {};
      if (x < n && p < k) {
        const i32 row = (i32)p, column = (i32)(x / 4);
        const i32 i0 = batch1;
        const i32 i1 = row;
        const i32 i2 = column;
        #pragma unroll
        for (int v = 0; v < 4; v++) {
          const float n0 = from_bf16(rb0[u][v]);
          y[v] = (float)(round_bf16(n0));
        }
      }
      #pragma unroll
      for (int v = 0; v < 4; v++) s1[slot * 1088 + (term) * 68 + line + v] = y[v];
    }
  };
  float sum[4][4] = {};
  const i32 steps = (i32)((k + 15) / 16);
  #pragma unroll
  for (i32 s = 0; s < 2; s++) {
    if (s < steps) {
      fetch0(s);
      put0(s);
      fetch1(s);
      put1(s);
    }
    copies_commit();
  }
  i32 from = 0, to = 2;
  for (i32 i = 0; i < steps; i++) {
    copies_wait<1>();
    __syncthreads();
    const i32 next = i + 2;
    if (next < steps) {
      fetch0(next);
      fetch1(next);
    }
    copies_commit();
    const float *const at = s0 + from * 1088, *const bt = s1 + from * 1088;
    #pragma unroll
    for (int p = 0; p < 16; p++) {
      float x[4], y[4];
      #pragma unroll
      for (int i = 0; i < 4; i++) x[i] = at[p * 68 + i / 4 * 64 + t / 16 * 4 + i % 4];
      #pragma unroll
      for (int j = 0; j < 4; j++) y[j] = bt[p * 68 + j / 4 * 64 + t % 16 * 4 + j % 4];
      #pragma unroll
      for (int i = 0; i < 4; i++)
      #pragma unroll
      for (int j = 0; j < 4; j++) sum[i][j] = multiply_add(x[i], y[j], sum[i][j]);
    }
    if (next < steps) {
      put0(to);
      put1(to);
    }
    from = from + 1 == 3 ? 0 : from + 1;
    to = to + 1 == 3 ? 0 : to + 1;
  }
  copies_wait<0>();
  u16 *const p1 = (u16 *)a.w[48];
  float *const sums = (float *)shared;
  #pragma unroll
  for (int pass = 0; pass < 1; pass++) {
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; i++)
    #pragma unroll
    for (int j = 0; j < 4; j++) sums[(t / 16 * 4 + i) * 72 + j / 4 * 64 + t % 16 * 4 + j % 4] = sum[pass * 4 + i][j];
    __syncthreads();
    for (u32 c = t; c < 512; c += 256) {
      const u32 line = c / 8;
      const i32 x = (i32)(row0 + pass * 64) + (i32)line;
      if (x >= (i32)m) continue;
      const u32 first_lane = c % 8 * 8;
      const i32 y = (i32)(column0) + (i32)first_lane;
      if (y >= (i32)n) continue;
      const i32 row = x, column = y / 8;
      const i32 i0 = ((i32)product);
      const i32 i1 = row;
      const i32 i2 = column;
      float own[8];
      take(own, sums + line * 72 + first_lane);
      __align__(16) u16 y1[8];

      #pragma unroll
      for (int v = 0; v < 8; v++) {
        const float n0 = own[v];
        const float n1 = round_bf16((float)n0);
        y1[v] = bits_bf16(n1);

      }
      storev(p1 + (i0 * (i32)a.w[49] + i1 * (i32)a.w[50] + i2 * 8), y1);

    }
  }
}
