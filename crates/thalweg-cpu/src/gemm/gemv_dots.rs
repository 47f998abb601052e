//! Products by dot products: a few rows times columns with contiguous terms, such as `x @ w.t()` with a row for each of
//! a few tokens, or `w @ x` with a few columns, whose factors are swapped.
//!
//! In: such a product, with free order ([`super::Numbers::free`]). Out: its sums. Reading B dominates the time, so it
//! is read in place, a few columns at a time from end to end; from the second group of rows on, they are in a near
//! cache. Packing it would take longer than multiplying it with so few rows.
//!
//! Always true, for every number of threads and every engine: terms are taken in blocks of [`BLOCK`]. A block has as
//! many lanes as fit 64 bytes; term `p` (of schemes with groups, group `p`) goes to lane `p` modulo their number, and a
//! lane is one chain of fused multiply-adds over ascending terms. Lanes are added in halves (of 16 lanes, `l` and
//! `l + 8`, then `l + 4`, …), and blocks in order. Remaining terms, too few for all lanes, are one chain that is added
//! last. So the error of an f32 sum stays below (BLOCK/16 + k/BLOCK + 20)·u·Σ|x·y|.

use super::microkernels::{DOT_ROWS, MAX_DOT_COLUMNS};
use super::pack::Strided;
use super::{Operand, Product, Result, gemv, pack, portable, scratch, task};
use crate::gemm_call::{DotArgs, lanes};
use crate::number::{Scheme, SchemeConstants, Wide};
use crate::simd::{Job, Shared, dispatch};
use crate::threads::Threads;
use std::ops::Range;

/// Number of terms accumulated in lanes before the lanes are added up.
const BLOCK: usize = 4096;
/// Maximum number of rows of a product. With more, packing B is faster, as sums need not be added up over lanes.
const MAX_ROWS: usize = 32;
/// Minimum number of terms per row of a product with more rows than a micro-kernel takes: adding up the lanes of a sum
/// takes as long as some hundred terms.
const TERMS_PER_ROW: usize = 16;

/// Returns operand B if the product is computed by dot products, else `None`.
pub fn lines<T: Scheme>(p: &Product<'_, T>) -> Option<Strided<T::Element>> {
    match p.right.operand {
        Operand::Strided(r)
            if !p.swapped && !p.holds_right && takes(&T::CONSTANTS, p.free, [p.whole_m, p.right.k], r.term) =>
        {
            Some(r.cast())
        }
        _ => None,
    }
}

/// Whether a product of `m` rows and `k` terms, whose operand B is in memory with stride `step` between terms, is
/// computed by dot products. This needs a free order of sums, which integers always have.
pub fn takes(of: &SchemeConstants, free: bool, [m, k]: [usize; 2], step: isize) -> bool {
    // Tile registers are as fast with few rows as with sixteen.
    let several = of.step == 1 && m <= MAX_ROWS && k.div_ceil(of.group) >= TERMS_PER_ROW * m;
    let few = m <= DOT_ROWS || several;
    (free || !of.is_float) && few && step == 1 && k >= of.lanes() * of.group
}

/// Runs a product by dot products.
///
/// # Safety
/// The promises of [`super::Gemm`] hold; `right` is from [`lines`].
pub unsafe fn run<T: Scheme>(p: &Product<'_, T>, right: Strided<T::Element>, threads: &Threads) {
    let chunk = gemv::chunk(p.n, threads.for_work(p.ns));
    scratch::with(scratch::Use::Shared, p.m * p.k * size_of::<T::Slot>(), |memory| {
        // SAFETY: the caller's promise; there is space for all rows.
        let left = unsafe { rows_of(p, memory.cast()) };
        threads.run(p.n.div_ceil(chunk), 1, p.ns, |range| {
            for columns in range.map(|c| c * chunk..((c + 1) * chunk).min(p.n)) {
                // The sums, and space to transpose them.
                let sums = 2 * p.m * columns.len();
                scratch::with(scratch::Use::Own, sums * size_of::<T::Sum>(), |memory| {
                    // SAFETY: the caller's promise; no two chunks have a column in common.
                    unsafe { columns_of(p, left, right, columns, memory.cast()) };
                });
            }
        });
    });
}

