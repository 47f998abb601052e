// options: --gpu-architecture=sm_90a

// Contraction of bf16 by two pairs of warpgroups in turns, fed: tiles of 128 times 128, 4 steps ahead.
#ifndef THALWEG_EMULATED
template <bool F16, bool TA, bool TB, int N> FN void warpgroup_multiply(float (&d)[16][4], Matrix a, Matrix b, u32 keep) {
  asm volatile("{.reg .pred p;\n.reg .b64 x, y;\nmov.b64 x, {%64, %65};\nmov.b64 y, {%66, %67};\nsetp.ne.b32 p, %68, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, x, y, p, 1, 1, 0, 0;}" : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]), "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]), "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3]) : "r"(a.place), "r"(a.form), "r"(b.place), "r"(b.form), "r"(keep) : "memory");
}
#endif
extern "C" __global__ void __launch_bounds__(640, 1) contraction(THALWEG_PARAMETER_LINES(64)) {
  begin();
  THALWEG_SHARED_LINES(shared);
  const i64 m = (i64)a.w[0], n = (i64)a.w[1];
  const u32 t = threadIdx.x, group = same_in_warp(t / 128), team = group / 2, tiles = (u32)a.w[6];
  const i32 steps = (i32)(((i64)a.w[2] + 63) / 64);
  u16 *const s0 = (u16 *)shared, *const s1 = s0 + 32768;
  Barrier *const full = (Barrier *)(shared + 204800), *const empty = full + 4, *const turns = empty + 4;
  if (t == 0) {
    for (int s = 0; s < 4; s++) barrier_start(full + s, 1);
    // Each warp says for itself what it has seen and is done with.
    for (int s = 0; s < 4 + 2; s++) barrier_start(empty + s, 8);
    barriers_started();
  }
  __syncthreads();
  // Steps of all tiles of the block go round the places in shared memory.
  u32 slot = 0, phase = 0;
  if (team == 2) {
    registers_less<24>();
    if (t % 128) return;
    map_ahead(&a.w[16]);
    map_ahead(&a.w[32]);
    for (u32 at = blockIdx.x; at < tiles; at += gridDim.x) {
      const u32 high = (u32)a.w[3];
      const u32 wide = (u32)a.w[4];
      const u32 product = at / (high * wide);
      const u32 tile = at % (high * wide);
      const u32 first = tile / (8u * wide) * 8u;
      const u32 rows = high - first < 8u ? high - first : 8u;
      const u32 within = tile - first * wide;
      const i64 row0 = (i64)(first + within % rows) * 128;
      const i64 column0 = (i64)(within / rows) * 128;
      u32 rest = product, batch0 = 0, batch1 = 0;
      { const Split s = split(rest, a.w[7], a.w[8]); rest = s.q; batch0 += (u32)s.r * (u32)a.w[9]; batch1 += (u32)s.r * (u32)a.w[10]; }
      for (i32 i = 0; i < steps; i++) {
        barrier_wait(empty + slot, phase ^ 1);
        barrier_expect(full + slot, 32768);
        {
          const i32 at0[3] = {(i32)(i * 64 + 0), (i32)(row0 + 0), (i32)(batch0)};
          map_copy(s0 + slot * 8192 + 0, &a.w[16], full + slot, at0);
        }
        {
          const i32 at0[3] = {(i32)(i * 64 + 0), (i32)(column0 + 0), (i32)(batch1)};
          map_copy(s1 + slot * 8192 + 0, &a.w[32], full + slot, at0);
        }
        if (++slot == 4) { slot = 0; phase ^= 1; }
      }
    }
    return;
  }
  registers_more<112>();
  for (u32 at = blockIdx.x, own = 0; at < tiles; at += gridDim.x, own++) {
    // Tiles go to the two teams in turns.
    if (own % 2 != team) {
      const u32 behind = slot + (u32)steps;
      phase ^= behind / 4 & 1;
      slot = behind % 4;
      continue;
    }
    const u32 high = (u32)a.w[3];
    const u32 wide = (u32)a.w[4];
    const u32 product = at / (high * wide);
    const u32 tile = at % (high * wide);
    const u32 first = tile / (8u * wide) * 8u;
    const u32 rows = high - first < 8u ? high - first : 8u;
    const u32 within = tile - first * wide;
    const i64 row0 = (i64)(first + within % rows) * 128;
    const i64 column0 = (i64)(within / rows) * 128;
    const i64 warp_row = row0 + group % 2 * 64 + t / 32 % 4 * 16;
    float sum[1][16][4];
    Barrier *before = empty;
    // A barrier tells a phase from the next, not from the one behind that: a team looks at no step before all warps of the
    // other have seen all of its own.
    barrier_wait(turns + team, (own / 2 & 1) ^ (team == 0));
    for (i32 i = 0; i < steps; i++) {
      barrier_wait(full + slot, phase);
      if (i + 1 == steps) {
        __syncwarp();
        if (t % 32 == 0) barrier_arrive(turns + (team ^ 1));
      }
      {
        const Matrix x = matrix(s0 + slot * 8192, 8192, 1024), y = matrix(s1 + slot * 8192, 8192, 1024);
        warpgroup_fence();
        #pragma unroll
        for (int p = 0; p < 4; p++) {
          warpgroup_multiply<false, false, false, 128>(sum[0], further(x, group % 2 * 8192 + 0 + p * 32), further(y, p * 32), i > 0 || p > 0);
        }
        warpgroup_commit();
      }
      // What the step before has read may be written over.
      if (i > 0) {
        warpgroup_wait<1>();
        if (t % 32 == 0) barrier_arrive(before);
      }
      before = empty + slot;
      if (++slot == 4) { slot = 0; phase ^= 1; }
    }
    warpgroup_wait<0>();
    if (t % 32 == 0) barrier_arrive(before);
    u16 *const p1 = (u16 *)a.w[55];
    auto &sums = *(float (*)[32][1152])(shared + 131072);
    #pragma unroll 1
    for (i32 pass = 0; pass < 2; pass++) {
      __syncwarp();
      switch (pass) {
        case 0: hand_on<72, 8>(sums[t / 32u], sum[0], 0);
        break;
        case 1: hand_on<72, 8>(sums[t / 32u], sum[0], 8);
        break;
      }
      __syncwarp();
      const i32 most = n - (column0 + (i64)(pass % 2 * 64)) < 64 ? (i32)(n - (column0 + (i64)(pass % 2 * 64))) : 64;
      for (u32 first_line = 0u; first_line < 16u; first_line += 4u) {
        __align__(16) i64 to[4];
        __align__(16) float taken[4][1][2];
        __align__(16) i32 last[4];
        #pragma unroll
        for (u32 o = 0u; o < 4u; o++) {
          const u32 line = first_line + o;
          const i32 x = (i32)(warp_row + (i64)(pass / 2 * 64)) + (i32)line;
          const i32 y = (i32)(column0 + (i64)(pass % 2 * 64));
          const i32 row = x;
          const i32 column = y;
          const bool there = x < (i32)m;
          const i32 i0 = row;
          const i32 i1 = column;
          const i64 begin = (i64)(i0 * (i32)a.w[56] + i1 * 1);
          const u32 odd = (u32)((a.w[55] / 2ull + (u64)begin) % 2ull);
          const u32 first = t % 32u * 2u + odd;
          to[o] = begin + (i64)first;
          last[o] = there ? most - (i32)first - 1 : 0;
          #pragma unroll
          for (u32 c = 0u; c < 1u; c++) {
            taken[o][c][0] = sums[t / 32u][line * 72u + first + c * 64u];
            taken[o][c][1] = sums[t / 32u][line * 72u + first + c * 64u + 1u];
          }
        }
        #pragma unroll
        for (u32 o = 0u; o < 4u; o++) {
          #pragma unroll
          for (u32 c = 0u; c < 1u; c++) {
            __align__(16) u16 z[2];
            #pragma unroll
            for (i32 v = 0; v < 2; v++) {
              const float own = taken[o][c][v];
              const float n0 = own;
              const float n1 = round_bf16((float)n0);
              z[v] = bits_bf16(n1);
            }
            const i64 there_to = to[o] + (i64)(c * 64u);
            if ((i32)(c * 64u) < last[o]) {
              storev(p1 + there_to, z);
            }
          }
        }
      }
      for (u32 e = t % 32u; e < 32u; e += 32u) {
        const u32 line = e / 2u;
        const i32 x = (i32)(warp_row + (i64)(pass / 2 * 64)) + (i32)line;
        const i32 y = (i32)(column0 + (i64)(pass % 2 * 64));
        const i32 row = x;
        const i32 column = y;
        const bool there = x < (i32)m;
        const i32 i0 = row;
        const i32 i1 = column;
        const i64 begin = (i64)(i0 * (i32)a.w[56] + i1 * 1);
        const u32 odd = (u32)((a.w[55] / 2ull + (u64)begin) % 2ull);
        const i32 at = e % 2u == 1u ? most - 1 : 0;
        const bool alone = e % 2u == 1u ? (most - (i32)odd) % 2 == 1 : odd == 1u;
        const float own = sums[t / 32u][line * 72u + (u32)(at < 0 ? 0 : at)];
        const float n0 = own;
        const float n1 = round_bf16((float)n0);
        if (there && alone && 0 < most) {
          store1(p1 + (begin + (i64)at), bits_bf16(n1));
        }
      }
    }
  }
}
