//! How a factor comes into shared memory, step by step.
//!
//! A factor that lies in memory with neighbours along one of its dimensions is copied past the registers, and several
//! steps are under way at a time. One that lies there by strides of more dimensions is copied element by element. Any
//! other is loaded before the arithmetic of a step and computed behind it.

use super::{element_of, names, warpgroup};
use crate::render::access::{Accesses, Stand};
use crate::render::body::{Names, name, statements};
use crate::render::place::{decompose, index_type, offset};
use crate::render::types::{held, pack_rounded};
use std::fmt::Write;
use thalweg_gpu::class::body::wanted;
use thalweg_gpu::class::contraction::{Layout, Math, PartClass, PartSlots, TileClass};
use thalweg_gpu::write::access;
use thalweg_ir::DType;

/// The text of a factor.
pub(super) struct Factor {
    /// What stands before the loop.
    pub(super) declared: String,
    pub(super) number: usize,
    /// Whether it goes through registers.
    pub(super) computed: bool,
    /// Whether the places of a step's terms are computed before it is asked for.
    pub(super) prepared: bool,
}

impl Factor {
    /// What is to be known one round of all steps in shared memory ahead.
    pub(super) fn prepare(&self, step: &str, slot: &str) -> String {
        if self.prepared { format!("    terms{}({step}, {slot});\n", self.number) } else { String::new() }
    }

    /// What begins a step: its number, and its place among those in shared memory.
    pub(super) fn early(&self, step: &str, slot: &str) -> String {
        let n = self.number;
        match (self.computed, self.prepared) {
            (true, true) => format!("      fetch{n}({step}, {slot});\n"),
            (true, false) => format!("      fetch{n}({step});\n"),
            (false, _) => format!("      copy{n}({step}, {slot});\n"),
        }
    }

    /// What is left of it when what has been asked for is there.
    pub(super) fn late(&self, slot: &str) -> String {
        if self.computed { format!("      put{}({slot});\n", self.number) } else { String::new() }
    }
}

/// Lines of a tile of a factor, the expressions of the first one and of how many there are in all.
pub(super) fn lines(class: &TileClass, number: usize) -> (u32, &'static str, &'static str) {
    if number == 0 { (class.tile.m, "(i32)row0", "m") } else { (class.tile.n, "(i32)column0", "n") }
}

/// Where copied elements go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Placing {
    /// Neighbours stay neighbours.
    Kept,
    /// What is neighbours in memory is apart.
    Transposed,
    /// To lines of 128 bytes, as warpgroups take them.
    Lines,
}

/// A dimension of what is copied.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    /// Elements of a step.
    pub(super) count: u32,
    /// The first one of all steps, and how far a step goes.
    pub(super) first: &'a str,
    pub(super) step: u32,
    /// How many there are in all.
    pub(super) most: &'a str,
}

/// A factor that is copied to shared memory past the registers.
pub(super) struct Copy<'a> {
    /// Names end with it.
    pub(super) number: usize,
    pub(super) element: &'a str,
    pub(super) size: u32,
    pub(super) lines: Side<'a>,
    pub(super) terms: Side<'a>,
    pub(super) threads: u32,
    /// Whether terms are neighbours in memory.
    pub(super) along: bool,
    pub(super) placing: Placing,
    /// Elements from line to line or from term to term in shared memory, and of a step.
    pub(super) pitch: u32,
    pub(super) all: u32,
    /// The words of its address and of its pitch in memory.
    pub(super) at: usize,
}

impl Copy<'_> {
    /// What stands before the loop: `copy(step, slot)`.
    pub(super) fn text(&self) -> String {
        let (number, at) = (self.number, self.at);
        let declared = format!(
            "  const {0} *const factor{number} = (const {0} *)a.w[{at}] + batch{number};\n  const i32 pitch{number} = (i32)a.w[{1}];\n",
            self.element,
            at + 1
        );
        declared + &if self.placing == Placing::Transposed { self.one_by_one() } else { self.by_sixteen() }
    }

    /// Element by element: of threads side by side each has a term of a line.
    fn one_by_one(&self) -> String {
        let Copy { number, size, lines, terms, threads, pitch, all, .. } = *self;
        let (deep, each) = (terms.count, lines.count * terms.count / threads);
        format!(
            r#"  auto copy{number} = [&](i32 step, i32 slot) {{
#pragma unroll
    for (u32 u = 0; u < {each}; u++) {{
      const u32 c = t + u * {threads}, line = c / {deep}, term = c % {deep};
      const i32 x = {} + step * {} + (i32)line, p = {} + step * {} + (i32)term;
      const bool inside = x < (i32){} && p < (i32){};
      copy_element<{size}>(s{number} + slot * {all} + term * {pitch} + line, factor{number} + (inside ? (i64)x * pitch{number} + p : 0), inside);
    }}
  }};
