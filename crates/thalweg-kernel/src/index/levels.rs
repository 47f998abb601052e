//! Positions of maps of several levels that are neither strided nor separable.
//!
//! In: an [`IndexMap`]. Out: its levels with divisions by their sizes prepared as multiplications. Points go through a
//! level together, dimension by dimension, in loops that the compiler vectorises: 1 ns for each dimension of a level and
//! point, where two 64-bit divisions take 10.

use super::IndexMap;
use smallvec::SmallVec;

/// Number of points that go through the levels together.
const POINTS: usize = 64;
/// Bits of the numbers that are divided.
const BITS: u32 = 31;

/// Levels of a map, the domain's first.
#[derive(Clone, Debug)]
pub(super) struct DividedLevels(SmallVec<[DividedLevel; 2]>);

#[derive(Clone, Debug)]
struct DividedLevel {
    offset: u32,
    /// Dimensions without those of one index, innermost first.
    dims: SmallVec<[Dim; 4]>,
    /// Whether a dimension of one index is masked out, and with it all points.
    empty: bool,
}

/// Dimension of a level. Numbers are modulo 2³²; a valid point has positions below 2³¹ at all levels.
#[derive(Clone, Copy, Debug)]
struct Dim {
    size: u32,
    stride: u32,
    /// `x / size` is `x · factor >> shift`, for `x` below 2³¹ (Granlund and Montgomery, *Division by invariant integers
    /// using multiplication*).
    factor: u64,
    shift: u32,
    /// First valid index, and number of valid indices.
    valid: Option<(u32, u32)>,
}

impl IndexMap {
    /// Levels with prepared divisions; `None` if numbers of points or positions exceed 31 bits.
    pub(super) fn divided(&self) -> Option<DividedLevels> {
        let fits = |n: usize| n > 0 && n < 1 << BITS;
        let (_, high) = self.reach()?;
        if !fits(high + 1) || self.levels.iter().any(|l| !fits(l.view.shape.numel())) {
            return None;
        }
        let level = |(view, mask): (&thalweg_ir::View, Option<&[(i64, i64)]>)| {
            let (mut dims, mut empty) = (SmallVec::new(), false);
            for (d, (&size, &stride)) in view.shape.iter().zip(view.strides()).enumerate().rev() {
                let (low, end) = mask.map_or((0, size as i64), |m| (m[d].0.max(0), m[d].1.min(size as i64)));
                if size == 1 {
                    empty |= low >= end;
                    continue;
                }
                let size = size as u32;
                let shift = BITS + size.next_power_of_two().trailing_zeros();
                let factor = (1u64 << shift).div_ceil(size as u64);
                let valid = (low > 0 || end < size as i64).then_some((low as u32, (end - low).max(0) as u32));
                dims.push(Dim { size, stride: stride as u32, factor, shift, valid });
            }
            DividedLevel { offset: view.offset as u32, dims, empty }
        };
        Some(DividedLevels(self.levels().map(level).collect()))
    }
}

impl DividedLevels {
    /// Writes the positions of the points `start..start + out.len()`, minus `origin`; -1 for masked-out ones.
    pub(super) fn fill(&self, start: usize, origin: i64, out: &mut [i32]) {
        if self.0.iter().any(|l| l.empty) {
            return out.fill(-1);
        }
        for (chunk, out) in out.chunks_mut(POINTS).enumerate() {
            let mut index: [u32; POINTS] = std::array::from_fn(|i| (start + chunk * POINTS + i) as u32);
            let mut masked = [0u32; POINTS];
            for level in &self.0 {
                level.step(&mut index, &mut masked);
            }
            for ((to, &at), &masked) in out.iter_mut().zip(&index).zip(&masked) {
                *to = if masked != 0 { -1 } else { at.wrapping_sub(origin as u32) as i32 };
            }
        }
    }
}

impl DividedLevel {
    /// Replaces points of this level by those of the next one, or positions; `masked` becomes 1 for those masked out.
    fn step(&self, points: &mut [u32; POINTS], masked: &mut [u32; POINTS]) {
        let mut position = [self.offset; POINTS];
        for (number, &Dim { size, stride, factor, shift, valid }) in self.dims.iter().enumerate() {
            let mut index = *points;
            // The outermost dimension has all that is left.
            if number + 1 < self.dims.len() {
                for (index, point) in index.iter_mut().zip(points.iter_mut()) {
                    let quotient = ((*point as u64 * factor) >> shift) as u32;
                    *index = point.wrapping_sub(quotient.wrapping_mul(size));
                    *point = quotient;
                }
            }
            for (at, index) in position.iter_mut().zip(&index) {
                *at = at.wrapping_add(index.wrapping_mul(stride));
            }
            if let Some((low, count)) = valid {
                for (masked, index) in masked.iter_mut().zip(&index) {
                    *masked |= (index.wrapping_sub(low) >= count) as u32;
                }
            }
        }
        *points = position;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::{Shape, View};

    #[test]
    fn levels_give_the_positions_of_each_point() {
        let x = IndexMap::new(View::contiguous(Shape::new(&[5, 7, 9])));
        let deep = |map: IndexMap| {
            let map = map.pad(&[(1, 0), (0, 2), (3, 1)]).permute(&[2, 0, 1]).reshape(Shape::new(&[9, 3, 26]));
            let map =
                map.slice(&[(8, -1, 9), (0, 2, 2), (1, 1, 24)]).permute(&[1, 0, 2]).reshape(Shape::new(&[16, 27]));
            map.pad(&[(2, 1), (0, 3)]).reshape(Shape::new(&[19 * 30]))
        };
        let one = x.clone().slice(&[(2, 1, 1), (0, 1, 7), (0, 1, 9)]).pad(&[(0, 0), (1, 0), (0, 0)]);
        for map in [deep(x.clone()), deep(x.permute(&[0, 1, 2])).reshape(Shape::new(&[190, 3])), one] {
            let levels = map.divided().expect("a small map");
            let points = map.shape().numel();
            for start in [0, 1, 63, points / 2, points - 1] {
                let mut table = vec![7; points - start];
                levels.fill(start, 4, &mut table);
                for (k, &found) in table.iter().enumerate() {
                    assert_eq!(found, map.position(start + k).map_or(-1, |p| p as i32 - 4), "{map:?} {start} {k}");
                }
            }
        }
    }

    #[test]
    fn quotients_are_exact() {
        for size in [2usize, 3, 7, 10, 641, 65_537, (1 << 30) - 1, 1 << 30] {
            let map = IndexMap::new(View::contiguous(Shape::new(&[1, size])).expand(Shape::new(&[1, size])));
            let Dim { factor, shift, .. } = map.divided().expect("31 bits").0[0].dims[0];
            for x in
                [0, 1, size - 1, size, 12_345_678, (1 << BITS) - 1, (1 << BITS) - size, (1 << BITS) / size * size - 1]
            {
                assert_eq!((x as u64 * factor) >> shift, (x / size) as u64, "{x} / {size}");
            }
        }
    }
}
