// What stands around a library's decompositions: matrices into its order and out of it, and what there is to be said of them. Behind the prelude; each function for f32 and
// f64. The library's matrices are column-major, one behind the other.

// Tells that a matrix does not do: the largest word wins, which is that of the first matrix (thalweg_runtime::Unfit).
FN void tell(u64 word, u64 matrix, u64 code, u64 number) {
  if (word) atomicMax((u64 *)word, (~matrix & 0xffffffffull) << 32 | code << 28 | (0xfffffffull - number));
}
template <class T> FN bool is_finite(T x) { return x - x == (T)0; }
FN u64 thread() { return blockIdx.x * 256ull + threadIdx.x; }

// Elements of [.., rows, columns] as a view has them into matrices. Words: from, to, how many elements, rows, columns, how (1: column-major, 2: the lower half, and zeros; 4: what
// is not finite is told, and zero; 8: by the minor that ends there), elements from matrix to matrix, the word, the code, the rank (0 where they
// lie row-major), sizes, steps.
template <class T> FN void pack(const Words<26> &a) {
  const u64 t = thread();
  if (t >= a.w[2]) return;
  const u64 rows = a.w[3], columns = a.w[4], how = a.w[5], matrix = t / (rows * columns), within = t % (rows * columns);
  const u64 i = how & 1 ? within % rows : within / columns, j = how & 1 ? within / rows : within % columns;
  T x = (T)0;
  if (!(how & 2) || j <= i) {
    u64 rest = (matrix * rows + i) * columns + j;
    i64 from = (i64)rest;
    if (a.w[9] != 0) {
      from = 0;
      for (int d = (int)a.w[9] - 1; d >= 0; d--) {
        from += (i64)(rest % a.w[10 + d]) * (i64)a.w[18 + d];
        rest /= a.w[10 + d];
      }
    }
    x = ((const T *)a.w[0])[from];
    if ((how & 4) && !is_finite(x)) {
      tell(a.w[7], matrix, a.w[8], how & 8 ? i + 1 : 0);
      x = (T)0;
    }
  }
  ((T *)a.w[1])[matrix * a.w[6] + within] = x;
}

// Words: from, to (row-major), how many elements, rows, columns, elements from matrix to matrix, from row to row, from column to column, what is taken (0: all, 1: the upper half, and zeros;
// 2: the lower half, and zeros); where not 0, an i32 for each matrix, which is infinities where that is not 0.
template <class T> FN void unpack(const Words<10> &a) {
  const u64 t = thread();
  if (t >= a.w[2]) return;
  const u64 rows = a.w[3], columns = a.w[4], matrix = t / (rows * columns), within = t % (rows * columns);
  const u64 i = within / columns, j = within % columns;
  T x = (T)0;
  if (a.w[8] == 0 || (a.w[8] == 1 ? j >= i : j <= i)) x = ((const T *)a.w[0])[matrix * a.w[5] + i * a.w[6] + j * a.w[7]];
  if (a.w[9] != 0 && ((const i32 *)a.w[9])[matrix] != 0) x = (T)__longlong_as_double(0x7ff0000000000000ll);
  ((T *)a.w[1])[t] = x;
}

// Identities. Words: to, how many elements, rows.
template <class T> FN void identity(const Words<3> &a) {
  const u64 t = thread();
  if (t < a.w[1]) ((T *)a.w[0])[t] = t % (a.w[2] * a.w[2]) % (a.w[2] + 1) == 0 ? (T)1 : (T)0;
}

// Looks at diagonals. Words: from, how many elements, those of a diagonal, elements from matrix to matrix, from one of the diagonal to the next, the word, the code, whether what is not finite is told,
// by the minor that ends there (else zeros are); where not 0, an i32 for each matrix, which is set.
template <class T> FN void diagonal(const Words<9> &a) {
  const u64 t = thread();
  if (t >= a.w[1]) return;
  const u64 matrix = t / a.w[2], i = t % a.w[2];
  const T x = ((const T *)a.w[0])[matrix * a.w[3] + i * a.w[4]];
  if (a.w[7] ? is_finite(x) : x != (T)0) return;
  tell(a.w[5], matrix, a.w[6], i + a.w[7]);
  if (a.w[8] != 0) ((i32 *)a.w[8])[matrix] = 1;
}

// The order of rows after exchanges. Words: exchanges (counted from 1), to, rows, exchanges of a matrix, memory for an i32 a row where rows are more than fit here.
constexpr int ROWS = 4096;
template <class T> FN void order(const Words<5> &a, i32 *here, i32 *exchanges) {
  const u64 matrix = blockIdx.x, rows = a.w[2], k = a.w[3];
  const i32 *all = (const i32 *)a.w[0] + matrix * k;
  const bool fits = rows <= ROWS;
  i32 *rank = fits ? here : (i32 *)a.w[4] + matrix * rows;
  for (u64 i = threadIdx.x; i < rows; i += 256) rank[i] = (i32)i;
  if (fits)
    for (u64 i = threadIdx.x; i < k; i += 256) exchanges[i] = all[i];
  __syncthreads();
  if (threadIdx.x == 0)
    for (u64 i = 0; i < k; i++) {
      const i32 with = (fits ? exchanges[i] : all[i]) - 1, own = rank[i];
      rank[i] = rank[with];
      rank[with] = own;
    }
  __syncthreads();
  for (u64 i = threadIdx.x; i < rows; i += 256) ((T *)a.w[1])[matrix * rows + i] = (T)rank[i];
}