"#,
            lines.first, lines.step, terms.first, terms.step, lines.most, terms.most
        )
    }

    /// Sixteen bytes at a time. A thread's share lies at one place along neighbours, some lines or terms apart.
    fn by_sixteen(&self) -> String {
        let Copy { number, element, size, lines, terms, threads, along, pitch, all, .. } = *self;
        let e = 16 / size;
        let (outer, inner) = if along { (lines, terms) } else { (terms, lines) };
        let width = inner.count / e;
        let (each, apart) = (width * outer.count / threads, threads / width);
        let place = match self.placing {
            Placing::Lines => warpgroup::place(&format!("outer{number}"), outer.count, &format!("inner{number}")),
            _ => format!("outer{number} * {pitch} + inner{number}"),
        };
        debug_assert!(threads.is_multiple_of(width), "a thread's share lies at one place along neighbours");
        debug_assert!(self.placing != Placing::Lines || apart.is_multiple_of(8) || each == 1, "lines go by eights");
        format!(
            r#"  const i32 outer{number} = (i32)t / {width}, inner{number} = (i32)t % {width} * {e};
  const {element} *const from{number} = factor{number} + (i64)({of} + outer{number}) * pitch{number} + ({if_} + inner{number});
  auto copy{number} = [&](i32 step, i32 slot) {{
    {element} *const to = s{number} + slot * {all} + {place};
    const {element} *const from = from{number} + ((i64)(step * {os}) * pitch{number} + step * {is});
    const i32 outers = (i32){om} - ({of} + step * {os}), inners = (i32){im} - ({if_} + step * {is});
    if (outers >= {oc} && inners >= {ic}) {{
#pragma unroll
      for (i32 u = 0; u < {each}; u++) copy16_whole(to + u * {far}, from + (i64)(u * {apart}) * pitch{number});
    }} else {{
#pragma unroll
      for (i32 u = 0; u < {each}; u++) {{
        const i32 left = outer{number} + u * {apart} < outers ? inners - inner{number} : 0;
        const i32 inside = left < 0 ? 0 : left < {e} ? left : {e};
        copy16(to + u * {far}, inside ? from + (i64)(u * {apart}) * pitch{number} : factor{number}, inside * {size});
      }}
    }}
  }};
"#,
            of = outer.first,
            if_ = inner.first,
            os = outer.step,
            is = inner.step,
            om = outer.most,
            im = inner.most,
            oc = outer.count,
            ic = inner.count,
            far = apart * pitch,
        )
    }
}

/// A factor that is copied.
pub(super) fn copied(class: &TileClass, number: usize, along: bool, at: usize) -> Factor {
    let (tall, first, most) = lines(class, number);
    let Layout { along: kept, pitch, all } = class.layout(number);
    let copy = Copy {
        number,
        element: element_of(class),
        size: class.dtype.size() as u32,
        lines: Side { count: tall, first, step: 0, most },
        terms: Side { count: class.tile.k, first: "0", step: class.tile.k, most: "k" },
        threads: class.tile.threads(),
        along,
        placing: match class.math {
            Math::Warpgroup => Placing::Lines,
            // On plain cores terms are apart in shared memory.
            _ if kept != along => Placing::Transposed,
            _ => Placing::Kept,
        },
        pitch,
        all,
        at,
    };
    Factor { declared: copy.text(), number, computed: false, prepared: false }
}

/// The names of a factor's accesses.
pub(super) const TAGS: [&str; 2] = ["a", "b"];

/// A factor that goes through its body.
pub(super) fn computed(class: &TileClass, number: usize, part: &PartClass, slots: &PartSlots) -> Factor {
    let (tall, first, most) = lines(class, number);
    let (threads, terms) = (class.tile.threads(), class.tile.k);
    let (space, body) = (&part.space, &part.body);
    let (v, Layout { along, pitch, all }) = (space.lanes as u32, class.layout(number));
    let each = tall * terms / threads / v;
    let accesses =
        Accesses(access::Accesses { list: &body.accesses, class: space, slots: &slots.space, tag: TAGS[number] });
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
    let it = index_type(space.wide);
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
    let element = element_of(class);
    let _ = write!(
        out,
        "      {element} y[{v}] = {{}};\n      if (x < {most} && p < k) {{\n{stand_at}#pragma unroll\n      for (int v = 0; v < {v}; v++) {{\n"
    );
    let load = |k: u16| accesses.element(k as usize, "[u]");
    let gather = |k: u16, offset: &str, inside: &str| accesses.gathered(k as usize, &stand, offset, inside);
    let mut write = |n: &Names<'_>| out += &statements(body, n);
    names(&accesses, (part, slots), &load, &gather, &mut write, "[u]");
    let value = name(store.node);
    let value = if class.math.is_narrow() { pack_rounded(class.dtype, &value) } else { as_held(class.dtype, &value) };
    let _ = writeln!(out, "        y[v] = ({element})({value});\n      }}\n      }}");
    let to = |line: &str, term: &str| {
        if class.math == Math::Warpgroup {
            let (outer, outers, inner) = if along { (line, tall, term) } else { (term, terms, line) };
            format!("{} + ({inner}) % 8", warpgroup::place(&format!("({outer})"), outers, &format!("({inner})")))
        } else if along {
            format!("({line}) * {pitch} + {term}")
        } else {
            format!("({term}) * {pitch} + {line}")
        }
    };
    let to = if number == 0 { to("line", "term + v") } else { to("line + v", "term") };
    let _ = write!(
        out,
        "#pragma unroll\n      for (int v = 0; v < {v}; v++) s{number}[slot * {all} + {to}] = y[v];\n    }}\n  }};\n"
    );
    Factor { declared: out, number, computed: true, prepared: false }
}

/// A value as tiles on plain cores take it: narrow floats as they are rounded.
fn as_held(dtype: DType, value: &str) -> String {
    match dtype {
        DType::BF16 => format!("round_bf16({value})"),
        DType::F16 => format!("round_f16({value})"),
        other => format!("({}){value}", held(other)),
    }
}
