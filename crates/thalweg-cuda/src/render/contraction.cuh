
// Contractions: copies that run beside arithmetic, and products of small matrices by the threads of a warp together. The emulator has the same by reading what other
// lanes have written down.
#ifdef THALWEG_EMULATED
FN u32 shared_address(const void *p) { return 0; }
// 16 bytes to shared memory of which so many come from memory; the rest is 0.
FN void copy16(void *to, const void *from, i32 bytes) {
  thalweg_runtime.loaded += bytes;
  __builtin_memset(to, 0, 16);
  __builtin_memcpy(to, from, bytes);
}
template <int B> FN void copy_element(void *to, const void *from, bool inside) {
  thalweg_runtime.loaded += inside ? B : 0;
  if (inside) __builtin_memcpy(to, from, B); else __builtin_memset(to, 0, B);
}
FN void copies_commit() {}
template <int N> FN void copies_wait() {}
// What lanes of a warp tell each other: who writes in one of the two may be sure that all have read what was in it before, since all have met since.
struct Exchange { u64 word[2][32][4]; u32 turn[32]; };
static Exchange exchanges[32];
FN Exchange &exchange() { return exchanges[threadIdx.x / 32]; }
FN u64 (&exchange_turn())[32][4] {
  Exchange &e = exchange();
  const u32 lane = threadIdx.x % 32;
  return e.word[e.turn[lane]++ & 1];
}
FN void fragments(u32 (&r)[4], const void *p) {
  u64(&words)[32][4] = exchange_turn();
  const u32 lane = threadIdx.x % 32;
  words[lane][0] = (u64)p;
  __syncwarp();
  for (int j = 0; j < 4; j++) r[j] = *((const u32 *)words[8 * j + lane / 4][0] + lane % 4);
}
FN void fragments_transposed(u32 (&r)[4], const void *p) {
  u64(&words)[32][4] = exchange_turn();
  const u32 lane = threadIdx.x % 32;
  words[lane][0] = (u64)p;
  __syncwarp();
  for (int j = 0; j < 4; j++) {
    const u16 low = *((const u16 *)words[8 * j + 2 * (lane % 4)][0] + lane / 4);
    const u16 high = *((const u16 *)words[8 * j + 2 * (lane % 4) + 1][0] + lane / 4);
    r[j] = low | (u32)high << 16;
  }
}
template <bool F16> FN float half_of(u32 pair, u32 which) {
  const u16 v = (u16)(which ? pair >> 16 : pair);
  return F16 ? from_f16(v) : from_bf16(v);
}
// d += a·b of [16, 16]·[16, 8].
template <bool F16> FN void multiply16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  u64(&words)[32][4] = exchange_turn();
  const u32 lane = threadIdx.x % 32;
  words[lane][0] = a[0] | (u64)a[1] << 32;
  words[lane][1] = a[2] | (u64)a[3] << 32;
  words[lane][2] = b0 | (u64)b1 << 32;
  __syncwarp();
  for (int i = 0; i < 4; i++) {
    const u32 row = lane / 4, column = 2 * (lane % 4) + i % 2;
    float sum = 0;
    for (u32 k = 0; k < 16; k++) {
      const u64 left = words[4 * row + k % 8 / 2][k / 8], right = words[4 * column + k % 8 / 2][2];
      sum += half_of<F16>((u32)(i / 2 ? left >> 32 : left), k % 2) * half_of<F16>((u32)(k / 8 ? right >> 32 : right), k % 2);
    }
    d[i] += sum;
  }
}
// The same of [16, 8]·[8, 8] of TF32.
FN void multiply_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  u64(&words)[32][4] = exchange_turn();
  const u32 lane = threadIdx.x % 32;
  words[lane][0] = a[0] | (u64)a[1] << 32;
  words[lane][1] = a[2] | (u64)a[3] << 32;
  words[lane][2] = b0 | (u64)b1 << 32;
  __syncwarp();
  for (int i = 0; i < 4; i++) {
    const u32 row = lane / 4, column = 2 * (lane % 4) + i % 2;
    float sum = 0;
    for (u32 k = 0; k < 8; k++) {
      const u64 left = words[4 * row + k % 4][k / 4], right = words[4 * column + k % 4][2];
      sum += bits_f32((u32)(i / 2 ? left >> 32 : left)) * bits_f32((u32)(k / 4 ? right >> 32 : right));
    }
    d[i] += sum;
  }
}
FN u32 to_tf32(float x) { const u32 b = f32_bits(x); return x != x || (b & 0x7f800000u) == 0x7f800000u ? b : (b + 0x1000u) & ~0x1fffu; }
FN u32 pack_bf16(float low, float high) { return to_bf16(low) | (u32)to_bf16(high) << 16; }
FN u32 pack_f16(float low, float high) { return to_f16(low) | (u32)to_f16(high) << 16; }
#else
FN u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
FN void copy16(void *to, const void *from, i32 bytes) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory"); }
template <int B> FN void copy_element(void *to, const void *from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(B), "r"(inside ? B : 0) : "memory");
}
FN void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> FN void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
FN void fragments(u32 (&r)[4], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}
FN void fragments_transposed(u32 (&r)[4], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}
template <bool F16> FN void multiply16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (F16)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FN void multiply_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FN u32 to_tf32(float x) { u32 r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }
FN u32 pack_bf16(float low, float high) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
FN u32 pack_f16(float low, float high) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
#endif

// x·y + sum, rounded once whatever the mode: the bits of a sum depend on its terms alone.
FN float multiply_add(float x, float y, float sum) { return fmaf(x, y, sum); }
FN double multiply_add(double x, double y, double sum) { return fma(x, y, sum); }
template <class T> FN T multiply_add(T x, T y, T sum) { return int_add<T>(sum, int_mul<T>(x, y)); }
// e^x for what is rounded to a narrow float.
FN float narrow_exp(float x) { return power_of_two(x * 1.44269504f); }
// Neighbours in shared memory.
template <class T, int V> FN void take(T (&x)[V], const T *p) {
#pragma unroll
  for (int i = 0; i < V; i++) x[i] = p[i];
}
