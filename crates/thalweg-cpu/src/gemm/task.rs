//! Definitions shared by all tasks of a blocked GEMM, whichever micro-kernels they run: blocks of terms, scratch memory,
//! panels of B.
//!
//! In: a product and its block sizes. Out: ranges of terms, addresses of panels, stored sums.

use super::blocking::{Blocking, Right};
use super::{Operand, Product, TERMS, padded};
use crate::number::Scheme;
use crate::simd::{Job, Shared, dispatch};
use std::ops::Range;

/// Maximum number of groups beyond [`TERMS`] of the last block of terms: another block, which reads and writes all sums,
/// takes longer.
pub const SLACK: usize = 64;

/// Number of blocks of the K dimension. Where blocks do not decide the order of sums ([`Scheme::STEP`]), the last one
/// also takes up to [`SLACK`] groups too many.
pub fn blocks(k: usize, step: usize) -> usize {
    let slack = if step > 1 { SLACK } else { 0 };
    k.saturating_sub(slack).div_ceil(TERMS).max((k > 0) as usize)
}

/// Range of terms in block `number` of the K dimension.
pub fn block(k: usize, step: usize, number: usize) -> Range<usize> {
    let end = if number + 1 == blocks(k, step) { k } else { (number + 1) * TERMS };
    number * TERMS..end
}

/// Maximum number of terms of a block.
pub fn longest(k: usize, step: usize) -> usize {
    k.min(if step > 1 { TERMS + SLACK } else { TERMS })
}

/// Panels of B that are packed for all tasks: the range of columns that they contain, their number of terms, and their
/// address.
pub struct Panels<W> {
    pub of: Range<usize>,
    pub k: usize,
    pub first: Shared<W>,
}

/// Scratch memory of a task: packed rows of A, packed columns of B, accumulators.
pub struct Own<T: Scheme> {
    pub left: *mut T::Slot,
    pub right: *mut T::Slot,
    pub sums: *mut T::Sum,
    /// Stride in elements between rows of the accumulators.
    pub lead: usize,
}

/// One task of a blocked GEMM: some rows of a product, and what all its blocks of columns and terms share.
pub struct Task<'a, T: Scheme> {
    pub product: &'a Product<'a, T>,
    pub blocking: &'a Blocking,
    pub shared: &'a Panels<T::Slot>,
    pub own: Own<T>,
    pub rows: Range<usize>,
}

/// Block of terms of some columns of a task, whose products are added to the sums of its rows.
pub struct TermBlock {
    pub columns: Range<usize>,
    pub terms: Range<usize>,
    /// Whether the rows of A are not packed yet for these terms.
    pub fresh: bool,
}

impl<T: Scheme> Task<'_, T> {
    /// Address of the panel of B that begins `column` columns into a part, in place or packed, and the bytes between its
    /// terms.
    pub fn panel(&self, part: &TermBlock, column: usize) -> (*const u8, isize) {
        let (p, shared, terms) = (self.product, self.shared, &part.terms);
        let (size, width) = (size_of::<T::Slot>() as isize, p.kernels.columns);
        let whole = part.columns.start + column;
        match (self.blocking.right, p.right.operand) {
            (Right::Direct, Operand::Strided(r)) => (r.at(whole, terms.start).cast(), r.term * size),
            (Right::Shared(_), _) => {
                // The last block of packed terms may have more terms than the product.
                let packed = padded::<T>(block(shared.k, T::STEP, terms.start / TERMS).len());
                let at = terms.start * shared.of.len().next_multiple_of(width) + (whole - shared.of.start) * packed;
                (shared.first.get().wrapping_add(at).cast_const().cast(), width as isize * size)
            }
            _ => {
                let packed = self.own.right.wrapping_add(column * padded::<T>(terms.len()));
                (packed.cast_const().cast(), width as isize * size)
            }
        }
    }
}

/// Converts `count` accumulators to the result's element type, and stores them.
///
/// # Safety
/// `count` elements are readable at `from` and writable at `to`, and the two do not overlap.
pub unsafe fn store<T: Scheme>(from: *const T::Sum, to: *mut T::Stored, count: usize) {
    struct Store<'a, T: Scheme>(&'a [T::Sum], &'a mut [std::mem::MaybeUninit<T::Stored>]);
    impl<T: Scheme> Job for Store<'_, T> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            for (from, to) in self.0.iter().zip(self.1) {
                to.write(T::store(*from));
            }
        }
    }
    // SAFETY: the caller's promise.
    let (from, to) =
        unsafe { (std::slice::from_raw_parts(from, count), std::slice::from_raw_parts_mut(to.cast(), count)) };
    dispatch(Store::<T>(from, to));
}
