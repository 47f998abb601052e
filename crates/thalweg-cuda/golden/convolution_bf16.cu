// options: --gpu-architecture=sm_90a

// Contraction of bf16 by warpgroups: tiles of 64 times 64, 64 terms a step.
#ifndef THALWEG_EMULATED
template <bool F16, bool TA, bool TB, int N> FN void warpgroup_multiply(float (&d)[8][4], Matrix a, Matrix b, u32 keep) {
  asm volatile("{.reg .pred p;\n.reg .b64 x, y;\nmov.b64 x, {%32, %33};\nmov.b64 y, {%34, %35};\nsetp.ne.b32 p, %36, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, x, y, p, 1, 1, 0, 1;}" : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]) : "r"(a.place), "r"(a.form), "r"(b.place), "r"(b.form), "r"(keep) : "memory");
}
#endif
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
  u16 *const s0 = (u16 *)shared, *const s1 = s0 + 16384;
  const u16 *const factor0 = (const u16 *)a.w[10] + batch0;
  const i32 pitch0 = (i32)a.w[11];
  const i32 outer0 = (i32)t / 8, inner0 = (i32)t % 8 * 8;
  const u16 *const from0 = factor0 + (i64)((i32)row0 + outer0) * pitch0 + (0 + inner0);
  auto copy0 = [&](i32 step, i32 slot) {
    u16 *const to = s0 + slot * 4096 + inner0 / 64 * 4096 + outer0 * 64 + ((inner0 % 64 / 8 ^ outer0 & 7) * 8);
    const u16 *const from = from0 + ((i64)(step * 0) * pitch0 + step * 64);
    const i32 outers = (i32)m - ((i32)row0 + step * 0), inners = (i32)k - (0 + step * 64);
    if (outers >= 64 && inners >= 64) {
      #pragma unroll
      for (i32 u = 0; u < 4; u++) copy16_whole(to + u * 1024, from + (i64)(u * 16) * pitch0);
    } else {
      #pragma unroll
      for (i32 u = 0; u < 4; u++) {
        const i32 left = outer0 + u * 16 < outers ? inners - inner0 : 0;
        const i32 inside = left < 0 ? 0 : left < 8 ? left : 8;
        copy16(to + u * 1024, inside ? from + (i64)(u * 16) * pitch0 : factor0, inside * 2);
      }
    }
  };
  u16 *const pb0 = (u16 *)a.w[24];
  i32 place1 = 0, lines1[2];
  {
    const i32 i0 = ((i32)batch1);

    place1 = i0 * (i32)a.w[25];
  }
  #pragma unroll
  for (u32 u = 0; u < 2; u++) {
    i64 x = (i32)column0 + (i32)(t % 32 * 2 + u);
    x = x < n ? x : n - 1;
    const Split is5 = split((u32)((i32)x), a.w[22], a.w[23]);
    const i32 i5 = (i32)is5.r;
    const i32 iq5 = (i32)is5.q;
    const i32 i4 = iq5;

    lines1[u] = place1 + i4 * (i32)a.w[29] + i5 * 1;
  }
  i32 *const table1 = (i32 *)(shared + 65536);
  auto terms1 = [&](i32 step, i32 slot) {
    if (t < 64) {
      const i64 p = (i64)step * 64 + t;
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
      table1[slot * 64 + t] = place;
    }
  };
  for (i32 s = 0; s < 4; s++) terms1(s, s);
  __syncthreads();
  u32 words1[16];
  auto fetch1 = [&](i32 step, i32 slot) {
    if ((step + 1) * 64 <= (i32)k) {
      #pragma unroll
      for (u32 u = 0; u < 16; u++) words1[u] = (u32)load1((const u16 *)pb0 + lines1[0] + table1[slot * 64 + t / 32 + u * 4]) << 0 | (u32)load1((const u16 *)pb0 + lines1[1] + table1[slot * 64 + t / 32 + u * 4]) << 16;
    } else {
      #pragma unroll
      for (u32 u = 0; u < 16; u++) words1[u] = (table1[slot * 64 + t / 32 + u * 4] == NOWHERE<i32> ? 0 : (u32)load1((const u16 *)pb0 + lines1[0] + table1[slot * 64 + t / 32 + u * 4]) << 0) | (table1[slot * 64 + t / 32 + u * 4] == NOWHERE<i32> ? 0 : (u32)load1((const u16 *)pb0 + lines1[1] + table1[slot * 64 + t / 32 + u * 4]) << 16);
    }
  };
  auto put1 = [&](i32 slot) {
    #pragma unroll
    for (u32 u = 0; u < 16; u++) *(u32 *)(s1 + slot * 4096 + (t % 32 * 2 + 0) / 64 * 4096 + (t / 32 + u * 4) * 64 + (((t % 32 * 2 + 0) % 64 / 8 ^ (t / 32 + u * 4) & 7) * 8) + (t % 32 * 2 + 0) % 8) = words1[u];
  };
  float sum[1][8][4] = {};
  const i32 steps = (i32)((k + 63) / 64);
  #pragma unroll
  for (i32 s = 0; s < 3; s++) {
    if (s < steps) {
      copy0(s, s);
      fetch1(s, s);
      put1(s);
    }
    copies_commit();
  }
  i32 from = 0, to = 3;
  for (i32 i = 0; i < steps; i++) {
    copies_wait<2>();
    async_fence();
    __syncthreads();
    const i32 next = i + 3;
    const u16 *const at = s0 + from * 4096, *const bt = s1 + from * 4096;
    const Matrix x = matrix(at + t / 128 * 4096, 8192, 1024), y = matrix(bt, 8192, 1024);
    warpgroup_fence();
    #pragma unroll
    for (int p = 0; p < 4; p++) warpgroup_multiply<false, false, true, 64>(sum[0], further(x, p * 32), further(y, p * 2048), 1);
    warpgroup_commit();
    if (next < steps) {
      copy0(next, to);
      fetch1(next, to);
    }
    copies_commit();
    warpgroup_wait<0>();
    if (next < steps) {
      put1(to);
    }
    terms1(i + 4, from);
    from = from + 1 == 4 ? 0 : from + 1;
    to = to + 1 == 4 ? 0 : to + 1;
  }
  copies_wait<0>();
  u16 *const p1 = (u16 *)a.w[48];
  float *const sums = (float *)shared;
  #pragma unroll
  for (int pass = 0; pass < 1; pass++) {
    __syncthreads();
    if (t / 128 == pass) {
      #pragma unroll
      for (int j = 0; j < 8; j++)
      #pragma unroll
      for (int e = 0; e < 4; e++) sums[(t / 32 % 4 * 16 + t % 32 / 4 + e / 2 * 8) * 72 + j * 8 + t % 4 * 2 + e % 2] = sum[0][j][e];
    }
    __syncthreads();
    for (u32 c = t; c < 1024; c += 128) {
      const u32 line = c / 16;
      const i32 x = (i32)(row0 + pass * 64) + (i32)line;
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
      __align__(16) u16 y1[4];

      #pragma unroll
      for (int v = 0; v < 4; v++) {
        const float n0 = own[v];
        const float n1 = round_bf16((float)n0);
        y1[v] = bits_bf16(n1);

      }
      storev(p1 + (i0 * (i32)a.w[49] + i1 * (i32)a.w[50] + i2 * 4), y1);

    }
  }
}
