//! Contractions: `c[b, i, j] = Σ left[b, i, p] · right[b, p, j]`.
//!
//! In: sizes, two factors that lie in memory or are computed when they are packed, and what is done with the sums. Out:
//! the sums, stored or handed over a tile at a time. Always true, for every element of c whatever its place, the number
//! of threads, the engine, the layout of the factors and what is done with it: terms are taken in blocks of [`TERMS`];
//! in a block one chain of fused multiply-adds runs from 0 over ascending terms; the blocks' sums are added in order.
//! (Integers wrap, so their order cannot be seen.) Only where the order is free, few rows that meet columns whose terms
//! are neighbours have another one, which `dots` describes.
//!
//! Several products with one right factor may have it packed once for all of them ([`Packing`]).
//!
//! `kernel` holds the loops, emitted (`x64/product.rs`) or portable; `pack` brings factors into their order; `blocking`
//! decides how a product is cut, `blocks` runs it so; `row` and `dots` run products that have one row or one column, or
//! few; `moves` says what that moves. docs/cpu-emitter.md has an example.

mod blocking;
mod blocks;
mod dots;
mod grid;
pub(crate) mod kernel;
pub mod moves;
mod pack;
mod portable;
mod row;
mod scratch;
#[cfg(test)]
mod tests;

use crate::engine::Choice;
use crate::number::{Bf16, F16, Number};
use crate::simd::Shared;
use crate::threads::Threads;
use grid::At;
pub use grid::{Grid, Limit};
use kernel::Kernels;
use pack::Strided;
use std::any::TypeId;
use std::ops::Range;
use thalweg_ir::DType;

/// Terms of a block. Part of the meaning of a product: another number gives other roundings.
pub const TERMS: usize = 256;

#[cfg_attr(not(test), allow(dead_code, reason = "for products that fuse with their surroundings (issue 12, part 2)"))]
/// One factor: `lines` × `terms` (left: lines are rows i; right: lines are columns j).
pub enum Factor<'a> {
    /// In memory.
    Strided {
        /// The first element of the first product.
        first: *const u8,
        /// The stride of each batch dimension, in elements (0: shared).
        batch: Vec<isize>,
        /// From line to line, in elements.
        line: isize,
        /// From term to term, in elements.
        term: isize,
    },
    /// Computed when a panel is packed.
    Computed {
        /// Writes the elements of a block to the address, densely in the factor's dtype, in rows with so many elements
        /// from one to the next.
        write: Write<'a>,
        /// Whether such a row is a line, its terms side by side; else it is a term, of all lines.
        terms_last: bool,
        /// Where it lies in memory after all, with several dimensions to its lines or terms: panels are packed from there.
        grid: Option<&'a Grid>,
    },
    /// A right factor, all of it packed by [`Packing`], for products of several rows and columns: of its first columns and
    /// terms, as many as the product has.
    Packed {
        /// The first panel.
        first: *const u8,
        /// The columns that were packed.
        n: usize,
        /// The terms that were.
        k: usize,
    },
}

/// See [`Factor::Computed`].
pub type Write<'a> = &'a (dyn Fn(Block, *mut u8, usize) + Sync);

/// A part of a computed factor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The product's number, row-major over the batch dimensions.
    pub batch: usize,
    /// Rows of the left factor, or columns of the right one.
    pub lines: Range<usize>,
    /// Terms.
    pub terms: Range<usize>,
}

/// A finished rectangle of sums. The tiles of a contraction cover each element of c once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tile {
    /// The product's number, row-major over the batch dimensions.
    pub batch: usize,
    /// Rows of c.
    pub rows: Range<usize>,
    /// Columns of c.
    pub columns: Range<usize>,
    /// The first sum, in the accumulator's dtype.
    pub sums: *const u8,
    /// Elements from row to row of the sums.
    pub lead: usize,
}

#[cfg_attr(not(test), allow(dead_code, reason = "for products that fuse with their surroundings (issue 12, part 2)"))]
/// What is done with sums.
pub enum Finish<'a> {
    /// They are rounded to the factors' dtype once and stored row-major.
    Store(*mut u8),
    /// Something else is made of them, on whatever thread computed them, while they are in a near cache.
    Tiles(&'a (dyn Fn(Tile) + Sync)),
}

/// A contraction, or a batch of them.
///
/// Who makes one promises, until [`run`] has returned: every element that the sizes and the strides of a factor lead to
/// is readable; where sums are stored there is room for all of c, apart from the factors; nobody else writes the
/// factors or touches c; what computes a factor writes all of a block and nothing else.
pub struct Contraction<'a> {
    /// Of the factors, and of what is stored.
    pub dtype: DType,
    /// Sizes of the batch dimensions.
    pub batch: Vec<usize>,
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// Terms.
    pub k: usize,
    /// Whether the order of a sum may depend on more than its length (never on the number of threads or the engine).
    pub free: bool,
    /// `m` lines.
    pub left: Factor<'a>,
    /// `n` lines.
    pub right: Factor<'a>,
    /// What becomes of c.
    pub finish: Finish<'a>,
}

