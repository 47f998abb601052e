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
extern "C" __global__ void __launch_bounds__(256) scan(THALWEG_PARAMETER(17)) {
  begin();
  const i64 rows = (i64)a.w[2];
  const i64 n = (i64)a.w[3];
  const u32 width = (u32)a.w[6];
  const u32 t = threadIdx.x;
  const u32 parts = (u32)a.w[7];
  const u32 part = blockIdx.x % parts;
  const i64 first = (i64)part * 2048;
  float *const elements = (float *)a.w[14];
  __shared__ u32 keys[2176];
  __shared__ u32 places[2176];
  __align__(16) u32 key[8];
  __align__(16) u32 place[8];
  const i64 tile = (i64)(blockIdx.x / parts) * (i64)(2048u >> width);
  float *const from = (float *)a.w[0];
  __align__(16) float loaded[8];
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    const u32 s = t + k * 256u;
    if (tile + (i64)(s >> width) < rows && first + (i64)(s & (1u << width) - 1u) < n) {
      loaded[k] = element_at(from, (tile + (i64)(s >> width)) * (i64)a.w[4] + (first + (i64)(s & (1u << width) - 1u)) * (i64)a.w[5]);
    }
  }
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    const u32 s = t + k * 256u;
    u32 found = 4294967295u;
    if (tile + (i64)(s >> width) < rows && first + (i64)(s & (1u << width) - 1u) < n) {
      found = (loaded[k] != loaded[k]) ? 4294967295u : ((loaded[k] == 0.0f) ? 2147483648u : ((u32)f32_bits(loaded[k]) >= 2147483648u ? (u32)f32_bits(loaded[k]) ^ 4294967295u : (u32)f32_bits(loaded[k]) | 2147483648u));
      if (a.w[14] != a.w[0]) {
        set_at(elements, (tile + (i64)(s >> width)) * n + (first + (i64)(s & (1u << width) - 1u)), (float)loaded[k]);
      }
    }
    keys[s + s / 16u] = found;
    places[s + s / 16u] = (u32)(first + (i64)(s & (1u << width) - 1u));
  }
  __syncthreads();
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    key[k] = keys[t * 8u + k + (t * 8u + k) / 16u];
    place[k] = places[t * 8u + k + (t * 8u + k) / 16u];
  }
  #pragma unroll
  for (i32 turn = 0; turn < 8; turn++) {
    #pragma unroll
    for (i32 k = turn % 2; k < 7; k += 2) {
      const bool swap = key[k + 1] < key[k];
      const u32 low = swap ? key[k + 1] : key[k];
      const u32 low_place = swap ? place[k + 1] : place[k];
      key[k + 1] = swap ? key[k] : key[k + 1];
      place[k + 1] = swap ? place[k] : place[k + 1];
      key[k] = low;
      place[k] = low_place;
    }
  }
  {
    __syncthreads();
    #pragma unroll
    for (u32 k_1 = 0u; k_1 < 8u; k_1++) {
      keys[t * 8u + k_1 + (t * 8u + k_1) / 16u] = key[k_1];
      places[t * 8u + k_1 + (t * 8u + k_1) / 16u] = place[k_1];
    }
    __syncthreads();
  }
  u32 run = 8u;
  while (run < 1u << width) {
    const u32 pair = t * 8u & (2u * run - 1u ^ 4294967295u);
    {
      const u32 wanted_2 = t * 8u - pair;
      const u32 end_2 = run + run;
      const u32 middle_2 = pair + run;
      const u32 d_2 = wanted_2 < end_2 ? wanted_2 : end_2;
      u32 l_2;
      {
        l_2 = run < d_2 ? d_2 - run : 0u;
        u32 high_3 = d_2 < run ? d_2 : run;
        while (l_2 < high_3) {
          const u32 m_3 = l_2 + (high_3 - l_2) / 2u;
          if (keys[pair + m_3 + (pair + m_3) / 16u] <= keys[middle_2 + (d_2 - 1u - m_3) + (middle_2 + (d_2 - 1u - m_3)) / 16u]) {
            l_2 = m_3 + 1u;
          } else {
            high_3 = m_3;
          }
        }
      }
      u32 r_2 = d_2 - l_2;
      #pragma unroll
      for (u32 k_2 = 0u; k_2 < 8u; k_2++) {
        key[k_2] = 0u;
        place[k_2] = 0u;
        if (d_2 + k_2 < end_2) {
          const bool left_2 = run <= r_2 || l_2 < run && keys[pair + l_2 + (pair + l_2) / 16u] <= keys[middle_2 + r_2 + (middle_2 + r_2) / 16u];
          const u32 at_2 = (left_2 ? pair + l_2 : middle_2 + r_2) + (left_2 ? pair + l_2 : middle_2 + r_2) / 16u;
          if (left_2) {
            l_2 = l_2 + 1u;
          } else {
            r_2 = r_2 + 1u;
          }
          key[k_2] = keys[at_2];
          place[k_2] = places[at_2];
        }
      }
    }
    {
      __syncthreads();
      #pragma unroll
      for (u32 k_4 = 0u; k_4 < 8u; k_4++) {
        keys[t * 8u + k_4 + (t * 8u + k_4) / 16u] = key[k_4];
        places[t * 8u + k_4 + (t * 8u + k_4) / 16u] = place[k_4];
      }
      __syncthreads();
    }
    run = run + run;
  }
  if (a.w[9] == 0ull) {
    u32 *const next_keys = (u32 *)a.w[10];
    u32 *const next_places = (u32 *)a.w[11];
    #pragma unroll
    for (u32 k = 0u; k < 8u; k++) {
      const u32 s = t + k * 256u;
      if (tile + (i64)(s >> width) < rows && first + (i64)(s & (1u << width) - 1u) < n) {
        set_at(next_keys, (tile + (i64)(s >> width)) * n + (first + (i64)(s & (1u << width) - 1u)), (u32)keys[s + s / 16u]);
        set_at(next_places, (tile + (i64)(s >> width)) * n + (first + (i64)(s & (1u << width) - 1u)), (u32)places[s + s / 16u]);
      }
    }
    return;
  }
  float *const to = (float *)a.w[1];
  __align__(16) float out[8];
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    const u32 s = t + k * 256u;
    if (tile + (i64)(s >> width) < rows && first + (i64)(s & (1u << width) - 1u) < n) {
      out[k] = element_at(elements, (tile + (i64)(s >> width)) * (i64)a.w[15] + (i64)places[s + s / 16u] * (i64)a.w[16]);
    }
  }
  __syncthreads();
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    const u32 s = t + k * 256u;
    if (tile + (i64)(s >> width) < rows && first + (i64)(s & (1u << width) - 1u) < n) {
      set_at(to, (tile + (i64)(s >> width)) * (i64)a.w[4] + (first + (i64)(s & (1u << width) - 1u)) * (i64)a.w[5], (float)out[k]);
    }
  }
}

