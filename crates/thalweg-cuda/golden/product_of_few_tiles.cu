// options:

// Contraction of f32 on plain cores: tiles of 64 times 64, 16 terms a step.
extern "C" __global__ void __launch_bounds__(256, 2) contraction(THALWEG_PARAMETER(31)) {
  begin();
  THALWEG_SHARED_LINES(shared);
  const i64 m = (i64)a.w[0];
  const i64 n = (i64)a.w[1];
  const i64 k = (i64)a.w[2];
  const u32 t = threadIdx.x;
  const u32 shares = (u32)a.w[28];
  const u32 share = blockIdx.x % shares;
  const u32 own_tile = blockIdx.x / shares;
  const i32 first_step = (i32)(share * (u32)a.w[27]);
  const i32 end_step = first_step + (i32)a.w[27];
  const i32 steps = end_step < (i32)((k + 15) / 16) ? end_step : (i32)((k + 15) / 16);
  const u32 high = (u32)a.w[3];
  const u32 wide = (u32)a.w[4];
  const u32 product = own_tile / (high * wide);
  const u32 tile = own_tile % (high * wide);
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
  float *const factor0 = (float *)a.w[10];
  const i32 pitch0 = (i32)a.w[11];
  float *const factor1 = (float *)a.w[12];
  const i32 pitch1 = (i32)a.w[13];
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
    if (first_step + s < steps) {
      {
        #pragma unroll
        for (u32 u = 0u; u < 4u; u++) {
          const u32 c = t + u * 256u;
          const u32 line = c / 16u;
          const u32 term = c % 16u;
          const i32 x = (i32)row0 + (i32)line;
          const i32 p = (first_step + s) * 16 + (i32)term;
          const bool inside = x < (i32)m && p < (i32)k;
          copy_element<4>(s0 + ((u32)s * 1088u + term * 68u + line), factor0 + (batch0 + (inside ? (i64)x * (i64)pitch0 + (i64)p : 0)), inside);
        }
      }
      {
        #pragma unroll
        for (u32 u = 0u; u < 4u; u++) {
          const u32 c = t + u * 256u;
          const u32 line = c / 16u;
          const u32 term = c % 16u;
          const i32 x = (i32)column0 + (i32)line;
          const i32 p = (first_step + s) * 16 + (i32)term;
          const bool inside = x < (i32)n && p < (i32)k;
          copy_element<4>(s1 + ((u32)s * 1088u + term * 68u + line), factor1 + (batch1 + (inside ? (i64)x * (i64)pitch1 + (i64)p : 0)), inside);
        }
      }
    }
    copies_commit();
  }
  i32 from = 0;
  i32 to = 2;
  for (i32 i = first_step; i < steps; i++) {
    copies_wait<1>();
    __syncthreads();
    const i32 next = i + 2;
    if (next < steps) {
      {
        #pragma unroll
        for (u32 u = 0u; u < 4u; u++) {
          const u32 c = t + u * 256u;
          const u32 line = c / 16u;
          const u32 term = c % 16u;
          const i32 x = (i32)row0 + (i32)line;
          const i32 p = next * 16 + (i32)term;
          const bool inside = x < (i32)m && p < (i32)k;
          copy_element<4>(s0 + ((u32)to * 1088u + term * 68u + line), factor0 + (batch0 + (inside ? (i64)x * (i64)pitch0 + (i64)p : 0)), inside);
        }
      }
      {
        #pragma unroll
        for (u32 u = 0u; u < 4u; u++) {
          const u32 c = t + u * 256u;
          const u32 line = c / 16u;
          const u32 term = c % 16u;
          const i32 x = (i32)column0 + (i32)line;
          const i32 p = next * 16 + (i32)term;
          const bool inside = x < (i32)n && p < (i32)k;
          copy_element<4>(s1 + ((u32)to * 1088u + term * 68u + line), factor1 + (batch1 + (inside ? (i64)x * (i64)pitch1 + (i64)p : 0)), inside);
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
    from = from + 1 == 3 ? 0 : from + 1;
    to = to + 1 == 3 ? 0 : to + 1;
  }
  copies_wait<0>();
  float *const left = (float *)a.w[29];
  const i64 own = (i64)own_tile * (i64)shares * 4096 + (i64)t;
  #pragma unroll
  for (i32 u0 = 0; u0 < 4; u0++) {
    #pragma unroll
    for (i32 u1 = 0; u1 < 4; u1++) {
      set_at(left, own + (i64)share * 4096 + (i64)((u0 * 4 + u1) * 256), (float)sum[u0][u1]);
    }
  }
  __threadfence();
  __shared__ u32 last_share[1];
  __syncthreads();
  if (t == 0u) {
    u32 *const counters = (u32 *)a.w[30];
    const u32 before = atomicAdd((u32 *)(counters + own_tile), (u32)1u);
    last_share[0] = before == shares - 1u ? 1u : 0u;
    if (before == shares - 1u) {
      set_at(counters, own_tile, (u32)0u);
    }
    __threadfence();
  }
  __syncthreads();
  if (last_share[0] == 0u) {
    return;
  }
  #pragma unroll
  for (i32 u0 = 0; u0 < 4; u0++) {
    #pragma unroll
    for (i32 u1 = 0; u1 < 4; u1++) {
      sum[u0][u1] = 0.0f;
    }
  }
  for (u32 s = 0u; s < shares; s++) {
    __align__(16) float other[4][4];
    #pragma unroll
    for (i32 u0 = 0; u0 < 4; u0++) {
      #pragma unroll
      for (i32 u1 = 0; u1 < 4; u1++) {
        other[u0][u1] = load_cold(left + (own + (i64)s * 4096 + (i64)((u0 * 4 + u1) * 256)));
      }
    }
    #pragma unroll
    for (i32 u0 = 0; u0 < 4; u0++) {
      #pragma unroll
      for (i32 u1 = 0; u1 < 4; u1++) {
        sum[u0][u1] = sum[u0][u1] + other[u0][u1];
      }
    }
  }
  float *const p1 = (float *)a.w[21];
  float *const p2 = (float *)a.w[24];
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
    for (u32 c = t; c < 1024u; c += 256u) {
      const u32 line = c / 16u;
      const i32 x = (i32)(row0 + (i64)(pass * 64)) + (i32)line;
      if (x < (i32)m) {
        const u32 first_lane = c % 16u * 4u;
        const i32 y = (i32)column0 + (i32)first_lane;
        if (y < (i32)n) {
          const i32 row = x;
          const i32 column = y / 4;
          const i32 i0 = row;
          const i32 i1 = column;
          __align__(16) float r1[4];
          loadv(r1, p1 + (i0 * (i32)a.w[22] + i1 * 4));
          __align__(16) float own[4];
          #pragma unroll
          for (u32 v = 0u; v < 4u; v++) {
            own[v] = sums[line * 72u + first_lane + v];
          }
          __align__(16) float y2[4];
          #pragma unroll
          for (i32 v = 0; v < 4; v++) {
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
  }
}
