//! What is made of the sums of a tile: its body, on the sums in shared memory, some rows at a time.
//!
//! Threads stand side by side along columns there, however the sums were shared among them, so that what is read and
//! written beside the sums goes through memory in whole lines.

use super::{PartClass, PartSlots, names};
use crate::render::access::{Accesses, Stand, wanted};
use crate::render::body::{Names, name, statements};
use crate::render::types::{held, pack, stored};
use crate::space::{Inner, Way, decompose, index_type, offset};
use std::fmt::Write;
use thalweg_ir::DType;
use thalweg_kernel::Node;

/// The sums of a block on their way through shared memory.
pub(super) struct Handed<'a> {
    /// What is made of them, and which of its operands they are.
    pub(super) result: &'a (PartClass, u16),
    /// Their dtype.
    pub(super) sums: DType,
    /// Columns of the block.
    pub(super) columns: u32,
    pub(super) threads: u32,
    /// Rows that are there at a time, and how many times.
    pub(super) rows_a_pass: u32,
    pub(super) passes: u32,
}

impl Handed<'_> {
    /// Elements from row to row.
    pub(super) fn pitch(&self) -> u32 {
        self.columns + 8
    }

    /// Bytes of shared memory.
    pub(super) fn bytes(&self) -> u32 {
        self.rows_a_pass * self.pitch() * self.sums.size() as u32
    }
}

/// The statements behind the loop over the terms; `hand_on` writes the sums of pass `pass` to `sums`.
pub(super) fn text(handed: &Handed<'_>, slots: &PartSlots, hand_on: &str) -> String {
    let Handed { result: (part, operand), columns, .. } = *handed;
    if let Some(text) = shifted(handed, slots, hand_on) {
        return text;
    }
    let (space, body) = (&part.space, &part.body);
    let (h, pitch, v) = (held(handed.sums), handed.pitch(), space.lanes as u32);
    let is_sums = |k: usize| body.accesses[k].operand == Some(*operand);
    let accesses = Accesses { list: &body.accesses, class: space, slots: &slots.space, tag: "" };
    let wants = wanted(body);
    let stored = |k: usize| body.stores.iter().any(|s| s.access as usize == k);
    let mut out = accesses.declare(&|k| !is_sums(k) && (stored(k) || wants[k] != Default::default()));
    let it = index_type(space.wide);
    let wide = columns / v;
    let vector = format!(
        "      const u32 first_lane = c % {wide} * {v};\n      const i64 y = column0 + first_lane;\n      if (y >= n) continue;\n"
    );
    out += &head(handed, slots, hand_on, wide, (&vector, &format!("({it})(y / {v})")));
    let position = |k: usize| {
        let all = offset(space, &slots.space, k, 0..space.rank(), "i");
        if all.is_empty() { "0".into() } else { all }
    };
    let stand = Stand {
        position: &position,
        point: "(((i64)product * m + x) * n + y)".into(),
        step: "1".into(),
        lanes: v as usize,
    };
    let fetched = |k: &usize| !is_sums(*k) && (wants[*k].load || wants[*k].position);
    for k in (0..wants.len()).filter(fetched) {
        let _ = writeln!(out, "      {}", accesses.arrays(k, wants[k], v as usize, ""));
        let _ = writeln!(out, "      {}", accesses.fetch(k, wants[k], &stand, ["", ""]));
    }
    let _ = writeln!(out, "      {h} own[{v}];\n      take(own, sums + line * {pitch} + first_lane);");
    for s in &body.stores {
        let _ = writeln!(out, "      {}", accesses.result(s.access as usize, v as usize));
    }
    let _ = write!(out, "#pragma unroll\n      for (int v = 0; v < {v}; v++) {{\n");
    let load = |k: u16| if is_sums(k as usize) { "own[v]".into() } else { accesses.element(k as usize, "") };
    let gather = |k: u16, offset: &str, inside: &str| accesses.gathered(k as usize, &stand, offset, inside);
    let mut write = |n: &Names<'_>| out += &statements(body, n, "        ");
    names(&accesses, (part, slots), &load, &gather, &mut write, "");
    for s in &body.stores {
        let _ = writeln!(out, "        {}", accesses.set(s.access as usize, &name(s.node)));
    }
    out += "      }\n";
    for s in &body.stores {
        let _ = writeln!(out, "      {}", accesses.store(s.access as usize, &stand));
    }
    out += "    }\n  }\n";
    out
}

