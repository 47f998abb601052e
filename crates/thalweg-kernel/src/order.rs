//! The order in which the elements of a row meet in a fold.
//!
//! It is part of what a kernel means: it depends on the row's dimensions and on nothing else - not on vector length,
//! threads, orientation, or what shares the kernel. Strictly these dimensions are logical: neighbouring reduced axes
//! are one. Otherwise the planner takes those of memory (`thalweg-fusion/src/write/rows.rs`). So a sum has the same bits
//! on 1 and on 64 threads, from either engine, strictly also fused and unfused, and its error grows with the logarithm
//! of its length (pairwise summation, Higham 1993).
//!
//! The last dimension of the row is a *run*; the dimensions before it number the runs. A run is cut into *blocks* of
//! [`BLOCK`] elements. In a block, element `i` (counted from the block's first) is put to lane `i mod` [`LANES`], each
//! lane in ascending order; lanes start with the identity. Then lane `l` and lane `l + 16` are put together, those with
//! `l + 8`, and so on to one. The blocks of all runs, in order, are put together pairwise: [`Tree`]. A row without
//! elements gives the identity.
//!
//! What a combine of the user's own puts together ([`Loop::is_combine`](thalweg_ir::Loop)) has an order in which
//! whole vectors of partial results meet, so that any engine runs it with elementwise operations: [`fold_by`], [`scan_by`].
//!
//! Maxima and minima take -0 for less than +0 and give the canonical NaN if any element is NaN, so for them the order
//! does not matter.

use thalweg_ir::monoid::Partial;
use thalweg_ir::{DType, Monoid, Scalar};

/// Elements of a block.
pub const BLOCK: usize = 4096;
/// Elements of a block of a running sum of floats. Its elements are added in order from -0, those totals of all blocks
/// before it in order too; from there on the block goes element by element. All in f64. Not a power of two: blocks that
/// are worked on at once would fall into the same sets of the caches.
pub const SCAN_BLOCK: usize = 4064;
/// Partial results that a block is folded in.
pub const LANES: usize = 32;

/// Elements of a segment of a scan by a combine of the user's own.
pub const SEGMENT: usize = 64;
/// How often such a scan puts each element together with another: in its segment, then with all before.
pub const SCAN_STEPS: u64 = 2;

/// The steps of a fold of `n` elements by a combine of the user's own: with `(half, count)` element `i` becomes itself with
/// element `i + half` after it, for `i` below `count`; in the end element 0 is the result. The combine is commutative, as
/// those of all folds are.
pub fn halves(mut n: usize) -> impl Iterator<Item = (usize, usize)> {
    std::iter::from_fn(move || {
        let half = n.div_ceil(2);
        let step = (n > 1).then_some((half, n - half));
        n = half;
        step
    })
}

/// A fold by a combine of the user's own; `identity` of no elements.
pub fn fold_by<T: Clone>(mut row: Vec<T>, identity: T, combine: impl Fn(&T, &T) -> T) -> T {
    for (half, count) in halves(row.len()) {
        for i in 0..count {
            row[i] = combine(&row[i], &row[i + half]);
        }
    }
    row.into_iter().next().unwrap_or(identity)
}

/// A scan by a combine of the user's own. In segments of [`SEGMENT`] elements they are put together one after the other; the
/// last ones of all segments are scanned in the same way; then all elements of a segment are put together with the scanned last
/// one of the segment before (Blelloch 1990).
pub fn scan_by<T: Clone>(row: &mut [T], combine: &impl Fn(&T, &T) -> T) {
    for segment in row.chunks_mut(SEGMENT) {
        for i in 1..segment.len() {
            segment[i] = combine(&segment[i - 1], &segment[i]);
        }
    }
    if row.len() <= SEGMENT {
        return;
    }
    let last = |s: &[T]| s.last().expect("a segment has an element").clone();
    let mut lasts: Vec<T> = row.chunks(SEGMENT).map(last).collect();
    scan_by(&mut lasts, combine);
    for (segment, before) in row.chunks_mut(SEGMENT).skip(1).zip(&lasts) {
        segment.iter_mut().for_each(|x| *x = combine(before, x));
    }
}

/// Two partial results put together as the monoid's row says; values in the form of [`Scalar::to_bits`], f32, f64, i32,
/// u32 or i64.
pub fn combine(op: Monoid, dtype: DType, a: u64, b: u64) -> u64 {
    let of = |bits| Partial::of(op, dtype, Scalar::from_bits(bits, dtype));
    let mut both = of(a);
    both.put(&of(b));
    both.result().to_bits(dtype)
}

/// Partial results of blocks, put together pairwise as they come.
#[derive(Debug)]
pub struct Tree {
    op: Monoid,
    dtype: DType,
    partial: Vec<u64>,
    count: usize,
}

impl Tree {
    /// Of no blocks.
    pub fn new(op: Monoid, dtype: DType) -> Tree {
        Tree { op, dtype, partial: Vec::new(), count: 0 }
    }

    /// The next block's.
    pub fn push(&mut self, mut value: u64) {
        let mut n = self.count;
        while n & 1 == 1 {
            let before = self.partial.pop().expect("an odd count has a partial of that size");
            value = combine(self.op, self.dtype, before, value);
            n >>= 1;
        }
        self.partial.push(value);
        self.count += 1;
    }

    /// The result of all, ready for the next row.
    pub fn take(&mut self) -> u64 {
        self.count = 0;
        let Some(mut value) = self.partial.pop() else { return self.op.identity(self.dtype) };
        while let Some(before) = self.partial.pop() {
            value = combine(self.op, self.dtype, before, value);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strings put together show the order.
    #[test]
    fn a_scan_by_a_combine_keeps_the_order_and_a_fold_takes_each_once() {
        for n in [0, 1, 2, 63, 64, 65, 500, 64 * 64 + 1] {
            let row: Vec<Vec<usize>> = (0..n).map(|i| vec![i]).collect();
            let both = |a: &Vec<usize>, b: &Vec<usize>| [&a[..], b].concat();
            let mut scanned = row.clone();
            scan_by(&mut scanned, &both);
            assert!(scanned.iter().enumerate().all(|(i, s)| s.iter().copied().eq(0..=i)), "{n}");
            let mut folded = fold_by(row, vec![], both);
            folded.sort_unstable();
            assert!(folded.into_iter().eq(0..n), "{n}");
        }
    }
}
