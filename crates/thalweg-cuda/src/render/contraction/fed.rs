//! Tiles that are fed: one thread has the chip copy the factors, and two warpgroups compute a tile each, so that one
//! multiplies while the other makes something of its sums. Blocks stay until all tiles are done.
//!
//! In: a [`FedClass`]. Out: a source with one function, `contraction`. docs/gpu-contractions.md has the idea.
//!
//! A launch may have several products of one left factor and one shape: each has the words of a launch of its own, one
//! behind the other, and tiles are numbered through all of them.

use super::which_tile;
use crate::render::elements::is_native;
use crate::render::print;
use crate::render::types::stored;
use crate::render::warpgroup::{self, EIGHT, Left};
use std::fmt::Write;
use thalweg_gpu::class::contraction::{LINE, LINE_ELEMENTS};
use thalweg_gpu::class::fed::{FedClass, FedFactor, FedSlots, FedTile, TERMS, TILES, inner};
use thalweg_gpu::ir::{Expr, Type};
use thalweg_gpu::write::contraction::result;
use thalweg_ir::DType;

/// Registers of the thread that has the factors copied.
const LESS: u32 = 24;

/// Statements that take a number apart along so many dimensions, whose divisors begin at a word, and what each of them is:
/// the innermost first.
fn apart(number: &str, name: &str, dims: u8, mut words: usize) -> (String, Vec<String>) {
    let (mut out, mut parts, mut rest) = (String::new(), vec![], number.to_string());
    // Words are of the inner dimensions, outermost first.
    words += 2 * (dims as usize).saturating_sub(1);
    for d in 1..dims {
        words -= 2;
        let _ = write!(out, "const Split {name}{d} = split((u32)({rest}), a.w[{words}], a.w[{}]); ", words + 1);
        parts.push(format!("(i32){name}{d}.r"));
        rest = format!("{name}{d}.q");
    }
    if dims > 0 {
        parts.push(format!("(i32)({rest})"));
    }
    (out, parts)
}

/// What is copied of a factor at a time: slices of 64 neighbours.
pub(super) struct Boxes<'a> {
    pub(super) factor: FedFactor,
    /// Its number, for names.
    pub(super) number: usize,
    /// The first word to divide by, and its map.
    pub(super) words: usize,
    pub(super) map: usize,
    /// Lines and terms of a step, and expressions of the first ones.
    pub(super) counts: [u32; 2],
    pub(super) first: [&'a str; 2],
    /// Expressions of where it goes, and of the barrier that waits for it.
    pub(super) to: &'a str,
    pub(super) barrier: &'a str,
}

impl Boxes<'_> {
    /// The statements.
    pub(super) fn text(&self) -> String {
        let Boxes { factor, number, words, map, counts: [lines, terms], first, to, barrier } = *self;
        let behind_terms = words + inner(factor.terms);
        let behind_lines = behind_terms + inner(factor.lines);
        let (of_batch, batch) = apart(&format!("batch{number}"), "b", factor.batch, behind_lines);
        let (near, next) = if factor.along { (terms, lines) } else { (lines, terms) };
        let mut out = format!("        {{ {of_batch}\n");
        for c in 0..near / LINE_ELEMENTS {
            let far = |of_near: bool| if of_near { c * LINE_ELEMENTS } else { 0 };
            let at = |n: usize, near: bool| format!("{} + {}", first[n], far(near));
            let (of_lines, lines) = apart(&at(0, !factor.along), &format!("x{c}_"), factor.lines, behind_terms);
            let (of_terms, terms) = apart(&at(1, factor.along), &format!("p{c}_"), factor.terms, words);
            let two = if factor.along { [&terms[0], &lines[0]] } else { [&lines[0], &terms[0]] };
            let all = two.into_iter().chain(&terms[1..]).chain(&lines[1..]).chain(&batch);
            let all: Vec<&str> = all.map(String::as_str).collect();
            let _ = writeln!(
                out,
                "        {of_lines}{of_terms}const i32 at{c}[{}] = {{{}}}; map_copy({to} + {}, &a.w[{map}], {barrier}, at{c});",
                all.len(),
                all.join(", "),
                c * next * LINE_ELEMENTS
            );
        }
        out + "        }\n"
    }
}

