//! The loops: one block of a reduction, along memory or across it, and blocks put together.
//!
//! The order in which elements meet depends on their place in the row-major order of the reduced dimensions and on nothing
//! else - not on strides, threads or which of the two loops runs: a block of [`BLOCK`] elements is added up in [`LANES`]
//! lanes (element `r` in lane `r mod LANES`), lanes pairwise, blocks pairwise. So a sum has the same bits whatever
//! layout its input has and however many threads take part, and its error grows with the logarithm of its length.

use super::monoid::Monoid;
use crate::simd::{Job, dispatch};
use std::ops::Range;

/// Elements that are added up in sequence by one call: 128 in each lane.
pub const BLOCK: usize = 4096;
/// Sums carried side by side: enough to hide the latency of an addition in four 256-bit registers.
pub const LANES: usize = 32;

/// The reduced dimensions: sizes and strides in elements, outermost first, and their product.
#[derive(Debug)]
pub struct Reduced {
    /// Sizes and strides; never empty.
    pub dims: Vec<(usize, isize)>,
    /// Number of elements reduced to one.
    pub count: usize,
}

impl Reduced {
    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.count.div_ceil(BLOCK)
    }

    /// The elements of a block.
    pub fn block(&self, number: usize) -> Range<usize> {
        number * BLOCK..self.count.min((number + 1) * BLOCK)
    }

    /// Calls `each` with the number in the range, the offset, and the length of every stretch of elements that are the innermost
    /// stride apart.
    #[inline(always)]
    pub fn runs(&self, range: Range<usize>, mut each: impl FnMut(usize, isize, usize)) {
        let (&(inner, stride), outer) = self.dims.split_last().expect("there is a dimension");
        let mut at = range.start;
        while at < range.end {
            let mut rest = at / inner;
            let within = at % inner;
            let mut offset = within as isize * stride;
            for &(size, stride) in outer.iter().rev() {
                offset += (rest % size) as isize * stride;
                rest /= size;
            }
            let n = (inner - within).min(range.end - at);
            each(at - range.start, offset, n);
            at += n;
        }
    }
}

/// Partial results of blocks, put together pairwise as they come.
pub struct Tree<M: Monoid> {
    partial: Vec<M::Acc>,
    count: usize,
}

impl<M: Monoid> Tree<M> {
    /// Of nothing yet.
    pub fn new() -> Tree<M> {
        Tree { partial: Vec::new(), count: 0 }
    }

    /// The next block's.
    pub fn push(&mut self, mut value: M::Acc) {
        let mut n = self.count;
        while n & 1 == 1 {
            let before = self.partial.pop().expect("an odd count has a partial of that size");
            value = M::combine(before, value);
            n >>= 1;
        }
        self.partial.push(value);
        self.count += 1;
    }

    /// The result of all, ready for the next.
    pub fn take(&mut self) -> M::Acc {
        self.count = 0;
        let mut value = self.partial.pop().unwrap_or(M::IDENTITY);
        while let Some(before) = self.partial.pop() {
            value = M::combine(before, value);
        }
        value
    }
}

/// One block of one result, along the innermost reduced dimension.
struct RowBlock<'a, M: Monoid> {
    input: *const M::In,
    reduced: &'a Reduced,
    range: Range<usize>,
}

impl<M: Monoid> Job for RowBlock<'_, M> {
    type Out = M::Acc;
    #[inline(always)]
    fn run(self) -> M::Acc {
        let mut lanes = [M::IDENTITY; LANES];
        let stride = self.reduced.dims[self.reduced.dims.len() - 1].1;
        self.reduced.runs(self.range, |number, offset, n| {
            // SAFETY: the stretch lies inside the input, as the caller of `row_block` promises.
            unsafe {
                let from = self.input.offset(offset);
                if stride == 1 {
                    fold_run::<M>(&mut lanes, number % LANES, from, 1, n);
                } else {
                    fold_run::<M>(&mut lanes, number % LANES, from, stride, n);
                }
            }
        });
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] = M::combine(lanes[i], lanes[i + half]);
            }
            half /= 2;
        }
        lanes[0]
    }
}

/// Adds a stretch of elements to the lanes, the first one to lane `phase`.
#[inline(always)]
unsafe fn fold_run<M: Monoid>(lanes: &mut [M::Acc; LANES], phase: usize, from: *const M::In, stride: isize, n: usize) {
    // SAFETY (of each read): the caller promises `n` elements `stride` apart.
    let at = |i: usize| unsafe { M::lift(from.offset(i as isize * stride).read()) };
    let head = if phase == 0 { 0 } else { (LANES - phase).min(n) };
    for i in 0..head {
        lanes[phase + i] = M::combine(lanes[phase + i], at(i));
    }
    let mut i = head;
    // The lanes live in registers during the body.
    let mut sums = *lanes;
    while i + LANES <= n {
        for (l, sum) in sums.iter_mut().enumerate() {
            *sum = M::combine(*sum, at(i + l));
        }
        i += LANES;
    }
    *lanes = sums;
    for l in 0..n - i {
        lanes[l] = M::combine(lanes[l], at(i + l));
    }
}

