
// Rows that several blocks hold a part of each (docs/cuda.md, "Columns"): what each has folded of its part is told to the others in words that no fence is needed for. All blocks put
// the same results together in the same order, a tree over sixteen lanes.
template <class T> FN u64 word_of(T x) { u64 word = 0; *(T *)&word = x; return word; }
template <class Op, class T> FN T fold_sixteen(T x) {
#pragma unroll
  for (int o = 8; o > 0; o /= 2) x = Op::of(x, __shfl_xor_sync(0xffffffffu, x, o, 16));
  return x;
}
// `parts` are what the sixteen warps have of each row; `value` is for all threads what all blocks have.
template <class Op, class T, int V, int WIDE> FN void fold_blocks(u64 *words, u32 tag, u32 chunk, u32 chunks, T none, T (&value)[V], T (&parts)[V][WIDE][17], T (&all)[V][WIDE]) {
  constexpr u32 EACH = sizeof(T) > 4 ? 2 : 1, ROWS = V * WIDE, GROUPS = 32;
  const u32 lane = threadIdx.x % 16, group = threadIdx.x / 16;
  __syncthreads();
#pragma unroll
  for (u32 row = group; row < ROWS; row += GROUPS) {
    const T own = fold_sixteen<Op>(parts[row / WIDE][row % WIDE][lane]);
    if (lane == 0) all[row / WIDE][row % WIDE] = own;
  }
  __syncthreads();
  // Threads side by side tell and look for words side by side.
  if (threadIdx.x < ROWS) {
    const u64 word = word_of(all[threadIdx.x / WIDE][threadIdx.x % WIDE]);
    u64 *place = words + (chunk * ROWS + threadIdx.x) * EACH;
    if constexpr (EACH == 2) tell(place, tag, word);
    else tell(place, (u64)tag << 32 | (u32)word);
  }
  for (u32 i = threadIdx.x; i < chunks * ROWS; i += 512) {
    const u64 *place = words + i * EACH;
    const u32 row = i % ROWS;
    u64 found;
    if constexpr (EACH == 2) while (!told(place, tag, found)) look_at_blocks();
    else while ((u32)((found = told(place)) >> 32) != tag) look_at_blocks();
    parts[row / WIDE][row % WIDE][i / ROWS] = *(T *)&found;
  }
  __syncthreads();
#pragma unroll
  for (u32 row = group; row < ROWS; row += GROUPS) {
    const T theirs = fold_sixteen<Op>(lane < chunks ? parts[row / WIDE][row % WIDE][lane] : none);
    if (lane == 0) all[row / WIDE][row % WIDE] = theirs;
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < V; v++) value[v] = all[v][threadIdx.x % WIDE];
}
