//! What is made of the sums of a tile: its body, on the sums in shared memory, some of them at a time.
//!
//! Threads stand side by side along columns there, however the sums were shared among them, so that what is read and
//! written beside the sums goes through memory in whole lines. All threads of a block do that together, some rows at a
//! time, or each warp for itself.

mod shifted;
mod warp;

use super::names;
use crate::render::access::{Accesses, Stand};
use crate::render::body::{Names, name, statements};
use crate::render::place::{decompose, index_type, offset};
use crate::render::types::held;
use std::fmt::Write;
use thalweg_gpu::class::body::wanted;
use thalweg_gpu::class::contraction::{By, Handed, PartClass, PartSlots};
use thalweg_gpu::write::access;

/// Vectors that a thread of a warp has under way at a time.
const MOST_AHEAD: u32 = 8;

/// Who is alone with these sums: a thread's number among them, and how many they are.
fn threads(handed: &Handed<'_>) -> (&'static str, u32) {
    match handed.by {
        By::Block(threads) => ("t", threads),
        By::Warp { .. } => ("t % 32", 32),
    }
}

/// The first row and the first column of a pass.
fn origin(handed: &Handed<'_>) -> [String; 2] {
    match handed.by {
        By::Block(_) => [format!("row0 + pass * {}", handed.rows), "column0".into()],
        By::Warp { across, .. } => {
            [format!("warp_row + pass / {across} * 64"), format!("(column0 + pass % {across} * {})", handed.columns)]
        }
    }
}

/// The statements behind the loop over the terms; `hand_on` writes the sums of pass `pass` to `sums`.
pub(super) fn text(handed: &Handed<'_>, slots: &PartSlots, hand_on: &str) -> String {
    if let Some(text) = shifted::text(handed, slots, hand_on) {
        return text;
    }
    let Handed { result: (part, operand), columns, .. } = *handed;
    let (space, body) = (&part.space, &part.body);
    let is_sums = |k: usize| body.accesses[k].operand == Some(*operand);
    let accesses = Accesses(access::Accesses { list: &body.accesses, class: space, slots: &slots.space, tag: "" });
    let wants = wanted(body);
    let stored = |k: usize| body.stores.iter().any(|s| s.access as usize == k);
    let mut out = accesses.declare(&|k| !is_sums(k) && (stored(k) || wants[k] != Default::default()));
    let v = space.lanes as u32;
    let wide = columns / v;
    let ([_, column0], it) = (origin(handed), index_type(space.wide));
    let at = format!(
        "      const u32 first_lane = c % {wide} * {v};\n      const {it} y = ({it})({column0}) + ({it})first_lane;\n      if (y >= ({it})n) continue;\n"
    );
    let column = format!("y / {v}");
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
    let compute = Compute { accesses: &accesses, stand: &stand, slots, is_sums: &is_sums, part };
    if matches!(handed.by, By::Warp { .. })
        && let Some(text) = warp::text(handed, &compute, &wants, [hand_on, &column0, &column])
    {
        return out + &text;
    }
    out += &passes(handed);
    out += &changing_places(handed, hand_on);
    out += &points(handed, slots, handed.rows, wide, (&at, &column));
    for k in (0..wants.len()).filter(|&k| !is_sums(k) && (wants[k].load || wants[k].position)) {
        let _ = writeln!(out, "      {}", accesses.arrays(k, wants[k], v as usize, ""));
        let _ = writeln!(out, "      {}", accesses.fetch(k, wants[k], &stand, ["", ""]));
    }
    let _ = write!(
        out,
        "      {} own[{v}];\n      take(own, sums + line * {} + first_lane);\n",
        held(handed.sums),
        handed.pitch()
    );
    out + &compute.text("own[v]", "", "", "") + "    }\n  }\n"
}

/// What is made of the sums of one thread.
struct Compute<'a> {
    part: &'a PartClass,
    slots: &'a PartSlots,
    accesses: &'a Accesses<'a>,
    stand: &'a Stand<'a>,
    is_sums: &'a dyn Fn(usize) -> bool,
}

