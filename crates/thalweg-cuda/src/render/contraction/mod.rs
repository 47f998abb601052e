//! Contractions as one kernel: tiles of the result, whose factors are copied or computed into shared memory a few terms
//! at a time, and whose sums are handed on there to what is made of them. docs/gpu-contractions.md has the idea.
//!
//! In: a [`TileClass`]. Out: a source with one function, `contraction`. Nothing here knows sizes; which class a
//! contraction gets is decided in `lower/contraction`.
//!
//! * `factor`: how a factor comes into shared memory, `strided` one that lies in memory in more dimensions than a matrix
//!   has. `multiply`: the arithmetic on it. `result`: what is made of the
//!   sums. `fed`: a kernel with a warp that brings the factors. `streamed`: two products, the rows of one streamed through the other.

mod factor;
pub mod fed;
mod multiply;
mod result;
pub mod streamed;
mod strided;
mod warpgroup;

use super::access::Accesses;
use super::body::Names;
use super::types::{held, stored};
use std::fmt::Write;
use thalweg_gpu::class::body::divisors;
use thalweg_gpu::class::contraction::{
    FactorClass, FactorSlots, HEAD, Math, PartClass, PartSlots, Tile, TileClass, TileSlots,
};

/// What every source of a contraction has behind the prelude.
pub const CONTRACTIONS: &str = include_str!("../contraction.cuh");
/// What those have whose factors are copied by maps of tensors.
pub const FED: &str = concat!(include_str!("../contraction.cuh"), include_str!("../mapped.cuh"));

/// The type of an element in shared memory: where tensor cores take narrow floats, as they are in memory.
fn element_of(class: &TileClass) -> &'static str {
    if class.math.is_narrow() { stored(class.dtype) } else { held(class.dtype) }
}

/// What a body needs of the kernel around it.
fn names<'a>(
    accesses: &'a Accesses<'a>,
    (part, slots): (&'a PartClass, &'a PartSlots),
    load: &'a dyn Fn(u16) -> String,
    gather: &'a dyn Fn(u16, &str, &str) -> String,
    use_names: &mut dyn FnMut(&Names<'_>),
    at: &'a str,
) {
    let names = Names {
        load,
        index: &|k, dtype| accesses.index(k as usize, dtype, at),
        valid: &|k| accesses.valid(k as usize, at),
        gather,
        value: &|_| unreachable!("a map has no values of rows"),
        scalar: &|s| slots.scalars + s as usize,
        reciprocal: &|s| {
            let at = divisors(&part.body).iter().position(|d| d.0 == s)?;
            Some(slots.reciprocals + at)
        },
    };
    use_names(&names);
}

/// The text of a factor.
fn factor_text(class: &TileClass, slots: &TileSlots, number: usize) -> factor::Factor {
    match (&class.factors[number], &slots.factors[number]) {
        (FactorClass::Copied { along }, FactorSlots::Copied(at)) => factor::copied(class, number, *along, *at),
        (FactorClass::Strided { part, along }, FactorSlots::Computed(slots)) => {
            strided::text(class, number, (part, slots), *along)
        }
        (FactorClass::Computed(part), FactorSlots::Computed(slots)) => factor::computed(class, number, part, slots),
        _ => unreachable!("slots are of their class"),
    }
}

/// The statements that say which tile a number stands for: `product` of the batch, `row0`, `column0`.
fn which_tile(number: &str, [m, n]: [u32; 2]) -> String {
    format!(
        r#"  // Tiles that are computed side by side share rows and columns: they go in groups of eight tiles of rows.
  const u32 high = (u32)a.w[3], wide = (u32)a.w[4], product = {number} / (high * wide), tile = {number} % (high * wide);
  const u32 first = tile / (8 * wide) * 8, rows = high - first < 8 ? high - first : 8, within = tile - first * wide;
  const i64 row0 = (i64)(first + within % rows) * {m}, column0 = (i64)(within / rows) * {n};
"#
    )
}

/// Which terms of which tile a block has, where several share them.
fn share(slots: &TileSlots) -> String {
    let w = slots.split;
    format!(
        "  const u32 shares = (u32)a.w[{}], share = blockIdx.x % shares, own_tile = blockIdx.x / shares;\n  const i32 first_step = (i32)(share * (u32)a.w[{w}]);\n",
        w + 1
    )
}