/// The copies of a step of a factor.
fn copies(class: &FedClass, slots: &FedSlots, number: usize) -> String {
    let (line, lines) = if number == 0 { ("row0", class.tile.m) } else { ("column0", class.tile.n) };
    let step = format!("i * {TERMS}");
    let boxes = Boxes {
        factor: class.factors[number],
        number,
        words: slots.dims[number],
        map: slots.maps[number],
        counts: [lines, TERMS],
        first: [line, &step],
        to: &format!("s{number} + slot * {}", class.all(number)),
        barrier: "full + slot",
    };
    boxes.text()
}

/// The numbers of a product's matrices among those of each factor.
fn batches(class: &FedClass) -> String {
    let mut out = String::from("      u32 rest = product, batch0 = 0, batch1 = 0;\n");
    for d in (0..class.batch as usize).rev() {
        let w = FedSlots::batch(d);
        let _ = writeln!(
            out,
            "      {{ const Split s = split(rest, a.w[{w}], a.w[{}]); rest = s.q; batch0 += (u32)s.r * (u32)a.w[{}]; batch1 += (u32)s.r * (u32)a.w[{}]; }}",
            w + 1,
            w + 2,
            w + 3
        );
    }
    out
}

/// The multiplications of a step.
fn multiply(class: &FedClass) -> String {
    let (parts, n) = (class.rows() / 64, class.tile.n);
    let slice = TERMS * LINE;
    let step = |along: bool| if along { 32 } else { 16 * LINE };
    // 64 rows lie together either way: as so many lines of terms, or as a part of every term's line.
    let mut out = format!(
        "        const Matrix x = matrix(s0 + slot * {}, {slice}, {EIGHT}), y = matrix(s1 + slot * {}, {slice}, {EIGHT});\n        warpgroup_fence();\n#pragma unroll\n        for (int p = 0; p < {}; p++) {{\n",
        class.all(0),
        class.all(1),
        TERMS / 16
    );
    let first = if class.tile.team == 1 { String::new() } else { format!("group % 2 * {} + ", class.rows() * LINE) };
    for part in 0..parts {
        let _ = writeln!(
            out,
            "          warpgroup_multiply<{f16}, {ta}, {tb}, {n}>(sum[{part}], further(x, {first}{own} + p * {dx}), further(y, p * {dy}), i > 0 || p > 0);",
            f16 = class.dtype == DType::F16,
            ta = !class.factors[0].along,
            tb = !class.factors[1].along,
            own = part * 64 * LINE,
            dx = step(class.factors[0].along),
            dy = step(class.factors[1].along),
        );
    }
    out + "        }\n        warpgroup_commit();\n"
}

/// What is made of the sums of a warp.
fn made(class: &FedClass, slots: &FedSlots) -> String {
    let handed = class.handed();
    let across = class.tile.n / handed.columns;
    let case = |pass: u32| {
        let part = Expr::Number((pass / across).into(), Type::I32);
        (("sum".into(), vec![part]), pass % across * (handed.columns / 8))
    };
    let hand_on = result::hand_on_pass(&handed, (0..handed.passes).map(case).collect());
    print::statements(&result::statements(&handed, &slots.result, &is_native, hand_on))
}