// SAFETY: its addresses are read, or written each element by one thread, under the promise of its maker.
unsafe impl Sync for Contraction<'_> {}

/// Runs code with the number type of a dtype.
macro_rules! by_dtype {
    ($dtype:expr, $t:ident => $run:expr) => {{
        macro_rules! with {
            ($n:ty) => {{
                type $t = $n;
                $run
            }};
        }
        match $dtype {
            DType::F32 => with!(f32),
            DType::F64 => with!(f64),
            DType::BF16 => with!(Bf16),
            DType::F16 => with!(F16),
            DType::I8 | DType::U8 => with!(u8),
            DType::I16 => with!(i16),
            DType::I32 | DType::U32 => with!(i32),
            DType::I64 => with!(i64),
            DType::Bool => panic!("bool has no matrix product"),
        }
    }};
}

/// Runs a contraction. What the addresses in it promise holds (see [`Contraction`]).
///
/// # Panics
/// For bool, which has no products.
pub fn run(c: &Contraction<'_>, isa: Choice, threads: &Threads) {
    // SAFETY: whoever made the contraction promised what its doc says.
    by_dtype!(c.dtype, T => unsafe { typed::<T>(c, isa, threads) });
}

/// A right factor that is packed whole, for several products to be run with it.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// Of the factor.
    pub dtype: DType,
    /// Its columns.
    pub n: usize,
    /// Its terms.
    pub k: usize,
    /// For the micro-kernels of this engine.
    pub isa: Choice,
}

impl Packing {
    /// Bytes that it takes, whole lines of cache.
    pub fn bytes(&self) -> usize {
        by_dtype!(self.dtype, T => {
            let panel = Kernels::<<T as Number>::Wide>::new(self.isa).columns;
            (self.n.next_multiple_of(panel) * self.k * size_of::<<T as Number>::Wide>()).next_multiple_of(64)
        })
    }

    /// In how many parts it is packed, each by itself.
    pub fn parts(&self) -> usize {
        blocks::parts(self.n, self.k)
    }

    /// Packs a part of a factor of one product.
    ///
    /// # Safety
    /// What [`Contraction`] asks of a factor holds for this one, which is not packed; there are [`Packing::bytes`] at
    /// `to`, aligned to 64, and nobody else writes this part meanwhile.
    pub unsafe fn pack(&self, factor: &Factor<'_>, number: usize, to: *mut u8) {
        by_dtype!(self.dtype, T => {
            let right = operand::<T>(factor, &[], 0);
            let panel = Kernels::<<T as Number>::Wide>::new(self.isa).columns;
            // SAFETY: the caller's promise.
            unsafe { blocks::pack_part(&right, 0..self.n, self.k, panel, number, to.cast()) };
        });
    }
}

/// Calls `work` with so many bytes for right factors that are packed for a launch.
pub fn with_factors<T>(bytes: usize, work: impl FnOnce(*mut u8) -> T) -> T {
    scratch::with(scratch::Use::Factors, bytes, work)
}

/// One factor of one product.
#[derive(Clone, Copy)]
enum Operand<'a, T> {
    Strided(Strided<T>),
    /// Written with its terms side by side, or its lines.
    Computed {
        write: Write<'a>,
        batch: usize,
        terms_last: bool,
        /// Where it can be packed from.
        grid: Option<At<'a, T>>,
    },
    /// As [`Factor::Packed`].
    Packed {
        first: Shared<u8>,
        n: usize,
        k: usize,
    },
}

/// One product of a contraction.
struct Product<'a, T: Number> {
    m: usize,
    n: usize,
    k: usize,
    left: Operand<'a, T>,
    right: Operand<'a, T>,
    kernels: Kernels<T::Wide>,
    /// As [`Contraction::free`].
    free: bool,
    result: Result<'a>,
    /// What one thread takes for it.
    ns: f64,
}

/// Where the sums of one product go.
#[derive(Clone, Copy)]
enum Result<'a> {
    /// Row-major from here on.
    Store(Shared<u8>),
    Tiles {
        take: &'a (dyn Fn(Tile) + Sync),
        batch: usize,
        /// Rows of the product are columns of c.
        turned: bool,
    },
}

impl Result<'_> {
    fn tile(&self, rows: Range<usize>, columns: Range<usize>, sums: *const u8, lead: usize) {
        match *self {
            Result::Tiles { take, batch, turned: false } => take(Tile { batch, rows, columns, sums, lead }),
            // The one row of the product is the one column of c.
            Result::Tiles { take, batch, turned: true } => {
                take(Tile { batch, rows: columns, columns: rows, sums, lead: 1 });
            }
            Result::Store(_) => unreachable!("sums that are stored are not handed over"),
        }
    }
}

/// Whether sums are carried in the factors' own type.
fn own_width<T: Number>() -> bool {
    TypeId::of::<T>() == TypeId::of::<T::Wide>()
}

