// options:

// Rows along: 512 threads each, two passes at once. Phase 2, several blocks a row.
struct sum_float { FN static float of(float x, float y) { return x + y; } };
typedef Shifted<float, 2, true> State0;
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(27)) {
  begin();
  float *const p0 = (float *)a.w[10];
  float *const p1 = (float *)a.w[13];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const u32 chunks = (u32)a.w[2];
  const u32 tile = blockIdx.x / chunks;
  const u32 chunk = blockIdx.x % chunks;
  const i32 begin = (i32)((u64)chunk * a.w[3]);
  const i32 stop = n - begin < (i32)a.w[3] ? n : begin + (i32)a.w[3];
  const u32 t = threadIdx.x % 512u;
  const i32 own_row = (i32)tile * 1 + (i32)(threadIdx.x / 512u);
  const bool live = own_row < rows;
  const i32 row = live ? own_row : rows - 1;
  const i32 i0 = row;
  float value0;
  float value1;
  float value2;
  float value3;
  {
    __align__(16) float f0[4];
    __align__(16) float f1[4];
    __align__(16) float f2[4];
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      f0[v] = 0.0f;
    }
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      f1[v] = 0.0f;
    }
    #pragma unroll
    for (i32 v = 0; v < 4; v++) {
      f2[v] = 0.0f;
    }
    State0 s0 = State0::none();
    u32 many = 0u;
    {
      i32 turn = 0;
      for (i32 tile_of_row = begin; tile_of_row < stop - (i32)t; tile_of_row += 2048) {
        __align__(16) float r0[4][4];
        #pragma unroll
        for (i32 k = 0; k < 4; k++) {
          const i32 q = tile_of_row + (k * 512 + (i32)t);
          if (q < stop) {
            const i32 j1 = q;
            loadv(r0[k], p0 + (i0 * (i32)a.w[11] + j1 * 4));
          }
        }
        if (turn % 8 == 0) {
          if (0u < many) {
            value1 = fold_lanes<sum_float>(f1);
            value2 = fold_lanes<sum_float>(f2);
            s0 = State0::of(s0, State0{(float)many, value3, {(float)many, value2, value1}});
          }
          u32 few = 0u;
          __align__(16) float f0[4];
          #pragma unroll
          for (i32 v = 0; v < 4; v++) {
            f0[v] = 0.0f;
          }
          #pragma unroll
          for (i32 k = 0; k < 4; k++) {
            const i32 q = tile_of_row + (k * 512 + (i32)t);
            if (q < stop) {
              few = few + 4u;
              const i32 j1 = q;
              #pragma unroll
              for (i32 v = 0; v < 4; v++) {
                const float n0 = r0[k][v];
                f0[v] = sum_float::of(f0[v], n0);
              }
            }
          }
          value0 = fold_lanes<sum_float>(f0);
          value0 = own_mean<float>(value0, (float)few, (float)n * 4.0f, 3.4028235e38f);
          {
            #pragma unroll
            for (i32 v = 0; v < 1; v++) {
              const float n0 = bits_f32((u32)a.w[16]);
              const float n1 = value0;
              const float n2 = rounded_product(n1, bits_f32((u32)a.w[17]));
              value3 = n2;
            }
          }
          many = 0u;
        }
        if (many == 0u) {
          #pragma unroll
          for (i32 v = 0; v < 4; v++) {
            f1[v] = 0.0f;
          }
          #pragma unroll
          for (i32 v = 0; v < 4; v++) {
            f2[v] = 0.0f;
          }
        }
        #pragma unroll
        for (i32 k = 0; k < 4; k++) {
          const i32 q = tile_of_row + (k * 512 + (i32)t);
          if (q < stop) {
            const i32 j1 = q;
            #pragma unroll
            for (i32 v = 0; v < 4; v++) {
              const float n0 = r0[k][v];
              f0[v] = sum_float::of(f0[v], n0);
            }
          }
        }
        #pragma unroll
        for (i32 k = 0; k < 4; k++) {
          const i32 q = tile_of_row + (k * 512 + (i32)t);
          if (q < stop) {
            many = many + 4u;
            const i32 j1 = q;
            #pragma unroll
            for (i32 v = 0; v < 4; v++) {
              const float n0 = value3;
              const float n1 = r0[k][v];
              const float n2 = n1 - n0;
              const float n3 = n2 * n2;
              f1[v] = sum_float::of(f1[v], n3);
              f2[v] = sum_float::of(f2[v], n2);
            }
          }
        }
        turn = turn + 1;
      }
    }
    if (0u < many) {
      value1 = fold_lanes<sum_float>(f1);
      value2 = fold_lanes<sum_float>(f2);
      s0 = State0::of(s0, State0{(float)many, value3, {(float)many, value2, value1}});
    }
    value0 = fold_warp<sum_float, 512>(fold_lanes<sum_float>(f0));
    __shared__ float fparts0[16];
    if (threadIdx.x % 32u == 0u) {
      fparts0[threadIdx.x / 32u] = value0;
    }
    __syncthreads();
    value0 = fold_parts<sum_float, 512>(fparts0);
    s0 = states_of_warp<512>(s0);
    __shared__ State0 sstates0[16];
    if (threadIdx.x % 32u == 0u) {
      sstates0[threadIdx.x / 32u] = s0;
    }
    __syncthreads();
    s0 = states_of_block<512>(sstates0);
    State0 *const states0 = (State0 *)a.w[26];
    if (t == 0u && live) {
      {
        float *const shares0 = (float *)a.w[22];
        store1(shares0 + ((i64)row * (i64)chunks + (i64)chunk), value0);
      }
      store_state(states0 + ((i64)row * (i64)chunks + (i64)chunk), s0);
      __threadfence();
    }
    __shared__ u32 last[1];
    __syncthreads();
    if (threadIdx.x == 0u) {
      u32 *const counters = (u32 *)a.w[25];
      const u32 came = atomicAdd((u32 *)(counters + tile), (u32)1u);
      last[0] = came == chunks - 1u ? 1u : 0u;
      if (came == chunks - 1u) {
        counters[tile] = 0;
      }
      __threadfence();
    }
    __syncthreads();
    if (last[0] == 0u) {
      return;
    }
    float *const shares0 = (float *)a.w[22];
    __align__(16) float g0[1];
    #pragma unroll
    for (i32 v = 0; v < 1; v++) {
      g0[v] = 0.0f;
    }
    #pragma unroll 4
    for (u32 c = t; c < chunks; c += 512u) {
      __align__(16) float x[1];
      loadv_cold(x, shares0 + ((i64)row * (i64)chunks + (i64)c));
      #pragma unroll
      for (i32 v = 0; v < 1; v++) {
        g0[v] = sum_float::of(g0[v], x[v]);
      }
    }
    value0 = fold_warp<sum_float, 512>(fold_lanes<sum_float>(g0));
    __shared__ float gparts0[16];
    if (threadIdx.x % 32u == 0u) {
      gparts0[threadIdx.x / 32u] = value0;
    }
    __syncthreads();
    value0 = fold_parts<sum_float, 512>(gparts0);
    s0 = State0::none();
    for (u32 c = t; c < chunks; c += 512u) {
      s0 = State0::of(s0, load_state(states0 + ((i64)row * (i64)chunks + (i64)c)));
    }
    s0 = states_of_warp<512>(s0);
    __shared__ State0 gstates0[16];
    if (threadIdx.x % 32u == 0u) {
      gstates0[threadIdx.x / 32u] = s0;
    }
    __syncthreads();
    s0 = states_of_block<512>(gstates0);
    {
      #pragma unroll
      for (i32 v = 0; v < 1; v++) {
        const float n0 = bits_f32((u32)a.w[16]);
        const float n1 = value0;
        const float n2 = rounded_product(n1, bits_f32((u32)a.w[17]));
        value3 = n2;
      }
    }
    value1 = s0.result_about_mean(value3, value0 / ((float)n * 4.0f), 1.1920929e-7f);
  }
  {
    __align__(16) float y1[1];
    #pragma unroll
    for (i32 v = 0; v < 1; v++) {
      const float n0 = bits_f32((u32)a.w[16]);
      const float n1 = value1;
      const float n2 = rounded_product(n1, bits_f32((u32)a.w[17]));
      y1[v] = n2;
    }
    if (t == 0u && live) {
      store1(p1 + i0 * (i32)a.w[14], y1[0]);
    }
  }
}
