// options:

// Rows along: 512 threads each, read in every pass. Phase 0, several blocks a row.
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(19)) {
  begin();
  float *const p0 = (float *)a.w[10];
  float *const p1 = (float *)a.w[13];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const u32 chunks = (u32)a.w[2];
  const u32 tile = blockIdx.x / chunks;
  const u32 chunk = blockIdx.x % chunks;
  const i32 begin = (i32)((u64)chunk * a.w[3]);
  const i32 stop = n - begin < (i32)a.w[3] ? n : begin + (i32)a.w[3];
  const u32 t = threadIdx.x % 512u;
  const i32 own_row = (i32)tile * 1 + (i32)(threadIdx.x / 512u);
  const bool live = own_row < rows;
  const i32 row = live ? own_row : rows - 1;
  const i32 i0 = row;
  float *const b0 = (float *)a.w[17];
  {
    #pragma unroll 4
    for (i32 q = begin + (i32)t; q < stop; q += 512) {
      const i32 j1 = q;
      __align__(16) float r0[4];
      loadv(r0, p0 + (i0 * (i32)a.w[11] + j1 * 4));
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = r0[v];
        if (live) {
          set_at(b0, ((i64)row * (i64)n + (i64)q) * 4 + (i64)v, (float)n0);
        }
      }
    }
  }
}

// options: -fmad=false

// Scan of rows in memory: Sort of f32, a stretch a block.
typedef u32 Key;
// Where an element of a stretch lies in shared memory: spread, so that threads eight elements apart do not meet in a
// bank.
FN u32 slot(u32 s) { return s + s / 16; }
// How many of the first `d` elements that two runs give come from the left one. Of equal ones those of the left run
// come first.
template <class I, class L, class R> FN I given(I d, I left_count, I right_count, L left, R right) {
  I low = d > right_count ? d - right_count : 0, high = d < left_count ? d : left_count;
  while (low < high) {
    const I m = low + (high - low) / 2;
    if (left(m) <= right(d - 1 - m)) low = m + 1;
    else high = m;
  }
  return low;
}
// The eight elements from `d` on of what two runs give that lie side by side from `first` on.
FN void merge(const Key *keys, const u32 *places, u32 first, u32 left_count, u32 right_count, u32 d, Key (&key)[8], u32 (&place)[8]) {
  const u32 end = left_count + right_count, middle = first + left_count;
  if (d > end) d = end;
  u32 l = given(d, left_count, right_count, [&](u32 i) { return keys[slot(first + i)]; }, [&](u32 i) { return keys[slot(middle + i)]; });
  u32 r = d - l;
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    key[k] = 0;
    place[k] = 0;
    if (d + k >= end) continue;
    const bool left = r >= right_count || l < left_count && keys[slot(first + l)] <= keys[slot(middle + r)];
    const u32 at = slot(left ? first + l++ : middle + r++);
    key[k] = keys[at];
    place[k] = places[at];
  }
}
// All threads are through with what lies in shared memory before they put down what they have, and get to see all of
// it.
FN void put(Key *keys, u32 *places, const Key (&key)[8], const u32 (&place)[8]) {
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    keys[slot(threadIdx.x * 8 + k)] = key[k];
    places[slot(threadIdx.x * 8 + k)] = place[k];
  }
  __syncthreads();
}
extern "C" __global__ void __launch_bounds__(256) scan(THALWEG_PARAMETER(17)) {
  begin();
  const i64 rows = (i64)a.w[2], n = (i64)a.w[3];
  const u32 t = threadIdx.x, parts = (u32)a.w[7], part = blockIdx.x % parts;
  __shared__ Key keys[2048 + 2048 / 16];
  __shared__ u32 places[2048 + 2048 / 16];
  Key key[8];
  u32 place[8];
  // A stretch has several short rows, or a part of one.
  const i64 tile = (i64)(blockIdx.x / parts) * (2048 >> a.w[6]), first = (i64)part * 2048;
  float loaded[8] = {};
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    const u32 s = t + k * 256;
    const i64 row = tile + (s >> a.w[6]), i = first + (s & (1u << a.w[6]) - 1);
    if (row < rows && i < n) loaded[k] = ((const float *)a.w[0])[row * (i64)a.w[4] + i * (i64)a.w[5]];
  }
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    const u32 s = t + k * 256;
    const i64 row = tile + (s >> a.w[6]), i = first + (s & (1u << a.w[6]) - 1);
    // What fills up a row comes behind all of it: no key is larger, and no place.
    Key found = ~(Key)0;
    if (row < rows && i < n) {
      const float raw = loaded[k];
      const u32 b = f32_bits(raw);
      Key key = raw != raw ? 0xffffffffu : raw == 0 ? 0x80000000u : b >> 31 ? ~b : b | 0x80000000u;
      found = key;
      // The result will lie over it.
      if (a.w[14] != a.w[0]) ((float *)a.w[14])[row * n + i] = raw;
    }
    keys[slot(s)] = found;
    places[slot(s)] = (u32)i;
  }
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    key[k] = keys[slot(t * 8 + k)];
    place[k] = places[slot(t * 8 + k)];
  }
  #pragma unroll
  for (int turn = 0; turn < 8; turn++) {
    #pragma unroll
    for (int k = turn % 2; k < 7; k += 2) {
      const bool swap = key[k] > key[k + 1];
      const Key low = swap ? key[k + 1] : key[k];
      const u32 low_place = swap ? place[k + 1] : place[k];
      key[k + 1] = swap ? key[k] : key[k + 1];
      place[k + 1] = swap ? place[k] : place[k + 1];
      key[k] = low;
      place[k] = low_place;
    }
  }
  put(keys, places, key, place);
  for (u32 run = 8; run < 1u << a.w[6]; run *= 2) {
    const u32 pair = t * 8 & ~(2 * run - 1);
    merge(keys, places, pair, run, run, t * 8 - pair, key, place);
    put(keys, places, key, place);
  }
  if (a.w[9] == 0) {
    #pragma unroll
    for (int k = 0; k < 8; k++) {
      const u32 s = t + k * 256;
      const i64 row = tile + (s >> a.w[6]), i = first + (s & (1u << a.w[6]) - 1);
      if (row >= rows || i >= n) continue;
      ((Key *)a.w[10])[row * n + i] = keys[slot(s)];
      ((u32 *)a.w[11])[row * n + i] = places[slot(s)];
    }
    return;
  }
  float out[8];
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    const u32 s = t + k * 256;
    const i64 row = tile + (s >> a.w[6]), i = first + (s & (1u << a.w[6]) - 1);
    if (row < rows && i < n) out[k] = ((const float *)a.w[14])[row * (i64)a.w[15] + (i64)places[slot(s)] * (i64)a.w[16]];
  }
  // Elements that others give out, too, are where the result goes.
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    const u32 s = t + k * 256;
    const i64 row = tile + (s >> a.w[6]), i = first + (s & (1u << a.w[6]) - 1);
    if (row < rows && i < n) ((float *)a.w[1])[row * (i64)a.w[4] + i * (i64)a.w[5]] = out[k];
  }
}

