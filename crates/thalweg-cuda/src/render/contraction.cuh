
// Contractions: copies that run beside arithmetic, and products of small matrices by the threads of a warp together. The emulator has the same by reading what other
// lanes have written down.
#ifdef THALWEG_EMULATED
#define THALWEG_SHARED_LINES(name) THALWEG_SHARED(name)
// 16 bytes to shared memory of which so many come from memory; the rest is 0.
FN void copy16(void *to, const void *from, i32 bytes) {
  thalweg_runtime.loaded += bytes;
  __builtin_memset(to, 0, 16);
  __builtin_memcpy(to, from, bytes);
}
FN void copy16_whole(void *to, const void *from) { copy16(to, from, 16); }
template <int B> FN void copy_element(void *to, const void *from, bool inside) {
  thalweg_runtime.loaded += inside ? B : 0;
  if (inside) __builtin_memcpy(to, from, B); else __builtin_memset(to, 0, B);
}
template <int B> FN void copy_element_whole(void *to, const void *from) { copy_element<B>(to, from, true); }
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
// A matrix in shared memory as warpgroups take it: lines of 128 bytes in eights, whose parts of 16 bytes are exchanged by the number of the line in its eight.
struct Matrix { const u8 *p; u32 leading, stride; };
FN Matrix matrix(const void *p, u32 leading, u32 stride) { return {(const u8 *)p, leading, stride}; }
FN Matrix further(Matrix x, u32 bytes) { return {x.p + bytes, x.leading, x.stride}; }
FN void async_fence() {}
FN void warpgroup_fence() {}
FN void warpgroup_commit() {}
template <int N> FN void warpgroup_wait() { __syncwarp(); }
// Its element: `line` of the side that stays, `term` of the 16 that are summed over; `T`: lines lie together in memory, 64 at a time.
template <bool T> FN u16 matrix_element(Matrix x, u32 line, u32 term) {
  const u64 base = (u64)thalweg_runtime.shared, own = (u64)x.p - base;
  const u64 at = own + (T ? line / 64 * x.leading + term / 8 * x.stride + term % 8 * 128 + line % 64 * 2 : line / 8 * x.stride + line % 8 * 128 + term * 2);
  return *(const u16 *)(base + (at ^ (at >> 7 & 7) << 4));
}
template <bool F16> FN float narrow_of(u16 v) { return F16 ? from_f16(v) : from_bf16(v); }
template <bool F16, bool TA, bool TB, int N> FN void warpgroup_multiply(float (&d)[N / 8][4], Matrix a, Matrix b, u32 keep) {
  const u32 lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
  for (u32 j = 0; j < N / 8; j++)
    for (u32 e = 0; e < 4; e++) {
      float sum = 0;
      for (u32 k = 0; k < 16; k++) sum += narrow_of<F16>(matrix_element<TA>(a, row + e / 2 * 8, k)) * narrow_of<F16>(matrix_element<TB>(b, j * 8 + lane % 4 * 2 + e % 2, k));
      d[j][e] = (keep ? d[j][e] : 0) + sum;
    }
}
template <bool F16, bool TB, int N> FN void warpgroup_multiply(float (&d)[N / 8][4], const u32 (&a)[4], Matrix b) {
  u64(&words)[32][4] = exchange_turn();
  const u32 lane = threadIdx.x % 32;
  words[lane][0] = a[0] | (u64)a[1] << 32;
  words[lane][1] = a[2] | (u64)a[3] << 32;
  __syncwarp();
  for (u32 j = 0; j < N / 8; j++)
    for (u32 e = 0; e < 4; e++) {
      float sum = 0;
      for (u32 k = 0; k < 16; k++) {
        const u64 left = words[4 * (lane / 4) + k % 8 / 2][k / 8];
        sum += half_of<F16>((u32)(e / 2 ? left >> 32 : left), k % 2) * narrow_of<F16>(matrix_element<TB>(b, j * 8 + lane % 4 * 2 + e % 2, k));
      }
      d[j][e] += sum;
    }
}
FN float round_tf32(float x) { const u32 b = f32_bits(x); return x != x || (b & 0x7f800000u) == 0x7f800000u ? x : bits_f32((b + 0x1000u) & ~0x1fffu); }
FN u32 pack_bf16(float low, float high) { return to_bf16(low) | (u32)to_bf16(high) << 16; }
FN u32 pack_f16(float low, float high) { return to_f16(low) | (u32)to_f16(high) << 16; }
#else
// Aligned as warpgroups take it.
#define THALWEG_SHARED_LINES(name) extern __shared__ __align__(1024) unsigned char name[]
FN u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
FN void copy16(void *to, const void *from, i32 bytes) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory"); }
FN void copy16_whole(void *to, const void *from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory"); }
template <int B> FN void copy_element(void *to, const void *from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(B), "r"(inside ? B : 0) : "memory");
}
template <int B> FN void copy_element_whole(void *to, const void *from) { asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(B) : "memory"); }
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
// See above; the descriptor of one.
// In two words: only the first says where, and what is added to it goes no further. As one of 64 bits they took a third of a step's instructions.
struct Matrix { u32 place, form; };
FN Matrix matrix(const void *p, u32 leading, u32 stride) {
  return {(shared_address(p) & 0x3ffff) >> 4 | (leading >> 4) << 16, stride >> 4 | 1u << 30};
}
FN Matrix further(Matrix x, u32 bytes) { return {x.place + (bytes >> 4), x.form}; }
// What threads have written to shared memory is there for warpgroups' multiplications.
FN void async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
FN void warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FN void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> FN void warpgroup_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
FN float round_tf32(float x) { u32 r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x)); return bits_f32(r); }
FN u32 pack_bf16(float low, float high) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
FN u32 pack_f16(float low, float high) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
#endif

// How many of the keys a row sees that sees so many of more.
FN i64 seen_keys(i64 most, i64 keys) { return most < 0 ? 0 : most < keys ? most : keys; }
// The place of a line or of a term that is not there.
template <class T> constexpr T NOWHERE = (T)((u64)1 << (8 * sizeof(T) - 1));
// x·y + sum, rounded once whatever the mode: the bits of a sum depend on its terms alone.
FN float multiply_add(float x, float y, float sum) { return fmaf(x, y, sum); }
FN double multiply_add(double x, double y, double sum) { return fma(x, y, sum); }
template <class T> FN T multiply_add(T x, T y, T sum) { return int_add<T>(sum, int_mul<T>(x, y)); }
// Neighbours in shared memory.
template <class T, int V> FN void take(T (&x)[V], const T *p) {
#pragma unroll
  for (int i = 0; i < V; i++) x[i] = p[i];
}
