//! The loops: one block of a reduction, along memory or across it, and blocks put together.
//!
//! The order in which elements meet depends on their place in the row-major order of the reduced dimensions and on nothing
//! else - not on strides, threads or which of the two loops runs: a block of [`BLOCK`] elements is added up in [`LANES`]
//! lanes (element `r` in lane `r mod LANES`), lanes pairwise, blocks pairwise. So a sum has the same bits whatever
//! layout its input has and however many threads take part, and its error grows with the logarithm of its length.

use super::monoid::{Mode, Monoid, Slot};
use crate::simd::{Job, dispatch};
use std::marker::PhantomData;
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

    /// The innermost stride.
    #[inline(always)]
    fn stride(&self) -> isize {
        self.dims[self.dims.len() - 1].1
    }

    /// The offset of an element.
    #[inline(always)]
    fn offset(&self, number: usize) -> isize {
        let (mut offset, mut rest) = (0, number);
        for &(size, stride) in self.dims.iter().rev() {
            offset += (rest % size) as isize * stride;
            rest /= size;
        }
        offset
    }

    /// Calls `each` with the number in the range, the offset, and the length of every stretch of elements that are the innermost
    /// stride apart.
    #[inline(always)]
    pub fn runs(&self, range: Range<usize>, mut each: impl FnMut(usize, isize, usize)) {
        let inner = self.dims[self.dims.len() - 1].0;
        let mut at = range.start;
        while at < range.end {
            let (within, offset) = (at % inner, self.offset(at));
            let n = (inner - within).min(range.end - at);
            each(at - range.start, offset, n);
            at += n;
        }
    }
}

/// The loops of one monoid, on addresses: what the driver, which is compiled once, works with. Partial results are slots.
#[derive(Clone, Copy)]
pub struct Loops {
    /// Bytes of an element.
    pub element: usize,
    /// What the loops are told.
    pub mode: Mode,
    identity: i64,
    row: unsafe fn(*const u8, &Reduced, Range<usize>, Mode) -> i64,
    columns: unsafe fn(Columns<'_>, &mut Vec<u64>, &mut [i64]),
    combine: fn(i64, i64) -> i64,
    finish: unsafe fn(&[i64], Mode, *mut u8, isize),
}

/// Neighbouring results, and the elements of a block that go into each.
pub struct Columns<'a> {
    /// The first result's first element.
    pub input: *const u8,
    /// Elements from one result to the next.
    pub step: isize,
    /// The reduced dimensions.
    pub reduced: &'a Reduced,
    /// The block.
    pub range: Range<usize>,
    /// What the loops are told.
    pub mode: Mode,
}

impl Loops {
    /// Those of a monoid.
    pub fn of<M: Monoid>(mode: Mode) -> Loops {
        Loops {
            element: size_of::<M::In>(),
            mode,
            identity: M::identity().into_slot(),
            row: |input, reduced, range, mode| {
                let job = RowBlock::<M> { input: input.cast(), reduced, range, mode };
                if M::VECTOR { dispatch(job) } else { job.run() }.into_slot()
            },
            columns: |columns, lanes, out| {
                let job = ColumnBlock::<M> { columns, lanes, out, monoid: PhantomData };
                if M::VECTOR { dispatch(job) } else { job.run() }
            },
            combine: |a, b| M::combine(M::Acc::from_slot(a), M::Acc::from_slot(b)).into_slot(),
            finish: |slots, mode, to, bytes| {
                for (i, &slot) in slots.iter().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe { M::finish(M::Acc::from_slot(slot), mode, to.offset(i as isize * bytes)) };
                }
            },
        }
    }

    /// The partial result of the elements `range` (in a block) of the result that starts at `input`.
    ///
    /// # Safety
    /// All elements reached from `input` by these are readable.
    pub unsafe fn row(&self, input: *const u8, reduced: &Reduced, range: Range<usize>) -> i64 {
        // SAFETY: the caller's promise.
        unsafe { (self.row)(input, reduced, range, self.mode) }
    }

    /// The partial results of neighbouring results, one for each place of `out`; `lanes` is scratch.
    ///
    /// # Safety
    /// All elements reached from these by the range are readable.
    pub unsafe fn columns(&self, columns: Columns<'_>, lanes: &mut Vec<u64>, out: &mut [i64]) {
        // SAFETY: the caller's promise.
        unsafe { (self.columns)(columns, lanes, out) }
    }

    /// Writes results as elements, `bytes` apart.
    ///
    /// # Safety
    /// There is room for them.
    pub unsafe fn finish(&self, slots: &[i64], to: *mut u8, bytes: isize) {
        // SAFETY: the caller's promise.
        unsafe { (self.finish)(slots, self.mode, to, bytes) }
    }
}

