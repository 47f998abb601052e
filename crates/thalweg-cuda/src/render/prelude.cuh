// What every kernel starts with: memory in vectors, narrow floats, and the functions that CUDA C++ has no name for.
// No header is included, so that nothing but NVRTC is needed. The emulator defines THALWEG_EMULATED and CUDA's own names before.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;

template <int K> struct Words { u64 w[K]; };

#ifndef THALWEG_EMULATED
#define THALWEG_PARAMETER(K) const __grid_constant__ Words<K> a
#define THALWEG_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif
#define FN __device__ __forceinline__

// The first thing that a kernel does. Its blocks may come to the chip while the last ones of the launch before it still run, and wait here until these are through;
// and so may the next one's. No block may end without it: others would take the launch before it for done.
FN void begin() {
#if !defined(THALWEG_EMULATED) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct __align__(16) Quad { u32 x, y, z, w; };
struct __align__(8) Pair { u32 x, y; };

// Memory. Loads stay in order with stores, which may be to the same place: a result may lie over an operand. So what can be loaded early is loaded early in the source.
#ifdef THALWEG_EMULATED
FN Quad ld16(const void *p) { thalweg_runtime.loaded += 16; return *(const Quad *)p; }
FN Pair ld8(const void *p) { thalweg_runtime.loaded += 8; return *(const Pair *)p; }
FN u32 ld4(const void *p) { thalweg_runtime.loaded += 4; return *(const u32 *)p; }
FN u16 ld2(const void *p) { thalweg_runtime.loaded += 2; return *(const u16 *)p; }
FN u8 ld1(const void *p) { thalweg_runtime.loaded += 1; return *(const u8 *)p; }
FN void st16(void *p, Quad q) { thalweg_runtime.stored += 16; *(Quad *)p = q; }
FN void st8(void *p, Pair q) { thalweg_runtime.stored += 8; *(Pair *)p = q; }
FN void st4(void *p, u32 q) { thalweg_runtime.stored += 4; *(u32 *)p = q; }
FN void st2(void *p, u16 q) { thalweg_runtime.stored += 2; *(u16 *)p = q; }
FN void st1(void *p, u8 q) { thalweg_runtime.stored += 1; *(u8 *)p = q; }
FN u32 cold4(const void *p) { thalweg_runtime.loaded += 4; return *(const volatile u32 *)p; }
FN u64 cold8(const void *p) { thalweg_runtime.loaded += 8; return *(const volatile u64 *)p; }
FN Quad cold16(const void *p) { thalweg_runtime.loaded += 16; return *(const Quad *)p; }
#else
FN Quad ld16(const void *p) { Quad q; asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(q.x), "=r"(q.y), "=r"(q.z), "=r"(q.w) : "l"(p)); return q; }
FN Pair ld8(const void *p) { Pair q; asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(q.x), "=r"(q.y) : "l"(p)); return q; }
FN u32 ld4(const void *p) { u32 q; asm volatile("ld.global.u32 %0, [%1];" : "=r"(q) : "l"(p)); return q; }
FN u16 ld2(const void *p) { u16 q; asm volatile("ld.global.u16 %0, [%1];" : "=h"(q) : "l"(p)); return q; }
FN u8 ld1(const void *p) { u32 q; asm volatile("ld.global.u8 %0, [%1];" : "=r"(q) : "l"(p)); return (u8)q; }
FN void st16(void *p, Quad q) { asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(q.x), "r"(q.y), "r"(q.z), "r"(q.w) : "memory"); }
FN void st8(void *p, Pair q) { asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(q.x), "r"(q.y) : "memory"); }
FN void st4(void *p, u32 q) { asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(q) : "memory"); }
FN void st2(void *p, u16 q) { asm volatile("st.global.u16 [%0], %1;" ::"l"(p), "h"(q) : "memory"); }
FN void st1(void *p, u8 q) { asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"((u32)q) : "memory"); }
// Past the first-level cache: what other blocks of the launch have written.
FN u32 cold4(const void *p) { u32 q; asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(q) : "l"(p) : "memory"); return q; }
FN u64 cold8(const void *p) { u64 q; asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(q) : "l"(p) : "memory"); return q; }
FN Quad cold16(const void *p) { Quad q; asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(q.x), "=r"(q.y), "=r"(q.z), "=r"(q.w) : "l"(p) : "memory"); return q; }
#endif

