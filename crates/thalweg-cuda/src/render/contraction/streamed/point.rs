//! What is made of the scores of a step: maps on the sums of the first product, in the registers that these are in.

use super::scaled::{Scaled, late};
use super::{StreamedClass, StreamedSlots};
use crate::render::access::{Accesses, Stand};
use crate::render::body::{Names, name, statements};
use crate::render::contraction::names;
use crate::render::place::{decompose, index_type, offset};
use std::fmt::Write;
use thalweg_gpu::class::body::{Wanted, wanted};
use thalweg_gpu::space::Way;
use thalweg_gpu::write::access;
use thalweg_kernel::Body;

/// What is made of a score by one body.
pub(super) struct Point {
    pub(super) declared: String,
    /// Loads for a block of keys.
    pub(super) fetch: String,
    pub(super) compute: String,
    /// The same where all keys are seen, if that is something else.
    pub(super) seen: Option<String>,
}

/// The names of the accesses of what is made of scores.
const TAGS: [&str; 2] = ["a", "b"];

/// What is made of a score by one body; `scaled` where that has a factor which may join the exponent.
pub(super) fn point(class: &StreamedClass, slots: &StreamedSlots, number: usize, scaled: Option<&Scaled>) -> Point {
    let ((part, operand), slots) = (&class.points[number], &slots.points[number]);
    let (space, body) = (&part.space, &part.body);
    let accesses =
        Accesses(access::Accesses { list: &body.accesses, class: space, slots: &slots.space, tag: TAGS[number] });
    let is_sums = |k: usize| body.accesses[k].operand == Some(*operand);
    let wants = wanted(body);
    // Positions by strides are a few additions where they are needed.
    let placed = |k: usize| wants[k].position && matches!(space.ways[k], Way::Strided { .. });
    let fetched: Vec<usize> =
        (0..wants.len()).filter(|&k| !is_sums(k) && (wants[k].load || wants[k].position && !placed(k))).collect();
    let v = space.lanes as u32;
    // Two rows, of each 8 keys a thread has two.
    let keys = class.block.keys;
    let each = keys / 8 * 2 * (2 / v);
    let mut declared = accesses.declare(&|k| !is_sums(k) && wants[k] != Default::default());
    let it = index_type(space.wide);
    let (batch, rows) = (part.groups[0] as usize, part.groups[1] as usize);
    // What lies behind the edges is taken from the last row and, in the last block, the last keys; it counts for
    // nothing.
    let stand_at = |last: bool| {
        let mut out = format!(
            "      const i32 j = u / {per}, h = u / {halves} % 2;\n      i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8, y = step * {vectors} + j * {of_eight} + (i32)(lane % 4) * {halves} + u % {halves};\n      x = x < (i32)m ? x : (i32)m - 1;{clamp}\n      const {it} row = x, column = y;\n",
            per = 2 * (2 / v),
            halves = 2 / v,
            vectors = keys / v,
            of_eight = 8 / v,
            clamp =
                if last { format!(" y = y * {v} < (i32)keys ? y : ((i32)keys - {v}) / {v};") } else { String::new() },
        );
        out += &decompose(space, &slots.space, 0..batch, &format!("({it})product"), "i");
        out += &decompose(space, &slots.space, batch..batch + rows, "row", "i");
        out + &decompose(space, &slots.space, batch + rows..space.rank(), "column", "i")
    };
    let position = |k: usize| {
        let all = offset(space, &slots.space, k, 0..space.rank(), "i");
        if all.is_empty() { "0".into() } else { all }
    };
    let stand = Stand {
        position: &position,
        point: format!("(((i64)product * m + x) * keys + y * {v})"),
        step: "1".into(),
        lanes: v as usize,
    };
    let begin = |last: bool| format!("#pragma unroll\n    for (i32 u = 0; u < {each}; u++) {{\n{}", stand_at(last));
    let mut fetch = String::new();
    if !fetched.is_empty() {
        for &k in &fetched {
            let _ = writeln!(declared, "  {}", accesses.arrays(k, wants[k], v as usize, &format!("[{each}]")));
        }
        let loads: Vec<String> = fetched.iter().map(|&k| accesses.fetch(k, wants[k], &stand, ["[u]", "[u]"])).collect();
        let loads = loads.concat();
        // Where keys are one dimension, those of a thread lie at fixed distances from its first one.
        let strided = |&k: &usize| matches!(space.ways[k], Way::Strided { .. }) && !wants[k].position;
        let one_dimension = space.rank() == batch + rows + 1 && fetched.iter().all(strided);
        let inside = match one_dimension {
            false => format!("      {loads}\n    }}\n"),
            true => {
                let mut out = format!(
                    "#pragma unroll\n    for (i32 h = 0; h < 2; h++) {{\n      i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8;\n      x = x < (i32)m ? x : (i32)m - 1;\n      const {it} row = x, column = step * {} + (i32)(lane % 4) * {halves};\n",
                    keys / v,
                    halves = 2 / v
                );
                out += &decompose(space, &slots.space, 0..batch, &format!("({it})product"), "i");
                out += &decompose(space, &slots.space, batch..batch + rows, "row", "i");
                out += &decompose(space, &slots.space, batch + rows..space.rank(), "column", "i");
                for &k in &fetched {
                    out += &accesses.fetch_apart(k, &position(k), [keys / 8, 2 / v, v]);
                }
                out + "    }\n"
            }
        };
        let _ = write!(
            fetch,
            "    if ((step + 1) * {keys} <= (i32)keys) {{\n{}{inside}    }} else {{\n{}      {loads}\n    }}\n    }}\n",
            match one_dimension {
                true => String::new(),
                false => begin(false),
            },
            begin(true)
        );
    }
    let own = format!("s[j][2 * h + u % {} * {v} + v]", 2 / v);
    let compute = |body: &Body| {
        let wants = wanted(body);
        let mut out = begin(true);
        // As many as of what is fetched, since names are the same; each turn of the loop needs its own alone.
        for k in (0..wants.len()).filter(|&k| placed(k) && wants[k].position) {
            let position = Wanted { position: true, ..Wanted::default() };
            let _ = writeln!(out, "      {}", accesses.arrays(k, position, v as usize, &format!("[{each}]")));
            let _ = writeln!(out, "      {}", accesses.fetch(k, position, &stand, ["[u]", "[u]"]));
        }
        let _ = write!(out, "#pragma unroll\n      for (int v = 0; v < {v}; v++) {{\n");
        let load = |k: u16| if is_sums(k as usize) { own.clone() } else { accesses.element(k as usize, "[u]") };
        let gather = |k: u16, offset: &str, inside: &str| accesses.gathered(k as usize, &stand, offset, inside);
        let mut write = |n: &Names<'_>| out += &statements(body, n);
        names(&accesses, (part, slots), &load, &gather, &mut write, "[u]");
        let _ = write!(out, "        {own} = {};\n      }}\n    }}\n", name(body.stores[0].node));
        out
    };
    let of_seen = class.seen.as_ref().filter(|s| s.0 as usize == number).map(|s| &s.1.body);
    let (all, seen) = match (scaled, &class.seen) {
        (None, _) => (compute(body), of_seen.map(compute)),
        (Some(Scaled { whole, .. }), None) => (compute(whole) + &late(class), None),
        (Some(Scaled { whole, .. }), Some(_)) => (compute(body), Some(compute(whole) + &late(class))),
    };
    Point { declared, fetch, compute: all, seen }
}