/// The source of a contraction with one function, `contraction`.
pub fn source(class: &FedClass) -> String {
    let slots = FedSlots::new(class);
    let FedTile { team, m, n, stages } = class.tile;
    let left = Left::Shared { across: !class.factors[0].along };
    let which = which_tile("at", [m, n]);
    let several = class.products > 1;
    let ahead: String = (0..class.products as usize)
        .flat_map(|p| slots.maps.map(|map| format!("    map_ahead(&a.w[{}]);\n", p * slots.end + map)))
        .collect();
    // Of several, what a tile is made of stands among the words of its product.
    let (mut find, mut end) = (String::new(), "tiles".to_string());
    if several {
        end = format!("tiles * {}", class.products);
        find = format!("    const u32 own_words = all / tiles * {}, at = all % tiles;\n", slots.end);
    }
    let within = |text: String| if several { text.replace("a.w[", "a.w[own_words + ") } else { text };
    let number = if several { "all" } else { "at" };
    format!(
        r#"
{function}extern "C" __global__ void __launch_bounds__({threads}, 1) contraction(THALWEG_PARAMETER_LINES({words})) {{
  begin();
  THALWEG_SHARED_LINES(shared);
  const i64 m = (i64)a.w[0], n = (i64)a.w[1];
  const u32 t = threadIdx.x, group = same_in_warp(t / 128), team = group / {team}, tiles = (u32)a.w[{TILES}];
  const i32 steps = (i32)(((i64)a.w[2] + {last}) / {TERMS});
  {element} *const s0 = ({element} *)shared, *const s1 = s0 + {all0};
  Barrier *const full = (Barrier *)(shared + {barriers}), *const empty = full + {stages}, *const turns = empty + {stages};
  if (t == 0) {{
    for (int s = 0; s < {stages}; s++) barrier_start(full + s, 1);
    // Each warp says for itself what it has seen and is done with.
    for (int s = 0; s < {stages} + 2; s++) barrier_start(empty + s, {warps});
    barriers_started();
  }}
  __syncthreads();
  // Steps of all tiles of the block go round the places in shared memory.
  u32 slot = 0, phase = 0;
  if (team == 2) {{
    registers_less<{LESS}>();
    if (t % 128) return;
{ahead}    for (u32 {number} = blockIdx.x; {number} < {end}; {number} += gridDim.x) {{
{find}{which}{batches}      for (i32 i = 0; i < steps; i++) {{
        barrier_wait(empty + slot, phase ^ 1);
        barrier_expect(full + slot, {bytes});
{copies0}{copies1}        if (++slot == {stages}) {{ slot = 0; phase ^= 1; }}
      }}
    }}
    return;
  }}
  registers_more<{more}>();
  for (u32 {number} = blockIdx.x, own = 0; {number} < {end}; {number} += gridDim.x, own++) {{
    // Tiles go to the two teams in turns.
    if (own % 2 != team) {{
      const u32 behind = slot + (u32)steps;
      phase ^= behind / {stages} & 1;
      slot = behind % {stages};
      continue;
    }}
{find}{which}    const i64 warp_row = row0 + {own_rows}t / 32 % 4 * 16;
    float sum[{parts}][{eights}][4];
    Barrier *before = empty;
    // A barrier tells a phase from the next, not from the one behind that: a team looks at no step before all warps of the
    // other have seen all of its own.
    barrier_wait(turns + team, (own / 2 & 1) ^ (team == 0));
    for (i32 i = 0; i < steps; i++) {{
      barrier_wait(full + slot, phase);
      if (i + 1 == steps) {{
        __syncwarp();
        if (t % 32 == 0) barrier_arrive(turns + (team ^ 1));
      }}
      {{
{multiply}      }}
      // What the step before has read may be written over.
      if (i > 0) {{
        warpgroup_wait<1>();
        if (t % 32 == 0) barrier_arrive(before);
      }}
      before = empty + slot;
      if (++slot == {stages}) {{ slot = 0; phase ^= 1; }}
    }}
    warpgroup_wait<0>();
    if (t % 32 == 0) barrier_arrive(before);
{result}  }}
}}
"#,
        function = warpgroup::function(class.dtype == DType::F16, left, !class.factors[1].along, n),
        words = slots.end * class.products as usize,
        last = TERMS - 1,
        element = stored(class.dtype),
        all0 = stages * class.all(0),
        barriers = class.barriers_at(),
        batches = batches(class),
        bytes = (class.all(0) + class.all(1)) * 2,
        copies0 = within(copies(class, &slots, 0)),
        copies1 = within(copies(class, &slots, 1)),
        parts = class.rows() / 64,
        threads = class.threads(),
        warps = 4 * team,
        more = warpgroup::registers(2 * team, LESS),
        own_rows = if team == 1 { String::new() } else { format!("group % 2 * {} + ", class.rows()) },
        eights = n / 8,
        multiply = multiply(class),
        result = within(made(class, &slots)),
    )
}