/// The sums of all shares of a tile: every block leaves its own, as its threads have them, and the last one to come puts
/// them together in order. The others end here.
fn together(class: &TileClass, slots: &TileSlots) -> String {
    let (h, each, threads, w) = (held(class.sums), class.sums_of_thread(), class.tile.threads(), slots.split);
    format!(
        r#"  {h} *const own = ({h} *)sum, *const left = ({h} *)a.w[{partials}] + (i64)own_tile * shares * {all} + t;
#pragma unroll
  for (u32 u = 0; u < {each}; u++) set_at(left, (i64)share * {all} + u * {threads}, own[u]);
  __threadfence();
  __shared__ u32 last_share;
  __syncthreads();
  if (t == 0) {{
    u32 *const counter = (u32 *)a.w[{counters}] + own_tile;
    last_share = atomicAdd(counter, 1u) == shares - 1;
    if (last_share) *counter = 0;
    __threadfence();
  }}
  __syncthreads();
  if (!last_share) return;
#pragma unroll
  for (u32 u = 0; u < {each}; u++) own[u] = 0;
  for (u32 s = 0; s < shares; s++) {{
    {h} other[{each}];
#pragma unroll
    for (u32 u = 0; u < {each}; u++) other[u] = load_cold(left + ((i64)s * {all} + u * {threads}));
#pragma unroll
    for (u32 u = 0; u < {each}; u++) own[u] += other[u];
  }}
"#,
        partials = w + 2,
        counters = w + 3,
        all = each * threads,
    )
}

/// The source of a contraction with one function, `contraction`.
pub fn source(class: &TileClass) -> String {
    let slots = TileSlots::new(class);
    let Tile { m, n, k, stages, blocks, .. } = class.tile;
    let (element, sums) = (element_of(class), held(class.sums));
    let mut batches = String::from("  i64 batch0 = 0, batch1 = 0;\n  u32 rest = product;\n");
    for d in (0..class.batch as usize).rev() {
        let w = HEAD + 4 * d;
        let _ = writeln!(
            batches,
            "  {{ const Split s = split(rest, a.w[{w}], a.w[{}]); rest = s.q; batch0 += s.r * (i64)a.w[{}]; batch1 += s.r * (i64)a.w[{}]; }}",
            w + 1,
            w + 2,
            w + 3
        );
    }
    let factors = [0, 1].map(|f| factor_text(class, &slots, f));
    let [functions, behind] = multiply::around(class);
    let first = if class.split { "(first_step + s)" } else { "s" };
    let [ahead, loop_ahead, loop_behind, prepare] = [
        factors.each_ref().map(|f| format!("{}{}", f.early(first, "s"), f.late("s"))).concat(),
        factors.each_ref().map(|f| f.early("next", "to")).concat(),
        factors.each_ref().map(|f| f.late("to")).concat(),
        factors.each_ref().map(|f| f.prepare(&format!("i + {stages}"), "from")).concat(),
    ];
    format!(
        r#"
{functions}extern "C" __global__ void __launch_bounds__({threads}, {blocks}) contraction(THALWEG_PARAMETER({words})) {{
  begin();
  THALWEG_SHARED_LINES(shared);
  const i64 m = (i64)a.w[0], n = (i64)a.w[1], k = (i64)a.w[2];
  const u32 t = threadIdx.x;
  u32 *const fault = (u32 *)a.w[5];
{share}{which}{batches}  {element} *const s0 = ({element} *)shared, *const s1 = s0 + {all0};
{declared0}{declared1}  {sums} sum[{micro_m}][{micro_n}] = {{}};
{steps}#pragma unroll
  for (i32 s = 0; s < {before}; s++) {{
    if ({first} < steps) {{
{ahead}    }}
    copies_commit();
  }}
  i32 from = 0, to = {before};
  for (i32 i = {begin}; i < steps; i++) {{
    copies_wait<{waits}>();
{arrived}    __syncthreads();
    const i32 next = i + {before};
{multiply_before}    if (next < steps) {{
{loop_ahead}    }}
    copies_commit();
{multiply}    if (next < steps) {{
{loop_behind}    }}
{prepare}    from = from + 1 == {stages} ? 0 : from + 1;
    to = to + 1 == {stages} ? 0 : to + 1;
  }}
  copies_wait<0>();
{together}{result}}}
"#,
        share = if class.split { share(&slots) } else { String::new() },
        which = which_tile(if class.split { "own_tile" } else { "blockIdx.x" }, [m, n]),
        begin = if class.split { "first_step" } else { "0" },
        steps = match class.split {
            true => format!(
                "  const i32 all_steps = (i32)((k + {}) / {k}), end_step = first_step + (i32)a.w[{}];\n  const i32 steps = end_step < all_steps ? end_step : all_steps;\n",
                k - 1,
                slots.split
            ),
            false => format!("  const i32 steps = (i32)((k + {}) / {k});\n", k - 1),
        },
        together = if class.split { together(class, &slots) } else { String::new() },
        threads = class.tile.threads(),
        words = slots.end,
        all0 = stages * class.layout(0).all,
        declared0 = factors[0].declared,
        declared1 = factors[1].declared,
        micro_m = multiply::sums(class)[0],
        micro_n = multiply::sums(class)[1],
        before = stages - 1,
        waits = stages - 2,
        arrived = if class.math == Math::Warpgroup { "    async_fence();\n" } else { "" },
        multiply_before = if class.math == Math::Warpgroup { multiply::step(class) } else { String::new() },
        multiply = if class.math == Math::Warpgroup { behind } else { multiply::step(class) },
        result = result::text(&class.handed(), &slots.result, &multiply::hand_on(class)),
    )
}
