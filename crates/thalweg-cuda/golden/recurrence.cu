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
struct State { float c0; float c1; };
struct Places { float *c0; float *c1; };
FN State get(Places p, i64 i) { State s; s.c0 = element_at(p.c0, i); s.c1 = element_at(p.c1, i); return s; }
FN void put(Places p, i64 i, State s) { set_at(p.c0, i, s.c0); set_at(p.c1, i, s.c1); }
FN State nothing() { State s; s.c0 = 1.0f; s.c1 = 0.0f; return s; }
FN State combined(State x, State y) {
  const float before_0 = x.c0;
  const float before_1 = x.c1;
  const bool beforen0 = true;
  const float beforen1 = before_0;
  const float beforen2 = y.c0;
  const float beforen3 = beforen1 * beforen2;
  const float beforen4 = before_1;
  const float beforen5 = y.c1;
  const float beforen6 = beforen2 * beforen4;
  const float beforen7 = beforen5 + beforen6;
  State z;
  z.c0 = beforen3;
  z.c1 = beforen7;
  return z;
}

extern "C" __global__ void __launch_bounds__(256) combine(THALWEG_PARAMETER(8)) {
  begin();
  const i64 n = (i64)a.w[4], row_step = (i64)a.w[5], step = (i64)a.w[6];
  const i64 row = blockIdx.x, t = threadIdx.x;
  const Places of = {(float *)a.w[0] + row * row_step, (float *)a.w[1] + row * row_step};
  const Places lasts = {(float *)a.w[2] + row * (i64)a.w[7], (float *)a.w[3] + row * (i64)a.w[7]};
  i64 at = 0, count = n;
  i64 starts[11], counts[11];
  int level = 0;
  for (;; level++) {
    starts[level] = at;
    counts[level] = count;
    const i64 next = level == 0 ? 0 : at + count;
    for (i64 segment = t; segment * 64 < count; segment += 256) {
      i64 i = segment * 64;
      const i64 end = count - i < 64 ? count : i + 64;
      State y = level == 0 ? get(of, i * step) : get(lasts, at + i);
      for (i++; i < end; i++) {
        y = combined(y, level == 0 ? get(of, i * step) : get(lasts, at + i));
        if (level == 0) put(of, i * step, y);
        else put(lasts, at + i, y);
      }
      if (count > 64) put(lasts, next + segment, y);
    }
    __syncthreads();
    if (count <= 64) break;
    at = next;
    count = (count + 64 - 1) / 64;
  }
  while (--level >= 0) {
    for (i64 i = 64 + t; i < counts[level]; i += 256) {
      const State before = get(lasts, starts[level + 1] + i / 64 - 1);
      if (level == 0) put(of, i * step, combined(before, get(of, i * step)));
      else put(lasts, starts[level] + i, combined(before, get(lasts, starts[level] + i)));
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
