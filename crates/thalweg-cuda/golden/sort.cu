// options:

// Rows along: 512 threads each, read in every walk. Phase 0, several blocks a row.
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(19)) {
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
  float *const b0 = (float *)a.w[17];
  {
    #pragma unroll 4
    for (i32 q = begin + t; q < stop; q += 512) {
      const i32 j1 = q;
      __align__(16) float r0[4];
      loadv(r0, p0 + (i0 * (i32)a.w[11] + j1 * 4));
      #pragma unroll
      for (int v = 0; v < 4; v++) {
        const float n0 = r0[v];
        if (live) b0[((i64)row * n + q) * 4 + v] = n0;
      }
    }
  }
}

// options: -fmad=false

// Scan of rows in memory: Sort of f32.
extern "C" __global__ void __launch_bounds__(256) scan(THALWEG_PARAMETER(13)) {
  begin();
  const i64 n = (i64)a.w[3], step = (i64)a.w[5], run = (i64)a.w[7];
  const i64 g = (i64)blockIdx.x * 256 + threadIdx.x;
  if (g >= (i64)a.w[2] * n) return;
  const i64 row = g / n, i = g % n, start = row * (i64)a.w[4], at = start + i * step;
  u64 *const keys = (u64 *)a.w[8] + row * n, *const next_keys = (u64 *)a.w[10] + row * n;
  u32 *const places = (u32 *)a.w[9] + row * n, *const next_places = (u32 *)a.w[11] + row * n;
  if (a.w[6] == 0) {
    const float raw = ((const float *)a.w[0])[at];
    u32 b = f32_bits(raw);
    u64 key = raw != raw ? 0xffffffffull : raw == 0 ? 0x80000000ull : b >> 31 ? (u32)~b : b | 0x80000000u;
    keys[i] = key;
    places[i] = (u32)i;
    // The result may lie over it.
    ((float *)a.w[12])[g] = raw;
  } else if (a.w[6] == 1) {
    // The place of an element among two runs: its own number and how many of the other run come before it. Of equal ones the left run's come first.
    const i64 pair = i / (2 * run) * (2 * run), middle = pair + run < n ? pair + run : n, end = pair + 2 * run < n ? pair + 2 * run : n;
    const bool left = i < middle;
    const u64 key = keys[i];
    i64 low = left ? middle : pair, high = left ? end : middle;
    const i64 base = low;
    while (low < high) {
      const i64 m = (low + high) / 2;
      const bool before = left ? keys[m] < key : keys[m] <= key;
      if (before) low = m + 1;
      else high = m;
    }
    const i64 to = left ? i + (low - base) : pair + (i - middle) + (low - base);
    next_keys[to] = key;
    next_places[to] = places[i];
  } else {
    const u32 place = places[i];
    ((float *)a.w[1])[at] = ((float *)a.w[12])[row * n + (i64)place];
  }
}

// options:

// Rows along: 512 threads each, read in every walk. Phase 1, several blocks a row.
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(19)) {
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
  float *const b0 = (float *)a.w[17];
  {
    #pragma unroll 4
    for (i32 q = begin + t; q < stop; q += 512) {
      const i32 j1 = q;
      __align__(16) float y1[4];
      #pragma unroll
      for (int v = 0; v < 4; v++) {
        const float n0 = b0[((i64)row * n + q) * 4 + v];
        y1[v] = n0;
      }
      if (live) {
        storev(p1 + (i0 * (i32)a.w[14] + j1 * 4), y1);
      }
    }
  }
}
