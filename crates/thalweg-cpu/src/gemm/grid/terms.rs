//! Terms of a grid, analysed once for all panels of a block of terms.
//!
//! In: a grid and a range of terms. Out: the terms' offsets, and the steps that each adds to the coordinates of the
//! limits. Terms that add the same steps form one *tap*: a window of 3 × 3 over any number of channels has nine.

use super::{Grid, Limit};
use std::ops::Range;
use thalweg_ir::MAX_RANK;

/// A run of lines or terms at a fixed stride: index of its first member in the panel (`place`), that member's offset in
/// memory in elements, the length, and that member's row-major index in the grid (`number`).
#[derive(Clone, Copy)]
pub(super) struct StridedRun {
    pub(super) place: usize,
    pub(super) offset: isize,
    pub(super) count: usize,
    pub(super) number: usize,
}

/// Unravels a row-major index over these sizes, and returns the sum of `step(d)` times the index in dimension `d`.
pub(super) fn stepped(sizes: &[(usize, isize)], step: impl Fn(usize) -> i64, mut number: usize) -> i64 {
    let mut at = 0;
    for (d, &(size, _)) in sizes.iter().enumerate().rev() {
        at += (number % size) as i64 * step(d);
        number /= size;
    }
    at
}

/// Offset in elements of a row-major index over these dimensions.
fn offset(dims: &[(usize, isize)], number: usize) -> isize {
    stepped(dims, |d| dims[d].1 as i64, number) as isize
}

/// Offsets in elements of a range of row-major indices.
fn offsets(dims: &[(usize, isize)], range: Range<usize>) -> Vec<isize> {
    let mut all = Vec::with_capacity(range.len());
    for s in StridedRuns::new(dims, range) {
        let step = inner(dims).1;
        all.extend((0..s.count as isize).map(|i| s.offset + i * step));
    }
    all
}

/// Size and stride of the innermost dimension.
pub(super) fn inner(dims: &[(usize, isize)]) -> (usize, isize) {
    dims.last().copied().unwrap_or((1, 0))
}

/// Iterator that cuts a range of row-major indices into runs in the innermost dimension.
pub(super) struct StridedRuns<'a> {
    dims: &'a [(usize, isize)],
    at: usize,
    range: Range<usize>,
    /// Current index in each dimension, and the offset there.
    index: [usize; MAX_RANK],
    offset: isize,
}

impl<'a> StridedRuns<'a> {
    pub(super) fn new(dims: &'a [(usize, isize)], range: Range<usize>) -> StridedRuns<'a> {
        let (mut index, mut number) = ([0; MAX_RANK], range.start);
        for (index, &(size, _)) in index.iter_mut().zip(dims).rev() {
            (*index, number) = (number % size, number / size);
        }
        StridedRuns { dims, at: range.start, offset: offset(dims, range.start), range, index }
    }
}

impl Iterator for StridedRuns<'_> {
    type Item = StridedRun;
    fn next(&mut self) -> Option<StridedRun> {
        if self.at >= self.range.end {
            return None;
        }
        let left = self.range.end - self.at;
        let Some(last) = self.dims.len().checked_sub(1) else {
            self.at = self.range.end;
            return Some(StridedRun { place: 0, offset: self.offset, count: left, number: self.range.start });
        };
        let count = (self.dims[last].0 - self.index[last]).min(left);
        let made = StridedRun { place: self.at - self.range.start, offset: self.offset, count, number: self.at };
        self.at += count;
        self.index[last] += count;
        self.offset += count as isize * self.dims[last].1;
        // Carry into the next outer dimension.
        for d in (1..=last).rev() {
            if self.index[d] < self.dims[d].0 {
                break;
            }
            self.offset += self.dims[d - 1].1 - self.dims[d].0 as isize * self.dims[d].1;
            self.index[d] = 0;
            self.index[d - 1] += 1;
        }
        Some(made)
    }
}

/// Analysis of the terms to pack from runs of lines, common to all panels.
pub(super) struct Terms {
    pub(super) count: usize,
    /// Offset of each term.
    pub(super) offsets: Vec<isize>,
    /// Tap of each term, if there are limits.
    pub(super) taps: Vec<u32>,
    /// For each tap, its contribution to the coordinate of each limit.
    pub(super) reaches: Vec<i64>,
}

impl Terms {
    /// Analyses terms of a grid.
    pub(super) fn new(grid: &Grid, terms: Range<usize>) -> Terms {
        let offsets = offsets(&grid.terms, terms.clone());
        let mut made = Terms { count: terms.len(), offsets, taps: vec![], reaches: vec![] };
        if grid.limits.is_empty() {
            return made;
        }
        let period = grid.taps();
        made.taps = (0..period as u32).cycle().take(terms.len()).collect();
        for term in terms.take(period) {
            made.reaches.extend(grid.limits.iter().map(|l| stepped(&grid.terms, |d| l.terms[d], term)));
        }
        made
    }
}

/// Range of the elements `0..count` that are inside all limits; the coordinate of limit `i` starts at `at(i)` and
/// advances by `steps` from element to element. Such elements are always contiguous.
#[inline(always)]
pub(super) fn within(
    limits: &[Limit],
    at: impl Fn(usize) -> i64,
    steps: impl Fn(&Limit) -> i64,
    count: usize,
) -> Range<usize> {
    let (mut start, mut end, mut i) = (0, count as i64, 0);
    // Numbers, not iterators, which are not inlined into functions with target features.
    while i < limits.len() {
        let (limit, at) = (&limits[i], at(i));
        i += 1;
        let (lo, hi) = (limit.valid.0 - at, limit.valid.1 - at);
        let (first, last) = match steps(limit) {
            0 if lo <= 0 && hi > 0 => continue,
            0 => return 0..0,
            1 => (lo, hi),
            2 => ((lo + 1) >> 1, (hi + 1) >> 1),
            s if s > 0 => (-(-lo).div_euclid(s), -(-hi).div_euclid(s)),
            // Descending: at most hi - 1, at least lo.
            s => (-(hi - 1).div_euclid(-s), (-lo).div_euclid(-s) + 1),
        };
        (start, end) = (start.max(first), end.min(last));
    }
    if start < end { start as usize..end as usize } else { 0..0 }
}
