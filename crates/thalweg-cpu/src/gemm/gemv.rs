//! GEMV: products with one row (a vector times the matrix B). Reading the matrix dominates the time, so each thread
//! reads its own columns once, in memory order.
//!
//! Rows of the matrix are streamed, a few terms at a time, into sums in the first-level cache. If each column is
//! contiguous (column-major), or the matrix is narrow or computed, small rectangles are packed first. If there are too
//! few columns to fill a vector, blocks of terms are computed side by side in the lanes instead: their sums are
//! independent.

use super::microkernels::MAX_STREAM_TERMS;
use super::pack::{self, Cuts, Strided};
use super::{Operand, Product, Result, TERMS, scratch, task};
use crate::gemm_call::{StreamArgs, TileArgs};
use crate::hardware::PRIVATE_CACHE;
use crate::number::{Number, Scheme, Wide};
use crate::simd::{Job, Shared, dispatch};
use crate::threads::Threads;
use crate::tunable::TUNABLES;
use std::ops::Range;
use std::ptr;

/// Maximum number of columns whose accumulators a thread carries at a time. Longer ranges of the matrix's rows are read
/// faster: 4,096 columns of f32 measured 15 % faster than 2,048, though the accumulators of this and earlier blocks
/// fill a first-level cache.
const COLUMNS: usize = 4096;
/// Number of blocks of terms that are computed side by side, one per lane, if there are too few columns.
const SIDE_BY_SIDE: usize = 16;
/// Number of terms of a column-major matrix processed for one tile of columns before the next tile, so that columns are
/// read in long contiguous ranges.
const TERMS_PER_TILE: usize = 16 * TERMS;
/// Number of terms of a column-major matrix transposed at a time, sized for the first-level cache.
const TRANSPOSED_TERMS: usize = TERMS;
/// Number of panels of such columns that are computed at a time, if they are computed: a launch of a body takes about a
/// microsecond, as long as some thousand elements.
const PANELS: usize = 4;
/// Number of terms packed at a time if the matrix is narrow, or strided in both dimensions.
const PACKED: usize = 8;
/// Number of elements of a rectangle of such a matrix that is computed at a time: a launch of a body takes one to two
/// microseconds. With eight terms of 64 columns at a time, launches took 25 times as long as the elements.
const COMPUTED_ELEMENTS: usize = 8 << 10;

/// Runs a product with one row.
///
/// # Safety
/// The promises of [`super::Gemm`] hold.
pub unsafe fn run<T: Scheme>(p: &Product<'_, T>, threads: &Threads) {
    if p.k > TERMS && !TUNABLES.min_columns.reached_by(p.n) {
        // SAFETY: the caller's promise.
        unsafe { few_columns(p, threads) };
        return;
    }
    let helpers = threads.for_work(p.ns);
    let chunk = chunk(p.n, helpers);
    threads.run(p.n.div_ceil(chunk), 1, p.ns, |range| {
        for columns in range.map(|c| c * chunk..((c + 1) * chunk).min(p.n)) {
            // SAFETY: the caller's promise; no two chunks have a column in common.
            unsafe { columns_of(p, columns) };
        }
    });
}

/// Number of terms of `n` columns that are packed at a time: a multiple of [`PACKED`]. The slots are at most
/// `PACKED * n`, or [`COMPUTED_ELEMENTS`].
fn packed_terms<T: Scheme>(p: &Product<'_, T>, n: usize) -> usize {
    match p.right.operand {
        Operand::Computed { grid: None, .. } => (COMPUTED_ELEMENTS / n.max(1) / PACKED * PACKED).clamp(PACKED, TERMS),
        _ => PACKED,
    }
}

/// Number of columns of a chunk, the unit of work of a thread.
pub fn chunk(n: usize, threads: usize) -> usize {
    let wanted = if threads == 1 { 1 } else { 2 * threads };
    n.div_ceil(wanted).next_multiple_of(64).min(COLUMNS)
}

/// Computes a range of the product's columns.
///
/// # Safety
/// As of [`run`], for these columns.
unsafe fn columns_of<T: Scheme>(p: &Product<'_, T>, columns: Range<usize>) {
    let n = columns.len().next_multiple_of(64) + 64;
    let elements =
        2 * n + TERMS_PER_TILE + (PANELS * TRANSPOSED_TERMS * p.kernels.columns).max(PACKED * n).max(COMPUTED_ELEMENTS);
    scratch::with(scratch::Use::Own, elements * size_of::<T::Slot>(), |memory| {
        let (first, slots) = (memory.cast::<T::Sum>(), memory.cast::<T::Slot>().wrapping_add(2 * n));
        let own = Own::<T> {
            sums: first,
            all: first.wrapping_add(n),
            left: slots,
            packed: slots.wrapping_add(TERMS_PER_TILE),
        };
        // SAFETY: the caller's promise; the memory has space for the sums (all-zero bytes are 0 in every type), the
        // elements of the left factor, and the packed rectangles.
        unsafe {
            match p.right.operand {
                _ if p.k == 0 => own.all.write_bytes(0, columns.len()),
                Operand::Strided(r) if r.term == 1 && r.line != 1 => dots(p, &columns, &own),
                // A body over a few terms of each column would run in short rows.
                Operand::Computed { terms_last: true, grid: None, .. } => dots(p, &columns, &own),
                _ => rows(p, &columns, &own),
            }
            finish(p, columns, own.all);
        }
    });
}

