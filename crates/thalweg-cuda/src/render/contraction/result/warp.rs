//! What a warp makes of its own sums, a pass after another, where it may compute outside of the result, too.
//!
//! In: sums by warps ([`super::By::Warp`]). Out: statements without branches around arithmetic: what is read and written
//! is guarded, nothing else. So the compiler has the elements of two vectors under way together, and what the next pass
//! reads comes while this one computes: a warp is alone with its scheduler there, and waits for whatever it asks late.

use super::{Compute, Handed, MOST_AHEAD, changing_places, decomposed, origin, passes};
use crate::render::place::index_type;
use crate::render::types::held;
use thalweg_gpu::class::body::Wanted;
use thalweg_kernel::{Body, Node};

/// Vectors that a thread computes side by side.
const TOGETHER: u32 = 2;

/// Whether the body may be computed where there is no element: it neither ends by its data nor looks up places.
fn is_harmless(body: &Body) -> bool {
    !body.nodes.iter().any(|n| matches!(n, Node::Loop { .. } | Node::Gather { .. }))
}

/// The statements, where a warp's vectors are few enough to be under way at a time; `at` says where a column is.
pub(super) fn text(
    handed: &Handed<'_>,
    compute: &Compute<'_>,
    wants: &[Wanted],
    [hand_on, column0, column]: [&str; 3],
) -> Option<String> {
    let (part, slots) = (&handed.result.0, compute.slots);
    let v = part.space.lanes as u32;
    let wide = handed.columns / v;
    let each = handed.rows * wide / 32;
    if !is_harmless(&part.body) || !(1..=MOST_AHEAD).contains(&each) {
        return None;
    }
    let it = index_type(part.space.wide);
    let (accesses, stand) = (compute.accesses, compute.stand);
    let fetched: Vec<usize> =
        (0..wants.len()).filter(|&k| !(compute.is_sums)(k) && (wants[k].load || wants[k].position)).collect();
    let number = if fetched.is_empty() { "" } else { "[u]" };
    // Where a thread stands in a pass.
    let [row0, _] = origin(handed);
    let place = format!(
        r#"      const u32 c = t % 32 + u * 32, line = c / {wide}, first_lane = c % {wide} * {v};
      const {it} x = ({it})({row0}) + ({it})line, y = ({it})({column0}) + ({it})first_lane;
      const bool inside = x < ({it})m && y < ({it})n;
      const {it} row = x, column = {column};
{}"#,
        decomposed(handed, slots)
    );
    let (mut out, mut next) = (String::new(), String::new());
    if !fetched.is_empty() {
        let arrays: String =
            fetched.iter().map(|&k| accesses.arrays(k, wants[k], v as usize, &format!("[{each}]"))).collect();
        let loads: String = fetched.iter().map(|&k| accesses.fetch(k, wants[k], stand, [number, number])).collect();
        out = format!(
            "  {arrays}\n  auto fetch = [&](int pass, u32 u) {{\n{place}      if (inside) {{ {loads} }}\n  }};\n"
        );
        out += &format!("#pragma unroll\n  for (u32 u = 0; u < {each}; u++) fetch(0, u);\n");
        next = format!("      if (pass + 1 < {}) fetch(pass + 1, u);\n", handed.passes);
    }
    out += &passes(handed);
    out += &changing_places(handed, hand_on);
    let together = TOGETHER.min(each);
    let h = held(handed.sums);
    out += &format!(
        r#"#pragma unroll
    for (u32 first_u = 0; first_u < {each}; first_u += {together}) {{
    {h} taken[{together}][{v}];
#pragma unroll
    for (u32 o = 0; o < {together}; o++) {{
      const u32 c = t % 32 + (first_u + o) * 32;
      take(taken[o], sums + c / {wide} * {pitch} + c % {wide} * {v});
    }}
#pragma unroll
    for (u32 o = 0; o < {together}; o++) {{
      const u32 u = first_u + o;
{place}{body}{next}    }}
    }}
  }}
"#,
        pitch = handed.pitch(),
        body = compute.text("taken[o][v]", number, "      if (inside) {\n", "      }\n"),
    );
    Some(out)
}
