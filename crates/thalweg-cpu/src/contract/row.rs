//! Products with one row: a vector that meets a matrix. They are bound by reading the matrix, so it is read in the order
//! in which it lies, once, by everybody's own columns.
//!
//! Rows of the matrix are streamed, a few terms at a time, into sums in the first-level cache; where its columns lie one
//! behind the other, or it is narrow or computed, small rectangles are packed first. Where there are too few columns to
//! fill a vector, blocks of terms are taken side by side instead: their sums do not depend on each other.

use super::kernel::{STREAMED, StreamArgs, TileArgs};
use super::pack::{Cuts, Strided};
use super::{Operand, Product, Result, TERMS, blocks, own_width, scratch};
use crate::memory::PRIVATE;
use crate::number::{Number, Wide};
use crate::simd::{Job, Shared, dispatch};
use crate::threads::Threads;
use std::ops::Range;
use std::ptr;

/// Columns whose sums a thread carries at a time. Longer stretches of the matrix's rows are read faster: 4,096 columns
/// of f32 measured 15 % faster than 2,048, though their sums and those of earlier blocks fill a first-level cache.
const COLUMNS: usize = 4096;
/// Below this many columns blocks of terms are taken side by side.
const FEW: usize = 4;
/// So many blocks.
const SIDE_BY_SIDE: usize = 8;
/// Terms that are packed at a time of a matrix whose rows are streamed.
const PACKED: usize = 8;

