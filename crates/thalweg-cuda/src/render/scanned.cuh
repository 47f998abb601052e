// Scans of rows that lie in registers, and what blocks that share a row tell each other (docs/cuda.md, "Scans"). `Op` stands in front of a kernel: what is accumulated (Wide), the
// element in a register that it is made of (wide) and becomes (narrow), and how two of them are put together (of). Back: from the end of the row.

FN double from_bits(u64 bits, double) { return __longlong_as_double((i64)bits); }
FN i64 from_bits(u64 bits, i64) { return (i64)bits; }
FN u64 from_bits(u64 bits, u64) { return bits; }
FN u64 to_bits(double x) { return (u64)__double_as_longlong(x); }
FN u64 to_bits(i64 x) { return (u64)x; }
FN u64 to_bits(u64 x) { return x; }

// What is made of an element is made of it again: to hold it would take twice the registers of an f32, and a block less on a multiprocessor.
template <class E> FN void made_again(E &) {}
#ifndef THALWEG_EMULATED
FN void made_again(float &x) { asm volatile("" : "+f"(x)); }
#endif

// Where tiles of a row stand: those of a row are numbered in the order of the scan, and 32 of them are a group.
struct Links {
  static constexpr bool linked = true;
  // Of the tile: two words of its total. Of its group: two of the group's total, and two of all up to its end.
  u64 *tile, *group;
  u32 tag, number;
};
FN Links links(u64 *words, Ticket own, u32 row, u32 tile, u32 tiles) {
  const u32 groups = (tiles + 31) / 32;
  return {words + 8 + 2 * (u64)own.number, words + 8 + 2 * (u64)gridDim.x + 4 * ((u64)row * groups + tile / 32), own.tag, tile};
}

// What the tiles before this one give, whose total is `total`, for all lanes of the warp that calls it. In which order they are put together is always the same, whoever is ready
// when: those of the tile's group by a tree, and groups one after the other, beginning at the nearest one whose sum up to its end is known (which was found in that order, too).
template <class Op> FN typename Op::Wide tiles_before(const Links &at, typename Op::Wide total) {
  typedef typename Op::Wide Wide;
  const u32 lane = threadIdx.x % 32, place = at.number % 32, group = at.number / 32;
  u64 bits = 0;
  if (lane == 0) tell(at.tile, at.tag, to_bits(total));
  Wide within = Op::identity();
  if (lane < place) {
    for (u64 times = 0; !told(at.tile - 2 * (place - lane), at.tag, bits); times++) look_again(times);
    within = from_bits(bits, within);
  }
#pragma unroll
  for (int o = 16; o > 0; o /= 2) within = Op::of(within, __shfl_xor_sync(0xffffffffu, within, o));
  const Wide all = Op::of(within, total);
  if (place == 31 && lane == 0) tell(at.group, at.tag, to_bits(all));
  Wide before = Op::identity();
  if (group > 0) {
    // Lane l looks at the l-th group before this one; in front of the row's first there is nothing, which is known.
    u64 part = to_bits(Op::identity()), sum = part;
    u32 first = 0;
    for (u64 times = 0;; times++) {
      const bool inside = lane < group, has_sum = !inside || told(at.group - 4 * (u64)(lane + 1) + 2, at.tag, sum);
      const bool has_part = inside && told(at.group - 4 * (u64)(lane + 1), at.tag, part);
      const u32 sums = __ballot_sync(0xffffffffu, has_sum), parts = __ballot_sync(0xffffffffu, has_part);
      first = __ffs(sums) - 1;
      if (sums && ((1u << first) - 1 & ~parts) == 0) break;
      look_again(times);
    }
    before = __shfl_sync(0xffffffffu, from_bits(sum, before), first);
    for (u32 l = first; l-- > 0;) before = Op::of(before, __shfl_sync(0xffffffffu, from_bits(part, before), l));
  }
  if (place == 31 && lane == 0 && is_told(group)) tell(at.group + 2, at.tag, to_bits(Op::of(before, all)));
  return Op::of(before, within);
}
// A row of one block: nothing is before it.
struct Alone { static constexpr bool linked = false; };
template <class Op> FN typename Op::Wide tiles_before(const Alone &, typename Op::Wide) { return Op::identity(); }

