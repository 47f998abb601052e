//! Packing of a grid ([`Grid`](super::Grid)) from runs of lines, one panel at a time.
//!
//! In: terms, and the lines of a panel. Out: the panel. Runs of lines at a fixed stride are copied; elements outside the
//! limits are filled in between. Masked vectors do both at once if the processor has them ([`masked`]).

use super::masked::{self, Form, Vectors};
use super::terms::{StridedRun, StridedRuns, Terms, inner, stepped, within};
use super::{At, Limit};
use crate::gemm::{pack, scratch};
use crate::number::{Number, Scheme, Wide};
use crate::simd::{Job, Shared, dispatch};
use std::ops::Range;

/// Packer of panels, with state derived from the lines of the current panel.
pub(super) struct Panel<'a, T: Number> {
    of: At<'a, T>,
    terms: &'a Terms,
    /// Capacity of a panel in lines.
    most: usize,
    /// Stride between the lines of a run.
    step: isize,
    outside: T::Wide,
    /// Number of lines of the current panel.
    width: usize,
    runs: Vec<StridedRun>,
    /// For each run of lines, the coordinate of each limit at its first line, without the terms' contribution.
    at: Vec<i64>,
    /// For each tap, then each run, the range of its lines inside all limits: first, and one past the last.
    inside: Vec<(u32, u32)>,
    vectors: Option<Vectors>,
}

impl<'a, T: Number> Panel<'a, T> {
    /// Packer of panels of a scheme.
    pub(super) fn new<S: Scheme<Element = T>>(of: At<'a, T>, terms: &'a Terms, most: usize) -> Panel<'a, T> {
        let step = inner(&of.grid.lines).1;
        Panel {
            of,
            terms,
            most,
            step,
            outside: T::narrow(T::Wide::of_bits(of.grid.outside)).widen(),
            width: 0,
            runs: vec![],
            at: vec![],
            inside: vec![],
            vectors: Form::of::<S>(step).map(Vectors::new),
        }
    }

    /// Packs the panel of these lines, in slots of a scheme.
    ///
    /// # Safety
    /// Lines and terms are in the factor, whose elements are readable, and `to` has space for the panel. The scheme is
    /// that of [`Panel::new`].
    pub(super) unsafe fn fill<S: Scheme<Element = T>>(&mut self, lines: Range<usize>, to: *mut S::Slot) {
        let grid = self.of.grid;
        self.width = lines.len();
        self.runs.clear();
        self.runs.extend(StridedRuns::new(&grid.lines, lines));
        self.at.clear();
        for s in &self.runs {
            let at = |l: &Limit| l.first[self.of.product] + stepped(&grid.lines, |d| l.lines[d], s.number);
            self.at.extend(grid.limits.iter().map(at));
        }
        self.find_inside();
        if let Some(vectors) = &mut self.vectors {
            vectors.set((self.width, self.most, self.step), &self.runs, &self.inside);
            let first = self.of.first.get().cast_const().cast();
            let terms = (&self.terms.offsets[..], &self.terms.taps[..]);
            // SAFETY: the caller's promise.
            return unsafe { vectors.fill(first, terms, masked::bits(T::narrow(self.outside)), to.cast()) };
        }
        if !S::IN_GROUPS {
            // Slots of single terms are widened elements.
            return dispatch(Copy { panel: self, to: Shared(to.cast()) });
        }
        let (count, most) = (self.terms.count, self.most);
        scratch::with(scratch::Use::Rows, count * most * size_of::<T::Wide>(), |staging| {
            let staging = staging.cast::<T::Wide>();
            dispatch(Copy { panel: self, to: Shared(staging) });
            // SAFETY: the caller's promise; the terms were just copied.
            unsafe { pack::grouped::<S>(staging.cast_const(), count, most, to) };
        });
    }

    /// Computes the range of lines inside the limits, for each tap and run.
    fn find_inside(&mut self) {
        let limits = &self.of.grid.limits;
        self.inside.clear();
        if limits.is_empty() {
            return;
        }
        let step = |l: &Limit| l.lines.last().copied().unwrap_or(0);
        for tap in self.terms.reaches.chunks_exact(limits.len()) {
            for (s, at) in self.runs.iter().zip(self.at.chunks_exact(limits.len())) {
                let r = within(limits, |i| at[i] + tap[i], step, s.count);
                self.inside.push((r.start as u32, r.end as u32));
            }
        }
    }
}

