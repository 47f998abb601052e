//! Matrix products (GEMM, GEMV): `c[b, i, j] = Σ left[b, i, p] · right[b, p, j]`.
//!
//! In: sizes, two operands that are in memory or are computed as they are packed (a fused prologue), and a destination
//! for the sums. Out: the sums, stored or passed to an epilogue one tile at a time.
//!
//! A *term* is an index `p` of the K dimension; a *line* is a row of operand A (`left`) or a column of operand B
//! (`right`). Always true, for every element of c whatever its index, the number of threads, the engine, the layout of
//! the operands and the epilogue: terms are taken in blocks of [`TERMS`]; within a block, one chain of fused
//! multiply-adds starts at 0 and runs over ascending terms; the sums of blocks are added in order. (Integers wrap, so
//! their order is not observable.) If the order is free, two other orders exist. `gemv_dots` describes the order for a
//! few rows (or columns) times columns (or rows) with contiguous terms. And if the machine has an instruction for pairs
//! of bf16 terms ([`Pairs`]), a block has [`TERMS`] pairs, and a step of a chain adds the products of a pair. If the
//! machine has tile registers for pairs of bf16 ([`PairTiles`], AMX), products of several rows and columns take terms in
//! blocks of 32 (the last one padded with zeros): within a block, one chain from 0 adds the products of even terms,
//! another one those of odd terms; the two are added, and the sums of blocks are added in order, from 0. Other products
//! of such a machine keep the orders of pairs.
//!
//! Several products with the same operand B may pack it once for all of them ([`Packing`]).
//!
//! `microkernels` selects the micro-kernels, emitted (`isa/gemm.rs`) or portable; `pack` packs factors into panels;
//! `blocking` chooses the block sizes, `blocked` runs them; `gemv` and `gemv_dots` run products with one row or column,
//! or a few; `single_tile` runs batches of small products; `steps` runs blocks of terms in tile registers; `traffic` counts their memory traffic. docs/cpu-emitter.md has an example.

mod blocked;
mod blocking;
mod gemv;
mod gemv_dots;
mod grid;
pub(crate) mod microkernels;
mod pack;
mod portable;
mod scratch;
mod single_tile;
mod steps;
mod task;
#[cfg(test)]
mod tests;
pub mod traffic;

use crate::engine::Choice;
use crate::number::{Bf16, F16, Number, PairTiles, Pairs, Quads, Scheme, Wide, WideQuads};
use crate::simd::Shared;
use crate::threads::Threads;
use grid::At;
pub use grid::{Grid, Limit};
use microkernels::Kernels;
use pack::Strided;
use single_tile::SingleTiles;
use std::any::TypeId;
use std::ops::Range;
use thalweg_ir::DType;

/// Number of terms (or groups of terms) per block of the K dimension. It is part of the definition of a product:
/// another block size rounds differently.
pub const TERMS: usize = 256;

/// Matrix operand of a GEMM (called *factor* in names), of lines × terms. Lines of the left operand A are rows i, lines
/// of the right operand B are columns j.
pub enum Factor<'a> {
    /// Operand in memory, with constant strides.
    Strided {
        /// Address of the first element of the first product.
        first: *const u8,
        /// Stride of each batch dimension, in elements (0: shared).
        batch: Vec<isize>,
        /// Stride between lines, in elements.
        line: isize,
        /// Stride between terms, in elements.
        term: isize,
    },
    /// Computed before by a fused prologue, into scratch memory with constant strides. The order of sums is that of
    /// [`Factor::Computed`].
    Held {
        /// As of [`Factor::Strided`], and so are the others.
        first: *const u8,
        batch: Vec<isize>,
        line: isize,
        term: isize,
    },
    /// Computed when a panel is packed (a fused prologue).
    Computed {
        /// Writer that stores the elements of a block to an address, densely in the operand's dtype, in rows that begin
        /// the given number of elements apart.
        write: Write<'a>,
        /// Whether a row that `write` stores is a line with contiguous terms; otherwise it is one term of all lines.
        terms_last: bool,
        /// Memory layout, if the prologue only copies elements from memory (a convolution's windows, a merged view):
        /// panels are then packed from memory without calling `write`.
        grid: Option<&'a Grid>,
    },
    /// Operand B that [`Packing`] packed whole before, for products of several rows and columns. A product uses the
    /// first of the packed columns and terms.
    Packed {
        /// Address of the first panel.
        first: *const u8,
        /// Number of columns packed.
        n: usize,
        /// Number of terms packed. A product uses all of them, or a multiple of [`Scheme::GROUP`] ·
        /// [`Scheme::STEP`].
        k: usize,
    },
}

