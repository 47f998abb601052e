//! Order in which the elements of a row are combined in a fold.
//!
//! It is part of a kernel's meaning: it depends on the row's dimensions only, not on vector length, threads,
//! orientation, or other parts of the kernel. In strict mode these dimensions are logical: adjacent reduced axes are
//! one. Otherwise the planner takes those of memory (`thalweg-fusion/src/write/rows.rs`). So a sum has the same bits on
//! 1 and on 64 threads, from either engine, in strict mode also fused and unfused, and its error grows with the
//! logarithm of its length (pairwise summation, Higham 1993).
//!
//! The last dimension of the row is a *run*; the dimensions before it number the runs. A run is cut into *blocks* of
//! [`BLOCK`] elements. In a block, element `i` (counted from the block's first) is accumulated in lane `i mod`
//! [`LANES`], each lane in ascending order; lanes start with the identity. Then lane `l` is combined with lane `l +
//! 16`, then with `l + 8`, and so on down to one. The blocks of all runs, in order, are combined pairwise: [`Tree`]. A
//! row without elements gives the identity.
//!
//! User-defined combines ([`Loop::is_combine`](thalweg_ir::Loop)) have an order in which whole vectors of partial
//! results are combined, so that any engine runs them with elementwise operations: [`fold_by`], [`scan_by`].
//!
//! Maxima and minima order -0 below +0 and give the canonical NaN if any element is NaN, so the order does not matter
//! for them.

use thalweg_ir::monoid::Partial;
use thalweg_ir::{DType, Monoid, Scalar};

/// Number of elements of a block, whose partial result is combined with those of other blocks.
pub const BLOCK: usize = 4096;
/// Number of elements of a block of a running sum of floats. Elements of a block are added in order from -0, and the
/// totals of all blocks before it in order too; a block's prefix sums start from that. All in f64. Not a power of two:
/// blocks processed at once would map to the same cache sets.
pub const SCAN_BLOCK: usize = 4064;
/// Number of lanes: partial results of a block.
pub const LANES: usize = 32;

/// Number of elements of a segment of a user-defined scan.
pub const SEGMENT: usize = 64;
/// Number of times that a user-defined scan combines each element: in its segment, then with everything before.
pub const SCAN_STEPS: u64 = 2;

/// Steps of a user-defined fold of `n` elements. For `(half, count)`, element `i` is combined with element `i + half`,
/// for `i` below `count`; at the end element 0 is the result. The combine is commutative, as those of all folds are.
/// Example: 5 elements give `(3, 2)`, `(2, 1)`, `(1, 1)`.
pub fn halves(mut n: usize) -> impl Iterator<Item = (usize, usize)> {
    std::iter::from_fn(move || {
        let half = n.div_ceil(2);
        let step = (n > 1).then_some((half, n - half));
        n = half;
        step
    })
}

/// Folds a row by a user-defined combine, in the steps of [`halves`]; `identity` if the row is empty.
pub fn fold_by<T: Clone>(mut row: Vec<T>, identity: T, combine: impl Fn(&T, &T) -> T) -> T {
    for (half, count) in halves(row.len()) {
        for i in 0..count {
            row[i] = combine(&row[i], &row[i + half]);
        }
    }
    row.into_iter().next().unwrap_or(identity)
}

/// Scans a row in place by a user-defined combine. Elements of each segment of [`SEGMENT`] are combined sequentially;
/// the last elements of all segments are scanned recursively; then every element of a segment is combined with the
/// scanned last element of the segment before (Blelloch 1990).
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

/// Combination of two partial results by the monoid's row; values are encoded by [`Scalar::to_bits`], f32, f64, i32,
/// u32 or i64.
pub fn combine(op: Monoid, dtype: DType, a: u64, b: u64) -> u64 {
    let of = |bits| Partial::of(op, dtype, Scalar::from_bits(bits, dtype));
    let mut both = of(a);
    both.put(&of(b));
    both.result().to_bits(dtype)
}

/// Partial results of blocks, combined pairwise as they arrive.
#[derive(Debug)]
pub struct Tree {
    op: Monoid,
    dtype: DType,
    partial: Vec<u64>,
    count: usize,
}

impl Tree {
    /// Empty tree.
    pub fn new(op: Monoid, dtype: DType) -> Tree {
        Tree { op, dtype, partial: Vec::new(), count: 0 }
    }

    /// Adds the result of the next block.
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

    /// Result of all blocks; leaves the tree empty for the next row.
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

    /// Concatenated lists show the order.
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
