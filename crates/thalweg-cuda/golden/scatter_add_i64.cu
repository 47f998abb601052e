// options:

// Each point by itself: 1 times 2 neighbours a thread.
extern "C" __global__ void __launch_bounds__(256) map(THALWEG_PARAMETER(8)) {
  begin();
  i64 *const p0 = (i64 *)a.w[3];
  i64 *const p1 = (i64 *)a.w[5];
  const i32 n = (i32)a.w[0];
  const i32 first = (i32)blockIdx.x * 256 + (i32)threadIdx.x;
  __align__(16) i64 r0[1][2];
  #pragma unroll
  for (i32 u = 0; u < 1; u++) {
    const i32 j = first + u * 256;
    if (j < n) {
      const i32 i0 = j;
      loadv(r0[u], p0 + i0 * 2);
    }
  }
  #pragma unroll
  for (i32 u = 0; u < 1; u++) {
    const i32 j = first + u * 256;
    if (j < n) {
      const i32 i0 = j;
      __align__(16) i64 y1[2];
      #pragma unroll
      for (i32 v = 0; v < 2; v++) {
        const i64 n0 = r0[u][v];
        y1[v] = n0;
      }
      storev(p1 + i0 * 2, y1);
    }
  }
}

// options: -fmad=false

// Scatter: Add of i64, all at once.
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(24)) {
  begin();
  i64 *const tensor = (i64 *)a.w[0];
  i64 *const index = (i64 *)a.w[1];
  i64 *const values = (i64 *)a.w[2];
  i64 *const to = (i64 *)a.w[3];
  const u32 counted = blockIdx.x * 128u + threadIdx.x;
  if (counted >= (u32)a.w[15]) {
    return;
  }
  const u32 g = counted;
  const Split cut = split(g, a.w[13], a.w[14]);
  const u32 high = cut.q;
  const u32 low = cut.r;
  const u32 along = (i64)a.w[16] == 0 ? low : high;
  u32 rest = (i64)a.w[16] == 0 ? high : low;
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
  const i64 place = load1(index + (at1 + (i64)along * (i64)a.w[8]));
  if (place < 0 || place >= (i64)a.w[6]) {
    *(u32 *)a.w[11] = 1;
    return;
  }
  const i64 raw = load1(values + (at2 + (i64)along * (i64)a.w[9]));
  atomicAdd((u64 *)(to + (at3 + place * (i64)a.w[10])), (u64)raw);
}
