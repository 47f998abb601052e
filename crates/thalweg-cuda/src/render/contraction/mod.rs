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
use super::body::{Names, divisors};
use super::types::{held, stored};
use crate::space::{Slots, SpaceClass, Way};
use result::{By, Handed};
use std::fmt::Write;
use thalweg_ir::DType;
use thalweg_kernel::{Access, Body};

/// What every source of a contraction has behind the prelude.
pub const CONTRACTIONS: &str = include_str!("../contraction.cuh");
/// What those have whose factors are copied by maps of tensors.
pub const FED: &str = concat!(include_str!("../contraction.cuh"), include_str!("../mapped.cuh"));

/// Words before those of the batch dimensions: rows, columns, terms, tiles of rows, tiles of columns, where an index
/// out of range is told.
pub const HEAD: usize = 6;

/// Arithmetic of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Math {
    /// Tensor cores, factors of bf16 or f16.
    Narrow,
    /// The same by warpgroups, whose factors lie in shared memory in lines of 128 bytes (sm_90a).
    Warpgroup,
    /// Tensor cores, factors of f32 rounded to TF32.
    Tf32,
    /// Plain cores, in order.
    Plain,
}

/// What a block computes, and how it is shared among its threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// Rows.
    pub m: u32,
    /// Columns.
    pub n: u32,
    /// Terms a step.
    pub k: u32,
    /// Warps along rows and along columns; of plain cores 16 times 16 threads stand as these warps do.
    pub warps: [u32; 2],
    /// Steps in shared memory at a time.
    pub stages: u32,
    /// Blocks that a multiprocessor is to hold, for the compiler's use of registers.
    pub blocks: u32,
}

/// A body of the contraction over `[batch…, rows…, columns…]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PartClass {
    /// What is computed at a point.
    pub body: Body,
    /// Its domain.
    pub space: SpaceClass,
    /// How many dimensions the batch and the rows have.
    pub groups: [u8; 2],
}

impl PartClass {
    /// Bytes that a thread reads for one point, but for an operand in registers or in shared memory; with the place of
    /// what is not there by strides.
    pub fn loads(&self, sums: u16) -> usize {
        let read = |k: usize| self.body.nodes.iter().any(|n| n.access() == Some(k as u16));
        let all = self.body.accesses.iter().enumerate().filter(|&(k, a)| a.operand != Some(sums) && read(k));
        let bytes = |(k, a): (usize, &Access)| {
            let value = if a.operand.is_some() { a.dtype.size() } else { 0 };
            let placed = matches!(self.space.ways[k], Way::Strided { .. });
            value + if placed { 0 } else { 8 }
        };
        all.map(bytes).sum()
    }
}

/// How a factor comes into shared memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum FactorClass {
    /// As it lies: 16 bytes at a time, along terms or along its lines (rows of the left one, columns of the right one).
    Copied {
        /// Whether terms are neighbours.
        along: bool,
    },
    /// As it lies, element by element: what it reads is by strides of several dimensions, as windows are.
    Strided {
        /// A body that loads and stores.
        part: PartClass,
        /// Whether elements that are near each other in memory are terms.
        along: bool,
    },
    /// Computed on its way through registers.
    Computed(PartClass),
}

/// What decides the source of a contraction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TileClass {
    /// Of the factors.
    pub dtype: DType,
    /// Of the sums.
    pub sums: DType,
    /// The arithmetic.
    pub math: Math,
    /// The tile.
    pub tile: Tile,
    /// Batch dimensions.
    pub batch: u8,
    /// The factors.
    pub factors: [FactorClass; 2],
    /// What is made of the sums, which are this operand of it.
    pub result: (PartClass, u16),
}

impl Math {
    /// Whether factors are narrow floats as they are in memory.
    pub fn is_narrow(self) -> bool {
        matches!(self, Math::Narrow | Math::Warpgroup)
    }
}

impl Tile {
    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        32 * self.warps[0] * self.warps[1]
    }
}

/// Where the words of a part are.
#[derive(Clone, Debug)]
pub struct PartSlots {
    /// Of its domain.
    pub space: Slots,
    /// The first scalar.
    pub scalars: usize,
    /// The reciprocals of those that are divided by.
    pub reciprocals: usize,
    /// The first word behind.
    pub end: usize,
}

impl PartSlots {
    /// From word `first` on.
    pub fn new(part: &PartClass, first: usize) -> PartSlots {
        let space = Slots::new(&part.space, first);
        let scalars = space.end;
        let reciprocals = scalars + part.body.scalars as usize;
        PartSlots { space, scalars, reciprocals, end: reciprocals + divisors(&part.body).len() }
    }
}

/// Where the words of a factor are.
#[derive(Clone, Debug)]
pub enum FactorSlots {
    /// The address, then the elements from line to line, or from term to term.
    Copied(usize),
    /// Those of its part.
    Computed(PartSlots),
}

/// Where the words of a contraction are.
#[derive(Clone, Debug)]
pub struct TileSlots {
    /// Of each factor.
    pub factors: [FactorSlots; 2],
    /// Of the result.
    pub result: PartSlots,
}

impl TileSlots {
    /// Those of a class. Each batch dimension has four words: two to divide by its size, then how far it goes in the
    /// left and in the right factor: elements of a copied one, matrices of a computed one.
    pub fn new(class: &TileClass) -> TileSlots {
        let mut end = HEAD + 4 * class.batch as usize;
        let mut factor = |f: &FactorClass| match f {
            FactorClass::Copied { .. } => {
                end += 2;
                FactorSlots::Copied(end - 2)
            }
            FactorClass::Computed(part) | FactorClass::Strided { part, .. } => {
                let slots = PartSlots::new(part, end);
                end = slots.end;
                FactorSlots::Computed(slots)
            }
        };
        let factors = [factor(&class.factors[0]), factor(&class.factors[1])];
        TileSlots { factors, result: PartSlots::new(&class.result.0, end) }
    }
}

