// options: -fmad=false

// Scatter: the copy of the tensor.
typedef u32 number;
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(24)) {
  begin();
  if (a.w[0] == a.w[3]) return;
  const float *const tensor = (const float *)a.w[0], *const values = (const float *)a.w[2];
  const i64 *const index = (const i64 *)a.w[1];
  float *const to = (float *)a.w[3];
  const number g = (number)blockIdx.x * 128 + threadIdx.x;
  if (g >= (number)a.w[15]) return;
  i64 at0 = 0, at1 = 0, at2 = 0, at3 = 0, at4 = 0;
  number rest, along;
  const Split cut = split(g, a.w[13], a.w[14]);
  along = cut.q;
  rest = cut.r;
  if (!a.w[16]) { const number swapped = along; along = rest; rest = swapped; }
  { const Split s = split(rest, a.w[17], a.w[18]); const i64 i = s.r; rest = s.q; at0 += i * (i64)a.w[19]; at1 += i * (i64)a.w[20]; at2 += i * (i64)a.w[21]; at3 += i * (i64)a.w[22]; at4 += i * (i64)a.w[23]; }
  __align__(16) float raw[4];
  loadv(raw, tensor + at0 + (i64)along * (i64)a.w[7]);
  storev(to + at3 + (i64)along * (i64)a.w[10], raw);
}

// options: -fmad=false

// Scatter: Add of f32, a thread a line.
typedef u32 number;
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(24)) {
  begin();
  const float *const tensor = (const float *)a.w[0], *const values = (const float *)a.w[2];
  const i64 *const index = (const i64 *)a.w[1];
  float *const to = (float *)a.w[3];
  const number g = (number)blockIdx.x * 128 + threadIdx.x;
  if (g >= (number)a.w[15]) return;
  i64 at0 = 0, at1 = 0, at2 = 0, at3 = 0, at4 = 0;
  number rest, along;
  rest = g;
  { const Split s = split(rest, a.w[17], a.w[18]); const i64 i = s.r; rest = s.q; at0 += i * (i64)a.w[19]; at1 += i * (i64)a.w[20]; at2 += i * (i64)a.w[21]; at3 += i * (i64)a.w[22]; at4 += i * (i64)a.w[23]; }
  for (i64 i = 0; i < (i64)a.w[5]; i++) {
    const i64 place = load1(index + at1 + i * (i64)a.w[8]);
    if (place < 0 || place >= (i64)a.w[6]) { *(u32 *)a.w[11] = 1; continue; }
    __align__(16) float raws[1];
    loadv(raws, values + at2 + i * (i64)a.w[9]);
    float *const line = to + at3 + place * (i64)a.w[10];
    __align__(16) float elements[1];
    loadv(elements, line);
    #pragma unroll
    for (u32 v = 0; v < 1; v++) { const float raw = raws[v]; float *const p = &elements[v]; { const float before = (*p), value = raw; *p = (before + value); } }
    storev(line, elements);
  }
}
