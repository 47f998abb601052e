//! What has come back to a node so far: a sum of gradients.
//!
//! In: gradients of the whole tensor, and of stretches of one axis of it, which is what slices give back. Out: their sum.
//! A stretch is put among zeros only where it has to be: stretches that do not meet, as those of `split`, `chunk` or
//! `unbind`, are joined end to end, and nothing is added up. In a matrix of three parts side by side the sum would be of
//! three padded matrices, each read and compared with its border at every element.

use crate::join::join_all;
use crate::{Shape, Tensor};

/// The sum of what came.
#[derive(Default)]
pub(super) struct Coming {
    whole: Option<Tensor>,
    stretches: Vec<Stretch>,
}

/// A gradient of neighbouring positions of one axis.
pub(super) struct Stretch {
    axis: usize,
    start: usize,
    /// Positions of the axis, of which the gradient has some.
    length: usize,
    gradient: Tensor,
}

impl Stretch {
    /// What the gradient of a slice of a tensor is one of: a slice by `ints` (start, step, count of each axis) that takes
    /// neighbours along one axis, and all of the others.
    pub(super) fn of(gradient: &Tensor, whole: &Shape, ints: &[i64]) -> Option<Stretch> {
        let takes_all =
            |axis: usize| ints[3 * axis + 2] == whole[axis] as i64 && (whole[axis] <= 1 || ints[3 * axis + 1] == 1);
        let mut parts = (0..whole.rank()).filter(|&axis| !takes_all(axis));
        let (axis, None) = (parts.next()?, parts.next()) else { return None };
        let (start, step, count) = (ints[3 * axis], ints[3 * axis + 1], ints[3 * axis + 2]);
        let neighbours = count == 1 || count > 1 && step == 1;
        let whole = whole[axis];
        neighbours.then(|| Stretch { axis, start: start as usize, length: whole, gradient: gradient.clone() })
    }

    fn end(&self) -> usize {
        self.start + self.gradient.dims()[self.axis]
    }

    /// With so many zeros before and behind.
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
    /// A gradient of the whole.
    pub(super) fn of(gradient: Tensor) -> Coming {
        Coming { whole: Some(gradient), stretches: vec![] }
    }

    /// Adds a gradient of the whole.
    pub(super) fn add(&mut self, gradient: Tensor) {
        self.whole = Some(match self.whole.take() {
            Some(sum) => sum + gradient,
            None => gradient,
        });
    }

    /// Adds one of a stretch.
    pub(super) fn add_stretch(&mut self, stretch: Stretch) {
        self.stretches.push(stretch);
    }

    /// The sum of all that came. Its order follows from the order in which they came, and from where stretches lie.
    pub(super) fn total(mut self) -> Option<Tensor> {
        let mut stretches = std::mem::take(&mut self.stretches);
        stretches.sort_by_key(|s| (s.axis, s.start));
        let apart = stretches.windows(2).all(|two| two[0].axis == two[1].axis && two[0].end() <= two[1].start);
        if apart {
            if let Some(joined) = joined(&stretches) {
                self.add(joined);
            }
        } else {
            stretches.iter().for_each(|s| self.add(s.padded(s.start, s.length - s.end())));
        }
        self.whole
    }
}

/// Stretches of one axis that do not meet, end to end, with zeros between; `None` of none.
fn joined(stretches: &[Stretch]) -> Option<Tensor> {
    let first = stretches.first()?;
    // Each with the zeros behind it, the first one with those before it, too.
    let ends = stretches.iter().skip(1).map(|s| s.start).chain([first.length]);
    let parts: Vec<Tensor> = stretches
        .iter()
        .zip(ends)
        .enumerate()
        .map(|(i, (s, end))| s.padded(if i == 0 { s.start } else { 0 }, end - s.end()))
        .collect();
    Some(join_all(&parts.iter().collect::<Vec<_>>(), first.axis))
}
