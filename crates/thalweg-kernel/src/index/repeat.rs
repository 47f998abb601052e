//! Positions of maps of one level with short rows: the positions of the innermost dimensions relative to the first are
//! computed once, and repeated for each index of the others.

use super::{IndexMap, Level};
use thalweg_ir::MAX_RANK;

/// Entry of a block for a point that is masked out by an inner dimension.
const MASKED: i32 = i32::MIN;
/// Minimum number of blocks that a run of points has on average.
const MIN_BLOCKS: usize = 8;
/// Maximum number of points of a row; longer ones are written as fast row by row.
const MAX_ROW: usize = 63;
/// Maximum number of points of a block.
const MAX_BLOCK: usize = 256;

impl IndexMap {
    /// As [`Level::fill_repeating`]; false for a map of several levels.
    pub(super) fn fill_repeating(&self, start: usize, origin: i64, out: &mut [i32]) -> bool {
        matches!(&self.levels[..], [level] if level.fill_repeating(start, origin, out))
    }
}

impl Level {
    /// Writes the positions of the points `start..start + out.len()`, relative to `origin`, -1 for masked-out ones.
    /// Returns false, with nothing written, if rows are long, there are too few blocks, or a block spans more than an
    /// i32 can hold.
    fn fill_repeating(&self, start: usize, origin: i64, out: &mut [i32]) -> bool {
        let (shape, strides) = (self.view.shape, self.view.strides());
        let rank = shape.rank();
        // The block: as many inner dimensions as keep it short.
        let most = (out.len() / MIN_BLOCKS).min(MAX_BLOCK);
        let (mut first, mut size) = (rank, 1);
        while first > 0 && size * shape[first - 1] <= most {
            first -= 1;
            size *= shape[first];
        }
        if rank == 0 || shape[rank - 1] > MAX_ROW || size < 2 || first == 0 {
            return false;
        }
        let inside = |dim: usize, index: usize| match &self.mask {
            Some(mask) => (mask[dim].0..mask[dim].1).contains(&(index as i64)),
            None => true,
        };
        let mut block = [MASKED; MAX_BLOCK];
        for (point, entry) in block[..size].iter_mut().enumerate() {
            let (mut at, mut position, mut valid) = (point, 0i64, true);
            for dim in (first..rank).rev() {
                let index = at % shape[dim];
                at /= shape[dim];
                valid &= inside(dim, index);
                position += index as i64 * strides[dim] as i64;
            }
            match i32::try_from(position) {
                Ok(position) if position != MASKED => *entry = if valid { position } else { MASKED },
                _ => return false,
            }
        }
        // Several blocks along the next dimension, which are written together where none is masked out.
        let (next, stride) = (shape[first - 1], strides[first - 1] as i64);
        let together = (MAX_BLOCK / size).min(next).max(1);
        for at in size..size * together {
            let moved = block[at % size] as i64 + (at / size) as i64 * stride;
            block[at] = match i32::try_from(moved) {
                _ if block[at % size] == MASKED => MASKED,
                Ok(moved) if moved != MASKED => moved,
                _ => return false,
            };
        }
        // An odometer over the outer dimensions.
        let mut index = [0usize; MAX_RANK];
        let mut at = start / size;
        for dim in (0..first).rev() {
            index[dim] = at % shape[dim];
            at /= shape[dim];
        }
        let mut from = start % size;
        let mut out = out;
        while !out.is_empty() {
            let last = index[first - 1] + together - 1;
            let whole = from == 0 && last < next && out.len() >= size * together && inside(first - 1, last);
            let blocks = if whole && inside(first - 1, index[first - 1]) { together } else { 1 };
            let (now, rest) = out.split_at_mut((size * blocks - from).min(out.len()));
            if (0..first).all(|dim| inside(dim, index[dim])) {
                let base: i64 = (0..first).map(|dim| index[dim] as i64 * strides[dim] as i64).sum();
                let base = (base + self.view.offset as i64 - origin) as i32;
                for (to, &entry) in now.iter_mut().zip(&block[from..]) {
                    *to = if entry == MASKED { -1 } else { base.wrapping_add(entry) };
                }
            } else {
                now.fill(-1);
            }
            (out, from) = (rest, 0);
            index[first - 1] += blocks - 1;
            for dim in (0..first).rev() {
                index[dim] += 1;
                if index[dim] < shape[dim] {
                    break;
                }
                index[dim] = 0;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::{Shape, View};

    #[test]
    fn blocks_give_the_positions_of_each_point() {
        let images = IndexMap::new(View::contiguous(Shape::new(&[40, 11, 3])));
        let padded = images.clone().pad(&[(1, 2), (0, 1), (1, 1)]);
        let turned = IndexMap::new(View::contiguous(Shape::new(&[3, 40, 11]))).permute(&[1, 2, 0]);
        let flipped =
            IndexMap::new(View::contiguous(Shape::new(&[40, 11, 3]))).slice(&[(0, 1, 40), (10, -1, 11), (2, -1, 3)]);
        let pairs = IndexMap::new(View::contiguous(Shape::new(&[3, 500, 1]))).pad(&[(0, 0), (2, 5), (0, 1)]);
        for map in [images, padded, turned, flipped, pairs] {
            let all = map.shape().numel();
            for (start, n) in [(0, all), (1, all - 1), (17, 700), (all - 300, 300), (5, 7)] {
                let mut table = vec![7; n];
                let done = map.fill_repeating(start, 2, &mut table);
                assert_eq!(done, n >= 300, "{start} {n}");
                for (k, &found) in table.iter().enumerate().filter(|_| done) {
                    let want = map.position(start + k).map_or(-1, |p| p as i32 - 2);
                    assert_eq!(found, want, "{map:?} {start} {k}");
                }
            }
        }
        let long = IndexMap::new(View::contiguous(Shape::new(&[40, 64])));
        assert!(!long.fill_repeating(0, 0, &mut vec![0; 2560]), "rows are written as rows");
    }
}
