
// Rows that several blocks hold a part of each (docs/cuda.md, "Columns"): what each has folded of its part is told to the others in words that no fence is needed for. All blocks put
// the same results together in the same order.
template <class T> FN u64 word_of(T x) { u64 word = 0; *(T *)&word = x; return word; }
template <class Op, class T, int V, int MOST, int WIDE> FN void fold_blocks(u64 *words, u32 tag, u32 chunk, u32 chunks, T (&value)[V], T (&parts)[MOST][V][WIDE]) {
  constexpr u32 EACH = sizeof(T) > 4 ? 2 : 1;
  const u32 tx = threadIdx.x % WIDE, ty = threadIdx.x / WIDE;
  if (ty == 0) {
    u64 *own = words + (chunk * WIDE + tx) * V * EACH;
#pragma unroll
    for (int v = 0; v < V; v++) {
      if constexpr (EACH == 2) tell(own + 2 * v, tag, word_of(value[v]));
      else tell(own + v, (u64)tag << 32 | (u32)word_of(value[v]));
    }
  }
  if (ty < chunks) {
    const u64 *theirs = words + (ty * WIDE + tx) * V * EACH;
    u64 found[V];
#pragma unroll
    for (int v = 0; v < V; v++)
      if constexpr (EACH == 1) found[v] = told(theirs + v);
#pragma unroll
    for (int v = 0; v < V; v++) {
      if constexpr (EACH == 2)
        while (!told(theirs + 2 * v, tag, found[v])) look_at_blocks();
      else
        while ((u32)(found[v] >> 32) != tag && (u32)((found[v] = told(theirs + v)) >> 32) != tag) look_at_blocks();
      parts[ty][v][tx] = *(T *)&found[v];
    }
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < V; v++) value[v] = parts[0][v][tx];
  for (u32 c = 1; c < chunks; c++) {
#pragma unroll
    for (int v = 0; v < V; v++) value[v] = Op::of(value[v], parts[c][v][tx]);
  }
}
