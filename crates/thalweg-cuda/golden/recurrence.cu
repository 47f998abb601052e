// options:

// Rows along: 256 threads each, read in every pass. Phase 0.
extern "C" __global__ void __launch_bounds__(256) rows(THALWEG_PARAMETER(23)) {
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
  float *const b0 = (float *)a.w[20];
  float *const b1 = (float *)a.w[21];
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

// Scan of rows in memory by a combine of the user's own, a block a row.
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
  const i64 own = (i64)blockIdx.x * (i64)a.w[7];
  __align__(16) i64 starts[11];
  __align__(16) i64 counts[11];
  i32 level = 0;
  i64 at = 0;
  i64 count = n;
  u32 more = 1u;
  while (more == 1u) {
    starts[level] = at;
    counts[level] = count;
    const i64 next = level == 0 ? 0 : at + count;
    for (i64 segment = t; segment < (count + 64 - 1) / 64; segment += 256) {
      const i64 first = segment * 64;
      const i64 end = count < first + 64 ? count : first + 64;
      float x0;
      float x1;
      float y0;
      float y1;
      float z0;
      float z1;
      if (level == 0) {
        x0 = element_at(of0, begin + first * step);
      } else {
        x0 = element_at(to0, own + at + first);
      }
      if (level == 0) {
        x1 = element_at(of1, begin + first * step);
      } else {
        x1 = element_at(to1, own + at + first);
      }
      for (i64 i = first + 1; i < end; i++) {
        if (level == 0) {
          y0 = element_at(of0, begin + i * step);
        } else {
          y0 = element_at(to0, own + at + i);
        }
        if (level == 0) {
          y1 = element_at(of1, begin + i * step);
        } else {
          y1 = element_at(to1, own + at + i);
        }
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
        x0 = z0;
        x1 = z1;
        if (level == 0) {
          set_at(of0, begin + i * step, (float)z0);
        } else {
          set_at(to0, own + at + i, (float)z0);
        }
        if (level == 0) {
          set_at(of1, begin + i * step, (float)z1);
        } else {
          set_at(to1, own + at + i, (float)z1);
        }
      }
      if (64 < count) {
        set_at(to0, own + next + segment, (float)x0);
      }
      if (64 < count) {
        set_at(to1, own + next + segment, (float)x1);
      }
    }
    __syncthreads();
    if (count <= 64) {
      more = 0u;
    } else {
      at = next;
      count = (count + 64 - 1) / 64;
      level = level + 1;
    }
  }
  while (0 < level) {
    level = level - 1;
    for (i64 i = t + 64; i < counts[level]; i += 256) {
      const float x0 = element_at(to0, own + starts[level + 1] + i / 64 - 1);
      const float x1 = element_at(to1, own + starts[level + 1] + i / 64 - 1);
      float y0;
      float y1;
      float z0;
      float z1;
      if (level == 0) {
        y0 = element_at(of0, begin + i * step);
      } else {
        y0 = element_at(to0, own + starts[level] + i);
      }
      if (level == 0) {
        y1 = element_at(of1, begin + i * step);
      } else {
        y1 = element_at(to1, own + starts[level] + i);
      }
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
      if (level == 0) {
        set_at(of0, begin + i * step, (float)z0);
      } else {
        set_at(to0, own + starts[level] + i, (float)z0);
      }
      if (level == 0) {
        set_at(of1, begin + i * step, (float)z1);
      } else {
        set_at(to1, own + starts[level] + i, (float)z1);
      }
    }
    __syncthreads();
  }
}

// options:

// Rows along: 256 threads each, read in every pass. Phase 1.
extern "C" __global__ void __launch_bounds__(256) rows(THALWEG_PARAMETER(23)) {
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
  float *const b0 = (float *)a.w[20];
  float *const b1 = (float *)a.w[21];
  {
    #pragma unroll 4
    for (i32 q = begin + (i32)t; q < stop; q += 256) {
      const i32 j1 = q;
      __align__(16) float r1[4];
      loadv(r1, p1 + (i0 * (i32)a.w[14] + j1 * 4));
      __align__(16) float y2[4];
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = element_at(b1, ((i64)row * (i64)n + (i64)q) * 4 + (i64)v);
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
