// options: -fmad=false

// Scatter: the copy of the tensor.
typedef u32 number;
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(24)) {
  begin();
  if (a.w[0] == a.w[3]) return;
  const i64 *const tensor = (const i64 *)a.w[0], *const values = (const i64 *)a.w[2];
  const i64 *const index = (const i64 *)a.w[1];
  i64 *const to = (i64 *)a.w[3];
  const number g = (number)blockIdx.x * 128 + threadIdx.x;
  if (g >= (number)a.w[15]) return;
  i64 at0 = 0, at1 = 0, at2 = 0, at3 = 0, at4 = 0;
  number rest, along;
  const Split cut = split(g, a.w[13], a.w[14]);
  along = cut.q;
  rest = cut.r;
  if (!a.w[16]) { const number swapped = along; along = rest; rest = swapped; }
  { const Split s = split(rest, a.w[17], a.w[18]); const i64 i = s.r; rest = s.q; at0 += i * (i64)a.w[19]; at1 += i * (i64)a.w[20]; at2 += i * (i64)a.w[21]; at3 += i * (i64)a.w[22]; at4 += i * (i64)a.w[23]; }
  __align__(16) i64 raw[2];
  loadv(raw, tensor + at0 + (i64)along * (i64)a.w[7]);
  storev(to + at3 + (i64)along * (i64)a.w[10], raw);
}

// options: -fmad=false

// Scatter: Add of i64, all at once.
typedef u32 number;
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(24)) {
  begin();
  const i64 *const tensor = (const i64 *)a.w[0], *const values = (const i64 *)a.w[2];
  const i64 *const index = (const i64 *)a.w[1];
  i64 *const to = (i64 *)a.w[3];
  const number g = (number)blockIdx.x * 128 + threadIdx.x;
  if (g >= (number)a.w[15]) return;
  i64 at0 = 0, at1 = 0, at2 = 0, at3 = 0, at4 = 0;
  number rest, along;
  const Split cut = split(g, a.w[13], a.w[14]);
  along = cut.q;
  rest = cut.r;
  if (!a.w[16]) { const number swapped = along; along = rest; rest = swapped; }
  { const Split s = split(rest, a.w[17], a.w[18]); const i64 i = s.r; rest = s.q; at0 += i * (i64)a.w[19]; at1 += i * (i64)a.w[20]; at2 += i * (i64)a.w[21]; at3 += i * (i64)a.w[22]; at4 += i * (i64)a.w[23]; }
  const i64 place = load1(index + at1 + (i64)along * (i64)a.w[8]);
  if (place < 0 || place >= (i64)a.w[6]) { *(u32 *)a.w[11] = 1; return; }
  const i64 raw = load1(values + at2 + (i64)along * (i64)a.w[9]);
  i64 *const p = to + at3 + place * (i64)a.w[10];
  atomicAdd((u64 *)p, (u64)raw);
}