/// Partial results of blocks, put together pairwise as they come.
#[derive(Default)]
pub struct Tree {
    partial: Vec<i64>,
    count: usize,
}

impl Tree {
    /// The next block's.
    pub fn push(&mut self, loops: &Loops, mut value: i64) {
        let mut n = self.count;
        while n & 1 == 1 {
            let before = self.partial.pop().expect("an odd count has a partial of that size");
            value = (loops.combine)(before, value);
            n >>= 1;
        }
        self.partial.push(value);
        self.count += 1;
    }

    /// The result of all, ready for the next.
    pub fn take(&mut self, loops: &Loops) -> i64 {
        self.count = 0;
        let mut value = self.partial.pop().unwrap_or(loops.identity);
        while let Some(before) = self.partial.pop() {
            value = (loops.combine)(before, value);
        }
        value
    }
}

/// One block of one result, along the innermost reduced dimension.
struct RowBlock<'a, M: Monoid> {
    input: *const M::In,
    reduced: &'a Reduced,
    range: Range<usize>,
    mode: Mode,
}

impl<M: Monoid> Job for RowBlock<'_, M> {
    type Out = M::Acc;
    #[inline(always)]
    fn run(self) -> M::Acc {
        let mut lanes = [M::identity(); LANES];
        let stride = self.reduced.stride();
        self.reduced.runs(self.range, |number, offset, n| {
            // SAFETY: the stretch lies inside the input, as the caller of `Loops::row` promises.
            unsafe {
                let from = self.input.offset(offset);
                if stride == 1 {
                    fold_run::<M>(&mut lanes, number % LANES, from, self.mode, n);
                } else {
                    for i in 0..n {
                        let lane = &mut lanes[(number + i) % LANES];
                        *lane = M::combine(*lane, M::lift(from.offset(i as isize * stride).read(), self.mode));
                    }
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

/// Adds `n` neighbouring elements to the lanes, the first one to lane `phase`.
#[inline(always)]
unsafe fn fold_run<M: Monoid>(lanes: &mut [M::Acc; LANES], phase: usize, from: *const M::In, mode: Mode, n: usize) {
    let at = |i: usize| {
        // SAFETY: the caller promises `n` elements.
        M::lift(unsafe { from.add(i).read() }, mode)
    };
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
    for (l, lane) in lanes[..n - i].iter_mut().enumerate() {
        *lane = M::combine(*lane, at(i + l));
    }
}

/// One block of neighbouring results, across the innermost kept dimension.
struct ColumnBlock<'a, M: Monoid> {
    columns: Columns<'a>,
    lanes: &'a mut Vec<u64>,
    out: &'a mut [i64],
    monoid: PhantomData<M>,
}

impl<M: Monoid> Job for ColumnBlock<'_, M> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Columns { input, step, reduced, range, mode } = self.columns;
        let (input, width) = (input.cast::<M::In>(), self.out.len());
        // Lanes that no element reaches hold the identity, and putting it in changes nothing: they are left out.
        let used = range.len().next_power_of_two().min(LANES);
        let words = (used * width * size_of::<M::Acc>()).div_ceil(8);
        if self.lanes.len() < words {
            self.lanes.resize(words, 0);
        }
        // SAFETY: there are as many bytes, aligned to 8; partial results are numbers, for which any bits are a value.
        let lanes = unsafe { std::slice::from_raw_parts_mut(self.lanes.as_mut_ptr().cast::<M::Acc>(), used * width) };
        lanes.fill(M::identity());
        let stride = reduced.stride();
        reduced.runs(range, |number, offset, n| {
            for i in 0..n {
                let sums = &mut lanes[(number + i) % LANES * width..][..width];
                // SAFETY: the element and its neighbours lie inside the input, as the caller of `Loops::columns` promises.
                unsafe {
                    let from = input.offset(offset + i as isize * stride);
                    if step == 1 {
                        let row = std::slice::from_raw_parts(from, width);
                        for (sum, &x) in sums.iter_mut().zip(row) {
                            *sum = M::combine(*sum, M::lift(x, mode));
                        }
                    } else {
                        for (w, sum) in sums.iter_mut().enumerate() {
                            *sum = M::combine(*sum, M::lift(from.offset(w as isize * step).read(), mode));
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
        for (out, &sum) in self.out.iter_mut().zip(&*lanes) {
            *out = sum.into_slot();
        }
    }
}

/// The loops that find where the largest key is, beside those that find the key.
#[derive(Clone, Copy)]
pub struct ArgLoops {
    /// Those that find the key.
    pub fold: Loops,
    columns: unsafe fn(Columns<'_>, &mut [i64], &mut [u32]),
    find: unsafe fn(*const u8, &Reduced, Range<usize>, Mode, i64) -> usize,
}

impl ArgLoops {
    /// Those of a monoid whose partial results are keys.
    pub fn of<M: Monoid<Acc: Ord>>(mode: Mode) -> ArgLoops {
        ArgLoops {
            fold: Loops::of::<M>(mode),
            columns: |columns, best, place| dispatch(ColumnArg::<M> { columns, best, place, monoid: PhantomData }),
            find: find::<M>,
        }
    }

    /// Leaves the largest keys of neighbouring results in `best` and, in `place`, the numbers in the range of their first elements.
    ///
    /// # Safety
    /// As [`Loops::columns`].
    pub unsafe fn columns(&self, columns: Columns<'_>, best: &mut [i64], place: &mut [u32]) {
        // SAFETY: the caller's promise.
        unsafe { (self.columns)(columns, best, place) }
    }

    /// Number of the first element in `range` that has that key.
    ///
    /// # Safety
    /// As [`Loops::row`].
    pub unsafe fn find(&self, input: *const u8, reduced: &Reduced, range: Range<usize>, key: i64) -> usize {
        // SAFETY: the caller's promise.
        unsafe { (self.find)(input, reduced, range, self.fold.mode, key) }
    }
}

/// The first of the largest keys of a block, for neighbouring results.
struct ColumnArg<'a, M: Monoid> {
    columns: Columns<'a>,
    best: &'a mut [i64],
    place: &'a mut [u32],
    monoid: PhantomData<M>,
}

impl<M: Monoid<Acc: Ord>> Job for ColumnArg<'_, M> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Columns { input, step, reduced, range, mode } = self.columns;
        let input = input.cast::<M::In>();
        let mut keys = vec![M::identity(); self.best.len()];
        self.place.fill(0);
        let stride = reduced.stride();
        reduced.runs(range, |number, offset, n| {
            for i in 0..n {
                let r = (number + i) as u32;
                // SAFETY: as in `ColumnBlock`.
                let from = unsafe { input.offset(offset + i as isize * stride) };
                let better = |best: &mut M::Acc, place: &mut u32, key: M::Acc| {
                    let better = key > *best;
                    *best = if better { key } else { *best };
                    *place = if better { r } else { *place };
                };
                let pairs = keys.iter_mut().zip(self.place.iter_mut());
                if step == 1 {
                    for (w, (best, place)) in pairs.enumerate() {
                        // SAFETY: as above.
                        better(best, place, M::lift(unsafe { from.add(w).read() }, mode));
                    }
                } else {
                    for (w, (best, place)) in pairs.enumerate() {
                        // SAFETY: as above.
                        better(best, place, M::lift(unsafe { from.offset(w as isize * step).read() }, mode));
                    }
                }
            }
        });
        for (best, key) in self.best.iter_mut().zip(keys) {
            *best = key.into_slot();
        }
    }
}

/// See [`ArgLoops::find`].
unsafe fn find<M: Monoid>(input: *const u8, reduced: &Reduced, range: Range<usize>, mode: Mode, key: i64) -> usize {
    let (first, stride) = (range.start, reduced.stride());
    let mut found = None;
    reduced.runs(range, |number, offset, n| {
        if found.is_none() {
            let from = input.cast::<M::In>().wrapping_offset(offset);
            // SAFETY: the caller's promise.
            let at = |i: usize| M::lift(unsafe { from.offset(i as isize * stride).read() }, mode);
            found = (0..n).find(|&i| at(i).into_slot() == key).map(|i| first + number + i);
        }
    });
    found.unwrap_or(first)
}
