// options:

// Contraction of f32 in TF32 on tensor cores: tiles of 64 times 64, 16 terms a step.
extern "C" __global__ void __launch_bounds__(128, 3) contraction(THALWEG_PARAMETER(52)) {
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
  float *const s0 = (float *)shared, *const s1 = s0 + 5120;
  const float *const factor0 = (const float *)a.w[10] + batch0;
  const i32 pitch0 = (i32)a.w[11];
  const i32 outer0 = (i32)t / 4, inner0 = (i32)t % 4 * 4;
  const float *const from0 = factor0 + (i64)((i32)row0 + outer0) * pitch0 + (0 + inner0);
  auto copy0 = [&](i32 step, i32 slot) {
    float *const to = s0 + slot * 1280 + outer0 * 20 + inner0;
    const float *const from = from0 + ((i64)(step * 0) * pitch0 + step * 16);
    const i32 outers = (i32)m - ((i32)row0 + step * 0), inners = (i32)k - (0 + step * 16);
    if (outers >= 64 && inners >= 16) {
      #pragma unroll
      for (i32 u = 0; u < 2; u++) copy16_whole(to + u * 640, from + (i64)(u * 32) * pitch0);
    } else {
      #pragma unroll
      for (i32 u = 0; u < 2; u++) {
        const i32 left = outer0 + u * 32 < outers ? inners - inner0 : 0;
        const i32 inside = left < 0 ? 0 : left < 4 ? left : 4;
        copy16(to + u * 640, inside ? from + (i64)(u * 32) * pitch0 : factor0, inside * 4);
      }
    }
  };
  float *const pb0 = (float *)a.w[24];
  i32 place1 = 0, lines1[1];
  {
    const i32 i0 = ((i32)batch1);

    place1 = i0 * (i32)a.w[25];
  }
  #pragma unroll
  for (u32 u = 0; u < 1; u++) {
    i64 x = (i32)column0 + (i32)(t % 64 * 1 + u);
    x = x < n ? x : n - 1;
    const Split is5 = split((u32)((i32)x), a.w[22], a.w[23]);
    const i32 i5 = (i32)is5.r;
    const i32 iq5 = (i32)is5.q;
    const i32 i4 = iq5;

    lines1[u] = place1 + i4 * (i32)a.w[29] + i5 * 1;
  }
  i32 *const table1 = (i32 *)(shared + 38912);
  auto terms1 = [&](i32 step, i32 slot) {
    if (t < 16) {
      const i64 p = (i64)step * 16 + t;
      i32 place = NOWHERE<i32>;
      if (p < k) {
        const Split is3 = split((u32)((i32)p), a.w[18], a.w[19]);
        const i32 i3 = (i32)is3.r;
        const i32 iq3 = (i32)is3.q;
        const Split is2 = split((u32)iq3, a.w[16], a.w[17]);
        const i32 i2 = (i32)is2.r;
        const i32 iq2 = (i32)is2.q;
        const i32 i1 = iq2;

        place = i1 * (i32)a.w[26] + i2 * (i32)a.w[27] + i3 * (i32)a.w[28];
      }
      table1[slot * 16 + t] = place;
    }
  };
  for (i32 s = 0; s < 4; s++) terms1(s, s);
  __syncthreads();
  auto copy1 = [&](i32 step, i32 slot) {
    if ((step + 1) * 16 <= (i32)k) {
      #pragma unroll
      for (u32 u = 0; u < 8; u++) copy_element_whole<4>(s1 + slot * 1152 + (t / 64 + u * 2) * 72 + t % 64 * 1 + 0, pb0 + lines1[0] + table1[slot * 16 + t / 64 + u * 2]);
    } else {
      #pragma unroll
      for (u32 u = 0; u < 8; u++) {
        const i32 term = table1[slot * 16 + t / 64 + u * 2];
        copy_element<4>(s1 + slot * 1152 + (t / 64 + u * 2) * 72 + t % 64 * 1 + 0, pb0 + (term != NOWHERE<i32> ? lines1[0] + term : 0), term != NOWHERE<i32>);
      }
    }
  };
  float sum[2][4][4] = {};
  const i32 steps = (i32)((k + 15) / 16);
  #pragma unroll
  for (i32 s = 0; s < 3; s++) {
    if (s < steps) {
      copy0(s, s);
      copy1(s, s);
    }
    copies_commit();
  }
  i32 from = 0, to = 3;
  for (i32 i = 0; i < steps; i++) {
    copies_wait<2>();
    __syncthreads();
    const i32 next = i + 3;
    if (next < steps) {
      copy0(next, to);
      copy1(next, to);
    }
    copies_commit();
    const float *const at = s0 + from * 1280, *const bt = s1 + from * 1152;
    const u32 lane = t % 32, rows_at = t / 32 / 2 * 32, columns_at = t / 32 % 2 * 32;
    #pragma unroll
    for (int p = 0; p < 16; p += 8) {
      const u32 low = p + lane % 4, high = low + 4;
      u32 x[2][4], y[4][2];
      #pragma unroll
      for (int i = 0; i < 2; i++) {
        const u32 row = rows_at + i * 16 + lane / 4;
        x[i][0] = to_tf32(at[(row) * 20 + low]);
        x[i][1] = to_tf32(at[(row + 8) * 20 + low]);
        x[i][2] = to_tf32(at[(row) * 20 + high]);
        x[i][3] = to_tf32(at[(row + 8) * 20 + high]);
      }
      #pragma unroll
      for (int j = 0; j < 4; j++) {
        const u32 column = columns_at + j * 8 + lane / 4;
        y[j][0] = to_tf32(bt[(low) * 72 + column]);
        y[j][1] = to_tf32(bt[(high) * 72 + column]);
      }
      #pragma unroll
      for (int i = 0; i < 2; i++)
      #pragma unroll
      for (int j = 0; j < 4; j++) multiply_tf32(sum[i][j], x[i], y[j][0], y[j][1]);
    }
    if (next < steps) {
    }
    terms1(i + 4, from);
    from = from + 1 == 4 ? 0 : from + 1;
    to = to + 1 == 4 ? 0 : to + 1;
  }
  copies_wait<0>();
  float *const p1 = (float *)a.w[48];
  float *const sums = (float *)shared;
  #pragma unroll
  for (int pass = 0; pass < 2; pass++) {
    __syncthreads();
    if (t / 32 / 2 == pass) {
      #pragma unroll
      for (int i = 0; i < 2; i++)
      #pragma unroll
      for (int j = 0; j < 4; j++)
      #pragma unroll
      for (int e = 0; e < 4; e++) sums[(i * 16 + t % 32 / 4 + e / 2 * 8) * 72 + t / 32 % 2 * 32 + j * 8 + t % 4 * 2 + e % 2] = sum[i][j][e];
    }
    __syncthreads();
    for (u32 c = t; c < 512; c += 128) {
      const u32 line = c / 16;
      const i32 x = (i32)(row0 + pass * 32) + (i32)line;
      if (x >= (i32)m) continue;
      const u32 first_lane = c % 16 * 4;
      const i32 y = (i32)(column0) + (i32)first_lane;
      if (y >= (i32)n) continue;
      const i32 row = x, column = y / 4;
      const i32 i0 = ((i32)product);
      const i32 i1 = row;
      const i32 i2 = column;
      float own[4];
      take(own, sums + line * 72 + first_lane);
      __align__(16) float y1[4];

      #pragma unroll
      for (int v = 0; v < 4; v++) {
        const float n0 = own[v];
        y1[v] = n0;

      }
      storev(p1 + (i0 * (i32)a.w[49] + i1 * (i32)a.w[50] + i2 * 4), y1);

    }
  }
}
