//! A factor that lies in memory by strides of several dimensions, as the windows of a convolution do: copied element by
//! element, without arithmetic.
//!
//! An element's place is that of its line plus that of its term. A thread has the same line in every step, or as many
//! as it has elements, and works their places out once. The places of a step's terms are a table in shared memory, which
//! the first threads fill one round of steps ahead; so nothing is divided for an element.

use super::factor::{Factor, TAGS, lines};
use super::warpgroup;
use crate::render::access::Accesses;
use crate::render::place::{decompose, index_type, offset};
use std::fmt::Write;
use thalweg_gpu::class::body::wanted;
use thalweg_gpu::class::contraction::{Layout, Math, PartClass, PartSlots, TileClass};
use thalweg_gpu::write::access;

/// How the elements of a step are shared among threads.
struct Shares {
    /// Elements that a thread has side by side.
    side: u32,
    /// Threads that stand side by side.
    across: u32,
    /// Times that all threads take some, and how far they go each time.
    each: u32,
    apart: u32,
}

/// The text of factor `number`; `along`: elements that are near each other in memory are terms.
pub(super) fn text(class: &TileClass, number: usize, at: (&PartClass, &PartSlots), along: bool) -> Factor {
    let (tall, ..) = lines(class, number);
    let (threads, terms) = (class.tile.threads(), class.tile.k);
    let narrow = class.math.is_narrow();
    // Two narrow ones are a word of shared memory.
    let side = if narrow { 2 } else { 1 };
    let inner = if along { terms } else { tall };
    let across = (inner / side).min(threads);
    let shares = Shares { side, across, each: tall * terms / threads / side, apart: threads / across };
    debug_assert!(inner / side <= threads && threads.is_multiple_of(across), "a thread's share lies at one place");
    let places = places(class, number, at, along, &shares);
    let moves = if narrow {
        through_registers(class, number, at, along, &shares)
    } else {
        past_registers(class, number, at, along, &shares)
    };
    Factor { declared: places + &moves, number, computed: narrow, prepared: true }
}

/// What says where lines and terms are: the places of the thread's own lines, the function that fills the table of terms,
/// which it does for all steps of the first round.
fn places(
    class: &TileClass,
    number: usize,
    (part, slots): (&PartClass, &PartSlots),
    along: bool,
    shares: &Shares,
) -> String {
    let (_, first, most) = lines(class, number);
    let (space, k) = (&part.space, read(part));
    let it = index_type(space.wide);
    let accesses =
        Accesses(access::Accesses { list: &part.body.accesses, class: space, slots: &slots.space, tag: TAGS[number] });
    let wants = wanted(&part.body);
    let batch = part.groups[0] as usize;
    let columns = batch + part.groups[1] as usize;
    let (of_lines, of_terms) = match number {
        0 => (batch..columns, columns..space.rank()),
        _ => (columns..space.rank(), batch..columns),
    };
    let at = |dims: std::ops::Range<usize>, index: &str| {
        let place = offset(space, &slots.space, k, dims.clone(), "i");
        let place = if place.is_empty() { "0".into() } else { place };
        (decompose(space, &slots.space, dims, index, "i"), place)
    };
    let (batch_apart, of_batch) = at(0..batch, &format!("({it})batch{number}"));
    let (line_apart, of_line) = at(of_lines, &format!("({it})x"));
    let (term_apart, of_term) = at(of_terms, &format!("({it})p"));
    let Shares { side, across, each, apart } = *shares;
    let (own, line) = match along {
        true => (each, format!("t / {across} + u * {apart}")),
        false => (side, format!("t % {across} * {side} + u")),
    };
    let mut out = accesses.declare(&|k| wants[k] != Default::default());
    let _ = write!(
        out,
        r#"  {it} place{number} = 0, lines{number}[{own}];
  {{
    {batch_apart}
    place{number} = {of_batch};
  }}
#pragma unroll
  for (u32 u = 0; u < {own}; u++) {{
    i64 x = {first} + (i32)({line});
    x = x < {most} ? x : {most} - 1;
    {line_apart}
    lines{number}[u] = place{number} + {of_line};
  }}
  {it} *const table{number} = ({it} *)(shared + {table});
  auto terms{number} = [&](i32 step, i32 slot) {{
    if (t < {terms}) {{
      const i64 p = (i64)step * {terms} + t;
      {it} place = NOWHERE<{it}>;
      if (p < k) {{
        {term_apart}
        place = {of_term};
      }}
      table{number}[slot * {terms} + t] = place;
    }}
  }};
  for (i32 s = 0; s < {stages}; s++) terms{number}({first_terms}, s);
  __syncthreads();
"#,
        table = class.table_at(number),
        terms = class.tile.k,
        stages = class.tile.stages,
        first_terms = if class.split { "first_step + s" } else { "s" },
    );
    out
}