// Elements of scratch memory as the compiler likes to load and store them; the emulator counts them.
template <class S> FN S element_at(const S *p, i64 i) {
#ifdef THALWEG_EMULATED
  thalweg_runtime.loaded += sizeof(S);
#endif
  return p[i];
}
template <class S> FN void set_at(S *p, i64 i, S v) {
#ifdef THALWEG_EMULATED
  thalweg_runtime.stored += sizeof(S);
#endif
  p[i] = v;
}

template <class S> FN S load1(const S *p) {
  if constexpr (sizeof(S) == 1) { u8 q = ld1(p); return *(S *)&q; }
  else if constexpr (sizeof(S) == 2) { u16 q = ld2(p); return *(S *)&q; }
  else if constexpr (sizeof(S) == 4) { u32 q = ld4(p); return *(S *)&q; }
  else { Pair q = ld8(p); return *(S *)&q; }
}
template <class S> FN void store1(S *p, S v) {
  if constexpr (sizeof(S) == 1) st1(p, *(u8 *)&v);
  else if constexpr (sizeof(S) == 2) st2(p, *(u16 *)&v);
  else if constexpr (sizeof(S) == 4) st4(p, *(u32 *)&v);
  else st8(p, *(Pair *)&v);
}
template <class S> FN S load_cold(const S *p) {
  if constexpr (sizeof(S) == 4) { u32 q = cold4(p); return *(S *)&q; }
  else { u64 q = cold8(p); return *(S *)&q; }
}
template <class S, int V> FN void loadv_cold(S (&x)[V], const S *p) {
#pragma unroll
  for (int i = 0; i < V;) {
    if constexpr (V * sizeof(S) % 16 == 0) { *(Quad *)(x + i) = cold16(p + i); i += 16 / sizeof(S); }
    else { x[i] = load_cold(p + i); i++; }
  }
}
template <class S, int V> FN void loadv(S (&x)[V], const S *p) {
  constexpr int B = V * sizeof(S);
  if constexpr (V == 1) x[0] = load1(p);
  else if constexpr (B % 16 == 0) {
#pragma unroll
    for (int i = 0; i < B / 16; i++) ((Quad *)x)[i] = ld16((const char *)p + 16 * i);
  } else if constexpr (B == 8) *(Pair *)x = ld8(p);
  else if constexpr (B == 4) *(u32 *)x = ld4(p);
  else *(u16 *)x = ld2(p);
}
template <class S, int V> FN void storev(S *p, S (&x)[V]) {
  constexpr int B = V * sizeof(S);
  if constexpr (V == 1) store1(p, x[0]);
  else if constexpr (B % 16 == 0) {
#pragma unroll
    for (int i = 0; i < B / 16; i++) st16((char *)p + 16 * i, ((Quad *)x)[i]);
  } else if constexpr (B == 8) st8(p, *(Pair *)x);
  else if constexpr (B == 4) st4(p, *(u32 *)x);
  else st2(p, *(u16 *)x);
}

// Division by a number known to the host: `d` in the low word of w[0] and its multiplier in the high one, the shift in w[1]. For n < 2^31.
struct Split { u32 q, r; };
FN Split split(u32 n, u64 d, u64 s) {
  u32 q = (__umulhi(n, (u32)(d >> 32)) + n) >> (u32)s;
  return {q, n - q * (u32)d};
}