/// Runs a product with one row.
///
/// # Safety
/// What [`super::Contraction`] asks of its maker holds.
pub unsafe fn run<T: Number>(p: &Product<'_, T>, threads: &Threads) {
    if p.n < FEW && p.k > TERMS {
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

/// Columns that a thread takes at a time.
pub fn chunk(n: usize, threads: usize) -> usize {
    let wanted = if threads == 1 { 1 } else { 2 * threads };
    n.div_ceil(wanted).next_multiple_of(64).min(COLUMNS)
}

/// # Safety
/// As of [`run`], for these columns.
unsafe fn columns_of<T: Number>(p: &Product<'_, T>, columns: Range<usize>) {
    let n = columns.len().next_multiple_of(64) + 64;
    let panel = p.kernels.columns.max(PACKED);
    let elements = 2 * n + TERMS + TERMS.max(n) * panel;
    scratch::with(scratch::Use::Own, elements * size_of::<T::Wide>(), |memory| {
        let first = memory.cast::<T::Wide>();
        let (sums, all) = (first, first.wrapping_add(n));
        let (left, packed) = (all.wrapping_add(n), all.wrapping_add(n + TERMS));
        if p.k == 0 {
            // SAFETY: the memory has room for the sums; zero is 0 in every type.
            unsafe { all.write_bytes(0, columns.len()) };
        }
        for start in (0..p.k).step_by(TERMS) {
            let terms = start..(start + TERMS).min(p.k);
            let to = if start == 0 { all } else { sums };
            // SAFETY: the caller's promise; the memory has room for what is packed.
            unsafe {
                p.left.pack(0..1, terms.clone(), Cuts::whole(1, 1), left);
                match p.right {
                    Operand::Strided(r) if r.line == 1 && own_width::<T>() => {
                        stream(
                            p,
                            r.from(columns.start, start).first.get().cast(),
                            r.term,
                            left,
                            terms.len(),
                            true,
                            to,
                            columns.len(),
                        );
                    }
                    Operand::Strided(r) if r.term == 1 && r.line != 1 => {
                        dots(p, r.from(columns.start, start), left, terms.len(), packed, to, columns.len());
                    }
                    _ => packed_rows(p, &columns, &terms, left, packed, to),
                }
                if start > 0 {
                    add::<T::Wide>(all, sums, columns.len());
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { finish(p, columns.clone(), all) };
    });
}

/// Adds terms into the sums of a block, reading rows that lie side by side.
///
/// # Safety
/// So many terms of so many columns are readable, and so many sums writable.
#[allow(clippy::too_many_arguments, reason = "a matrix, a vector and sums, with their sizes")]
unsafe fn stream<T: Number>(
    p: &Product<'_, T>,
    right: *const T::Wide,
    step: isize,
    left: *const T::Wide,
    terms: usize,
    first: bool,
    sums: *mut T::Wide,
    columns: usize,
) {
    for term in (0..terms).step_by(STREAMED) {
        let mut args = StreamArgs {
            left: left.wrapping_add(term).cast(),
            right: right.wrapping_offset(term as isize * step).cast(),
            right_term: step * size_of::<T::Wide>() as isize,
            sums: sums.cast(),
            columns,
            lanes: ptr::null(),
            bits: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { p.kernels.stream(STREAMED.min(terms - term), first && term == 0, &mut args) };
    }
}

/// A block of terms of a matrix that is narrow, computed or lies in any other way.
///
/// # Safety
/// As of [`columns_of`].
unsafe fn packed_rows<T: Number>(
    p: &Product<'_, T>,
    columns: &Range<usize>,
    terms: &Range<usize>,
    left: *const T::Wide,
    packed: *mut T::Wide,
    sums: *mut T::Wide,
) {
    let n = columns.len();
    for start in terms.clone().step_by(PACKED) {
        let now = start..(start + PACKED).min(terms.end);
        let count = now.len();
        let left = left.wrapping_add(start - terms.start);
        // SAFETY: the caller's promise; one panel holds all columns.
        unsafe {
            p.right.pack(columns.clone(), now, Cuts::whole(n, n), packed);
            stream(p, packed, n as isize, left, count, start == terms.start, sums, n);
        }
    }
}

/// A block of terms of a matrix whose columns lie one behind the other: a tile's columns are turned and then added up.
///
/// # Safety
/// As of [`columns_of`].
unsafe fn dots<T: Number>(
    p: &Product<'_, T>,
    right: Strided<T>,
    left: *const T::Wide,
    terms: usize,
    packed: *mut T::Wide,
    sums: *mut T::Wide,
    columns: usize,
) {
    let (panel, size) = (p.kernels.columns, size_of::<T::Wide>() as isize);
    for column in (0..columns).step_by(panel) {
        let width = panel.min(columns - column);
        let mut args = TileArgs {
            left: left.cast(),
            left_row: 0,
            left_term: size,
            right: packed.cast_const().cast(),
            right_term: panel as isize * size,
            terms,
            from: ptr::null(),
            from_row: 0,
            to: sums.wrapping_add(column).cast(),
            to_row: 0,
            lanes: ptr::null(),
            bits: 0,
        };
        // SAFETY: the caller's promise.
        unsafe {
            super::pack::part(right.from(column, 0), width, terms, panel, packed);
            p.kernels.tile(1, width, true, &mut args);
        }
    }
}

/// Adds the sums of a block to those of the blocks before.
///
/// # Safety
/// Both have so many elements and lie apart.
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

/// What becomes of the sums of some columns.
///
/// # Safety
/// As of [`columns_of`].
unsafe fn finish<T: Number>(p: &Product<'_, T>, columns: Range<usize>, sums: *const T::Wide) {
    match p.result {
        // SAFETY: the caller's promise.
        Result::Store(to) => unsafe {
            blocks::narrow(sums, to.get().cast::<T>().wrapping_add(columns.start), columns.len());
        },
        Result::Tiles { .. } => {
            let lead = columns.len();
            p.result.tile(0..1, columns, sums.cast(), lead);
        }
    }
}

/// A product of few columns and many terms.
///
/// # Safety
/// As of [`run`].
unsafe fn few_columns<T: Number>(p: &Product<'_, T>, threads: &Threads) {
    let blocks = p.k.div_ceil(TERMS);
    let size = size_of::<T::Wide>();
    scratch::with(scratch::Use::Shared, blocks * p.n * size, |memory| {
        let sums = Shared(memory.cast::<T::Wide>());
        // Enough blocks that what they read is worth a chunk.
        let grain = (PRIVATE / 4 / (TERMS * size)).next_multiple_of(SIDE_BY_SIDE);
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
            // SAFETY: all of these sums have just been written.
            unsafe {
                let total = (1..blocks).fold(at.read(), |total, block| total.plus(at.add(block).read()));
                at.write(total);
                finish(p, column..column + 1, at);
            }
        }
    });
}

/// The sums of some blocks of terms of one column.
///
/// # Safety
/// As of [`run`]; `to` has room for the sums of all blocks.
unsafe fn sums_of_blocks<T: Number>(p: &Product<'_, T>, column: usize, blocks: Range<usize>, to: *mut T::Wide) {
    const BLOCK: usize = SIDE_BY_SIDE * TERMS;
    let room = 2 * (BLOCK + 32) * size_of::<T>();
    for first in blocks.clone().step_by(SIDE_BY_SIDE) {
        let count = SIDE_BY_SIDE.min(blocks.end - first);
        let terms = first * TERMS..((first + count) * TERMS).min(p.k);
        let length = terms.len();
        scratch::with(scratch::Use::Staging, 17 * room, |staging| {
            let second = staging.cast::<T>().wrapping_add(17 * (BLOCK + 16));
            let left = p.left.staged(0..1, terms.clone(), staging.cast());
            let right = p.right.staged(column..column + 1, terms, second);
            // SAFETY: the caller's promise; both have so many terms.
            unsafe { chains::<T>(left, right, length, to.wrapping_add(first)) };
        });
    }
}

/// The sums of up to [`SIDE_BY_SIDE`] blocks of one column, a chain for each.
///
/// # Safety
/// Both factors have so many terms of their first line; there is room for the sums.
unsafe fn chains<T: Number>(left: Strided<T>, right: Strided<T>, terms: usize, to: *mut T::Wide) {
    struct Chains<T: Number> {
        left: Strided<T>,
        right: Strided<T>,
        terms: usize,
        to: Shared<T::Wide>,
    }
    impl<T: Number> Job for Chains<T> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            let blocks = self.terms.div_ceil(TERMS);
            // SAFETY: the promise of `chains`: only its terms are asked for.
            let product = |term: usize, sum: T::Wide| unsafe {
                let (x, y) = (self.left.at(0, term).read().widen(), self.right.at(0, term).read().widen());
                x.times_plus(y, sum)
            };
            let mut sums = [T::Wide::ZERO; SIDE_BY_SIDE];
            if self.terms == SIDE_BY_SIDE * TERMS {
                for term in 0..TERMS {
                    for (block, sum) in sums.iter_mut().enumerate() {
                        *sum = product(block * TERMS + term, *sum);
                    }
                }
            } else {
                for (block, sum) in sums.iter_mut().enumerate().take(blocks) {
                    for term in block * TERMS..((block + 1) * TERMS).min(self.terms) {
                        *sum = product(term, *sum);
                    }
                }
            }
            for (block, &sum) in sums.iter().enumerate().take(blocks) {
                // SAFETY: as above.
                unsafe { self.to.get().add(block).write(sum) };
            }
        }
    }
    dispatch(Chains { left, right, terms, to: Shared(to) });
}