/// Writer of the blocks of a computed operand: see [`Factor::Computed`].
pub type Write<'a> = &'a (dyn Fn(Block, *mut u8, usize) + Sync);

/// Rectangle of a computed operand that a [`Write`] function computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Index of the product, row-major over the batch dimensions.
    pub batch: usize,
    /// Range of rows of A, or of columns of B.
    pub lines: Range<usize>,
    /// Range of terms (indices of the K dimension).
    pub terms: Range<usize>,
}

/// A finished rectangle of accumulators, as an epilogue receives it. The tiles of a contraction cover each element of c
/// exactly once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tile {
    /// Index of the product, row-major over the batch dimensions.
    pub batch: usize,
    /// Range of rows of c.
    pub rows: Range<usize>,
    /// Range of columns of c.
    pub columns: Range<usize>,
    /// Address of the first accumulator, in the accumulator's dtype.
    pub sums: *const u8,
    /// Stride in elements between rows of the accumulators.
    pub lead: usize,
}

/// Destination of the accumulators of a GEMM: memory, or an epilogue.
pub enum Finish<'a> {
    /// Memory at this address, row-major; accumulators are rounded once to the operands' dtype.
    Store(*mut u8),
    /// Epilogue, which gets the accumulators on the thread that computed them, while they are in a near cache.
    Tiles(&'a (dyn Fn(Tile) + Sync)),
}

/// A matrix product, or a batch of them.
///
/// Whoever constructs one promises, until [`run`] has returned: every element that the sizes and strides of a factor
/// address is readable; if sums are stored, there is space for all of c, disjoint from the factors; nobody else writes
/// the factors or accesses c; the writer of a computed factor writes all of a block and nothing else.
pub struct Gemm<'a> {
    /// Element types and accumulation order.
    pub numbers: Numbers,
    /// Sizes of the batch dimensions.
    pub batch: Vec<usize>,
    /// Products of the batch that are computed, counted row-major. The addresses of factors and results are those of the
    /// first product of the batch.
    pub products: Range<usize>,
    /// Number of rows of A and c.
    pub m: usize,
    /// Number of columns of B and c.
    pub n: usize,
    /// Number of terms of a sum (the K dimension).
    pub k: usize,
    /// Number of rows of the product that these `m` rows are a block of (`m` if they are all of it). The order of sums
    /// depends on it, so it is the same for all blocks.
    pub whole_m: usize,
    /// Left operand A, of `m` lines.
    pub left: Factor<'a>,
    /// Right operand B, of `n` lines.
    pub right: Factor<'a>,
    /// Destination of the elements of c.
    pub finish: Finish<'a>,
}

// SAFETY: its addresses are only read, or each element is written by one thread, as its constructor promised.
unsafe impl Sync for Gemm<'_> {}

/// Element types of a product, and the order of its sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// Dtype of the operands and of the stored result.
    pub dtype: DType,
    /// Whether a sum may be computed in another order than the module's default (never one that depends on the number
    /// of threads).
    pub free: bool,
    /// Set if both operands are bytes in memory that a prologue converts to `dtype`, i32; both are then grids with
    /// single strides ([`Grid::strides`]). Bytes of A are signed; the value is the signedness of B's bytes. Only set if
    /// the machine has an instruction for them ([`Choice::quads`]).
    pub bytes: Option<Signs>,
}

/// Signedness of the bytes of B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signs {
    /// B is i8.
    Signed,
    /// B is u8.
    Unsigned,
}

