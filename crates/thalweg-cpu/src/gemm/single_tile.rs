//! Batches of products of one tile each, such as 8×8 matrices: one call of a micro-kernel a product.
//!
//! In: a batch whose products fit a tile, with both factors in memory as the micro-kernel reads them. Out: the stored
//! sums. What a blocked product sets up - block sizes, scratch memory, tasks - takes ten times as long as such a tile.
//! The bits are those of a blocked product, which runs the same micro-kernel over one block of terms.

use super::pack::Strided;
use super::{Finish, Gemm, Operand, Product, TERMS, gemv_dots, operand};
use crate::gemm_call::TileArgs;
use crate::number::Scheme;
use std::any::TypeId;
use std::ptr;

/// Batch of products of one tile each.
pub struct SingleTiles<'a, T: Scheme> {
    of: &'a Gemm<'a>,
    /// First product, with its micro-kernels.
    first: Product<'a, T>,
    to: *mut u8,
}

// SAFETY: as of a `Gemm`: each result is written by one thread.
unsafe impl<T: Scheme> Sync for SingleTiles<'_, T> {}

impl<'a, T: Scheme> SingleTiles<'a, T> {
    /// The batch; `None` if its products are run in another way. `first` is the first of them.
    pub fn new(of: &'a Gemm<'a>, first: Product<'a, T>) -> Option<SingleTiles<'a, T>> {
        let Finish::Store(to) = of.finish else { return None };
        let whole = T::STEP == 1 && T::GROUP == 1 && !T::OFFSET && T::CONSTANTS.stored_as_carried();
        let own = TypeId::of::<T::Element>() == TypeId::of::<T::Slot>();
        let fits = (2..=first.kernels.rows).contains(&of.m) && (2..=first.kernels.columns).contains(&of.n);
        let in_order = !first.turned && !first.swapped && gemv_dots::lines(&first).is_none() && !first.is_row();
        let (Operand::Strided(left), Operand::Strided(right)) = (first.left.operand, first.right.operand) else {
            return None;
        };
        let in_place = (left.line == 1 || left.term == 1) && right.line == 1;
        let one_block = (1..=TERMS).contains(&of.k);
        (whole && own && fits && in_order && in_place && one_block).then_some(SingleTiles { of, first, to })
    }

    /// Computes product `batch`.
    ///
    /// # Safety
    /// The promises of [`Gemm`] hold.
    pub unsafe fn run(&self, batch: usize) {
        let (c, size) = (self.of, size_of::<T::Slot>() as isize);
        let strided = |factor| -> Option<Strided<T::Element>> {
            match operand(factor, &c.batch, batch) {
                Operand::Strided(s) => Some(s),
                _ => None,
            }
        };
        let (Some(left), Some(right)) = (strided(&c.left), strided(&c.right)) else {
            unreachable!("all products of a batch have the strides of the first")
        };
        let row = c.n as isize * size;
        let mut args = TileArgs {
            left: left.at(0, 0).cast(),
            left_row: left.line * size,
            left_term: left.term * size,
            right: right.at(0, 0).cast(),
            right_term: right.term * size,
            terms: c.k,
            from: ptr::null(),
            from_row: row,
            to: self.to.wrapping_offset((batch * c.m) as isize * row),
            to_row: row,
            lanes: ptr::null(),
            bits: 0,
        };
        // SAFETY: the caller's promise: the factors and the result have these elements.
        unsafe { self.first.kernels.tile(c.m, c.n, left.line != 1, &mut args) }
    }
}