/// Loop that packs a panel by copying runs of lines, one term after the other.
struct Copy<'p, 'a, T: Number> {
    panel: &'p Panel<'a, T>,
    to: Shared<T::Wide>,
}

impl<T: Number> Job for Copy<'_, '_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let p = self.panel;
        for (number, &term) in p.terms.offsets.iter().enumerate() {
            let to = self.to.get().wrapping_add(number * p.most);
            let from = p.of.first.get().cast_const().wrapping_offset(term);
            let inside = match p.terms.taps.get(number) {
                Some(&tap) => &p.inside[tap as usize * p.runs.len()..],
                None => &[],
            };
            for (n, s) in p.runs.iter().enumerate() {
                let (from, to) = (from.wrapping_offset(s.offset), to.wrapping_add(s.place));
                let (start, end) = inside.get(n).map_or((0, s.count), |r| (r.0 as usize, r.1 as usize));
                // SAFETY: the promise of `fill`: the lines of a run are in the panel, those inside the limits in the
                // factor.
                unsafe {
                    if end - start < s.count {
                        (0..s.count).for_each(|line| to.add(line).write(p.outside));
                    }
                    lines::<T>(from.wrapping_offset(start as isize * p.step), to.add(start), end - start, p.step);
                }
            }
            for line in p.width..p.most {
                // SAFETY: the panel has space for all its lines.
                unsafe { to.add(line).write(T::Wide::ZERO) };
            }
        }
    }
}

/// Copies the lines of a run for one term.
///
/// # Safety
/// `count` elements, `step` apart, are readable, and there is space for them.
#[inline(always)]
unsafe fn lines<T: Number>(from: *const T, to: *mut T::Wide, count: usize, step: isize) {
    // SAFETY: the caller's promise.
    unsafe {
        if step == 1 {
            return neighbours(from, to, count);
        }
        if step == 2 {
            return (0..count).for_each(|line| to.add(line).write(from.add(2 * line).read().widen()));
        }
        for line in 0..count {
            to.add(line).write(from.wrapping_offset(line as isize * step).read().widen());
        }
    }
}

/// Copies contiguous elements in chunks of constant size, the last of which may overlap the one before.
///
/// # Safety
/// `count` elements are readable and writable.
#[inline(always)]
unsafe fn neighbours<T: Number>(from: *const T, to: *mut T::Wide, count: usize) {
    // SAFETY: the caller's promise: the chunks are within the elements.
    unsafe {
        match count {
            16.. => chunks::<T, 16>(from, to, count),
            8.. => chunks::<T, 8>(from, to, count),
            4.. => chunks::<T, 4>(from, to, count),
            _ => chunks::<T, 1>(from, to, count),
        }
    }
}

/// Widens `count` contiguous elements, `N` at a time; the last `N` may overlap the ones before.
///
/// # Safety
/// `count` elements are readable and writable; `count` is 0 or at least `N`.
#[inline(always)]
unsafe fn chunks<T: Number, const N: usize>(from: *const T, to: *mut T::Wide, count: usize) {
    let mut at = 0;
    while at < count {
        let start = at.min(count - N);
        // SAFETY: the caller's promise.
        unsafe { to.add(start).cast::<[T::Wide; N]>().write(from.add(start).cast::<[T; N]>().read().map(T::widen)) };
        at += N;
    }
}
