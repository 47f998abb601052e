// options:

// Rows along: 512 threads each, read in every pass. Phase 0, several blocks a row.
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(16)) {
  begin();
  float *const p0 = (float *)a.w[8];
  i64 *const p1 = (i64 *)a.w[10];
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
  float *const b0 = (float *)a.w[13];
  i64 *const b1 = (i64 *)a.w[14];
  {
    #pragma unroll 4
    for (i32 q = begin + (i32)t; q < stop; q += 512) {
      const i32 j0 = q;
      __align__(16) float r0[4];
      loadv(r0, p0 + j0 * 4);
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

// Scan of rows in memory: Argsort of f32, digits counted.
extern "C" __global__ void __launch_bounds__(256) scan(THALWEG_PARAMETER(14)) {
  begin();
  const u32 n = (u32)a.w[3];
  const u32 tiles = (u32)a.w[6];
  const u32 t = threadIdx.x;
  const u32 lane = t % 32u;
  const u32 warp = t / 32u;
  __shared__ u32 sums[8];
  float *const from = (float *)a.w[0];
  const u32 shares = (u32)a.w[7];
  const u32 row = blockIdx.x / shares;
  const u32 share = blockIdx.x % shares;
  const i64 begin = (i64)row * (i64)a.w[4];
  __shared__ u32 counts[4096];
  for (u32 i = t; i < 4096u; i += 256u) {
    counts[i] = 0u;
  }
  __syncthreads();
  __align__(16) u32 latest[4];
  __align__(16) u32 again[4];
  #pragma unroll
  for (u32 p = 0u; p < 4u; p++) {
    latest[p] = 0u;
    again[p] = 0u;
  }
  for (u32 tile = share; tile < tiles; tile += shares) {
    __align__(16) float raw[16];
    #pragma unroll
    for (u32 k = 0u; k < 16u; k++) {
      if (tile * 4096u + k * 256u + t < n) {
        raw[k] = element_at(from, begin + (i64)(tile * 4096u + k * 256u + t) * (i64)a.w[5]);
      }
    }
    #pragma unroll
    for (u32 k = 0u; k < 16u; k++) {
      if (tile * 4096u + k * 256u + t < n) {
        const u32 key = (raw[k] != raw[k]) ? 4294967295u : ((raw[k] == 0.0f) ? 2147483648u : ((u32)f32_bits(raw[k]) >= 2147483648u ? (u32)f32_bits(raw[k]) ^ 4294967295u : (u32)f32_bits(raw[k]) | 2147483648u));
        #pragma unroll
        for (u32 p = 0u; p < 4u; p++) {
          const u32 digit = p < 4u ? key >> 8u * p & 255u : 0u;
          atomicAdd((u32 *)(counts + ((p * 4u + t % 4u) * 256u + digit)), (u32)1u);
        }
      }
    }
  }
  __syncthreads();
  u32 *const counters = (u32 *)a.w[13];
  #pragma unroll
  for (u32 p = 0u; p < 4u; p++) {
    u32 count = 0u;
    #pragma unroll
    for (u32 c = 0u; c < 4u; c++) {
      count = count + counts[(p * 4u + c) * 256u + t];
    }
    if (0u < count) {
      atomicAdd((u32 *)(counters + (row * 1024u + p * 256u + t)), (u32)count);
    }
  }
  __threadfence();
  __syncthreads();
  __shared__ u32 last[1];
  if (t == 0u) {
    const u32 through = (u32)a.w[2] * 1024u + row;
    const u32 before = atomicAdd((u32 *)(counters + through), (u32)1u);
    if (before == shares - 1u) {
      set_at(counters, through, (u32)0u);
    }
    last[0] = before == shares - 1u ? 1u : 0u;
    __threadfence();
  }
  __syncthreads();
  if (last[0] == 1u) {
    u32 *const starts = (u32 *)a.w[8];
    u32 many = 0u;
    #pragma unroll
    for (u32 p = 0u; p < 4u; p++) {
      const u32 count = atomicExch((u32 *)(counters + (row * 1024u + p * 256u + t)), (u32)0u);
      u32 up_to = count;
      {
        #pragma unroll
        for (u32 b_1 = 0u; b_1 < 5u; b_1++) {
          const u32 o_1 = 1u << b_1;
          const u32 other_1 = __shfl_up_sync(0xffffffffu, up_to, o_1);
          if (o_1 <= lane) {
            up_to = up_to + other_1;
          }
        }
        if (lane == 31u) {
          sums[warp] = up_to;
        }
        __syncthreads();
        for (u32 w_1 = 0u; w_1 < warp; w_1++) {
          up_to = up_to + sums[w_1];
        }
      }
      set_at(starts, (i64)row * 1028 + (i64)(p * 256u + t), (u32)(up_to - count));
      const bool same = (__syncthreads_or(count == n) != 0);
      if (!same) {
        many = many | 1u << p;
      }
    }
    u32 p = 0u;
    while ((u32)__popc(many) < 2u) {
      many = many | 1u << p;
      p = p + 1u;
    }
    if (t < 4u) {
      const u32 before = (u32)__popc(many & (1u << t) - 1u);
      const u32 count = (u32)__popc(many);
      const u32 whence = before == 0u ? 1u : (before % 2u == 1u ? 2u : 3u);
      const u32 whither = before + 1u == count ? 4u : (before % 2u == 1u ? 3u : 2u);
      set_at(starts, (i64)row * 1028 + (i64)(1024u + t), (u32)((many >> t & 1u) == 1u ? whence | whither << 16u : 0u));
    }
  }
}

// options: -fmad=false

// Scan of rows in memory: Argsort of f32, moved to where its digit is.
extern "C" __global__ void __launch_bounds__(256) scan(THALWEG_PARAMETER(14)) {
  begin();
  const u32 n = (u32)a.w[3];
  const u32 tiles = (u32)a.w[6];
  const u32 t = threadIdx.x;
  const u32 lane = t % 32u;
  const u32 warp = t / 32u;
  __shared__ u32 sums[8];
  float *const from = (float *)a.w[0];
  const u32 pass = (u32)a.w[7];
  __shared__ float elements[4096];
  __shared__ u32 numbers[4096];
  __shared__ u32 counts[8][256];
  __shared__ u32 local[256];
  __shared__ u32 begins[256];
  u64 *const own_words = (u64 *)a.w[13];
  __shared__ u64 own_drawn;
  const Ticket own = ticket(own_words, &own_drawn);
  const u32 row = own.number / tiles;
  const u32 tile = own.number % tiles;
  const u32 *const starts = (const u32 *)a.w[8];
  const u32 way = load1(starts + ((i64)row * 1028 + (i64)(1024u + pass)));
  const u32 whence = way & 65535u;
  const u32 whither = way >> 16u;
  if (way == 0u) {
    return;
  }
  float *const first_elements = (float *)a.w[9];
  float *const second_elements = (float *)a.w[10];
  u32 *const first_numbers = (u32 *)a.w[11];
  u32 *const second_numbers = (u32 *)a.w[12];
  const i64 line = (i64)row * (i64)n;
  const u32 first = tile * 4096u;
  const u32 stretch = warp * 512u;
  const u32 count = n - first < 4096u ? n - first : 4096u;
  __align__(16) float raw[16];
  __align__(16) u32 number[16];
  __align__(16) u32 digit[16];
  __align__(16) u32 rank[16];
  if (whence == 1u) {
    #pragma unroll
    for (u32 k = 0u; k < 16u; k++) {
      if (stretch + 32u * k + lane < count) {
        raw[k] = element_at(from, (i64)row * (i64)a.w[4] + (i64)(first + (stretch + 32u * k + lane)) * (i64)a.w[5]);
      }
      number[k] = first + (stretch + 32u * k + lane);
    }
  } else {
    if (whence == 3u) {
      {
        #pragma unroll
        for (u32 k_1 = 0u; k_1 < 16u; k_1++) {
          if (stretch + 32u * k_1 + lane < count) {
            raw[k_1] = element_at(second_elements, line + (i64)(first + (stretch + 32u * k_1 + lane)));
            number[k_1] = element_at(second_numbers, line + (i64)(first + (stretch + 32u * k_1 + lane)));
          }
        }
      }
    } else {
      {
        #pragma unroll
        for (u32 k_2 = 0u; k_2 < 16u; k_2++) {
          if (stretch + 32u * k_2 + lane < count) {
            raw[k_2] = element_at(first_elements, line + (i64)(first + (stretch + 32u * k_2 + lane)));
            number[k_2] = element_at(first_numbers, line + (i64)(first + (stretch + 32u * k_2 + lane)));
          }
        }
      }
    }
  }
  #pragma unroll
  for (u32 w = 0u; w < 8u; w++) {
    counts[w][t] = 0u;
  }
  __syncthreads();
  #pragma unroll
  for (u32 k = 0u; k < 16u; k++) {
    digit[k] = stretch + 32u * k + lane < count ? (pass < 4u ? ((raw[k] != raw[k]) ? 4294967295u : ((raw[k] == 0.0f) ? 2147483648u : ((u32)f32_bits(raw[k]) >= 2147483648u ? (u32)f32_bits(raw[k]) ^ 4294967295u : (u32)f32_bits(raw[k]) | 2147483648u))) >> 8u * pass & 255u : 0u) : 0u;
  }
  #pragma unroll
  for (u32 k = 0u; k < 16u; k++) {
    const bool inside = stretch + 32u * k + lane < count;
    u32 same = __ballot_sync(0xffffffffu, inside);
    #pragma unroll
    for (u32 bit = 0u; bit < 8u; bit++) {
      const bool one = (digit[k] >> bit & 1u) == 1u;
      const u32 with_one = __ballot_sync(0xffffffffu, one);
      same = same & (one ? with_one : with_one ^ 4294967295u);
    }
    const u32 below = (u32)__popc(same & (1u << lane) - 1u);
    const u32 before = counts[warp][digit[k]];
    __syncwarp();
    if (inside && below == 0u) {
      counts[warp][digit[k]] = before + (u32)__popc(same);
    }
    __syncwarp();
    rank[k] = before + below;
  }
  __syncthreads();
  u32 total = 0u;
  #pragma unroll
  for (u32 w = 0u; w < 8u; w++) {
    const u32 of_warp = counts[w][t];
    counts[w][t] = total;
    total = total + of_warp;
  }
  const u32 before = tiles_before(own_words + 8 + (u64)own.number * 256ull + (u64)t, own.tag, tile, total);
  u32 here = total;
  {
    #pragma unroll
    for (u32 b_3 = 0u; b_3 < 5u; b_3++) {
      const u32 o_3 = 1u << b_3;
      const u32 other_3 = __shfl_up_sync(0xffffffffu, here, o_3);
      if (o_3 <= lane) {
        here = here + other_3;
      }
    }
    if (lane == 31u) {
      sums[warp] = here;
    }
    __syncthreads();
    for (u32 w_3 = 0u; w_3 < warp; w_3++) {
      here = here + sums[w_3];
    }
  }
  local[t] = here - total;
  begins[t] = load1(starts + ((i64)row * 1028 + (i64)(pass * 256u + t))) + before - (here - total);
  __syncthreads();
  #pragma unroll
  for (u32 k = 0u; k < 16u; k++) {
    if (stretch + 32u * k + lane < count) {
      const u32 at = local[digit[k]] + counts[warp][digit[k]] + rank[k];
      elements[at] = raw[k];
      numbers[at] = number[k];
    }
  }
  __syncthreads();
  if (whither == 4u) {
    i64 *const to = (i64 *)a.w[1];
    #pragma unroll
    for (u32 k = 0u; k < 16u; k++) {
      const u32 s = k * 256u + t;
      if (s < count) {
        const i64 at = (i64)row * (i64)a.w[4] + (i64)(begins[pass < 4u ? ((elements[s] != elements[s]) ? 4294967295u : ((elements[s] == 0.0f) ? 2147483648u : ((u32)f32_bits(elements[s]) >= 2147483648u ? (u32)f32_bits(elements[s]) ^ 4294967295u : (u32)f32_bits(elements[s]) | 2147483648u))) >> 8u * pass & 255u : 0u] + s) * (i64)a.w[5];
        set_at(to, at, (i64)(i64)numbers[s]);
      }
    }
  } else {
    if (whither == 3u) {
      {
        #pragma unroll
        for (u32 k_4 = 0u; k_4 < 16u; k_4++) {
          const u32 s_4 = k_4 * 256u + t;
          if (s_4 < count) {
            const i64 at_4 = line + (i64)(begins[pass < 4u ? ((elements[s_4] != elements[s_4]) ? 4294967295u : ((elements[s_4] == 0.0f) ? 2147483648u : ((u32)f32_bits(elements[s_4]) >= 2147483648u ? (u32)f32_bits(elements[s_4]) ^ 4294967295u : (u32)f32_bits(elements[s_4]) | 2147483648u))) >> 8u * pass & 255u : 0u] + s_4);
            set_at(second_elements, at_4, (float)elements[s_4]);
            set_at(second_numbers, at_4, (u32)numbers[s_4]);
          }
        }
      }
    } else {
      {
        #pragma unroll
        for (u32 k_5 = 0u; k_5 < 16u; k_5++) {
          const u32 s_5 = k_5 * 256u + t;
          if (s_5 < count) {
            const i64 at_5 = line + (i64)(begins[pass < 4u ? ((elements[s_5] != elements[s_5]) ? 4294967295u : ((elements[s_5] == 0.0f) ? 2147483648u : ((u32)f32_bits(elements[s_5]) >= 2147483648u ? (u32)f32_bits(elements[s_5]) ^ 4294967295u : (u32)f32_bits(elements[s_5]) | 2147483648u))) >> 8u * pass & 255u : 0u] + s_5);
            set_at(first_elements, at_5, (float)elements[s_5]);
            set_at(first_numbers, at_5, (u32)numbers[s_5]);
          }
        }
      }
    }
  }
}

// options:

// Rows along: 512 threads each, read in every pass. Phase 1, several blocks a row.
extern "C" __global__ void __launch_bounds__(512) rows(THALWEG_PARAMETER(16)) {
  begin();
  float *const p0 = (float *)a.w[8];
  i64 *const p1 = (i64 *)a.w[10];
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
  float *const b0 = (float *)a.w[13];
  i64 *const b1 = (i64 *)a.w[14];
  {
    #pragma unroll 4
    for (i32 q = begin + (i32)t; q < stop; q += 512) {
      const i32 j0 = q;
      __align__(16) i64 y1[4];
      #pragma unroll
      for (i32 v = 0; v < 4; v++) {
        const i64 n0 = element_at(b1, ((i64)row * (i64)n + (i64)q) * 4 + (i64)v);
        y1[v] = n0;
      }
      if (live) {
        storev(p1 + j0 * 4, y1);
      }
    }
  }
}
