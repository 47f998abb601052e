//! Packing of GEMM operands into panels, which have the order in which micro-kernels read, in slots as wide as
//! accumulators.
//!
//! In: a rectangle of an operand, lines by terms, with any strides. Out: for each term, or group of terms
//! ([`Scheme::GROUP`]), the slots of `panel` lines, contiguous; lines and terms that the operand lacks are 0. Always
//! true: values are preserved (widening is exact), and only elements of the rectangle are read.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::number::{Number, Scheme, Wide};
use crate::simd::{Job, Shared, dispatch};

/// Rectangle of a matrix operand: its first element, and its strides in elements.
#[derive(Clone, Copy)]
pub struct Strided<T> {
    pub first: Shared<T>,
    pub line: isize,
    pub term: isize,
}

impl<T: Copy> Strided<T> {
    pub fn at(self, line: usize, term: usize) -> *const T {
        self.first.get().wrapping_offset(line as isize * self.line + term as isize * self.term)
    }

    /// Rectangle of the same addresses as elements of another type of the same size.
    pub fn cast<U>(self) -> Strided<U> {
        const { assert!(size_of::<U>() == size_of::<T>()) };
        Strided { first: Shared(self.first.get().cast()), line: self.line, term: self.term }
    }

    pub fn from(self, line: usize, term: usize) -> Strided<T> {
        Strided { first: Shared(self.at(line, term).cast_mut()), ..self }
    }
}

/// Number of terms copied to one panel before the next panel, if lines are contiguous: enough to fill a few cache lines
/// of a panel, and few enough that rows of the operand are read nearly from end to end. A multiple of every
/// [`Scheme::GROUP`].
const TERMS_PER_COPY: usize = 8;

/// Division of lines into panels of at most `most` lines.
#[derive(Clone, Copy)]
pub struct Cuts {
    lines: usize,
    most: usize,
    /// Index of the line at which the second-last panel ends, if the last two panels split their lines evenly.
    shared: Option<usize>,
}

impl Cuts {
    /// Division into panels of `most` lines each, except for the last.
    pub fn whole(lines: usize, most: usize) -> Cuts {
        Cuts { lines, most, shared: None }
    }

    /// Like [`Cuts::whole`], but if the last panel has at most half of `most` lines, it takes some lines of the panel
    /// before it: a micro-kernel with few rows is latency-bound on its own sums.
    pub fn balanced(lines: usize, most: usize) -> Cuts {
        let rest = lines % most;
        let short = lines > most && rest > 0 && 2 * rest <= most;
        Cuts { lines, most, shared: short.then(|| lines - (most + rest) / 2) }
    }

    /// Maximum number of lines of a panel.
    pub fn most(self) -> usize {
        self.most
    }

    /// Number of panels.
    pub fn count(self) -> usize {
        self.lines.div_ceil(self.most)
    }

    /// Index of the first line of a panel, and its number of lines.
    pub fn get(self, panel: usize) -> (usize, usize) {
        let (start, end) = (panel * self.most, ((panel + 1) * self.most).min(self.lines));
        match self.shared {
            Some(cut) if end == self.lines => (cut, self.lines - cut),
            Some(cut) if end > cut => (start, cut - start),
            _ => (start, end - start),
        }
    }
}

/// Packs lines × `terms` into consecutive panels, each with space for the maximum number of lines, and with zeros up to
/// a multiple of `step` groups.
///
/// # Safety
/// The rectangle's elements are readable, and `to` has space for the panels.
pub unsafe fn panels<T: Scheme>(from: Strided<T::Element>, cuts: Cuts, terms: usize, step: usize, to: *mut T::Slot) {
    let together = if from.line == 1 { TERMS_PER_COPY } else { terms };
    let groups = terms.div_ceil(T::GROUP).next_multiple_of(step);
    for term in (0..terms).step_by(together.max(1)) {
        let now = together.min(terms - term);
        for number in 0..cuts.count() {
            let (line, width) = cuts.get(number);
            let to = to.wrapping_add((number * groups + term / T::GROUP) * cuts.most);
            // SAFETY: the caller's promise for a sub-rectangle.
            unsafe { part::<T>(from.from(line, term), width, now, cuts.most, to) };
        }
    }
    for number in 0..cuts.count() {
        // SAFETY: the caller's promise.
        unsafe { pad(terms.div_ceil(T::GROUP), cuts.most, step, to.wrapping_add(number * groups * cuts.most)) };
    }
}

