// options:

// Rows along: 256 threads each, read in every pass. Phase 0.
extern "C" __global__ void __launch_bounds__(256) rows(THALWEG_PARAMETER(25)) {
  begin();
  float *const p0 = (float *)a.w[10];
  float *const p1 = (float *)a.w[13];
  float *const p2 = (float *)a.w[16];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const i32 begin = 0;
  const i32 stop = n;
  const u32 t = threadIdx.x % 256u;
  const i32 own_row = (i32)blockIdx.x * 1 + (i32)(threadIdx.x / 256u);
  const bool live = own_row < rows;
  const i32 row = live ? own_row : rows - 1;
  const i32 i0 = row;
  float *const b0 = (float *)a.w[22];
  float *const b1 = (float *)a.w[23];
  float value0;
  float value1;
  {
    #pragma unroll 4
    for (i32 q = begin + (i32)t; q < stop; q += 256) {
      const i32 j1 = q;
      __align__(16) float r0[4];
      loadv(r0, p0 + (i0 * (i32)a.w[11] + j1 * 4));
      __align__(16) float r1[4];
      loadv(r1, p1 + (i0 * (i32)a.w[14] + j1 * 4));
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = r0[v];
        const float n1 = sigmoid(n0);
        const float n2 = r1[v];
        if (live) {
          set_at(b0, ((i64)row * (i64)n + (i64)q) * 4 + (i64)v, (float)n1);
        }
        if (live) {
          set_at(b1, ((i64)row * (i64)n + (i64)q) * 4 + (i64)v, (float)n2);
        }
      }
    }
  }
}

// options: -fmad=false

// Fold of rows in memory by a combine of the user's own, a block a row.
extern "C" __global__ void __launch_bounds__(256) combine(THALWEG_PARAMETER(8)) {
  begin();
  float *const of0 = (float *)a.w[0];
  float *const of1 = (float *)a.w[1];
  float *const to0 = (float *)a.w[2];
  float *const to1 = (float *)a.w[3];
  const i64 n = (i64)a.w[4];
  const i64 begin = (i64)blockIdx.x * (i64)a.w[5];
  const i64 step = (i64)a.w[6];
  const i64 t = (i64)threadIdx.x;
  i64 left = n;
  while (1 < left) {
    const i64 half = (left + 1) / 2;
    for (i64 i = t; i < left - half; i += 256) {
      const float x0 = element_at(of0, begin + i * step);
      const float x1 = element_at(of1, begin + i * step);
      const float y0 = element_at(of0, begin + (i + half) * step);
      const float y1 = element_at(of1, begin + (i + half) * step);
      float z0;
      float z1;
      {
        const bool cn0 = true;
        const float cn1 = x0;
        const float cn2 = y0;
        const float cn3 = cn1 * cn2;
        const float cn4 = x1;
        const float cn5 = y1;
        const float cn6 = cn2 * cn4;
        const float cn7 = cn5 + cn6;
        z0 = cn3;
        z1 = cn7;
      }
      set_at(of0, begin + i * step, (float)z0);
      set_at(of1, begin + i * step, (float)z1);
    }
    __syncthreads();
    left = half;
  }
  if (t == 0) {
    set_at(to0, (i64)blockIdx.x, (float)(0 < n ? element_at(of0, begin) : 1.0f));
    set_at(to1, (i64)blockIdx.x, (float)(0 < n ? element_at(of1, begin) : 0.0f));
  }
}

// options:

// Rows along: 256 threads each, read in every pass. Phase 1.
extern "C" __global__ void __launch_bounds__(256) rows(THALWEG_PARAMETER(25)) {
  begin();
  float *const p0 = (float *)a.w[10];
  float *const p1 = (float *)a.w[13];
  float *const p2 = (float *)a.w[16];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const i32 begin = 0;
  const i32 stop = n;
  const u32 t = threadIdx.x % 256u;
  const i32 own_row = (i32)blockIdx.x * 1 + (i32)(threadIdx.x / 256u);
  const bool live = own_row < rows;
  const i32 row = live ? own_row : rows - 1;
  const i32 i0 = row;
  float *const b0 = (float *)a.w[22];
  float *const b1 = (float *)a.w[23];
  float value0;
  float value1;
  {
    float *const left0 = (float *)a.w[20];
    value0 = load1(left0 + (i64)row);
  }
  {
    float *const left1 = (float *)a.w[21];
    value1 = load1(left1 + (i64)row);
  }
  {
    #pragma unroll 4
    for (i32 q = begin + (i32)t; q < stop; q += 256) {
      const i32 j1 = q;
      __align__(16) float r1[4];
      loadv(r1, p1 + (i0 * (i32)a.w[14] + j1 * 4));
      __align__(16) float y2[4];
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = value1;
        const float n1 = r1[v];
        const float n2 = n1 * n0;
        y2[v] = n2;
      }
      if (live) {
        storev(p2 + (i0 * (i32)a.w[17] + j1 * 4), y2);
      }
    }
  }
}
