//! Sums that are written to rows that begin anywhere, as those of an odd length do, and nothing else is read or written.
//!
//! In: sums in shared memory. Out: statements by which a warp writes a row of them after the other, each thread two
//! neighbours that lie in memory as pairs do. Where a row begins between two pairs its first element is alone, and goes
//! with the thread that has the last one.

use super::{By, Handed, changing_places, decomposed, passes};
use crate::render::access::Accesses;
use crate::render::body::{Names, name, statements};
use crate::render::contraction::{PartSlots, names};
use crate::render::types::{held, pack_rounded, stored};
use crate::space::{Inner, Way, index_type, offset};
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
    let (h, t, pitch, it) = (held(handed.sums), stored(access.dtype), handed.pitch(), index_type(space.wide));
    let [row0, column0] = handed.origin();
    let accesses = Accesses { list: &body.accesses, class: space, slots: &slots.space, tag: "" };
    let load = |_: u16| "own".to_string();
    let gather = |_: u16, _: &str, _: &str| unreachable!("nothing is gathered");
    let mut value = String::new();
    let mut write = |n: &Names<'_>| value += &statements(body, n, "          ");
    names(&accesses, (part, slots), &load, &gather, &mut write, "");
    let packed = pack_rounded(access.dtype, &name(store.node));
    let warps = match handed.by {
        By::Block(threads) => threads / 32,
        By::Warp { .. } => 1,
    };
    let together = TOGETHER.min(rows / warps);
    if together == 0 || rows % (together * warps) != 0 {
        return None;
    }
    let first_line = if warps == 1 { "0" } else { "t / 32" };
    let pairs = columns / 64;
    let position = offset(space, &slots.space, k, 0..rank, "i");
    let mut out = accesses.declare(&|i| i == k);
    out += &passes(handed);
    out += &changing_places(handed, hand_on);
    out += &format!(
        r#"    const i32 most = n - {column0} < {columns} ? (i32)(n - {column0}) : {columns};
    for (u32 first_line = {first_line}; first_line < {rows}; first_line += {step}) {{
      {t} *begin[{together}];
      {h} taken[{together}][{pairs}][2];
      bool odd[{together}], there[{together}];
#pragma unroll
      for (u32 o = 0; o < {together}; o++) {{
        const u32 line = first_line + o * {warps};
        const {it} x = ({it})({row0}) + ({it})line, y = ({it})({column0});
        const {it} row = x, column = y;
        there[o] = x < ({it})m;
{indices}        begin[o] = p{k} + ({position});
        odd[o] = (u64)begin[o] / {size} % 2;
        const {h} *const from = sums + line * {pitch};
#pragma unroll
        for (u32 c = 0; c < {pairs}; c++) {{
          const u32 first = t % 32 * 2 + c * 64 + odd[o];
          taken[o][c][0] = from[first];
          taken[o][c][1] = from[first + 1 < {columns} ? first + 1 : 0];
        }}
      }}
#pragma unroll
      for (u32 o = 0; o < {together}; o++)
#pragma unroll
        for (u32 c = 0; c < {pairs}; c++) {{
          const i32 first = (i32)(t % 32 * 2 + c * 64) + odd[o];
          __align__({pair}) {t} z[2];
#pragma unroll
          for (int v = 0; v < 2; v++) {{
            const {h} own = taken[o][c][v];
{value}            z[v] = {packed};
          }}
          if (there[o] && first + 1 < most) storev(begin[o] + first, z);
          else if (there[o]) {{
            if (first < most) store1(begin[o] + first, z[0]);
            if (first + 1 == {columns} && most > 0) store1(begin[o], z[1]);
          }}
        }}
    }}
  }}
"#,
        pair = 2 * size,
        step = together * warps,
        indices = decomposed(handed, slots),
    );
    Some(out)
}
