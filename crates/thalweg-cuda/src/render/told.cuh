// What blocks of a launch tell each other (docs/cuda.md, "Passing on"). It stands in words that also say in which launch they were written (a tag), so that nobody has to clear them,
// and that are read and written as a whole, so that whoever finds the tag has what comes with it, and no fence is needed. A number of 64 bits is two such words.
#ifdef THALWEG_EMULATED
FN void tell(u64 *at, u64 word) { *(volatile u64 *)at = word; }
FN u64 told(const u64 *at) { return *(const volatile u64 *)at; }
FN void tell(u64 *at, u32 tag, u64 bits) {
  tell(at, (u64)tag << 32 | (u32)bits);
  tell(at + 1, (u64)tag << 32 | bits >> 32);
}
FN bool told(const u64 *at, u32 tag, u64 &bits) {
  const u64 low = told(at), high = told(at + 1);
  bits = high << 32 | (u32)low;
  return (u32)(low >> 32) == tag && (u32)(high >> 32) == tag;
}
FN void look_again(u64 times) { thalweg_look(times); }
FN void look_at_blocks() { thalweg_look_at_blocks(); }
// Blocks run one after the other here, so the nearest sum is always there. Some are not told, for others to look further back.
FN bool is_told(u32 number) { return number % 29 == 7 || (number * 2654435761u >> 13) % 3 == 0; }
#else
FN void tell(u64 *at, u64 word) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory"); }
FN u64 told(const u64 *at) { u64 word; asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory"); return word; }
FN void tell(u64 *at, u32 tag, u64 bits) {
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"((u64)tag << 32 | (u32)bits), "l"((u64)tag << 32 | bits >> 32) : "memory");
}
FN bool told(const u64 *at, u32 tag, u64 &bits) {
  u64 low, high;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(at) : "memory");
  bits = high << 32 | (u32)low;
  return (u32)(low >> 32) == tag && (u32)(high >> 32) == tag;
}
FN void look_again(u64) {}
FN void look_at_blocks() {}
FN bool is_told(u32) { return true; }
#endif

// A block's number in the order in which blocks begin, so that those before it have begun, too; and the launch's tag. The first word has the launch in its upper half, and how many
// blocks have begun in its lower one; the last block to begin sets it for the next launch. `drawn` is shared memory. What blocks tell begins at the eighth word.
struct Ticket { u32 number, tag; };
FN Ticket ticket(u64 *words, u64 *drawn) {
  if (threadIdx.x == 0) {
    const u64 own = atomicAdd(words, 1ull);
    if ((u32)own == gridDim.x - 1) tell(words, ((own >> 32) + 1) << 32);
    *drawn = own;
  }
  __syncthreads();
  return {(u32)*drawn, (u32)(*drawn >> 32) + 1};
}

// How often this thread's digit, of 256, stands in the tiles of the row before this one, which has it `total` times. `own` is where the tile tells that: the count in 31 bits, and
// whether it is that of all tiles up to there.
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
    for (u32 k = 0; k < AHEAD; k++) words[k] = back + k <= tile ? told(own - (u64)(back + k) * 256) : 0;
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
