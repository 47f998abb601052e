//! GEMV by dot products: a few rows times columns with contiguous terms, such as `x @ w.t()` with one row, or `a @ x`
//! with one column.
//!
//! In: such a product, with free order ([`super::Numbers::free`]). Out: its sums. Reading B dominates the time, so it
//! is read in place, once, a few columns at a time from end to end.
//!
//! Always true, for every number of threads and every engine: terms are taken in blocks of [`BLOCK`]. A block has as
//! many lanes as fit 64 bytes; term `p` (of schemes with groups, group `p`) goes to lane `p` modulo their number, and a
//! lane is one chain of fused multiply-adds over ascending terms. Lanes are added in halves (of 16 lanes, `l` and
//! `l + 8`, then `l + 4`, …), and blocks in order. Remaining terms, too few for all lanes, are one chain that is added
//! last. So the error of an f32 sum stays below (BLOCK/16 + k/BLOCK + 20)·u·Σ|x·y|.

use super::microkernels::DOT_ROWS;
use super::pack::{Cuts, Strided};
use super::{Operand, Product, Result, blocked, gemv, portable, scratch};
use crate::gemm_call::{DotArgs, lanes};
use crate::number::{Scheme, Wide};
use crate::simd::{Job, Shared, dispatch};
use crate::threads::Threads;
use std::ops::Range;

/// Number of terms accumulated in lanes before the lanes are added up.
const BLOCK: usize = 4096;
/// Maximum number of columns that a micro-kernel of any engine computes at a time.
const MAX_COLUMNS: usize = 8;

/// Returns operand B if the product is computed by dot products, else `None`.
pub fn lines<T: Scheme>(p: &Product<'_, T>) -> Option<Strided<T::Element>> {
    match p.right.operand {
        Operand::Strided(r) if !p.swapped && takes::<T>(p.free, [p.whole_m, p.right.k], r.term) => Some(r),
        _ => None,
    }
}

/// Whether a product of `m` rows and `k` terms, whose operand B is in memory with stride `step` between terms, is
/// computed by dot products. This needs a free order of sums, which integers always have.
pub fn takes<T: Scheme>(free: bool, [m, k]: [usize; 2], step: isize) -> bool {
    (free || !T::Sum::FLOAT) && m <= DOT_ROWS && step == 1 && k >= lanes::<T::Sum>() * T::GROUP
}

/// Runs a product by dot products.
///
/// # Safety
/// The promises of [`super::Gemm`] hold; `right` is from [`lines`].
pub unsafe fn run<T: Scheme>(p: &Product<'_, T>, right: Strided<T::Element>, threads: &Threads) {
    let chunk = gemv::chunk(p.n, threads.for_work(p.ns));
    threads.run(p.n.div_ceil(chunk), 1, p.ns, |range| {
        for columns in range.map(|c| c * chunk..((c + 1) * chunk).min(p.n)) {
            let (rows, sums) = (p.m * row_stride(p.k), p.m * columns.len());
            scratch::with(scratch::Use::Own, (rows + sums) * size_of::<T::Slot>(), |memory| {
                let room = memory.cast::<T::Slot>();
                // SAFETY: the caller's promise; no two chunks have a column in common.
                unsafe { columns_of(p, right, columns, room, room.wrapping_add(rows).cast()) };
            });
        }
    });
}

/// Computes a range of the product's columns.
///
/// # Safety
/// As for [`run`], for these columns; there is space for the left factor's rows, and for the sums.
unsafe fn columns_of<T: Scheme>(
    p: &Product<'_, T>,
    right: Strided<T::Element>,
    columns: Range<usize>,
    room: *mut T::Slot,
    sums: *mut T::Sum,
) {
    // SAFETY: the caller's promise.
    let (left, lead) = unsafe { rows_of(p, room) };
    let (n, most) = (columns.len(), p.kernels.dot_columns(p.m));
    // Slots that fill all lanes, without a slot that is padded.
    let whole = p.right.k / T::GROUP;
    let whole = whole - whole % lanes::<T::Sum>();
    let bytes = |elements: usize| (elements * size_of::<T::Sum>()) as isize;
    let mut column = 0;
    while column < n {
        let now = if n - column >= most { most } else { 1 };
        let (first, from) = (sums.wrapping_add(column), right.from(columns.start + column, 0));
        for start in (0..whole).step_by(BLOCK) {
            let mut block = [T::Sum::ZERO; DOT_ROWS * MAX_COLUMNS];
            let (to, to_row) = if start == 0 { (first, n) } else { (block.as_mut_ptr(), now) };
            let args = DotArgs {
                left: left.wrapping_add(start).cast(),
                left_row: lead * size_of::<T::Slot>() as isize,
                right: from.at(0, start * T::GROUP).cast(),
                right_column: right.line * size_of::<T::Element>() as isize,
                terms: BLOCK.min(whole - start),
                sums: to.cast(),
                sums_row: bytes(to_row),
            };
            // SAFETY: the caller's promise; both destinations have space for the sums.
            unsafe { p.kernels.dots(p.m, now, &args) };
            if start > 0 {
                for (row, sums) in block.chunks_exact(now).enumerate().take(p.m) {
                    // SAFETY: the sums belong to this thread, and the first block wrote them.
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
        dispatch(Rest::<T> { left, right, slots: whole..p.k, terms: p.right.k, sizes: [p.m, n], sums: Shared(sums) });
    }
    for row in (0..p.m).filter(|_| T::OFFSET) {
        let amends = p.amends(row);
        // SAFETY: the sums belong to this thread.
        let sums = unsafe { std::slice::from_raw_parts_mut(sums.wrapping_add(row * n), n) };
        sums.iter_mut().for_each(|sum| *sum = sum.plus(amends));
    }
    match p.result {
        Result::Store(to) => {
            for row in 0..p.m {
                let to = to.get().cast::<T::Stored>().wrapping_add(row * p.n + columns.start);
                // SAFETY: the caller's promise.
                unsafe { blocked::store::<T>(sums.wrapping_add(row * n), to, n) };
            }
        }
        // SAFETY: the sums belong to this thread.
        Result::Tiles { .. } => unsafe { p.result.tile::<T>(0..p.m, columns, sums, n) },
    }
}

/// Returns the address of A's rows as slots, in place or packed into `room`, and the stride between rows in slots.
///
/// # Safety
/// The promises of [`super::Gemm`] hold; there is space for the rows, [`row_stride`] each.
unsafe fn rows_of<T: Scheme>(p: &Product<'_, T>, room: *mut T::Slot) -> (*const T::Slot, isize) {
    match (p.left.operand, p.left.contiguous_line_stride()) {
        (Operand::Strided(l), Some(_)) if T::GROUP == 1 => (l.at(0, 0).cast(), l.line),
        _ => {
            let lead = row_stride(p.k);
            for row in 0..p.m {
                // SAFETY: the caller's promise.
                unsafe { p.left.pack(row..row + 1, 0..p.k, Cuts::whole(1, 1), room.wrapping_add(row * lead)) };
            }
            (room, lead as isize)
        }
    }
}

/// Stride in slots between packed rows of A: each row begins at a cache line.
fn row_stride(k: usize) -> usize {
    k.next_multiple_of(64)
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