/// Evaluates `$run` with the type `$t` bound to the [`Scheme`] that an engine uses for these [`Numbers`].
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
            _ if numbers.bytes == Some(crate::gemm::Signs::Signed) => with!(WideQuads<true>),
            _ if numbers.bytes == Some(crate::gemm::Signs::Unsigned) => with!(WideQuads<false>),
            DType::F32 => with!(f32),
            DType::F64 => with!(f64),
            DType::BF16 if numbers.free && $isa.tiles() => with!(PairTiles),
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

/// Runs a contraction. The promises of its constructor must hold (see [`Gemm`]).
///
/// # Panics
/// For bool, which has no matrix products.
pub fn run(c: &Gemm<'_>, isa: Choice, threads: &Threads) {
    // SAFETY: the constructor of the contraction promised what its documentation says.
    by_numbers!(c.numbers, isa, T => unsafe { typed::<T>(c, isa, threads) });
}

/// Layout of an operand B that is packed whole, for several products to share.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// Element types of the products that will read it.
    pub numbers: Numbers,
    /// Number of columns of B.
    pub n: usize,
    /// Number of terms of B.
    pub k: usize,
    /// Engine whose micro-kernels read the packed operand.
    pub isa: Choice,
}

impl Packing {
    /// Bytes of the packed operand, in whole cache lines.
    pub fn bytes(&self) -> usize {
        by_numbers!(self.numbers, self.isa, T => {
            let panel = Kernels::<T>::new(self.isa).columns;
            let slots = self.n.next_multiple_of(panel) * padded::<T>(groups::<T>(self.k));
            (slots * size_of::<<T as Scheme>::Slot>()).next_multiple_of(64)
        })
    }

    /// Number of chunks that are packed independently.
    pub fn parts(&self) -> usize {
        by_numbers!(self.numbers, self.isa, T => blocked::parts(self.n, groups::<T>(self.k), T::STEP))
    }

    /// Whether products of one row read the packed operand, too.
    pub fn serves_rows(&self) -> bool {
        by_numbers!(self.numbers, self.isa, T => T::STEP > 1)
    }

    /// Packs chunk `number` of an operand B.
    ///
    /// # Safety
    /// The promises of [`Gemm`] hold for this factor, which is not yet packed; there are [`Packing::bytes`]
    /// bytes at `to`, aligned to 64, and nobody else writes this chunk meanwhile.
    pub unsafe fn pack(&self, factor: &Factor<'_>, number: usize, to: *mut u8) {
        by_numbers!(self.numbers, self.isa, T => {
            let right = Side::<<T as Scheme>::PackedAs> {
                operand: operand(factor, &[], 0),
                k: self.k,
                offset: T::OFFSET,
                step: T::STEP,
            };
            let panel = Kernels::<T>::new(self.isa).columns;
            // SAFETY: the caller's promise.
            unsafe { blocked::pack_part(&right, 0..self.n, panel, number, to.cast()) };
        });
    }
}

/// Calls `work` with scratch memory for B operands that are packed for a launch.
pub fn with_factors<T>(bytes: usize, work: impl FnOnce(*mut u8) -> T) -> T {
    scratch::with(scratch::Use::Factors, bytes, work)
}

/// Matrix operand of one product.
#[derive(Clone, Copy)]
enum Operand<'a, T> {
    Strided(Strided<T>),
    /// Computed by a prologue into blocks in which either terms or lines are contiguous.
    Computed {
        write: Write<'a>,
        batch: usize,
        terms_last: bool,
        /// Memory layout from which the operand can be packed; `None` if it has to be computed.
        grid: Option<At<'a, T>>,
    },
    /// Packed whole, as [`Factor::Packed`].
    Packed {
        first: Shared<u8>,
        n: usize,
        k: usize,
    },
}

/// Matrix operand of one product of a batch, with the parameters of its packing.
struct Side<'a, T: Scheme> {
    operand: Operand<'a, T::Element>,
    /// Number of terms (single ones, not groups).
    k: usize,
    /// Whether packing flips the sign bits of the operand's bytes: see [`Scheme::OFFSET`].
    offset: bool,
    /// Number of groups to whose multiple lines are padded with zeros: see [`Scheme::STEP`].
    step: usize,
}

