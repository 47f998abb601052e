// CUDA C++ as seen by the host's compiler: what a kernel's source may use, with the device's meaning. Included before every source by the emulated driver; no headers,
// since they would take longer than most kernels. Threads meet in `thalweg_runtime.meet`, which is Rust (emulated/fibers.rs); blocks run one after the other.
#define THALWEG_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// All in one section, so that it can be filled with rubbish before each block.
#define __shared__ static __attribute__((section("thalweg_shared")))
#define THALWEG_PARAMETER(K) const Words<K>& a
#define THALWEG_PARAMETER_LINES(K) const Words<K>& a
#define THALWEG_SHARED(name) unsigned char* const name = thalweg_runtime.shared

typedef decltype(sizeof 0) size_t;
typedef unsigned long long thalweg_u64;

struct uint3 { unsigned x, y, z; };
struct dim3 : uint3 {};

// emulated/fibers.rs has the same.
struct ThalwegRuntime {
    uint3 thread, block, block_size, grid_size;
    unsigned char* shared;
    unsigned char* fixed;
    unsigned char* fixed_end;
    thalweg_u64 (*meet)(unsigned kind, unsigned mask, thalweg_u64 value, unsigned source);
    // Bytes of global memory that were loaded and stored.
    thalweg_u64 loaded, stored;
};
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_thalweg_shared[];
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __stop_thalweg_shared[];
extern "C" {
ThalwegRuntime thalweg_runtime = {{}, {}, {}, {}, nullptr, __start_thalweg_shared, __stop_thalweg_shared, nullptr, 0, 0};
}
#define threadIdx (thalweg_runtime.thread)
#define blockIdx (thalweg_runtime.block)
#define blockDim (thalweg_runtime.block_size)
#define gridDim (thalweg_runtime.grid_size)
#define warpSize 32

template <class To, class From> inline To thalweg_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits of one size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
#define THALWEG_BITS(name, To, From) inline To name(From x) { return thalweg_bits<To>(x); }
THALWEG_BITS(__float_as_uint, unsigned, float)
THALWEG_BITS(__float_as_int, int, float)
THALWEG_BITS(__uint_as_float, float, unsigned)
THALWEG_BITS(__int_as_float, float, int)
THALWEG_BITS(__double_as_longlong, long long, double)
THALWEG_BITS(__longlong_as_double, double, long long)
inline int __double2hiint(double x) { return int(thalweg_bits<thalweg_u64>(x) >> 32); }
inline int __double2loint(double x) { return int(thalweg_bits<thalweg_u64>(x)); }
inline double __hiloint2double(int hi, int lo) { return thalweg_bits<double>(thalweg_u64(unsigned(hi)) << 32 | unsigned(lo)); }

// Vectors.
#define THALWEG_VECTOR(T, name, a2, a4) \
    struct alignas(a2) name##2 { T x, y; }; \
    struct name##3 { T x, y, z; }; \
    struct alignas(a4) name##4 { T x, y, z, w; }; \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define uint3 thalweg_uint3
THALWEG_VECTOR(signed char, char, 2, 4)
THALWEG_VECTOR(unsigned char, uchar, 2, 4)
THALWEG_VECTOR(short, short, 4, 8)
THALWEG_VECTOR(unsigned short, ushort, 4, 8)
THALWEG_VECTOR(int, int, 8, 16)
THALWEG_VECTOR(unsigned, uint, 8, 16)
THALWEG_VECTOR(float, float, 8, 16)
THALWEG_VECTOR(long long, longlong, 16, 16)
THALWEG_VECTOR(thalweg_u64, ulonglong, 16, 16)
THALWEG_VECTOR(double, double, 16, 16)
#undef uint3

