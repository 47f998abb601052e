// An interpreter: one kernel for every single operation, so that nobody waits for a compiler the first time. What it runs is words of its argument
// (generic/code.rs writes them, and says what each instruction does). `WORD` is a slot's word, of which a thread has LANES side by side; in front of this stand
// the numbers of instructions and dtypes, functions from words and to them, and `light` and `heavy`, what the table of operations gives.
//
// A block has rows of the domain, each with `deep` threads, and a thread LANES of their points at a time. Slots lie in shared memory, a column a thread, so that
// partial results of folds are where other threads look for them. All threads of a block are at the same instruction.
FN WORD narrowed(u32 dtype, WORD x) {
  return dtype == OF_I8 ? word((i32)(i8)x) : dtype == OF_I16 ? word((i32)(i16)x) : dtype == OF_U8 ? word((i32)(u8)x) : x;
}
// What was loaded, its bytes in the low end of a number, as a value; and back.
FN WORD widened(u32 dtype, u64 raw) {
  switch (dtype) {
    case OF_BF16: return word(from_bf16((u16)raw));
    case OF_F16: return word(from_f16((u16)raw));
    case OF_I8: return word((i32)(i8)raw);
    case OF_I16: return word((i32)(i16)raw);
    case OF_BOOL: return word(raw != 0);
    default: return (WORD)raw;
  }
}
FN u64 packed(u32 dtype, WORD x) {
  switch (dtype) {
    case OF_BF16: return bits_bf16(as_f32(x));
    case OF_F16: return to_f16(as_f32(x));
    case OF_BOOL: return as_bool(x);
    default: return x;
  }
}
// The bytes of an element, as a power of two.
FN u32 size_of(u32 dtype) { return SIZES >> 2 * dtype & 3; }
FN u64 raw(u32 size, u64 p) { return size == 0 ? load1((const u8 *)p) : size == 1 ? load1((const u16 *)p) : size == 2 ? load1((const u32 *)p) : load1((const u64 *)p); }
FN void store_raw(u32 size, u64 p, u64 x) {
  if (size == 0) store1((u8 *)p, (u8)x);
  else if (size == 1) store1((u16 *)p, (u16)x);
  else if (size == 2) store1((u32 *)p, (u32)x);
  else store1((u64 *)p, x);
}
__device__ __noinline__ WORD loaded(u32 dtype, u64 p, i64 at) {
  const u32 size = size_of(dtype);
  return widened(dtype, raw(size, p + (at << size)));
}
// A quotient and its rest; of positions that take 64 bits by a division, else by a multiplication.
struct Parts { i64 q, r; };
__device__ __noinline__ Parts divided(i64 n, i64 d) { const i64 q = n / d; return {q, n - q * d}; }
FN Parts parts(bool wide, i64 n, u64 d, u64 s) {
  if (wide) return divided(n, (i64)d);
  const Split x = split((u32)n, d, s);
  return {x.q, x.r};
}

