//! Factors in memory whose lines and terms have several dimensions: the windows of a convolution, axes that a product
//! has merged.
//!
//! In: sizes and strides of the lines and of the terms, both outermost first, and limits outside of which every element
//! is the same value (the border of an image). Out: panels as those of `pack`, filled in stretches of neighbouring lines,
//! or of neighbouring terms that are turned. Nothing is computed and nothing is put down in between, as it is where a
//! body gives a block of the factor. Always true: values are kept (widening is exact), and only elements of the factor
//! are read.

use super::pack::{self, Cuts, Strided};
use crate::number::{Number, Wide};
use crate::simd::{Job, Shared, dispatch};
use std::ops::Range;

/// A factor as it lies. Strides are in elements.
#[derive(Debug)]
pub struct Grid {
    /// The first element of each product of the batch (or where it would be, were it inside).
    pub first: Vec<*const u8>,
    /// Sizes and strides of the lines.
    pub lines: Vec<(usize, isize)>,
    /// Sizes and strides of the terms.
    pub terms: Vec<(usize, isize)>,
    /// What an element has to keep to be in memory.
    pub limits: Vec<Limit>,
    /// What the others are, in the form of [`thalweg_ir::Scalar::to_bits`].
    pub outside: u64,
}

/// A coordinate that goes by steps along lines and terms, and its valid range.
#[derive(Debug)]
pub struct Limit {
    /// At the first element of each product.
    pub first: Vec<i64>,
    /// From line to line, for each of their dimensions.
    pub lines: Vec<i64>,
    /// From term to term.
    pub terms: Vec<i64>,
    /// `lo..hi`.
    pub valid: (i64, i64),
}

// SAFETY: its addresses are only read, under the promise of whoever makes a contraction of it.
unsafe impl Sync for Grid {}

/// The factor of one product.
#[derive(Clone, Copy)]
pub struct At<'a, T> {
    grid: &'a Grid,
    product: usize,
    first: Shared<T>,
}

/// Lines or terms that lie one step apart: the place of the first in the panel, its offset, how many, and its number.
struct Stretch {
    place: usize,
    offset: isize,
    count: usize,
    number: usize,
}

impl Grid {
    /// Whether panels are filled from stretches of terms.
    fn terms_are_neighbours(&self) -> bool {
        let (lines, terms) = (inner(&self.lines), inner(&self.terms));
        // Short stretches of lines are slower than longer ones of terms that are turned.
        let lines_run = lines.1 == 1 && (lines.0 >= 8 || lines.0 >= terms.0);
        !lines_run && terms.1 == 1 && terms.0 >= 4
    }

    /// The factor of product number `batch`.
    pub fn of_product<T>(&self, batch: usize) -> At<'_, T> {
        At { grid: self, product: batch, first: Shared(self.first[batch].cast::<T>().cast_mut()) }
    }
}

/// What a row-major number of these dimensions is, by a step for each.
fn stepped<S: Copy + Into<i64>>(sizes: &[(usize, isize)], steps: impl Fn(usize) -> S, mut number: usize) -> i64 {
    let mut at = 0;
    for (d, &(size, _)) in sizes.iter().enumerate().rev() {
        at += (number % size) as i64 * steps(d).into();
        number /= size;
    }
    at
}

/// Offset of a row-major number of these dimensions.
fn offset(dims: &[(usize, isize)], number: usize) -> isize {
    stepped(dims, |d| dims[d].1 as i64, number) as isize
}

impl<'a, T: Number> At<'a, T> {
    /// Packs lines × terms into panels.
    ///
    /// # Safety
    /// The rectangle is inside the factor, whose elements are readable, and `to` has room for the panels.
    pub unsafe fn pack(self, lines: Range<usize>, terms: Range<usize>, cuts: Cuts, to: *mut T::Wide) {
        let turned = self.grid.terms_are_neighbours();
        let terms = Terms::new(self, terms, turned);
        for number in 0..cuts.count() {
            let (start, width) = cuts.get(number);
            let stretches = stretches(&self.grid.lines, lines.start + start..lines.start + start + width);
            let to = to.wrapping_add(number * cuts.most() * terms.count);
            let (step, panel) = (inner(&self.grid.lines).1, cuts.most());
            let outside = T::Wide::of_bits(self.grid.outside);
            let panel =
                Panel { of: self, terms: &terms, stretches: &stretches, step, width, panel, outside, to: Shared(to) };
            // SAFETY: the caller's promise for these lines.
            match turned {
                true => unsafe { panel.turned() },
                false => dispatch(panel),
            }
        }
    }

