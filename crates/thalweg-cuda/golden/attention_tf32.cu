// options:

// Contraction of f32 with a streamed one inside: 128 rows, 64 keys at a time.
extern "C" __global__ void __launch_bounds__(256, 1) contraction(THALWEG_PARAMETER(64)) {
  begin();
  THALWEG_SHARED_LINES(shared);
  auto &s0 = *(float (*)[8704])(shared + 0);
  auto &s1 = *(float (*)[10240])(shared + 34816);
  auto &s2 = *(float (*)[8704])(shared + 75776);
  const i64 m = (i64)a.w[0];
  const i64 n = (i64)a.w[1];
  const i64 keys = (i64)a.w[2];
  const i64 depth = (i64)a.w[3];
  const u32 t = threadIdx.x;
  const u32 lane = t % 32u;
  const u32 warp = t / 32u;
  const u32 product = blockIdx.x / (u32)a.w[4];
  const u32 within = blockIdx.x % (u32)a.w[4];
  const i64 row0 = (i64)within * 128;
  const i64 column0 = 0;
  const Split in_batch0 = split(product, a.w[7], a.w[8]);
  const i64 batch0 = (i64)in_batch0.r * (i64)a.w[9];
  const i64 batch1 = (i64)in_batch0.r * (i64)a.w[10];
  const i64 batch2 = (i64)in_batch0.r * (i64)a.w[11];
  float *const factor0 = (float *)a.w[12];
  const i32 pitch0 = (i32)a.w[13];
  const i32 outer0 = (i32)t / 16;
  const i32 inner0 = (i32)t % 16 * 4;
  const i64 from0 = batch0 + (i64)((i32)row0 + outer0) * (i64)pitch0 + (i64)inner0;
  float *const factor1 = (float *)a.w[14];
  const i32 pitch1 = (i32)a.w[15];
  const i32 outer1 = (i32)t / 16;
  const i32 inner1 = (i32)t % 16 * 4;
  const i64 from1 = batch1 + (i64)outer1 * (i64)pitch1 + (i64)inner1;
  float *const factor2 = (float *)a.w[16];
  const i32 pitch2 = (i32)a.w[17];
  const i32 outer2 = (i32)t / 16;
  const i32 inner2 = (i32)t % 16 * 4;
  const i64 from2 = batch2 + (i64)outer2 * (i64)pitch2 + (i64)inner2;
  float *const pa1 = (float *)a.w[28];
  __align__(16) float ra1[16][2];
  const i64 seen = keys;
  const i32 steps = (i32)((seen + 63) / 64);
  {
    const i32 begin = outer0 * 68 + inner0;
    const i64 whence = from0 + (i64)0 * (i64)pitch0 + (i64)0;
    const i32 outers = (i32)m - (i32)row0;
    const i32 inners = (i32)depth - 0;
    if (128 <= outers && 64 <= inners) {
      #pragma unroll
      for (i32 u = 0; u < 8; u++) {
        copy16_whole(s0 + (begin + u * 1088), factor0 + (whence + (i64)(u * 16) * (i64)pitch0));
      }
    } else {
      #pragma unroll
      for (i32 u = 0; u < 8; u++) {
        const i32 left = outer0 + u * 16 < outers ? inners - inner0 : 0;
        const i32 inside = left < 0 ? 0 : (left < 4 ? left : 4);
        const i64 there = inside != 0 ? whence + (i64)(u * 16) * (i64)pitch0 : batch0;
        copy16(s0 + (begin + u * 1088), factor0 + there, inside * 4);
      }
    }
  }
  if (0 < steps) {
    {
      const i32 begin = outer1 * 80 + inner1;
      const i64 whence = from1 + (i64)0 * (i64)pitch1 + (i64)0;
      const i32 outers = (i32)keys - 0;
      const i32 inners = (i32)depth - 0;
      if (64 <= outers && 64 <= inners) {
        #pragma unroll
        for (i32 u = 0; u < 4; u++) {
          copy16_whole(s1 + (begin + u * 1280), factor1 + (whence + (i64)(u * 16) * (i64)pitch1));
        }
      } else {
        #pragma unroll
        for (i32 u = 0; u < 4; u++) {
          const i32 left = outer1 + u * 16 < outers ? inners - inner1 : 0;
          const i32 inside = left < 0 ? 0 : (left < 4 ? left : 4);
          const i64 there = inside != 0 ? whence + (i64)(u * 16) * (i64)pitch1 : batch1;
          copy16(s1 + (begin + u * 1280), factor1 + there, inside * 4);
        }
      }
    }
    {
      const i32 begin = outer2 * 68 + inner2;
      const i64 whence = from2 + (i64)0 * (i64)pitch2 + (i64)0;
      const i32 outers = (i32)keys - 0;
      const i32 inners = (i32)n - 0;
      if (64 <= outers && 64 <= inners) {
        #pragma unroll
        for (i32 u = 0; u < 4; u++) {
          copy16_whole(s2 + (begin + u * 1088), factor2 + (whence + (i64)(u * 16) * (i64)pitch2));
        }
      } else {
        #pragma unroll
        for (i32 u = 0; u < 4; u++) {
          const i32 left = outer2 + u * 16 < outers ? inners - inner2 : 0;
          const i32 inside = left < 0 ? 0 : (left < 4 ? left : 4);
          const i64 there = inside != 0 ? whence + (i64)(u * 16) * (i64)pitch2 : batch2;
          copy16(s2 + (begin + u * 1088), factor2 + there, inside * 4);
        }
      }
    }
  }
  copies_commit();
  if (0 < steps) {
    {
      if (64 <= (i32)keys) {
        #pragma unroll
        for (i32 h = 0; h < 2; h++) {
          const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
          const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
          const i32 row = x;
          const i32 column = (i32)(lane % 4u);
          const i32 i0 = (i32)product;
          const i32 i1 = row;
          const i32 i2 = column;
          {
            const i64 begin = (i64)(i0 * (i32)a.w[29] + i1 * (i32)a.w[30] + i2 * 2);
            #pragma unroll
            for (i32 j = 0; j < 8; j++) {
              #pragma unroll
              for (i32 g = 0; g < 1; g++) {
                loadv(ra1[(j * 2 + h) * 1 + g], pa1 + (begin + (i64)(j * 8 + g * 2)));
              }
            }
          }
        }
      } else {
        #pragma unroll
        for (i32 u = 0; u < 16; u++) {
          const i32 j = u / 2;
          const i32 h = u / 1 % 2;
          const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
          const i32 own_key = j * 4 + (i32)(lane % 4u) + u % 1;
          const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
          const i32 y = own_key * 2 < (i32)keys ? own_key : ((i32)keys - 2) / 2;
          const i32 row = x;
          const i32 column = y;
          const i32 i0 = (i32)product;
          const i32 i1 = row;
          const i32 i2 = column;
          loadv(ra1[u], pa1 + (i0 * (i32)a.w[29] + i1 * (i32)a.w[30] + i2 * 2));
        }
      }
    }
  }
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
  for (i32 step = 0; step < steps; step++) {
    const u32 slot = (u32)step & 1u;
    copies_wait<0>();
    if (step == 0) {
      {
        __align__(16) float x[8][4];
        #pragma unroll
        for (i32 u = 0; u < 8; u++) {
          #pragma unroll
          for (i32 e = 0; e < 4; e++) {
            x[u][e] = round_tf32(s0[outer0 * 68 + inner0 + (u * 1088 + e)]);
          }
        }
        __syncthreads();
        #pragma unroll
        for (i32 u = 0; u < 8; u++) {
          const i32 row = outer0 + u * 16;
          const i32 begin = (row / 16 * 4 + inner0 / 16) * 256 + (row % 8 * 4 + inner0 % 16 / 4) * 4 + row % 16 / 8;
          #pragma unroll
          for (i32 e = 0; e < 4; e++) {
            s0[begin + e / 2 * 128 + e % 2 * 2] = x[u][e];
          }
        }
      }
    }
    {
      const i32 own = (i32)slot * 5120 + outer1 * 80 + inner1;
      #pragma unroll
      for (i32 u = 0; u < 4; u++) {
        __align__(16) float x[4];
        #pragma unroll
        for (i32 e = 0; e < 4; e++) {
          x[e] = s1[own + (u * 1280 + e)];
        }
        #pragma unroll
        for (i32 e = 0; e < 4; e++) {
          s1[own + (u * 1280 + e)] = round_tf32(x[e]);
        }
      }
    }
    {
      const i32 own = (i32)slot * 4352 + outer2 * 68 + inner2;
      #pragma unroll
      for (i32 u = 0; u < 4; u++) {
        __align__(16) float x[4];
        #pragma unroll
        for (i32 e = 0; e < 4; e++) {
          x[e] = s2[own + (u * 1088 + e)];
        }
        #pragma unroll
        for (i32 e = 0; e < 4; e++) {
          s2[own + (u * 1088 + e)] = round_tf32(x[e]);
        }
      }
    }
    __syncthreads();
    const i32 next = step + 1;
    const i32 other = (i32)(slot ^ 1u);
    if (next < steps) {
      {
        const i32 begin = other * 5120 + (outer1 * 80 + inner1);
        const i64 whence = from1 + (i64)(next * 64) * (i64)pitch1 + (i64)0;
        const i32 outers = (i32)keys - next * 64;
        const i32 inners = (i32)depth - 0;
        if (64 <= outers && 64 <= inners) {
          #pragma unroll
          for (i32 u = 0; u < 4; u++) {
            copy16_whole(s1 + (begin + u * 1280), factor1 + (whence + (i64)(u * 16) * (i64)pitch1));
          }
        } else {
          #pragma unroll
          for (i32 u = 0; u < 4; u++) {
            const i32 left = outer1 + u * 16 < outers ? inners - inner1 : 0;
            const i32 inside = left < 0 ? 0 : (left < 4 ? left : 4);
            const i64 there = inside != 0 ? whence + (i64)(u * 16) * (i64)pitch1 : batch1;
            copy16(s1 + (begin + u * 1280), factor1 + there, inside * 4);
          }
        }
      }
      {
        const i32 begin = other * 4352 + (outer2 * 68 + inner2);
        const i64 whence = from2 + (i64)(next * 64) * (i64)pitch2 + (i64)0;
        const i32 outers = (i32)keys - next * 64;
        const i32 inners = (i32)n - 0;
        if (64 <= outers && 64 <= inners) {
          #pragma unroll
          for (i32 u = 0; u < 4; u++) {
            copy16_whole(s2 + (begin + u * 1088), factor2 + (whence + (i64)(u * 16) * (i64)pitch2));
          }
        } else {
          #pragma unroll
          for (i32 u = 0; u < 4; u++) {
            const i32 left = outer2 + u * 16 < outers ? inners - inner2 : 0;
            const i32 inside = left < 0 ? 0 : (left < 4 ? left : 4);
            const i64 there = inside != 0 ? whence + (i64)(u * 16) * (i64)pitch2 : batch2;
            copy16(s2 + (begin + u * 1088), factor2 + there, inside * 4);
          }
        }
      }
    }
    copies_commit();
    __align__(16) float s[8][4];
    #pragma unroll
    for (i32 j = 0; j < 8; j++) {
      #pragma unroll
      for (i32 e = 0; e < 4; e++) {
        s[j][e] = 0.0f;
      }
    }
    {
      const i32 left = (i32)(warp * 1024u + lane * 4u);
      const i32 right = (i32)(slot * 5120u + lane / 4u * 80u + lane % 4u * 4u);
      #pragma unroll
      for (i32 p = 0; p < 64; p += 16) {
        __align__(16) u32 x[2][4];
        #pragma unroll
        for (i32 h = 0; h < 2; h++) {
          #pragma unroll
          for (i32 e = 0; e < 4; e++) {
            x[h][e] = f32_bits(s0[left + (p * 16 + h * 128 + e)]);
          }
        }
        #pragma unroll
        for (i32 q = 0; q < 8; q += 4) {
          __align__(16) u32 y[4][4];
          #pragma unroll
          for (i32 j = 0; j < 4; j++) {
            #pragma unroll
            for (i32 e = 0; e < 4; e++) {
              y[j][e] = f32_bits(s1[right + ((q + j) * 8 * 80 + p + e)]);
            }
          }
          #pragma unroll
          for (i32 e = 0; e < 2; e++) {
            #pragma unroll
            for (i32 j = 0; j < 4; j++) {
              multiply_tf32(s[q + j], x[e], y[j][e * 2], y[j][e * 2 + 1]);
            }
          }
        }
      }
    }
    #pragma unroll
    for (i32 u = 0; u < 16; u++) {
      const i32 j = u / 2;
      const i32 h = u / 1 % 2;
      const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
      const i32 own_key = step * 32 + j * 4 + (i32)(lane % 4u) + u % 1;
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
        const float n2 = n0 * n1;
        const float n3 = ra1[u][v];
        const float n4 = n2 + n3;
        s[j][h * 2 + u % 1 * 2 + v] = n4;
      }
    }
    #pragma unroll
    for (i32 u = 0; u < 16; u++) {
      const i32 j = u / 2;
      const i32 h = u / 1 % 2;
      const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
      const i32 own_key = step * 32 + j * 4 + (i32)(lane % 4u) + u % 1;
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
    if (step + 1 < steps) {
      {
        if ((step + 1 + 1) * 64 <= (i32)keys) {
          #pragma unroll
          for (i32 h = 0; h < 2; h++) {
            const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
            const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
            const i32 row = x;
            const i32 column = (step + 1) * 32 + (i32)(lane % 4u);
            const i32 i0 = (i32)product;
            const i32 i1 = row;
            const i32 i2 = column;
            {
              const i64 begin = (i64)(i0 * (i32)a.w[29] + i1 * (i32)a.w[30] + i2 * 2);
              #pragma unroll
              for (i32 j = 0; j < 8; j++) {
                #pragma unroll
                for (i32 g = 0; g < 1; g++) {
                  loadv(ra1[(j * 2 + h) * 1 + g], pa1 + (begin + (i64)(j * 8 + g * 2)));
                }
              }
            }
          }
        } else {
          #pragma unroll
          for (i32 u = 0; u < 16; u++) {
            const i32 j = u / 2;
            const i32 h = u / 1 % 2;
            const i32 own_row = (i32)row0 + (i32)(warp * 16u + lane / 4u) + h * 8;
            const i32 own_key = (step + 1) * 32 + j * 4 + (i32)(lane % 4u) + u % 1;
            const i32 x = own_row < (i32)m ? own_row : (i32)m - 1;
            const i32 y = own_key * 2 < (i32)keys ? own_key : ((i32)keys - 2) / 2;
            const i32 row = x;
            const i32 column = y;
            const i32 i0 = (i32)product;
            const i32 i1 = row;
            const i32 i2 = column;
            loadv(ra1[u], pa1 + (i0 * (i32)a.w[29] + i1 * (i32)a.w[30] + i2 * 2));
          }
        }
      }
    }
    if ((i32)keys < (step + 1) * 64) {
      #pragma unroll
      for (i32 j = 0; j < 8; j++) {
        #pragma unroll
        for (i32 e = 0; e < 4; e++) {
          if ((i32)keys <= step * 64 + j * 8 + (i32)lane % 4 * 2 + e % 2) {
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
    for (i32 j = 0; j < 8; j++) {
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
    #pragma unroll
    for (i32 h = 0; h < 2; h++) {
      again[h] = (top[h] == bits_f32(0xff800000u)) ? 0.0f : (expf((top[h] - shift[h])));
      top[h] = now[h];
    }
    {
      #pragma unroll
      for (i32 j_1 = 0; j_1 < 8; j_1++) {
        #pragma unroll
        for (i32 h_1 = 0; h_1 < 2; h_1++) {
          s[j_1][2 * h_1] = expf((s[j_1][2 * h_1] - shift[h_1]));
          s[j_1][2 * h_1 + 1] = expf((s[j_1][2 * h_1 + 1] - shift[h_1]));
          part[h_1][j_1 % 2] = part[h_1][j_1 % 2] + (s[j_1][2 * h_1] + s[j_1][2 * h_1 + 1]);
        }
      }
    }
    #pragma unroll
    for (i32 h = 0; h < 2; h++) {
      total[h] = (total[h] * again[h]) + (part[h][0] + part[h][1]);
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
    {
      const i32 right = (i32)(slot * 4352u + (lane % 4u * 2u * 68u + lane / 4u));
      #pragma unroll
      for (i32 p = 0; p < 8; p++) {
        __align__(16) u32 x[1][4];
        #pragma unroll
        for (i32 e = 0; e < 4; e++) {
          x[0][e] = f32_bits(round_tf32(s[p][e % 2 * 2 + e / 2]));
        }
        #pragma unroll
        for (i32 j = 0; j < 8; j++) {
          multiply_tf32(sum[j], x[0], f32_bits(s2[right + (p * 8 * 68 + j * 8)]), f32_bits(s2[right + ((p * 8 + 1) * 68 + j * 8)]));
        }
      }
    }
  }
  copies_wait<0>();
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
  float *const p1 = (float *)a.w[60];
  auto &sums = *(float (*)[9216])(shared + 0);
  #pragma unroll
  for (i32 pass = 0; pass < 1; pass++) {
    __syncthreads();
    #pragma unroll
    for (u32 j = 0u; j < 8u; j++) {
      #pragma unroll
      for (u32 e = 0u; e < 4u; e++) {
        sums[(t / 32u * 16u + t % 32u / 4u + e / 2u * 8u) * 72u + j * 8u + t % 4u * 2u + e % 2u] = sum[j][e];
      }
    }
    __syncthreads();
    for (u32 c = t; c < 2048u; c += 256u) {
      const u32 line = c / 16u;
      const i32 x = (i32)(row0 + (i64)(pass * 128)) + (i32)line;
      if (x < (i32)m) {
        const u32 first_lane = c % 16u * 4u;
        const i32 y = (i32)column0 + (i32)first_lane;
        if (y < (i32)n) {
          const i32 row = x;
          const i32 column = y / 4;
          const i32 i0 = (i32)product;
          const i32 i1 = row;
          const i32 i2 = column;
          __align__(16) float own[4];
          #pragma unroll
          for (u32 v = 0u; v < 4u; v++) {
            own[v] = sums[line * 72u + first_lane + v];
          }
          __align__(16) float y1[4];
          #pragma unroll
          for (i32 v = 0; v < 4; v++) {
            const float n0 = own[v];
            y1[v] = n0;
          }
          storev(p1 + (i0 * (i32)a.w[61] + i1 * (i32)a.w[62] + i2 * 4), y1);
        }
      }
    }
  }
}
