// options:

// Each point by itself: 1 times 2 neighbours a thread.
extern "C" __global__ void __launch_bounds__(256) map(THALWEG_PARAMETER(8)) {
  begin();
  double *const p0 = (double *)a.w[3];
  double *const p1 = (double *)a.w[5];
  const i32 n = (i32)a.w[0];
  const i32 first = (i32)blockIdx.x * 256 + (i32)threadIdx.x;
  __align__(16) double r0[1][2];
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
      __align__(16) double y1[2];
      #pragma unroll
      for (i32 v = 0; v < 2; v++) {
        const double n0 = r0[u][v];
        y1[v] = n0;
      }
      storev(p1 + i0 * 2, y1);
    }
  }
}

// options: -fmad=false

// Scatter: Add of f64, the runs of a warp at once.
extern "C" __global__ void __launch_bounds__(128) scatter(THALWEG_PARAMETER(17)) {
  begin();
  double *const tensor = (double *)a.w[0];
  i64 *const index = (i64 *)a.w[1];
  double *const values = (double *)a.w[2];
  double *const to = (double *)a.w[3];
  const u32 counted = blockIdx.x * 128u + threadIdx.x;
  const bool beyond = counted >= (u32)a.w[15];
  const u32 clamped = beyond ? (u32)a.w[15] - 1u : counted;
  const u32 g = clamped;
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
  const u32 lane = threadIdx.x % 32u;
  const i64 place = load1(index + (at1 + (i64)along * (i64)a.w[8]));
  const bool outside = place < 0 || (i64)a.w[6] <= place;
  if (outside) {
    if (!beyond) {
      {
        *(u32 *)a.w[11] = 1;
      }
    }
  }
  u32 key = 4294967295u;
  if ((!beyond) && (!outside)) {
    key = (u32)(at3 + place * (i64)a.w[10]);
  }
  double sum = 0.0;
  if (key != 4294967295u) {
    sum = load1(values + (at2 + (i64)along * (i64)a.w[9]));
  }
  const u32 before = __shfl_up_sync(0xffffffffu, key, 1u);
  const u32 heads = __ballot_sync(0xffffffffu, lane == 0u || before != key);
  if (heads != 4294967295u) {
    #pragma unroll
    for (u32 step = 0u; step < 5u; step++) {
      const u32 back = 1u << step;
      const double other = __shfl_up_sync(0xffffffffu, sum, back);
      if (back <= lane) {
        const u32 between = heads >> lane - back >> 1u;
        if ((between & (1u << back) - 1u) == 0u) {
          sum = sum + other;
        }
      }
    }
  }
  const bool last = lane == 31u || (heads >> lane >> 1u & 1u) == 1u;
  if (last && key != 4294967295u) {
    atomicAdd((double *)(to + (at3 + place * (i64)a.w[10])), (double)sum);
  }
}
