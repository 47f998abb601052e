//! Products of a few rows with columns whose terms are neighbours: `x @ w.t()` with one row, `a @ x` with a column.
//!
//! In: such a product, whose order is free ([`super::Contraction::free`]). Out: its sums. They are bound by reading the
//! right factor, so it is read where it lies, once, a few columns at a time from end to end. Always true, for every number of
//! threads and every engine: terms are taken in blocks of [`BLOCK`]; in a block there are as many lanes as 64 bytes
//! hold, term `p` meets lane `p` modulo their number, and a lane is one chain of fused multiply-adds over ascending
//! terms; lanes are added in halves (of 16 `l` and `l + 8`, then `l + 4`, …) and blocks in order. What is left, terms
//! too few for all lanes, is one chain that is added last. So the error of an f32 stays below
//! (BLOCK/16 + k/BLOCK + 20)·u·Σ|x·y|.

use super::kernel::DOT_ROWS;
use super::pack::{Cuts, Strided};
use super::{Operand, Product, Result, blocks, own_width, row, scratch};
use crate::number::{Number, Wide};
use crate::product_call::{DotArgs, lanes};
use crate::simd::{Job, Shared, dispatch};
use crate::threads::Threads;
use std::ops::Range;

/// Terms whose lanes are carried before they are added up.
const BLOCK: usize = 4096;
/// The most columns at a time, of any engine.
const MOST: usize = 8;

/// The right factor of a product that is run so.
pub fn lines<T: Number>(p: &Product<'_, T>) -> Option<Strided<T>> {
    match p.right {
        Operand::Strided(r) if takes::<T>(p.free, [p.m, p.k], r.term) => Some(r),
        _ => None,
    }
}

/// Whether a product of so many rows and terms, whose right factor lies in memory with such a step from term to term,
/// is run so where its order is free (integers have none that can be seen).
pub fn takes<T: Number>(free: bool, [m, k]: [usize; 2], step: isize) -> bool {
    (free || !T::Wide::FLOAT) && m <= DOT_ROWS && step == 1 && k >= lanes::<T::Wide>()
}

/// Runs a product.
///
/// # Safety
/// What [`super::Contraction`] asks of its maker holds; `right` is from [`lines`].
pub unsafe fn run<T: Number>(p: &Product<'_, T>, right: Strided<T>, threads: &Threads) {
    let chunk = row::chunk(p.n, threads.for_work(p.ns));
    threads.run(p.n.div_ceil(chunk), 1, p.ns, |range| {
        for columns in range.map(|c| c * chunk..((c + 1) * chunk).min(p.n)) {
            let (rows, sums) = (p.m * row_room(p.k), p.m * columns.len());
            scratch::with(scratch::Use::Own, (rows + sums) * size_of::<T::Wide>(), |memory| {
                let room = memory.cast::<T::Wide>();
                // SAFETY: the caller's promise; no two chunks have a column in common.
                unsafe { columns_of(p, right, columns, room, room.wrapping_add(rows)) };
            });
        }
    });
}

/// # Safety
/// As of [`run`], for these columns; there is room for the left factor's rows, and for the sums.
unsafe fn columns_of<T: Number>(
    p: &Product<'_, T>,
    right: Strided<T>,
    columns: Range<usize>,
    room: *mut T::Wide,
    sums: *mut T::Wide,
) {
    // SAFETY: the caller's promise.
    let (left, lead) = unsafe { rows_of(p, room) };
    let (n, most) = (columns.len(), p.kernels.dot_columns(p.m));
    let whole = p.k - p.k % lanes::<T::Wide>();
    let bytes = |elements: usize| (elements * size_of::<T::Wide>()) as isize;
    let mut column = 0;
    while column < n {
        let now = if n - column >= most { most } else { 1 };
        let (first, from) = (sums.wrapping_add(column), right.from(columns.start + column, 0));
        for start in (0..whole).step_by(BLOCK) {
            let mut block = [T::Wide::ZERO; DOT_ROWS * MOST];
            let (to, to_row) = if start == 0 { (first, n) } else { (block.as_mut_ptr(), now) };
            let args = DotArgs {
                left: left.wrapping_add(start).cast(),
                left_row: lead * size_of::<T::Wide>() as isize,
                right: from.at(0, start).cast(),
                right_column: right.line * size_of::<T>() as isize,
                terms: BLOCK.min(whole - start),
                sums: to.cast(),
                sums_row: bytes(to_row),
            };
            // SAFETY: the caller's promise; there is room for so many sums in both places.
            unsafe { p.kernels.dots::<T>(p.m, now, &args) };
            if start > 0 {
                for (row, sums) in block.chunks_exact(now).enumerate().take(p.m) {
                    // SAFETY: the sums are this thread's, and the first block wrote them.
                    let before = unsafe { std::slice::from_raw_parts_mut(first.wrapping_add(row * n), now) };
                    before.iter_mut().zip(sums).for_each(|(before, sum)| *before = before.plus(*sum));
                }
            }
        }
        column += now;
    }
    if whole < p.k {
        let left = Strided { first: Shared(left.cast_mut()), line: lead, term: 1 };
        let right = right.from(columns.start, 0);
        dispatch(Rest { left, right, terms: whole..p.k, sizes: [p.m, n], sums: Shared(sums) });
    }
    match p.result {
        Result::Store(to) => {
            for row in 0..p.m {
                let to = to.get().cast::<T>().wrapping_add(row * p.n + columns.start);
                // SAFETY: the caller's promise.
                unsafe { blocks::narrow(sums.wrapping_add(row * n), to, n) };
            }
        }
        Result::Tiles { .. } => p.result.tile(0..p.m, columns, sums.cast_const().cast(), n),
    }
}

/// The left factor's rows, as wide as sums, and elements from row to row: where they lie, or widened into `room`.
///
/// # Safety
/// What [`super::Contraction`] asks of its maker holds; there is room for the rows, [`row_room`] each.
unsafe fn rows_of<T: Number>(p: &Product<'_, T>, room: *mut T::Wide) -> (*const T::Wide, isize) {
    match p.left {
        Operand::Strided(l) if l.term == 1 && own_width::<T>() => (l.at(0, 0).cast(), l.line),
        _ => {
            let lead = row_room(p.k);
            for row in 0..p.m {
                // SAFETY: the caller's promise.
                unsafe { p.left.pack(row..row + 1, 0..p.k, Cuts::whole(1, 1), room.wrapping_add(row * lead)) };
            }
            (room, lead as isize)
        }
    }
}

/// Elements from row to row of what is widened: rows begin a line of cache each.
fn row_room(k: usize) -> usize {
    k.next_multiple_of(64)
}

/// Terms that are too few for all lanes.
struct Rest<T: Number> {
    left: Strided<T::Wide>,
    right: Strided<T>,
    terms: Range<usize>,
    /// Rows and columns.
    sizes: [usize; 2],
    /// Row-major.
    sums: Shared<T::Wide>,
}

impl<T: Number> Job for Rest<T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let [rows, columns] = self.sizes;
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let sum = self.terms.clone().fold(T::Wide::ZERO, |sum, term| {
                // SAFETY: the terms are inside both factors.
                let (x, y) = unsafe { (self.left.at(row, term).read(), self.right.at(column, term).read()) };
                x.times_plus(y.widen(), sum)
            });
            let to = self.sums.get().wrapping_add(row * columns + column);
            // SAFETY: the sums are this thread's, and hold those of the other terms.
            unsafe { to.write(to.read().plus(sum)) };
        }
    }
}
