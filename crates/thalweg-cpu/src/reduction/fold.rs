//! Combination of vectors of partial results, one element per column, in the order of [`thalweg_kernel::order`].
//!
//! The width of a vector is 1 in inner-axis reductions, and the number of columns of a strip in outer-axis reductions.

use crate::tile;
use thalweg_ir::{DType, Monoid};

/// Combines the partial results `with` into `into`, which precede them in the order.
///
/// # Safety
/// Both hold `n` elements, aligned, and do not overlap.
pub unsafe fn combine(op: Monoid, dtype: DType, into: *mut u8, with: *const u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { tile::folder(op, dtype).merge(into, 1, with, n) };
}

/// Fills `n` elements with the identity of a fold.
///
/// # Safety
/// There is space for `n` elements, aligned.
pub unsafe fn identities(op: Monoid, dtype: DType, to: *mut u8, n: usize) {
    let bits = op.identity(dtype);
    // SAFETY: the caller's promise.
    unsafe {
        match dtype.size() {
            4 => std::slice::from_raw_parts_mut(to.cast::<u32>(), n).fill(bits as u32),
            _ => std::slice::from_raw_parts_mut(to.cast::<u64>(), n).fill(bits),
        }
    }
}

/// Tree reduction of the partial results of blocks, combined pairwise as they arrive: [`thalweg_kernel::order::Tree`]
/// for each column.
#[derive(Default)]
pub struct Tree {
    partial: Vec<u64>,
    /// Number of rows of `partial` that hold results to be combined.
    depth: usize,
    count: usize,
}

impl Tree {
    /// Resets the tree, for the blocks of another row.
    pub fn clear(&mut self) {
        (self.depth, self.count) = (0, 0);
    }

    fn row(&mut self, i: usize, width: usize) -> *mut u8 {
        if self.partial.len() < (i + 1) * width {
            self.partial.resize((i + 1) * width, 0);
        }
        self.partial[i * width..].as_mut_ptr().cast()
    }

    /// Adds the next block's results.
    ///
    /// # Safety
    /// `from` holds `width` elements of the dtype, aligned; all calls since [`Tree::clear`] have the same width, dtype
    /// and operation.
    pub unsafe fn push(&mut self, op: Monoid, dtype: DType, from: *const u8, width: usize) {
        let (to, size) = (self.row(self.depth, width), dtype.size());
        // SAFETY: rows have a word for each column.
        unsafe { std::ptr::copy_nonoverlapping(from, to, width * size) };
        let mut n = self.count;
        while n & 1 == 1 {
            self.fold_last(op, dtype, width);
            n >>= 1;
        }
        self.depth += 1;
        self.count += 1;
    }

    /// Combines row `depth` of the partial results into the row before it.
    fn fold_last(&mut self, op: Monoid, dtype: DType, width: usize) {
        // Fetch the last row first: memory that grows for it moves.
        let last = self.row(self.depth, width);
        let before = self.row(self.depth - 1, width);
        // SAFETY: both rows have a word for each column and do not overlap.
        unsafe { combine(op, dtype, before, last, width) };
        self.depth -= 1;
    }

    /// Combines the partial results that are left, writes the total to `to`, and clears the tree.
    ///
    /// # Safety
    /// As for [`Tree::push`]; `to` has space for `width` elements.
    pub unsafe fn take(&mut self, op: Monoid, dtype: DType, to: *mut u8, width: usize) {
        if self.depth == 0 {
            // SAFETY: the caller's promise.
            return unsafe { identities(op, dtype, to, width) };
        }
        self.depth -= 1;
        while self.depth > 0 {
            self.fold_last(op, dtype, width);
        }
        let from = self.row(0, width);
        // SAFETY: the caller's promise; the row was written.
        unsafe { std::ptr::copy_nonoverlapping(from, to, width * dtype.size()) };
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_kernel::order;

    #[test]
    fn rows_of_results_merge_like_single_ones() {
        let specials = [0.0f32, -0.0, 1.5, -3.25, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-30, 0.1, 0.7, 1e10];
        for op in [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min] {
            for blocks in 0..40usize {
                let value = |b: usize, c: usize| {
                    let v = specials[(b * 7 + c * 3 + b * b) % specials.len()];
                    if v.is_nan() && !matches!(op, Monoid::Max | Monoid::Min) { 0.3 } else { v }
                };
                let width = 9;
                let mut tree = Tree::default();
                for b in 0..blocks {
                    let row: Vec<f32> = (0..width).map(|c| value(b, c)).collect();
                    // SAFETY: the row holds that many elements.
                    unsafe { tree.push(op, DType::F32, row.as_ptr().cast(), width) };
                }
                let mut got = vec![9f32; width];
                // SAFETY: there is space for that many elements.
                unsafe { tree.take(op, DType::F32, got.as_mut_ptr().cast(), width) };
                for (c, got) in got.iter().enumerate() {
                    let mut one = order::Tree::new(op, DType::F32);
                    (0..blocks).for_each(|b| one.push(value(b, c).to_bits() as u64));
                    let want = f32::from_bits(one.take() as u32);
                    assert!(
                        got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                        "{op:?} {blocks} {c}: {got} {want}"
                    );
                }
            }
        }
    }
}