// options: -fmad=false

// Scan of rows in memory: Sort of f32, merges of sorted runs.
typedef u32 Key;
// Where an element of a stretch lies in shared memory: spread, so that threads eight elements apart do not meet in a
// bank.
FN u32 slot(u32 s) { return s + s / 16; }
// How many of the first `d` elements that two runs give come from the left one. Of equal ones those of the left run
// come first.
template <class I, class L, class R> FN I given(I d, I left_count, I right_count, L left, R right) {
  I low = d > right_count ? d - right_count : 0, high = d < left_count ? d : left_count;
  while (low < high) {
    const I m = low + (high - low) / 2;
    if (left(m) <= right(d - 1 - m)) low = m + 1;
    else high = m;
  }
  return low;
}
// The eight elements from `d` on of what two runs give that lie side by side from `first` on.
FN void merge(const Key *keys, const u32 *places, u32 first, u32 left_count, u32 right_count, u32 d, Key (&key)[8], u32 (&place)[8]) {
  const u32 end = left_count + right_count, middle = first + left_count;
  if (d > end) d = end;
  u32 l = given(d, left_count, right_count, [&](u32 i) { return keys[slot(first + i)]; }, [&](u32 i) { return keys[slot(middle + i)]; });
  u32 r = d - l;
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    key[k] = 0;
    place[k] = 0;
    if (d + k >= end) continue;
    const bool left = r >= right_count || l < left_count && keys[slot(first + l)] <= keys[slot(middle + r)];
    const u32 at = slot(left ? first + l++ : middle + r++);
    key[k] = keys[at];
    place[k] = places[at];
  }
}
// All threads are through with what lies in shared memory before they put down what they have, and get to see all of
// it.
FN void put(Key *keys, u32 *places, const Key (&key)[8], const u32 (&place)[8]) {
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    keys[slot(threadIdx.x * 8 + k)] = key[k];
    places[slot(threadIdx.x * 8 + k)] = place[k];
  }
  __syncthreads();
}
extern "C" __global__ void __launch_bounds__(256) scan(THALWEG_PARAMETER(17)) {
  begin();
  const i64 rows = (i64)a.w[2], n = (i64)a.w[3];
  const u32 t = threadIdx.x, parts = (u32)a.w[7], part = blockIdx.x % parts;
  __shared__ Key keys[2048 + 2048 / 16];
  __shared__ u32 places[2048 + 2048 / 16];
  Key key[8];
  u32 place[8];
  const i64 tile = blockIdx.x / parts, first = (i64)part * 2048, run = (i64)a.w[8];
  const i64 pair = first / (2 * run) * (2 * run), rest = n - pair;
  const i64 left_count = rest < run ? rest : run, right_count = rest - left_count < run ? rest - left_count : run;
  const Key *const left = (const Key *)a.w[10] + tile * n + pair, *const right = left + left_count;
  const u32 *const left_places = (const u32 *)a.w[11] + tile * n + pair, *const right_places = left_places + left_count;
  const i64 begins = first - pair, all = left_count + right_count, ends = begins + 2048 < all ? begins + 2048 : all;
  __shared__ i64 bounds[2];
  if (t % 32 == 0 && t < 64) {
    bounds[t / 32] = given(t == 0 ? begins : ends, left_count, right_count, [&](i64 i) { return left[i]; }, [&](i64 i) { return right[i]; });
  }
  __syncthreads();
  const i64 from_left = bounds[0], from_right = begins - from_left;
  const u32 here = (u32)(bounds[1] - from_left), count = (u32)(ends - begins);
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    const u32 s = t + k * 256;
    if (s >= count) continue;
    key[k] = s < here ? left[from_left + s] : right[from_right + (s - here)];
    place[k] = s < here ? left_places[from_left + s] : right_places[from_right + (s - here)];
  }
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    const u32 s = t + k * 256;
    if (s >= count) continue;
    keys[slot(s)] = key[k];
    places[slot(s)] = place[k];
  }
  __syncthreads();
  merge(keys, places, 0, here, count - here, t * 8, key, place);
  put(keys, places, key, place);
  if (a.w[9] == 0) {
    #pragma unroll
    for (int k = 0; k < 8; k++) {
      const u32 s = t + k * 256;
      const i64 row = tile + (s >> a.w[6]), i = first + (s & (1u << a.w[6]) - 1);
      if (row >= rows || i >= n) continue;
      ((Key *)a.w[12])[row * n + i] = keys[slot(s)];
      ((u32 *)a.w[13])[row * n + i] = places[slot(s)];
    }
    return;
  }
  float out[8];
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    const u32 s = t + k * 256;
    const i64 row = tile + (s >> a.w[6]), i = first + (s & (1u << a.w[6]) - 1);
    if (row < rows && i < n) out[k] = ((const float *)a.w[14])[row * (i64)a.w[15] + (i64)places[slot(s)] * (i64)a.w[16]];
  }
  // Elements that others give out, too, are where the result goes.
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < 8; k++) {
    const u32 s = t + k * 256;
    const i64 row = tile + (s >> a.w[6]), i = first + (s & (1u << a.w[6]) - 1);
    if (row < rows && i < n) ((float *)a.w[1])[row * (i64)a.w[4] + i * (i64)a.w[5]] = out[k];
  }
}

