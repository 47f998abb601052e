
// Copies of boxes of a tensor, which the chip makes by itself from a map of it, and barriers in shared memory that such copies and threads come to. The emulator copies
// at once.
#ifdef THALWEG_EMULATED
// Bytes and threads that are missing in this phase, threads that a phase has, and which of two it is.
struct Barrier { i32 bytes; u16 missing; u8 count, phase; };
FN void barrier_turn(Barrier *b) {
  if (b->missing || b->bytes) return;
  b->missing = b->count;
  b->phase ^= 1;
}
FN void barrier_start(Barrier *b, u32 count) { *b = {0, (u16)count, (u8)count, 0}; }
FN void barriers_started() {}
FN void barrier_arrive(Barrier *b) { b->missing--; barrier_turn(b); }
FN void barrier_expect(Barrier *b, u32 bytes) { b->bytes += bytes; barrier_arrive(b); }
FN void barrier_wait(Barrier *b, u32 phase) {
  for (u64 times = 0; *(volatile u8 *)&b->phase == phase; times++) thalweg_look(times);
}
template <int R> FN void map_copy(void *to, const u64 *map, Barrier *b, const i32 (&at)[R]) {
  const u64 wide = map[12], base = (u64)thalweg_runtime.shared;
  u64 lines = 1;
  for (i32 d = 1; d < R; d++) lines *= map[13] >> 16 * (d - 1) & 0xffff;
  for (u64 y = 0; y < lines; y++) {
    bool inside = map[1] == R;
    u64 first = map[0], rest = y;
    for (i32 d = 1; d < R; d++) {
      const u64 many = map[13] >> 16 * (d - 1) & 0xffff;
      const i64 place = at[d] + (i64)(rest % many);
      rest /= many;
      inside = inside && place >= 0 && (u64)place < map[2 + d];
      first += place * map[7 + d];
    }
    for (u64 x = 0; x < wide; x++) {
      const i64 column = at[0] + (i64)x;
      const bool own = inside && column >= 0 && (u64)column < map[2];
      const u64 place = (u64)to - base + (y * wide + x) * 2;
      *(u16 *)(base + (place ^ (place >> 7 & 7) << 4)) = own ? *(const u16 *)(first + column * 2) : 0;
      thalweg_runtime.loaded += own ? 2 : 0;
    }
  }
  b->bytes -= (i32)(wide * lines * 2);
  barrier_turn(b);
}
FN void map_ahead(const u64 *) {}
template <int N> FN void keep(float (&)[N][4]) {}
template <int N> FN void registers_less() {}
template <int N> FN void registers_more() {}
#else
#define THALWEG_PARAMETER_LINES(K) const __grid_constant__ WordLines<K> a
template <int K> struct __align__(128) WordLines { u64 w[K]; };
struct Barrier { u64 x; };
FN void barrier_start(Barrier *b, u32 count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory"); }
FN void barriers_started() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
FN void barrier_arrive(Barrier *b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory"); }
FN void barrier_expect(Barrier *b, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory"); }
// Until the phase of that number is over.
FN void barrier_wait(Barrier *b, u32 phase) {
  asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(shared_address(b)), "r"(phase) : "memory");
}
template <int R> FN void map_copy(void *to, const u64 *map, Barrier *b, const i32 (&at)[R]) {
  const u32 s = shared_address(to), bar = shared_address(b);
  if constexpr (R == 2)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2,%3}], [%4];" ::"r"(s), "l"(map), "r"(at[0]), "r"(at[1]), "r"(bar) : "memory");
  else if constexpr (R == 3)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2,%3,%4}], [%5];" ::"r"(s), "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(bar) : "memory");
  else if constexpr (R == 4)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2,%3,%4,%5}], [%6];" ::"r"(s), "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(bar) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2,%3,%4,%5,%6}], [%7];" ::"r"(s), "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(bar) : "memory");
}
// What was under way until now is not used before.
template <int N> FN void keep(float (&x)[N][4]) {
#pragma unroll
  for (int j = 0; j < N; j++) asm volatile("" : "+f"(x[j][0]), "+f"(x[j][1]), "+f"(x[j][2]), "+f"(x[j][3])::"memory");
}
FN void map_ahead(const u64 *map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
template <int N> FN void registers_less() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> FN void registers_more() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
#endif
// A number that is the same in all threads of a warp, said so that the compiler knows: what follows from it is in uniform registers then.
FN u32 same_in_warp(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }
// The sums of eight columns J times, from that one of the eights on, to lines of P elements: 16 rows of a warp.
template <int P, int J, int N> FN void hand_on(float *to, const float (&sum)[N][4], int first) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < J; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) to[(lane / 4 + e / 2 * 8) * P + j * 8 + lane % 4 * 2 + e % 2] = sum[first + j][e];
}
// A row of B times 32 elements, of which each of four threads has eight side by side of every 32, to memory, wherever it begins: by whole 16 bytes of memory, and what is before the
// first and behind the last of them one by one.
template <int B> FN void store_dealt(u16 *row, const u32 (&own)[B][4], bool there) {
  const u32 q = threadIdx.x % 4, before = (8 - (u32)((u64)row / 2 % 8)) % 8, next = threadIdx.x % 32 - q + (q + 1) % 4;
#pragma unroll
  for (int b = 0; b < B; b++) {
    // Of the thread behind this one, what it has behind that.
    u32 x[8], y[6], z[5];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      x[i] = own[b][i];
      x[i + 4] = __shfl_sync(0xffffffffu, q == 0 ? own[b + 1 < B ? b + 1 : b][i] : own[b][i], next);
    }
#pragma unroll
    for (int i = 0; i < 6; i++) y[i] = before & 4 ? x[i + 2] : x[i];
#pragma unroll
    for (int i = 0; i < 5; i++) z[i] = before & 2 ? y[i + 1] : y[i];
    __align__(16) u32 to[4];
#pragma unroll
    for (int i = 0; i < 4; i++) to[i] = (u32)(((u64)z[i + 1] << 32 | z[i]) >> (before % 2 * 16));
    if (there && (b + 1 < B || q < 3 || before == 0)) st16(row + (b * 32 + q * 8 + before), *(Quad *)to);
  }
  if (there && q == 0) {
#pragma unroll
    for (u32 v = 0; v < 7; v++)
      if (v < before) st2(row + v, (u16)(own[0][v / 2] >> (v % 2 * 16)));
  }
  if (there && q == 3 && before > 0) {
#pragma unroll
    for (u32 v = 1; v < 8; v++)
      if (v >= before) st2(row + (B * 32 - 8 + v), (u16)(own[B - 1][v / 2] >> (v % 2 * 16)));
  }
}
// Warpgroups that take turns. Each warp of the one before tells it in shared memory that it has had its own, all of its threads: one that is late by two turns
// would wait for ever ...
FN void take_turn_told(u32 group, Barrier *turns, u32 &turn) {
  barrier_wait(turns + group, turn ^ (group == 0));
  turn ^= 1;
}
template <int G> FN void give_turn_told(u32 group, Barrier *turns) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(turns + (group + 1) % G);
}
// ... or the two meet at a barrier of the chip, at which the one before does not wait.
#ifdef THALWEG_EMULATED
template <int G> FN void first_turn(u32) {}
FN void take_turn_met(u32 group, Barrier *turns, u32 &turn) { take_turn_told(group, turns, turn); }
template <int G> FN void give_turn_met(u32 group, Barrier *turns) { give_turn_told<G>(group, turns); }
#else
template <int G> FN void first_turn(u32 group) {
  if (group == G - 1) asm volatile("bar.arrive 1, 256;" ::: "memory");
}
FN void take_turn_met(u32 group, Barrier *, u32 &) { asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory"); }
template <int G> FN void give_turn_met(u32 group, Barrier *) { asm volatile("bar.arrive %0, 256;" ::"r"(1 + (group + 1) % G) : "memory"); }
#endif
