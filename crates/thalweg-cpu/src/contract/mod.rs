//! Contractions: `c[b, i, j] = Σ left[b, i, p] · right[b, p, j]`.
//!
//! In: sizes, two factors that lie in memory or are computed when they are packed, and what is done with the sums. Out:
//! the sums, stored or handed over a tile at a time. Always true, for every element of c whatever its place, the number
//! of threads, the engine, the layout of the factors and what is done with it: terms are taken in blocks of [`TERMS`];
//! in a block one chain of fused multiply-adds runs from 0 over ascending terms; the blocks' sums are added in order.
//! (Integers wrap, so their order cannot be seen.) Only where the order is free, there are two others: few rows that meet
//! columns whose terms are neighbours have one that `dots` describes, and bf16 goes in pairs of terms where there is an
//! instruction for it ([`Pairs`]): blocks are then of as many pairs, and a step of a chain adds the products of a pair.
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
use crate::number::{Bf16, F16, Number, Pairs, Quads, Scheme, Wide, WideQuads};
use crate::simd::Shared;
use crate::threads::Threads;
use grid::At;
pub use grid::{Grid, Limit};
use kernel::Kernels;
use pack::Strided;
use std::any::TypeId;
use std::ops::Range;
use thalweg_ir::DType;

/// Terms of a block, or groups of terms. Part of the meaning of a product: another number gives other roundings.
pub const TERMS: usize = 256;

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
        /// The terms that were. A product has all of them, or whole groups.
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
    /// What is multiplied.
    pub numbers: Numbers,
    /// Sizes of the batch dimensions.
    pub batch: Vec<usize>,
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// Terms.
    pub k: usize,
    /// `m` lines.
    pub left: Factor<'a>,
    /// `n` lines.
    pub right: Factor<'a>,
    /// What becomes of c.
    pub finish: Finish<'a>,
}

// SAFETY: its addresses are read, or written each element by one thread, under the promise of its maker.
unsafe impl Sync for Contraction<'_> {}

/// What a product multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// Of the factors, and of what is stored.
    pub dtype: DType,
    /// Whether the order of a sum may depend on more than its length (never on the number of threads).
    pub free: bool,
    /// The factors are bytes that were converted to `dtype`, i32: grids by strides ([`Grid::strides`]), of which the left
    /// one's have signs, and the right one's do or do not. Only where [`Choice::quads`] says that there is something to multiply them.
    pub bytes: Option<Signs>,
}

/// Whether the bytes of a right factor have signs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signs {
    /// i8
    Signed,
    /// u8
    Unsigned,
}

/// Runs code with the scheme of numbers on an engine.
macro_rules! by_numbers {
    ($numbers:expr, $isa:expr, $t:ident => $run:expr) => {{
        macro_rules! with {
            ($n:ty) => {{
                type $t = $n;
                $run
            }};
        }
        let numbers: Numbers = $numbers;
        match numbers.dtype {
            _ if numbers.bytes == Some(crate::contract::Signs::Signed) => with!(WideQuads<true>),
            _ if numbers.bytes == Some(crate::contract::Signs::Unsigned) => with!(WideQuads<false>),
            DType::F32 => with!(f32),
            DType::F64 => with!(f64),
            DType::BF16 if numbers.free && $isa.pairs() => with!(Pairs),
            DType::BF16 => with!(Bf16),
            DType::F16 => with!(F16),
            DType::I8 | DType::U8 if $isa.quads() => with!(Quads),
            DType::I8 | DType::U8 => with!(u8),
            DType::I16 | DType::U16 => with!(i16),
            DType::I32 | DType::U32 => with!(i32),
            DType::I64 | DType::U64 => with!(i64),
            DType::Bool => panic!("bool has no matrix product"),
        }
    }};
}
use by_numbers;

/// Runs a contraction. What the addresses in it promise holds (see [`Contraction`]).
///
/// # Panics
/// For bool, which has no products.
pub fn run(c: &Contraction<'_>, isa: Choice, threads: &Threads) {
    // SAFETY: whoever made the contraction promised what its doc says.
    by_numbers!(c.numbers, isa, T => unsafe { typed::<T>(c, isa, threads) });
}