// Barriers and warps. Kinds: 0 a barrier of the block that counts, 1 a shuffle, 2 a ballot, 3 a look at what others do, for the so manieth time, 4 one at what other blocks tell.
inline thalweg_u64 thalweg_block(bool x) { return thalweg_runtime.meet(0, 0, x, 0); }
inline void __syncthreads() { thalweg_block(false); }
inline int __syncthreads_count(int x) { return int(unsigned(thalweg_block(x != 0))); }
inline int __syncthreads_or(int x) { return unsigned(thalweg_block(x != 0)) != 0; }
inline int __syncthreads_and(int x) { return unsigned(thalweg_block(x == 0)) == 0; }
inline void thalweg_look(thalweg_u64 times) { thalweg_runtime.meet(3, 0, times, 0); }
inline void thalweg_look_at_blocks() { thalweg_runtime.meet(4, 0, 0, 0); }
inline unsigned thalweg_lane() { return thalweg_runtime.thread.x & 31; }
inline void __syncwarp(unsigned mask = 0xffffffffu) { thalweg_runtime.meet(1, mask, 0, thalweg_lane()); }
inline unsigned __ballot_sync(unsigned mask, int x) { return unsigned(thalweg_runtime.meet(2, mask, x != 0, 0)); }
inline int __any_sync(unsigned mask, int x) { return __ballot_sync(mask, x) != 0; }
inline int __all_sync(unsigned mask, int x) { return __ballot_sync(mask, x == 0) == 0; }
inline unsigned thalweg_lane_of(unsigned source, unsigned) { return source; }
#define THALWEG_SHUFFLE(T, Bits) \
    inline T thalweg_shuffle(unsigned mask, T x, unsigned source) { \
        return thalweg_bits<T>(Bits(thalweg_runtime.meet(1, mask, thalweg_bits<Bits>(x), source))); \
    } \
    inline T __shfl_sync(unsigned mask, T x, int source, int width = 32) { \
        unsigned lane = thalweg_lane(), within = unsigned(width) - 1; \
        return thalweg_shuffle(mask, x, (lane & ~within) | (unsigned(source) & within)); \
    } \
    inline T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32) { \
        unsigned lane = thalweg_lane(), within = unsigned(width) - 1; \
        return thalweg_shuffle(mask, x, (lane & within) < by ? lane : lane - by); \
    } \
    inline T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) { \
        unsigned lane = thalweg_lane(), within = unsigned(width) - 1; \
        return thalweg_shuffle(mask, x, (lane & within) + by > within ? lane : lane + by); \
    } \
    inline T __shfl_xor_sync(unsigned mask, T x, int with, int width = 32) { \
        unsigned lane = thalweg_lane(), last = lane | (unsigned(width) - 1), from = lane ^ unsigned(with); \
        return thalweg_shuffle(mask, x, from > last ? lane : from); \
    }
THALWEG_SHUFFLE(int, unsigned)
THALWEG_SHUFFLE(unsigned, unsigned)
THALWEG_SHUFFLE(long, thalweg_u64)
THALWEG_SHUFFLE(unsigned long, thalweg_u64)
THALWEG_SHUFFLE(long long, thalweg_u64)
THALWEG_SHUFFLE(thalweg_u64, thalweg_u64)
THALWEG_SHUFFLE(float, unsigned)
THALWEG_SHUFFLE(double, thalweg_u64)
inline void __threadfence() { __asm__ volatile("" ::: "memory"); }
inline void __threadfence_block() { __asm__ volatile("" ::: "memory"); }
inline void __threadfence_system() { __asm__ volatile("" ::: "memory"); }
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() { __builtin_trap(); }

// Atomics: nobody else runs.
#define THALWEG_ATOMIC(T, name, now) \
    inline T name(T* at, T x) { \
        volatile T* place = at; \
        T old = *place; \
        *place = now; \
        return old; \
    }
#define THALWEG_ATOMICS(T) \
    THALWEG_ATOMIC(T, atomicMin, x < old ? x : old) \
    THALWEG_ATOMIC(T, atomicMax, x > old ? x : old) \
    THALWEG_ATOMIC(T, atomicAnd, old & x) \
    THALWEG_ATOMIC(T, atomicOr, old | x) \
    THALWEG_ATOMIC(T, atomicXor, old ^ x) \
    inline T atomicCAS(T* at, T expected, T x) { \
        volatile T* place = at; \
        T old = *place; \
        if (old == expected) *place = x; \
        return old; \
    }
