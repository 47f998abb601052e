// options:

// An operation whose source is the user's.
template <int K> FN void thalweg_call(const Words<K> &a);
extern "C" __global__ void __launch_bounds__(256) foreign(THALWEG_PARAMETER(6)) {
  begin();
  thalweg_call<6>(a);
}
template <class T> struct ThalwegType { enum { kind = 0, pointer = 0 }; };
template <> struct ThalwegType<float> { enum { kind = 1, pointer = 0 }; };
template <> struct ThalwegType<double> { enum { kind = 2, pointer = 0 }; };
template <class T> struct ThalwegType<const T> : ThalwegType<T> {};
template <class T> struct ThalwegType<T*> { enum { kind = 0, pointer = 1 }; };
template <int SIZE, int KIND> struct ThalwegElements {
  u64 at;
  template <class T> FN operator T*() const {
    static_assert(sizeof(T) == SIZE && int(ThalwegType<T>::kind) == KIND, "a parameter is no pointer to elements of its operand's or result's dtype");
    return (T*)at;
  }
};
template <class V> struct ThalwegNumber {
  V value;
  template <class T> FN operator T() const {
    static_assert(!int(ThalwegType<T>::pointer), "a parameter is a pointer where the operation has a size or a number");
    return (T)value;
  }
};
FN uint3 thalweg_thread() {
  const u32 t = threadIdx.x;
  uint3 at;
  at.x = t % 32; at.y = t / 32 % 8; at.z = t / 256;
  return at;
}
FN uint3 thalweg_size() {
  uint3 of;
  of.x = 32; of.y = 8; of.z = 1;
  return of;
}
#undef threadIdx
#undef blockDim
#define threadIdx thalweg_thread()
#define blockDim thalweg_size()
#undef __global__
#undef __launch_bounds__
#define __global__ __device__
#define __launch_bounds__(...)
namespace thalweg_source {
#line 1 "transposed"
#define TILE 32
static __device__ float begin(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }

extern "C" __global__ void __launch_bounds__(TILE * 8) transposed(const unsigned short *__restrict__ x, float *y, long long *clock, int rows, int columns, float scale) {
  __shared__ float tile[TILE][TILE + 1];
  extern __shared__ float more[];
  THALWEG_SHARED(same);
  const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
  for (int r = threadIdx.y; r < TILE; r += blockDim.y)
    if (top + r < rows && left + threadIdx.x < columns) tile[r][threadIdx.x] = begin(x[(top + r) * columns + left + threadIdx.x]);
  if (threadIdx.x == 0 && threadIdx.y == 0) more[0] = scale;
  __syncthreads();
  for (int r = threadIdx.y; r < TILE; r += blockDim.y)
    if (left + r < columns && top + threadIdx.x < rows) y[(left + r) * rows + top + threadIdx.x] = *(float *)same * tile[threadIdx.x][r];
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0 && threadIdx.y == 0) *clock = now;
}
}
#line 1 "call"
template <int K> FN void thalweg_call(const Words<K> &a) {
  thalweg_source::transposed(ThalwegElements<2, 0>{a.w[0]}, ThalwegElements<4, 1>{a.w[1]}, ThalwegElements<8, 0>{a.w[2]}, ThalwegNumber<i64>{(i64)a.w[3]}, ThalwegNumber<i64>{(i64)a.w[4]}, ThalwegNumber<double>{__longlong_as_double((i64)a.w[5])});
}