/// The loop over passes and over what a thread has of each, `wide` of which are a line, down to the indices of where that
/// stands: `column` is the expression of its column, `at` what comes before it.
fn head(handed: &Handed<'_>, slots: &PartSlots, hand_on: &str, wide: u32, (at, column): (&str, &str)) -> String {
    let Handed { result: (part, _), rows_a_pass, passes, threads, .. } = *handed;
    let (space, h) = (&part.space, held(handed.sums));
    let it = index_type(space.wide);
    let mut out = format!(
        r#"  {h} *const sums = ({h} *)shared;
#pragma unroll
  for (int pass = 0; pass < {passes}; pass++) {{
    __syncthreads();
{hand_on}    __syncthreads();
    for (u32 c = t; c < {points}; c += {threads}) {{
      const u32 line = c / {wide};
      const i64 x = row0 + pass * {rows_a_pass} + line;
      if (x >= m) continue;
{at}      const {it} row = ({it})x, column = {column};
"#,
        points = rows_a_pass * wide,
    );
    let (batch, rows) = (part.groups[0] as usize, part.groups[1] as usize);
    out += &decompose(space, &slots.space, 0..batch, &format!("({it})product"), "i");
    out += &decompose(space, &slots.space, batch..batch + rows, "row", "i");
    out + &decompose(space, &slots.space, batch + rows..space.rank(), "column", "i")
}

/// The same where sums are written and nothing else is, to rows that begin anywhere, as those of an odd length do: what
/// lies in whole vectors of memory is stored by vectors. What is in the way of a vector is stored one by one, by the
/// threads of the first and last vectors of a row.
fn shifted(handed: &Handed<'_>, slots: &PartSlots, hand_on: &str) -> Option<String> {
    let Handed { result: (part, operand), columns, .. } = *handed;
    let (space, body) = (&part.space, &part.body);
    let [store] = body.stores[..] else { return None };
    let (k, rank) = (store.access as usize, space.rank());
    let access = body.accesses[k];
    let alone = body.accesses.iter().enumerate().all(|(i, a)| i == k || a.operand == Some(*operand));
    let unit = matches!(space.ways[k], Way::Strided { inner: Inner::Unit, .. });
    let own = |n: &Node| matches!(n, Node::Load { .. } | Node::Cast { .. });
    let one_column = rank == (part.groups[0] + part.groups[1]) as usize + 1;
    let size = access.dtype.size() as u32;
    if space.lanes != 1 || !alone || !unit || !one_column || !body.nodes.iter().all(own) || !matches!(size, 2 | 4) {
        return None;
    }
    let (h, pitch, e) = (held(handed.sums), handed.pitch(), 16 / size);
    let (wide, it) = (columns / e + 1, index_type(space.wide));
    let accesses = Accesses { list: &body.accesses, class: space, slots: &slots.space, tag: "" };
    let mut out = accesses.declare(&|i| i == k);
    out += &head(handed, slots, hand_on, wide, ("", &format!("({it})column0")));
    let t = stored(access.dtype);
    let load = |_: u16| "own".to_string();
    let gather = |_: u16, _: &str, _: &str| unreachable!("nothing is gathered");
    let mut value = String::new();
    let mut write = |n: &Names<'_>| value += &statements(body, n, "        ");
    names(&accesses, (part, slots), &load, &gather, &mut write, "");
    let _ = write!(
        out,
        r#"      {t} *const begin = p{k} + ({position});
      const i32 first = (i32)(c % {wide} * {e}) - (i32)((u64)begin / {size} % {e});
      __align__(16) {t} y[{e}];
#pragma unroll
      for (i32 v = 0; v < {e}; v++) {{
        const i32 at = first + v < 0 ? 0 : first + v < {columns} ? first + v : {columns} - 1;
        const {h} own = sums[line * {pitch} + at];
{value}        y[v] = {packed};
      }}
      const i32 most = n - column0 < {columns} ? (i32)(n - column0) : {columns};
      if (first >= 0 && first + {e} <= most) {{
        storev(begin + first, y);
      }} else {{
#pragma unroll
        for (i32 v = 0; v < {e}; v++) if (first + v >= 0 && first + v < most) store1(begin + first + v, y[v]);
      }}
    }}
  }}
"#,
        position = offset(space, &slots.space, k, 0..rank, "i"),
        packed = pack(access.dtype, &name(store.node)),
    );
    Some(out)
}
