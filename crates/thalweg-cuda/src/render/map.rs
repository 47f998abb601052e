//! Map kernels: one result a point.
//!
//! A thread takes `lanes` neighbouring points at a time, 16 bytes of the narrowest operand, and several such vectors
//! with all of their loads before the first use, so that enough is in flight to keep the memory busy. A block covers
//! one stretch of the domain; the last one may be cut off. Where an operand's neighbours lie along another dimension
//! than the result's, a block covers a *tile* of the two, and a warp a part of it in which both sides of the memory are
//! read and written by whole sectors of 32 bytes.

use super::access::{Accesses, Stand};
use super::body::{Names, name, statements};
use super::place::{decompose, index_type, offset};
use std::fmt::Write;
use thalweg_gpu::class::body::{divisors, gathers, wanted};
use thalweg_gpu::class::map::{BLOCK, MapClass, MapSlots, Tile};
use thalweg_kernel::Body;

/// The source of a kernel with one function, `map`.
pub fn source(body: &Body, class: &MapClass) -> String {
    let slots = MapSlots::new(class, body);
    let mut out = String::new();
    let _ = write!(
        out,
        "extern \"C\" __global__ void __launch_bounds__({BLOCK}) map(THALWEG_PARAMETER({})) {{\n  begin();\n{}}}\n",
        slots.end,
        function(body, class, &slots, "blockIdx.x")
    );
    out
}

/// The statements of a kernel; `block` is the expression of the number of its block.
pub fn function(body: &Body, class: &MapClass, slots: &MapSlots, block: &str) -> String {
    let (t, u) = (index_type(class.space.wide), class.vectors as usize);
    let mut out = declared(body, class, slots);
    if gathers(body) {
        let _ = writeln!(out, "  u32 *const fault = (u32 *)a.w[{}];", slots.fault);
    }
    out += &match class.tile {
        Some(tile) => in_tile(class, slots, tile, block),
        None => {
            let each = BLOCK as usize * u;
            format!("  const {t} n = ({t})a.w[0];\n  const {t} first = ({t}){block} * {each} + threadIdx.x;\n")
        }
    };
    out + &vectors(body, class, slots, BLOCK, "")
}

/// The pointers of a kernel.
pub fn declared(body: &Body, class: &MapClass, slots: &MapSlots) -> String {
    let accesses = Accesses { list: &body.accesses, class: &class.space, slots: &slots.space, tag: "" };
    let wants = wanted(body);
    let stored = |k: usize| body.stores.iter().any(|s| s.access as usize == k);
    accesses.declare(&|k| stored(k) || wants[k] != Default::default())
}

/// The vectors that a thread takes from the one of number `first` on, as many apart as a block has threads, up to `n`:
/// loads, nodes, what `more` does with these for each lane, and stores.
pub fn vectors(body: &Body, class: &MapClass, slots: &MapSlots, threads: u32, more: &str) -> String {
    let space = &class.space;
    let accesses = Accesses { list: &body.accesses, class: space, slots: &slots.space, tag: "" };
    let (wants, t, u) = (wanted(body), index_type(space.wide), class.vectors as usize);
    let mut out = String::new();
    let position = |k: usize| {
        let all = offset(space, &slots.space, k, 0..space.rank(), "i");
        if all.is_empty() { "0".into() } else { all }
    };
    let stand = Stand {
        position: &position,
        point: format!("(i64)j * {}", space.lanes),
        step: "1".into(),
        lanes: space.lanes as usize,
    };
    let fetched: Vec<usize> = (0..wants.len()).filter(|&k| wants[k].load || wants[k].position).collect();
    for &k in &fetched {
        let _ = writeln!(out, "  {}", accesses.arrays(k, wants[k], stand.lanes, &format!("[{u}]")));
    }
    let each = match class.tile {
        Some(Tile { dim, depth }) => format!(
            "    const i32 i{dim} = first{dim} + u * {depth};\n    if (i{dim} < (i32)(u32)a.w[{}] && i{1} < (i32)(u32)a.w[{2}]) {{\n",
            slots.space.dims + 2 * dim as usize,
            space.rank() - 1,
            slots.space.dims + 2 * (space.rank() - 1)
        ),
        None => {
            let decomposed = decompose(space, &slots.space, 0..space.rank(), "j", "i");
            format!("    const {t} j = first + u * {threads};\n    if (j < n) {{\n      {decomposed}")
        }
    };
    let step = |out: &mut String, inner: &str| {
        let _ = write!(out, "#pragma unroll\n  for (int u = 0; u < {u}; u++) {{\n{each}{inner}    }}\n  }}\n");
    };
    if !fetched.is_empty() {
        let loads: String = fetched
            .iter()
            .map(|&k| format!("      {}\n", accesses.fetch(k, wants[k], &stand, ["[u]", "[u]"])))
            .collect();
        step(&mut out, &loads);
    }
    let names = Names {
        load: &|k| accesses.element(k as usize, "[u]"),
        index: &|k, dtype| accesses.index(k as usize, dtype, "[u]"),
        valid: &|k| accesses.valid(k as usize, "[u]"),
        gather: &|k, offset, inside| accesses.gathered(k as usize, &stand, offset, inside),
        value: &|_| unreachable!("a map has no values of rows"),
        scalar: &|s| format!("a.w[{}]", slots.scalars + s as usize),
        reciprocal: &|s| {
            let at = divisors(body).iter().position(|d| d.0 == s)?;
            Some(format!("a.w[{}]", slots.reciprocals + at))
        },
    };
    let mut inner = String::new();
    for s in &body.stores {
        let _ = writeln!(inner, "      {}", accesses.result(s.access as usize, stand.lanes));
    }
    let _ = write!(inner, "#pragma unroll\n      for (int v = 0; v < {}; v++) {{\n", stand.lanes);
    inner += &statements(body, &names, "        ");
    inner += more;
    for s in &body.stores {
        let _ = writeln!(inner, "        {}", accesses.set(s.access as usize, &name(s.node)));
    }
    inner += "      }\n";
    for s in &body.stores {
        let _ = writeln!(inner, "      {}", accesses.store(s.access as usize, &stand));
    }
    step(&mut out, &inner);
    out
}

/// Where a thread of a tile stands: `i{d}` for every dimension but the tile's other one, which begins at `first{dim}`.
fn in_tile(class: &MapClass, slots: &MapSlots, tile: Tile, block: &str) -> String {
    let (lane, dim, w) = (class.space.rank() - 1, tile.dim as usize, slots.tiles);
    let [deep, wide] = tile.sizes(class.vectors);
    let depth = tile.depth;
    let mut out = format!(
        "  const Split along = split((u32){block}, a.w[{w}], a.w[{}]), across = split(along.q, a.w[{}], a.w[{}]);\n",
        w + 1,
        w + 2,
        w + 3
    );
    let _ = writeln!(
        out,
        "  const i32 i{lane} = along.r * {wide} + threadIdx.x / {depth}, first{dim} = across.r * {deep} + threadIdx.x % {depth};"
    );
    let others: Vec<usize> = (0..lane).filter(|&d| d != dim).collect();
    let mut rest = "across.q".to_string();
    for &d in others.iter().skip(1).rev() {
        let at = slots.space.dims + 2 * d;
        let _ = writeln!(
            out,
            "  const Split is{d} = split({rest}, a.w[{at}], a.w[{}]);\n  const i32 i{d} = is{d}.r;",
            at + 1
        );
        rest = format!("is{d}.q");
    }
    if let Some(&d) = others.first() {
        let _ = writeln!(out, "  const i32 i{d} = {rest};");
    }
    out
}
