//! Factors in memory whose lines and terms have several dimensions: the windows of a convolution, axes that a product
//! has merged.
//!
//! In: sizes and strides of the lines and of the terms, both outermost first. Out: panels as those of `pack`, filled in
//! stretches of neighbouring lines, or of neighbouring terms that are turned. Nothing is computed and nothing is put down
//! in between, as it is where a body gives a block of the factor. Always true: values are kept (widening is exact), and
//! only elements of the factor are read.

use super::pack::{self, Cuts, Strided};
use crate::number::{Number, Wide};
use crate::simd::{Job, Shared, dispatch};
use std::ops::Range;

/// A factor as it lies. Strides are in elements.
#[derive(Debug)]
pub struct Grid {
    /// The first element of each product of the batch.
    pub first: Vec<*const u8>,
    /// Sizes and strides of the lines.
    pub lines: Vec<(usize, isize)>,
    /// Sizes and strides of the terms.
    pub terms: Vec<(usize, isize)>,
}

// SAFETY: its addresses are only read, under the promise of whoever makes a contraction of it.
unsafe impl Sync for Grid {}

/// The factor of one product.
#[derive(Clone, Copy)]
pub struct At<'a, T> {
    grid: &'a Grid,
    first: Shared<T>,
}

/// Lines or terms that lie one step apart: the place of the first in the panel, its offset, and how many.
struct Stretch {
    place: usize,
    offset: isize,
    count: usize,
}

impl Grid {
    /// Whether panels are filled from stretches of terms.
    fn terms_are_neighbours(&self) -> bool {
        inner(&self.lines).1 != 1 && inner(&self.terms).1 == 1 && inner(&self.terms).0 >= 4
    }

    /// The factor of product number `batch`.
    pub fn of_product<T>(&self, batch: usize) -> At<'_, T> {
        At { grid: self, first: Shared(self.first[batch].cast::<T>().cast_mut()) }
    }
}

/// Offsets of a range of row-major numbers of these dimensions.
fn offsets(dims: &[(usize, isize)], range: Range<usize>) -> impl Iterator<Item = isize> {
    range.map(move |mut number| {
        let mut offset = 0;
        for &(size, stride) in dims.iter().rev() {
            offset += (number % size) as isize * stride;
            number /= size;
        }
        offset
    })
}

impl<T: Number> At<'_, T> {
    /// Packs lines × terms into panels.
    ///
    /// # Safety
    /// The rectangle is inside the factor, whose elements are readable, and `to` has room for the panels.
    pub unsafe fn pack(self, lines: Range<usize>, terms: Range<usize>, cuts: Cuts, to: *mut T::Wide) {
        let count = terms.len();
        let step = inner(&self.grid.lines).1;
        let turned = self.grid.terms_are_neighbours().then(|| stretches(&self.grid.terms, terms.clone()));
        let terms: Vec<isize> = offsets(&self.grid.terms, terms).collect();
        for number in 0..cuts.count() {
            let (start, width) = cuts.get(number);
            let stretches = stretches(&self.grid.lines, lines.start + start..lines.start + start + width);
            let to = to.wrapping_add(number * cuts.most() * count);
            let (first, panel) = (self.first, cuts.most());
            let Some(turned) = &turned else {
                dispatch(Panel { first, terms: &terms, stretches: &stretches, step, width, panel, to: Shared(to) });
                continue;
            };
            for (lines, terms) in stretches.iter().flat_map(|lines| turned.iter().map(move |terms| (lines, terms))) {
                let first = Shared(first.get().wrapping_offset(lines.offset + terms.offset));
                let to = to.wrapping_add(terms.place * panel + lines.place);
                // SAFETY: the caller's promise for these lines and terms.
                unsafe {
                    pack::transposed(Strided { first, line: step, term: 1 }, lines.count, terms.count, panel, to)
                };
            }
            for line in (0..count).flat_map(|term| (width..panel).map(move |line| term * panel + line)) {
                // SAFETY: the panel has room for all its lines.
                unsafe { to.add(line).write(T::Wide::ZERO) };
            }
        }
    }
}

/// Size and stride of the last of these dimensions.
fn inner(dims: &[(usize, isize)]) -> (usize, isize) {
    dims.last().copied().unwrap_or((1, 0))
}

/// Stretches of a range of row-major numbers of these dimensions, along the last one.
fn stretches(dims: &[(usize, isize)], range: Range<usize>) -> Vec<Stretch> {
    let (size, mut at, mut all) = (inner(dims).0, range.start, vec![]);
    while at < range.end {
        let count = (size - at % size).min(range.end - at);
        let offset = offsets(dims, at..at + 1).next().expect("one number");
        all.push(Stretch { place: at - range.start, offset, count });
        at += count;
    }
    all
}

/// One panel.
struct Panel<'a, T: Number> {
    first: Shared<T>,
    terms: &'a [isize],
    stretches: &'a [Stretch],
    /// From line to line of a stretch.
    step: isize,
    width: usize,
    panel: usize,
    to: Shared<T::Wide>,
}