/// Addresses of a thread's scratch buffers.
struct Own<T: Scheme> {
    /// Accumulators of the current block of terms.
    sums: *mut T::Sum,
    /// Accumulators over all blocks of terms so far.
    all: *mut T::Sum,
    /// Packed slots of operand A.
    left: *mut T::Slot,
    /// Packed rectangles of operand B.
    packed: *mut T::Slot,
}

/// Computes columns by streaming rows of the matrix, in place or packed.
///
/// # Safety
/// As for [`columns_of`], whose memory this is.
unsafe fn rows<T: Scheme>(p: &Product<'_, T>, columns: &Range<usize>, own: &Own<T>) {
    for start in (0..p.k).step_by(TERMS) {
        let terms = start..(start + TERMS).min(p.k);
        let (sums, count) = (if start == 0 { own.all } else { own.sums }, terms.len());
        // SAFETY: the caller's promise.
        unsafe {
            p.left.pack(0..1, terms.clone(), Cuts::whole(1, 1), own.left.cast());
            match (p.right.operand, p.right.contiguous_term_stride()) {
                (Operand::Strided(r), Some(_)) => {
                    let first = r.at(columns.start, start).cast();
                    stream(p, (first, r.term), own.left, count, true, sums, columns.len());
                }
                _ => packed_rows(p, columns, &terms, own, sums),
            }
            if start > 0 {
                add::<T::Sum>(own.all, own.sums, columns.len());
            }
        }
    }
}

/// Adds `terms` terms to the accumulators of a block of terms, from rows with contiguous columns. With `first`, the
/// accumulators start from 0.
///
/// # Safety
/// These terms of these columns are readable, and the sums are writable.
unsafe fn stream<T: Scheme>(
    p: &Product<'_, T>,
    (right, step): (*const T::Slot, isize),
    left: *const T::Slot,
    terms: usize,
    first: bool,
    sums: *mut T::Sum,
    columns: usize,
) {
    for term in (0..terms).step_by(MAX_STREAM_TERMS) {
        let mut args = StreamArgs {
            left: left.wrapping_add(term).cast(),
            right: right.wrapping_offset(term as isize * step).cast(),
            right_term: step * size_of::<T::Slot>() as isize,
            sums: sums.cast(),
            columns,
            lanes: ptr::null(),
            bits: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { p.kernels.stream(MAX_STREAM_TERMS.min(terms - term), first && term == 0, &mut args) };
    }
}

/// Adds a block of terms of a matrix that is narrow, computed, or strided in both dimensions.
///
/// # Safety
/// As for [`columns_of`].
unsafe fn packed_rows<T: Scheme>(
    p: &Product<'_, T>,
    columns: &Range<usize>,
    terms: &Range<usize>,
    own: &Own<T>,
    sums: *mut T::Sum,
) {
    let n = columns.len();
    let packed = packed_terms(p, n);
    for start in terms.clone().step_by(packed) {
        let now = start..(start + packed).min(terms.end);
        let count = now.len();
        let left = own.left.wrapping_add(start - terms.start);
        // SAFETY: the caller's promise; one panel holds all columns.
        unsafe {
            p.right.pack(columns.clone(), now, Cuts::whole(n, n), own.packed.cast());
            stream(p, (own.packed, n as isize), left, count, start == terms.start, sums, n);
        }
    }
}

/// Computes columns that are contiguous over their terms: transposes the columns of a tile, a range of terms at a time,
/// and runs the tile kernel. (If the order of sums is free, the module `gemv_dots` computes such products instead.)
///
/// # Safety
/// As for [`columns_of`], whose memory this is.
unsafe fn dots<T: Scheme>(p: &Product<'_, T>, columns: &Range<usize>, own: &Own<T>) {
    let (panel, size) = (p.kernels.columns, size_of::<T::Slot>() as isize);
    let computed = matches!(p.right.operand, Operand::Computed { .. });
    let together = panel * if computed { PANELS } else { 1 };
    for start in (0..p.k).step_by(TERMS_PER_TILE) {
        let terms = start..(start + TERMS_PER_TILE).min(p.k);
        // SAFETY: the caller's promise.
        unsafe { p.left.pack(0..1, terms.clone(), Cuts::whole(1, 1), own.left.cast()) };
        for first in (0..columns.len()).step_by(together) {
            let lines = first..(first + together).min(columns.len());
            for part in terms.clone().step_by(TRANSPOSED_TERMS) {
                let part = part..(part + TRANSPOSED_TERMS).min(terms.end);
                let packed = columns.start + lines.start..columns.start + lines.end;
                // SAFETY: the caller's promise.
                unsafe { p.right.pack(packed, part.clone(), Cuts::whole(lines.len(), panel), own.packed.cast()) };
                for (number, column) in lines.clone().step_by(panel).enumerate() {
                    let width = panel.min(lines.end - column);
                    let sums = own.all.wrapping_add(column);
                    let right = own.packed.wrapping_add(number * part.len() * panel);
                    for block in part.clone().step_by(TERMS) {
                        let mut args = TileArgs {
                            left: own.left.wrapping_add(block - start).cast_const().cast(),
                            left_row: 0,
                            left_term: size,
                            right: right.wrapping_add((block - part.start) * panel).cast_const().cast(),
                            right_term: panel as isize * size,
                            terms: TERMS.min(part.end - block),
                            from: if block == 0 { ptr::null() } else { sums.cast_const().cast() },
                            from_row: 0,
                            to: sums.cast(),
                            to_row: 0,
                            lanes: ptr::null(),
                            bits: 0,
                        };
                        // SAFETY: the caller's promise.
                        unsafe { p.kernels.tile(1, width, true, &mut args) };
                    }
                }
            }
        }
    }
}

/// Adds the sums of a block of terms to the totals of the blocks before it.
///
/// # Safety
/// Both have `count` elements and do not overlap.
unsafe fn add<W: Wide>(all: *mut W, sums: *const W, count: usize) {
    struct Add<'a, W>(&'a mut [W], &'a [W]);
    impl<W: Wide> Job for Add<'_, W> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            for (all, sum) in self.0.iter_mut().zip(self.1) {
                *all = all.plus(*sum);
            }
        }
    }
    // SAFETY: the caller's promise.
    dispatch(unsafe { Add(std::slice::from_raw_parts_mut(all, count), std::slice::from_raw_parts(sums, count)) });
}