// options: -fmad=false

// Scan of rows in memory: Sort of f32, merges of sorted runs.
extern "C" __global__ void __launch_bounds__(256) scan(THALWEG_PARAMETER(17)) {
  begin();
  const i64 rows = (i64)a.w[2];
  const i64 n = (i64)a.w[3];
  const u32 width = (u32)a.w[6];
  const u32 t = threadIdx.x;
  const u32 parts = (u32)a.w[7];
  const u32 part = blockIdx.x % parts;
  const i64 first = (i64)part * 2048;
  float *const elements = (float *)a.w[14];
  __shared__ u32 keys[2176];
  __shared__ u32 places[2176];
  __align__(16) u32 key[8];
  __align__(16) u32 place[8];
  const i64 tile = (i64)(blockIdx.x / parts);
  const i64 run = (i64)a.w[8];
  const i64 pair = first / (2 * run) * (2 * run);
  const i64 rest = n - pair;
  const i64 left_count = rest < run ? rest : run;
  const i64 right_count = rest - left_count < run ? rest - left_count : run;
  u32 *const run_keys = (u32 *)a.w[10];
  u32 *const run_places = (u32 *)a.w[11];
  const i64 left = tile * n + pair;
  const i64 right = left + left_count;
  const i64 begins = first - pair;
  const i64 ends = begins + 2048 < left_count + right_count ? begins + 2048 : left_count + right_count;
  __shared__ i64 bounds[2];
  if (t % 32u == 0u && t < 64u) {
    i64 bound;
    {
      const i64 d_1 = t == 0u ? begins : ends;
      bound = right_count < d_1 ? d_1 - right_count : 0;
      i64 high_1 = d_1 < left_count ? d_1 : left_count;
      while (bound < high_1) {
        const i64 m_1 = bound + (high_1 - bound) / 2;
        if (element_at(run_keys, left + m_1) <= element_at(run_keys, right + (d_1 - 1 - m_1))) {
          bound = m_1 + 1;
        } else {
          high_1 = m_1;
        }
      }
    }
    bounds[t / 32u] = bound;
  }
  __syncthreads();
  const i64 from_left = left + bounds[0];
  const i64 from_right = right + begins - bounds[0];
  const u32 here = (u32)(bounds[1] - bounds[0]);
  const u32 count = (u32)(ends - begins);
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    const u32 s = t + k * 256u;
    if (s < count) {
      key[k] = element_at(run_keys, s < here ? from_left + (i64)s : from_right + (i64)(s - here));
      place[k] = element_at(run_places, s < here ? from_left + (i64)s : from_right + (i64)(s - here));
    }
  }
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    const u32 s = t + k * 256u;
    if (s < count) {
      keys[s + s / 16u] = key[k];
      places[s + s / 16u] = place[k];
    }
  }
  __syncthreads();
  {
    const u32 right_count_2 = count - here;
    const u32 wanted_2 = t * 8u;
    const u32 end_2 = here + right_count_2;
    const u32 middle_2 = here;
    const u32 d_2 = wanted_2 < end_2 ? wanted_2 : end_2;
    u32 l_2;
    {
      l_2 = right_count_2 < d_2 ? d_2 - right_count_2 : 0u;
      u32 high_3 = d_2 < here ? d_2 : here;
      while (l_2 < high_3) {
        const u32 m_3 = l_2 + (high_3 - l_2) / 2u;
        if (keys[m_3 + m_3 / 16u] <= keys[middle_2 + (d_2 - 1u - m_3) + (middle_2 + (d_2 - 1u - m_3)) / 16u]) {
          l_2 = m_3 + 1u;
        } else {
          high_3 = m_3;
        }
      }
    }
    u32 r_2 = d_2 - l_2;
    #pragma unroll
    for (u32 k_2 = 0u; k_2 < 8u; k_2++) {
      key[k_2] = 0u;
      place[k_2] = 0u;
      if (d_2 + k_2 < end_2) {
        const bool left_2 = right_count_2 <= r_2 || l_2 < here && keys[l_2 + l_2 / 16u] <= keys[middle_2 + r_2 + (middle_2 + r_2) / 16u];
        const u32 at_2 = (left_2 ? l_2 : middle_2 + r_2) + (left_2 ? l_2 : middle_2 + r_2) / 16u;
        if (left_2) {
          l_2 = l_2 + 1u;
        } else {
          r_2 = r_2 + 1u;
        }
        key[k_2] = keys[at_2];
        place[k_2] = places[at_2];
      }
    }
  }
  {
    __syncthreads();
    #pragma unroll
    for (u32 k_4 = 0u; k_4 < 8u; k_4++) {
      keys[t * 8u + k_4 + (t * 8u + k_4) / 16u] = key[k_4];
      places[t * 8u + k_4 + (t * 8u + k_4) / 16u] = place[k_4];
    }
    __syncthreads();
  }
  if (a.w[9] == 0ull) {
    u32 *const next_keys = (u32 *)a.w[12];
    u32 *const next_places = (u32 *)a.w[13];
    #pragma unroll
    for (u32 k = 0u; k < 8u; k++) {
      const u32 s = t + k * 256u;
      if (tile + (i64)(s >> width) < rows && first + (i64)(s & (1u << width) - 1u) < n) {
        set_at(next_keys, (tile + (i64)(s >> width)) * n + (first + (i64)(s & (1u << width) - 1u)), (u32)keys[s + s / 16u]);
        set_at(next_places, (tile + (i64)(s >> width)) * n + (first + (i64)(s & (1u << width) - 1u)), (u32)places[s + s / 16u]);
      }
    }
    return;
  }
  float *const to = (float *)a.w[1];
  __align__(16) float out[8];
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    const u32 s = t + k * 256u;
    if (tile + (i64)(s >> width) < rows && first + (i64)(s & (1u << width) - 1u) < n) {
      out[k] = element_at(elements, (tile + (i64)(s >> width)) * (i64)a.w[15] + (i64)places[s + s / 16u] * (i64)a.w[16]);
    }
  }
  __syncthreads();
  #pragma unroll
  for (u32 k = 0u; k < 8u; k++) {
    const u32 s = t + k * 256u;
    if (tile + (i64)(s >> width) < rows && first + (i64)(s & (1u << width) - 1u) < n) {
      set_at(to, (tile + (i64)(s >> width)) * (i64)a.w[4] + (first + (i64)(s & (1u << width) - 1u)) * (i64)a.w[5], (float)out[k]);
    }
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
