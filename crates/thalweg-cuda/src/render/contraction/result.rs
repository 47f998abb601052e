//! What is made of the sums of a tile: its body, on the sums in shared memory, some rows at a time.
//!
//! Threads stand side by side along columns there, however the sums were shared among them, so that what is read and
//! written beside the sums goes through memory in whole lines.

use super::{PartClass, PartSlots, names};
use crate::render::access::{Accesses, Stand, wanted};
use crate::render::body::{Names, name, statements};
use crate::render::types::held;
use crate::space::{decompose, index_type, offset};
use std::fmt::Write;
use thalweg_ir::DType;

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
    let Handed { result: (part, operand), rows_a_pass, passes, threads, columns, .. } = *handed;
    let (space, body) = (&part.space, &part.body);
    let (h, pitch, v) = (held(handed.sums), handed.pitch(), space.lanes as u32);
    let is_sums = |k: usize| body.accesses[k].operand == Some(*operand);
    let accesses = Accesses { list: &body.accesses, class: space, slots: &slots.space, tag: "" };
    let wants = wanted(body);
    let stored = |k: usize| body.stores.iter().any(|s| s.access as usize == k);
    let mut out = accesses.declare(&|k| !is_sums(k) && (stored(k) || wants[k] != Default::default()));
    let (wide, it) = (columns / v, index_type(space.wide));
    let _ = write!(
        out,
        r#"  {h} *const sums = ({h} *)shared;
#pragma unroll
  for (int pass = 0; pass < {passes}; pass++) {{
    __syncthreads();
{hand_on}    __syncthreads();
    for (u32 c = t; c < {points}; c += {threads}) {{
      const u32 line = c / {wide}, first_lane = c % {wide} * {v};
      const i64 x = row0 + pass * {rows_a_pass} + line, y = column0 + first_lane;
      if (x >= m || y >= n) continue;
      const {it} row = ({it})x, column = ({it})(y / {v});
"#,
        points = rows_a_pass * wide,
    );
    let (batch, rows) = (part.groups[0] as usize, part.groups[1] as usize);
    out += &decompose(space, &slots.space, 0..batch, &format!("({it})product"), "i");
    out += &decompose(space, &slots.space, batch..batch + rows, "row", "i");
    out += &decompose(space, &slots.space, batch + rows..space.rank(), "column", "i");
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
