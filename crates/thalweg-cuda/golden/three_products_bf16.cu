// options: --gpu-architecture=sm_90a

// Contraction of bf16 by two pairs of warpgroups in turns, fed: tiles of 128 times 128, 7 steps ahead, columns dealt.
#ifndef THALWEG_EMULATED
template <bool F16, bool TA, bool TB, int N> FN void warpgroup_multiply(float (&d)[16][4], Matrix a, Matrix b, u32 keep) {
  asm volatile("{.reg .pred p;\n.reg .b64 x, y;\nmov.b64 x, {%64, %65};\nmov.b64 y, {%66, %67};\nsetp.ne.b32 p, %68, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, x, y, p, 1, 1, 0, 0;}" : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]), "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]), "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3]) : "r"(a.place), "r"(a.form), "r"(b.place), "r"(b.form), "r"(keep) : "memory");
}
#endif
extern "C" __global__ void __launch_bounds__(640, 1) contraction(THALWEG_PARAMETER_LINES(192)) {
  begin();
  THALWEG_SHARED_LINES(shared);
  auto &s0 = *(u16 (*)[57344])(shared + 0);
  auto &s1 = *(u16 (*)[57344])(shared + 114688);
  auto &full = *(u64 (*)[7])(shared + 229376);
  auto &empty = *(u64 (*)[9])(shared + 229432);
  auto &turns = *(u64 (*)[2])(shared + 229488);
  const i64 m = (i64)a.w[0];
  const i64 n = (i64)a.w[1];
  const u32 t = threadIdx.x;
  const u32 group = __shfl_sync(0xffffffffu, t / 128u, 0u);
  const u32 team = group / 2u;
  const u32 tiles = (u32)a.w[6];
  const i32 steps = (i32)(((i64)a.w[2] + 63) / 64);
  if (t == 0u) {
    for (u32 s = 0u; s < 7u; s++) {
      barrier_start((Barrier *)(full + s), 1);
    }
    for (u32 s = 0u; s < 9u; s++) {
      barrier_start((Barrier *)(empty + s), 8);
    }
    barriers_started();
  }
  __syncthreads();
  u32 slot = 0u;
  u32 phase = 0u;
  if (team == 2u) {
    registers_less<24>();
    if (t % 128u == 0u) {
      map_ahead(&a.w[16]);
      map_ahead(&a.w[32]);
      map_ahead(&a.w[80]);
      map_ahead(&a.w[96]);
      map_ahead(&a.w[144]);
      map_ahead(&a.w[160]);
      for (u32 all = blockIdx.x; all < tiles * 3u; all += gridDim.x) {
        const u32 own_words = all / tiles * 64u;
        const u32 at = all % tiles;
        const u32 high = (u32)a.w[3];
        const u32 wide = (u32)a.w[4];
        const u32 product = at / (high * wide);
        const u32 tile = at % (high * wide);
        const u32 first = tile / (8u * wide) * 8u;
        const u32 rows = high - first < 8u ? high - first : 8u;
        const u32 within = tile - first * wide;
        const i64 row0 = (i64)(first + within % rows) * 128;
        const i64 column0 = (i64)(within / rows) * 128;
        const Split in_batch0 = split(product, a.w[7], a.w[8]);
        const u32 batch0 = in_batch0.r * (u32)a.w[9];
        const u32 batch1 = in_batch0.r * (u32)a.w[10];
        for (i32 i = 0; i < steps; i++) {
          barrier_wait((Barrier *)(empty + slot), phase ^ 1u);
          barrier_expect((Barrier *)(full + slot), 32768u);
          {
            {
              {
                const i32 box[3] = {i * 64, (i32)row0, (i32)batch0};
                map_copy(s0 + slot * 8192u, &a.w[own_words + 16], (Barrier *)(full + slot), box);
              }
            }
          }
          {
            {
              {
                const i32 box[5] = {i * 64, 0, 0, 0, (i32)column0 / 32};
                map_copy(s1 + slot * 8192u, &a.w[own_words + 32], (Barrier *)(full + slot), box);
              }
            }
          }
          slot = slot + 1u;
          if (slot == 7u) {
            slot = 0u;
            phase = phase ^ 1u;
          }
        }
      }
    }
    return;
  }
  registers_more<112>();
  u32 own = 0u;
  for (u32 all = blockIdx.x; all < tiles * 3u; all += gridDim.x) {
    const u32 own_words = all / tiles * 64u;
    const u32 at = all % tiles;
    if (own % 2u != team) {
      const u32 behind = slot + (u32)steps;
      phase = phase ^ behind / 7u & 1u;
      slot = behind % 7u;
    } else {
      const u32 high = (u32)a.w[3];
      const u32 wide = (u32)a.w[4];
      const u32 product = at / (high * wide);
      const u32 tile = at % (high * wide);
      const u32 first = tile / (8u * wide) * 8u;
      const u32 rows = high - first < 8u ? high - first : 8u;
      const u32 within = tile - first * wide;
      const i64 row0 = (i64)(first + within % rows) * 128;
      const i64 column0 = (i64)(within / rows) * 128;
      const i64 warp_row = row0 + (i64)(group % 2u * 64u + t / 32u % 4u * 16u);
      __align__(16) float sum[1][16][4];
      u32 last = 0u;
      barrier_wait((Barrier *)(turns + team), own / 2u & 1u ^ (team == 0u ? 1u : 0u));
      for (i32 i = 0; i < steps; i++) {
        barrier_wait((Barrier *)(full + slot), phase);
        if (i + 1 == steps) {
          __syncwarp();
          if (t % 32u == 0u) {
            barrier_arrive((Barrier *)(turns + (team ^ 1u)));
          }
        }
        {
          const Matrix x = matrix(s0 + slot * 8192u, 8192, 1024);
          const Matrix y = matrix(s1 + slot * 8192u, 8192, 1024);
          warpgroup_fence();
          #pragma unroll
          for (u32 p = 0u; p < 4u; p++) {
            #pragma unroll
            for (u32 part = 0u; part < 1u; part++) {
              const u32 own = group % 2u * 8192u + part * 8192u + p * 32u;
              warpgroup_multiply<false, false, false, 128>(sum[part], further(x, own), further(y, p * 32u), 0 < i || 0u < p);
            }
          }
          warpgroup_commit();
        }
        if (0 < i) {
          warpgroup_wait<1>();
          if (t % 32u == 0u) {
            barrier_arrive((Barrier *)(empty + last));
          }
        }
        last = slot;
        slot = slot + 1u;
        if (slot == 7u) {
          slot = 0u;
          phase = phase ^ 1u;
        }
      }
      warpgroup_wait<0>();
      if (t % 32u == 0u) {
        barrier_arrive((Barrier *)(empty + last));
      }
      {
        u16 *const p1 = (u16 *)a.w[own_words + 55];
        #pragma unroll
        for (i32 pass = 0; pass < 8; pass++) {
          const u32 line = t % 32u / 4u;
          const u32 first_lane = t % 4u * 8u;
          const i32 x = (i32)(warp_row + (i64)(pass / 8 * 64 + pass % 2 * 8)) + (i32)line;
          const i32 y = (i32)(column0 + (i64)(pass / 2 % 4 * 32)) + (i32)first_lane;
          const bool inside = x < (i32)m && y < (i32)n;
          const i32 row = x;
          const i32 column = y / 8;
          const i32 i0 = row;
          const i32 i1 = column;
          __align__(16) u16 y1[8];
          #pragma unroll
          for (i32 v = 0; v < 8; v++) {
            const float n0 = sum[pass / 8][pass / 2 % 4 * 4 + v / 2][pass % 2 * 2 + v % 2];
            const float n1 = round_bf16((float)n0);
            y1[v] = bits_bf16(n1);
          }
          if (inside) {
            storev(p1 + (i0 * (i32)a.w[own_words + 56] + i1 * 8), y1);
          }
        }
      }
    }
    own = own + 1u;
  }
}