    /// Where the coordinates of the limits are at a line, without what a term adds.
    fn at_line(&self, line: usize) -> impl Iterator<Item = i64> + use<'a, T> {
        let (grid, product) = (self.grid, self.product);
        grid.limits.iter().map(move |l| l.first[product] + stepped(&grid.lines, |d| l.lines[d], line))
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
        all.push(Stretch { place: at - range.start, offset: offset(dims, at), count, number: at });
        at += count;
    }
    all
}

/// Terms that are packed: the same for all panels.
struct Terms {
    count: usize,
    /// Of each term, where panels are filled from stretches of lines.
    offsets: Vec<isize>,
    /// Else their own.
    stretches: Vec<Stretch>,
    /// Of each term the number of its tap, where there are limits.
    taps: Vec<u32>,
    /// Of each tap what it adds to each limit's coordinate: terms of other channels have the same taps.
    reaches: Vec<i64>,
}

impl Terms {
    fn new<T>(of: At<'_, T>, terms: Range<usize>, turned: bool) -> Terms {
        let grid = of.grid;
        let mut made = Terms { count: terms.len(), offsets: vec![], stretches: vec![], taps: vec![], reaches: vec![] };
        if turned {
            made.stretches = stretches(&grid.terms, terms);
            return made;
        }
        made.offsets = terms.clone().map(|term| offset(&grid.terms, term)).collect();
        if grid.limits.is_empty() {
            return made;
        }
        // The first dimension along which a limit moves: what lies outside of it repeats the taps.
        let moves = |d: &usize| grid.limits.iter().any(|l| l.terms[*d] != 0);
        let first = (0..grid.terms.len()).find(moves).unwrap_or(grid.terms.len());
        let period: usize = grid.terms[first..].iter().map(|d| d.0).product();
        let number = |term: usize| (term % period + period - terms.start % period) % period;
        made.taps = terms.clone().map(|term| number(term) as u32).collect();
        for term in terms.clone().take(period) {
            made.reaches.extend(grid.limits.iter().map(|l| stepped(&grid.terms, |d| l.terms[d], term)));
        }
        made
    }
}

/// Which of `count` elements, whose coordinates are `at` and go on by `steps`, are inside of all limits: they follow one
/// another.
fn within(
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

/// One panel.
struct Panel<'a, T: Number> {
    of: At<'a, T>,
    terms: &'a Terms,
    stretches: &'a [Stretch],
    /// From line to line of a stretch.
    step: isize,
    width: usize,
    panel: usize,
    outside: T::Wide,
    to: Shared<T::Wide>,
}