/// Stores the sums of some columns, or passes them to the epilogue.
///
/// # Safety
/// As for [`columns_of`].
unsafe fn finish<T: Scheme>(p: &Product<'_, T>, columns: Range<usize>, sums: *mut T::Sum) {
    if T::OFFSET {
        let amends = p.amends(0);
        // SAFETY: the caller's promise: the sums belong to this thread.
        let sums = unsafe { std::slice::from_raw_parts_mut(sums, columns.len()) };
        sums.iter_mut().for_each(|sum| *sum = sum.plus(amends));
    }
    match p.result {
        // SAFETY: the caller's promise.
        Result::Store(to) => unsafe {
            task::store::<T>(sums, to.get().cast::<T::Stored>().wrapping_add(columns.start), columns.len());
        },
        // SAFETY: the sums belong to this thread.
        Result::Tiles { .. } => unsafe { p.row_tile(columns, sums) },
    }
}

/// Computes a product of few columns and many terms: sums of blocks of terms in parallel, then their totals in order.
///
/// # Safety
/// As for [`run`].
unsafe fn few_columns<T: Scheme>(p: &Product<'_, T>, threads: &Threads) {
    let blocks = p.k.div_ceil(TERMS);
    let size = size_of::<T::Sum>();
    scratch::with(scratch::Use::Shared, blocks * p.n * size, |memory| {
        let sums = Shared(memory.cast::<T::Sum>());
        // A chunk has enough blocks to be worth dispatching.
        let grain = (PRIVATE_CACHE / 4 / (TERMS * size)).next_multiple_of(SIDE_BY_SIDE);
        threads.run(blocks.div_ceil(grain), 1, p.ns, |range| {
            for chunk in range {
                for column in 0..p.n {
                    let blocks = chunk * grain..((chunk + 1) * grain).min(blocks);
                    let to = sums.get().wrapping_add(column * p.k.div_ceil(TERMS));
                    // SAFETY: the caller's promise; no two chunks have a block in common.
                    unsafe { sums_of_blocks(p, column, blocks, to) };
                }
            }
        });
        for column in 0..p.n {
            let at = sums.get().wrapping_add(column * blocks);
            // SAFETY: all of these sums were just written.
            unsafe {
                let total = (1..blocks).fold(at.read(), |total, block| total.plus(at.add(block).read()));
                at.write(total);
                finish(p, column..column + 1, at);
            }
        }
    });
}

