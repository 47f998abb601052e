// options:

// Rows along: 512 threads each, two passes at once. Phase 2, several blocks a row.
struct sum_float { FN static float of(float x, float y) { return x + y; } };

typedef Shifted<float, 2, true> State0;

extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(27)) {
  begin();
  float *const p0 = (float *)a.w[10];
  float *const p1 = (float *)a.w[13];
  const i32 rows = (i32)a.w[0], n = (i32)a.w[1];
  const u32 chunks = (u32)a.w[2], tile = blockIdx.x / chunks, chunk = blockIdx.x % chunks;
  const i32 begin = (i32)(chunk * a.w[3]), stop = n - begin < (i32)a.w[3] ? n : begin + (i32)a.w[3];
  const u32 t = threadIdx.x % 512;
  i32 row = (i32)tile * 1 + threadIdx.x / 512;
  const bool live = row < rows;
  if (!live) row = rows - 1;
  const i32 i0 = row;
  float value0;
  float value1;
  float value2;
  float value3;
  {
    float f0[4];
    #pragma unroll
    for (int v = 0; v < 4; v++) f0[v] = 0.0f;
    float f1[4];
    float f2[4];
    #pragma unroll
    for (int v = 0; v < 4; v++) f1[v] = 0.0f;
    #pragma unroll
    for (int v = 0; v < 4; v++) f2[v] = 0.0f;
    State0 s0 = State0::none();
    u32 many = 0;
    int turn = 0;
    for (i32 tile_of_row = begin; tile_of_row + (i32)t < stop; tile_of_row += 2048, turn++) {
      __align__(16) float r0[4][4];

      #pragma unroll
      for (int k = 0; k < 4; k++) {
        const i32 q = tile_of_row + k * 512 + t;
        if (q < stop) {
          const i32 j1 = q;
          loadv(r0[k], p0 + (i0 * (i32)a.w[11] + j1 * 4));

        }
      }
      if (turn % 8 == 0) {
        if (many > 0) {
          value1 = fold_lanes<sum_float>(f1);
          value2 = fold_lanes<sum_float>(f2);
          s0 = State0::of(s0, State0{(float)many, value3, {(float)many, value2, value1}});
        }
        u32 few = 0;
        float f0[4];
        #pragma unroll
        for (int v = 0; v < 4; v++) f0[v] = 0.0f;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
          const i32 q = tile_of_row + k * 512 + t;
          if (q < stop) {
            few += 4;
            const i32 j1 = q;
            #pragma unroll
            for (int v = 0; v < 4; v++) {
              const float n0 = r0[k][v];
              f0[v] = sum_float::of(f0[v], n0);
            }
          }
        }
        value0 = fold_lanes<sum_float>(f0);
        value0 = own_mean<float>(value0, (float)few, (float)n * 4, 3.4028235e38f);
        {
          #pragma unroll
          for (int v = 0; v < 1; v++) {
            const float n0 = bits_f32((u32)a.w[16]);
            const float n1 = value0;
            const float n2 = n1 * bits_f32((u32)a.w[17]);
            value3 = n2;
          }
        }
        many = 0;
      }
      if (many == 0) {
        #pragma unroll
        for (int v = 0; v < 4; v++) f1[v] = 0.0f;
        #pragma unroll
        for (int v = 0; v < 4; v++) f2[v] = 0.0f;
      }
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        const i32 q = tile_of_row + k * 512 + t;
        if (q < stop) {
          const i32 j1 = q;
          #pragma unroll
          for (int v = 0; v < 4; v++) {
            const float n0 = r0[k][v];
            f0[v] = sum_float::of(f0[v], n0);
          }
        }
      }
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        const i32 q = tile_of_row + k * 512 + t;
        if (q < stop) {
          many += 4;
          const i32 j1 = q;
          #pragma unroll
          for (int v = 0; v < 4; v++) {
            const float n0 = value3;
            const float n1 = r0[k][v];
            const float n2 = n1 - n0;
            const float n3 = n2 * n2;
            f1[v] = sum_float::of(f1[v], n3);
            f2[v] = sum_float::of(f2[v], n2);
          }
        }
      }
    }
    if (many > 0) {
      value1 = fold_lanes<sum_float>(f1);
      value2 = fold_lanes<sum_float>(f2);
      s0 = State0::of(s0, State0{(float)many, value3, {(float)many, value2, value1}});
    }
    value0 = fold_warp<sum_float, 512>(fold_lanes<sum_float>(f0));
    __shared__ float fparts0[16];
    if (threadIdx.x % 32 == 0) fparts0[threadIdx.x / 32] = value0;
    __syncthreads();
    value0 = fold_parts<sum_float, 512>(fparts0);
    s0 = states_of_warp<512>(s0);
    __shared__ State0 sstates0[16];
    if (threadIdx.x % 32 == 0) sstates0[threadIdx.x / 32] = s0;
    __syncthreads();
    s0 = states_of_block<512>(sstates0);
    if (t == 0 && live) {
      store1((float *)a.w[22] + (i64)row * chunks + chunk, value0);
      store_state((State0 *)a.w[26] + (i64)row * chunks + chunk, s0);
      __threadfence();
    }
    __shared__ u32 last;
    __syncthreads();
    if (threadIdx.x == 0) {
      u32 *const counter = (u32 *)a.w[25] + tile;
      last = atomicAdd(counter, 1u) == chunks - 1;
      if (last) *counter = 0;
      __threadfence();
    }
    __syncthreads();
    if (!last) return;
    float g0[1];
    #pragma unroll
    for (int v = 0; v < 1; v++) g0[v] = 0.0f;
    #pragma unroll 4
    for (u32 c = t; c < chunks; c += 512) {
      __align__(16) float x[1];
      loadv_cold(x, (float *)a.w[22] + (i64)row * chunks + c);
      #pragma unroll
      for (int v = 0; v < 1; v++) g0[v] = sum_float::of(g0[v], x[v]);
    }
    value0 = fold_warp<sum_float, 512>(fold_lanes<sum_float>(g0));
    __shared__ float gparts0[16];
    if (threadIdx.x % 32 == 0) gparts0[threadIdx.x / 32] = value0;
    __syncthreads();
    value0 = fold_parts<sum_float, 512>(gparts0);
    s0 = State0::none();
    for (u32 c = t; c < chunks; c += 512) s0 = State0::of(s0, load_state((State0 *)a.w[26] + (i64)row * chunks + c));
    s0 = states_of_warp<512>(s0);
    __shared__ State0 gstates0[16];
    if (threadIdx.x % 32 == 0) gstates0[threadIdx.x / 32] = s0;
    __syncthreads();
    s0 = states_of_block<512>(gstates0);
    {
      #pragma unroll
      for (int v = 0; v < 1; v++) {
        const float n0 = bits_f32((u32)a.w[16]);
        const float n1 = value0;
        const float n2 = n1 * bits_f32((u32)a.w[17]);
        value3 = n2;
      }
    }
    value1 = s0.result_about_mean(value3, value0 / ((float)n * 4), 1.1920929e-7f);
  }
  {
    __align__(16) float y1[1];

    #pragma unroll
    for (int v = 0; v < 1; v++) {
      const float n0 = bits_f32((u32)a.w[16]);
      const float n1 = value1;
      const float n2 = n1 * bits_f32((u32)a.w[17]);
      y1[v] = n2;

    }
    if (t == 0 && live) {
      store1(p1 + (i0 * (i32)a.w[14]), y1[0]);

    }
  }
}
