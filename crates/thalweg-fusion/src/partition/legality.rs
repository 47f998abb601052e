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

use super::{MAX_KERNEL_OPS, Partition, Use, takes_rows};
use crate::movement::{Path, Step, is_in_order};
use crate::rows;
use crate::segment::BitSet;
use thalweg_ir::Op;

/// Where a value is needed in a kernel, as seen from the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Position {
    /// Each element at its own point, in order.
    Point,
    /// Each element all along its own row, rows in order.
    Row,
}

/// A kernel that may store a value.
pub(super) struct Home {
    pub kernel: usize,
    /// The way from its domain to the value.
    pub path: Path,
    /// The reduction whose rows the kernel has or can be given, where the value is stored row by row.
    pub rows: Option<usize>,
}

impl Partition<'_> {
    /// Whether kernel `k`'s points form the rows of `i`, or can be made to, and it uses the result where a row gives it.
    pub(super) fn meets_rows(&self, k: usize, i: usize, u: &Use, position: Position) -> bool {
        let ix = &self.ix;
        let draft = &self.kernels[k];
        let Some(domain) = draft.domain else { return false };
        let (points, wanted) = (ix.shape(domain).numel(), ix.shape(rows::operand(ix, i)).numel());
        // Of nothing there are many rows or none; what looks in order then says nothing.
        if wanted == 0 {
            return false;
        }
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

    /// Whether values are computed from a reduction over other rows of as many points: in a kernel over the rows of `i` it would find no place.
    fn has_other_rows(&self, from: &BitSet, i: usize) -> bool {
        let ix = &self.ix;
        let (n, points) = (ix.seg.ops.len(), ix.shape(rows::operand(ix, i)).numel());
        let others = from.iter().take_while(|&a| a < n).filter(|&a| takes_rows(ix.seg.ops[a].op));
        others.into_iter().any(|a| ix.shape(rows::operand(ix, a)).numel() == points && !self.same_rows(a, i))
    }

    /// A kernel that reads the rows of `i` for something else, and may give its result too.
    pub(super) fn sibling_over_rows(&self, i: usize, uses: &[Use]) -> Option<usize> {
        let ix = &self.ix;
        let shape = ix.shape(rows::operand(ix, i));
        let over_rows = |k: usize| {
            let draft = &self.kernels[k];
            match (draft.rows, draft.domain) {
                (Some(j), _) => ix.shape(rows::operand(ix, j)) == shape && self.same_rows(i, j),
                // Boxes of a padded or joined domain have strides, its rows have none.
                (None, Some(d)) => {
                    let joined = |o: usize| matches!(ix.seg.ops[o].op, Op::Pad | Op::Cat);
                    ix.shape(d) == shape && !draft.ops.iter().any(joined) && !self.has_other_rows(&draft.from, i)
                }
                _ => false,
            }
        };
        (0..self.kernels.len()).find(|&k| {
            let draft = &self.kernels[k];
            ix.seg.mode.fused
                && shape.numel() > 0
                && over_rows(k)
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
        self.rows_of(u, i).map(|_| Position::Row)
    }

    /// The reduction whose rows a use of `i` goes along: that of the kernel, or, where it has none yet, one that `i` is computed from.
    pub(super) fn rows_of(&self, u: &Use, i: usize) -> Option<usize> {
        let (ix, draft) = (&self.ix, &self.kernels[u.kernel]);
        let (points, own) = (ix.shape(draft.domain?).numel(), ix.seg.shapes[i].numel());
        let along = |r: usize| {
            points > 0
                && own == rows::row_count(ix, r)
                && points == ix.shape(rows::operand(ix, r)).numel()
                && rows::same_places(&rows::row_map(ix, r), &u.map)
        };
        if let Some(r) = draft.rows {
            return along(r).then_some(r);
        }
        let n = ix.seg.ops.len();
        let reductions = self.ancestry[i].iter().take_while(|&a| a < n).filter(|&a| takes_rows(ix.seg.ops[a].op));
        reductions.filter(|&r| along(r)).last()
    }

    /// Whether kernel `k` may store operation `i`: nothing that reads it runs before `k`, and `k` itself reads it only where it computes it.
    pub(super) fn may_store(&self, i: usize, k: usize, uses: &[Use]) -> bool {
        let operands = self.operands[i].iter().map(|o| o.0);
        operands.clone().all(|r| r != k)
            && uses.iter().map(|u| u.kernel).chain(operands).all(|r| r == k || !self.reaches(r, k))
    }

    /// A kernel that may store operation `i` too, and the way from its domain to the operation.
    pub(super) fn kernel_to_join(&self, i: usize, uses: &[Use]) -> Option<Home> {
        let shape = self.ix.seg.shapes[i];
        // A kernel that reads the value at the very places where it would be stored.
        for u in uses {
            let k = u.kernel;
            let position = self.position(u, i);
            let alike = uses.iter().filter(|o| o.kernel == k).all(|o| self.position(o, i) == position);
            let Some(position) = position.filter(|_| alike && self.may_store(i, k, uses)) else { continue };
            return Some(match self.rows_of(u, i) {
                Some(rows) if position == Position::Row => {
                    Home { kernel: k, path: Path::identity().after(Step::Rows(rows)), rows: Some(rows) }
                }
                _ => Home { kernel: k, path: u.path.clone(), rows: None },
            });
        }
        // A sibling over the same shape that is computed from the same values.
        (0..self.kernels.len()).find_map(|k| {
            let draft = &self.kernels[k];
            let related = draft.domain.is_some_and(|d| self.ix.shape(d) == shape)
                && draft.rows.is_none_or(|r| !self.has_other_rows(&self.ancestry[i], r))
                && uses.iter().all(|u| u.kernel != k)
                && draft.count < MAX_KERNEL_OPS
                && draft.from.meets(&self.ancestry[i]);
            let joins = related && self.ix.seg.mode.fused && self.may_store(i, k, uses);
            joins.then(|| Home { kernel: k, path: Path::identity(), rows: None })
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