/// One product of a batch, with its micro-kernels.
struct Product<'a, T: Scheme> {
    m: usize,
    n: usize,
    /// Number of groups of [`Scheme::GROUP`] terms.
    k: usize,
    left: Side<'a, T::PackedAs>,
    right: Side<'a, T::PackedAs>,
    kernels: Kernels<T>,
    /// Whether A and B were exchanged (cᵀ = Bᵀ·Aᵀ) for a product of one column, or of few, computed by dot products: its
    /// rows are columns of c.
    turned: bool,
    /// Number of rows that decides the order of sums: see [`Gemm::whole_m`].
    whole_m: usize,
    /// Whether A and B were exchanged (cᵀ = Bᵀ·Aᵀ) for a product of several rows and columns: the finished sums are
    /// transposed.
    swapped: bool,
    /// Whether sums may be computed in another order: see [`Numbers::free`].
    free: bool,
    /// Whether operand B is held in scratch memory: see [`Factor::Held`].
    holds_right: bool,
    result: Result<'a>,
    /// Estimated nanoseconds that one thread takes for the product.
    ns: f64,
}

/// Number of groups of [`Scheme::GROUP`] terms in `terms` terms; the last group may be partial.
fn groups<T: Scheme>(terms: usize) -> usize {
    terms.div_ceil(T::GROUP)
}

/// Number of groups to which the slots of a line are padded with zeros: whole steps ([`Scheme::STEP`]).
fn padded<T: Scheme>(groups: usize) -> usize {
    groups.next_multiple_of(T::STEP)
}

/// Destination of the accumulators of one product.
#[derive(Clone, Copy)]
enum Result<'a> {
    /// Memory from this address on, row-major.
    Store(Shared<u8>),
    Tiles {
        take: &'a (dyn Fn(Tile) + Sync),
        batch: usize,
    },
}

impl Result<'_> {
    /// Passes a rectangle of sums of c to the epilogue; rows are `lead` sums apart.
    ///
    /// # Safety
    /// The sums are readable, and writable by this thread only.
    unsafe fn tile<T: Scheme>(&self, rows: Range<usize>, columns: Range<usize>, sums: *mut T::Sum, mut lead: usize) {
        if T::EPILOGUE_TAKES_STORED {
            for row in 0..rows.len() {
                let from = sums.wrapping_add(row * lead);
                let to = from.cast::<T::Stored>();
                for column in 0..columns.len() {
                    // SAFETY: the caller's promise; the destination is no wider, so it only overwrites what was read
                    // before.
                    unsafe { to.add(column).write(T::store(from.add(column).read())) };
                }
            }
            lead *= size_of::<T::Sum>() / size_of::<T::Stored>();
        }
        let sums = sums.cast_const().cast();
        match *self {
            Result::Tiles { take, batch } => take(Tile { batch, rows, columns, sums, lead }),
            Result::Store(_) => unreachable!("sums that are stored are not handed over"),
        }
    }
}

/// Computes all products of a batch with the scheme `T`.
///
/// # Safety
/// The promises of [`Gemm`] hold.
unsafe fn typed<T: Scheme>(c: &Gemm<'_>, isa: Choice, threads: &Threads) {
    let batches = c.products.len();
    if batches * c.m * c.n == 0 {
        return;
    }
    let first = c.products.start;
    let each = blocking::estimate_ns(&T::CONSTANTS, c.m, c.n, c.k);
    // SAFETY: the caller's promise.
    let one = |batch: usize, threads: &Threads| unsafe { one::<T>(c, batch, isa, each, threads) };
    let helpers = threads.for_work(each * batches as f64);
    if batches > 1
        && let Some(tiles) = SingleTiles::new(c, Product::<T>::new(c, first, isa, each))
    {
        let grain = (batches / (4 * helpers)).max(1);
        return threads.run(batches, grain, each * batches as f64, |range| {
            // SAFETY: the caller's promise.
            range.for_each(|batch| unsafe { tiles.run(first + batch) });
        });
    }
    if batches >= 2 * helpers {
        // Enough products for all threads: each product runs on one thread.
        let alone = Threads::new(1, f64::INFINITY);
        let grain = (batches / (4 * helpers)).max(1);
        let kernels = Kernels::<T>::new(isa);
        threads.run(batches, grain, each * batches as f64, |range| {
            let _held = kernels.hold_tile_registers();
            range.for_each(|batch| one(first + batch, &alone));
        });
    } else {
        c.products.clone().for_each(|batch| one(batch, threads));
    }
}