/// Computes a range of the product's columns.
///
/// # Safety
/// As for [`run`], for these columns; `left` is from [`rows_of`], and there is space for the sums twice.
unsafe fn columns_of<T: Scheme>(
    p: &Product<'_, T>,
    left: Strided<T::Slot>,
    right: Strided<T::Element>,
    columns: Range<usize>,
    sums: *mut T::Sum,
) {
    let (n, most) = (columns.len(), p.kernels.dot_columns(p.m.min(DOT_ROWS)));
    // Slots that fill all lanes, without a slot that is padded.
    let whole = p.right.k / T::GROUP;
    let whole = whole - whole % lanes::<T::Sum>();
    let bytes = |elements: usize| (elements * size_of::<T::Sum>()) as isize;
    let mut column = 0;
    while column < n {
        let now = most.min(n - column);
        let (first, from) = (sums.wrapping_add(column), right.from(columns.start + column, 0));
        for (start, rows) in (0..whole).step_by(BLOCK).flat_map(|start| groups(p.m).map(move |rows| (start, rows))) {
            let mut block = [T::Sum::ZERO; DOT_ROWS * MAX_DOT_COLUMNS];
            let first = first.wrapping_add(rows.start * n);
            let (to, to_row) = if start == 0 { (first, n) } else { (block.as_mut_ptr(), now) };
            let args = DotArgs {
                left: left.at(rows.start, start).cast(),
                left_row: left.line * size_of::<T::Slot>() as isize,
                right: from.at(0, start * T::GROUP).cast(),
                right_column: right.line * size_of::<T::Element>() as isize,
                terms: BLOCK.min(whole - start),
                sums: to.cast(),
                sums_row: bytes(to_row),
            };
            // SAFETY: the caller's promise; both destinations have space for the sums.
            unsafe { p.kernels.dots(rows.len(), now, &args) };
            if start > 0 {
                for (row, sums) in block.chunks_exact(now).enumerate().take(rows.len()) {
                    // SAFETY: the sums belong to this thread, and the first block wrote them.
                    let before = unsafe { std::slice::from_raw_parts_mut(first.wrapping_add(row * n), now) };
                    before.iter_mut().zip(sums).for_each(|(before, sum)| *before = before.plus(*sum));
                }
            }
        }
        column += now;
    }
    if whole < p.k {
        let right = right.from(columns.start, 0);
        dispatch(Rest::<T> { left, right, slots: whole..p.k, terms: p.right.k, sizes: [p.m, n], sums: Shared(sums) });
    }
    for row in (0..p.m).filter(|_| T::OFFSET) {
        let amends = p.amends(row);
        // SAFETY: the sums belong to this thread.
        let sums = unsafe { std::slice::from_raw_parts_mut(sums.wrapping_add(row * n), n) };
        sums.iter_mut().for_each(|sum| *sum = sum.plus(amends));
    }
    if p.turned && p.m > 1 {
        let turned = sums.wrapping_add(p.m * n);
        // SAFETY: the caller's promise: there is space for the sums twice.
        unsafe { pack::transpose(sums.cast_const(), n, [p.m, n], p.m, turned) };
        // Columns of the swapped product are rows of c, which lie one after the other.
        match p.result {
            Result::Store(to) => {
                let to = to.get().cast::<T::Stored>().wrapping_add(columns.start * p.m);
                // SAFETY: the caller's promise.
                unsafe { task::store::<T>(turned, to, n * p.m) };
            }
            // SAFETY: the sums belong to this thread.
            Result::Tiles { .. } => unsafe { p.result.tile::<T>(columns, 0..p.m, turned, p.m) },
        }
        return;
    }
    match p.result {
        // SAFETY: the sums belong to this thread.
        Result::Tiles { .. } if p.m == 1 => unsafe { p.row_tile(columns, sums) },
        Result::Store(to) => {
            for row in 0..p.m {
                let to = to.get().cast::<T::Stored>().wrapping_add(row * p.n + columns.start);
                // SAFETY: the caller's promise.
                unsafe { task::store::<T>(sums.wrapping_add(row * n), to, n) };
            }
        }
        // SAFETY: the sums belong to this thread.
        Result::Tiles { .. } => unsafe { p.result.tile::<T>(0..p.m, columns, sums, n) },
    }
}

/// Ranges of rows that micro-kernels multiply at a time, of nearly equal length.
fn groups(rows: usize) -> impl Iterator<Item = Range<usize>> {
    let count = rows.div_ceil(DOT_ROWS);
    (0..count).map(move |n| rows * n / count..rows * (n + 1) / count)
}

/// Returns A's rows as slots with contiguous terms, in place or packed into `room`.
///
/// # Safety
/// The promises of [`super::Gemm`] hold; there is space for the rows.
unsafe fn rows_of<T: Scheme>(p: &Product<'_, T>, room: *mut T::Slot) -> Strided<T::Slot> {
    match (p.left.operand, p.left.contiguous_line_stride()) {
        (Operand::Strided(l), Some(_)) if T::GROUP == 1 => {
            Strided { first: Shared(l.at(0, 0).cast_mut().cast()), line: l.line, term: 1 }
        }
        _ => {
            // SAFETY: the caller's promise.
            unsafe { p.left.pack_lines(p.m, room.cast()) };
            Strided { first: Shared(room), line: p.k as isize, term: 1 }
        }
    }
}

/// Loop over the remaining slots of each line, too few for all lanes; the last slot may be padded with zero terms.
struct Rest<T: Scheme> {
    left: Strided<T::Slot>,
    right: Strided<T::Element>,
    slots: Range<usize>,
    terms: usize,
    /// Number of rows, and of columns, of the sums.
    sizes: [usize; 2],
    /// Address of the sums, row-major; the products of the remaining slots are added to them.
    sums: Shared<T::Sum>,
}

impl<T: Scheme> Job for Rest<T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let [rows, columns] = self.sizes;
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            // SAFETY: the terms are inside the factor, contiguous.
            let line = unsafe { std::slice::from_raw_parts(self.right.at(column, 0), self.terms) };
            let sum = self.slots.clone().fold(T::Sum::ZERO, |sum, slot| {
                // SAFETY: the slots are inside both factors.
                let x = unsafe { self.left.at(row, slot).read() };
                T::dot(x, portable::lying::<T>(line, slot), sum)
            });
            let to = self.sums.get().wrapping_add(row * columns + column);
            // SAFETY: the sums belong to this thread, and hold those of the other terms.
            unsafe { to.write(to.read().plus(sum)) };
        }
    }
}
