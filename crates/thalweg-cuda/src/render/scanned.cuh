// Scans of rows that lie in registers, and what blocks that share a row tell each other (docs/cuda.md, "Scans"). `Op` stands in front of a kernel: what is accumulated (Wide), the
// element in a register that it is made of (wide) and becomes (narrow), and how two of them are put together (of). Back: from the end of the row.

// What blocks tell each other stands in words that also say in which launch they were written (a tag), so that nobody has to clear them: half a number and the tag in each of two. A
// word is read and written as a whole, so whoever finds the tag has the half number, and no fence is needed.
#ifdef THALWEG_EMULATED
FN void told(u64 *at, u32 tag, u64 bits) {
  ((volatile u64 *)at)[0] = (u64)tag << 32 | (u32)bits;
  ((volatile u64 *)at)[1] = (u64)tag << 32 | bits >> 32;
}
FN bool hears(const u64 *at, u32 tag, u64 &bits) {
  const u64 low = ((const volatile u64 *)at)[0], high = ((const volatile u64 *)at)[1];
  bits = high << 32 | (u32)low;
  return (u32)(low >> 32) == tag && (u32)(high >> 32) == tag;
}
FN void look_again(u64 times) { thalweg_look(times); }
// Blocks run one after the other here, so the last sum is always there. Some are not told, for others to look further back.
FN bool is_told(u32 group) { return group % 29 == 7 || (group * 2654435761u >> 13) % 3 == 0; }
#else
FN void told(u64 *at, u32 tag, u64 bits) {
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"((u64)tag << 32 | (u32)bits), "l"((u64)tag << 32 | bits >> 32) : "memory");
}
FN bool hears(const u64 *at, u32 tag, u64 &bits) {
  u64 low, high;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(at) : "memory");
  bits = high << 32 | (u32)low;
  return (u32)(low >> 32) == tag && (u32)(high >> 32) == tag;
}
FN void look_again(u64) {}
FN bool is_told(u32) { return true; }
#endif
FN double from_bits(u64 bits, double) { return __longlong_as_double((i64)bits); }
FN i64 from_bits(u64 bits, i64) { return (i64)bits; }
FN u64 to_bits(double x) { return (u64)__double_as_longlong(x); }
FN u64 to_bits(i64 x) { return (u64)x; }

// A block's number in the order in which blocks begin, so that those before it have begun, too; and the launch's tag. The first word has the launch in its upper half, and how many
// blocks have begun in its lower one; the last block to begin sets it for the next launch.
struct Ticket { u32 number, tag; };
// `drawn` is shared memory.
FN Ticket ticket(u64 *words, u64 *drawn) {
  if (threadIdx.x == 0) {
    const u64 own = atomicAdd(words, 1ull);
    if ((u32)own == gridDim.x - 1) *(volatile u64 *)words = ((own >> 32) + 1) << 32;
    *drawn = own;
  }
  __syncthreads();
  return {(u32)*drawn, (u32)(*drawn >> 32) + 1};
}

// Where tiles of a row stand: those of a row are numbered in the order of the scan, and 32 of them are a group.
struct Links {
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
  if (lane == 0) told(at.tile, at.tag, to_bits(total));
  Wide within = Op::identity();
  if (lane < place) {
    for (u64 times = 0; !hears(at.tile - 2 * (place - lane), at.tag, bits); times++) look_again(times);
    within = from_bits(bits, within);
  }
#pragma unroll
  for (int o = 16; o > 0; o /= 2) within = Op::of(within, __shfl_xor_sync(0xffffffffu, within, o));
  const Wide all = Op::of(within, total);
  if (place == 31 && lane == 0) told(at.group, at.tag, to_bits(all));
  Wide before = Op::identity();
  if (group > 0) {
    // Lane l looks at the l-th group before this one; in front of the row's first there is nothing, which is known.
    u64 part = to_bits(Op::identity()), sum = part;
    u32 first = 0;
    for (u64 times = 0;; times++) {
      const bool inside = lane < group, has_sum = !inside || hears(at.group - 4 * (u64)(lane + 1) + 2, at.tag, sum);
      const bool has_part = inside && hears(at.group - 4 * (u64)(lane + 1), at.tag, part);
      const u32 sums = __ballot_sync(0xffffffffu, has_sum), parts = __ballot_sync(0xffffffffu, has_part);
      first = __ffs(sums) - 1;
      if (sums && ((1u << first) - 1 & ~parts) == 0) break;
      look_again(times);
    }
    before = __shfl_sync(0xffffffffu, from_bits(sum, before), first);
    for (u32 l = first; l-- > 0;) before = Op::of(before, __shfl_sync(0xffffffffu, from_bits(part, before), l));
  }
  if (place == 31 && lane == 0 && is_told(group)) told(at.group + 2, at.tag, to_bits(Op::of(before, all)));
  return Op::of(before, within);
}
// A row of one block: nothing is before it.
struct Alone {};
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
// lies where it lay. `parts` is shared memory for a number of each warp and vector.
template <class Op, int G, bool Back, class At, class E, int K, int V>
FN void scan_row(E (&x)[K][V], u32 t, u32 count, typename Op::Wide *parts, const At &at) {
  typedef typename Op::Wide Wide;
  constexpr int W = G < 32 ? G : 32, warps = G / W;
  Wide before[K], running = Op::identity();
#pragma unroll
  for (int i = 0; i < K; i++) {
    const int k = Back ? K - 1 - i : i;
    Wide all = Op::identity();
    if (k * G + t < count) {
      all = Op::wide(x[k][Back ? V - 1 : 0]);
#pragma unroll
      for (int v = 1; v < V; v++) all = Op::of(all, Op::wide(x[k][Back ? V - 1 - v : v]));
    }
    all = scan_warp<Op, W, Back>(all);
    before[k] = lanes_before<Op, W, Back>(all);
    if constexpr (warps == 1) {
      before[k] = Op::of(running, before[k]);
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
    Wide y = before[k];
    if constexpr (warps > 1) y = Op::of(parts[i * warps + (Back ? warps - 1 - t / 32 : t / 32)], y);
#pragma unroll
    for (int v = 0; v < V; v++) {
      E &element = x[k][Back ? V - 1 - v : v];
      y = Op::of(y, Op::wide(element));
      element = Op::narrow(y);
    }
  }
}