/// The access that is loaded.
fn read(part: &PartClass) -> usize {
    let wants = wanted(&part.body);
    wants.iter().position(|w| w.load).expect("a strided factor is loaded")
}

/// Where a thread's element `e` of turn `u` is: its line and term within the step, and the expressions of their places.
fn element(number: usize, terms: u32, along: bool, shares: &Shares, e: u32) -> [String; 4] {
    let Shares { side, across, apart, .. } = *shares;
    let (line, term) = match along {
        true => (format!("t / {across} + u * {apart}"), format!("t % {across} * {side} + {e}")),
        false => (format!("t % {across} * {side} + {e}"), format!("t / {across} + u * {apart}")),
    };
    let own = if along { format!("lines{number}[u]") } else { format!("lines{number}[{e}]") };
    let of_term = format!("table{number}[slot * {terms} + {term}]");
    [line, term, own, of_term]
}

/// `copy(step, slot)`, of elements that the copying of single ones can take. Lines that are not there are copied from the
/// last one that is: nobody looks at their sums. Terms that are not there are zeros, in the last step alone.
fn past_registers(
    class: &TileClass,
    number: usize,
    (part, _): (&PartClass, &PartSlots),
    along: bool,
    shares: &Shares,
) -> String {
    let Layout { along: kept, pitch, all } = class.layout(number);
    let terms = class.tile.k;
    let [line, term, own, of_term] = element(number, terms, along, shares, 0);
    let it = index_type(part.space.wide);
    let place = if kept { format!("({line}) * {pitch} + {term}") } else { format!("({term}) * {pitch} + {line}") };
    let (size, tag, k) = (class.dtype.size(), TAGS[number], read(part));
    let to = format!("s{number} + slot * {all} + {place}");
    format!(
        r#"  auto copy{number} = [&](i32 step, i32 slot) {{
    if ((step + 1) * {terms} <= (i32)k) {{
#pragma unroll
      for (u32 u = 0; u < {each}; u++) copy_element_whole<{size}>({to}, p{tag}{k} + {own} + {of_term});
    }} else {{
#pragma unroll
      for (u32 u = 0; u < {each}; u++) {{
        const {it} term = {of_term};
        copy_element<{size}>({to}, p{tag}{k} + (term != NOWHERE<{it}> ? {own} + term : 0), term != NOWHERE<{it}>);
      }}
    }}
  }};
"#,
        each = shares.each,
    )
}

/// `fetch(step)` and `put(slot)`, of elements of two bytes, two side by side.
fn through_registers(
    class: &TileClass,
    number: usize,
    (part, _): (&PartClass, &PartSlots),
    along: bool,
    shares: &Shares,
) -> String {
    let (tall, ..) = lines(class, number);
    let Layout { along: kept, pitch, all } = class.layout(number);
    debug_assert_eq!(kept, along, "neighbours in memory are neighbours in shared memory");
    let it = index_type(part.space.wide);
    let (each, k, tag, terms) = (shares.each, read(part), TAGS[number], class.tile.k);
    let (mut loads, mut last) = (vec![], vec![]);
    for e in 0..shares.side {
        let [_, _, own, of_term] = element(number, terms, along, shares, e);
        let load = |term: &str| format!("(u32)load1((const u16 *)p{tag}{k} + {own} + {term}) << {}", 16 * e);
        loads.push(load(&of_term));
        last.push(format!("({of_term} == NOWHERE<{it}> ? 0 : {})", load(&of_term)));
    }
    let [line, term, ..] = element(number, terms, along, shares, 0);
    let place = match (class.math, kept) {
        (Math::Warpgroup, _) => {
            let (outer, outers, inner) = if kept { (&line, tall, &term) } else { (&term, terms, &line) };
            format!("{} + ({inner}) % 8", warpgroup::place(&format!("({outer})"), outers, &format!("({inner})")))
        }
        (_, true) => format!("({line}) * {pitch} + {term}"),
        (_, false) => format!("({term}) * {pitch} + {line}"),
    };
    format!(
        r#"  u32 words{number}[{each}];
  auto fetch{number} = [&](i32 step, i32 slot) {{
    if ((step + 1) * {terms} <= (i32)k) {{
#pragma unroll
      for (u32 u = 0; u < {each}; u++) words{number}[u] = {loads};
    }} else {{
#pragma unroll
      for (u32 u = 0; u < {each}; u++) words{number}[u] = {last};
    }}
  }};
  auto put{number} = [&](i32 slot) {{
#pragma unroll
    for (u32 u = 0; u < {each}; u++) *(u32 *)(s{number} + slot * {all} + {place}) = words{number}[u];
  }};
"#,
        loads = loads.join(" | "),
        last = last.join(" | "),
    )
}
