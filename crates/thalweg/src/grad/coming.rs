//! Accumulation of the gradients that have reached a node.
//!
//! In: gradients of the whole tensor, and of ranges of one axis of it, which slices give. Out: their sum. A range is
//! padded with zeros only if necessary: disjoint ranges, as those of `split`, `chunk` or `unbind`, are concatenated,
//! and nothing is added. For a matrix of three adjacent slices the sum would be of three padded matrices, each read and
//! compared with its border at every element.

use crate::join::join_all;
use crate::{Shape, Tensor};

/// Accumulated gradient of a node during a backward pass: of the whole tensor, and of ranges of an axis.
#[derive(Default)]
pub(super) struct Coming {
    whole: Option<Tensor>,
    ranges: Vec<RangeGradient>,
}

/// Gradient of a contiguous range of one axis.
pub(super) struct RangeGradient {
    axis: usize,
    start: usize,
    /// Size of the whole axis.
    length: usize,
    gradient: Tensor,
}

impl RangeGradient {
    /// Converts the gradient of a slice by `ints` (start, step, count of each axis). `None` unless the slice takes a
    /// contiguous range of one axis, and all of the others.
    pub(super) fn of(gradient: &Tensor, whole: &Shape, ints: &[i64]) -> Option<RangeGradient> {
        let takes_all =
            |axis: usize| ints[3 * axis + 2] == whole[axis] as i64 && (whole[axis] <= 1 || ints[3 * axis + 1] == 1);
        let mut parts = (0..whole.rank()).filter(|&axis| !takes_all(axis));
        let (axis, None) = (parts.next()?, parts.next()) else { return None };
        let (start, step, count) = (ints[3 * axis], ints[3 * axis + 1], ints[3 * axis + 2]);
        let neighbours = count == 1 || count > 1 && step == 1;
        let whole = whole[axis];
        neighbours.then(|| RangeGradient { axis, start: start as usize, length: whole, gradient: gradient.clone() })
    }

    fn end(&self) -> usize {
        self.start + self.gradient.dims()[self.axis]
    }

    /// Gradient padded with zeros along its axis.
    fn padded(&self, before: usize, behind: usize) -> Tensor {
        if (before, behind) == (0, 0) {
            return self.gradient.clone();
        }
        let mut widths = vec![(0, 0); self.gradient.rank()];
        widths[self.axis] = (before, behind);
        self.gradient.pad(widths, 0)
    }
}

impl Coming {
    /// Adds a gradient of the whole tensor.
    pub(super) fn add(&mut self, gradient: Tensor) {
        self.whole = Some(match self.whole.take() {
            Some(sum) => sum + gradient,
            None => gradient,
        });
    }

    /// Adds a gradient of a range of one axis.
    pub(super) fn add_range(&mut self, range: RangeGradient) {
        self.ranges.push(range);
    }

    /// The sum of all gradients. The order of additions follows from the order of the calls, and from the indices of
    /// ranges.
    #[inline]
    pub(super) fn total(self) -> Option<Tensor> {
        if self.ranges.is_empty() { self.whole } else { self.with_ranges() }
    }

    fn with_ranges(mut self) -> Option<Tensor> {
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.sort_by_key(|s| (s.axis, s.start));
        let apart = ranges.windows(2).all(|two| two[0].axis == two[1].axis && two[0].end() <= two[1].start);
        if apart {
            if let Some(joined) = joined(&ranges) {
                self.add(joined);
            }
        } else {
            ranges.iter().for_each(|s| self.add(s.padded(s.start, s.length - s.end())));
        }
        self.whole
    }
}

/// Concatenates the gradients of disjoint ranges of one axis, with zeros between them; `None` if there are none.
fn joined(ranges: &[RangeGradient]) -> Option<Tensor> {
    let first = ranges.first()?;
    // Each range is followed by the zeros after it; the first one also has those before it.
    let ends = ranges.iter().skip(1).map(|s| s.start).chain([first.length]);
    let parts: Vec<Tensor> = ranges
        .iter()
        .zip(ends)
        .enumerate()
        .map(|(i, (s, end))| s.padded(if i == 0 { s.start } else { 0 }, end - s.end()))
        .collect();
    Some(join_all(&parts.iter().collect::<Vec<_>>(), first.axis))
}