/// The partial result of the elements `range` (in a block) of the result that starts at `input`.
///
/// # Safety
/// All elements reached from `input` by these are readable.
pub unsafe fn row_block<M: Monoid>(input: *const M::In, reduced: &Reduced, range: Range<usize>) -> M::Acc {
    dispatch(RowBlock::<M> { input, reduced, range })
}

/// One block of neighbouring results, across the innermost kept dimension.
struct ColumnBlock<'a, M: Monoid> {
    input: *const M::In,
    step: isize,
    reduced: &'a Reduced,
    range: Range<usize>,
    width: usize,
    lanes: &'a mut Vec<M::Acc>,
}

impl<M: Monoid> Job for ColumnBlock<'_, M> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let ColumnBlock { input, step, reduced, range, width, lanes } = self;
        // Lanes that no element reaches hold the identity, and putting it in changes nothing: they are left out.
        let used = range.len().next_power_of_two().min(LANES);
        lanes.clear();
        lanes.resize(used * width, M::IDENTITY);
        let stride = reduced.dims[reduced.dims.len() - 1].1;
        reduced.runs(range, |number, offset, n| {
            for i in 0..n {
                let lane = (number + i) % LANES;
                let sums = &mut lanes[lane * width..][..width];
                // SAFETY: the element and its neighbours lie inside the input, as the caller of `column_block` promises.
                unsafe {
                    let from = input.offset(offset + i as isize * stride);
                    if step == 1 {
                        let row = std::slice::from_raw_parts(from, width);
                        for (sum, &x) in sums.iter_mut().zip(row) {
                            *sum = M::combine(*sum, M::lift(x));
                        }
                    } else {
                        for (w, sum) in sums.iter_mut().enumerate() {
                            *sum = M::combine(*sum, M::lift(from.offset(w as isize * step).read()));
                        }
                    }
                }
            }
        });
        let mut half = used / 2;
        while half > 0 {
            let (low, high) = lanes.split_at_mut(half * width);
            for (a, &b) in low.iter_mut().zip(&*high) {
                *a = M::combine(*a, b);
            }
            half /= 2;
        }
    }
}

/// Leaves in `lanes[..width]` the partial results of `width` results, the first of which starts at `input` and the others `step`
/// elements apart.
///
/// # Safety
/// All elements reached from these by `range` are readable.
pub unsafe fn column_block<M: Monoid>(
    input: *const M::In,
    step: isize,
    reduced: &Reduced,
    range: Range<usize>,
    width: usize,
    lanes: &mut Vec<M::Acc>,
) {
    dispatch(ColumnBlock::<M> { input, step, reduced, range, width, lanes });
}

/// The first of the largest keys of a block, for neighbouring results.
struct ColumnArg<'a, M: Monoid> {
    input: *const M::In,
    step: isize,
    reduced: &'a Reduced,
    range: Range<usize>,
    best: &'a mut [M::Acc],
    place: &'a mut [i64],
}

impl<M: Monoid<Acc: Ord>> Job for ColumnArg<'_, M> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let ColumnArg { input, step, reduced, range, best, place } = self;
        let first = range.start;
        let stride = reduced.dims[reduced.dims.len() - 1].1;
        best.fill(M::IDENTITY);
        place.fill(first as i64);
        reduced.runs(range, |number, offset, n| {
            for i in 0..n {
                let r = (first + number + i) as i64;
                // SAFETY: as in `ColumnBlock`.
                let from = unsafe { input.offset(offset + i as isize * stride) };
                for (w, (best, place)) in best.iter_mut().zip(place.iter_mut()).enumerate() {
                    // SAFETY: as above.
                    let key = unsafe { M::lift(from.offset(w as isize * step).read()) };
                    let better = key > *best;
                    *best = if better { key } else { *best };
                    *place = if better { r } else { *place };
                }
            }
        });
    }
}

/// Leaves the largest key of `range` in `best` and the number of its first element in `place`, one for each of the results that
/// start `step` elements apart from `input` on.
///
/// # Safety
/// As [`column_block`].
pub unsafe fn column_arg<M: Monoid<Acc: Ord>>(
    input: *const M::In,
    step: isize,
    reduced: &Reduced,
    range: Range<usize>,
    best: &mut [M::Acc],
    place: &mut [i64],
) {
    dispatch(ColumnArg::<M> { input, step, reduced, range, best, place });
}

/// Number of the first element in `range` that has that key.
///
/// # Safety
/// As [`row_block`].
pub unsafe fn find<M: Monoid<Acc: Ord>>(
    input: *const M::In,
    reduced: &Reduced,
    range: Range<usize>,
    key: M::Acc,
) -> usize {
    let first = range.start;
    let stride = reduced.dims[reduced.dims.len() - 1].1;
    let mut found = None;
    reduced.runs(range, |number, offset, n| {
        if found.is_none() {
            // SAFETY: the caller's promise.
            let at = |i: usize| unsafe { M::lift(input.offset(offset + i as isize * stride).read()) };
            found = (0..n).find(|&i| at(i) == key).map(|i| first + number + i);
        }
    });
    found.unwrap_or(first)
}