/// Fills a panel with zeros from group `groups` up to a whole step ([`Scheme::STEP`]).
///
/// # Safety
/// There is space for whole steps of `panel` lines at `to`.
pub unsafe fn pad<S: Copy>(groups: usize, panel: usize, step: usize, to: *mut S) {
    let missing = groups.next_multiple_of(step) - groups;
    // SAFETY: the caller's promise; all-zero bytes are 0 in every slot.
    unsafe { to.add(groups * panel).write_bytes(0, missing * panel) };
}

/// Transposes `lines` × `terms` elements, whose lines are `lead` elements apart, into rows of lines, `row` elements
/// apart.
///
/// # Safety
/// The elements are plain bits and readable, and there is space for the rows at `to`, which does not overlap.
pub unsafe fn transpose<W: Copy>(from: *const W, lead: usize, [lines, terms]: [usize; 2], row: usize, to: *mut W) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && matches!(size_of::<W>(), 4 | 8) {
        let rows = Rows { line: (size_of::<W>() * lead) as isize, width: lines, terms, panel: row };
        // SAFETY: the caller's promise.
        return unsafe {
            match size_of::<W>() {
                4 if x86::interleaves() => x86::sixteens(from.cast(), rows, to.cast()),
                4 => x86::four_bytes(from.cast(), rows, to.cast()),
                _ => x86::eight_bytes(from.cast(), rows, to.cast()),
            }
        };
    }
    for (line, term) in (0..lines).flat_map(|line| (0..terms).map(move |term| (line, term))) {
        // SAFETY: the caller's promise.
        unsafe { to.add(term * row + line).write(from.add(line * lead + term).read()) };
    }
}

/// Packs one panel of `width` lines, padded with zeros to `panel` lines.
///
/// # Safety
/// As for [`panels`].
pub unsafe fn part<T: Scheme>(from: Strided<T::Element>, width: usize, terms: usize, panel: usize, to: *mut T::Slot) {
    if width < panel {
        for group in 0..terms.div_ceil(T::GROUP) {
            for line in width..panel {
                // SAFETY: the caller's promise: the panel has space for all its lines.
                unsafe { to.add(group * panel + line).write(T::Slot::default()) };
            }
        }
    }
    let whole = terms - terms % T::GROUP;
    // SAFETY: the caller's promise.
    unsafe {
        match (from.line, width == panel) {
            #[cfg(target_arch = "x86_64")]
            (1, _) if T::GROUP == 2 && panel <= 32 && x86::interleaves() => {
                let term = from.term * size_of::<T::Element>() as isize;
                x86::interleaved(from.first.get().cast(), term, [width, panel], whole / 2, to.cast());
            }
            (1, true) if matches!(panel, 6 | 8 | 14 | 16 | 32) => whole_lines::<T>(from, whole, panel, to),
            (1, _) => dispatch(Each::<T> { from, width, terms: whole, panel, to: Shared(to) }),
            _ if from.term == 1 => transposed::<T>(from, width, whole, panel, to),
            _ => dispatch(Each::<T> { from, width, terms: whole, panel, to: Shared(to) }),
        }
        if whole < terms {
            last_group::<T>(from.from(0, whole), width, terms - whole, to.add(whole / T::GROUP * panel));
        }
    }
}

/// Packs the last, partial group of terms: one slot per line, padded with zeros.
///
/// # Safety
/// These terms of the lines are readable, and `to` has space for the slots.
unsafe fn last_group<T: Scheme>(from: Strided<T::Element>, width: usize, terms: usize, to: *mut T::Slot) {
    let zero = T::Element::narrow(Wide::ZERO);
    for line in 0..width {
        // SAFETY: the caller's promise.
        let term = |term: usize| if term < terms { unsafe { from.at(line, term).read() } } else { zero };
        // SAFETY: as above.
        unsafe { to.add(line).write(T::slot(term)) };
    }
}