// Narrow floats live in registers as the float that they stand for.
FN float bits_f32(u32 v) { return __uint_as_float(v); }
FN u32 f32_bits(float v) { return __float_as_uint(v); }
FN float from_bf16(u16 v) { return bits_f32((u32)v << 16); }
// One of an even number that were loaded as a vector: a shift or a mask of the word that it came in.
template <int V> FN float bf16_of_pair(const u16 (&x)[V], int v) {
  const u32 pair = *(const u32 *)(x + (v & ~1));
  return bits_f32(v & 1 ? pair & 0xffff0000u : pair << 16);
}
// Of a float that stands for one.
FN u16 bits_bf16(float v) { return (u16)(f32_bits(v) >> 16); }
#if !defined(THALWEG_EMULATED) && __CUDA_ARCH__ >= 800
// To the upper half of a word.
FN float round_bf16(float v) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(v), "f"(0.0f)); return bits_f32(r); }
#else
FN float round_bf16(float v) {
  const u32 b = f32_bits(v);
  return bits_f32((v != v ? b | 0x400000 : b + 0x7fff + (b >> 16 & 1)) & 0xffff0000u);
}
#endif
FN u16 to_bf16(float v) { return bits_bf16(round_bf16(v)); }
#ifdef THALWEG_EMULATED
FN float from_f16(u16 v) { _Float16 h; __builtin_memcpy(&h, &v, 2); return (float)h; }
FN u16 to_f16(float v) { _Float16 h = (_Float16)v; u16 b; __builtin_memcpy(&b, &h, 2); return b; }
#else
FN float from_f16(u16 v) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v)); return f; }
FN u16 to_f16(float v) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); return h; }
#endif
FN float round_f16(float v) { return from_f16(to_f16(v)); }
// A number that the compiler knows nothing of.
#ifdef THALWEG_EMULATED
FN float hidden(float x) { asm("" : "+x"(x)); return x; }
FN double hidden(double x) { asm("" : "+x"(x)); return x; }
#else
FN float hidden(float x) { asm("" : "+f"(x)); return x; }
FN double hidden(double x) { asm("" : "+d"(x)); return x; }
#endif
// A product that is rounded by itself. ptxas contracts what has no rounding in its name, whatever lies between.
#ifdef THALWEG_EMULATED
FN float rounded_product(float x, float y) { return hidden(x * y); }
FN double rounded_product(double x, double y) { return hidden(x * y); }
#else
FN float rounded_product(float x, float y) { return __fmul_rn(x, y); }
FN double rounded_product(double x, double y) { return __dmul_rn(x, y); }
#endif
// To odd: rounding what comes out to fewer digits is then as if it had been done at once.
FN float odd_f32(double v) {
  float f = (float)v;
  if (v != v || (double)f == v) return f;
  u32 b = f32_bits(f);
  double away = fabs((double)f) - fabs(v);
  if (away > 0) b--;
  return bits_f32(b | 1);
}
FN float bf16_of(double v) { return round_bf16(odd_f32(v)); }
FN float f16_of(double v) { return round_f16(odd_f32(v)); }

// Float to integer saturates, and NaN gives 0.
template <class T> struct Int;
template <> struct Int<i8> { static constexpr i64 low = -128, high = 127; static constexpr bool sign = true; };
template <> struct Int<i16> { static constexpr i64 low = -32768, high = 32767; static constexpr bool sign = true; };
template <> struct Int<i32> { static constexpr i64 low = -2147483647ll - 1, high = 2147483647ll; static constexpr bool sign = true; };
template <> struct Int<i64> { static constexpr i64 low = -9223372036854775807ll - 1, high = 9223372036854775807ll; static constexpr bool sign = true; };
template <> struct Int<u8> { static constexpr i64 low = 0, high = 255; static constexpr bool sign = false; };
template <> struct Int<u16> { static constexpr i64 low = 0, high = 65535; static constexpr bool sign = false; };
template <> struct Int<u32> { static constexpr i64 low = 0, high = 4294967295ll; static constexpr bool sign = false; };
template <> struct Int<u64> { static constexpr u64 low = 0, high = ~0ull; static constexpr bool sign = false; };
template <class T, class F> FN T to_int(F v) {
  if (v != v) return 0;
  if constexpr (sizeof(T) == 8 && !Int<T>::sign) {
    if (v >= (F)18446744073709551616.0) return Int<T>::high;
    if (v < (F)0) return 0;
    return (T)v;
  } else if constexpr (sizeof(T) == 8) {
    if (v >= (F)9223372036854775808.0) return Int<T>::high;
    if (v < (F)-9223372036854775808.0) return Int<T>::low;
    return (T)v;
  } else {
    double d = (double)v;
    return d <= (double)Int<T>::low ? (T)Int<T>::low : d >= (double)Int<T>::high ? (T)Int<T>::high : (T)(i64)d;
  }
}

