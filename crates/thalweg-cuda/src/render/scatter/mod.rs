//! Scatters: values put in at given places along an axis.
//!
//! In: an operation and the geometry of a scatter. Out: launches, and their sources. First the tensor is copied to
//! where the result is, unless it lies there. Then values are put in, one of these ways, by sizes and chip alone:
//!
//! * *in lines*: each thread takes one line along the axis, and puts its values in one after the other.
//! * *in runs* (`sorted`), where lines are too few to keep the chip busy: indices are sorted by place, and each thread
//!   takes the values that meet one element.
//!   Where lines that lie side by side have their indices in common, a thread of these takes a vector of lines.
//! * *the latest*, there too, where values replace each other: a thread for each index finds by an atomic maximum which
//!   is the last one that names an element, and a thread for each element takes that one's value. (The copy is left out.)
//! * *at once*, there too, where the order cannot be seen (sums and extremes of integers): a thread for each value, and
//!   atomic operations. Sums in few places are counted in shared memory ([`thalweg_gpu::write::counted`]).
//!
//! Always true: values that meet one element do so in the order of the index, and each result is rounded where it lies.
//! So all ways give the same bits.

pub mod sorted;

use super::monoid::combined;
use super::types::{held, pack, stored, unpack};
pub use sorted::source as sort_source;
use std::fmt::Write;
use thalweg_gpu::class::scatter::{BLOCK, EACH, HEAD, ScatterClass, Way};
use thalweg_ir::{DType, Monoid, ScatterOp};

/// The source of a launch, with one function, `scatter`.
pub fn source(class: &ScatterClass) -> String {
    let (s, dims, wide, lanes) = (stored(class.dtype), class.dims as usize, class.wide, class.lanes);
    let mut lines = String::new();
    for d in (0..dims).rev() {
        let w = HEAD + EACH * d;
        let _ = if wide {
            write!(lines, "  {{ const i64 d = (i64)a.w[{w}], i = rest % d; rest /= d;")
        } else {
            write!(lines, "  {{ const Split s = split(rest, a.w[{w}], a.w[{}]); const i64 i = s.r; rest = s.q;", w + 1)
        };
        for k in 0..5 {
            let _ = write!(lines, " at{k} += i * (i64)a.w[{}];", w + 2 + k);
        }
        lines += " }\n";
    }
    let cut = match (class.way, wide) {
        (Way::Lines(_), _) => "rest = g;\n",
        (_, true) => "along = g / (i64)a.w[13]; rest = g % (i64)a.w[13];\n",
        (_, false) => "const Split cut = split(g, a.w[13], a.w[14]); along = cut.q; rest = cut.r;\n",
    };
    let turn = match class.way {
        Way::Lines(_) => "",
        _ => "  if (!a.w[16]) { const number swapped = along; along = rest; rest = swapped; }\n",
    };
    let body = match class.way {
        Way::Copy => format!(
            "  __align__(16) {s} raw[{lanes}];\n  loadv(raw, tensor + at0 + (i64)along * (i64)a.w[7]);\n  storev(to + at3 + (i64)along * (i64)a.w[10], raw);\n"
        ),
        Way::Lines(op) => format!(
            r#"  for (i64 i = 0; i < (i64)a.w[5]; i++) {{
    const i64 place = load1(index + at1 + i * (i64)a.w[8]);
    if (place < 0 || place >= (i64)a.w[6]) {{ *(u32 *)a.w[11] = 1; continue; }}
    __align__(16) {s} raws[{lanes}];
    loadv(raws, values + at2 + i * (i64)a.w[9]);
    {s} *const line = to + at3 + place * (i64)a.w[10];
    {}
  }}
"#,
            match op {
                ScatterOp::Set => "storev(line, raws);".into(),
                op => format!(
                    "__align__(16) {s} elements[{lanes}];\n    loadv(elements, line);\n#pragma unroll\n    for (u32 v = 0; v < {lanes}; v++) {{ const {s} raw = raws[v]; {s} *const p = &elements[v]; {} }}\n    storev(line, elements);",
                    put(op, class.dtype)
                ),
            }
        ),
        Way::AtOnce(op) => format!(
            r#"  const i64 place = load1(index + at1 + (i64)along * (i64)a.w[8]);
  if (place < 0 || place >= (i64)a.w[6]) {{ *(u32 *)a.w[11] = 1; return; }}
  const {s} raw = load1(values + at2 + (i64)along * (i64)a.w[9]);
  {s} *const p = to + at3 + place * (i64)a.w[10];
  {}
"#,
            at_once(op, class.dtype)
        ),
        Way::Runs(op) => sorted::runs(op, class.dtype, lanes),
        Way::Clear => "  store1((u32 *)a.w[12] + g, 0u);\n".into(),
        // From the last index on, so that most find a later one there; what the first-level cache has may be old, and says less then.
        Way::Latest => r#"  const i64 *const own = index + at1 + (i64)along * (i64)a.w[8];
  const i64 place = load1(own);
  if (place < 0 || place >= (i64)a.w[6]) { *(u32 *)a.w[11] = 1; return; }
  if (along + 1 < (number)a.w[5] && load1(own + (i64)a.w[8]) == place) return;
  u32 *const latest = (u32 *)a.w[12] + at4 + place;
  if (load1(latest) < (u32)along + 1) atomicMax(latest, (u32)along + 1);