/// Packs groups of terms into slots, from a panel of single terms.
///
/// # Safety
/// There are `terms` rows of `panel` elements at `from`, and space for their slots at `to`, which does not overlap.
pub unsafe fn grouped<T: Scheme>(
    from: *const <T::Element as Number>::Wide,
    terms: usize,
    panel: usize,
    to: *mut T::Slot,
) {
    struct Group<T: Scheme> {
        from: Shared<<T::Element as Number>::Wide>,
        terms: usize,
        panel: usize,
        to: Shared<T::Slot>,
    }
    impl<T: Scheme> Job for Group<T> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            let zero = T::Element::narrow(Wide::ZERO);
            for first in (0..self.terms).step_by(T::GROUP) {
                let to = self.to.get().wrapping_add(first / T::GROUP * self.panel);
                for line in 0..self.panel {
                    let term = |term: usize| match first + term < self.terms {
                        // SAFETY: the promise of `grouped`.
                        true => T::Element::narrow(unsafe {
                            self.from.get().add((first + term) * self.panel + line).read()
                        }),
                        false => zero,
                    };
                    // SAFETY: as above.
                    unsafe { to.add(line).write(T::slot(term)) };
                }
            }
        }
    }
    dispatch(Group::<T> { from: Shared(from.cast_mut()), terms, panel, to: Shared(to) });
}

/// Flips the sign bits of all bytes of slots.
///
/// # Safety
/// The slots are readable and writable, and nobody else uses them meanwhile.
pub unsafe fn flip_signs<S: Copy>(slots: *mut S, count: usize) {
    struct FlipSigns<'a>(&'a mut [u8]);
    impl Job for FlipSigns<'_> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            self.0.iter_mut().for_each(|byte| *byte ^= 0x80);
        }
    }
    // SAFETY: the caller's promise; slots are plain bytes.
    dispatch(FlipSigns(unsafe { std::slice::from_raw_parts_mut(slots.cast(), count * size_of::<S>()) }));
}

/// Sum of signed bytes.
pub fn total(bytes: &[i8]) -> i64 {
    struct Total<'a>(&'a [i8]);
    impl Job for Total<'_> {
        type Out = i64;
        #[inline(always)]
        fn run(self) -> i64 {
            // A sum of 128 bytes fits 16 bits.
            let of = |chunk: &[i8]| chunk.iter().fold(0i16, |sum, byte| sum + *byte as i16);
            self.0.chunks(128).map(|chunk| of(chunk) as i64).sum()
        }
    }
    dispatch(Total(bytes))
}

/// Loop that packs a panel element by element, in whole groups of terms.
struct Each<T: Scheme> {
    from: Strided<T::Element>,
    width: usize,
    terms: usize,
    panel: usize,
    to: Shared<T::Slot>,
}

impl<T: Scheme> Job for Each<T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for term in (0..self.terms).step_by(T::GROUP) {
            let (from, to) = (self.from.at(0, term), self.to.get().wrapping_add(term / T::GROUP * self.panel));
            let step = if self.from.line == 1 { 1 } else { self.from.line };
            for line in 0..self.width {
                let from = from.wrapping_offset(line as isize * step);
                // SAFETY: the promise of `part`.
                let term = |term: usize| unsafe { from.wrapping_offset(term as isize * self.from.term).read() };
                // SAFETY: as above.
                unsafe { to.add(line).write(T::slot(term)) };
            }
        }
    }
}

/// Packs a full panel whose lines are contiguous in memory, in whole groups of terms.
///
/// # Safety
/// As for [`part`]; the panel has one of the widths below.
unsafe fn whole_lines<T: Scheme>(from: Strided<T::Element>, terms: usize, panel: usize, to: *mut T::Slot) {
    struct Whole<T: Scheme, const P: usize> {
        from: Strided<T::Element>,
        terms: usize,
        to: Shared<T::Slot>,
    }
    impl<T: Scheme, const P: usize> Job for Whole<T, P> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            let (mut from, mut to) = (self.from.first.get().cast_const(), self.to.get());
            for _ in 0..self.terms / T::GROUP {
                // SAFETY: the promise of `part`, for all lines of a term.
                let line = |term: usize| unsafe {
                    from.wrapping_offset(term as isize * self.from.term).cast::<[T::Element; P]>().read()
                };
                let mut slots = [T::Slot::default(); P];
                if T::IN_GROUPS {
                    let lines = [0, 1, 2, 3].map(|term| line(if term < T::GROUP { term } else { 0 }));
                    for (at, slot) in slots.iter_mut().enumerate() {
                        *slot = T::slot(|term| lines[term][at]);
                    }
                } else {
                    for (slot, element) in slots.iter_mut().zip(line(0)) {
                        *slot = T::slot(|_| element);
                    }
                }
                // SAFETY: as above.
                unsafe { to.cast::<[T::Slot; P]>().write(slots) };
                (from, to) = (from.wrapping_offset(self.from.term * T::GROUP as isize), to.wrapping_add(P));
            }
        }
    }
    let to = Shared(to);
    match panel {
        6 => dispatch(Whole::<T, 6> { from, terms, to }),
        8 => dispatch(Whole::<T, 8> { from, terms, to }),
        14 => dispatch(Whole::<T, 14> { from, terms, to }),
        16 => dispatch(Whole::<T, 16> { from, terms, to }),
        _ => dispatch(Whole::<T, 32> { from, terms, to }),
    }
}

