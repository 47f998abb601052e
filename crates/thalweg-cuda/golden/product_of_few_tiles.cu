// options:

// Contraction of f32 on plain cores: tiles of 64 times 64, 16 terms a step.
extern "C" __global__ void __launch_bounds__(256, 2) contraction(THALWEG_PARAMETER(31)) {
  begin();
  THALWEG_SHARED_LINES(shared);
  const i64 m = (i64)a.w[0], n = (i64)a.w[1], k = (i64)a.w[2];
  const u32 t = threadIdx.x;
  u32 *const fault = (u32 *)a.w[5];
  const u32 shares = (u32)a.w[28], share = blockIdx.x % shares, own_tile = blockIdx.x / shares;
  const i32 first_step = (i32)(share * (u32)a.w[27]);
  // Tiles that are computed side by side share rows and columns: they go in groups of eight tiles of rows.
  const u32 high = (u32)a.w[3], wide = (u32)a.w[4], product = own_tile / (high * wide), tile = own_tile % (high * wide);
  const u32 first = tile / (8 * wide) * 8, rows = high - first < 8 ? high - first : 8, within = tile - first * wide;
  const i64 row0 = (i64)(first + within % rows) * 64, column0 = (i64)(within / rows) * 64;
  i64 batch0 = 0, batch1 = 0;
  u32 rest = product;
  { const Split s = split(rest, a.w[6], a.w[7]); rest = s.q; batch0 += s.r * (i64)a.w[8]; batch1 += s.r * (i64)a.w[9]; }
  float *const s0 = (float *)shared, *const s1 = s0 + 3264;
  const float *const factor0 = (const float *)a.w[10] + batch0;
  const i32 pitch0 = (i32)a.w[11];
  auto copy0 = [&](i32 step, i32 slot) {
    #pragma unroll
    for (u32 u = 0; u < 4; u++) {
      const u32 c = t + u * 256, line = c / 16, term = c % 16;
      const i32 x = (i32)row0 + step * 0 + (i32)line, p = 0 + step * 16 + (i32)term;
      const bool inside = x < (i32)m && p < (i32)k;
      copy_element<4>(s0 + slot * 1088 + term * 68 + line, factor0 + (inside ? (i64)x * pitch0 + p : 0), inside);
    }
  };
  const float *const factor1 = (const float *)a.w[12] + batch1;
  const i32 pitch1 = (i32)a.w[13];
  auto copy1 = [&](i32 step, i32 slot) {
    #pragma unroll
    for (u32 u = 0; u < 4; u++) {
      const u32 c = t + u * 256, line = c / 16, term = c % 16;
      const i32 x = (i32)column0 + step * 0 + (i32)line, p = 0 + step * 16 + (i32)term;
      const bool inside = x < (i32)n && p < (i32)k;
      copy_element<4>(s1 + slot * 1088 + term * 68 + line, factor1 + (inside ? (i64)x * pitch1 + p : 0), inside);
    }
  };
  float sum[4][4] = {};
  const i32 all_steps = (i32)((k + 15) / 16), end_step = first_step + (i32)a.w[27];
  const i32 steps = end_step < all_steps ? end_step : all_steps;
  #pragma unroll
  for (i32 s = 0; s < 2; s++) {
    if ((first_step + s) < steps) {
      copy0((first_step + s), s);
      copy1((first_step + s), s);
    }
    copies_commit();
  }
  i32 from = 0, to = 2;
  for (i32 i = first_step; i < steps; i++) {
    copies_wait<1>();
    __syncthreads();
    const i32 next = i + 2;
    if (next < steps) {
      copy0(next, to);
      copy1(next, to);
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
    }
    from = from + 1 == 3 ? 0 : from + 1;
    to = to + 1 == 3 ? 0 : to + 1;
  }
  copies_wait<0>();
  float *const own = (float *)sum, *const left = (float *)a.w[29] + (i64)own_tile * shares * 4096 + t;
  #pragma unroll
  for (u32 u = 0; u < 16; u++) set_at(left, (i64)share * 4096 + u * 256, own[u]);
  __threadfence();
  __shared__ u32 last_share;
  __syncthreads();
  if (t == 0) {
    u32 *const counter = (u32 *)a.w[30] + own_tile;
    last_share = atomicAdd(counter, 1u) == shares - 1;
    if (last_share) *counter = 0;
    __threadfence();
  }
  __syncthreads();
  if (!last_share) return;
  #pragma unroll
  for (u32 u = 0; u < 16; u++) own[u] = 0;
  for (u32 s = 0; s < shares; s++) {
    float other[16];
    #pragma unroll
    for (u32 u = 0; u < 16; u++) other[u] = load_cold(left + ((i64)s * 4096 + u * 256));
    #pragma unroll
    for (u32 u = 0; u < 16; u++) own[u] += other[u];
  }
  float *const p1 = (float *)a.w[21];
  float *const p2 = (float *)a.w[24];
  float *const sums = (float *)shared;
  #pragma unroll
  for (int pass = 0; pass < 1; pass++) {
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; i++)
    #pragma unroll
    for (int j = 0; j < 4; j++) sums[(t / 16 * 4 + i) * 72 + j / 4 * 64 + t % 16 * 4 + j % 4] = sum[pass * 4 + i][j];
    __syncthreads();
    for (u32 c = t; c < 1024; c += 256) {
      const u32 line = c / 16;
      const i32 x = (i32)(row0 + pass * 64) + (i32)line;
      if (x >= (i32)m) continue;
      const u32 first_lane = c % 16 * 4;
      const i32 y = (i32)(column0) + (i32)first_lane;
      if (y >= (i32)n) continue;
      const i32 row = x, column = y / 4;
      const i32 i0 = row;
      const i32 i1 = column;
      __align__(16) float r1[4];

      loadv(r1, p1 + (i0 * (i32)a.w[22] + i1 * 4));

      float own[4];
      take(own, sums + line * 72 + first_lane);
      __align__(16) float y2[4];

      #pragma unroll
      for (int v = 0; v < 4; v++) {
        const float n0 = own[v];
        const float n1 = r1[v];
        const float n2 = n0 + n1;
        const float n3 = (n2 <= 0 ? 0 : n2);
        y2[v] = n3;

      }
      storev(p2 + (i0 * (i32)a.w[25] + i1 * 4), y2);

    }
  }
}
