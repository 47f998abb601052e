//! Points at equal steps: positions of a level's points without a division per point.

use super::Level;
use thalweg_ir::MAX_RANK;

/// Points of a level that are a fixed number of points apart. The index is a number in the mixed radix of the
/// level's sizes, to which each step adds another: no division per point.
pub(super) struct SteppedPoints<'a> {
    rank: usize,
    sizes: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
    mask: Option<&'a [(i64, i64); MAX_RANK]>,
    index: [i64; MAX_RANK],
    /// Index of the point that is one step after point 0. (Negative steps are those modulo the number of points.)
    step: [i64; MAX_RANK],
    /// Outermost dimension in which a step moves.
    outermost: usize,
    position: i64,
}

impl<'a> SteppedPoints<'a> {
    /// The points from `point` on, `step` points apart. All that are asked for are in the level.
    pub(super) fn new(level: &'a Level, point: i64, step: i64) -> SteppedPoints<'a> {
        let (shape, rank) = (level.view.shape, level.view.shape.rank());
        let (mut sizes, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        for (i, (&size, &stride)) in shape.iter().zip(level.view.strides()).enumerate() {
            (sizes[i], strides[i]) = (size as i64, stride as i64);
        }
        let unraveled = |mut point: i64| {
            let mut index = [0; MAX_RANK];
            for i in (0..rank).rev() {
                (index[i], point) = (point % sizes[i], point / sizes[i]);
            }
            index
        };
        let (index, step) = (unraveled(point), unraveled(step.rem_euclid((shape.numel() as i64).max(1))));
        let position = level.view.offset as i64 + (0..rank).map(|i| index[i] * strides[i]).sum::<i64>();
        let outermost = (0..rank).find(|&i| step[i] > 0).unwrap_or(rank);
        SteppedPoints { rank, sizes, strides, mask: level.mask.as_ref(), index, step, outermost, position }
    }

    /// Position of the current point, `None` if it is masked out; moves to the next point.
    #[inline]
    pub(super) fn step(&mut self) -> Option<i64> {
        let inside = |m: &[(i64, i64); MAX_RANK]| {
            self.index[..self.rank].iter().zip(m).all(|(index, (lo, hi))| lo <= index && index < hi)
        };
        let position = self.mask.is_none_or(inside).then_some(self.position);
        let mut carry = 0;
        for i in (0..self.rank).rev() {
            let mut more = self.step[i] + carry;
            carry = (self.index[i] + more >= self.sizes[i]) as i64;
            more -= carry * self.sizes[i];
            self.index[i] += more;
            self.position += more * self.strides[i];
            if carry == 0 && i <= self.outermost {
                break;
            }
        }
        position
    }
}