/// Packs a panel whose terms are contiguous in memory, in whole groups: transposes square blocks in registers if the
/// machine has AVX2.
///
/// # Safety
/// As for [`part`], but the panel is not padded after its lines.
pub unsafe fn transposed<T: Scheme>(
    from: Strided<T::Element>,
    width: usize,
    terms: usize,
    panel: usize,
    to: *mut T::Slot,
) {
    // SAFETY: the caller's promise; slots copied as bits are the elements as stored.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            let (element, slot) = (size_of::<T::Element>(), size_of::<T::Slot>());
            let line = from.line * element as isize;
            let as_bits = Rows { line, width, terms: terms / T::GROUP, panel };
            if T::GROUP == 2 && x86::interleaves() {
                return x86::sixteens(from.first.get().cast(), as_bits, to.cast());
            }
            match (T::GROUP * element == slot, slot) {
                (true, 4) => return x86::four_bytes(from.first.get().cast(), as_bits, to.cast()),
                (true, 8) => return x86::eight_bytes(from.first.get().cast(), as_bits, to.cast()),
                (false, 4) if element == 2 => return widened::<T>(from, width, terms, panel, to),
                _ => {}
            }
        }
        dispatch(Each::<T> { from, width, terms, panel, to: Shared(to) });
    }
}

/// Packs narrow floats with contiguous terms: widens up to 64 terms at a time into a block, and transposes that.
///
/// # Safety
/// As for [`part`].
#[cfg(target_arch = "x86_64")]
unsafe fn widened<T: Scheme>(from: Strided<T::Element>, width: usize, terms: usize, panel: usize, to: *mut T::Slot) {
    const TERMS: usize = 64;
    const LINES: usize = 32;
    struct Widen<'a, T: Scheme> {
        from: Strided<T::Element>,
        width: usize,
        terms: usize,
        to: &'a mut [[T::Slot; TERMS]; LINES],
    }
    impl<T: Scheme> Job for Widen<'_, T> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            for (line, to) in self.to.iter_mut().enumerate().take(self.width) {
                // SAFETY: the promise of `part`: the terms of a line are contiguous.
                let from = unsafe { std::slice::from_raw_parts(self.from.at(line, 0), self.terms) };
                for (to, from) in to.iter_mut().zip(from) {
                    *to = T::slot(|_| *from);
                }
            }
        }
    }
    let mut block = [[T::Slot::default(); TERMS]; LINES];
    for line in (0..width).step_by(LINES) {
        let width = LINES.min(width - line);
        for term in (0..terms).step_by(TERMS) {
            let now = TERMS.min(terms - term);
            dispatch(Widen::<T> { from: from.from(line, term), width, terms: now, to: &mut block });
            let rows = Rows { line: size_of_val(&block[0]) as isize, width, terms: now, panel };
            let to = to.wrapping_add(term * panel + line);
            // SAFETY: the block has the rectangle in slots of 4 bytes; the caller's promise for `to`.
            unsafe { x86::four_bytes(block.as_ptr().cast(), rows, to.cast()) };
        }
    }
}

/// Shape of a rectangle whose terms (or groups of terms) are contiguous, at any alignment, and of its panel.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Rows {
    /// Stride between lines, in bytes.
    line: isize,
    width: usize,
    terms: usize,
    panel: usize,
}
