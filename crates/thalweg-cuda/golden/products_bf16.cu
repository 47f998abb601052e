// options: -fmad=false

// Contraction of bf16 on plain cores: tiles of 64 times 64, 16 terms a step.
extern "C" __global__ void __launch_bounds__(256, 2) contraction(THALWEG_PARAMETER(52)) {
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
  auto &s0 = *(float (*)[3264])(shared + 0);
  auto &s1 = *(float (*)[3264])(shared + 13056);
  u16 *const pa0 = (u16 *)a.w[16];
  __align__(16) u16 ra0[1][4];
  i32 fetched0 = 0;
  u16 *const pb0 = (u16 *)a.w[30];
  __align__(16) u16 rb0[1][4];
  i32 fetched1 = 0;
  __align__(16) float sum[4][4];
  #pragma unroll
  for (i32 u0 = 0; u0 < 4; u0++) {
    #pragma unroll
    for (i32 u1 = 0; u1 < 4; u1++) {
      sum[u0][u1] = 0.0f;
    }
  }
  #pragma unroll
  for (i32 s = 0; s < 2; s++) {
    if (s < steps) {
      {
        fetched0 = s;
        #pragma unroll
        for (u32 u = 0u; u < 1u; u++) {
          const i64 x = (i64)(i32)row0 + (i64)((t + u * 256u) / 4u);
          const i64 p = (i64)s * 16 + (i64)((t + u * 256u) % 4u * 4u);
          if (x < m && p < k) {
            const i32 row = (i32)x;
            const i32 column = (i32)(p / 4);
            const i32 i0 = (i32)batch0;
            const i32 i1 = row;
            const i32 i2 = column;
            loadv(ra0[u], pa0 + (i0 * (i32)a.w[17] + i1 * (i32)a.w[18] + i2 * 4));
          }
        }
      }
      {
        #pragma unroll
        for (u32 u = 0u; u < 1u; u++) {
          const u32 line = (t + u * 256u) / 4u;
          const u32 term = (t + u * 256u) % 4u * 4u;
          const i64 x = (i64)(i32)row0 + (i64)line;
          const i64 p = (i64)fetched0 * 16 + (i64)term;
          __align__(16) float made[4];
          #pragma unroll
          for (i32 v = 0; v < 4; v++) {
            made[v] = 0.0f;
          }
          if (x < m && p < k) {
            const i32 row = (i32)x;
            const i32 column = (i32)(p / 4);
            const i32 i0 = (i32)batch0;
            const i32 i1 = row;
            const i32 i2 = column;
            #pragma unroll
            for (i32 v = 0; v < 4; v++) {
              const float n0 = bf16_of_pair(ra0[u], v);
              made[v] = n0;
            }
          }
          #pragma unroll
          for (u32 v = 0u; v < 4u; v++) {
            const u32 own_line = line;
            const u32 own_term = term + v;
            const u32 outer = own_term;
            const u32 inner = own_line;
            s0[(u32)s * 1088u + (outer * 68u + inner)] = made[v];
          }
        }
      }
      {
        fetched1 = s;
        #pragma unroll
        for (u32 u = 0u; u < 1u; u++) {
          const i64 x = (i64)(i32)column0 + (i64)((t + u * 256u) % 16u * 4u);
          const i64 p = (i64)s * 16 + (i64)((t + u * 256u) / 16u);
          if (x < n && p < k) {
            const i32 row = (i32)p;
            const i32 column = (i32)(x / 4);
            const i32 i0 = (i32)batch1;
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
      }
      {
        #pragma unroll
        for (u32 u = 0u; u < 1u; u++) {
          const u32 line = (t + u * 256u) % 16u * 4u;
          const u32 term = (t + u * 256u) / 16u;
          const i64 x = (i64)(i32)column0 + (i64)line;
          const i64 p = (i64)fetched1 * 16 + (i64)term;
          __align__(16) float made[4];
          #pragma unroll
          for (i32 v = 0; v < 4; v++) {
            made[v] = 0.0f;
          }
          if (x < n && p < k) {
            const i32 row = (i32)p;
            const i32 column = (i32)(x / 4);
            const i32 i0 = (i32)batch1;
            const i32 i1 = row;
            const i32 i2 = column;
            #pragma unroll
            for (i32 v = 0; v < 4; v++) {
              const float n0 = from_bf16(rb0[u][v]);
              made[v] = n0;
            }
          }
          #pragma unroll
          for (u32 v = 0u; v < 4u; v++) {
            const u32 own_line = line + v;
            const u32 own_term = term;
            const u32 outer = own_term;
            const u32 inner = own_line;
            s1[(u32)s * 1088u + (outer * 68u + inner)] = made[v];
          }
        }
      }
    }
    copies_commit();
  }
  i32 from = 0;
  i32 to = 2;
  for (i32 i = 0; i < steps; i++) {
    copies_wait<1>();
    __syncthreads();
    const i32 next = i + 2;
    if (next < steps) {
      {
        fetched0 = next;
        #pragma unroll
        for (u32 u = 0u; u < 1u; u++) {
          const i64 x = (i64)(i32)row0 + (i64)((t + u * 256u) / 4u);
          const i64 p = (i64)next * 16 + (i64)((t + u * 256u) % 4u * 4u);
          if (x < m && p < k) {
            const i32 row = (i32)x;
            const i32 column = (i32)(p / 4);
            const i32 i0 = (i32)batch0;
            const i32 i1 = row;
            const i32 i2 = column;
            loadv(ra0[u], pa0 + (i0 * (i32)a.w[17] + i1 * (i32)a.w[18] + i2 * 4));
          }
        }
      }
      {
        fetched1 = next;
        #pragma unroll
        for (u32 u = 0u; u < 1u; u++) {
          const i64 x = (i64)(i32)column0 + (i64)((t + u * 256u) % 16u * 4u);
          const i64 p = (i64)next * 16 + (i64)((t + u * 256u) / 16u);
          if (x < n && p < k) {
            const i32 row = (i32)p;
            const i32 column = (i32)(x / 4);
            const i32 i0 = (i32)batch1;
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
      }
    }
    copies_commit();
    const u32 first0 = (u32)from * 1088u;
    const u32 first1 = (u32)from * 1088u;
    #pragma unroll
    for (u32 p = 0u; p < 16u; p++) {
      __align__(16) float x[4];
      __align__(16) float y[4];
      #pragma unroll
      for (u32 i = 0u; i < 4u; i++) {
        x[i] = s0[first0 + p * 68u + i / 4u * 64u + t / 16u * 4u + i % 4u];
      }
      #pragma unroll
      for (u32 j = 0u; j < 4u; j++) {
        y[j] = s1[first1 + p * 68u + j / 4u * 64u + t % 16u * 4u + j % 4u];
      }
      #pragma unroll
      for (u32 i = 0u; i < 4u; i++) {
        #pragma unroll
        for (u32 j = 0u; j < 4u; j++) {
          sum[i][j] = multiply_add(x[i], y[j], sum[i][j]);
        }
      }
    }
    if (next < steps) {
      {
        #pragma unroll
        for (u32 u = 0u; u < 1u; u++) {
          const u32 line = (t + u * 256u) / 4u;
          const u32 term = (t + u * 256u) % 4u * 4u;
          const i64 x = (i64)(i32)row0 + (i64)line;
          const i64 p = (i64)fetched0 * 16 + (i64)term;
          __align__(16) float made[4];
          #pragma unroll
          for (i32 v = 0; v < 4; v++) {
            made[v] = 0.0f;
          }
          if (x < m && p < k) {
            const i32 row = (i32)x;
            const i32 column = (i32)(p / 4);
            const i32 i0 = (i32)batch0;
            const i32 i1 = row;
            const i32 i2 = column;
            #pragma unroll
            for (i32 v = 0; v < 4; v++) {
              const float n0 = bf16_of_pair(ra0[u], v);
              made[v] = n0;
            }
          }
          #pragma unroll
          for (u32 v = 0u; v < 4u; v++) {
            const u32 own_line = line;
            const u32 own_term = term + v;
            const u32 outer = own_term;
            const u32 inner = own_line;
            s0[(u32)to * 1088u + (outer * 68u + inner)] = made[v];
          }
        }
      }
      {
        #pragma unroll
        for (u32 u = 0u; u < 1u; u++) {
          const u32 line = (t + u * 256u) % 16u * 4u;
          const u32 term = (t + u * 256u) / 16u;
          const i64 x = (i64)(i32)column0 + (i64)line;
          const i64 p = (i64)fetched1 * 16 + (i64)term;
          __align__(16) float made[4];
          #pragma unroll
          for (i32 v = 0; v < 4; v++) {
            made[v] = 0.0f;
          }
          if (x < n && p < k) {
            const i32 row = (i32)p;
            const i32 column = (i32)(x / 4);
            const i32 i0 = (i32)batch1;
            const i32 i1 = row;
            const i32 i2 = column;
            #pragma unroll
            for (i32 v = 0; v < 4; v++) {
              const float n0 = from_bf16(rb0[u][v]);
              made[v] = n0;
            }
          }
          #pragma unroll
          for (u32 v = 0u; v < 4u; v++) {
            const u32 own_line = line + v;
            const u32 own_term = term;
            const u32 outer = own_term;
            const u32 inner = own_line;
            s1[(u32)to * 1088u + (outer * 68u + inner)] = made[v];
          }
        }
      }
    }
    from = from + 1 == 3 ? 0 : from + 1;
    to = to + 1 == 3 ? 0 : to + 1;
  }
  copies_wait<0>();
  u16 *const p1 = (u16 *)a.w[48];
  auto &sums = *(float (*)[4608])(shared + 0);
  #pragma unroll
  for (i32 pass = 0; pass < 1; pass++) {
    __syncthreads();
    #pragma unroll
    for (u32 i = 0u; i < 4u; i++) {
      #pragma unroll
      for (u32 j = 0u; j < 4u; j++) {
        sums[(t / 16u * 4u + i) * 72u + j / 4u * 64u + t % 16u * 4u + j % 4u] = sum[(u32)pass * 4u + i][j];
      }
    }
    __syncthreads();
    for (u32 c = t; c < 512u; c += 256u) {
      const u32 line = c / 8u;
      const i32 x = (i32)(row0 + (i64)(pass * 64)) + (i32)line;
      if (x < (i32)m) {
        const u32 first_lane = c % 8u * 8u;
        const i32 y = (i32)column0 + (i32)first_lane;
        if (y < (i32)n) {
          const i32 row = x;
          const i32 column = y / 8;
          const i32 i0 = (i32)product;
          const i32 i1 = row;
          const i32 i2 = column;
          __align__(16) float own[8];
          #pragma unroll
          for (u32 v = 0u; v < 8u; v++) {
            own[v] = sums[line * 72u + first_lane + v];
          }
          __align__(16) u16 y1[8];
          #pragma unroll
          for (i32 v = 0; v < 8; v++) {
            const float n0 = own[v];
            const float n1 = round_bf16((float)n0);
            y1[v] = bits_bf16(n1);
          }
          storev(p1 + (i0 * (i32)a.w[49] + i1 * (i32)a.w[50] + i2 * 8), y1);
        }
      }
    }
  }
}