/// Computes one product of a batch.
///
/// # Safety
/// As for [`typed`].
unsafe fn one<T: Scheme>(c: &Gemm<'_>, batch: usize, isa: Choice, ns: f64, threads: &Threads) {
    let product = Product::<T>::new(c, batch, isa, ns);
    let lines = gemv_dots::lines(&product);
    // SAFETY: the caller's promise.
    unsafe {
        if T::IN_STEPS {
            return match lines.is_some() || product.is_row() {
                true => one::<T::Few>(c, batch, isa, ns, threads),
                false => blocked::run(&product, threads),
            };
        }
        match lines {
            Some(lines) => gemv_dots::run(&product, lines, threads),
            None if product.is_row() => gemv::run(&product, threads),
            None => blocked::run(&product, threads),
        }
    }
}

impl<'a, T: Scheme> Product<'a, T> {
    fn new(c: &'a Gemm<'a>, batch: usize, isa: Choice, ns: f64) -> Product<'a, T> {
        const {
            assert!(size_of::<T::Slot>() == size_of::<<T::PackedAs as Scheme>::Slot>());
            assert!(size_of::<T::Element>() == size_of::<<T::PackedAs as Scheme>::Element>());
            assert!(T::GROUP == <T::PackedAs as Scheme>::GROUP);
        }
        let (mut left, mut right) = (operand(&c.left, &c.batch, batch), operand(&c.right, &c.batch, batch));
        if T::GROUP > 1 {
            // Panels of groups are packed faster from strides.
            (left, right) = (left.plain(), right.plain());
        }
        // A product with one column, or few, becomes one with one row, or few, by swapping the factors.
        let holds = [&c.left, &c.right].map(|factor| matches!(factor, Factor::Held { .. }));
        let by_dots = || match (&left, &right) {
            _ if holds[0] => false,
            (Operand::Strided(a), Operand::Strided(_) | Operand::Computed { .. }) => {
                gemv_dots::takes(&T::CONSTANTS, c.numbers.free, [c.n, c.k], a.term)
            }
            _ => false,
        };
        let turned = T::SYMMETRIC && c.whole_m > c.n && (c.n == 1 || by_dots());
        let (mut m, mut n, mut whole_m) = (c.m, c.n, c.whole_m);
        let several = T::STEP > 1 && T::SYMMETRIC && m > 1 && n > 1 && c.k > 0;
        let in_lanes = |term: isize| gemv_dots::takes(&T::CONSTANTS, c.numbers.free, [whole_m, c.k], term);
        let swapped = !turned && several && swap_pays(&left, &right, [m, n, c.k]) && !in_lanes(1);
        if turned || swapped {
            (left, right, m, n) = (right, left, n, m);
        }
        if turned {
            whole_m = m;
        }
        let result = match c.finish {
            Finish::Store(to) => Result::Store(Shared(to.wrapping_add(batch * c.m * c.n * size_of::<T::Stored>()))),
            Finish::Tiles(take) => Result::Tiles { take, batch },
        };
        Product {
            m,
            n,
            k: groups::<T>(c.k),
            left: Side { operand: left, k: c.k, offset: false, step: T::STEP },
            right: Side { operand: right, k: c.k, offset: T::OFFSET, step: T::STEP },
            kernels: Kernels::new(isa),
            turned,
            whole_m,
            swapped,
            free: c.numbers.free,
            holds_right: holds[if turned || swapped { 0 } else { 1 }],
            result,
            ns,
        }
    }
}

/// Whether a product whose operand B is in memory with contiguous terms is computed as cᵀ = Bᵀ·Aᵀ: B is then read in
/// place instead of being transposed, but A is transposed if its terms are contiguous (it is otherwise), and so are the
/// sums.
fn swap_pays<T>(left: &Operand<'_, T>, right: &Operand<'_, T>, [m, n, k]: [usize; 3]) -> bool {
    let (Operand::Strided(left), Operand::Strided(right)) = (left, right) else { return false };
    let (swapped, plain) = if left.term == 1 { (m * k, 0) } else { (0, m * k) };
    right.term == 1 && swapped + m * n < plain + n * k
}

