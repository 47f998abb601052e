// options:

// Each point by itself: 2 times 4 neighbours a thread.
extern "C" __global__ void __launch_bounds__(256) map(THALWEG_PARAMETER(8)) {
  begin();
  float *const p0 = (float *)a.w[3];
  float *const p1 = (float *)a.w[5];
  const i32 n = (i32)a.w[0];
  const i32 first = (i32)blockIdx.x * 512 + (i32)threadIdx.x;
  __align__(16) float r0[2][4];
  #pragma unroll
  for (i32 u = 0; u < 2; u++) {
    const i32 j = first + u * 256;
    if (j < n) {
      const i32 i0 = j;
      loadv(r0[u], p0 + i0 * 4);
    }
  }
  #pragma unroll
  for (i32 u = 0; u < 2; u++) {
    const i32 j = first + u * 256;
    if (j < n) {
      const i32 i0 = j;
      __align__(16) float y1[4];
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = r0[u][v];
        y1[v] = n0;
      }
      storev(p1 + i0 * 4, y1);
    }
  }
}

// options: -fmad=false

// Scatter: Add of f32, a thread a line.
struct sum_float { FN static float of(float x, float y) { return x + y; } };
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(24)) {
  begin();
  float *const tensor = (float *)a.w[0];
  i64 *const index = (i64 *)a.w[1];
  float *const values = (float *)a.w[2];
  float *const to = (float *)a.w[3];
  const u32 counted = blockIdx.x * 128u + threadIdx.x;
  if (counted >= (u32)a.w[15]) {
    return;
  }
  const u32 g = counted;
  u32 rest = g;
  i64 at0 = 0;
  i64 at1 = 0;
  i64 at2 = 0;
  i64 at3 = 0;
  i64 at4 = 0;
  {
    const Split s = split(rest, a.w[17], a.w[18]);
    const i64 i = (i64)s.r;
    rest = s.q;
    at0 = at0 + i * (i64)a.w[19];
    at1 = at1 + i * (i64)a.w[20];
    at2 = at2 + i * (i64)a.w[21];
    at3 = at3 + i * (i64)a.w[22];
    at4 = at4 + i * (i64)a.w[23];
  }
  for (i64 i = 0; i < (i64)a.w[5]; i++) {
    const i64 place = load1(index + (at1 + i * (i64)a.w[8]));
    if (place < 0 || place >= (i64)a.w[6]) {
      *(u32 *)a.w[11] = 1;
    } else {
      __align__(16) float raws[1];
      loadv(raws, values + (at2 + i * (i64)a.w[9]));
      const i64 line = at3 + place * (i64)a.w[10];
      __align__(16) float elements[1];
      loadv(elements, to + line);
      #pragma unroll
      for (i32 v = 0; v < 1; v++) {
        elements[v] = sum_float::of(elements[v], raws[v]);
      }
      storev(to + line, elements);
    }
  }
}
