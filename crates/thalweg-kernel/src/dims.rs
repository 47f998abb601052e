//! Merging of neighbouring dimensions, for devices and for the kernel writer.
//!
//! In: extents, and whether an access is contiguous from one dimension into the next. Out: fewer dimensions over the
//! same points in the same order. A contiguous tensor of shape `[8, 3, 100]` is one dimension of 2400 points; beside an
//! operand that is broadcast over the first axis it is `[8, 300]`.
//!
//! Always true: the row-major order of the points is unchanged, so the number of a point stays valid.

use std::ops::Range;

/// Merged dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Merged {
    /// Number of points.
    pub extent: usize,
    /// Index of the innermost original dimension, whose strides the merged dimension has.
    pub inner: usize,
}

/// Merged dimensions of a range of a domain, outermost first. Neighbours are merged if `runs_on(outer, inner, extent)`
/// holds: for every access, a step along `outer` equals `extent` steps along `inner`. Dimensions of size 1 are dropped,
/// except the last one if `keep_last`.
pub fn merge(
    extents: &[usize],
    range: Range<usize>,
    keep_last: bool,
    runs_on: impl Fn(usize, usize, usize) -> bool,
) -> Vec<Merged> {
    let mut dims: Vec<Merged> = vec![];
    for d in range.clone().rev().filter(|&d| extents[d] != 1 || keep_last && d + 1 == range.end) {
        match dims.last_mut() {
            Some(last) if runs_on(d, last.inner, last.extent) => last.extent *= extents[d],
            _ => dims.push(Merged { extent: extents[d], inner: d }),
        }
    }
    dims.reverse();
    dims
}

/// Whether an access with these strides is contiguous from `inner` into `outer`: see [`merge`].
pub fn runs_on(strides: &[isize], outer: usize, inner: usize, extent: usize) -> bool {
    strides[outer] == strides[inner].wrapping_mul(extent as isize)
}

/// Number of points of a call below which the longest dimension runs over its rows, instead of the adjacent one.
const MIN_CALL_POINTS: usize = 64;

/// Dimension that runs over the rows of a call, whose points are neighbours in the innermost dimension: the adjacent
/// dimension, or, if a call would then have few points, the longest one. `None` for one dimension. Windows of 2 × 2 in
/// 256 channels are then 2 calls of 256 rows instead of 256 calls of 2 rows.
pub fn rows_of_calls(extents: &[usize]) -> Option<usize> {
    let adjacent = extents.len().checked_sub(2)?;
    if extents[adjacent].saturating_mul(extents[adjacent + 1]) >= MIN_CALL_POINTS {
        return Some(adjacent);
    }
    (0..=adjacent).rev().max_by_key(|&d| (extents[d], d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(extents: &[usize], strides: &[&[isize]], keep_last: bool) -> Vec<(usize, usize)> {
        let all = |o: usize, i: usize, n: usize| strides.iter().all(|s| runs_on(s, o, i, n));
        merge(extents, 0..extents.len(), keep_last, all).iter().map(|m| (m.extent, m.inner)).collect()
    }

    #[test]
    fn dimensions_merge_where_every_access_runs_on() {
        assert_eq!(merged(&[8, 3, 100], &[&[300, 100, 1]], false), [(2400, 2)]);
        assert_eq!(merged(&[8, 3, 100], &[&[300, 100, 1], &[0, 100, 1]], false), [(8, 0), (300, 2)]);
        assert_eq!(merged(&[8, 3, 100], &[&[300, 100, 1], &[0, 0, 0]], false), [(2400, 2)], "a scalar has any");
        assert_eq!(merged(&[4, 5], &[&[1, 4]], false), [(4, 0), (5, 1)], "a transpose does not");
        assert_eq!(merged(&[2, 5], &[&[-5, -1]], false), [(10, 1)], "flipped all over");
    }

    #[test]
    fn calls_of_few_points_take_their_rows_from_the_longest_dimension() {
        assert_eq!(rows_of_calls(&[100]), None);
        assert_eq!(rows_of_calls(&[256, 2, 2]), Some(0));
        assert_eq!(rows_of_calls(&[256, 8, 8]), Some(1), "64 points are enough");
        assert_eq!(rows_of_calls(&[4, 2, 4, 2]), Some(2), "of equally long ones the innermost");
        assert_eq!(rows_of_calls(&[100_000, 1]), Some(0));
    }

    #[test]
    fn sizes_of_one_are_dropped_except_a_fixed_last() {
        assert_eq!(merged(&[4, 1, 5, 1], &[&[5, 77, 1, 9]], false), [(20, 2)]);
        assert_eq!(merged(&[4, 1], &[&[3, 1]], true), [(4, 0), (1, 1)]);
        assert_eq!(merged(&[1, 1], &[&[3, 1]], false), []);
    }
}