// Determinants of what is taken apart. Words: from, elements from matrix to matrix, rows, exchanges (counted from 1), to; where not 0, to the logarithms, and the first are signs.
template <class T> FN void determinant(const Words<6> &a, T *pivots, double *logs) {
  const u64 matrix = blockIdx.x, n = a.w[2];
  u64 odd = 0;
  T product = (T)1;
  double sum = 0.0;
  bool zero = false, nan = false;
  for (u64 first = 0; first < n; first += 256) {
    const u64 i = first + threadIdx.x;
    bool exchanged = false;
    if (i < n) {
      const T x = ((const T *)a.w[0])[matrix * a.w[1] + i * (n + 1)];
      pivots[threadIdx.x] = x;
      if (a.w[5]) logs[threadIdx.x] = log(fabs((double)x));
      exchanged = (u64)((const i32 *)a.w[3])[matrix * n + i] != i + 1;
    }
    odd += (u64)__syncthreads_count(exchanged);
    if (threadIdx.x == 0) {
      const u64 here = n - first < 256 ? n - first : 256;
      for (u64 at = 0; at < here; at++) {
        const T x = pivots[at];
        if (a.w[5] == 0) { product *= x; continue; }
        odd += x < (T)0;
        zero |= x == (T)0;
        nan |= x != x;
        sum += logs[at];
      }
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const T sign = odd & 1 ? (T)-1 : (T)1;
  if (a.w[5] == 0) { ((T *)a.w[4])[matrix] = sign * product; return; }
  ((T *)a.w[4])[matrix] = nan ? (T)__longlong_as_double(0x7ff8000000000000ll) : zero ? (T)0 : sign;
  ((T *)a.w[5])[matrix] = (T)sum;
}

// Products of reflections, a thread for each column. Words: reflections, elements from matrix to matrix, their factors, to, rows, columns of the product, reflections of a matrix, columns in all.
template <class T> FN void reflect(const Words<8> &a) {
  const u64 t = thread();
  if (t >= a.w[7]) return;
  const u64 rows = a.w[4], columns = a.w[5], k = a.w[6], matrix = t / columns, j = t % columns;
  const T *v = (const T *)a.w[0] + matrix * a.w[1], *factors = (const T *)a.w[2] + matrix * k;
  T *x = (T *)a.w[3] + t * rows;
  for (u64 i = 0; i < rows; i++) x[i] = i == j ? (T)1 : (T)0;
  // Those behind see nothing but zeros.
  for (i64 r = (i64)(j < k ? j : k - 1); r >= 0; r--) {
    const T *own = v + r * rows;
    T along = x[r];
    for (u64 i = r + 1; i < rows; i++) along += own[i] * x[i];
    along *= factors[r];
    x[r] -= along;
    for (u64 i = r + 1; i < rows; i++) x[i] -= along * own[i];
  }
}

#define THALWEG_BOTH(name, K) \
  extern "C" __global__ void __launch_bounds__(256) name##_f32(THALWEG_PARAMETER(K)) { name<float>(a); } \
  extern "C" __global__ void __launch_bounds__(256) name##_f64(THALWEG_PARAMETER(K)) { name<double>(a); }
THALWEG_BOTH(pack, 26)
THALWEG_BOTH(unpack, 10)
THALWEG_BOTH(identity, 3)
THALWEG_BOTH(diagonal, 9)
THALWEG_BOTH(reflect, 8)
#define THALWEG_ORDER(name, T) \
  extern "C" __global__ void __launch_bounds__(256) name(THALWEG_PARAMETER(5)) { \
    __shared__ i32 here[ROWS]; \
    __shared__ i32 exchanges[ROWS]; \
    order<T>(a, here, exchanges); \
  }
THALWEG_ORDER(order_f32, float)
THALWEG_ORDER(order_f64, double)
#define THALWEG_DETERMINANT(name, T) \
  extern "C" __global__ void __launch_bounds__(256) name(THALWEG_PARAMETER(6)) { \
    __shared__ T pivots[256]; \
    __shared__ double logs[256]; \
    determinant<T>(a, pivots, logs); \
  }
THALWEG_DETERMINANT(determinant_f32, float)
THALWEG_DETERMINANT(determinant_f64, double)

// What the library says of matrices. Words: an i32 for each, how many, the word, the code, whether it is the number.
extern "C" __global__ void __launch_bounds__(256) said(THALWEG_PARAMETER(5)) {
  const u64 t = thread();
  if (t >= a.w[1]) return;
  const i32 info = ((const i32 *)a.w[0])[t];
  if (info > 0) tell(a.w[2], t, a.w[3], a.w[4] ? (u64)info : 0);
}

// Addresses of matrices. Words: to, the first, bytes from one to the next, how many.
extern "C" __global__ void __launch_bounds__(256) places(THALWEG_PARAMETER(4)) {
  const u64 t = thread();
  if (t < a.w[3]) ((u64 *)a.w[0])[t] = a.w[1] + t * a.w[2];
}
