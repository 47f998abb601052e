// Folds of what differs from a fold, in parts that have folds of their own (docs/monoids.md). A part's state says what its elements differ from, so that two of them can be
// brought to the same and added.
template <class T> FN bool is_number(T x) { return x - x == 0; }

// A sum of a row as one of a part of it, of which it is to make the mean.
template <class T> FN T own_mean(T sum, T many, T row, T most) {
  const T scaled = sum * (row / many);
  return is_number(sum) ? (scaled > most ? most : scaled < -most ? -most : scaled) : sum;
}

// s[q] = sum of w (x - m)^q, of n elements. Mean: without weights, so that the mean of two parts is known.
template <class T, int P, bool Mean> struct Shifted {
  T n, m, s[P + 1];
  FN static Shifted none() {
    Shifted x;
    x.n = 0; x.m = 0;
#pragma unroll
    for (int q = 0; q <= P; q++) x.s[q] = 0;
    return x;
  }
  // Each x - m becomes x - m + d.
  FN void move(T d) {
    if (d == 0) return;
    if (!is_number(d)) {
      T power = s[0];
#pragma unroll
      for (int q = 1; q <= P; q++) { power *= d; s[q] = s[q] != s[q] ? s[q] : power; }
      return;
    }
    // From the highest, which takes the lower ones as they were.
#pragma unroll
    for (int p = P; p > 0; p--) {
      T power = 1, ways = 1, sum = s[p];
#pragma unroll
      for (int q = p - 1; q >= 0; q--) {
        power *= d;
        ways = ways * (q + 1) / (p - q);
        sum += ways * power * s[q];
      }
      // What went out of range stays there; what does so now is as large as the largest term.
      s[p] = is_number(sum) ? sum : is_number(s[p]) ? power * s[0] : s[p];
    }
  }
  FN static T center(const Shifted &a, const Shifted &b) {
    // The mean of both, counted from the larger part's.
    if constexpr (Mean) {
      const bool second = a.n < b.n;
      const T m = second ? b.m : a.m, far = second ? a.m : b.m, own = second ? b.s[1] : a.s[1], theirs = second ? a.s[1] : b.s[1];
      const T mean = m + (own + (theirs + (second ? a.n : b.n) * (far - m))) / (a.n + b.n);
      return is_number(mean) ? mean : m;
    }
    return a.n < b.n ? b.m : a.m;
  }
  FN static Shifted of(Shifted a, Shifted b) {
    if (b.n == 0) return a;
    if (a.n == 0) return b;
    const T m = center(a, b);
    a.move(a.m - m);
    b.move(b.m - m);
    a.m = m;
    a.n += b.n;
#pragma unroll
    for (int q = 0; q <= P; q++) a.s[q] += b.s[q];
    return a;
  }
  // Of what differs from `to`.
  FN T result(T to) const {
    if (n == 0) return 0;
    Shifted x = *this;
    x.move(m - to);
    return x.s[P];
  }
  // The same, where `to` is the mean but for its rounding: of what differs from the mean.
  FN T result_about_mean(T to, T mean, T digits) const {
    if (n == 0 || !(fabs(to - mean) <= 8 * digits * fabs(mean)) || !is_number(s[1])) return result(to);
    Shifted x = *this;
    x.move(-(s[1] / n));
    return P == 2 && x.s[P] < 0 ? 0 : x.s[P];
  }
};

// States of the threads of a warp, in groups of G, and of the warps of a block of G threads: in the order of the threads, so all get the same.
template <class S> FN S of_pair(S x, int o) {
  S y;
  const u32 *const from = (const u32 *)&x;
  u32 *const to = (u32 *)&y;
#pragma unroll
  for (int i = 0; i < sizeof(S) / 4; i++) to[i] = __shfl_xor_sync(0xffffffffu, from[i], o);
  return threadIdx.x & o ? S::of(y, x) : S::of(x, y);
}
template <int G, class S> FN S states_of_warp(S x) {
#pragma unroll
  for (int o = 1; o < (G < 32 ? G : 32); o *= 2) x = of_pair(x, o);
  return x;
}
template <int G, class S> FN S states_of_block(const S *parts) {
  S x = parts[threadIdx.x % (G / 32)];
#pragma unroll
  for (int o = 1; o < G / 32; o *= 2) x = of_pair(x, o);
  return x;
}
template <class S> FN void store_state(S *p, const S &x) {
#pragma unroll
  for (int i = 0; i < sizeof(S) / 4; i++) st4((u32 *)p + i, ((const u32 *)&x)[i]);
}
template <class S> FN S load_state(const S *p) {
  S x;
#pragma unroll
  for (int i = 0; i < sizeof(S) / 4; i++) ((u32 *)&x)[i] = cold4((const u32 *)p + i);
  return x;
}
