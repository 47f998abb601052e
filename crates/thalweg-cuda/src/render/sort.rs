//! Sorts of rows in memory.
//!
//! In: rows of elements. Out: the rows sorted, or the places that their elements came from. An element is a key (an
//! unsigned integer in its order) and a place, and equal keys keep their order.
//!
//! A block sorts a stretch in shared memory: eight elements in the registers of each thread, then merges. Rows that fit
//! a stretch are done then, and short ones share a block; of longer ones pairs of sorted runs are merged in launches, a
//! stretch of what comes out a block. A merge finds what each block, and then each thread, begins with by a binary
//! search for how many elements the left run gives (Green, McColl and Bader 2012).

use super::types::{stored, unpack};
use thalweg_gpu::class::scan::{ScanClass, Way};
use thalweg_gpu::class::sort::{BLOCK, STRETCH, WORDS, is_wide};
use thalweg_ir::{DType, ScanOp};

/// A statement that makes an element's key of `raw`, in the lowest bytes, as many as the element has: NaN the largest,
/// zeros equal.
pub(super) fn key(dtype: DType) -> String {
    match dtype {
        DType::F64 => "const i64 b = __double_as_longlong(raw); Key key = raw != raw ? ~0ull : raw == 0 ? 1ull << 63 : b < 0 ? ~(u64)b : (u64)b | 1ull << 63;".into(),
        DType::F32 => "const u32 b = f32_bits(raw); Key key = raw != raw ? 0xffffffffu : raw == 0 ? 0x80000000u : b >> 31 ? ~b : b | 0x80000000u;".into(),
        DType::BF16 | DType::F16 => format!(
            "const float v = {}; const u32 b = raw; Key key = v != v ? 0xffffu : v == 0 ? 0x8000u : b >> 15 ? (u16)~b : b | 0x8000u;",
            unpack(dtype, "raw")
        ),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool => "Key key = raw;".into(),
        DType::I64 => "Key key = (u64)raw ^ 1ull << 63;".into(),
        DType::I8 => "Key key = (u8)raw ^ 0x80u;".into(),
        DType::I16 => "Key key = (u16)raw ^ 0x8000u;".into(),
        _ => "Key key = (u32)raw ^ 0x80000000u;".into(),
    }
}

/// The source of a sort of stretches, or of a merge, with one function, `scan`.
pub fn source(class: &ScanClass) -> String {
    let element = stored(class.dtype);
    let wide = if is_wide(class.dtype) { "u64" } else { "u32" };
    let common = format!(
        r#"
typedef {wide} Key;
// Where an element of a stretch lies in shared memory: spread, so that threads eight elements apart do not meet in a
// bank.
FN u32 slot(u32 s) {{ return s + s / 16; }}
// How many of the first `d` elements that two runs give come from the left one. Of equal ones those of the left run
// come first.
template <class I, class L, class R> FN I given(I d, I left_count, I right_count, L left, R right) {{
  I low = d > right_count ? d - right_count : 0, high = d < left_count ? d : left_count;
  while (low < high) {{
    const I m = low + (high - low) / 2;
    if (left(m) <= right(d - 1 - m)) low = m + 1; else high = m;
  }}
  return low;
}}
// The eight elements from `d` on of what two runs give that lie side by side from `first` on.
FN void merge(const Key *keys, const u32 *places, u32 first, u32 left_count, u32 right_count, u32 d, Key (&key)[8], u32 (&place)[8]) {{
  const u32 end = left_count + right_count, middle = first + left_count;
  if (d > end) d = end;
  u32 l = given(d, left_count, right_count, [&](u32 i) {{ return keys[slot(first + i)]; }}, [&](u32 i) {{ return keys[slot(middle + i)]; }});
  u32 r = d - l;
  #pragma unroll
  for (int k = 0; k < 8; k++) {{
    key[k] = 0;
    place[k] = 0;
    if (d + k >= end) continue;
    const bool left = r >= right_count || l < left_count && keys[slot(first + l)] <= keys[slot(middle + r)];
    const u32 at = slot(left ? first + l++ : middle + r++);
    key[k] = keys[at];
    place[k] = places[at];
  }}
}}
// All threads are through with what lies in shared memory before they put down what they have, and get to see all of
// it.
FN void put(Key *keys, u32 *places, const Key (&key)[8], const u32 (&place)[8]) {{
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < 8; k++) {{
    keys[slot(threadIdx.x * 8 + k)] = key[k];
    places[slot(threadIdx.x * 8 + k)] = place[k];
  }}
  __syncthreads();
}}
extern "C" __global__ void __launch_bounds__({BLOCK}) scan(THALWEG_PARAMETER({WORDS})) {{
  begin();
  const i64 rows = (i64)a.w[2], n = (i64)a.w[3];
  const u32 t = threadIdx.x, parts = (u32)a.w[7], part = blockIdx.x % parts;
  __shared__ Key keys[{STRETCH} + {STRETCH} / 16];
  __shared__ u32 places[{STRETCH} + {STRETCH} / 16];
  Key key[8];
  u32 place[8];
"#
    );
    // The element number `s` of the stretch as a point of a row.
    let point = "const i64 row = tile + (s >> a.w[6]), i = first + (s & (1u << a.w[6]) - 1);";
    let body = if class.way == Way::Stretch { stretch(class, element, point) } else { merge() };
    common + body.trim_start_matches('\n') + give_out(class, element, point).trim_start_matches('\n')
}

/// Keys and places of a stretch, sorted in shared memory.
fn stretch(class: &ScanClass, element: &str, point: &str) -> String {
    let (key, flip) = (key(class.dtype), if class.reverse { "key = ~key;" } else { "" });
    format!(
        r#"
  // A stretch has several short rows, or a part of one.
  const i64 tile = (i64)(blockIdx.x / parts) * ({STRETCH} >> a.w[6]), first = (i64)part * {STRETCH};
  {element} loaded[8] = {{}};
  #pragma unroll
  for (int k = 0; k < 8; k++) {{
    const u32 s = t + k * {BLOCK};
    {point}
    if (row < rows && i < n) loaded[k] = ((const {element} *)a.w[0])[row * (i64)a.w[4] + i * (i64)a.w[5]];
  }}
  #pragma unroll
  for (int k = 0; k < 8; k++) {{
    const u32 s = t + k * {BLOCK};
    {point}
    // What fills up a row comes behind all of it: no key is larger, and no place.
    Key found = ~(Key)0;
    if (row < rows && i < n) {{
      const {element} raw = loaded[k];
      {key} {flip}
      found = key;
      // The result will lie over it.
      if (a.w[14] != a.w[0]) (({element} *)a.w[14])[row * n + i] = raw;
    }}
    keys[slot(s)] = found;
    places[slot(s)] = (u32)i;
  }}
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < 8; k++) {{
    key[k] = keys[slot(t * 8 + k)];
    place[k] = places[slot(t * 8 + k)];
  }}
  #pragma unroll
  for (int turn = 0; turn < 8; turn++) {{
    #pragma unroll
    for (int k = turn % 2; k < 7; k += 2) {{
      const bool swap = key[k] > key[k + 1];
      const Key low = swap ? key[k + 1] : key[k];
      const u32 low_place = swap ? place[k + 1] : place[k];
      key[k + 1] = swap ? key[k] : key[k + 1];
      place[k + 1] = swap ? place[k] : place[k + 1];
      key[k] = low;
      place[k] = low_place;
    }}
  }}
  put(keys, places, key, place);
  for (u32 run = 8; run < 1u << a.w[6]; run *= 2) {{
    const u32 pair = t * 8 & ~(2 * run - 1);
    merge(keys, places, pair, run, run, t * 8 - pair, key, place);
    put(keys, places, key, place);
  }}
"#
    )
}

