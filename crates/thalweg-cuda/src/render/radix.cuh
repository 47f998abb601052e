// Radix sorts of long rows, from the lowest digit on (docs/cuda.md, "Sorts"). In front of it stand S, the element in memory; Key, its key; `key_of`, which makes the one of the
// other, in the order that is wanted; PLACES, whether places are asked for. Behind it is a kernel that counts all digits at once, or a pass that moves elements to where theirs are.
constexpr u32 DIGITS = 256, WARPS = DIGITS / 32, EACH = sizeof(S) == 8 ? 8 : 16, TILE = DIGITS * EACH;
// Two at least, so that the last one reads from somewhere else than it writes to.
constexpr u32 PASSES = sizeof(S) < 2 ? 2 : sizeof(S), COPIES = 16 / PASSES;
FN u32 digit_of(Key key, u32 pass) { return pass < sizeof(S) ? (u32)(key >> 8 * pass) & DIGITS - 1 : 0; }

// The sum of what threads of the block up to this one have. `sums` is shared memory for a number of each warp, free again behind the next barrier.
FN u32 sum_to(u32 x, u32 *sums) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (u32 o = 1; o < 32; o *= 2) { const u32 other = __shfl_up_sync(0xffffffffu, x, o); if (lane >= o) x += other; }
  if (lane == 31) sums[warp] = x;
  __syncthreads();
  for (u32 w = 0; w < warp; w++) x += sums[w];
  return x;
}

// Where a pass of a row reads and writes: whence in the lower half, whither in the upper one; 0 where it is left out.
enum : u32 { GIVEN = 1, FIRST = 2, SECOND = 3, RESULT = 4 };

// What is counted of a row, put down by the last one of its blocks: where each digit of each pass begins, and which passes there are. A pass in which all digits are the same moves
// nothing. Counters are 0 again.
FN void starts_of_digits(u32 *counters, u32 *starts, u32 n, u32 *sums) {
  const u32 t = threadIdx.x;
  u32 many = 0;
#pragma unroll
  for (u32 p = 0; p < PASSES; p++) {
    const u32 own = atomicExch(counters + p * DIGITS + t, 0u), up_to = sum_to(own, sums);
    store1(starts + p * DIGITS + t, up_to - own);
    const bool same = __syncthreads_or(own == n);
    many |= (same ? 0u : 1u) << p;
  }
  for (u32 p = 0; __popc(many) < 2; p++) many |= 1u << p;
  if (t < PASSES) {
    const u32 before = __popc(many & (1u << t) - 1), count = __popc(many);
    const u32 whence = before == 0 ? GIVEN : before % 2 ? FIRST : SECOND, whither = before + 1 == count ? RESULT : before % 2 ? SECOND : FIRST;
    store1(starts + PASSES * DIGITS + t, many >> t & 1 ? whence | whither << 16 : 0);
  }
}

// How many elements of the same digit stand before each of a thread's in its warp's stretch, counted on in `counts`; those up to `count` of the stretch, of which a thread has
// every 32nd.
FN void ranks_in_warp(const u32 (&digit)[EACH], u32 count, u32 *counts, u32 (&ranks)[EACH]) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 k = 0; k < EACH; k++) {
    const bool inside = 32 * k + lane < count;
    u32 same = __ballot_sync(0xffffffffu, inside);
#pragma unroll
    for (u32 bit = 0; bit < 8; bit++) {
      const bool one = digit[k] >> bit & 1;
      const u32 ones = __ballot_sync(0xffffffffu, one);
      same &= one ? ones : ~ones;
    }
    const u32 below = __popc(same & ((1u << lane) - 1)), before = counts[digit[k]];
    __syncwarp();
    if (inside && below == 0) counts[digit[k]] = before + __popc(same);
    __syncwarp();
    ranks[k] = before + below;
  }
}

// How often this thread's digit stands in the tiles of the row before this one, which has it `total` times. `own` is where the tile tells that: the count in 31 bits, and whether it
// is that of all tiles up to there.
FN u32 tiles_before(u64 *own, u32 tag, u32 tile, u32 total) {
  constexpr u32 AHEAD = 4;
  const u64 head = (u64)tag << 32;
  tell(own, head | total | (tile == 0 ? 1u << 31 : 0));
  u32 before = 0;
  u64 times = 0;
  for (u32 back = 1; back <= tile;) {
    const u32 from = back;
    u64 words[AHEAD];
#pragma unroll
    for (u32 k = 0; k < AHEAD; k++) words[k] = back + k <= tile ? told(own - (u64)(back + k) * DIGITS) : 0;
#pragma unroll
    for (u32 k = 0; k < AHEAD; k++) {
      // Behind one that is not told yet, nothing is taken; behind a whole one, nothing is left.
      if (back > tile || (u32)(words[k] >> 32) != tag) break;
      before += (u32)words[k] & ~(1u << 31);
      back = (u32)words[k] >> 31 ? tile + 1 : back + 1;
    }
    if (back == from) look_again(times++);
  }
  if (tile > 0 && is_told(tile)) tell(own, head | before + total | 1u << 31);
  return before;
}