impl Compute<'_> {
    /// The statements for a vector: its sums are `own`, what was fetched has the index `number`, and the stores stand
    /// between `before` and `behind`.
    fn text(&self, own: &str, number: &str, before: &str, behind: &str) -> String {
        let Compute { part, slots, accesses, stand, is_sums } = *self;
        let (body, v, mut out) = (&part.body, stand.lanes, String::new());
        for s in &body.stores {
            let _ = writeln!(out, "      {}", accesses.result(s.access as usize, v));
        }
        let _ = write!(out, "#pragma unroll\n      for (int v = 0; v < {v}; v++) {{\n");
        let load = |k: u16| if is_sums(k as usize) { own.into() } else { accesses.element(k as usize, number) };
        let gather = |k: u16, offset: &str, inside: &str| accesses.gathered(k as usize, stand, offset, inside);
        let mut write = |n: &Names<'_>| out += &statements(body, n);
        names(accesses, (part, slots), &load, &gather, &mut write, number);
        for s in &body.stores {
            let _ = writeln!(out, "        {}", accesses.set(s.access as usize, &name(s.node)));
        }
        out += "      }\n";
        out += before;
        for s in &body.stores {
            let _ = writeln!(out, "      {}", accesses.store(s.access as usize, stand));
        }
        out + behind
    }
}

/// The begin of the loop over passes.
fn passes(handed: &Handed<'_>) -> String {
    let h = held(handed.sums);
    let (room, unroll) = match handed.by {
        By::Block(_) => (format!("({h} *)shared"), "#pragma unroll"),
        By::Warp { at, .. } => {
            let own = handed.bytes();
            (format!("({h} *)(shared + {at} + t / 32 * {own})"), "#pragma unroll 1")
        }
    };
    format!("  {h} *const sums = {room};\n{unroll}\n  for (int pass = 0; pass < {}; pass++) {{\n", handed.passes)
}

/// The sums of a pass, from where they were computed to where something is made of them.
fn changing_places(handed: &Handed<'_>, hand_on: &str) -> String {
    let meet = if matches!(handed.by, By::Block(_)) { "__syncthreads()" } else { "__syncwarp()" };
    format!("    {meet};\n{hand_on}    {meet};\n")
}

/// The loop over what a thread has of so many rows, `wide` things each, down to the indices of where that stands: `column`
/// is the expression of its column, `at` what comes before it.
fn points(handed: &Handed<'_>, slots: &PartSlots, rows: u32, wide: u32, (at, column): (&str, &str)) -> String {
    let part = &handed.result.0;
    let space = &part.space;
    let it = index_type(space.wide);
    let ((lane, threads), [row0, _]) = (threads(handed), origin(handed));
    let all = rows * wide;
    let each = match handed.by {
        By::Block(_) => format!("    for (u32 c = {lane}; c < {all}; c += {threads}) {{\n"),
        By::Warp { .. } => format!(
            "#pragma unroll {}\n    for (u32 u = 0; u < {}; u++) {{\n      const u32 c = {lane} + u * {threads};\n",
            MOST_AHEAD.min(all / threads),
            all / threads
        ),
    };
    let out = format!(
        r#"{each}      const u32 line = c / {wide};
      const {it} x = ({it})({row0}) + ({it})line;
      if (x >= ({it})m) continue;
{at}      const {it} row = x, column = {column};
"#
    );
    out + &decomposed(handed, slots)
}

/// The indices of a place, from its product, row and column.
fn decomposed(handed: &Handed<'_>, slots: &PartSlots) -> String {
    let part = &handed.result.0;
    let (space, it) = (&part.space, index_type(part.space.wide));
    let (batch, rows) = (part.groups[0] as usize, part.groups[1] as usize);
    decompose(space, &slots.space, 0..batch, &format!("({it})product"), "i")
        + &decompose(space, &slots.space, batch..batch + rows, "row", "i")
        + &decompose(space, &slots.space, batch + rows..space.rank(), "column", "i")
}