// Integers wrap, and division by zero gives 0.
// Of 16 bits from a number of 32, of which the compiler does not know how it came about: LLVM makes neg.s16 of -x, 0 - x and x * -1, and of x + y == 0, and behind that ptxas
// 13.0 leaves out the extension of the sign, so that -(-32768) was 32768 to a minimum.
template <class T> FN T wrapped(i32 x) {
  asm("" : "+r"(x));
  return (T)x;
}
// In PTX, or it becomes an abs of PTX that ptxas (13.0, 13.5) gets wrong for the smallest number: of abs.s64 that is only asked for its sign it takes that of the upper half,
// what abs.s16 gives it compares as a number of 32 bits, and of abs.s32 it makes a float as if it had no sign.
template <class T> FN T int_neg(T x) {
#ifndef THALWEG_EMULATED
  if constexpr (sizeof(T) == 8) {
    i64 r;
    asm("neg.s64 %0, %1;" : "=l"(r) : "l"((i64)x));
    return (T)r;
  }
  if constexpr (sizeof(T) == 4) {
    i32 r;
    asm("neg.s32 %0, %1;" : "=r"(r) : "r"((i32)x));
    return (T)r;
  }
#endif
  if constexpr (sizeof(T) == 2) return wrapped<T>(0 - (i32)x);
  return (T)(0 - (u64)x);
}
// By a subtraction: in a branch where x is known to be 0, ptxas before 13.5 takes ~x & 1 for 0.
template <class T> FN T int_not(T x) {
#ifdef THALWEG_EMULATED
  return (T)~x;
#else
  if constexpr (sizeof(T) == 8) {
    i64 r;
    asm("sub.s64 %0, -1, %1;" : "=l"(r) : "l"((i64)x));
    return (T)r;
  } else {
    i32 r;
    asm("sub.s32 %0, -1, %1;" : "=r"(r) : "r"((i32)x));
    return (T)r;
  }
#endif
}
template <class T> FN T int_add(T x, T y) {
  if constexpr (sizeof(T) == 2) return wrapped<T>((i32)x + (i32)y);
  return (T)((u64)x + (u64)y);
}
template <class T> FN T int_sub(T x, T y) {
  if constexpr (sizeof(T) == 2) return wrapped<T>((i32)x - (i32)y);
  return (T)((u64)x - (u64)y);
}
template <class T> FN T int_mul(T x, T y) {
  if constexpr (sizeof(T) == 2) return wrapped<T>((i32)((u32)x * (u32)y));
  if constexpr (sizeof(T) == 8) return (T)((u64)x * (u64)y);
  else return (T)((u32)x * (u32)y);
}
template <class T> FN T int_div(T x, T y) {
  if (y == 0) return 0;
  if (Int<T>::sign && y == (T)-1) return int_neg(x);
  return (T)(x / y);
}
template <class T> FN T int_rem(T x, T y) {
  if (y == 0 || Int<T>::sign && y == (T)-1) return 0;
  T r = (T)(x % y);
  return r != 0 && (r < 0) != (y < 0) ? (T)(r + y) : r;
}
template <class T> FN T int_floor(T x, T y) {
  if (y == 0) return 0;
  if (Int<T>::sign && y == (T)-1) return int_neg(x);
  T q = (T)(x / y);
  return x % y != 0 && (x < 0) != (y < 0) ? (T)(q - 1) : q;
}
template <class T> FN T int_pow(T x, T y) {
  if (y < 0) return x == 1 ? (T)1 : x == (T)-1 ? (y % 2 == 0 ? (T)1 : (T)-1) : (T)0;
  u64 base = (u64)x, out = 1;
  for (u64 e = (u64)y; e; e >>= 1) {
    if (e & 1) out *= base;
    base *= base;
  }
  return (T)out;
}
template <class T> FN T int_abs(T x) { return x < 0 ? int_neg(x) : x; }
template <class T> FN T int_sign(T x) { return (T)((x > 0) - (x < 0)); }
template <class T> FN T int_shl(T x, T n) { return n >= 0 && (u64)n < sizeof(T) * 8 ? (T)((u64)x << (u32)n) : (T)0; }
template <class T> FN T int_shr(T x, T n) { return n >= 0 && (u64)n < sizeof(T) * 8 ? (T)(x >> (u32)n) : x < 0 ? (T)-1 : (T)0; }