// options:

// Rows along: 512 threads each, read in every pass. Phase 1, several blocks a row.
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(19)) {
  begin();
  float *const p0 = (float *)a.w[10];
  float *const p1 = (float *)a.w[13];
  const i32 rows = (i32)a.w[0];
  const i32 n = (i32)a.w[1];
  const u32 chunks = (u32)a.w[2];
  const u32 tile = blockIdx.x / chunks;
  const u32 chunk = blockIdx.x % chunks;
  const i32 begin = (i32)((u64)chunk * a.w[3]);
  const i32 stop = n - begin < (i32)a.w[3] ? n : begin + (i32)a.w[3];
  const u32 t = threadIdx.x % 512u;
  const i32 own_row = (i32)tile * 1 + (i32)(threadIdx.x / 512u);
  const bool live = own_row < rows;
  const i32 row = live ? own_row : rows - 1;
  const i32 i0 = row;
  float *const b0 = (float *)a.w[17];
  {
    #pragma unroll 4
    for (i32 q = begin + (i32)t; q < stop; q += 512) {
      const i32 j1 = q;
      __align__(16) float y1[4];
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const float n0 = element_at(b0, ((i64)row * (i64)n + (i64)q) * 4 + (i64)v);
        y1[v] = n0;
      }
      if (live) {
        storev(p1 + (i0 * (i32)a.w[14] + j1 * 4), y1);
      }
    }
  }
}
