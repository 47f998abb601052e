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
  const i64 m = (i64)a.w[0];
  const i64 n = (i64)a.w[1];
  const i64 k = (i64)a.w[2];
  const u32 t = threadIdx.x;
  const i32 steps = (i32)((k + 63) / 64);
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
  auto &s0 = *(u16 (*)[16384])(shared + 0);
  auto &s1 = *(u16 (*)[16384])(shared + 32768);
  u16 *const factor0 = (u16 *)a.w[10];
  const i32 pitch0 = (i32)a.w[11];
  const i32 outer0 = (i32)t / 8;
  const i32 inner0 = (i32)t % 8 * 8;
  const i64 from0 = batch0 + (i64)((i32)row0 + outer0) * (i64)pitch0 + (i64)inner0;
  u16 *const pb0 = (u16 *)a.w[24];
  i32 place1 = 0;
  {
    const i32 i0 = (i32)batch1;
    place1 = i0 * (i32)a.w[25];
  }
  __align__(16) i32 lines1[2];
  auto &table1 = *(i32 (*)[256])(shared + 65536);
  #pragma unroll
  for (u32 u = 0u; u < 2u; u++) {
    const i64 own = (i64)(i32)column0 + (i64)(t % 32u * 2u + u);
    const i64 x = own < n ? own : n - 1;
    const Split is5 = split((u32)(i32)x, a.w[22], a.w[23]);
    const i32 i5 = (i32)is5.r;
    const i32 iq5 = (i32)is5.q;
    const i32 i4 = iq5;
    lines1[u] = place1 + (i4 * (i32)a.w[29] + i5 * 1);
  }
  auto &in_words1 = *(u32 (*)[8192])(shared + 32768);
  __align__(16) u32 words1[16];
  for (i32 s = 0; s < 4; s++) {
    if (t < 64u) {
      const i64 p = (i64)s * 64 + (i64)t;
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
      table1[(u32)s * 64u + t] = place;
    }
  }
  __syncthreads();
  __align__(16) float sum[1][8][4];
  #pragma unroll
  for (i32 u0 = 0; u0 < 1; u0++) {
    #pragma unroll
    for (i32 u1 = 0; u1 < 8; u1++) {
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
        const i32 begin = s * 4096 + (inner0 / 64 * 4096 + outer0 * 64 + (inner0 % 64 / 8 ^ outer0 & 7) * 8);
        const i64 whence = from0 + (i64)0 * (i64)pitch0 + (i64)(s * 64);
        const i32 outers = (i32)m - (i32)row0;
        const i32 inners = (i32)k - s * 64;
        if (64 <= outers && 64 <= inners) {
          #pragma unroll
          for (i32 u = 0; u < 4; u++) {
            copy16_whole(s0 + (begin + u * 1024), factor0 + (whence + (i64)(u * 16) * (i64)pitch0));
          }
        } else {
          #pragma unroll
          for (i32 u = 0; u < 4; u++) {
            const i32 left = outer0 + u * 16 < outers ? inners - inner0 : 0;
            const i32 inside = left < 0 ? 0 : (left < 8 ? left : 8);
            const i64 there = inside != 0 ? whence + (i64)(u * 16) * (i64)pitch0 : batch0;
            copy16(s0 + (begin + u * 1024), factor0 + there, inside * 2);
          }
        }
      }
      {
        if ((s + 1) * 64 <= (i32)k) {
          #pragma unroll
          for (u32 u = 0u; u < 16u; u++) {
            words1[u] = (u32)load1(pb0 + (lines1[0] + table1[(u32)s * 64u + (t / 32u + u * 4u)])) | (u32)load1(pb0 + (lines1[1] + table1[(u32)s * 64u + (t / 32u + u * 4u)])) << 16u;
          }
        } else {
          #pragma unroll
          for (u32 u = 0u; u < 16u; u++) {
            words1[u] = (table1[(u32)s * 64u + (t / 32u + u * 4u)] == (i32)0x80000000u ? 0u : (u32)load1(pb0 + (lines1[0] + table1[(u32)s * 64u + (t / 32u + u * 4u)]))) | (table1[(u32)s * 64u + (t / 32u + u * 4u)] == (i32)0x80000000u ? 0u : (u32)load1(pb0 + (lines1[1] + table1[(u32)s * 64u + (t / 32u + u * 4u)])) << 16u);
          }
        }
      }
      {
        #pragma unroll
        for (u32 u = 0u; u < 16u; u++) {
          in_words1[((u32)s * 4096u + (t % 32u * 2u / 64u * 4096u + (t / 32u + u * 4u) * 64u + (t % 32u * 2u % 64u / 8u ^ t / 32u + u * 4u & 7u) * 8u + t % 32u * 2u % 8u)) / 2u] = words1[u];
        }
      }
    }
    copies_commit();
  }
  i32 from = 0;
  i32 to = 3;
  for (i32 i = 0; i < steps; i++) {
    copies_wait<2>();
    async_fence();
    __syncthreads();
    const i32 next = i + 3;
    {
      const u32 first0 = (u32)from * 4096u;
      const u32 first1 = (u32)from * 4096u;
      const Matrix x = matrix(s0 + (first0 + t / 128u * 4096u), 8192, 1024);
      const Matrix y = matrix(s1 + first1, 8192, 1024);
      warpgroup_fence();
      #pragma unroll
      for (u32 p = 0u; p < 4u; p++) {
        warpgroup_multiply<false, false, true, 64>(sum[0], further(x, p * 32u), further(y, p * 2048u), true);
      }
      warpgroup_commit();
    }
    if (next < steps) {
      {
        const i32 begin = to * 4096 + (inner0 / 64 * 4096 + outer0 * 64 + (inner0 % 64 / 8 ^ outer0 & 7) * 8);
        const i64 whence = from0 + (i64)0 * (i64)pitch0 + (i64)(next * 64);
        const i32 outers = (i32)m - (i32)row0;
        const i32 inners = (i32)k - next * 64;
        if (64 <= outers && 64 <= inners) {
          #pragma unroll
          for (i32 u = 0; u < 4; u++) {
            copy16_whole(s0 + (begin + u * 1024), factor0 + (whence + (i64)(u * 16) * (i64)pitch0));
          }
        } else {
          #pragma unroll
          for (i32 u = 0; u < 4; u++) {
            const i32 left = outer0 + u * 16 < outers ? inners - inner0 : 0;
            const i32 inside = left < 0 ? 0 : (left < 8 ? left : 8);
            const i64 there = inside != 0 ? whence + (i64)(u * 16) * (i64)pitch0 : batch0;
            copy16(s0 + (begin + u * 1024), factor0 + there, inside * 2);
          }
        }
      }
      {
        if ((next + 1) * 64 <= (i32)k) {
          #pragma unroll
          for (u32 u = 0u; u < 16u; u++) {
            words1[u] = (u32)load1(pb0 + (lines1[0] + table1[(u32)to * 64u + (t / 32u + u * 4u)])) | (u32)load1(pb0 + (lines1[1] + table1[(u32)to * 64u + (t / 32u + u * 4u)])) << 16u;
          }
        } else {
          #pragma unroll
          for (u32 u = 0u; u < 16u; u++) {
            words1[u] = (table1[(u32)to * 64u + (t / 32u + u * 4u)] == (i32)0x80000000u ? 0u : (u32)load1(pb0 + (lines1[0] + table1[(u32)to * 64u + (t / 32u + u * 4u)]))) | (table1[(u32)to * 64u + (t / 32u + u * 4u)] == (i32)0x80000000u ? 0u : (u32)load1(pb0 + (lines1[1] + table1[(u32)to * 64u + (t / 32u + u * 4u)])) << 16u);
          }
        }
      }
    }
    copies_commit();
    warpgroup_wait<0>();
    if (next < steps) {
      {
        #pragma unroll
        for (u32 u = 0u; u < 16u; u++) {
          in_words1[((u32)to * 4096u + (t % 32u * 2u / 64u * 4096u + (t / 32u + u * 4u) * 64u + (t % 32u * 2u % 64u / 8u ^ t / 32u + u * 4u & 7u) * 8u + t % 32u * 2u % 8u)) / 2u] = words1[u];
        }
      }
    }
    {
      if (t < 64u) {
        const i64 p = (i64)(i + 4) * 64 + (i64)t;
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
        table1[(u32)from * 64u + t] = place;
      }
    }
    from = from + 1 == 4 ? 0 : from + 1;
    to = to + 1 == 4 ? 0 : to + 1;
  }
  copies_wait<0>();
  u16 *const p1 = (u16 *)a.w[48];
  auto &sums = *(float (*)[4608])(shared + 0);
  #pragma unroll
  for (i32 pass = 0; pass < 1; pass++) {
    __syncthreads();
    if (t / 128u == (u32)pass) {
      #pragma unroll
      for (u32 j = 0u; j < 8u; j++) {
        #pragma unroll
        for (u32 e = 0u; e < 4u; e++) {
          sums[(t / 32u % 4u * 16u + t % 32u / 4u + e / 2u * 8u) * 72u + j * 8u + t % 4u * 2u + e % 2u] = sum[0][j][e];
        }
      }
    }
    __syncthreads();
    for (u32 c = t; c < 1024u; c += 128u) {
      const u32 line = c / 16u;
      const i32 x = (i32)(row0 + (i64)(pass * 64)) + (i32)line;
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
          __align__(16) u16 y1[4];
          #pragma unroll
          for (i32 v = 0; v < 4; v++) {
            const float n0 = own[v];
            const float n1 = round_bf16((float)n0);
            y1[v] = bits_bf16(n1);
          }
          storev(p1 + (i0 * (i32)a.w[49] + i1 * (i32)a.w[50] + i2 * 4), y1);
        }
      }
    }
  }
}