/// Returns the operand of product `batch`: applies the batch strides, or selects the block writer's batch.
fn operand<'a, T: Copy>(factor: &'a Factor<'a>, sizes: &[usize], batch: usize) -> Operand<'a, T> {
    match factor {
        Factor::Strided { first, batch: strides, line, term } | Factor::Held { first, batch: strides, line, term } => {
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
    /// Replaces a grid by strides if it has only one stride for its lines and one for its terms.
    fn plain(self) -> Self {
        match self {
            Operand::Computed { grid: Some(grid), .. } => grid.strided().map_or(self, Operand::Strided),
            _ => self,
        }
    }
}

impl<T: Scheme> Product<'_, T> {
    /// Passes the sums of some columns of a product with one row to the epilogue.
    ///
    /// # Safety
    /// As for [`Result::tile`].
    unsafe fn row_tile(&self, columns: Range<usize>, sums: *mut T::Sum) {
        let lead = if self.turned { 1 } else { columns.len() };
        let (rows, columns) = if self.turned { (columns, 0..1) } else { (0..1, columns) };
        // SAFETY: the caller's promise. A row of the exchanged product is a column of c.
        unsafe { self.result.tile::<T>(rows, columns, sums, lead) }
    }

    /// Whether the product has one row, so that it is computed as a GEMV. A block of one row of a larger product is not
    /// if that would change the order of its sums.
    fn is_row(&self) -> bool {
        self.m == 1 && (T::STEP == 1 || self.whole_m == 1)
    }

    /// Correction that is added to the sums of a row because B's bytes were packed with flipped signs
    /// ([`Scheme::amends`]).
    fn amends(&self, row: usize) -> T::Sum {
        if T::OFFSET { T::amends(self.left.total(row)) } else { T::Sum::ZERO }
    }
}

impl<T: Scheme> Side<'_, T> {
    /// Sum of a line's bytes as signed numbers.
    fn total(&self, line: usize) -> i64 {
        if let Operand::Strided(s) = self.operand
            && s.term == 1
        {
            // SAFETY: the terms of a line are inside the factor, contiguous, one byte each.
            return pack::total(unsafe { std::slice::from_raw_parts(s.at(line, 0).cast(), self.k) });
        }
        let groups = groups::<T>(self.k);
        scratch::with(scratch::Use::Staging, groups * size_of::<T::Slot>(), |room| {
            // SAFETY: there is space for the slots of a line; their bytes are those of its terms, and zeros.
            unsafe {
                self.pack(line..line + 1, 0..groups, pack::Cuts::whole(1, 1), room.cast());
                pack::total(std::slice::from_raw_parts(room.cast(), groups * size_of::<T::Slot>()))
            }
        })
    }

    /// Range of the terms in a range of groups.
    fn terms(&self, groups: &Range<usize>) -> Range<usize> {
        groups.start * T::GROUP..(groups.end * T::GROUP).min(self.k)
    }

    /// Stride in bytes between lines, if each line's slots are contiguous in memory.
    fn contiguous_line_stride(&self) -> Option<isize> {
        let own = T::GROUP * size_of::<T::Element>() == size_of::<T::Slot>() && !self.offset;
        match self.operand {
            Operand::Strided(s) if own && s.term == 1 && self.k.is_multiple_of(T::GROUP) => {
                Some(s.line * size_of::<T::Element>() as isize)
            }
            _ => None,
        }
    }

    /// Stride in bytes between terms, if the slots of each term are contiguous in memory.
    fn contiguous_term_stride(&self) -> Option<isize> {
        let own = TypeId::of::<T::Element>() == TypeId::of::<T::Slot>();
        match self.operand {
            Operand::Strided(s) if own && s.line == 1 => Some(s.term * size_of::<T::Slot>() as isize),
            _ => None,
        }
    }

    /// Packs lines × groups of terms into panels.
    ///
    /// # Safety
    /// The rectangle is inside the factor, and `to` has space for the panels.
    unsafe fn pack(&self, lines: Range<usize>, groups: Range<usize>, cuts: pack::Cuts, to: *mut T::Slot) {
        let (terms, room) =
            (self.terms(&groups), cuts.count() * cuts.most() * groups.len().next_multiple_of(self.step));
        // SAFETY: the caller's promise.
        unsafe {
            match self.operand {
                Operand::Strided(from) => {
                    pack::panels::<T>(from.from(lines.start, terms.start), cuts, terms.len(), self.step, to);
                }
                Operand::Computed { grid: Some(grid), .. } => grid.pack::<T>(lines, terms, cuts, self.step, to),
                Operand::Computed { .. } => {
                    let bytes = (lines.len() + 16) * (terms.len() + 16) * size_of::<T::Element>();
                    scratch::with(scratch::Use::Staging, bytes, |staging| {
                        let count = terms.len();
                        let from = self.staged(lines, terms, staging.cast());
                        pack::panels::<T>(from, cuts, count, self.step, to);
                    });
                }
                Operand::Packed { .. } => unreachable!("what is packed is not packed again"),
            }
            if self.offset {
                pack::flip_signs(to, room);
            }
        }
    }

    /// Packs all terms of the first `lines` lines, one line after the other.
    ///
    /// # Safety
    /// The operand has these lines, and `to` has space for their slots.
    unsafe fn pack_lines(&self, lines: usize, to: *mut T::Slot) {
        let (k, groups) = (self.k, groups::<T>(self.k));
        // Lines and terms exchanged: terms of all lines side by side are transposed as lines of a panel.
        let exchanged = |from: Strided<T::Element>| Strided { first: from.first, line: from.term, term: from.line };
        match self.operand {
            // SAFETY: the caller's promise; the terms of the transpose are the lines.
            Operand::Strided(from) if T::GROUP == 1 && from.line == 1 => unsafe {
                pack::transposed::<T>(exchanged(from), k, lines, k, to);
            },
            Operand::Computed { terms_last: false, grid: None, .. } if T::GROUP == 1 => {
                let bytes = (lines + 16) * (k + 16) * size_of::<T::Element>();
                scratch::with(scratch::Use::Staging, bytes, |staging| {
                    let from = self.staged(0..lines, 0..k, staging.cast());
                    // SAFETY: as above, of the elements just computed.
                    unsafe { pack::transposed::<T>(exchanged(from), k, lines, k, to) };
                });
            }
            Operand::Computed { grid: Some(grid), .. }
                if TypeId::of::<<T::Element as Number>::Wide>() == TypeId::of::<T::Slot>() =>
            {
                scratch::with(scratch::Use::Staging, lines * k * size_of::<T::Slot>(), |staging| {
                    // SAFETY: the caller's promise; one panel of all lines, whose slots are then transposed.
                    unsafe {
                        grid.pack::<T>(0..lines, 0..k, pack::Cuts::whole(lines, lines), 1, staging.cast());
                        pack::transpose(staging.cast::<T::Slot>().cast_const(), lines, [k, lines], k, to);
                    }
                });
            }
            // SAFETY: the caller's promise; panels of one line.
            _ => unsafe { self.pack(0..lines, 0..groups, pack::Cuts::whole(lines, 1), to) },
        }
    }

    /// Returns a rectangle of the operand in place, or computes it into `staging`, which has space for 16 more lines
    /// and terms than the rectangle.
    fn staged(&self, lines: Range<usize>, terms: Range<usize>, staging: *mut T::Element) -> Strided<T::Element> {
        match self.operand {
            Operand::Strided(from) => from.from(lines.start, terms.start),
            Operand::Computed { write, batch, terms_last, .. } => {
                // Not a power of two between rows: such rows would fall into the same cache sets. Narrow rows fill them
                // anyway, and without a gap a body over them may run as one long row.
                let width = if terms_last { terms.len() } else { lines.len() };
                let lead = if width <= 32 { width } else { width + 16 };
                write(Block { batch, lines, terms }, staging.cast(), lead);
                let (line, term) = if terms_last { (lead as isize, 1) } else { (1, lead as isize) };
                Strided { first: Shared(staging), line, term }
            }
            Operand::Packed { .. } => unreachable!("products of one row or column read a factor where it lies"),
        }
    }
}
