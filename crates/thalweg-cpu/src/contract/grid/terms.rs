//! What is known of the terms of a grid before a panel is filled: it serves all panels of a block of terms.
//!
//! In: a grid and some terms. Out: where they lie, and for each what it adds to the coordinates of the limits. Terms
//! that add the same are one *tap*: a window of 3 × 3 over any number of channels has nine.

use super::{Grid, Limit};
use std::ops::Range;
use thalweg_ir::MAX_RANK;

/// Lines or terms that lie one step apart: the place of the first in the panel, its offset, how many, and its number.
#[derive(Clone, Copy)]
pub(super) struct Stretch {
    pub(super) place: usize,
    pub(super) offset: isize,
    pub(super) count: usize,
    pub(super) number: usize,
}

/// What a row-major number of these dimensions is, by a step for each.
pub(super) fn stepped(sizes: &[(usize, isize)], step: impl Fn(usize) -> i64, mut number: usize) -> i64 {
    let mut at = 0;
    for (d, &(size, _)) in sizes.iter().enumerate().rev() {
        at += (number % size) as i64 * step(d);
        number /= size;
    }
    at
}

/// Offset of a row-major number of these dimensions.
fn offset(dims: &[(usize, isize)], number: usize) -> isize {
    stepped(dims, |d| dims[d].1 as i64, number) as isize
}

/// Offsets of a range of them, one behind the other.
fn offsets(dims: &[(usize, isize)], range: Range<usize>) -> Vec<isize> {
    let mut all = Vec::with_capacity(range.len());
    for s in Stretches::new(dims, range) {
        let step = inner(dims).1;
        all.extend((0..s.count as isize).map(|i| s.offset + i * step));
    }
    all
}

/// Size and stride of the last of these dimensions.
pub(super) fn inner(dims: &[(usize, isize)]) -> (usize, isize) {
    dims.last().copied().unwrap_or((1, 0))
}

/// Stretches of a range of row-major numbers of these dimensions, along the last one.
pub(super) struct Stretches<'a> {
    dims: &'a [(usize, isize)],
    at: usize,
    range: Range<usize>,
    /// Index along each dimension, and the offset there.
    index: [usize; MAX_RANK],
    offset: isize,
}

impl<'a> Stretches<'a> {
    pub(super) fn new(dims: &'a [(usize, isize)], range: Range<usize>) -> Stretches<'a> {
        let (mut index, mut number) = ([0; MAX_RANK], range.start);
        for (index, &(size, _)) in index.iter_mut().zip(dims).rev() {
            (*index, number) = (number % size, number / size);
        }
        Stretches { dims, at: range.start, offset: offset(dims, range.start), range, index }
    }
}

impl Iterator for Stretches<'_> {
    type Item = Stretch;
    fn next(&mut self) -> Option<Stretch> {
        if self.at >= self.range.end {
            return None;
        }
        let left = self.range.end - self.at;
        let Some(last) = self.dims.len().checked_sub(1) else {
            self.at = self.range.end;
            return Some(Stretch { place: 0, offset: self.offset, count: left, number: self.range.start });
        };
        let count = (self.dims[last].0 - self.index[last]).min(left);
        let made = Stretch { place: self.at - self.range.start, offset: self.offset, count, number: self.at };
        self.at += count;
        self.index[last] += count;
        self.offset += count as isize * self.dims[last].1;
        // On to the next line of the dimension before.
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

/// Terms that are packed: the same for all panels.
pub(super) struct Terms {
    pub(super) count: usize,
    /// Of each term, where panels are filled from stretches of lines.
    pub(super) offsets: Vec<isize>,
    /// Else their own.
    pub(super) stretches: Option<Vec<Stretch>>,
    /// Of each term the number of its tap, where there are limits.
    pub(super) taps: Vec<u32>,
    /// Of each tap what it adds to each limit's coordinate.
    pub(super) reaches: Vec<i64>,
}

impl Terms {
    /// Terms of a grid, whose panels are filled from stretches of them if they are `turned`.
    pub(super) fn new(grid: &Grid, terms: Range<usize>, turned: bool) -> Terms {
        let mut made = Terms { count: terms.len(), offsets: vec![], stretches: None, taps: vec![], reaches: vec![] };
        if turned {
            made.stretches = Some(Stretches::new(&grid.terms, terms).collect());
            return made;
        }
        made.offsets = offsets(&grid.terms, terms.clone());
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

/// Which of `count` elements, whose coordinates are `at` and go on by `steps`, are inside of all limits: they follow one
/// another.
#[inline]
pub(super) fn within(
    limits: &[Limit],
    at: impl Iterator<Item = i64>,
    steps: impl Fn(&Limit) -> i64,
    count: usize,
) -> Range<usize> {
    let (mut start, mut end) = (0, count as i64);
    for (limit, at) in limits.iter().zip(at) {
        let (lo, hi) = (limit.valid.0 - at, limit.valid.1 - at);
        let (first, last) = match steps(limit) {
            0 if lo <= 0 && hi > 0 => continue,
            0 => return 0..0,
            1 => (lo, hi),
            s if s > 0 => (-(-lo).div_euclid(s), -(-hi).div_euclid(s)),
            // Downwards: at most hi - 1, at least lo.
            s => (-(hi - 1).div_euclid(-s), (-lo).div_euclid(-s) + 1),
        };
        (start, end) = (start.max(first), end.min(last));
    }
    if start < end { start as usize..end as usize } else { 0..0 }
}
