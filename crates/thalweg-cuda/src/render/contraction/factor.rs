//! How a factor comes into shared memory, step by step.
//!
//! A factor that lies in memory with neighbours along one of its dimensions is copied past the registers, and several
//! steps are under way at a time. Any other is loaded before the arithmetic of a step and computed behind it.

use super::{FactorClass, FactorSlots, Layout, Math, PartClass, PartSlots, TileClass, TileSlots, names};
use crate::render::access::{Accesses, Stand, wanted};
use crate::render::body::{Names, name, statements};
use crate::render::types::{held, pack};
use crate::space::{decompose, offset};
use std::fmt::Write;
use thalweg_ir::DType;

/// The text of a factor.
pub(super) struct Factor {
    /// What stands before the loop.
    pub(super) declared: String,
    number: usize,
    computed: bool,
}

impl Factor {
    /// What begins a step: its number, and its place among those in shared memory.
    pub(super) fn early(&self, step: &str, slot: &str) -> String {
        let n = self.number;
        if self.computed { format!("      fetch{n}({step});\n") } else { format!("      copy{n}({step}, {slot});\n") }
    }

    /// What is left of it when what has been asked for is there.
    pub(super) fn late(&self, slot: &str) -> String {
        if self.computed { format!("      put{}({slot});\n", self.number) } else { String::new() }
    }
}

/// The text of factor `number`.
pub(super) fn text(class: &TileClass, slots: &TileSlots, number: usize) -> Factor {
    match (&class.factors[number], &slots.factors[number]) {
        (FactorClass::Copied { along }, FactorSlots::Copied(at)) => {
            Factor { declared: copied(class, number, *along, *at), number, computed: false }
        }
        (FactorClass::Computed(part), FactorSlots::Computed(slots)) => {
            Factor { declared: computed(class, number, part, slots), number, computed: true }
        }
        _ => unreachable!("slots are of their class"),
    }
}

/// Lines of a tile of a factor, the expressions of the first one and of how many there are in all.
fn lines(class: &TileClass, number: usize) -> (u32, &'static str, &'static str) {
    if number == 0 { (class.tile.m, "row0", "m") } else { (class.tile.n, "column0", "n") }
}

/// A factor that is copied to shared memory past the registers.
pub(super) struct Copy<'a> {
    /// Names end with it.
    pub(super) number: usize,
    pub(super) element: &'a str,
    pub(super) size: u32,
    /// Lines of a step; the first one, and how many there are in all.
    pub(super) lines: (u32, &'a str, &'a str),
    /// Terms of a step; the first one, and how many there are in all.
    pub(super) terms: (u32, &'a str, &'a str),
    pub(super) threads: u32,
    /// Whether terms are neighbours in memory.
    pub(super) along: bool,
    /// Whether what is neighbours in memory is apart in shared memory.
    pub(super) transposes: bool,
    /// Elements from line to line or from term to term in shared memory, and of a step.
    pub(super) pitch: u32,
    pub(super) all: u32,
    /// The words of its address and of its pitch in memory.
    pub(super) at: usize,
}

impl Copy<'_> {
    /// What stands before the loop: `copy(step, slot)`.
    pub(super) fn text(&self) -> String {
        let Copy { number, element, size, lines, terms, threads, along, pitch, all, at, .. } = *self;
        let ((tall, first, most), (deep, term, limit)) = (lines, terms);
        let mut out = format!(
            "  const {element} *const factor{number} = (const {element} *)a.w[{at}] + batch{number};\n  const i64 pitch{number} = (i64)a.w[{}];\n  auto copy{number} = [&](i32 step, i32 slot) {{\n",
            at + 1
        );
        if self.transposes {
            let each = tall * deep / threads;
            let _ = write!(
                out,
                "#pragma unroll\n    for (u32 u = 0; u < {each}; u++) {{\n      const u32 c = t + u * {threads}, line = c / {deep}, term = c % {deep};\n      const i64 x = {first} + line, p = {term} + term;\n      const bool inside = x < {most} && p < {limit};\n      copy_element<{size}>(s{number} + slot * {all} + term * {pitch} + line, factor{number} + (inside ? x * pitch{number} + p : 0), inside);\n    }}\n  }};\n"
            );
            return out;
        }
        let e = 16 / size;
        // How many elements of the sixteen bytes are inside.
        let (outer, inner, [width, others], [left, there, position]) = if along {
            let inside = [format!("{limit} - p"), format!("x < {most}"), format!("x * pitch{number} + p")];
            ("line", "term", [deep / e, tall], inside)
        } else {
            let inside = [format!("{most} - x"), format!("p < {limit}"), format!("p * pitch{number} + x")];
            ("term", "line", [tall / e, deep], inside)
        };
        let each = width * others / threads;
        let _ = write!(
            out,
            "#pragma unroll\n    for (u32 u = 0; u < {each}; u++) {{\n      const u32 c = t + u * {threads}, {outer} = c / {width}, {inner} = c % {width} * {e};\n      const i64 x = {first} + line, p = {term} + term, left = {left};\n      const i32 inside = {there} && left > 0 ? (left < {e} ? (i32)left : {e}) : 0;\n      copy16(s{number} + slot * {all} + {outer} * {pitch} + {inner}, factor{number} + (inside ? {position} : 0), inside * {size});\n    }}\n  }};\n"
        );
        out
    }
}