THALWEG_ATOMICS(int)
THALWEG_ATOMICS(unsigned)
THALWEG_ATOMICS(long long)
THALWEG_ATOMICS(thalweg_u64)
THALWEG_ATOMIC(int, atomicAdd, int(unsigned(old) + unsigned(x)))
THALWEG_ATOMIC(unsigned, atomicAdd, old + x)
THALWEG_ATOMIC(thalweg_u64, atomicAdd, old + x)
THALWEG_ATOMIC(float, atomicAdd, old + x)
THALWEG_ATOMIC(double, atomicAdd, old + x)
THALWEG_ATOMIC(int, atomicSub, int(unsigned(old) - unsigned(x)))
THALWEG_ATOMIC(unsigned, atomicSub, old - x)
THALWEG_ATOMIC(unsigned, atomicInc, old >= x ? 0 : old + 1)
THALWEG_ATOMIC(int, atomicExch, x)
THALWEG_ATOMIC(unsigned, atomicExch, x)
THALWEG_ATOMIC(thalweg_u64, atomicExch, x)
THALWEG_ATOMIC(float, atomicExch, x)

// Loads and stores with hints.
template <class T> inline T __ldg(const T* at) { return *at; }
template <class T> inline T __ldcs(const T* at) { return *at; }
template <class T> inline T __ldca(const T* at) { return *at; }
template <class T> inline T __ldcg(const T* at) { return *at; }
template <class T> inline T __ldcv(const T* at) { return *const_cast<const volatile T*>(at); }
template <class T> inline T __ldlu(const T* at) { return *at; }
template <class T> inline void __stcs(T* at, T x) { *at = x; }
template <class T> inline void __stcg(T* at, T x) { *at = x; }
template <class T> inline void __stwb(T* at, T x) { *at = x; }
template <class T> inline void __stwt(T* at, T x) { *at = x; }

// Integers.
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(thalweg_u64(x)) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(thalweg_u64 x) { return __builtin_popcountll(x); }
inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; i++) y |= (x >> i & 1) << (31 - i);
    return y;
}
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned(thalweg_u64(x) * y >> 32); }
inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
inline thalweg_u64 __umul64hi(thalweg_u64 x, thalweg_u64 y) { return thalweg_u64((unsigned __int128)x * y >> 64); }
inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
    thalweg_u64 bytes = thalweg_u64(y) << 32 | x;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        unsigned which = s >> 4 * i, byte = unsigned(bytes >> 8 * (which & 7)) & 0xff;
        r |= (which & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
    }
    return r;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) { return unsigned((thalweg_u64(hi) << 32 | lo) << (s & 31) >> 32); }
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) { return unsigned((thalweg_u64(hi) << 32 | lo) >> (s & 31)); }

// Mathematics: the host's library.
#define THALWEG_MATH1(name) \
    extern "C" float name##f(float) noexcept; \
    extern "C" double name(double) noexcept; \
    inline float name(float x) { return name##f(x); }
#define THALWEG_MATH2(name) \
    extern "C" float name##f(float, float) noexcept; \
    extern "C" double name(double, double) noexcept; \
    inline float name(float x, float y) { return name##f(x, y); }
THALWEG_MATH1(sin) THALWEG_MATH1(cos) THALWEG_MATH1(tan) THALWEG_MATH1(asin) THALWEG_MATH1(acos) THALWEG_MATH1(atan)
THALWEG_MATH1(sinh) THALWEG_MATH1(cosh) THALWEG_MATH1(tanh) THALWEG_MATH1(asinh) THALWEG_MATH1(acosh) THALWEG_MATH1(atanh)
THALWEG_MATH1(exp) THALWEG_MATH1(exp2) THALWEG_MATH1(expm1) THALWEG_MATH1(log) THALWEG_MATH1(log2) THALWEG_MATH1(log10) THALWEG_MATH1(log1p)
THALWEG_MATH1(sqrt) THALWEG_MATH1(cbrt) THALWEG_MATH1(erf) THALWEG_MATH1(erfc) THALWEG_MATH1(lgamma) THALWEG_MATH1(tgamma) THALWEG_MATH1(fabs)
THALWEG_MATH1(floor) THALWEG_MATH1(ceil) THALWEG_MATH1(trunc) THALWEG_MATH1(round) THALWEG_MATH1(rint) THALWEG_MATH1(nearbyint)
THALWEG_MATH2(pow) THALWEG_MATH2(atan2) THALWEG_MATH2(fmod) THALWEG_MATH2(remainder) THALWEG_MATH2(hypot) THALWEG_MATH2(fmin) THALWEG_MATH2(fmax)
THALWEG_MATH2(copysign) THALWEG_MATH2(fdim) THALWEG_MATH2(nextafter)
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double fma(double, double, double) noexcept;
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
extern "C" float ldexpf(float, int) noexcept;
extern "C" double ldexp(double, int) noexcept;
inline float ldexp(float x, int n) { return ldexpf(x, n); }
inline float rsqrtf(float x) { return float(1.0 / __builtin_sqrt(double(x))); }
inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float exp10f(float x) { return powf(10.0f, x); }
inline float erfcxf(float x) { return float(::exp(double(x) * x) * ::erfc(double(x))); }
inline void sincosf(float x, float* s, float* c) { *s = sinf(x); *c = cosf(x); }
inline void sincos(double x, double* s, double* c) { *s = sin(x); *c = cos(x); }
#define THALWEG_CLASSES(T) \
    inline bool isnan(T x) { return __builtin_isnan(x); } \
    inline bool isinf(T x) { return __builtin_isinf(x); } \
    inline bool isfinite(T x) { return __builtin_isfinite(x); } \
    inline bool signbit(T x) { return __builtin_signbit(x); }
THALWEG_CLASSES(float)
THALWEG_CLASSES(double)
#define THALWEG_ORDER(T) \
    inline T min(T x, T y) { return y < x ? y : x; } \
    inline T max(T x, T y) { return x < y ? y : x; }
THALWEG_ORDER(int)
THALWEG_ORDER(unsigned)
THALWEG_ORDER(long)
THALWEG_ORDER(unsigned long)
THALWEG_ORDER(long long)
THALWEG_ORDER(thalweg_u64)
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }
inline int abs(int x) { return int(x < 0 ? 0u - unsigned(x) : unsigned(x)); }
inline long long abs(long long x) { return (long long)(x < 0 ? 0ull - thalweg_u64(x) : thalweg_u64(x)); }
inline long long llabs(long long x) { return abs(x); }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }

inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
#define THALWEG_EXACT(T, p) \
    inline T __##p##add_rn(T x, T y) { return x + y; } \
    inline T __##p##sub_rn(T x, T y) { return x - y; } \
    inline T __##p##mul_rn(T x, T y) { return x * y; } \
    inline T __##p##div_rn(T x, T y) { return x / y; } \
    inline T __##p##rcp_rn(T x) { return T(1) / x; } \
    inline T __##p##sqrt_rn(T x) { return T(__builtin_sqrt(double(x))); }
THALWEG_EXACT(float, f)
THALWEG_EXACT(double, d)
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

// Floats to integers as the device does it: towards zero, to the nearest that there is. Not a number is 0, as 64 bits the least.
template <class To, class From> inline To thalweg_integer(From x, From beyond, To least, To most, To nan) {
    if (x != x) return nan;
    if (x >= beyond) return most;
    return x <= From(least) ? least : To(x);
}
#define THALWEG_INTEGER(name, From) \
    inline int __##name##2int_rz(From x) { return thalweg_integer<int, From>(x, From(2147483648.0), -2147483647 - 1, 2147483647, 0); } \
    inline unsigned __##name##2uint_rz(From x) { return thalweg_integer<unsigned, From>(x, From(4294967296.0), 0u, 0xffffffffu, 0u); } \
    inline long long __##name##2ll_rz(From x) { \
        const long long most = 0x7fffffffffffffffll; \
        return thalweg_integer<long long, From>(x, From(9223372036854775808.0), -most - 1, most, -most - 1); \
    } \
    inline thalweg_u64 __##name##2ull_rz(From x) { \
        return thalweg_integer<thalweg_u64, From>(x, From(18446744073709551616.0), 0ull, ~0ull, 0x8000000000000000ull); \
    } \
    inline int __##name##2int_rn(From x) { return __##name##2int_rz(From(rint(x))); } \
    inline long long __##name##2ll_rn(From x) { return __##name##2ll_rz(From(rint(x))); }
THALWEG_INTEGER(float, float)
THALWEG_INTEGER(double, double)
inline float __double2float_rn(double x) { return float(x); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __ull2float_rn(thalweg_u64 x) { return float(x); }
inline double __int2double_rn(int x) { return double(x); }
inline double __uint2double_rn(unsigned x) { return double(x); }
inline double __ll2double_rn(long long x) { return double(x); }
inline double __ull2double_rn(thalweg_u64 x) { return double(x); }