extern "C" __global__ void __launch_bounds__(THREADS) generic(THALWEG_PARAMETER(WORDS)) {
  begin();
  THALWEG_SHARED(file);
  const u32 shape = (u32)a.w[4], log = shape & 15, kept = shape >> 8 & 15, rank = shape >> 12 & 15;
  const bool across = shape >> 4 & 1, wide = shape >> 5 & 1;
  const u32 deep = 1u << log, rows_of_block = THREADS >> log, t = threadIdx.x;
  const u32 own = across ? t & rows_of_block - 1 : t >> log, ti = across ? t >> 7 - log : t & deep - 1;
  const i64 rows = (i64)a.w[0], n = (i64)a.w[1], chunks = (i64)a.w[2], chunk = (i64)blockIdx.x % chunks;
  i64 row = (i64)blockIdx.x / chunks * rows_of_block + own;
  const bool there = row < rows;
  if (!there) row = rows - 1;
  const i64 from = chunk * (i64)a.w[3], to = from + (i64)a.w[3] < n ? from + (i64)a.w[3] : n;
  u32 *const fault = (u32 *)a.w[6];
  const u32 dims = (u32)a.w[7];
  constexpr u32 ALL = (1u << LANES) - 1;
  unsigned char *const mine = file + t * sizeof(Lanes);
  auto slot = [&](unsigned char *column, u32 number) -> Lanes & { return *(Lanes *)(column + number * (THREADS * sizeof(Lanes))); };
  auto fetch = [&](u32 operand) -> Lanes {
    if (operand < 0x800) return slot(mine, operand);
    Lanes all;
#pragma unroll
    for (int v = 0; v < LANES; v++) all.x[v] = (WORD)a.w[operand & 0x7ff];
    return all;
  };
  // Where the lanes stand: points of the row, and which of them are there, and store.
  i64 first = 0, q = 0, step = 0;
  u32 live = 0, stores = 0;
  auto stand = [&]() {
    q = first + ti;
    live = 0;
#pragma unroll
    for (int v = 0; v < LANES; v++) live |= (u32)(there && q + v * step < to) << v;
    stores = live;
  };
  for (u32 pc = (u32)a.w[5];;) {
    const u64 code = a.w[pc++];
    const u32 op = code & 1023, to_slot = code >> 10 & 255, fa = code >> 18 & 0xfff, fb = code >> 30 & 0xfff, fc = code >> 42 & 0xfff;
    const u32 dtype = code >> 54 & 15, arity = code >> 58 & 3;
    Lanes r;
    if (op <= LAST_ACCESS) {
      const u64 access = a.w[fc];
      const u32 at = access & 0xffff, of = access >> 56 & 15;
      const u64 address = a.w[at];
      i64 place[LANES], rest[LANES];
      u32 inside = ALL;
      if (access >> 16 & 1) {
        // Through an index map: view by view, each with a number of dimensions, and bounds where it masks.
        u32 w = at + 1;
#pragma unroll
        for (int v = 0; v < LANES; v++) place[v] = row * n + q + v * step;
        for (u64 levels = access >> 20 & 0xfffffffff; levels & 32; levels >>= 6) {
          const u32 ranks = levels & 15, size = levels & 16 ? 5 : 3;
#pragma unroll
          for (int v = 0; v < LANES; v++) rest[v] = place[v], place[v] = (i64)a.w[w];
          w++;
          for (u32 d = ranks; d-- > 0;) {
            const u32 k = w + d * size;
#pragma unroll
            for (int v = 0; v < LANES; v++) {
              const Parts x = parts(wide, rest[v], a.w[k], a.w[k + 1]);
              const i64 i = x.r;
              rest[v] = x.q;
              place[v] += i * (i64)a.w[k + 2];
              if (size == 5 && !(i >= (i64)a.w[k + 3] && i < (i64)a.w[k + 4])) inside &= ~(1u << v);
            }
          }
          w += ranks * size;
          // Where a point is masked out, the next view is not to be asked for something below 0.
#pragma unroll
          for (int v = 0; v < LANES; v++) if (!(inside >> v & 1)) place[v] = 0;
        }
      } else {
        i64 base = 0, left = row;
        for (u32 d = kept; d-- > 0;) {
          const u32 k = dims + 2 * d;
          Parts x = {0, left};
          if (d > 0) x = parts(wide, left, a.w[k], a.w[k + 1]);
          left = x.q;
          base += x.r * (i64)a.w[at + 1 + d];
        }
#pragma unroll
        for (int v = 0; v < LANES; v++) rest[v] = q + v * step, place[v] = base;
        for (u32 d = rank; d-- > kept;) {
          const u32 k = dims + 2 * d;
          const i64 stride = (i64)a.w[at + 1 + d];
#pragma unroll
          for (int v = 0; v < LANES; v++) {
            Parts x = {0, rest[v]};
            if (d > kept) x = parts(wide, rest[v], a.w[k], a.w[k + 1]);
            rest[v] = x.q;
            place[v] += x.r * stride;
          }
        }
      }
      const u32 size = size_of(of);
      if (op == STORE) {
        const Lanes x = fetch(fa);
#pragma unroll
        for (int v = 0; v < LANES; v++) if (stores >> v & 1) store_raw(size, address + (place[v] << size), packed(of, x.x[v]));
        continue;
      }
      if (op == LOAD) {
        // All loads before the first use of one.
        u64 bits[LANES];
        for (int v = 0; v < LANES; v++) bits[v] = 0, place[v] = (live & inside) >> v & 1 ? address + (place[v] << size) : 0;
#define FETCH(T) { for (int v = 0; v < LANES; v++) if (place[v]) bits[v] = load1((const T *)place[v]); }
        if (size == 2) FETCH(u32) else if (size == 1) FETCH(u16) else if (size == 0) FETCH(u8) else FETCH(u64)
#pragma unroll
        for (int v = 0; v < LANES; v++) r.x[v] = widened(of, bits[v]);
      } else if (op == VALID) {
#pragma unroll
        for (int v = 0; v < LANES; v++) r.x[v] = word((bool)(inside >> v & 1));
      } else if (op == INDEX) {
        // The word holds a position where there is no operand.
        const i64 base = access >> 16 & 1 ? 0 : (i64)address;
#pragma unroll
        for (int v = 0; v < LANES; v++) r.x[v] = (WORD)(base + place[v]);
      } else {
        const Lanes offset = fetch(fa), within = fetch(fb);
#pragma unroll
        for (int v = 0; v < LANES; v++) {
          r.x[v] = 0;
          if (live >> v & 1) {
            if (as_bool(within.x[v])) r.x[v] = loaded(of, address, place[v] + (i64)offset.x[v]);
            else *fault = 1;
          }
        }
      }
      slot(mine, to_slot) = r;
      continue;
    }
    if (op <= LAST_CONTROL) {
      switch (op) {
        case END: return;
        case LOOP:
          first = from;
          step = deep;
          if (first >= to) pc = fa;
          stand();
          break;
        case ENDLOOP:
          first += (i64)deep * LANES;
          if (first < to) pc = fa;
          stand();
          break;
        case ONCE:
          q = step = 0;
          live = there ? ALL : 0;
          stores = there && ti == 0;
          break;
        case PARTNER:
          // A step of a tree over the threads of a row: threads below the distance see what the others have.
          __syncthreads();
          live = ti < fb ? ALL : 0;
          if (ti < fb) slot(mine, to_slot) = slot(file + (across ? t + fb * rows_of_block : t + fb) * sizeof(Lanes), fa);
          break;
        case ROTATE: {
          // Of the one thread that has it all: who reads what others have may not be through with them.
          const Lanes x = fetch(fa);
          live = ti == 0 ? ALL : 0;
          // Which is the half of the lanes, or 1.
#pragma unroll
          for (int v = 0; v < LANES; v++) r.x[v] = fb == 1 ? x.x[(v + 1) % LANES] : x.x[(v + LANES / 2) % LANES];
          slot(mine, to_slot) = r;
          break;
        }
        case BROADCAST: {
          __syncthreads();
          const WORD x = slot(file + (across ? own : t - ti) * sizeof(Lanes), fa).x[0];
#pragma unroll
          for (int v = 0; v < LANES; v++) r.x[v] = x;
          slot(mine, to_slot) = r;
          break;
        }
        case PARTIAL:
          if (there && ti == 0) store_raw(size_of(dtype), a.w[fb] + (row * chunks + chunk << size_of(dtype)), fetch(fa).x[0]);
          break;
        default: {
          // COMMIT: for the lanes that are there.
          const Lanes x = fetch(fa);
          Lanes &old = slot(mine, to_slot);
#pragma unroll
          for (int v = 0; v < LANES; v++) if (live >> v & 1) old.x[v] = x.x[v];
        }
      }
      continue;
    }
    const Lanes x = fetch(fa);
    Lanes y = x, z = x;
    if (arity > 1) y = fetch(fb);
    if (arity > 2) z = fetch(fc);
    if (!light(op, r, x, y, z)) {
#pragma unroll
      for (int v = 0; v < LANES; v++) r.x[v] = heavy(op, x.x[v], y.x[v], z.x[v]);
    }
    if (dtype == OF_I8 || dtype == OF_I16 || dtype == OF_U8) {
#pragma unroll
      for (int v = 0; v < LANES; v++) r.x[v] = narrowed(dtype, r.x[v]);
    }
    slot(mine, to_slot) = r;
  }
}