impl<T: Number> Panel<'_, T> {
    /// Of each tap, and of each stretch of lines, those inside of all limits.
    fn inside(&self) -> Vec<(u32, u32)> {
        let limits = &self.of.grid.limits;
        let at: Vec<Vec<i64>> = self.stretches.iter().map(|s| self.of.at_line(s.number).collect()).collect();
        let step = |l: &Limit| l.lines.last().copied().unwrap_or(0);
        let taps = self.terms.reaches.chunks_exact(limits.len());
        let of_tap = |tap: &[i64]| {
            let of = |(s, at): (&Stretch, &Vec<i64>)| {
                let r = within(limits, at.iter().zip(tap).map(|(a, b)| a + b), step, s.count);
                (r.start as u32, r.end as u32)
            };
            self.stretches.iter().zip(&at).map(of).collect::<Vec<_>>()
        };
        taps.flat_map(of_tap).collect()
    }

    /// Lines of a stretch for one term.
    ///
    /// # Safety
    /// They are in the factor, and there is room for them.
    #[inline(always)]
    unsafe fn lines(&self, from: *const T, to: *mut T::Wide, count: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.step {
                1 => neighbours(from, to, count),
                step => {
                    for line in 0..count {
                        to.add(line).write(from.wrapping_offset(line as isize * step).read().widen());
                    }
                }
            }
        }
    }

    /// Fills it from stretches of terms.
    ///
    /// # Safety
    /// As of [`At::pack`].
    unsafe fn turned(self) {
        let (grid, first) = (self.of.grid, self.of.first.get());
        for (lines, terms) in self.stretches.iter().flat_map(|l| self.terms.stretches.iter().map(move |t| (l, t))) {
            let from = first.wrapping_offset(lines.offset + terms.offset);
            let to = self.to.get().wrapping_add(terms.place * self.panel + lines.place);
            let whole = |from: *mut T, terms: Range<usize>| {
                let (from, to) = (from.wrapping_add(terms.start), to.wrapping_add(terms.start * self.panel));
                let from = Strided { first: Shared(from), line: self.step, term: 1 };
                // SAFETY: the caller's promise for these lines and terms, which are in memory.
                unsafe { pack::transposed(from, lines.count, terms.len(), self.panel, to) };
            };
            if grid.limits.is_empty() {
                whole(from, 0..terms.count);
                continue;
            }
            let (of_line, of_term) =
                (|l: &Limit| *l.lines.last().unwrap_or(&0), |l: &Limit| *l.terms.last().unwrap_or(&0));
            let at: Vec<i64> = self
                .of
                .at_line(lines.number)
                .zip(&grid.limits)
                .map(|(at, l)| at + stepped(&grid.terms, |d| l.terms[d], terms.number))
                .collect();
            let inside = |line: usize| {
                let at = at.iter().zip(&grid.limits).map(|(at, l)| at + line as i64 * of_line(l));
                within(&grid.limits, at, of_term, terms.count)
            };
            // Terms that are inside on all lines are turned together; the rest are few.
            let all = (0..lines.count).map(inside);
            let common = all.reduce(|a, b| a.start.max(b.start)..a.end.min(b.end)).filter(|r| !r.is_empty());
            let common = common.unwrap_or(0..0);
            whole(from, common.clone());
            for line in 0..lines.count {
                let own = inside(line);
                for term in (0..common.start).chain(common.end..terms.count) {
                    // SAFETY: the caller's promise: the panel has room, and what is inside is in memory.
                    unsafe {
                        let element = from.wrapping_offset(line as isize * self.step + term as isize);
                        let value = if own.contains(&term) { element.read().widen() } else { self.outside };
                        to.wrapping_add(term * self.panel + line).write(value);
                    }
                }
            }
        }
        for line in (0..self.terms.count).flat_map(|term| (self.width..self.panel).map(move |l| term * self.panel + l))
        {
            // SAFETY: the panel has room for all its lines.
            unsafe { self.to.get().add(line).write(T::Wide::ZERO) };
        }
    }
}

