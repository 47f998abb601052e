// options: --gpu-architecture=sm_90a

// Contraction of bf16 with a streamed one inside: 192 rows, 128 keys at a time.
#ifndef THALWEG_EMULATED
template <bool F16, bool TA, bool TB, int N> FN void warpgroup_multiply(float (&d)[16][4], Matrix a, Matrix b, u32 keep) {
  asm volatile("{.reg .pred p;\n.reg .b64 x, y;\nmov.b64 x, {%64, %65};\nmov.b64 y, {%66, %67};\nsetp.ne.b32 p, %68, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, x, y, p, 1, 1, 0, 0;}" : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]), "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]), "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3]) : "r"(a.place), "r"(a.form), "r"(b.place), "r"(b.form), "r"(keep) : "memory");
}
#endif
#ifndef THALWEG_EMULATED
template <bool F16, bool TB, int N> FN void warpgroup_multiply(float (&d)[8][4], const u32 (&a)[4], Matrix b) {
  asm volatile("{.reg .pred p;\n.reg .b64 x, y;\nmov.b64 y, {%36, %37};\nsetp.ne.b32 p, %38, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, y, p, 1, 1, 1;}" : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.place), "r"(b.form), "r"(1) : "memory");
}
#endif
extern "C" __global__ void __launch_bounds__(512, 1) contraction(THALWEG_PARAMETER_LINES(112)) {
  begin();
  THALWEG_SHARED_LINES(shared);
  auto &s0 = *(u16 (*)[12288])(shared + 0);
  auto &s1 = *(u16 (*)[16384])(shared + 24576);
  auto &s2 = *(u16 (*)[16384])(shared + 57344);
  const i64 m = (i64)a.w[0];
  const i64 n = (i64)a.w[1];
  const i64 keys = (i64)a.w[2];
  const i64 depth = (i64)a.w[3];
  const u32 t = threadIdx.x;
  const u32 lane = t % 32u;
  const u32 warp = t / 32u;
  auto &rows_full = *(u64 (*)[1])(shared + 145408);
  auto &rows_empty = *(u64 (*)[1])(shared + 145416);
  auto &keys_full = *(u64 (*)[2])(shared + 145424);
  auto &keys_empty = *(u64 (*)[2])(shared + 145440);
  auto &values_full = *(u64 (*)[2])(shared + 145456);
  auto &values_empty = *(u64 (*)[2])(shared + 145472);
  auto &turns = *(u64 (*)[3])(shared + 145488);
  const i64 column0 = 0;
  const u32 group = __shfl_sync(0xffffffffu, t / 128u, 0u);
  const u32 tiles = (u32)a.w[4] * (u32)a.w[6];
  if (t == 0u) {
    barrier_start((Barrier *)(rows_full + 0), 1);
    barrier_start((Barrier *)(rows_empty + 0), 12);
    for (u32 p = 0u; p < 2u; p++) {
      barrier_start((Barrier *)(keys_full + p), 1);
      barrier_start((Barrier *)(keys_empty + p), 12);
      barrier_start((Barrier *)(values_full + p), 1);
      barrier_start((Barrier *)(values_empty + p), 12);
    }
    for (u32 g = 0u; g < 3u; g++) {
      barrier_start((Barrier *)(turns + g), 4);
    }
    barriers_started();
  }
  __syncthreads();
  u32 rows_phase = 0u;
  u32 slot = 0u;
  u32 slot_phase = 0u;
  u32 before = 0u;
  u32 before_phase = 0u;
  if (group == 3u) {
    registers_less<32>();
    if (t % 128u == 0u) {
      map_ahead(&a.w[64]);
      map_ahead(&a.w[80]);
      map_ahead(&a.w[96]);
      u32 round = 0u;
      for (u32 first = 0u; first < tiles; first += gridDim.x) {
        const u32 at = first + (round % 2u == 1u ? gridDim.x - 1u - blockIdx.x : blockIdx.x);
        round = round + 1u;
        if (at < tiles) {
          const u32 product = at % (u32)a.w[6];
          const i64 row0 = (i64)((u32)a.w[4] - 1u - at / (u32)a.w[6]) * 192;
          const Split in_batch0 = split(product, a.w[7], a.w[8]);
          const i64 batch0 = (i64)in_batch0.r * (i64)a.w[9];
          const i64 batch1 = (i64)in_batch0.r * (i64)a.w[10];
          const i64 batch2 = (i64)in_batch0.r * (i64)a.w[11];
          const bool hides = true;
          const i64 ahead = hides ? (i64)a.w[48] : 0;
          const i64 seen = hides ? (row0 + 192 + ahead - 1 < 0 ? 0 : (row0 + 192 + ahead - 1 < keys ? row0 + 192 + ahead - 1 : keys)) : keys;
          const i32 steps = (i32)((seen + 127) / 128);
          if (0 < steps) {
            barrier_wait((Barrier *)(rows_empty + 0), rows_phase ^ 1u);
            barrier_expect((Barrier *)(rows_full + 0), 24576u);
            {
              {
                const i32 box[3] = {0, (i32)row0, (i32)batch0};
                map_copy(s0 + 0u, &a.w[64], (Barrier *)(rows_full + 0u), box);
              }
            }
            rows_phase = rows_phase ^ 1u;
            for (i32 step = 0; step < steps + 1; step++) {
              if (step < steps) {
                barrier_wait((Barrier *)(keys_empty + slot), slot_phase ^ 1u);
                barrier_expect((Barrier *)(keys_full + slot), 16384u);
                {
                  {
                    const i32 box[3] = {0, step * 128, (i32)batch1};
                    map_copy(s1 + slot * 8192u, &a.w[80], (Barrier *)(keys_full + slot), box);
                  }
                }
                slot = slot + 1u;
                if (slot == 2u) {
                  slot = 0u;
                  slot_phase = slot_phase ^ 1u;
                }
              }
              if (0 < step) {
                barrier_wait((Barrier *)(values_empty + before), before_phase ^ 1u);
                barrier_expect((Barrier *)(values_full + before), 16384u);
                {
                  {
                    const i32 box[3] = {0, (step - 1) * 128, (i32)batch2};
                    map_copy(s2 + before * 8192u, &a.w[96], (Barrier *)(values_full + before), box);
                  }
                }
                before = before + 1u;
                if (before == 2u) {
                  before = 0u;
                  before_phase = before_phase ^ 1u;
                }
              }
            }
          }
        }
      }
    }
    return;
  }
  registers_more<160>();
  u32 turn = 0u;
  u32 round = 0u;
  for (u32 first = 0u; first < tiles; first += gridDim.x) {
    const u32 at = first + (round % 2u == 1u ? gridDim.x - 1u - blockIdx.x : blockIdx.x);
    round = round + 1u;
    if (at < tiles) {
      const u32 product = at % (u32)a.w[6];
      const i64 row0 = (i64)((u32)a.w[4] - 1u - at / (u32)a.w[6]) * 192;
      const Split in_batch0 = split(product, a.w[7], a.w[8]);
      const i64 batch0 = (i64)in_batch0.r * (i64)a.w[9];
      const i64 batch1 = (i64)in_batch0.r * (i64)a.w[10];
      const i64 batch2 = (i64)in_batch0.r * (i64)a.w[11];
      const bool hides = true;
      const i64 ahead = hides ? (i64)a.w[48] : 0;
      const i64 seen = hides ? (row0 + 192 + ahead - 1 < 0 ? 0 : (row0 + 192 + ahead - 1 < keys ? row0 + 192 + ahead - 1 : keys)) : keys;
      const i32 steps = (i32)((seen + 127) / 128);
      const i64 warp_row = row0 + (i64)(warp * 16u);
      const float factor = 0.125f;
      const bool joins = hides && (0.0f < factor) && (factor < 1e30f);
      const float joined = joins ? factor : 1.0f;
      const float by = joined * 1.442695f;
      __align__(16) float sum[8][4];
      #pragma unroll
      for (i32 j = 0; j < 8; j++) {
        #pragma unroll
        for (i32 e = 0; e < 4; e++) {
          sum[j][e] = 0.0f;
        }
      }
      __align__(16) float top[2];
      __align__(16) float total[2];
      #pragma unroll
      for (i32 h = 0; h < 2; h++) {
        top[h] = bits_f32(0xff800000u);
        total[h] = 0.0f;
      }
      if (0 < steps) {
        const i64 own_keys = hides ? (row0 + (i64)(group * 64u) + 63 + ahead < 0 ? 0 : (row0 + (i64)(group * 64u) + 63 + ahead < keys ? row0 + (i64)(group * 64u) + 63 + ahead : keys)) : keys;
        const i32 own_steps = (i32)((own_keys + 127) / 128);
        const i32 own = 1 < own_steps ? own_steps : 1;
        __align__(16) float s[16][4];
        __align__(16) u32 w[8][4];
        barrier_wait((Barrier *)(rows_full + 0), rows_phase);
        barrier_wait((Barrier *)(keys_full + slot), slot_phase);
        take_turn_told(group, (Barrier *)turns, turn);
        {
          const Matrix x = matrix(s0 + t / 128u * 4096u, 8192, 1024);
          const Matrix y = matrix(s1 + slot * 8192u, 8192, 1024);
          warpgroup_fence();
          #pragma unroll
          for (u32 p = 0u; p < 4u; p++) {
            warpgroup_multiply<false, false, false, 128>(s, further(x, p / 4u * 24576u + p % 4u * 32u), further(y, p / 4u * 16384u + p % 4u * 32u), 0u < p);
          }
          warpgroup_commit();
        }
        give_turn_told<3>(group, (Barrier *)turns);
        warpgroup_wait<0>();
        keep(s);
        if (lane == 0u) {
          barrier_arrive((Barrier *)(keys_empty + slot));
          if (own == 1) {
            barrier_arrive((Barrier *)(rows_empty + 0));
          }
        }
        slot = slot + 1u;
        if (slot == 2u) {
          slot = 0u;
          slot_phase = slot_phase ^ 1u;
        }
        if (0 < steps) {
          const i32 step = 0;
          if (hides) {
            #pragma unroll
            for (i32 u = 0; u < 32; u++) {
              const i32 j = u / 2;
              const i32 h = u / 1 % 2;
              const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
              const i32 own_key = step * 64 + j * 4 + (i32)(lane % 4u) + u % 1;
              const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
              const i32 y = own_key * 2 < (i32)keys ? own_key : ((i32)keys - 2) / 2;
              const i32 row = x;
              const i32 column = y;
              const i32 i0 = (i32)product;
              const i32 i1 = row;
              const i32 i2 = column;
              #pragma unroll
              for (i32 v = 0; v < 2; v++) {
                const float n0 = s[j][h * 2 + u % 1 * 2 + v];
                const float n1 = 0.125f;
                const float n2 = s[j][h * 2 + u % 1 * 2 + v];
                s[j][h * 2 + u % 1 * 2 + v] = n2;
              }
            }
            if (!joins) {
              #pragma unroll
              for (i32 j = 0; j < 16; j++) {
                #pragma unroll
                for (i32 e = 0; e < 4; e++) {
                  s[j][e] = s[j][e] * factor;
                }
              }
            }
            #pragma unroll
            for (i32 u = 0; u < 32; u++) {
              const i32 j = u / 2;
              const i32 h = u / 1 % 2;
              const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
              const i32 own_key = step * 64 + j * 4 + (i32)(lane % 4u) + u % 1;
              const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
              const i32 y = own_key * 2 < (i32)keys ? own_key : ((i32)keys - 2) / 2;
              const i32 row = x;
              const i32 column = y;
              const i32 i0 = (i32)product;
              const i32 i1 = row;
              const i32 i2 = column;
              #pragma unroll
              for (i32 v = 0; v < 2; v++) {
                const float n0 = s[j][h * 2 + u % 1 * 2 + v];
                s[j][h * 2 + u % 1 * 2 + v] = n0;
              }
            }
            if (row0 + (i64)(warp / 4u * 64u) + ahead < (i64)(step + 1) * 128) {
              #pragma unroll
              for (u32 h = 0u; h < 2u; h++) {
                const i64 below = row0 + (i64)(warp * 16u + lane / 4u + h * 8u) + ahead - (i64)step * 128;
                const i32 most = (i32)(below < 0 ? 0 : (below < 128 ? below : 128)) - (i32)(lane % 4u) * 2;
                #pragma unroll
                for (i32 j = 0; j < 16; j++) {
                  #pragma unroll
                  for (i32 e = 0; e < 2; e++) {
                    if (most <= j * 8 + e) {
                      s[j][2 * (i32)h + e] = bits_f32(0xff800000u);
                    }
                  }
                }
              }
            }
          } else {
            #pragma unroll
            for (i32 u = 0; u < 32; u++) {
              const i32 j = u / 2;
              const i32 h = u / 1 % 2;
              const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
              const i32 own_key = step * 64 + j * 4 + (i32)(lane % 4u) + u % 1;
              const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
              const i32 y = own_key * 2 < (i32)keys ? own_key : ((i32)keys - 2) / 2;
              const i32 row = x;
              const i32 column = y;
              const i32 i0 = (i32)product;
              const i32 i1 = row;
              const i32 i2 = column;
              __align__(16) i64 ma1[32][1];
              for (i32 v = 0; v < 1; v++) {
                ma1[u][v] = (i64)a.w[22] + (i64)(i0 * (i32)a.w[23] + i1 * (i32)a.w[24]) + (i64)v * 0;
              }
              __align__(16) i64 ma2[32][2];
              for (i32 v = 0; v < 2; v++) {
                ma2[u][v] = (i64)a.w[26] + (i64)(i0 * (i32)a.w[27] + i1 * (i32)a.w[28] + i2 * 2) + (i64)v * 1;
              }
              #pragma unroll
              for (i32 v = 0; v < 2; v++) {
                const float n0 = s[j][h * 2 + u % 1 * 2 + v];
                const float n1 = 0.125f;
                const float n2 = n0 * n1;
                const u32 n3 = (u32)ma1[u][0];
                const float n4 = (float)n3;
                const u32 n5 = (u32)ma2[u][v];
                const float n6 = (float)n5;
                const bool n7 = n6 <= n4;
                const float n8 = bits_f32(0xff800000u);
                const float n9 = n7 ? n2 : n8;
                s[j][h * 2 + u % 1 * 2 + v] = n9;
              }
            }
            #pragma unroll
            for (i32 u = 0; u < 32; u++) {
              const i32 j = u / 2;
              const i32 h = u / 1 % 2;
              const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
              const i32 own_key = step * 64 + j * 4 + (i32)(lane % 4u) + u % 1;
              const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
              const i32 y = own_key * 2 < (i32)keys ? own_key : ((i32)keys - 2) / 2;
              const i32 row = x;
              const i32 column = y;
              const i32 i0 = (i32)product;
              const i32 i1 = row;
              const i32 i2 = column;
              #pragma unroll
              for (i32 v = 0; v < 2; v++) {
                const float n0 = s[j][h * 2 + u % 1 * 2 + v];
                s[j][h * 2 + u % 1 * 2 + v] = n0;
              }
            }
          }
          if ((i32)keys < (step + 1) * 128) {
            #pragma unroll
            for (i32 j = 0; j < 16; j++) {
              #pragma unroll
              for (i32 e = 0; e < 4; e++) {
                if ((i32)keys <= step * 128 + j * 8 + (i32)lane % 4 * 2 + e % 2) {
                  s[j][e] = bits_f32(0xff800000u);
                }
              }
            }
          }
          __align__(16) float most[2][2];
          __align__(16) float part[2][2];
          __align__(16) float now[2];
          __align__(16) float shift[2];
          __align__(16) float again[2];
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            most[h][0] = top[h];
            most[h][1] = s[0][2 * h];
            part[h][0] = 0.0f;
            part[h][1] = 0.0f;
          }
          #pragma unroll
          for (i32 j = 0; j < 16; j++) {
            #pragma unroll
            for (i32 h = 0; h < 2; h++) {
              most[h][j % 2] = larger(most[h][j % 2], (larger(s[j][2 * h], s[j][2 * h + 1])));
            }
          }
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            now[h] = larger(most[h][0], most[h][1]);
          }
          #pragma unroll
          for (u32 x = 1u; x < 3u; x++) {
            #pragma unroll
            for (i32 h = 0; h < 2; h++) {
              now[h] = larger(now[h], __shfl_xor_sync(0xffffffffu, now[h], x));
            }
          }
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            shift[h] = (now[h] == bits_f32(0xff800000u)) ? 0.0f : now[h];
          }
          __align__(16) float scaled[2];
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            scaled[h] = shift[h] * by;
          }
          const bool far = (1.4e38f < (fabsf(scaled[0]))) || (1.4e38f < (fabsf(scaled[1])));
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            const float changed = power_of_two(far ? ((top[h] - shift[h]) * by) : ((top[h] * by) - scaled[h]));
            again[h] = (top[h] == bits_f32(0xff800000u)) ? 0.0f : changed;
            top[h] = now[h];
          }
          if (!(__any_sync(0xffffffffu, far) != 0)) {
            {
              #pragma unroll
              for (i32 j_1 = 0; j_1 < 16; j_1++) {
                #pragma unroll
                for (i32 h_1 = 0; h_1 < 2; h_1++) {
                  s[j_1][2 * h_1] = power_of_two(multiply_add(s[j_1][2 * h_1], by, -scaled[h_1]));
                  s[j_1][2 * h_1 + 1] = power_of_two(multiply_add(s[j_1][2 * h_1 + 1], by, -scaled[h_1]));
                  part[h_1][j_1 % 2] = part[h_1][j_1 % 2] + (s[j_1][2 * h_1] + s[j_1][2 * h_1 + 1]);
                }
              }
            }
          } else {
            {
              #pragma unroll
              for (i32 j_2 = 0; j_2 < 16; j_2++) {
                #pragma unroll
                for (i32 h_2 = 0; h_2 < 2; h_2++) {
                  s[j_2][2 * h_2] = power_of_two((s[j_2][2 * h_2] - shift[h_2]) * by);
                  s[j_2][2 * h_2 + 1] = power_of_two((s[j_2][2 * h_2 + 1] - shift[h_2]) * by);
                  part[h_2][j_2 % 2] = part[h_2][j_2 % 2] + (s[j_2][2 * h_2] + s[j_2][2 * h_2 + 1]);
                }
              }
            }
          }
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            total[h] = (total[h] * again[h]) + (part[h][0] + part[h][1]);
          }
        }
        #pragma unroll
        for (i32 p = 0; p < 8; p++) {
          w[p][0] = pack_bf16(s[2 * p][0], s[2 * p][1]);
          w[p][1] = pack_bf16(s[2 * p][2], s[2 * p][3]);
          w[p][2] = pack_bf16(s[2 * p + 1][0], s[2 * p + 1][1]);
          w[p][3] = pack_bf16(s[2 * p + 1][2], s[2 * p + 1][3]);
        }
        for (i32 step = 1; step < own; step++) {
          barrier_wait((Barrier *)(keys_full + slot), slot_phase);
          take_turn_told(group, (Barrier *)turns, turn);
          {
            const Matrix x = matrix(s0 + t / 128u * 4096u, 8192, 1024);
            const Matrix y = matrix(s1 + slot * 8192u, 8192, 1024);
            warpgroup_fence();
            #pragma unroll
            for (u32 p = 0u; p < 4u; p++) {
              warpgroup_multiply<false, false, false, 128>(s, further(x, p / 4u * 24576u + p % 4u * 32u), further(y, p / 4u * 16384u + p % 4u * 32u), 0u < p);
            }
            warpgroup_commit();
          }
          barrier_wait((Barrier *)(values_full + before), before_phase);
          {
            const Matrix z = matrix(s2 + before * 8192u, 16384, 1024);
            warpgroup_fence();
            #pragma unroll
            for (u32 p = 0u; p < 8u; p++) {
              const u32 far = p * 2048u;
              warpgroup_multiply<false, true, 64>(sum, w[p], further(z, far));
            }
            warpgroup_commit();
          }
          give_turn_told<3>(group, (Barrier *)turns);
          warpgroup_wait<1>();
          keep(s);
          if (lane == 0u) {
            barrier_arrive((Barrier *)(keys_empty + slot));
            if (step + 1 == own) {
              barrier_arrive((Barrier *)(rows_empty + 0));
            }
          }
          slot = slot + 1u;
          if (slot == 2u) {
            slot = 0u;
            slot_phase = slot_phase ^ 1u;
          }
          if (hides) {
            #pragma unroll
            for (i32 u = 0; u < 32; u++) {
              const i32 j = u / 2;
              const i32 h = u / 1 % 2;
              const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
              const i32 own_key = step * 64 + j * 4 + (i32)(lane % 4u) + u % 1;
              const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
              const i32 y = own_key * 2 < (i32)keys ? own_key : ((i32)keys - 2) / 2;
              const i32 row = x;
              const i32 column = y;
              const i32 i0 = (i32)product;
              const i32 i1 = row;
              const i32 i2 = column;
              #pragma unroll
              for (i32 v = 0; v < 2; v++) {
                const float n0 = s[j][h * 2 + u % 1 * 2 + v];
                const float n1 = 0.125f;
                const float n2 = s[j][h * 2 + u % 1 * 2 + v];
                s[j][h * 2 + u % 1 * 2 + v] = n2;
              }
            }
            if (!joins) {
              #pragma unroll
              for (i32 j = 0; j < 16; j++) {
                #pragma unroll
                for (i32 e = 0; e < 4; e++) {
                  s[j][e] = s[j][e] * factor;
                }
              }
            }
            #pragma unroll
            for (i32 u = 0; u < 32; u++) {
              const i32 j = u / 2;
              const i32 h = u / 1 % 2;
              const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
              const i32 own_key = step * 64 + j * 4 + (i32)(lane % 4u) + u % 1;
              const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
              const i32 y = own_key * 2 < (i32)keys ? own_key : ((i32)keys - 2) / 2;
              const i32 row = x;
              const i32 column = y;
              const i32 i0 = (i32)product;
              const i32 i1 = row;
              const i32 i2 = column;
              #pragma unroll
              for (i32 v = 0; v < 2; v++) {
                const float n0 = s[j][h * 2 + u % 1 * 2 + v];
                s[j][h * 2 + u % 1 * 2 + v] = n0;
              }
            }
            if (row0 + (i64)(warp / 4u * 64u) + ahead < (i64)(step + 1) * 128) {
              #pragma unroll
              for (u32 h = 0u; h < 2u; h++) {
                const i64 below = row0 + (i64)(warp * 16u + lane / 4u + h * 8u) + ahead - (i64)step * 128;
                const i32 most = (i32)(below < 0 ? 0 : (below < 128 ? below : 128)) - (i32)(lane % 4u) * 2;
                #pragma unroll
                for (i32 j = 0; j < 16; j++) {
                  #pragma unroll
                  for (i32 e = 0; e < 2; e++) {
                    if (most <= j * 8 + e) {
                      s[j][2 * (i32)h + e] = bits_f32(0xff800000u);
                    }
                  }
                }
              }
            }
          } else {
            #pragma unroll
            for (i32 u = 0; u < 32; u++) {
              const i32 j = u / 2;
              const i32 h = u / 1 % 2;
              const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
              const i32 own_key = step * 64 + j * 4 + (i32)(lane % 4u) + u % 1;
              const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
              const i32 y = own_key * 2 < (i32)keys ? own_key : ((i32)keys - 2) / 2;
              const i32 row = x;
              const i32 column = y;
              const i32 i0 = (i32)product;
              const i32 i1 = row;
              const i32 i2 = column;
              __align__(16) i64 ma1[32][1];
              for (i32 v = 0; v < 1; v++) {
                ma1[u][v] = (i64)a.w[22] + (i64)(i0 * (i32)a.w[23] + i1 * (i32)a.w[24]) + (i64)v * 0;
              }
              __align__(16) i64 ma2[32][2];
              for (i32 v = 0; v < 2; v++) {
                ma2[u][v] = (i64)a.w[26] + (i64)(i0 * (i32)a.w[27] + i1 * (i32)a.w[28] + i2 * 2) + (i64)v * 1;
              }
              #pragma unroll
              for (i32 v = 0; v < 2; v++) {
                const float n0 = s[j][h * 2 + u % 1 * 2 + v];
                const float n1 = 0.125f;
                const float n2 = n0 * n1;
                const u32 n3 = (u32)ma1[u][0];
                const float n4 = (float)n3;
                const u32 n5 = (u32)ma2[u][v];
                const float n6 = (float)n5;
                const bool n7 = n6 <= n4;
                const float n8 = bits_f32(0xff800000u);
                const float n9 = n7 ? n2 : n8;
                s[j][h * 2 + u % 1 * 2 + v] = n9;
              }
            }
            #pragma unroll
            for (i32 u = 0; u < 32; u++) {
              const i32 j = u / 2;
              const i32 h = u / 1 % 2;
              const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
              const i32 own_key = step * 64 + j * 4 + (i32)(lane % 4u) + u % 1;
              const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
              const i32 y = own_key * 2 < (i32)keys ? own_key : ((i32)keys - 2) / 2;
              const i32 row = x;
              const i32 column = y;
              const i32 i0 = (i32)product;
              const i32 i1 = row;
              const i32 i2 = column;
              #pragma unroll
              for (i32 v = 0; v < 2; v++) {
                const float n0 = s[j][h * 2 + u % 1 * 2 + v];
                s[j][h * 2 + u % 1 * 2 + v] = n0;
              }
            }
          }
          if ((i32)keys < (step + 1) * 128) {
            #pragma unroll
            for (i32 j = 0; j < 16; j++) {
              #pragma unroll
              for (i32 e = 0; e < 4; e++) {
                if ((i32)keys <= step * 128 + j * 8 + (i32)lane % 4 * 2 + e % 2) {
                  s[j][e] = bits_f32(0xff800000u);
                }
              }
            }
          }
          __align__(16) float most[2][2];
          __align__(16) float part[2][2];
          __align__(16) float now[2];
          __align__(16) float shift[2];
          __align__(16) float again[2];
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            most[h][0] = top[h];
            most[h][1] = s[0][2 * h];
            part[h][0] = 0.0f;
            part[h][1] = 0.0f;
          }
          #pragma unroll
          for (i32 j = 0; j < 16; j++) {
            #pragma unroll
            for (i32 h = 0; h < 2; h++) {
              most[h][j % 2] = larger(most[h][j % 2], (larger(s[j][2 * h], s[j][2 * h + 1])));
            }
          }
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            now[h] = larger(most[h][0], most[h][1]);
          }
          #pragma unroll
          for (u32 x = 1u; x < 3u; x++) {
            #pragma unroll
            for (i32 h = 0; h < 2; h++) {
              now[h] = larger(now[h], __shfl_xor_sync(0xffffffffu, now[h], x));
            }
          }
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            shift[h] = (now[h] == bits_f32(0xff800000u)) ? 0.0f : now[h];
          }
          __align__(16) float scaled[2];
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            scaled[h] = shift[h] * by;
          }
          const bool far = (1.4e38f < (fabsf(scaled[0]))) || (1.4e38f < (fabsf(scaled[1])));
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            const float changed = power_of_two(far ? ((top[h] - shift[h]) * by) : ((top[h] * by) - scaled[h]));
            again[h] = (top[h] == bits_f32(0xff800000u)) ? 0.0f : changed;
            top[h] = now[h];
          }
          if (!(__any_sync(0xffffffffu, far) != 0)) {
            {
              #pragma unroll
              for (i32 j_1 = 0; j_1 < 16; j_1++) {
                #pragma unroll
                for (i32 h_1 = 0; h_1 < 2; h_1++) {
                  s[j_1][2 * h_1] = power_of_two(multiply_add(s[j_1][2 * h_1], by, -scaled[h_1]));
                  s[j_1][2 * h_1 + 1] = power_of_two(multiply_add(s[j_1][2 * h_1 + 1], by, -scaled[h_1]));
                  part[h_1][j_1 % 2] = part[h_1][j_1 % 2] + (s[j_1][2 * h_1] + s[j_1][2 * h_1 + 1]);
                }
              }
            }
          } else {
            {
              #pragma unroll
              for (i32 j_2 = 0; j_2 < 16; j_2++) {
                #pragma unroll
                for (i32 h_2 = 0; h_2 < 2; h_2++) {
                  s[j_2][2 * h_2] = power_of_two((s[j_2][2 * h_2] - shift[h_2]) * by);
                  s[j_2][2 * h_2 + 1] = power_of_two((s[j_2][2 * h_2 + 1] - shift[h_2]) * by);
                  part[h_2][j_2 % 2] = part[h_2][j_2 % 2] + (s[j_2][2 * h_2] + s[j_2][2 * h_2 + 1]);
                }
              }
            }
          }
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            total[h] = (total[h] * again[h]) + (part[h][0] + part[h][1]);
          }
          warpgroup_wait<0>();
          keep(sum);
          if (lane == 0u) {
            barrier_arrive((Barrier *)(values_empty + before));
          }
          before = before + 1u;
          if (before == 2u) {
            before = 0u;
            before_phase = before_phase ^ 1u;
          }
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            if ((__any_sync(0xffffffffu, again[h] != 1.0f) != 0)) {
              {
                #pragma unroll
                for (i32 j_1 = 0; j_1 < 8; j_1++) {
                  sum[j_1][2 * h] = sum[j_1][2 * h] * again[h];
                  sum[j_1][2 * h + 1] = sum[j_1][2 * h + 1] * again[h];
                }
              }
            }
          }
          #pragma unroll
          for (i32 p = 0; p < 8; p++) {
            w[p][0] = pack_bf16(s[2 * p][0], s[2 * p][1]);
            w[p][1] = pack_bf16(s[2 * p][2], s[2 * p][3]);
            w[p][2] = pack_bf16(s[2 * p + 1][0], s[2 * p + 1][1]);
            w[p][3] = pack_bf16(s[2 * p + 1][2], s[2 * p + 1][3]);
          }
        }
        barrier_wait((Barrier *)(values_full + before), before_phase);
        {
          const Matrix z = matrix(s2 + before * 8192u, 16384, 1024);
          warpgroup_fence();
          #pragma unroll
          for (u32 p = 0u; p < 8u; p++) {
            const u32 far = p * 2048u;
            warpgroup_multiply<false, true, 64>(sum, w[p], further(z, far));
          }
          warpgroup_commit();
        }
        warpgroup_wait<0>();
        keep(sum);
        if (lane == 0u) {
          barrier_arrive((Barrier *)(values_empty + before));
        }
        before = before + 1u;
        if (before == 2u) {
          before = 0u;
          before_phase = before_phase ^ 1u;
        }
        for (i32 step = own; step < steps; step++) {
          barrier_wait((Barrier *)(keys_full + slot), slot_phase);
          take_turn_told(group, (Barrier *)turns, turn);
          give_turn_told<3>(group, (Barrier *)turns);
          barrier_wait((Barrier *)(values_full + before), before_phase);
          __syncwarp();
          if (lane == 0u) {
            barrier_arrive((Barrier *)(keys_empty + slot));
            barrier_arrive((Barrier *)(values_empty + before));
          }
          slot = slot + 1u;
          if (slot == 2u) {
            slot = 0u;
            slot_phase = slot_phase ^ 1u;
          }
          before = before + 1u;
          if (before == 2u) {
            before = 0u;
            before_phase = before_phase ^ 1u;
          }
        }
        rows_phase = rows_phase ^ 1u;
      }
      #pragma unroll
      for (i32 h = 0; h < 2; h++) {
        float all = total[h];
        all = all + __shfl_xor_sync(0xffffffffu, all, 1u);
        all = all + __shfl_xor_sync(0xffffffffu, all, 2u);
        const float n0 = 1.0f;
        const float n1 = all;
        const float n2 = n0 / n1;
        #pragma unroll
        for (i32 j = 0; j < 8; j++) {
          sum[j][2 * h] = sum[j][2 * h] * n2;
          sum[j][2 * h + 1] = sum[j][2 * h + 1] * n2;
        }
      }
      u16 *const p1 = (u16 *)a.w[59];
      auto &sums = *(float (*)[32][1152])(shared + 90112);
      #pragma unroll 1
      for (i32 pass = 0; pass < 1; pass++) {
        __syncwarp();
        switch (pass) {
          case 0: hand_on<72, 8>(sums[t / 32u], sum, 0);
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
            const i32 x = (i32)(warp_row + (i64)(pass / 1 * 64)) + (i32)line;
            const i32 y = (i32)(column0 + (i64)(pass % 1 * 64)) + (i32)first_lane;
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
}