/// # Safety
/// What [`Contraction`] asks of its maker holds.
unsafe fn typed<T: Number>(c: &Contraction<'_>, isa: Choice, threads: &Threads) {
    let batches: usize = c.batch.iter().product();
    if batches * c.m * c.n == 0 {
        return;
    }
    let each = blocking::estimate_ns(c.dtype, c.m, c.n, c.k);
    let one = |batch: usize, threads: &Threads| {
        let product = Product::<T>::new(c, batch, isa, each);
        // SAFETY: the caller's promise.
        unsafe {
            match (dots::lines(&product), product.m) {
                (Some(lines), _) => dots::run(&product, lines, threads),
                (None, 1) => row::run(&product, threads),
                (None, _) => blocks::run(&product, threads),
            }
        }
    };
    let helpers = threads.for_work(each * batches as f64);
    if batches >= 2 * helpers {
        // Products enough for all threads: each is one thread's.
        let alone = Threads::new(1, f64::INFINITY);
        let grain = (batches / (4 * helpers)).max(1);
        threads.run(batches, grain, each * batches as f64, |range| range.for_each(|batch| one(batch, &alone)));
    } else {
        (0..batches).for_each(|batch| one(batch, threads));
    }
}

impl<'a, T: Number> Product<'a, T> {
    fn new(c: &'a Contraction<'a>, batch: usize, isa: Choice, ns: f64) -> Product<'a, T> {
        // A product with one column is one with one row of the factors exchanged.
        let turned = c.n == 1 && c.m > 1;
        let (mut left, mut right) = (operand(&c.left, &c.batch, batch), operand(&c.right, &c.batch, batch));
        let (mut m, mut n) = (c.m, c.n);
        if turned {
            (left, right, m, n) = (right, left, n, m);
        }
        let result = match c.finish {
            Finish::Store(to) => Result::Store(Shared(to.wrapping_add(batch * c.m * c.n * size_of::<T>()))),
            Finish::Tiles(take) => Result::Tiles { take, batch, turned },
        };
        Product { m, n, k: c.k, left, right, kernels: Kernels::new(isa), free: c.free, result, ns }
    }
}

/// A factor of product number `batch`.
fn operand<'a, T: Copy>(factor: &'a Factor<'a>, sizes: &[usize], batch: usize) -> Operand<'a, T> {
    match factor {
        Factor::Strided { first, batch: strides, line, term } => {
            let (mut offset, mut rest) = (0, batch);
            for (size, stride) in sizes.iter().zip(strides).rev() {
                offset += (rest % size) as isize * stride;
                rest /= size;
            }
            let first = first.cast::<T>().wrapping_offset(offset);
            Operand::Strided(Strided { first: Shared(first.cast_mut()), line: *line, term: *term })
        }
        Factor::Packed { first, n, k } => Operand::Packed { first: Shared(first.cast_mut()), n: *n, k: *k },
        Factor::Computed { write, terms_last, grid } => Operand::Computed {
            write: *write,
            batch,
            terms_last: *terms_last,
            grid: grid.map(|grid| grid.of_product(batch)),
        },
    }
}

impl<T: Number> Operand<'_, T> {
    /// Packs lines × terms into panels.
    ///
    /// # Safety
    /// The rectangle is inside the factor, and `to` has room for the panels.
    unsafe fn pack(&self, lines: Range<usize>, terms: Range<usize>, cuts: pack::Cuts, to: *mut T::Wide) {
        match *self {
            // SAFETY: the caller's promise.
            Operand::Strided(from) => unsafe {
                pack::panels(from.from(lines.start, terms.start), cuts, terms.len(), to);
            },
            // SAFETY: the caller's promise.
            Operand::Computed { grid: Some(grid), .. } => unsafe { grid.pack(lines, terms, cuts, to) },
            Operand::Computed { .. } => {
                let bytes = (lines.len() + 16) * (terms.len() + 16) * size_of::<T>();
                scratch::with(scratch::Use::Staging, bytes, |staging| {
                    let count = terms.len();
                    let from = self.staged(lines, terms, staging.cast());
                    // SAFETY: the staging block holds the rectangle now.
                    unsafe { pack::panels(from, cuts, count, to) };
                });
            }
            Operand::Packed { .. } => unreachable!("what is packed is not packed again"),
        }
    }

    /// A rectangle where it lies, or computed to `staging`, which has room for 16 lines and terms more.
    fn staged(&self, lines: Range<usize>, terms: Range<usize>, staging: *mut T) -> Strided<T> {
        match *self {
            Operand::Strided(from) => from.from(lines.start, terms.start),
            Operand::Computed { write, batch, terms_last, .. } => {
                // Not a power of two from row to row: such rows would share the sets of a cache.
                let lead = if terms_last { terms.len() + 16 } else { lines.len() + 16 };
                write(Block { batch, lines, terms }, staging.cast(), lead);
                let (line, term) = if terms_last { (lead as isize, 1) } else { (1, lead as isize) };
                Strided { first: Shared(staging), line, term }
            }
            Operand::Packed { .. } => unreachable!("products of one row or column read a factor where it lies"),
        }
    }
}