impl<T: Number> Job for Panel<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let inside = if self.of.grid.limits.is_empty() { vec![] } else { self.inside() };
        for (number, &term) in self.terms.offsets.iter().enumerate() {
            let to = self.to.get().wrapping_add(number * self.panel);
            let from = self.of.first.get().cast_const().wrapping_offset(term);
            let inside = match self.terms.taps.get(number) {
                Some(&tap) => &inside[tap as usize * self.stretches.len()..],
                None => &[],
            };
            for (n, s) in self.stretches.iter().enumerate() {
                let (from, to) = (from.wrapping_offset(s.offset), to.wrapping_add(s.place));
                let (start, end) = inside.get(n).map_or((0, s.count), |r| (r.0 as usize, r.1 as usize));
                // SAFETY: the promise of `pack`: the lines of a stretch are in the panel, those inside in the factor.
                unsafe {
                    if end - start < s.count {
                        (0..s.count).for_each(|line| to.add(line).write(self.outside));
                    }
                    self.lines(from.wrapping_offset(start as isize * self.step), to.add(start), end - start);
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

    /// The border around images of 11 × 40 elements, and how windows of 3 × 2 go over them.
    #[derive(Clone, Copy)]
    struct Windows {
        border: usize,
        step: usize,
    }

    impl Windows {
        /// Windows along a row.
        fn width(self) -> usize {
            (40 + 2 * self.border - 2) / self.step + 1
        }

        fn rows(self) -> usize {
            11 + 2 * self.border - 2
        }

        /// The windows of 4 channels, the second of two products.
        fn grid<T>(self, memory: &[T]) -> Grid {
            let Windows { border, step } = self;
            let first = memory.as_ptr().wrapping_offset(-(41 * border as isize));
            let limit = |lines: [i64; 2], terms: [i64; 3], size: i64| {
                let first = vec![i64::MAX, -(border as i64)];
                Limit { first, lines: lines.to_vec(), terms: terms.to_vec(), valid: (0, size) }
            };
            let limits = vec![limit([1, 0], [0, 1, 0], 11), limit([0, step as i64], [0, 0, 1], 40)];
            Grid {
                first: vec![std::ptr::null(), first.cast()],
                lines: vec![(self.rows(), 40), (self.width(), step as isize)],
                terms: vec![(4, 440), (3, 40), (2, 1)],
                limits: if border > 0 { limits } else { vec![] },
                outside: 7,
            }
        }

        /// Where the element of a window is, if it is in memory.
        fn place(self, line: usize, term: usize) -> Option<usize> {
            let y = (line / self.width() + term / 2 % 3).checked_sub(self.border).filter(|y| *y < 11)?;
            let x = (line % self.width() * self.step + term % 2).checked_sub(self.border).filter(|x| *x < 40)?;
            Some(term / 6 * 440 + y * 40 + x)
        }
    }

    /// Packs a part of a grid, and compares each place with the element that belongs there.
    fn check<T: Number>(
        grid: &Grid,
        lines: Range<usize>,
        terms: Range<usize>,
        panel: usize,
        of: impl Fn(usize, usize) -> T::Wide,
    ) where
        T::Wide: PartialEq + std::fmt::Debug,
    {
        let cuts = Cuts::whole(lines.len(), panel);
        let mut to = vec![T::Wide::of_bits(77); cuts.count() * panel * terms.len()];
        // SAFETY: the memory has all windows, and there is room for the panels.
        unsafe { grid.of_product::<T>(1).pack(lines.clone(), terms.clone(), cuts, to.as_mut_ptr()) };
        for (n, got) in to.iter().enumerate() {
            let (number, term, line) = (n / (panel * terms.len()), n / panel % terms.len(), n % panel);
            let (t, l) = (terms.start + term, lines.start + number * panel + line);
            let want = if l < lines.end { of(l, t) } else { T::Wide::ZERO };
            assert_eq!(*got, want, "line {l}, term {t} of {lines:?} and {terms:?}, panels of {panel}, {grid:?}");
        }
    }

    /// Lines and terms of windows, and the same with the names exchanged: lines are what windows hold.
    fn packed<T: Number>(
        of: impl Fn(usize) -> T,
        lines: Range<usize>,
        terms: Range<usize>,
        panel: usize,
        windows: Windows,
    ) where
        T::Wide: PartialEq + std::fmt::Debug,
    {
        let memory: Vec<T> = (0..4 * 11 * 40).map(&of).collect();
        let grid = windows.grid(&memory);
        let outside = T::Wide::of_bits(7);
        let element = |l: usize, t: usize| windows.place(l, t).map_or(outside, |at| memory[at].widen());
        check::<T>(&grid, lines.clone(), terms.clone(), panel, element);
        let limits = windows.grid(&memory).limits.into_iter();
        let exchanged = Grid {
            lines: grid.terms,
            terms: grid.lines,
            limits: limits.map(|l| Limit { lines: l.terms, terms: l.lines, ..l }).collect(),
            ..grid
        };
        check::<T>(&exchanged, terms, lines, panel, |l, t| element(t, l));
    }

    #[test]
    fn each_element_has_its_place() {
        for border in [0, 1, 3] {
            let windows = |step| Windows { border, step };
            for panel in [6, 8, 14, 32] {
                for (lines, terms) in [(0..342, 0..24), (5..38, 3..4), (37..41, 5..19), (100..229, 7..24), (3..4, 0..1)]
                {
                    packed(|i| i as f32, lines.clone(), terms.clone(), panel, windows(1));
                    packed(|i| Bf16::narrow((i % 200) as f32), lines.clone(), terms.clone(), panel, windows(1));
                    packed(|i| i as i64, lines, terms, panel, windows(1));
                }
                packed(|i| i as f64, 2..170, 0..24, panel, windows(2));
                packed(|i| i as f32, 0..100, 3..20, panel, windows(3));
            }
        }
    }

    #[test]
    fn what_is_inside_follows_one_another() {
        for (lo, hi, at, step, count) in [
            (0, 5, -2, 1, 9),
            (0, 5, -3, 2, 4),
            (0, 6, 7, -1, 10),
            (1, 6, 9, -3, 5),
            (0, 4, 2, 0, 3),
            (0, 4, 4, 0, 3),
            (0, 9, -20, 4, 3),
        ] {
            let limit = Limit { first: vec![], lines: vec![], terms: vec![], valid: (lo, hi) };
            let want: Vec<usize> = (0..count).filter(|&i| (lo..hi).contains(&(at + i as i64 * step))).collect();
            let got: Vec<usize> = within(&[limit], [at].into_iter(), |_| step, count).collect();
            assert_eq!(got, want, "{lo}..{hi} from {at} by {step}");
        }
    }
}