// The larger and the smaller: NaN if either is, +0 above -0.
#ifdef THALWEG_EMULATED
FN float larger(float x, float y) { return x != x || y != y ? bits_f32(0x7fc00000u) : x > y || x == y && (f32_bits(y) >> 31) ? x : y; }
FN float smaller(float x, float y) { return x != x || y != y ? bits_f32(0x7fc00000u) : x < y || x == y && (f32_bits(x) >> 31) ? x : y; }
#else
FN float larger(float x, float y) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
FN float smaller(float x, float y) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
#endif
FN double larger(double x, double y) { return x != x || y != y ? __longlong_as_double(0x7ff8000000000000ll) : x > y || x == y && __double_as_longlong(y) < 0 ? x : y; }
FN double smaller(double x, double y) { return x != x || y != y ? __longlong_as_double(0x7ff8000000000000ll) : x < y || x == y && __double_as_longlong(x) < 0 ? x : y; }
template <class T> FN T larger(T x, T y) { return x > y ? x : y; }
template <class T> FN T smaller(T x, T y) { return x < y ? x : y; }

template <class T> FN T float_sign(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x; }

// Functions of f32 without branches, where CUDA's have some. At most 2 ulp (docs/numerics.md).
#ifdef THALWEG_EMULATED
FN float power_of_two(float x) { return exp2f(x); }
FN float reciprocal(float x) { return 1.0f / x; }
#else
FN float power_of_two(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
FN float reciprocal(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
#endif
// 1/x with one step of Newton's, which leaves what is 0, infinite or no number as it is.
#ifdef THALWEG_EMULATED
FN float inverse(float x) { return 1.0f / x; }
#else
FN float inverse(float x) {
  float r;
  asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  const float e = fmaf(-x, r, 1.0f);
  return fabsf(e) < 1.0f ? fmaf(r, e, r) : r;
}
#endif
// x where a < b, else y: both are computed, where the compiler would put a branch around each.
#ifdef THALWEG_EMULATED
FN float where_less(float a, float b, float x, float y) { return a < b ? x : y; }
#else
FN float where_less(float a, float b, float x, float y) {
  float r;
  asm("{.reg .pred p;\nsetp.lt.f32 p, %1, %2;\nselp.f32 %0, %3, %4, p;}" : "=f"(r) : "f"(a), "f"(b), "f"(x), "f"(y));
  return r;
}
#endif
// 1 - 2/(e^2|x| + 1); near 0, where that cancels, x + x^3 p(x^2), p by minimax of the relative error on [0, 0.55].
FN float tangent(float x) {
  const float size = fabsf(x), s = x * x;
  const float far = fmaf(-2.0f, reciprocal(power_of_two(size * 2.885390082f) + 1.0f), 1.0f);
  float p = fmaf(-0.0062743933f, s, 0.02107178f);
  p = fmaf(p, s, -0.05385233f);
  p = fmaf(p, s, 0.13332586f);
  p = fmaf(p, s, -0.33333316f);
  return where_less(size, 0.55f, fmaf(p * s, x, x), copysignf(far, x));
}
// 1 - 2^p(|x|), 2^p = erfc; near 0, where that cancels, x p(x^2): both p by minimax, on [0.6, 4] weighted by erfc, and of the
// relative error on [0, 0.6]. Half of what CUDA's chooses by: it takes each coefficient by size. At most 3 ulp.
FN float error_function(float x) {
  const float size = smaller(fabsf(x), 4.0f), s = x * x;
  float p = fmaf(4.51234216e-3f, s, -2.66469773e-2f);
  p = fmaf(p, s, 1.12809919e-1f);
  p = fmaf(p, s, -3.76125127e-1f);
  p = fmaf(p, s, 1.12837911f);
  float q = fmaf(3.18824314e-4f, size, -4.72472422e-3f);
  q = fmaf(q, size, 3.33181769e-2f);
  q = fmaf(q, size, -1.52371109e-1f);
  q = fmaf(q, size, -9.16677773e-1f);
  q = fmaf(q, size, -1.62831807f);
  q = fmaf(q, size, 3.79789417e-5f);
  return where_less(size, 0.6f, p * x, copysignf(1.0f - power_of_two(q), x));
}
// What is left of x after quarter turns, in three parts of pi/2 (Cody and Waite 1980), and how many these were.
struct Turn { float rest; u32 quarters; };
FN Turn quarters(float x) {
  float j = fmaf(x, 0.636619747f, 12582912.0f);
  const u32 q = f32_bits(j);
  j -= 12582912.0f;
  float r = fmaf(j, -1.57079601e+0f, x);
  r = fmaf(j, -3.13916473e-7f, r);
  return {fmaf(j, -5.39030253e-15f, r), q};
}
FN float wave(Turn turn, u32 first) {
  const float r = turn.rest, s = r * r;
  float sine = fmaf(2.86567956e-6f, s, -1.98559923e-4f);
  sine = fmaf(sine, s, 8.33338592e-3f);
  sine = fmaf(sine, s, -1.66666672e-1f);
  sine = fmaf(sine * s, r, r);
  float cosine = fmaf(2.44677067e-5f, s, -1.38877297e-3f);
  cosine = fmaf(cosine, s, 4.16666567e-2f);
  cosine = fmaf(cosine, s, -5.00000000e-1f);
  cosine = fmaf(cosine, s, 1.0f);
  const u32 q = turn.quarters + first;
  const float v = q & 1 ? cosine : sine;
  return q & 2 ? -v : v;
}
// Beyond some 10^4 turns the parts of pi/2 are too short.
__device__ __noinline__ float far_sine(float x) { return sinf(x); }
__device__ __noinline__ float far_cosine(float x) { return cosf(x); }
FN float sine(float x) { return fabsf(x) <= 71476.0f ? wave(quarters(x), 0) : far_sine(x); }
FN float cosine(float x) { return fabsf(x) <= 71476.0f ? wave(quarters(x), 1) : far_cosine(x); }
FN float sigmoid(float x) { float e = expf(-fabsf(x)); return (x < 0 ? e : 1.0f) / (1.0f + e); }
FN double sigmoid(double x) { double e = exp(-fabs(x)); return (x < 0 ? e : 1.0) / (1.0 + e); }
FN float float_rem(float a, float b) { float r = fmodf(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : copysignf(r, r == 0 ? b : r); }
FN double float_rem(double a, double b) { double r = fmod(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : copysign(r, r == 0 ? b : r); }
// An i64 as a double, rounded to odd where it has more digits.
FN double odd_f64(i64 v) {
  double d = (double)v;
  if (d >= 9223372036854775808.0 || (i64)d == v) return d;
  i64 b = __double_as_longlong(d);
  bool away = v < 0 ? (i64)d < v : (i64)d > v;
  return __longlong_as_double((away ? b - 1 : b) | 1);
}

// The element at a position; where an index was out of range nothing is read and the fault is told, if it is one.
template <class S> FN S gather(const S *p, i64 position, bool inside, u32 *fault) {
  if (inside) return load1(p + position);
  if (fault) *fault = 1;
  return (S)0;
}

// Folds: `Op::of` puts two partial results together. What `Op` is stands in front of a kernel, from the row of its monoid.
// The lanes of a thread.
template <class Op, class T, int V> FN T fold_lanes(T (&x)[V]) {
#pragma unroll
  for (int o = V / 2; o > 0; o /= 2)
#pragma unroll
    for (int i = 0; i < o; i++) x[i] = Op::of(x[i], x[i + o]);
  return x[0];
}
// Threads of a warp, in groups of G: all get the result.
template <class Op, int G, class T> FN T fold_warp(T x) {
#pragma unroll
  for (int o = (G < 32 ? G : 32) / 2; o > 0; o /= 2) x = Op::of(x, __shfl_xor_sync(0xffffffffu, x, o));
  return x;
}
// Threads of a warp of which W have rows side by side, and the others their points: all get the result.
template <class Op, int W, class T, int V> FN void fold_points(T (&x)[V]) {
#pragma unroll
  for (int o = W; o < 32; o *= 2)
#pragma unroll
    for (int v = 0; v < V; v++) x[v] = Op::of(x[v], __shfl_xor_sync(0xffffffffu, x[v], o));
}
// The warps of a block of G threads: each has left its own in `parts`, and there was a barrier.
template <class Op, int G, class T> FN T fold_parts(const T *parts) {
  T x = parts[threadIdx.x % (G / 32)];
#pragma unroll
  for (int o = G / 64; o > 0; o /= 2) x = Op::of(x, __shfl_xor_sync(0xffffffffu, x, o));
  return x;
}
// Results of blocks of a row, put together pairwise as they come: the order that strict kernels keep to.
template <class Op, class T> struct Tree {
  T part[40];
  u32 count;
  FN void push(T x) {
    u32 n = count, top = __popc(n);
    for (; n & 1; n >>= 1) x = Op::of(part[--top], x);
    part[top] = x;
    count++;
  }
  FN T take(T identity) {
    u32 top = __popc(count);
    if (!top) return identity;
    T x = part[--top];
    while (top) x = Op::of(part[--top], x);
    return x;
  }
};