"#
        .into(),
        Way::Take => format!(
            r#"  const u32 latest = load1((u32 *)a.w[12] + at4 + (i64)along);
  if (latest == 0 && tensor == to) return;
  __align__(16) {s} raw[{lanes}];
  if (latest) loadv(raw, values + at2 + (i64)(latest - 1) * (i64)a.w[9]);
  else loadv(raw, tensor + at0 + (i64)along * (i64)a.w[7]);
  storev(to + at3 + (i64)along * (i64)a.w[10], raw);
"#
        ),
    };
    let own = if class.way == Way::Copy { "  if (a.w[0] == a.w[3]) return;\n" } else { "" };
    format!(
        r#"
typedef {number} number;
extern "C" __global__ void __launch_bounds__({BLOCK}) scatter(THALWEG_PARAMETER({words})) {{
  begin();
{own}  const {s} *const tensor = (const {s} *)a.w[0], *const values = (const {s} *)a.w[2];
  const i64 *const index = (const i64 *)a.w[1];
  {s} *const to = ({s} *)a.w[3];
  {numbered}
  if (g {beyond}) return;
  i64 at0 = 0, at1 = 0, at2 = 0, at3 = 0, at4 = 0;
  number rest, along;
  {cut}{turn}{lines}{body}}}
"#,
        number = if wide { "i64" } else { "u32" },
        numbered = match class.way {
            Way::Latest => format!("const i64 g = (i64)a.w[15] - 1 - (i64)blockIdx.x * {BLOCK} - threadIdx.x;"),
            _ => format!("const number g = (number)blockIdx.x * {BLOCK} + threadIdx.x;"),
        },
        beyond = if class.way == Way::Latest { "< 0" } else { ">= (number)a.w[15]" },
        words = HEAD + EACH * dims,
    )
}

/// A statement that puts `raw` in at `p`.
fn put(op: ScatterOp, dtype: DType) -> String {
    let Some(monoid) = op.monoid() else { return "*p = raw;".into() };
    let (old, new) = (unpack(dtype, "(*p)"), unpack(dtype, "raw"));
    let result = match (dtype, monoid) {
        // Sums modulo 2.
        (DType::Bool, Monoid::Sum) => "before != value".into(),
        (DType::Bool, Monoid::Max) => "before || value".into(),
        (DType::Bool, _) => "before && value".into(),
        (DType::BF16 | DType::F16, op) => combined(op, DType::F32, "before", "value"),
        (_, op) => combined(op, dtype, "before", "value"),
    };
    let h = held(dtype);
    format!("{{ const {h} before = {old}, value = {new}; *p = {}; }}", pack(dtype, &format!("({result})")))
}

/// A statement that puts `raw` in at `p`, where others do so at the same time.
fn at_once(op: ScatterOp, dtype: DType) -> String {
    let (name, of) = match (op, dtype) {
        // Sums wrap, with a sign or without.
        (ScatterOp::Add, DType::I64) => ("Add", "u64"),
        (ScatterOp::Add, _) => ("Add", stored(dtype)),
        (ScatterOp::Max, _) => ("Max", stored(dtype)),
        _ => ("Min", stored(dtype)),
    };
    format!("atomic{name}(({of} *)p, ({of})raw);")
}