fn copied(class: &TileClass, number: usize, along: bool, at: usize) -> String {
    let (tall, first, most) = lines(class, number);
    let Layout { along: kept, pitch, all } = class.layout(number);
    let step = format!("(i64)step * {}", class.tile.k);
    let copy = Copy {
        number,
        element: class.element(),
        size: class.dtype.size() as u32,
        lines: (tall, first, most),
        terms: (class.tile.k, &step, "k"),
        threads: class.tile.threads(),
        along,
        // On plain cores terms are apart in shared memory.
        transposes: kept != along,
        pitch,
        all,
        at,
    };
    copy.text()
}

/// The names of a factor's accesses.
const TAGS: [&str; 2] = ["a", "b"];

fn computed(class: &TileClass, number: usize, part: &PartClass, slots: &PartSlots) -> String {
    let (tall, first, most) = lines(class, number);
    let (threads, terms) = (class.tile.threads(), class.tile.k);
    let (space, body) = (&part.space, &part.body);
    let (v, Layout { along, pitch, all }) = (space.lanes as u32, class.layout(number));
    let each = tall * terms / threads / v;
    let accesses = Accesses { list: &body.accesses, class: space, slots: &slots.space, tag: TAGS[number] };
    let wants = wanted(body);
    let store = &body.stores[0];
    let fetched: Vec<usize> = (0..wants.len()).filter(|&k| wants[k].load || wants[k].position).collect();
    let mut out = accesses.declare(&|k| wants[k] != Default::default());
    for &k in &fetched {
        let _ = writeln!(out, "  {}", accesses.arrays(k, wants[k], v as usize, &format!("[{each}]")));
    }
    // Rows of the left factor's domain are lines and its columns terms; of the right one the other way round.
    let (place, domain) = if number == 0 {
        (format!("line = c / {0}, term = c % {0} * {v}", terms / v), ("x", "p", "m", "k"))
    } else {
        (format!("term = c / {0}, line = c % {0} * {v}", tall / v), ("p", "x", "k", "n"))
    };
    let (batch, rows) = (part.groups[0] as usize, part.groups[1] as usize);
    let rank = space.rank();
    let it = crate::space::index_type(space.wide);
    let mut stand_at = String::new();
    let _ = writeln!(stand_at, "      const {it} row = ({it}){}, column = ({it})({} / {v});", domain.0, domain.1);
    stand_at += &decompose(space, &slots.space, 0..batch, &format!("batch{number}"), "i");
    stand_at += &decompose(space, &slots.space, batch..batch + rows, "row", "i");
    stand_at += &decompose(space, &slots.space, batch + rows..rank, "column", "i");
    let position = |k: usize| {
        let all = offset(space, &slots.space, k, 0..rank, "i");
        if all.is_empty() { "0".into() } else { all }
    };
    let stand = Stand {
        position: &position,
        point: format!("(((i64)batch{number} * {} + {}) * {} + {})", domain.2, domain.0, domain.3, domain.1),
        step: "1".into(),
        lanes: v as usize,
    };
    let begin = |what: &str, parameter: &str, step: &str| {
        format!(
            "  auto {what}{number} = [&](i32 {parameter}) {{\n#pragma unroll\n    for (u32 u = 0; u < {each}; u++) {{\n      const u32 c = t + u * {threads}, {place};\n      const i64 x = {first} + line, p = (i64){step} * {terms} + term;\n"
        )
    };
    out += &format!("  i32 fetched{number} = 0;\n");
    out += &begin("fetch", "step", "step");
    let _ = writeln!(out, "      fetched{number} = step;\n      if (x < {most} && p < k) {{\n{stand_at}");
    for &k in &fetched {
        let _ = writeln!(out, "      {}", accesses.fetch(k, wants[k], &stand, ["[u]", "[u]"]));
    }
    out += "      }\n    }\n  };\n";
    out += &begin("put", "slot", &format!("fetched{number}"));
    let element = class.element();
    let _ = write!(
        out,
        "      {element} y[{v}] = {{}};\n      if (x < {most} && p < k) {{\n{stand_at}#pragma unroll\n      for (int v = 0; v < {v}; v++) {{\n"
    );
    let load = |k: u16| accesses.element(k as usize, "[u]");
    let gather = |k: u16, offset: &str, inside: &str| accesses.gathered(k as usize, &stand, offset, inside);
    let mut write = |n: &Names<'_>| out += &statements(body, n, "        ");
    names(&accesses, (part, slots), &load, &gather, &mut write, "[u]");
    let value = name(store.node);
    let value = if class.math == Math::Narrow { pack(class.dtype, &value) } else { as_held(class.dtype, &value) };
    let _ = writeln!(out, "        y[v] = ({element})({value});\n      }}\n      }}");
    let to = |line: &str, term: &str| {
        if along { format!("({line}) * {pitch} + {term}") } else { format!("({term}) * {pitch} + {line}") }
    };
    let to = if number == 0 { to("line", "term + v") } else { to("line + v", "term") };
    let _ = write!(
        out,
        "#pragma unroll\n      for (int v = 0; v < {v}; v++) s{number}[slot * {all} + {to}] = y[v];\n    }}\n  }};\n"
    );
    out
}

/// A value as tiles on plain cores take it: narrow floats as they are rounded.
fn as_held(dtype: DType, value: &str) -> String {
    match dtype {
        DType::BF16 => format!("round_bf16({value})"),
        DType::F16 => format!("round_f16({value})"),
        other => format!("({}){value}", held(other)),
    }
}