/// A stretch of what two runs in memory give.
fn merge() -> String {
    format!(
        r#"
  const i64 tile = blockIdx.x / parts, first = (i64)part * {STRETCH}, run = (i64)a.w[8];
  const i64 pair = first / (2 * run) * (2 * run), rest = n - pair;
  const i64 left_count = rest < run ? rest : run, right_count = rest - left_count < run ? rest - left_count : run;
  const Key *const left = (const Key *)a.w[10] + tile * n + pair, *const right = left + left_count;
  const u32 *const left_places = (const u32 *)a.w[11] + tile * n + pair, *const right_places = left_places + left_count;
  const i64 begins = first - pair, all = left_count + right_count, ends = begins + {STRETCH} < all ? begins + {STRETCH} : all;
  __shared__ i64 bounds[2];
  if (t % 32 == 0 && t < 64) {{
    bounds[t / 32] = given(t == 0 ? begins : ends, left_count, right_count, [&](i64 i) {{ return left[i]; }}, [&](i64 i) {{ return right[i]; }});
  }}
  __syncthreads();
  const i64 from_left = bounds[0], from_right = begins - from_left;
  const u32 here = (u32)(bounds[1] - from_left), count = (u32)(ends - begins);
  #pragma unroll
  for (int k = 0; k < 8; k++) {{
    const u32 s = t + k * {BLOCK};
    if (s >= count) continue;
    key[k] = s < here ? left[from_left + s] : right[from_right + (s - here)];
    place[k] = s < here ? left_places[from_left + s] : right_places[from_right + (s - here)];
  }}
  #pragma unroll
  for (int k = 0; k < 8; k++) {{
    const u32 s = t + k * {BLOCK};
    if (s >= count) continue;
    keys[slot(s)] = key[k];
    places[slot(s)] = place[k];
  }}
  __syncthreads();
  merge(keys, places, 0, here, count - here, t * 8, key, place);
  put(keys, places, key, place);
"#
    )
}

/// What was asked for, or keys and places for the next merge.
fn give_out(class: &ScanClass, element: &str, point: &str) -> String {
    let result = if class.op == ScanOp::Argsort { "i64" } else { element };
    let value = if class.op == ScanOp::Argsort {
        "(i64)places[slot(s)]".to_string()
    } else {
        format!("((const {element} *)a.w[14])[row * (i64)a.w[15] + (i64)places[slot(s)] * (i64)a.w[16]]")
    };
    format!(
        r#"
  if (a.w[9] == 0) {{
    #pragma unroll
    for (int k = 0; k < 8; k++) {{
      const u32 s = t + k * {BLOCK};
      {point}
      if (row >= rows || i >= n) continue;
      ((Key *)a.w[{keys}])[row * n + i] = keys[slot(s)];
      ((u32 *)a.w[{places}])[row * n + i] = places[slot(s)];
    }}
    return;
  }}
  {result} out[8];
  #pragma unroll
  for (int k = 0; k < 8; k++) {{
    const u32 s = t + k * {BLOCK};
    {point}
    if (row < rows && i < n) out[k] = {value};
  }}
  // Elements that others give out, too, are where the result goes.
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < 8; k++) {{
    const u32 s = t + k * {BLOCK};
    {point}
    if (row < rows && i < n) (({result} *)a.w[1])[row * (i64)a.w[4] + i * (i64)a.w[5]] = out[k];
  }}
}}
"#,
        keys = if class.way == Way::Stretch { 10 } else { 12 },
        places = if class.way == Way::Stretch { 11 } else { 13 },
    )
}