/// A right factor that is packed whole, for several products to be run with it.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// Of the products.
    pub numbers: Numbers,
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
        by_numbers!(self.numbers, self.isa, T => {
            let panel = Kernels::<T>::new(self.isa).columns;
            let slots = self.n.next_multiple_of(panel) * groups::<T>(self.k);
            (slots * size_of::<<T as Scheme>::Slot>()).next_multiple_of(64)
        })
    }

    /// In how many parts it is packed, each by itself.
    pub fn parts(&self) -> usize {
        by_numbers!(self.numbers, self.isa, T => blocks::parts(self.n, groups::<T>(self.k)))
    }

    /// Packs a part of a factor of one product.
    ///
    /// # Safety
    /// What [`Contraction`] asks of a factor holds for this one, which is not packed; there are [`Packing::bytes`] at
    /// `to`, aligned to 64, and nobody else writes this part meanwhile.
    pub unsafe fn pack(&self, factor: &Factor<'_>, number: usize, to: *mut u8) {
        by_numbers!(self.numbers, self.isa, T => {
            let right = Side { operand: operand::<<T as Scheme>::Element>(factor, &[], 0), k: self.k, offset: T::OFFSET };
            let panel = Kernels::<T>::new(self.isa).columns;
            // SAFETY: the caller's promise.
            unsafe { blocks::pack_part::<T>(&right, 0..self.n, panel, number, to.cast()) };
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

/// One factor of one product with what there is to know to pack it.
struct Side<'a, T: Scheme> {
    operand: Operand<'a, T::Element>,
    /// Its terms.
    k: usize,
    /// Whether the sign bits of its bytes are turned.
    offset: bool,
}

/// One product of a contraction.
struct Product<'a, T: Scheme> {
    m: usize,
    n: usize,
    /// Groups of terms.
    k: usize,
    left: Side<'a, T>,
    right: Side<'a, T>,
    kernels: Kernels<T>,
    /// As [`Numbers::free`].
    free: bool,
    result: Result<'a>,
    /// What one thread takes for it.
    ns: f64,
}

/// Groups that so many terms are.
fn groups<T: Scheme>(terms: usize) -> usize {
    terms.div_ceil(T::GROUP)
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
    /// Hands a rectangle of sums over, `lead` of them from row to row.
    ///
    /// # Safety
    /// The sums are readable, and writable by this thread alone.
    unsafe fn tile<T: Scheme>(&self, rows: Range<usize>, columns: Range<usize>, sums: *mut T::Sum, mut lead: usize) {
        if T::HANDED_AS_STORED {
            for row in 0..rows.len() {
                let from = sums.wrapping_add(row * lead);
                let to = from.cast::<T::Stored>();
                for column in 0..columns.len() {
                    // SAFETY: the caller's promise; what is written was read before, since it is no wider.
                    unsafe { to.add(column).write(T::store(from.add(column).read())) };
                }
            }
            lead *= size_of::<T::Sum>() / size_of::<T::Stored>();
        }
        let sums = sums.cast_const().cast();
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

/// Whether sums are stored as they are carried.
fn stored_as_carried<T: Scheme>() -> bool {
    TypeId::of::<T::Stored>() == TypeId::of::<T::Sum>()
}

/// # Safety
/// What [`Contraction`] asks of its maker holds.
unsafe fn typed<T: Scheme>(c: &Contraction<'_>, isa: Choice, threads: &Threads) {
    let batches: usize = c.batch.iter().product();
    if batches * c.m * c.n == 0 {
        return;
    }
    let each = blocking::estimate_ns::<T>(c.m, c.n, c.k);
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

impl<'a, T: Scheme> Product<'a, T> {
    fn new(c: &'a Contraction<'a>, batch: usize, isa: Choice, ns: f64) -> Product<'a, T> {
        // A product with one column is one with one row of the factors exchanged.
        let turned = c.n == 1 && c.m > 1 && T::SYMMETRIC;
        let (mut left, mut right) = (operand(&c.left, &c.batch, batch), operand(&c.right, &c.batch, batch));
        if T::GROUP > 1 {
            // Panels of groups are faster packed from strides.
            (left, right) = (left.plain(), right.plain());
        }
        let (mut m, mut n) = (c.m, c.n);
        if turned {
            (left, right, m, n) = (right, left, n, m);
        }
        let result = match c.finish {
            Finish::Store(to) => Result::Store(Shared(to.wrapping_add(batch * c.m * c.n * size_of::<T::Stored>()))),
            Finish::Tiles(take) => Result::Tiles { take, batch, turned },
        };
        Product {
            m,
            n,
            k: groups::<T>(c.k),
            left: Side { operand: left, k: c.k, offset: false },
            right: Side { operand: right, k: c.k, offset: T::OFFSET },
            kernels: Kernels::new(isa),
            free: c.numbers.free,
            result,
            ns,
        }
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

impl<T: Copy> Operand<'_, T> {
    /// The same, by strides if the grid of it has no more than one for its lines and one for its terms.
    fn plain(self) -> Self {
        match self {
            Operand::Computed { grid: Some(grid), .. } => grid.strided().map_or(self, Operand::Strided),
            _ => self,
        }
    }
}

impl<T: Scheme> Product<'_, T> {
    /// What is to be added to the sums of a row.
    fn amends(&self, row: usize) -> T::Sum {
        if T::OFFSET { T::amends(self.left.total(row)) } else { T::Sum::ZERO }
    }
}

impl<T: Scheme> Side<'_, T> {
    /// The sum of a line's bytes, with their signs.
    fn total(&self, line: usize) -> i64 {
        if let Operand::Strided(s) = self.operand
            && s.term == 1
        {
            // SAFETY: the terms of a line are inside the factor, one beside the other, each a byte.
            return pack::total(unsafe { std::slice::from_raw_parts(s.at(line, 0).cast(), self.k) });
        }
        let groups = groups::<T>(self.k);
        scratch::with(scratch::Use::Staging, groups * size_of::<T::Slot>(), |room| {
            // SAFETY: there is room for the slots of a line, whose bytes are those of its terms and zeros.
            unsafe {
                self.pack(line..line + 1, 0..groups, pack::Cuts::whole(1, 1), room.cast());
                pack::total(std::slice::from_raw_parts(room.cast(), groups * size_of::<T::Slot>()))
            }
        })
    }

    /// The terms of some groups.
    fn terms(&self, groups: &Range<usize>) -> Range<usize> {
        groups.start * T::GROUP..(groups.end * T::GROUP).min(self.k)
    }

    /// The distance in bytes from line to line, where each line's slots lie one behind the other.
    fn slots_along_terms(&self) -> Option<isize> {
        let own = T::GROUP * size_of::<T::Element>() == size_of::<T::Slot>() && !self.offset;
        match self.operand {
            Operand::Strided(s) if own && s.term == 1 && self.k.is_multiple_of(T::GROUP) => {
                Some(s.line * size_of::<T::Element>() as isize)
            }
            _ => None,
        }
    }

    /// The distance in bytes from term to term, where the slots of each term lie side by side.
    fn slots_along_lines(&self) -> Option<isize> {
        let own = TypeId::of::<T::Element>() == TypeId::of::<T::Slot>();
        match self.operand {
            Operand::Strided(s) if own && s.line == 1 => Some(s.term * size_of::<T::Slot>() as isize),
            _ => None,
        }
    }

    /// Packs lines × groups of terms into panels.
    ///
    /// # Safety
    /// The rectangle is inside the factor, and `to` has room for the panels.
    unsafe fn pack(&self, lines: Range<usize>, groups: Range<usize>, cuts: pack::Cuts, to: *mut T::Slot) {
        let (terms, room) = (self.terms(&groups), cuts.count() * cuts.most() * groups.len());
        // SAFETY: the caller's promise.
        unsafe {
            match self.operand {
                Operand::Strided(from) => {
                    pack::panels::<T>(from.from(lines.start, terms.start), cuts, terms.len(), to);
                }
                Operand::Computed { grid: Some(grid), .. } => pack_grid::<T>(grid, lines, terms, cuts, to),
                Operand::Computed { .. } => {
                    let bytes = (lines.len() + 16) * (terms.len() + 16) * size_of::<T::Element>();
                    scratch::with(scratch::Use::Staging, bytes, |staging| {
                        let count = terms.len();
                        let from = self.staged(lines, terms, staging.cast());
                        pack::panels::<T>(from, cuts, count, to);
                    });
                }
                Operand::Packed { .. } => unreachable!("what is packed is not packed again"),
            }
            if self.offset {
                pack::turn_signs(to, room);
            }
        }
    }

    /// A rectangle where it lies, or computed to `staging`, which has room for 16 lines and terms more.
    fn staged(&self, lines: Range<usize>, terms: Range<usize>, staging: *mut T::Element) -> Strided<T::Element> {
        match self.operand {
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

/// Packs a part of a grid: its elements as panels, whose groups of terms are then put together.
///
/// # Safety
/// As of [`Side::pack`].
unsafe fn pack_grid<T: Scheme>(
    grid: At<'_, T::Element>,
    lines: Range<usize>,
    terms: Range<usize>,
    cuts: pack::Cuts,
    to: *mut T::Slot,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if TypeId::of::<<T::Element as Number>::Wide>() == TypeId::of::<T::Slot>() {
            return grid.pack(lines, terms, cuts, to.cast());
        }
        let (count, panel) = (terms.len(), cuts.most());
        let bytes = cuts.count() * panel * count * size_of::<<T::Element as Number>::Wide>();
        scratch::with(scratch::Use::Staging, bytes, |staging| {
            let staging = staging.cast();
            grid.pack(lines, terms, cuts, staging);
            for number in 0..cuts.count() {
                let to = to.wrapping_add(number * panel * count.div_ceil(T::GROUP));
                pack::grouped::<T>(staging.wrapping_add(number * panel * count), count, panel, to);
            }
        });
    }
}