// Of lanes up to this one, in groups of W, in the order of the scan.
template <class Op, int W, bool Back> FN typename Op::Wide scan_warp(typename Op::Wide x) {
  const u32 lane = threadIdx.x % W;
#pragma unroll
  for (u32 o = 1; o < W; o *= 2) {
    const typename Op::Wide other = Back ? __shfl_down_sync(0xffffffffu, x, o, W) : __shfl_up_sync(0xffffffffu, x, o, W);
    if (Back ? lane + o < W : lane >= o) x = Op::of(other, x);
  }
  return x;
}
// The same of lanes before this one, from that.
template <class Op, int W, bool Back> FN typename Op::Wide lanes_before(typename Op::Wide x) {
  const u32 lane = threadIdx.x % W;
  const typename Op::Wide other = Back ? __shfl_down_sync(0xffffffffu, x, 1u, W) : __shfl_up_sync(0xffffffffu, x, 1u, W);
  return lane == (Back ? W - 1 : 0) ? Op::identity() : other;
}
// Of the first warp: what the parts of the block's warps give, each with those before it put in its place.
template <class Op, int N, class At> FN void scan_parts(typename Op::Wide *parts, const At &at) {
  typedef typename Op::Wide Wide;
  const u32 lane = threadIdx.x % 32;
  constexpr int turns = (N + 31) / 32;
  Wide before[turns], all = Op::identity();
#pragma unroll
  for (int c = 0; c < turns; c++) {
    const Wide x = scan_warp<Op, 32, false>(c * 32 + lane < N ? parts[c * 32 + lane] : Op::identity());
    before[c] = Op::of(all, lanes_before<Op, 32, false>(x));
    all = Op::of(all, __shfl_sync(0xffffffffu, x, 31));
  }
  const Wide base = tiles_before<Op>(at, all);
#pragma unroll
  for (int c = 0; c < turns; c++)
    if (c * 32 + lane < N) parts[c * 32 + lane] = Op::of(base, before[c]);
}

// Running results of a row, or of a tile of one: of G threads, number t has the vectors first = t, t + G, … of it, those below `count`, as elements in registers. What comes out
// lies where it lay. `parts` is shared memory for a number of each warp and vector, and behind these
// for one of each thread and vector where tiles have eight vectors a thread or more of up to 32 bits.
template <class Op, int G, bool Back, class At, class E, int K, int V>
FN void scan_row(E (&x)[K][V], u32 t, u32 count, typename Op::Wide *parts, const At &at) {
  typedef typename Op::Wide Wide;
  constexpr int W = G < 32 ? G : 32, warps = G / W;
  // What is before each vector waits in registers for what is before the tile; of many vectors in shared memory, where a block more runs for it.
  constexpr bool apart = At::linked && K >= 8 && sizeof(E) <= 4;
  Wide held[apart ? 1 : K], running = Op::identity();
  Wide *const left = parts + K * warps;
#pragma unroll
  for (int i = 0; i < K; i++) {
    const int k = Back ? K - 1 - i : i;
    Wide &before = apart ? left[k * G + t] : held[apart ? 0 : k];
    Wide all = Op::identity();
    if (k * G + t < count) {
      all = Op::wide(x[k][Back ? V - 1 : 0]);
#pragma unroll
      for (int v = 1; v < V; v++) all = Op::of(all, Op::wide(x[k][Back ? V - 1 - v : v]));
    }
    all = scan_warp<Op, W, Back>(all);
    before = lanes_before<Op, W, Back>(all);
    if constexpr (warps == 1) {
      before = Op::of(running, before);
      running = Op::of(running, __shfl_sync(0xffffffffu, all, Back ? 0 : W - 1, W));
    } else if (t % 32 == (Back ? 0 : 31)) {
      parts[i * warps + (Back ? warps - 1 - t / 32 : t / 32)] = all;
    }
  }
  if constexpr (warps > 1) {
    __syncthreads();
    if (t < 32) scan_parts<Op, K * warps>(parts, at);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < K; i++) {
    const int k = Back ? K - 1 - i : i;
    Wide y = apart ? left[k * G + t] : held[apart ? 0 : k];
    if constexpr (warps > 1) y = Op::of(parts[i * warps + (Back ? warps - 1 - t / 32 : t / 32)], y);
#pragma unroll
    for (int v = 0; v < V; v++) {
      E &element = x[k][Back ? V - 1 - v : v];
      made_again(element);
      y = Op::of(y, Op::wide(element));
      element = Op::narrow(y);
    }
  }
}
