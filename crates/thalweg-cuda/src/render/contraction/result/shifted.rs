//! Sums that are written to rows that begin anywhere, as those of an odd length do, and nothing else is read or written.
//!
//! In: sums in shared memory. Out: statements by which a warp writes a row of them after the other, each thread two
//! neighbours that lie in memory as pairs do. A row that begins or ends between two pairs has an element that is alone
//! there; those of all rows of a warp are written together behind them, so that the loop over rows has no branches.

use super::{By, Handed, changing_places, decomposed, origin, passes};
use crate::render::access::Accesses;
use crate::render::body::{Names, name, statements};
use crate::render::contraction::{PartSlots, names};
use crate::render::place::{index_type, offset};
use crate::render::types::{held, pack_rounded, stored};
use thalweg_gpu::space::{Inner, Way};
use thalweg_gpu::write::access;
use thalweg_kernel::Node;

/// Rows that a warp has under way at a time.
const TOGETHER: u32 = 4;

/// The statements, for results of that kind; as [`super::text`].
pub(super) fn text(handed: &Handed<'_>, slots: &PartSlots, hand_on: &str) -> Option<String> {
    let Handed { result: (part, operand), columns, rows, .. } = *handed;
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
    let warps = match handed.by {
        By::Block(threads) => threads / 32,
        By::Warp { .. } => 1,
    };
    let together = TOGETHER.min(rows / warps);
    if together == 0 || rows % (together * warps) != 0 {
        return None;
    }
    let (h, t, pitch, it) = (held(handed.sums), stored(access.dtype), handed.pitch(), index_type(space.wide));
    let [row0, column0] = origin(handed);
    let accesses = Accesses(access::Accesses { list: &body.accesses, class: space, slots: &slots.space, tag: "" });
    let load = |_: u16| "own".to_string();
    let gather = |_: u16, _: &str, _: &str| unreachable!("nothing is gathered");
    let mut value = String::new();
    let mut write = |n: &Names<'_>| value += &statements(body, n);
    names(&accesses, (part, slots), &load, &gather, &mut write, "");
    let packed = pack_rounded(access.dtype, &name(store.node));
    let own_warp = if warps == 1 { "0" } else { "t / 32" };
    // Where line `line` is there, and where it begins in memory.
    let place = format!(
        r#"const {it} x = ({it})({row0}) + ({it})line, y = ({it})({column0});
        const {it} row = x, column = y;
        const bool there = x < ({it})m;
{}        {t} *const begin = p{k} + ({});
        const u32 odd = (u32)((u64)begin / {size}) % 2;
"#,
        decomposed(handed, slots),
        offset(space, &slots.space, k, 0..rank, "i"),
    );
    let mut out = accesses.declare(&|i| i == k);
    out += &passes(handed);
    out += &changing_places(handed, hand_on);
    out += &format!(
        r#"    const i32 most = n - {column0} < {columns} ? (i32)(n - {column0}) : {columns};
    for (u32 first_line = {own_warp}; first_line < {rows}; first_line += {step}) {{
      {t} *to[{together}];
      {h} taken[{together}][{pairs}][2];
      i32 last[{together}];
#pragma unroll
      for (u32 o = 0; o < {together}; o++) {{
        const u32 line = first_line + o * {warps};
        {place}        const u32 first = t % 32 * 2 + odd;
        to[o] = begin + first;
        last[o] = there ? most - (i32)first - 1 : 0;
        const {h} *const from = sums + line * {pitch} + first;
#pragma unroll
        for (u32 c = 0; c < {pairs}; c++) {{
          taken[o][c][0] = from[c * 64];
          taken[o][c][1] = from[c * 64 + 1];
        }}
      }}
#pragma unroll
      for (u32 o = 0; o < {together}; o++)
#pragma unroll
        for (u32 c = 0; c < {pairs}; c++) {{
          __align__({pair}) {t} z[2];
#pragma unroll
          for (int v = 0; v < 2; v++) {{
            const {h} own = taken[o][c][v];
{value}            z[v] = {packed};
          }}
          if ((i32)(c * 64) < last[o]) storev(to[o] + c * 64, z);
        }}
    }}
    // The first and the last element of each row, where it is alone.
    for (u32 e = t % 32; e < {edges}; e += 32) {{
      const u32 line = {own_warp} + e / 2 * {warps};
      {place}      const i32 at = e % 2 ? most - 1 : 0;
      const bool alone = e % 2 ? (most - (i32)odd) % 2 == 1 : odd == 1;
      const {h} own = sums[line * {pitch} + (at < 0 ? 0 : at)];
{value}      if (there && alone && most > 0) store1(begin + at, ({t})({packed}));
    }}
  }}
"#,
        pairs = columns / 64,
        pair = 2 * size,
        step = together * warps,
        edges = 2 * rows / warps,
    );
    Some(out)
}
