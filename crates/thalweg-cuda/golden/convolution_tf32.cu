// options:

// Contraction of f32 in TF32 on tensor cores: tiles of 64 times 64, 16 terms a step.
extern "C" __global__ void __launch_bounds__(128, 3) contraction(THALWEG_PARAMETER(52)) {
  begin();
  THALWEG_SHARED_LINES(shared);
  const i64 m = (i64)a.w[0];
  const i64 n = (i64)a.w[1];
  const i64 k = (i64)a.w[2];
  const u32 t = threadIdx.x;
  const i32 steps = (i32)((k + 15) / 16);
  const u32 high = (u32)a.w[3];
  const u32 wide = (u32)a.w[4];
  const u32 product = blockIdx.x / (high * wide);
  const u32 tile = blockIdx.x % (high * wide);
  const u32 first = tile / (8u * wide) * 8u;
  const u32 rows = high - first < 8u ? high - first : 8u;
  const u32 within = tile - first * wide;
  const i64 row0 = (i64)(first + within % rows) * 64;
  const i64 column0 = (i64)(within / rows) * 64;
  const Split in_batch0 = split(product, a.w[6], a.w[7]);
  const i64 batch0 = (i64)in_batch0.r * (i64)a.w[8];
  const i64 batch1 = (i64)in_batch0.r * (i64)a.w[9];
  auto &s0 = *(float (*)[5120])(shared + 0);
  auto &s1 = *(float (*)[4608])(shared + 20480);
  float *const factor0 = (float *)a.w[10];
  const i32 pitch0 = (i32)a.w[11];
  const i32 outer0 = (i32)t / 4;
  const i32 inner0 = (i32)t % 4 * 4;
  const i64 from0 = batch0 + (i64)((i32)row0 + outer0) * (i64)pitch0 + (i64)inner0;
  float *const pb0 = (float *)a.w[24];
  i32 place1 = 0;
  {
    const i32 i0 = (i32)batch1;
    place1 = i0 * (i32)a.w[25];
  }
  __align__(16) i32 lines1[1];
  auto &table1 = *(i32 (*)[64])(shared + 38912);
  #pragma unroll
  for (u32 u = 0u; u < 1u; u++) {
    const i64 own = (i64)(i32)column0 + (i64)(t % 64u + u);
    const i64 x = own < n ? own : n - 1;
    const Split is5 = split((u32)(i32)x, a.w[22], a.w[23]);
    const i32 i5 = (i32)is5.r;
    const i32 iq5 = (i32)is5.q;
    const i32 i4 = iq5;
    lines1[u] = place1 + (i4 * (i32)a.w[29] + i5 * 1);
  }
  for (i32 s = 0; s < 4; s++) {
    if (t < 16u) {
      const i64 p = (i64)s * 16 + (i64)t;
      i32 place = (i32)0x80000000u;
      if (p < k) {
        const Split is3 = split((u32)(i32)p, a.w[18], a.w[19]);
        const i32 i3 = (i32)is3.r;
        const i32 iq3 = (i32)is3.q;
        const Split is2 = split((u32)iq3, a.w[16], a.w[17]);
        const i32 i2 = (i32)is2.r;
        const i32 iq2 = (i32)is2.q;
        const i32 i1 = iq2;
        place = i1 * (i32)a.w[26] + i2 * (i32)a.w[27] + i3 * (i32)a.w[28];
      }
      table1[(u32)s * 16u + t] = place;
    }
  }
  __syncthreads();
  __align__(16) float sum[2][4][4];
  #pragma unroll
  for (i32 u0 = 0; u0 < 2; u0++) {
    #pragma unroll
    for (i32 u1 = 0; u1 < 4; u1++) {
      #pragma unroll
      for (i32 u2 = 0; u2 < 4; u2++) {
        sum[u0][u1][u2] = 0.0f;
      }
    }
  }
  #pragma unroll
  for (i32 s = 0; s < 3; s++) {
    if (s < steps) {
      {
        const i32 begin = s * 1280 + (outer0 * 20 + inner0);
        const i64 whence = from0 + (i64)0 * (i64)pitch0 + (i64)(s * 16);
        const i32 outers = (i32)m - (i32)row0;
        const i32 inners = (i32)k - s * 16;
        if (64 <= outers && 16 <= inners) {
          #pragma unroll
          for (i32 u = 0; u < 2; u++) {
            copy16_whole(s0 + (begin + u * 640), factor0 + (whence + (i64)(u * 32) * (i64)pitch0));
          }
        } else {
          #pragma unroll
          for (i32 u = 0; u < 2; u++) {
            const i32 left = outer0 + u * 32 < outers ? inners - inner0 : 0;
            const i32 inside = left < 0 ? 0 : (left < 4 ? left : 4);
            const i64 there = inside != 0 ? whence + (i64)(u * 32) * (i64)pitch0 : batch0;
            copy16(s0 + (begin + u * 640), factor0 + there, inside * 4);
          }
        }
      }
      {
        if ((s + 1) * 16 <= (i32)k) {
          #pragma unroll
          for (u32 u = 0u; u < 8u; u++) {
            copy_element_whole<4>(s1 + ((u32)s * 1152u + ((t / 64u + u * 2u) * 72u + t % 64u)), pb0 + (lines1[0] + table1[(u32)s * 16u + (t / 64u + u * 2u)]));
          }
        } else {
          #pragma unroll
          for (u32 u = 0u; u < 8u; u++) {
            const i32 term = table1[(u32)s * 16u + (t / 64u + u * 2u)];
            copy_element<4>(s1 + ((u32)s * 1152u + ((t / 64u + u * 2u) * 72u + t % 64u)), pb0 + (term != (i32)0x80000000u ? lines1[0] + term : 0), term != (i32)0x80000000u);
          }
        }
      }
    }
    copies_commit();
  }
  i32 from = 0;
  i32 to = 3;
  for (i32 i = 0; i < steps; i++) {
    copies_wait<2>();
    __syncthreads();
    const i32 next = i + 3;
    if (next < steps) {
      {
        const i32 begin = to * 1280 + (outer0 * 20 + inner0);
        const i64 whence = from0 + (i64)0 * (i64)pitch0 + (i64)(next * 16);
        const i32 outers = (i32)m - (i32)row0;
        const i32 inners = (i32)k - next * 16;
        if (64 <= outers && 16 <= inners) {
          #pragma unroll
          for (i32 u = 0; u < 2; u++) {
            copy16_whole(s0 + (begin + u * 640), factor0 + (whence + (i64)(u * 32) * (i64)pitch0));
          }
        } else {
          #pragma unroll
          for (i32 u = 0; u < 2; u++) {
            const i32 left = outer0 + u * 32 < outers ? inners - inner0 : 0;
            const i32 inside = left < 0 ? 0 : (left < 4 ? left : 4);
            const i64 there = inside != 0 ? whence + (i64)(u * 32) * (i64)pitch0 : batch0;
            copy16(s0 + (begin + u * 640), factor0 + there, inside * 4);
          }
        }
      }
      {
        if ((next + 1) * 16 <= (i32)k) {
          #pragma unroll
          for (u32 u = 0u; u < 8u; u++) {
            copy_element_whole<4>(s1 + ((u32)to * 1152u + ((t / 64u + u * 2u) * 72u + t % 64u)), pb0 + (lines1[0] + table1[(u32)to * 16u + (t / 64u + u * 2u)]));
          }
        } else {
          #pragma unroll
          for (u32 u = 0u; u < 8u; u++) {
            const i32 term = table1[(u32)to * 16u + (t / 64u + u * 2u)];
            copy_element<4>(s1 + ((u32)to * 1152u + ((t / 64u + u * 2u) * 72u + t % 64u)), pb0 + (term != (i32)0x80000000u ? lines1[0] + term : 0), term != (i32)0x80000000u);
          }
        }
      }
    }
    copies_commit();
    const u32 first0 = (u32)from * 1280u;
    const u32 first1 = (u32)from * 1152u;
    const u32 lane = t % 32u;
    const u32 rows_at = t / 32u / 2u * 32u;
    const u32 columns_at = t / 32u % 2u * 32u;
    const u32 row_own = rows_at + lane / 4u;
    const u32 column_own = columns_at + lane / 4u;
    const u32 term_own = lane % 4u;
    const i32 left = (i32)(first0 + (row_own * 20u + term_own));
    const i32 right = (i32)(first1 + (term_own * 72u + column_own));
    #pragma unroll
    for (i32 p = 0; p < 16; p += 8) {
      __align__(16) u32 x[2][4];
      __align__(16) u32 y[4][2];
      #pragma unroll
      for (i32 i = 0; i < 2; i++) {
        #pragma unroll
        for (i32 e = 0; e < 4; e++) {
          x[i][e] = f32_bits(round_tf32(s0[left + ((i * 16 + e % 2 * 8) * 20 + (p + e / 2 * 4))]));
        }
      }
      #pragma unroll
      for (i32 j = 0; j < 4; j++) {
        #pragma unroll
        for (i32 e = 0; e < 2; e++) {
          y[j][e] = f32_bits(round_tf32(s1[right + ((p + e * 4) * 72 + j * 8)]));
        }
      }
      #pragma unroll
      for (i32 i = 0; i < 2; i++) {
        #pragma unroll
        for (i32 j = 0; j < 4; j++) {
          multiply_tf32(sum[i][j], x[i], y[j][0], y[j][1]);
        }
      }
    }
    {
      if (t < 16u) {
        const i64 p = (i64)(i + 4) * 16 + (i64)t;
        i32 place = (i32)0x80000000u;
        if (p < k) {
          const Split is3 = split((u32)(i32)p, a.w[18], a.w[19]);
          const i32 i3 = (i32)is3.r;
          const i32 iq3 = (i32)is3.q;
          const Split is2 = split((u32)iq3, a.w[16], a.w[17]);
          const i32 i2 = (i32)is2.r;
          const i32 iq2 = (i32)is2.q;
          const i32 i1 = iq2;
          place = i1 * (i32)a.w[26] + i2 * (i32)a.w[27] + i3 * (i32)a.w[28];
        }
        table1[(u32)from * 16u + t] = place;
      }
    }
    from = from + 1 == 4 ? 0 : from + 1;
    to = to + 1 == 4 ? 0 : to + 1;
  }
  copies_wait<0>();
  float *const p1 = (float *)a.w[48];
  auto &sums = *(float (*)[2304])(shared + 0);
  #pragma unroll
  for (i32 pass = 0; pass < 2; pass++) {
    __syncthreads();
    if (t / 32u / 2u == (u32)pass) {
      #pragma unroll
      for (u32 i = 0u; i < 2u; i++) {
        #pragma unroll
        for (u32 j = 0u; j < 4u; j++) {
          #pragma unroll
          for (u32 e = 0u; e < 4u; e++) {
            sums[(i * 16u + t % 32u / 4u + e / 2u * 8u) * 72u + t / 32u % 2u * 32u + j * 8u + t % 4u * 2u + e % 2u] = sum[i][j][e];
          }
        }
      }
    }
    __syncthreads();
    for (u32 c = t; c < 512u; c += 128u) {
      const u32 line = c / 16u;
      const i32 x = (i32)(row0 + (i64)(pass * 32)) + (i32)line;
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
          storev(p1 + (i0 * (i32)a.w[49] + i1 * (i32)a.w[50] + i2 * 4), y1);
        }
      }
    }
  }
}
