// options: --gpu-architecture=sm_90a

// Contraction of bf16 with a streamed one inside: 128 rows, 128 keys at a time.
#ifndef THALWEG_EMULATED
template <bool F16, bool TA, bool TB, int N> FN void warpgroup_multiply(float (&d)[16][4], Matrix a, Matrix b, u32 keep) {
  asm volatile("{.reg .pred p;\n.reg .b64 x, y;\nmov.b64 x, {%64, %65};\nmov.b64 y, {%66, %67};\nsetp.ne.b32 p, %68, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, x, y, p, 1, 1, 0, 0;}" : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]), "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]), "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3]) : "r"(a.place), "r"(a.form), "r"(b.place), "r"(b.form), "r"(keep) : "memory");
}
#endif
#ifndef THALWEG_EMULATED
template <bool F16, bool TB, int N> FN void warpgroup_multiply(float (&d)[16][4], const u32 (&a)[4], Matrix b) {
  asm volatile("{.reg .pred p;\n.reg .b64 x, y;\nmov.b64 y, {%68, %69};\nsetp.ne.b32 p, %70, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, y, p, 1, 1, 1;}" : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]), "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]), "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.place), "r"(b.form), "r"(1) : "memory");
}
#endif
extern "C" __global__ void __launch_bounds__(384, 1) contraction(THALWEG_PARAMETER_LINES(112)) {
  begin();
  THALWEG_SHARED_LINES(shared);
  const i64 m = (i64)a.w[0], n = (i64)a.w[1], keys = (i64)a.w[2], depth = (i64)a.w[3], column0 = 0;
  const u32 t = threadIdx.x, lane = t % 32, warp = t / 32, group = same_in_warp(t / 128);
  const u32 tiles = (u32)a.w[4] * (u32)a.w[6];
  u32 *const fault = (u32 *)a.w[5];
  u16 *const s0 = (u16 *)shared, *const s1 = s0 + 16384, *const s2 = s1 + 2 * 16384;
  Barrier *const rows_full = (Barrier *)(shared + 200704), *const rows_empty = rows_full + 1;
  Barrier *const keys_full = rows_empty + 1, *const keys_empty = keys_full + 2;
  Barrier *const values_full = keys_empty + 2, *const values_empty = values_full + 2;
  Barrier *const turns = values_empty + 2;
  if (t == 0) {
    barrier_start(rows_full, 1);
    barrier_start(rows_empty, 8);
    for (int s = 0; s < 2; s++) {
      barrier_start(keys_full + s, 1);
      barrier_start(keys_empty + s, 8);
      barrier_start(values_full + s, 1);
      barrier_start(values_empty + s, 8);
    }
    // Each warp says for itself that it has multiplied.
    for (int g = 0; g < 2; g++) barrier_start(turns + g, 4);
    barriers_started();
  }
  __syncthreads();
  // Steps of all tiles of the block go round the places in shared memory.
  u32 rows_phase = 0, slot = 0, slot_phase = 0, before = 0, before_phase = 0;
  if (group == 2) {
    registers_less<24>();
    if (t % 128) return;
    map_ahead(&a.w[64]);
    map_ahead(&a.w[80]);
    map_ahead(&a.w[96]);
    for (u32 round = 0, first = 0; first < tiles; round++, first += gridDim.x) {
      const u32 at = first + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
      if (at >= tiles) continue;
      const u32 product = at % (u32)a.w[6];
      const i64 row0 = (i64)((u32)a.w[4] - 1 - at / (u32)a.w[6]) * 128;
      i64 batch0 = 0, batch1 = 0, batch2 = 0;
      u32 rest = product;
      { const Split s = split(rest, a.w[7], a.w[8]); rest = s.q; batch0 += s.r * (i64)a.w[9]; batch1 += s.r * (i64)a.w[10]; batch2 += s.r * (i64)a.w[11]; }
      const bool hides = true;
      const i64 ahead = hides ? (i64)a.w[48] : 0, seen = hides ? seen_keys(row0 + 128 + ahead - 1, keys) : keys;
      const i32 steps = (i32)((seen + 127) / 128);
      if (!steps) continue;
      barrier_wait(rows_empty, rows_phase ^ 1);
      barrier_expect(rows_full, 32768);
      {
        const i32 at0[3] = {(i32)(0 + 0), (i32)(row0 + 0), (i32)(batch0)};
        map_copy(s0 + 0, &a.w[64], rows_full, at0);
        const i32 at1[3] = {(i32)(0 + 64), (i32)(row0 + 0), (i32)(batch0)};
        map_copy(s0 + 8192, &a.w[64], rows_full, at1);
      }
      rows_phase ^= 1;
      // In the order in which they are used: each step's keys, then the values of the step before.
      for (i32 step = 0; step <= steps; step++) {
        if (step < steps) {
          barrier_wait(keys_empty + slot, slot_phase ^ 1);
          barrier_expect(keys_full + slot, 32768);
          {
            const i32 at0[3] = {(i32)(0 + 0), (i32)(step * 128 + 0), (i32)(batch1)};
            map_copy(s1 + slot * 16384 + 0, &a.w[80], keys_full + slot, at0);
            const i32 at1[3] = {(i32)(0 + 64), (i32)(step * 128 + 0), (i32)(batch1)};
            map_copy(s1 + slot * 16384 + 8192, &a.w[80], keys_full + slot, at1);
          }
          if (++slot == 2) { slot = 0; slot_phase ^= 1; }
        }
        if (step) {
          barrier_wait(values_empty + before, before_phase ^ 1);
          barrier_expect(values_full + before, 32768);
          {
            const i32 at0[3] = {(i32)(0 + 0), (i32)((step - 1) * 128 + 0), (i32)(batch2)};
            map_copy(s2 + before * 16384 + 0, &a.w[96], values_full + before, at0);
            const i32 at1[3] = {(i32)(0 + 64), (i32)((step - 1) * 128 + 0), (i32)(batch2)};
            map_copy(s2 + before * 16384 + 8192, &a.w[96], values_full + before, at1);
          }
          if (++before == 2) { before = 0; before_phase ^= 1; }
        }
      }
    }
    return;
  }
  registers_more<240>();
  u32 turn = 0;
  for (u32 round = 0, first = 0; first < tiles; round++, first += gridDim.x) {
    const u32 at = first + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    if (at >= tiles) continue;
    const u32 product = at % (u32)a.w[6];
    const i64 row0 = (i64)((u32)a.w[4] - 1 - at / (u32)a.w[6]) * 128;
    i64 batch0 = 0, batch1 = 0, batch2 = 0;
    u32 rest = product;
    { const Split s = split(rest, a.w[7], a.w[8]); rest = s.q; batch0 += s.r * (i64)a.w[9]; batch1 += s.r * (i64)a.w[10]; batch2 += s.r * (i64)a.w[11]; }
    const bool hides = true;
    const i64 ahead = hides ? (i64)a.w[48] : 0, seen = hides ? seen_keys(row0 + 128 + ahead - 1, keys) : keys;
    const i32 steps = (i32)((seen + 127) / 128);
    const i64 warp_row = row0 + warp * 16;
    const float factor = bits_f32(0x3e000000u);
    const bool joins = hides && factor > 0 && factor < 1.0e30f;
    const float joined = joins ? factor : 1.0f, by = joined * 1.44269504f;
    float sum[16][4] = {};
    float top[2] = {-bits_f32(0x7f800000u), -bits_f32(0x7f800000u)}, total[2] = {};
    if (steps) {
      const i64 own_keys = hides ? seen_keys(row0 + group * 64 + 63 + ahead, keys) : keys;
      const i32 own_steps = (i32)((own_keys + 127) / 128), own = own_steps > 1 ? own_steps : 1;
      float s[16][4];
      u32 w[8][4];
      barrier_wait(rows_full, rows_phase);
      barrier_wait(keys_full + slot, slot_phase);
      {
        const Matrix x = matrix(s0 + t / 128 * 4096, 16384, 1024), y = matrix(s1 + slot * 16384, 16384, 1024);
        warpgroup_fence();
        #pragma unroll
        for (int p = 0; p < 8; p++) warpgroup_multiply<false, false, false, 128>(s, further(x, p / 4 * 16384 + p % 4 * 32), further(y, p / 4 * 16384 + p % 4 * 32), p);
        warpgroup_commit();
      }
      warpgroup_wait<0>();
      keep(s);
      if (lane == 0) {
        barrier_arrive(keys_empty + slot);
        if (own == 1) barrier_arrive(rows_empty);
      }
      if (++slot == 2) { slot = 0; slot_phase ^= 1; }
      { const i32 step = 0;
        if (hides) {
          #pragma unroll
          for (i32 u = 0; u < 32; u++) {
            const i32 j = u / 2, h = u / 1 % 2;
            i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8, y = step * 64 + j * 4 + (i32)(lane % 4) * 1 + u % 1;
            x = x < (i32)m ? x : (i32)m - 1;
            y = y * 2 < (i32)keys ? y : ((i32)keys - 2) / 2;
            const i64 row = x, column = y;
            const i64 i0 = ((i64)product);
            const i64 i1 = row;
            const i64 i2 = column;
            #pragma unroll
            for (int v = 0; v < 2; v++) {
              const float n0 = s[j][2 * h + u % 1 * 2 + v];
              const float n1 = 0.125f;
              const float n2 = s[j][2 * h + u % 1 * 2 + v];
              s[j][2 * h + u % 1 * 2 + v] = n2;
            }
          }
          if (!joins) {
            #pragma unroll
            for (int j = 0; j < 16; j++)
            #pragma unroll
            for (int e = 0; e < 4; e++) s[j][e] *= factor;
          }
          #pragma unroll
          for (i32 u = 0; u < 32; u++) {
            const i32 j = u / 2, h = u / 1 % 2;
            i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8, y = step * 64 + j * 4 + (i32)(lane % 4) * 1 + u % 1;
            x = x < (i32)m ? x : (i32)m - 1;
            y = y * 2 < (i32)keys ? y : ((i32)keys - 2) / 2;
            const i64 row = x, column = y;
            const i64 i0 = ((i64)product);
            const i64 i1 = row;
            const i64 i2 = column;
            #pragma unroll
            for (int v = 0; v < 2; v++) {
              const float n0 = s[j][2 * h + u % 1 * 2 + v];
              s[j][2 * h + u % 1 * 2 + v] = n0;
            }
          }
          if ((i64)(step + 1) * 128 > row0 + warp / 4 * 64 + ahead) {
            #pragma unroll
            for (int h = 0; h < 2; h++) {
              // A thread's first keys of eight are seen below this one.
              const i64 below = row0 + (i64)(warp * 16 + lane / 4 + h * 8) + ahead - (i64)step * 128;
              const i32 most = (i32)(below < 0 ? 0 : below < 128 ? below : 128) - (i32)(lane % 4) * 2;
              #pragma unroll
              for (int j = 0; j < 16; j++)
              #pragma unroll
              for (int e = 0; e < 2; e++) if (j * 8 + e >= most) s[j][2 * h + e] = -bits_f32(0x7f800000u);
            }
          }
        } else {
          #pragma unroll
          for (i32 u = 0; u < 32; u++) {
            const i32 j = u / 2, h = u / 1 % 2;
            i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8, y = step * 64 + j * 4 + (i32)(lane % 4) * 1 + u % 1;
            x = x < (i32)m ? x : (i32)m - 1;
            y = y * 2 < (i32)keys ? y : ((i32)keys - 2) / 2;
            const i64 row = x, column = y;
            const i64 i0 = ((i64)product);
            const i64 i1 = row;
            const i64 i2 = column;
            __align__(16) i64 ma1[32][1];

            for (i32 v = 0; v < 1; v++) {
              ma1[u][v] = (i64)a.w[22] + (i0 * (i64)a.w[23] + i1 * (i64)a.w[24]) + (i64)v * 0;
            }

            __align__(16) i64 ma2[32][2];

            for (i32 v = 0; v < 2; v++) {
              ma2[u][v] = (i64)a.w[26] + (i0 * (i64)a.w[27] + i1 * (i64)a.w[28] + i2 * 2) + (i64)v * 1;
            }

            #pragma unroll
            for (int v = 0; v < 2; v++) {
              const float n0 = s[j][2 * h + u % 1 * 2 + v];
              const float n1 = 0.125f;
              const float n2 = n0 * n1;
              const u32 n3 = (u32)ma1[u][0];
              const float n4 = (float)n3;
              const u32 n5 = (u32)ma2[u][v];
              const float n6 = (float)n5;
              const bool n7 = n6 <= n4;
              const float n8 = bits_f32(0xff800000u);
              const float n9 = n7 ? n2 : n8;
              s[j][2 * h + u % 1 * 2 + v] = n9;
            }
          }
          #pragma unroll
          for (i32 u = 0; u < 32; u++) {
            const i32 j = u / 2, h = u / 1 % 2;
            i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8, y = step * 64 + j * 4 + (i32)(lane % 4) * 1 + u % 1;
            x = x < (i32)m ? x : (i32)m - 1;
            y = y * 2 < (i32)keys ? y : ((i32)keys - 2) / 2;
            const i64 row = x, column = y;
            const i64 i0 = ((i64)product);
            const i64 i1 = row;
            const i64 i2 = column;
            #pragma unroll
            for (int v = 0; v < 2; v++) {
              const float n0 = s[j][2 * h + u % 1 * 2 + v];
              s[j][2 * h + u % 1 * 2 + v] = n0;
            }
          }
        }
        if ((step + 1) * 128 > (i32)keys) {
          #pragma unroll
          for (int j = 0; j < 16; j++)
          #pragma unroll
          for (int e = 0; e < 4; e++) if (step * 128 + j * 8 + (i32)lane % 4 * 2 + e % 2 >= (i32)keys) s[j][e] = -bits_f32(0x7f800000u);
        }
        float most[2][2] = {{top[0], s[0][0]}, {top[1], s[0][2]}}, part[2][2] = {}, now[2], shift[2], again[2];
        #pragma unroll
        for (int j = 0; j < 16; j++)
        #pragma unroll
        for (int h = 0; h < 2; h++) most[h][j % 2] = larger(most[h][j % 2], larger(s[j][2 * h], s[j][2 * h + 1]));
        #pragma unroll
        for (int h = 0; h < 2; h++) now[h] = larger(most[h][0], most[h][1]);
        #pragma unroll
        for (int x = 1; x < 4; x *= 2)
        #pragma unroll
        for (int h = 0; h < 2; h++) now[h] = larger(now[h], __shfl_xor_sync(0xffffffffu, now[h], x));
        // Of a row that has had nothing but -infinity nothing is to be NaN yet.
        #pragma unroll
        for (int h = 0; h < 2; h++) shift[h] = now[h] == -bits_f32(0x7f800000u) ? 0.0f : now[h];
        const float scaled[2] = {shift[0] * by, shift[1] * by};
        const bool far = fabsf(scaled[0]) > 1.4e38f || fabsf(scaled[1]) > 1.4e38f;
        #pragma unroll
        for (int h = 0; h < 2; h++) {
          again[h] = top[h] == -bits_f32(0x7f800000u) ? 0.0f : power_of_two(far ? (top[h] - shift[h]) * by : top[h] * by - scaled[h]);
          top[h] = now[h];
        }
        if (!__any_sync(0xffffffffu, far)) {
          #pragma unroll
          for (int j = 0; j < 16; j++)
          #pragma unroll
          for (int h = 0; h < 2; h++) {
            s[j][2 * h] = power_of_two(fmaf(s[j][2 * h], by, -scaled[h]));
            s[j][2 * h + 1] = power_of_two(fmaf(s[j][2 * h + 1], by, -scaled[h]));
            part[h][j % 2] += s[j][2 * h] + s[j][2 * h + 1];
          }
        } else {
          #pragma unroll
          for (int j = 0; j < 16; j++)
          #pragma unroll
          for (int h = 0; h < 2; h++) {
            s[j][2 * h] = power_of_two((s[j][2 * h] - shift[h]) * by);
            s[j][2 * h + 1] = power_of_two((s[j][2 * h + 1] - shift[h]) * by);
            part[h][j % 2] += s[j][2 * h] + s[j][2 * h + 1];
          }
        }
        #pragma unroll
        for (int h = 0; h < 2; h++) total[h] = total[h] * again[h] + (part[h][0] + part[h][1]);
      }
      #pragma unroll
      for (int p = 0; p < 8; p++) {
        w[p][0] = pack_bf16(s[2 * p][0], s[2 * p][1]);
        w[p][1] = pack_bf16(s[2 * p][2], s[2 * p][3]);
        w[p][2] = pack_bf16(s[2 * p + 1][0], s[2 * p + 1][1]);
        w[p][3] = pack_bf16(s[2 * p + 1][2], s[2 * p + 1][3]);
      }
      for (i32 step = 1; step < own; step++) {
        barrier_wait(keys_full + slot, slot_phase);
        {
          const Matrix x = matrix(s0 + t / 128 * 4096, 16384, 1024), y = matrix(s1 + slot * 16384, 16384, 1024);
          warpgroup_fence();
          #pragma unroll
          for (int p = 0; p < 8; p++) warpgroup_multiply<false, false, false, 128>(s, further(x, p / 4 * 16384 + p % 4 * 32), further(y, p / 4 * 16384 + p % 4 * 32), p);
          warpgroup_commit();
        }
        barrier_wait(values_full + before, before_phase);
        {
          const Matrix z = matrix(s2 + before * 16384, 16384, 1024);
          warpgroup_fence();
          #pragma unroll
          for (int p = 0; p < 8; p++) warpgroup_multiply<false, true, 128>(sum, w[p], further(z, p * 2048));
          warpgroup_commit();
        }
        warpgroup_wait<1>();
        keep(s);
        if (lane == 0) {
          barrier_arrive(keys_empty + slot);
          if (step + 1 == own) barrier_arrive(rows_empty);
        }
        if (++slot == 2) { slot = 0; slot_phase ^= 1; }
        if (hides) {
          #pragma unroll
          for (i32 u = 0; u < 32; u++) {
            const i32 j = u / 2, h = u / 1 % 2;
            i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8, y = step * 64 + j * 4 + (i32)(lane % 4) * 1 + u % 1;
            x = x < (i32)m ? x : (i32)m - 1;
            y = y * 2 < (i32)keys ? y : ((i32)keys - 2) / 2;
            const i64 row = x, column = y;
            const i64 i0 = ((i64)product);
            const i64 i1 = row;
            const i64 i2 = column;
            #pragma unroll
            for (int v = 0; v < 2; v++) {
              const float n0 = s[j][2 * h + u % 1 * 2 + v];
              const float n1 = 0.125f;
              const float n2 = s[j][2 * h + u % 1 * 2 + v];
              s[j][2 * h + u % 1 * 2 + v] = n2;
            }
          }
          if (!joins) {
            #pragma unroll
            for (int j = 0; j < 16; j++)
            #pragma unroll
            for (int e = 0; e < 4; e++) s[j][e] *= factor;
          }
          #pragma unroll
          for (i32 u = 0; u < 32; u++) {
            const i32 j = u / 2, h = u / 1 % 2;
            i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8, y = step * 64 + j * 4 + (i32)(lane % 4) * 1 + u % 1;
            x = x < (i32)m ? x : (i32)m - 1;
            y = y * 2 < (i32)keys ? y : ((i32)keys - 2) / 2;
            const i64 row = x, column = y;
            const i64 i0 = ((i64)product);
            const i64 i1 = row;
            const i64 i2 = column;
            #pragma unroll
            for (int v = 0; v < 2; v++) {
              const float n0 = s[j][2 * h + u % 1 * 2 + v];
              s[j][2 * h + u % 1 * 2 + v] = n0;
            }
          }
          if ((i64)(step + 1) * 128 > row0 + warp / 4 * 64 + ahead) {
            #pragma unroll
            for (int h = 0; h < 2; h++) {
              // A thread's first keys of eight are seen below this one.
              const i64 below = row0 + (i64)(warp * 16 + lane / 4 + h * 8) + ahead - (i64)step * 128;
              const i32 most = (i32)(below < 0 ? 0 : below < 128 ? below : 128) - (i32)(lane % 4) * 2;
              #pragma unroll
              for (int j = 0; j < 16; j++)
              #pragma unroll
              for (int e = 0; e < 2; e++) if (j * 8 + e >= most) s[j][2 * h + e] = -bits_f32(0x7f800000u);
            }
          }
        } else {
          #pragma unroll
          for (i32 u = 0; u < 32; u++) {
            const i32 j = u / 2, h = u / 1 % 2;
            i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8, y = step * 64 + j * 4 + (i32)(lane % 4) * 1 + u % 1;
            x = x < (i32)m ? x : (i32)m - 1;
            y = y * 2 < (i32)keys ? y : ((i32)keys - 2) / 2;
            const i64 row = x, column = y;
            const i64 i0 = ((i64)product);
            const i64 i1 = row;
            const i64 i2 = column;
            __align__(16) i64 ma1[32][1];

            for (i32 v = 0; v < 1; v++) {
              ma1[u][v] = (i64)a.w[22] + (i0 * (i64)a.w[23] + i1 * (i64)a.w[24]) + (i64)v * 0;
            }

            __align__(16) i64 ma2[32][2];

            for (i32 v = 0; v < 2; v++) {
              ma2[u][v] = (i64)a.w[26] + (i0 * (i64)a.w[27] + i1 * (i64)a.w[28] + i2 * 2) + (i64)v * 1;
            }

            #pragma unroll
            for (int v = 0; v < 2; v++) {
              const float n0 = s[j][2 * h + u % 1 * 2 + v];
              const float n1 = 0.125f;
              const float n2 = n0 * n1;
              const u32 n3 = (u32)ma1[u][0];
              const float n4 = (float)n3;
              const u32 n5 = (u32)ma2[u][v];
              const float n6 = (float)n5;
              const bool n7 = n6 <= n4;
              const float n8 = bits_f32(0xff800000u);
              const float n9 = n7 ? n2 : n8;
              s[j][2 * h + u % 1 * 2 + v] = n9;
            }
          }
          #pragma unroll
          for (i32 u = 0; u < 32; u++) {
            const i32 j = u / 2, h = u / 1 % 2;
            i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8, y = step * 64 + j * 4 + (i32)(lane % 4) * 1 + u % 1;
            x = x < (i32)m ? x : (i32)m - 1;
            y = y * 2 < (i32)keys ? y : ((i32)keys - 2) / 2;
            const i64 row = x, column = y;
            const i64 i0 = ((i64)product);
            const i64 i1 = row;
            const i64 i2 = column;
            #pragma unroll
            for (int v = 0; v < 2; v++) {
              const float n0 = s[j][2 * h + u % 1 * 2 + v];
              s[j][2 * h + u % 1 * 2 + v] = n0;
            }
          }
        }
        if ((step + 1) * 128 > (i32)keys) {
          #pragma unroll
          for (int j = 0; j < 16; j++)
          #pragma unroll
          for (int e = 0; e < 4; e++) if (step * 128 + j * 8 + (i32)lane % 4 * 2 + e % 2 >= (i32)keys) s[j][e] = -bits_f32(0x7f800000u);
        }
        float most[2][2] = {{top[0], s[0][0]}, {top[1], s[0][2]}}, part[2][2] = {}, now[2], shift[2], again[2];
        #pragma unroll
        for (int j = 0; j < 16; j++)
        #pragma unroll
        for (int h = 0; h < 2; h++) most[h][j % 2] = larger(most[h][j % 2], larger(s[j][2 * h], s[j][2 * h + 1]));
        #pragma unroll
        for (int h = 0; h < 2; h++) now[h] = larger(most[h][0], most[h][1]);
        #pragma unroll
        for (int x = 1; x < 4; x *= 2)
        #pragma unroll
        for (int h = 0; h < 2; h++) now[h] = larger(now[h], __shfl_xor_sync(0xffffffffu, now[h], x));
        // Of a row that has had nothing but -infinity nothing is to be NaN yet.
        #pragma unroll
        for (int h = 0; h < 2; h++) shift[h] = now[h] == -bits_f32(0x7f800000u) ? 0.0f : now[h];
        const float scaled[2] = {shift[0] * by, shift[1] * by};
        const bool far = fabsf(scaled[0]) > 1.4e38f || fabsf(scaled[1]) > 1.4e38f;
        #pragma unroll
        for (int h = 0; h < 2; h++) {
          again[h] = top[h] == -bits_f32(0x7f800000u) ? 0.0f : power_of_two(far ? (top[h] - shift[h]) * by : top[h] * by - scaled[h]);
          top[h] = now[h];
        }
        if (!__any_sync(0xffffffffu, far)) {
          #pragma unroll
          for (int j = 0; j < 16; j++)
          #pragma unroll
          for (int h = 0; h < 2; h++) {
            s[j][2 * h] = power_of_two(fmaf(s[j][2 * h], by, -scaled[h]));
            s[j][2 * h + 1] = power_of_two(fmaf(s[j][2 * h + 1], by, -scaled[h]));
            part[h][j % 2] += s[j][2 * h] + s[j][2 * h + 1];
          }
        } else {
          #pragma unroll
          for (int j = 0; j < 16; j++)
          #pragma unroll
          for (int h = 0; h < 2; h++) {
            s[j][2 * h] = power_of_two((s[j][2 * h] - shift[h]) * by);
            s[j][2 * h + 1] = power_of_two((s[j][2 * h + 1] - shift[h]) * by);
            part[h][j % 2] += s[j][2 * h] + s[j][2 * h + 1];
          }
        }
        #pragma unroll
        for (int h = 0; h < 2; h++) total[h] = total[h] * again[h] + (part[h][0] + part[h][1]);
        warpgroup_wait<0>();
        keep(sum);
        if (lane == 0) barrier_arrive(values_empty + before);
        if (++before == 2) { before = 0; before_phase ^= 1; }
        #pragma unroll
        for (int h = 0; h < 2; h++) {
          {
            #pragma unroll
            for (int j = 0; j < 16; j++) { sum[j][2 * h] *= again[h]; sum[j][2 * h + 1] *= again[h]; }
          }
        }
        #pragma unroll
        for (int p = 0; p < 8; p++) {
          w[p][0] = pack_bf16(s[2 * p][0], s[2 * p][1]);
          w[p][1] = pack_bf16(s[2 * p][2], s[2 * p][3]);
          w[p][2] = pack_bf16(s[2 * p + 1][0], s[2 * p + 1][1]);
          w[p][3] = pack_bf16(s[2 * p + 1][2], s[2 * p + 1][3]);
        }
      }
      barrier_wait(values_full + before, before_phase);
      {
        const Matrix z = matrix(s2 + before * 16384, 16384, 1024);
        warpgroup_fence();
        #pragma unroll
        for (int p = 0; p < 8; p++) warpgroup_multiply<false, true, 128>(sum, w[p], further(z, p * 2048));
        warpgroup_commit();
      }
      warpgroup_wait<0>();
      keep(sum);
      if (lane == 0) barrier_arrive(values_empty + before);
      if (++before == 2) { before = 0; before_phase ^= 1; }
      for (i32 step = own; step < steps; step++) {
        barrier_wait(keys_full + slot, slot_phase);
        barrier_wait(values_full + before, before_phase);
        // All threads of the warp have seen both: one that is late by two rounds would wait for ever.
        __syncwarp();
        if (lane == 0) {
          barrier_arrive(keys_empty + slot);
          barrier_arrive(values_empty + before);
        }
        if (++slot == 2) { slot = 0; slot_phase ^= 1; }
        if (++before == 2) { before = 0; before_phase ^= 1; }
      }
      rows_phase ^= 1;
    }
    #pragma unroll
    for (int h = 0; h < 2; h++) {
      float all = total[h];
      all += __shfl_xor_sync(0xffffffffu, all, 1);
      all += __shfl_xor_sync(0xffffffffu, all, 2);
      const float n0 = 1.0f;
      const float n1 = all;
      const float n2 = n0 / n1;
      #pragma unroll
      for (int j = 0; j < 16; j++) { sum[j][2 * h] *= n2; sum[j][2 * h + 1] *= n2; }
    }
    u16 *const p1 = (u16 *)a.w[59];
    auto &sums = *(float (*)[32][1152])(shared + 163840);
    #pragma unroll 1
    for (i32 pass = 0; pass < 2; pass++) {
      __syncwarp();
      switch (pass) {
        case 0: hand_on<72, 8>(sums[t / 32u], sum, 0);
        break;
        case 1: hand_on<72, 8>(sums[t / 32u], sum, 8);
        break;
      }
      __syncwarp();
      #pragma unroll
      for (u32 first_u = 0u; first_u < 4u; first_u += 2u) {
        __align__(16) float taken[2][8];
        #pragma unroll
        for (u32 o = 0u; o < 2u; o++) {
          const u32 c = t % 32u + (first_u + o) * 32u;
          #pragma unroll
          for (u32 v = 0u; v < 8u; v++) {
            taken[o][v] = sums[t / 32u][c / 8u * 72u + c % 8u * 8u + v];
          }
        }
        #pragma unroll
        for (u32 o = 0u; o < 2u; o++) {
          const u32 u = first_u + o;
          const u32 c = t % 32u + u * 32u;
          const u32 line = c / 8u;
          const u32 first_lane = c % 8u * 8u;
          const i32 x = (i32)(warp_row + (i64)(pass / 2 * 64)) + (i32)line;
          const i32 y = (i32)(column0 + (i64)(pass % 2 * 64)) + (i32)first_lane;
          const bool inside = x < (i32)m && y < (i32)n;
          const i32 row = x;
          const i32 column = y / 8;
          const i32 i0 = (i32)product;
          const i32 i1 = row;
          const i32 i2 = column;
          __align__(16) u16 y1[8];
          #pragma unroll
          for (i32 v = 0; v < 8; v++) {
            const float n0 = taken[o][v];
            const float n1 = round_bf16((float)n0);
            y1[v] = bits_bf16(n1);
          }
          if (inside) {
            storev(p1 + (i0 * (i32)a.w[60] + i1 * (i32)a.w[61] + i2 * 8), y1);
          }
        }
      }
    }
  }
}
