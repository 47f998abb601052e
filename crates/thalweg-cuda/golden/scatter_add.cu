// options: -fmad=false

// Scatter: the copy of the tensor.
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(18)) {
  begin();
  const float *const tensor = (const float *)a.w[0], *const values = (const float *)a.w[2];
  const i64 *const index = (const i64 *)a.w[1];
  float *const to = (float *)a.w[3];
  const i64 g = (i64)blockIdx.x * 128 + threadIdx.x;
  i64 at0 = 0, at1 = 0, at2 = 0, at3 = 0;
  // Lines run side by side, so that neighbours in memory mostly are neighbouring threads.
  if (a.w[0] == a.w[3]) return;
  if (g >= (i64)a.w[4] * (i64)a.w[6]) return;
  i64 rest = g % (i64)a.w[4];
  const i64 along = g / (i64)a.w[4];
  { const i64 d = (i64)(u32)a.w[12], i = rest % d; rest /= d; at0 += i * (i64)a.w[14]; at1 += i * (i64)a.w[15]; at2 += i * (i64)a.w[16]; at3 += i * (i64)a.w[17]; }
  store1(to + at3 + along * (i64)a.w[10], load1(tensor + at0 + along * (i64)a.w[7]));
}

// options: -fmad=false

// Scatter: Add of f32.
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(18)) {
  begin();
  const float *const tensor = (const float *)a.w[0], *const values = (const float *)a.w[2];
  const i64 *const index = (const i64 *)a.w[1];
  float *const to = (float *)a.w[3];
  const i64 g = (i64)blockIdx.x * 128 + threadIdx.x;
  i64 at0 = 0, at1 = 0, at2 = 0, at3 = 0;
  if (g >= (i64)a.w[4]) return;
  i64 rest = g;
  { const i64 d = (i64)(u32)a.w[12], i = rest % d; rest /= d; at0 += i * (i64)a.w[14]; at1 += i * (i64)a.w[15]; at2 += i * (i64)a.w[16]; at3 += i * (i64)a.w[17]; }
  for (i64 i = 0; i < (i64)a.w[5]; i++) {
    const i64 place = load1(index + at1 + i * (i64)a.w[8]);
    if (place < 0 || place >= (i64)a.w[6]) { *(u32 *)a.w[11] = 1; continue; }
    const float raw = load1(values + at2 + i * (i64)a.w[9]);
    float *const p = to + at3 + place * (i64)a.w[10];
    { const float before = (*p), value = raw; *p = (before + value); }
  }
}