/// How a factor lies in shared memory: whether terms are neighbours there, and elements from line to line, or from term
/// to term.
#[derive(Clone, Copy, Debug)]
struct Layout {
    along: bool,
    pitch: u32,
    /// Elements of a stage.
    all: u32,
}

impl TileClass {
    /// The type of an element in shared memory: where tensor cores take narrow floats, as they are in memory.
    fn element(&self) -> &'static str {
        if self.math.is_narrow() { stored(self.dtype) } else { held(self.dtype) }
    }

    /// Its bodies.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        let factors = self.factors.iter().filter_map(|f| match f {
            FactorClass::Computed(part) => Some(&part.body),
            FactorClass::Copied { .. } | FactorClass::Strided { .. } => None,
        });
        factors.chain([&self.result.0.body])
    }

    fn element_size(&self) -> u32 {
        match (self.math, self.dtype) {
            (Math::Narrow | Math::Warpgroup, _) => 2,
            (_, DType::BF16 | DType::F16) => 4,
            (_, other) => other.size() as u32,
        }
    }

    /// Pitches are such that the threads of a warp read from different banks.
    fn layout(&self, factor: usize) -> Layout {
        let lines = if factor == 0 { self.tile.m } else { self.tile.n };
        let along = self.math != Math::Plain
            && match &self.factors[factor] {
                FactorClass::Copied { along } | FactorClass::Strided { along, .. } => *along,
                FactorClass::Computed(_) => factor == 0,
            };
        if self.math == Math::Warpgroup {
            return Layout { along, pitch: warpgroup::LINE_ELEMENTS, all: lines * self.tile.k };
        }
        let pad = match self.math {
            Math::Narrow | Math::Warpgroup => 8,
            Math::Tf32 => {
                if along {
                    4
                } else {
                    8
                }
            }
            Math::Plain => (16 / self.element_size()).max(1),
        };
        let (pitch, others) = if along { (self.tile.k + pad, lines) } else { (lines + pad, self.tile.k) };
        Layout { along, pitch, all: pitch * others }
    }

    /// Rows of the sums that are in shared memory at a time.
    fn rows_a_pass(&self) -> u32 {
        match self.math {
            Math::Plain | Math::Warpgroup => self.tile.m.min(64),
            _ => self.tile.m / self.tile.warps[0],
        }
    }

    fn handed(&self) -> Handed<'_> {
        let (rows, by) = (self.rows_a_pass(), By::Block(self.tile.threads()));
        Handed { result: &self.result, sums: self.sums, rows, columns: self.tile.n, passes: self.tile.m / rows, by }
    }

    /// Bytes of shared memory.
    pub fn shared(&self) -> u32 {
        self.table_at(2)
    }

    /// Where the table of a strided factor's terms is in shared memory, behind everything else; of factor 2 the end of all.
    fn table_at(&self, factor: usize) -> u32 {
        let stages = self.tile.stages * (self.layout(0).all + self.layout(1).all) * self.element_size();
        let tables = self.factors[..factor].iter().map(|f| match f {
            FactorClass::Strided { part, .. } => self.tile.stages * self.tile.k * if part.space.wide { 8 } else { 4 },
            _ => 0,
        });
        stages.max(self.handed().bytes()).next_multiple_of(16) + tables.sum::<u32>()
    }
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
        scalar: &|s| format!("a.w[{}]", slots.scalars + s as usize),
        reciprocal: &|s| {
            let at = divisors(&part.body).iter().position(|d| d.0 == s)?;
            Some(format!("a.w[{}]", slots.reciprocals + at))
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

/// The source of a contraction with one function, `contraction`.
pub fn source(class: &TileClass) -> String {
    let slots = TileSlots::new(class);
    let Tile { m, n, k, stages, blocks, .. } = class.tile;
    let (element, sums) = (class.element(), held(class.sums));
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
    let [ahead, loop_ahead, loop_behind, prepare] = [
        factors.each_ref().map(|f| format!("{}{}", f.early("s", "s"), f.late("s"))).concat(),
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
{which}{batches}  {element} *const s0 = ({element} *)shared, *const s1 = s0 + {all0};
{declared0}{declared1}  {sums} sum[{micro_m}][{micro_n}] = {{}};
  const i32 steps = (i32)((k + {last}) / {k});
#pragma unroll
  for (i32 s = 0; s < {before}; s++) {{
    if (s < steps) {{
{ahead}    }}
    copies_commit();
  }}
  i32 from = 0, to = {before};
  for (i32 i = 0; i < steps; i++) {{
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
{result}}}
"#,
        which = which_tile("blockIdx.x", [m, n]),
        threads = class.tile.threads(),
        words = slots.result.end,
        all0 = stages * class.layout(0).all,
        declared0 = factors[0].declared,
        declared1 = factors[1].declared,
        micro_m = multiply::sums(class)[0],
        micro_n = multiply::sums(class)[1],
        last = k - 1,
        before = stages - 1,
        waits = stages - 2,
        arrived = if class.math == Math::Warpgroup { "    async_fence();\n" } else { "" },
        multiply_before = if class.math == Math::Warpgroup { multiply::step(class) } else { String::new() },
        multiply = if class.math == Math::Warpgroup { behind } else { multiply::step(class) },
        result = result::text(&class.handed(), &slots.result, &multiply::hand_on(class)),
    )
}
