//! Packing of a grid ([`Grid`](super::Grid)), one panel at a time.
//!
//! In: terms, and the lines of a panel. Out: the panel. Runs of lines at a fixed stride are copied; runs of contiguous
//! terms are transposed; elements outside the limits are filled in between. Elements of 4 bytes go by masked vectors if
//! the processor has them ([`masked`]).

use super::masked::{self, Vectors};
use super::terms::{StridedRun, StridedRuns, Terms, inner, stepped, within};
use super::{At, Limit};
use crate::gemm::pack::{self, Strided};
use crate::number::{Number, Wide};
use crate::simd::{Job, Shared, dispatch};
use std::ops::Range;
use thalweg_ir::MAX_RANK;

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
    pub(super) fn new(of: At<'a, T>, terms: &'a Terms, most: usize) -> Panel<'a, T> {
        let step = inner(&of.grid.lines).1;
        Panel {
            of,
            terms,
            most,
            step,
            outside: T::Wide::of_bits(of.grid.outside),
            width: 0,
            runs: vec![],
            at: vec![],
            inside: vec![],
            vectors: masked::takes::<T>(step).then(Vectors::default),
        }
    }

    /// Packs the panel of these lines.
    ///
    /// # Safety
    /// Lines and terms are in the factor, whose elements are readable, and `to` has space for the panel.
    pub(super) unsafe fn fill(&mut self, lines: Range<usize>, to: *mut T::Wide) {
        let grid = self.of.grid;
        self.width = lines.len();
        self.runs.clear();
        self.runs.extend(StridedRuns::new(&grid.lines, lines));
        self.at.clear();
        for s in &self.runs {
            let at = |l: &Limit| l.first[self.of.product] + stepped(&grid.lines, |d| l.lines[d], s.number);
            self.at.extend(grid.limits.iter().map(at));
        }
        if let Some(terms) = &self.terms.runs {
            // SAFETY: the caller's promise.
            return unsafe { self.pack_transposed(terms, to) };
        }
        self.find_inside();
        let Some(vectors) = &mut self.vectors else { return dispatch(Copy { panel: self, to: Shared(to) }) };
        vectors.set((self.width, self.most, self.step), &self.runs, &self.inside);
        let first = self.of.first.get().cast_const().cast();
        let terms = (&self.terms.offsets[..], &self.terms.taps[..]);
        // SAFETY: the caller's promise; elements of 4 bytes need no widening.
        unsafe { vectors.fill(first, terms, masked::bits(self.outside), to.cast()) }
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
                let r = within(limits, at.iter().zip(tap).map(|(a, b)| a + b), step, s.count);
                self.inside.push((r.start as u32, r.end as u32));
            }
        }
    }

    /// Packs the panel from runs of terms.
    ///
    /// # Safety
    /// As for [`Panel::fill`].
    unsafe fn pack_transposed(&self, terms: &[StridedRun], to: *mut T::Wide) {
        let limits = self.of.grid.limits.len();
        for (n, lines) in self.runs.iter().enumerate() {
            for terms in terms {
                // SAFETY: the caller's promise for these lines and terms.
                unsafe { self.turn(lines, &self.at[n * limits..(n + 1) * limits], terms, to) };
            }
        }
        for line in (0..self.terms.count).flat_map(|term| (self.width..self.most).map(move |l| term * self.most + l)) {
            // SAFETY: the panel has space for all its lines.
            unsafe { to.add(line).write(T::Wide::ZERO) };
        }
    }

    /// Transposes a run of lines × a run of terms. Terms inside the limits on all lines are transposed at once; the
    /// remaining few are written one by one.
    ///
    /// # Safety
    /// As for [`Panel::fill`].
    unsafe fn turn(&self, lines: &StridedRun, at: &[i64], terms: &StridedRun, to: *mut T::Wide) {
        let grid = self.of.grid;
        let from = self.of.first.get().wrapping_offset(lines.offset + terms.offset);
        let to = to.wrapping_add(terms.place * self.most + lines.place);
        let of_terms = |l: &Limit| stepped(&grid.terms, |d| l.terms[d], terms.number);
        let mut first = [0; MAX_RANK];
        first.iter_mut().zip(at.iter().zip(&grid.limits)).for_each(|(first, (at, l))| *first = at + of_terms(l));
        let inside = |line: usize| {
            let of_line = |l: &Limit| l.lines.last().map_or(0, |step| line as i64 * step);
            let at = first.iter().zip(&grid.limits).map(|(at, l)| at + of_line(l));
            within(&grid.limits, at, |l| l.terms.last().copied().unwrap_or(0), terms.count)
        };
        let both = |a: Range<usize>, b: Range<usize>| a.start.max(b.start)..a.end.min(b.end);
        let common = match grid.limits.is_empty() {
            true => 0..terms.count,
            false => (0..lines.count).map(inside).reduce(both).filter(|r| !r.is_empty()).unwrap_or(0..0),
        };
        let start = Shared(from.wrapping_add(common.start));
        let turned = Strided { first: start, line: self.step, term: 1 };
        let there = to.wrapping_add(common.start * self.most);
        // SAFETY: the caller's promise for these lines and terms, which are inside the limits.
        unsafe { pack::transposed::<T>(turned, lines.count, common.len(), self.most, there) };
        if common.len() == terms.count {
            return;
        }
        for line in 0..lines.count {
            let own = inside(line);
            for term in (0..common.start).chain(common.end..terms.count) {
                let element = from.wrapping_offset(line as isize * self.step + term as isize);
                // SAFETY: the caller's promise: the panel has space, and elements inside the limits are in memory.
                unsafe {
                    let value = if own.contains(&term) { element.read().widen() } else { self.outside };
                    to.wrapping_add(term * self.most + line).write(value);
                }
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