impl<T: Number> Job for Panel<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (number, &term) in self.terms.iter().enumerate() {
            let to = self.to.get().wrapping_add(number * self.panel);
            let from = self.first.get().cast_const().wrapping_offset(term);
            for s in self.stretches {
                let (from, to) = (from.wrapping_offset(s.offset), to.wrapping_add(s.place));
                // SAFETY: the promise of `pack`: the lines of a stretch are in the factor and in the panel.
                unsafe {
                    match self.step {
                        1 => neighbours(from, to, s.count),
                        step => {
                            for line in 0..s.count {
                                to.add(line).write(from.wrapping_offset(line as isize * step).read().widen());
                            }
                        }
                    }
                }
            }
            for line in self.width..self.panel {
                // SAFETY: the panel has room for all its lines.
                unsafe { to.add(line).write(T::Wide::ZERO) };
            }
        }
    }
}

/// Copies neighbours in chunks of a size that is known, the last of which may overlap the one before.
///
/// # Safety
/// So many elements are readable and writable.
#[inline(always)]
unsafe fn neighbours<T: Number>(from: *const T, to: *mut T::Wide, count: usize) {
    // SAFETY: the caller's promise: the chunks lie within the elements.
    unsafe {
        match count {
            16.. => chunks::<T, 16>(from, to, count),
            8.. => chunks::<T, 8>(from, to, count),
            4.. => chunks::<T, 4>(from, to, count),
            _ => chunks::<T, 1>(from, to, count),
        }
    }
}

/// # Safety
/// So many elements are readable and writable; there are `N` or more, or none.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Bf16;

    /// Packs some lines and terms of windows, and compares each place with the element that belongs there.
    fn packed<T: Number>(of: impl Fn(usize) -> T, lines: Range<usize>, terms: Range<usize>, panel: usize, step: isize)
    where
        T::Wide: PartialEq + std::fmt::Debug,
    {
        // Windows of 3 × 2 over 4 channels of 11 × 40, as many as there are with that step along rows.
        let width = (40 - 2) / step as usize + 1;
        let memory: Vec<T> = (0..4 * 11 * 40).map(&of).collect();
        let grid = Grid {
            first: vec![std::ptr::null(), memory.as_ptr().cast()],
            lines: vec![(9, 40), (width, step)],
            terms: vec![(4, 440), (3, 40), (2, 1)],
        };
        let cuts = Cuts::whole(lines.len(), panel);
        let nothing = of(77).widen();
        let mut to = vec![nothing; cuts.count() * panel * terms.len()];
        // SAFETY: the memory has all windows, and there is room for the panels.
        unsafe { grid.of_product::<T>(1).pack(lines.clone(), terms.clone(), cuts, to.as_mut_ptr()) };
        // The same elements with the names exchanged: lines are what windows hold, terms are windows.
        let exchanged = Grid { first: grid.first.clone(), lines: grid.terms.clone(), terms: grid.lines.clone() };
        let mut turned = vec![nothing; terms.len().next_multiple_of(panel) * lines.len()];
        let cuts = Cuts::whole(terms.len(), panel);
        // SAFETY: as above.
        unsafe { exchanged.of_product::<T>(1).pack(terms.clone(), lines.clone(), cuts, turned.as_mut_ptr()) };
        for (n, got) in turned.iter().enumerate() {
            let (number, l, t) = (n / (panel * lines.len()), n / panel % lines.len(), n % panel);
            let (t, l) = (terms.start + number * panel + t, lines.start + l);
            let place = t / 6 * 440 + t / 2 % 3 * 40 + t % 2 + l / width * 40 + l % width * step as usize;
            let want = if t < terms.end { memory[place].widen() } else { T::Wide::ZERO };
            assert_eq!(*got, want, "exchanged: line {t}, term {l} of {terms:?} and {lines:?}, panels of {panel}");
        }
        for (n, got) in to.iter().enumerate() {
            let (number, term, line) = (n / (panel * terms.len()), n / panel % terms.len(), n % panel);
            let (t, l) = (terms.start + term, lines.start + number * panel + line);
            let place = t / 6 * 440 + t / 2 % 3 * 40 + t % 2 + l / width * 40 + l % width * step as usize;
            let want = if l < lines.end { memory[place].widen() } else { T::Wide::ZERO };
            assert_eq!(*got, want, "line {l}, term {t} of {lines:?} and {terms:?}, panels of {panel}, step {step}");
        }
    }

    #[test]
    fn each_element_has_its_place() {
        for panel in [6, 8, 14, 32] {
            for (lines, terms) in [(0..342, 0..24), (5..38, 3..4), (37..41, 5..19), (100..229, 7..24), (3..4, 0..1)] {
                packed(|i| i as f32, lines.clone(), terms.clone(), panel, 1);
                packed(|i| Bf16::narrow((i % 200) as f32), lines.clone(), terms.clone(), panel, 1);
                packed(|i| i as i64, lines, terms, panel, 1);
            }
            packed(|i| i as f64, 2..170, 0..24, panel, 2);
        }
    }
}
