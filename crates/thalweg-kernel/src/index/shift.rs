//! Periodic shifts of positions: a table of positions that was filled once serves later points, too.
//!
//! In: an [`IndexMap`] of any number of levels. Out: a number of points `p` and a step `d`. Always true: if point `i`
//! has a position, point `i + p` has that position plus `d`; if one of them is masked out, so is the other.
//!
//! Example: elements of 2×2 windows of `[64, 16, 8, 8]` have two levels and are not strided. After the 64 points of an
//! image the positions repeat, shifted by 64.

use super::{IndexMap, Level};

impl IndexMap {
    /// Period of the positions: the smallest number of points `p` after which they repeat, shifted by the step `d`.
    /// `None` if there is none.
    pub fn shift(&self) -> Option<(usize, i64)> {
        let top = self.top().plain()?;
        let mut points = 1;
        // From the innermost dimension outwards: the outer ones have to continue it.
        for (d, &(size, stride)) in top.dims.iter().enumerate().rev() {
            if top.leading(d + 1)
                && let Some(step) = self.moved(stride as i64)
            {
                return Some((points, step));
            }
            points *= size;
        }
        None
    }

    /// Shift of the position when the row-major index below the top level is shifted by `by`, whatever that index is;
    /// `None` if it depends on the index.
    fn moved(&self, mut by: i64) -> Option<i64> {
        for level in self.levels.iter().rev().skip(1) {
            if by == 0 {
                return Some(0);
            }
            let level = level.plain()?;
            // The innermost dimensions are unchanged; the outer ones are one strided dimension.
            let mut inner: i64 = level.dims.iter().map(|d| d.0 as i64).product();
            let mut leading = 0;
            while leading == 0 || by % inner != 0 {
                inner /= level.dims.get(leading)?.0 as i64;
                leading += 1;
            }
            if !level.leading(leading) {
                return None;
            }
            by = by / inner * level.dims[leading - 1].1 as i64;
        }
        Some(by)
    }
}

/// Level of an index map without its dimensions of size 1.
struct Plain {
    /// Size and stride of each dimension.
    dims: Vec<(usize, isize)>,
    /// For each dimension, whether all of its indices are valid.
    whole: Vec<bool>,
}

impl Plain {
    /// Whether the first `count` dimensions form one strided dimension, with none of them masked.
    fn leading(&self, count: usize) -> bool {
        let runs_on = |w: &[(usize, isize)]| w[0].1 == w[1].1.wrapping_mul(w[1].0 as isize);
        self.whole[..count].iter().all(|w| *w) && self.dims[..count].windows(2).all(runs_on)
    }
}

impl Level {
    /// The level without its dimensions of size 1; `None` if one of these is masked.
    fn plain(&self) -> Option<Plain> {
        let mut plain = Plain { dims: vec![], whole: vec![] };
        for (i, (&size, &stride)) in self.view.shape.iter().zip(self.view.strides()).enumerate() {
            let whole = self.mask.is_none_or(|m| m[i].0 <= 0 && m[i].1 >= size as i64);
            match size {
                1 if !whole => return None,
                1 => {}
                _ => {
                    plain.dims.push((size, stride));
                    plain.whole.push(whole);
                }
            }
        }
        Some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::{Shape, View};

    #[test]
    fn windows_side_by_side_and_sums_over_windows_begin_anew_with_each_image() {
        let image = IndexMap::new(View::contiguous(Shape::new(&[64, 16, 4, 4])));
        let each = image.clone().reshape(Shape::new(&[64, 16, 4, 1, 4, 1])).expand(Shape::new(&[64, 16, 4, 2, 4, 2]));
        let largest = each.reshape(Shape::new(&[64, 16, 8, 8]));
        assert_eq!((largest.levels().len(), largest.shift()), (2, Some((64, 16))));
        let padded = image.clone().pad(&[(0, 0), (0, 0), (1, 1), (1, 1)]);
        assert_eq!(padded.shift(), Some((36, 16)));
        // Masked along the samples, and along other axes.
        assert_eq!(image.clone().pad(&[(1, 0), (0, 0), (0, 0), (0, 0)]).shift(), None);
        let across = IndexMap::new(View::contiguous(Shape::new(&[16, 64, 4, 4]))).permute(&[1, 0, 2, 3]);
        assert_eq!(across.pad(&[(0, 0), (0, 0), (0, 1), (0, 0)]).shift(), Some((16 * 20, 16)));
        // No movement at all.
        let one = IndexMap::new(View::contiguous(Shape::new(&[1, 1]))).expand(Shape::new(&[6, 4]));
        assert_eq!(one.shift(), Some((1, 0)));
    }
}