/// Computes the sums of a range of blocks of terms of one column, and stores one sum per block.
///
/// # Safety
/// As for [`run`]; `to` has space for the sums of all blocks.
unsafe fn sums_of_blocks<T: Scheme>(p: &Product<'_, T>, column: usize, blocks: Range<usize>, to: *mut T::Sum) {
    const BLOCK: usize = SIDE_BY_SIDE * TERMS;
    // Staging follows the packed blocks, with 16 lines or terms of padding.
    let computed = 17 * (BLOCK * T::GROUP + 16) * size_of::<T::Element>();
    let slots = BLOCK * size_of::<T::Slot>();
    scratch::with(scratch::Use::Own, 2 * slots + 2 * computed, |memory| {
        let (left, right) = (memory.cast::<T::Slot>(), memory.cast::<T::Slot>().wrapping_add(BLOCK));
        let staging = memory.wrapping_add(2 * slots);
        for first in blocks.clone().step_by(SIDE_BY_SIDE) {
            let count = SIDE_BY_SIDE.min(blocks.end - first);
            let groups = first * TERMS..((first + count) * TERMS).min(p.k);
            let terms = p.left.terms(&groups);
            let l = p.left.staged(0..1, terms.clone(), staging.cast());
            let r = p.right.staged(column..column + 1, terms.clone(), staging.wrapping_add(computed).cast());
            // SAFETY: the caller's promise; both have these terms, and there is space for the panels.
            unsafe {
                blocks_as_lines::<T::PackedAs>(l, terms.len(), left.cast());
                blocks_as_lines::<T::PackedAs>(r, terms.len(), right.cast());
                if p.right.offset {
                    pack::flip_signs(right, BLOCK);
                }
                chains::<T>(left, right, groups.len(), to.wrapping_add(first));
            }
        }
    });
}

/// Packs blocks of terms of one line side by side, padded with 0 after the last term.
///
/// # Safety
/// These terms are readable, and `to` has space for [`SIDE_BY_SIDE`] blocks.
unsafe fn blocks_as_lines<T: Scheme>(from: Strided<T::Element>, terms: usize, to: *mut T::Slot) {
    let block = TERMS * T::GROUP;
    let lines = Strided { first: from.first, line: from.term * block as isize, term: from.term };
    let (whole, rest) = (terms / block, terms % block);
    let zero = T::Element::narrow(Wide::ZERO);
    // SAFETY: the caller's promise.
    unsafe {
        pack::part::<T>(lines, whole, block, SIDE_BY_SIDE, to);
        for first in (0..rest).step_by(T::GROUP) {
            let term = |term: usize| if first + term < rest { lines.at(whole, first + term).read() } else { zero };
            to.add(first / T::GROUP * SIDE_BY_SIDE + whole).write(T::slot(term));
        }
    }
}

/// Computes the sums of up to [`SIDE_BY_SIDE`] blocks of terms packed side by side, one chain per lane.
///
/// # Safety
/// Both sides have [`SIDE_BY_SIDE`] blocks; `to` has space for the sums of those that have terms.
unsafe fn chains<T: Scheme>(left: *const T::Slot, right: *const T::Slot, terms: usize, to: *mut T::Sum) {
    struct Chains<'a, T: Scheme> {
        left: &'a [[T::Slot; SIDE_BY_SIDE]],
        right: &'a [[T::Slot; SIDE_BY_SIDE]],
        sums: [T::Sum; SIDE_BY_SIDE],
    }
    impl<T: Scheme> Job for Chains<'_, T> {
        type Out = [T::Sum; SIDE_BY_SIDE];
        #[inline(always)]
        fn run(mut self) -> Self::Out {
            for (left, right) in self.left.iter().zip(self.right) {
                for ((sum, x), y) in self.sums.iter_mut().zip(left).zip(right) {
                    *sum = T::dot(*x, *y, *sum);
                }
            }
            self.sums
        }
    }
    // SAFETY: the caller's promise.
    let (left, right) = unsafe {
        let side = |of: *const T::Slot| std::slice::from_raw_parts(of.cast::<[T::Slot; SIDE_BY_SIDE]>(), TERMS);
        (side(left), side(right))
    };
    let mut sums = dispatch(Chains::<T> { left, right, sums: [T::Sum::ZERO; SIDE_BY_SIDE] });
    if let rest @ 1.. = terms % TERMS {
        // The last chain ends with its terms: one more 0·0 would turn a sum of -0 into +0.
        let last = terms / TERMS;
        sums[last] = (0..rest).fold(T::Sum::ZERO, |sum, term| T::dot(left[term][last], right[term][last], sum));
    }
    for (block, sum) in sums.into_iter().enumerate().take(terms.div_ceil(TERMS)) {
        // SAFETY: the caller's promise.
        unsafe { to.add(block).write(sum) };
    }
}
