//! What is allowed: which kernel may compute or store which value. Asking changes nothing.
//!
//! 1. A kernel computes and stores point by point (row by row), so a value that one of its members reads at other points (of other rows) is not
//!    stored by it.
//! 2. The kernels with the values between them stay acyclic.
//! 3. Members of a kernel have the same number of points, by data flow or by an equality of shapes that is
//!    checked again for other sizes.
//! 4. A kernel has one kind of rows, whose elements meet in one order.
//!
//! Each rule has a test in `crates/thalweg/tests/fusion.rs`.

use super::{MAX_KERNEL_OPS, Partition, Use};
use crate::movement::{Path, is_in_order};
use crate::rows;
use crate::segment::BitSet;

/// Where a value is needed in a kernel, as seen from the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Position {
    /// Each element at its own point, in order.
    Point,
    /// Each element all along its own row, rows in order.
    Row,
}

impl Partition<'_> {
    /// Whether kernel `k`'s points form the rows of `i`, or can be made to, and it uses the result where a row gives it.
    pub(super) fn meets_rows(&self, k: usize, i: usize, u: &Use, position: Position) -> bool {
        let ix = &self.ix;
        let draft = &self.kernels[k];
        let Some(domain) = draft.domain else { return false };
        let (points, wanted) = (ix.shape(domain).numel(), ix.shape(rows::operand(ix, i)).numel());
        if let Some(j) = draft.rows
            && !(points == wanted && self.same_rows(i, j))
        {
            return false;
        }
        let own = ix.seg.shapes[i].numel();
        match position {
            Position::Point => points == wanted && is_in_order(&u.map, points, own),
            Position::Row if points == wanted && rows::same_places(&rows::row_map(ix, i), &u.map) => true,
            // A kernel with an element for each row of the reduction.
            Position::Row => draft.rows.is_none() && points == own && is_in_order(&u.map, points, own),
        }
    }

    pub(super) fn same_rows(&self, i: usize, j: usize) -> bool {
        let ix = &self.ix;
        i == j || rows::same_places(&rows::row_map(ix, i), &rows::row_map(ix, j)) && rows::same_runs(ix, i, j)
    }

    /// A kernel that reads the rows of `i` for something else, and may give its result too.
    pub(super) fn sibling_over_rows(&self, i: usize, uses: &[Use]) -> Option<usize> {
        let ix = &self.ix;
        let shape = ix.shape(rows::operand(ix, i));
        (0..self.kernels.len()).find(|&k| {
            let draft = &self.kernels[k];
            ix.seg.mode.fused
                && draft.rows.is_some_and(|j| ix.shape(rows::operand(ix, j)) == shape && self.same_rows(i, j))
                && uses.iter().all(|u| u.kernel != k)
                && draft.count < MAX_KERNEL_OPS
                && draft.from.meets(&self.ancestry[i])
                && self.may_store(i, k, uses)
        })
    }

    /// Whether a use is one that the kernel could store the value for: each element at its own place, in order.
    pub(super) fn position(&self, u: &Use, i: usize) -> Option<Position> {
        let (ix, draft) = (&self.ix, &self.kernels[u.kernel]);
        let own = ix.seg.shapes[i].numel();
        if is_in_order(&u.map, ix.shape(draft.domain?).numel(), own) {
            return Some(Position::Point);
        }
        let reduction = draft.rows?;
        let row = own == rows::row_count(ix, reduction) && rows::same_places(&rows::row_map(ix, reduction), &u.map);
        row.then_some(Position::Row)
    }

    /// Whether kernel `k` may store operation `i`: nothing that reads it runs before `k`, and `k` itself reads it only where it computes it.
    pub(super) fn may_store(&self, i: usize, k: usize, uses: &[Use]) -> bool {
        let operands = self.operands[i].iter().map(|o| o.0);
        operands.clone().all(|r| r != k)
            && uses.iter().map(|u| u.kernel).chain(operands).all(|r| r == k || !self.reaches(r, k))
    }

    /// A kernel that may store operation `i` too, and the way from its domain to the operation.
    pub(super) fn kernel_to_join(&self, i: usize, uses: &[Use]) -> Option<(usize, Path, Position)> {
        let shape = self.ix.seg.shapes[i];
        // A kernel that reads the value at the very places where it would be stored.
        for u in uses {
            let k = u.kernel;
            let position = self.position(u, i);
            let alike = uses.iter().filter(|o| o.kernel == k).all(|o| self.position(o, i) == position);
            if let Some(position) = position.filter(|_| alike && self.may_store(i, k, uses)) {
                return Some((k, u.path.clone(), position));
            }
        }
        // A sibling over the same shape that is computed from the same values.
        (0..self.kernels.len()).find_map(|k| {
            let draft = &self.kernels[k];
            let related = draft.domain.is_some_and(|d| self.ix.shape(d) == shape)
                && uses.iter().all(|u| u.kernel != k)
                && draft.count < MAX_KERNEL_OPS
                && draft.from.meets(&self.ancestry[i]);
            let joins = related && self.ix.seg.mode.fused && self.may_store(i, k, uses);
            joins.then(|| (k, Path::identity(), Position::Point))
        })
    }

    /// Whether something that kernel `from` writes is needed, directly or through others, by kernel `to`.
    pub(super) fn reaches(&self, from: usize, to: usize) -> bool {
        let mut seen = BitSet::new(self.kernels.len());
        let mut left = vec![from];
        while let Some(k) = left.pop() {
            if k == to {
                return true;
            }
            if !seen.has(k) {
                seen.insert(k);
                left.extend(&self.kernels[k].readers);
            }
        }
        false
    }
}
