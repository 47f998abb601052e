//! Packing of GEMM operands into panels, which have the order in which micro-kernels read, in slots as wide as
//! accumulators.
//!
//! In: a rectangle of an operand, lines by terms, with any strides. Out: for each term, or group of terms
//! ([`Scheme::GROUP`]), the slots of `panel` lines, contiguous; lines and terms that the operand lacks are 0. Always
//! true: values are preserved (widening is exact), and only elements of the rectangle are read.

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

/// Packs lines × `terms` into consecutive panels, each with space for the maximum number of lines.
///
/// # Safety
/// The rectangle's elements are readable, and `to` has space for the panels.
pub unsafe fn panels<T: Scheme>(from: Strided<T::Element>, cuts: Cuts, terms: usize, to: *mut T::Slot) {
    let together = if from.line == 1 { TERMS_PER_COPY } else { terms };
    let groups = terms.div_ceil(T::GROUP).next_multiple_of(T::STEP);
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
        unsafe { pad::<T>(terms.div_ceil(T::GROUP), cuts.most, to.wrapping_add(number * groups * cuts.most)) };
    }
}

/// Fills a panel with zeros from group `groups` up to a whole step ([`Scheme::STEP`]).
///
/// # Safety
/// There is space for whole steps of `panel` lines at `to`.
pub unsafe fn pad<T: Scheme>(groups: usize, panel: usize, to: *mut T::Slot) {
    let missing = groups.next_multiple_of(T::STEP) - groups;
    // SAFETY: the caller's promise; all-zero bytes are 0 in every slot.
    unsafe { to.add(groups * panel).write_bytes(0, missing * panel) };
}

/// Transposes sums of `rows` × `columns`, whose rows are `lead` sums apart, into rows that are `row` sums apart.
///
/// # Safety
/// The sums are readable, and there is space for the rows at `to`.
pub unsafe fn transposed_sums<T: Scheme>(
    sums: *const T::Sum,
    lead: usize,
    [rows, columns]: [usize; 2],
    row: usize,
    to: *mut T::Sum,
) {
    debug_assert!(size_of::<T::Sum>() == 4);
    // SAFETY: the caller's promise; sums are copied as bits.
    unsafe { words(sums.cast(), lead, [rows, columns], row, to.cast()) };
}

/// Transposes `lines` × `terms` words, whose lines are `lead` words apart, into rows of lines, `row` words apart.
///
/// # Safety
/// The words are readable, and there is space for the rows at `to`.
unsafe fn words(from: *const u32, lead: usize, [lines, terms]: [usize; 2], row: usize, to: *mut u32) {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if x86::interleaves() {
            let rows = Rows { line: 4 * lead as isize, width: lines, terms, panel: row };
            return x86::sixteens(from, rows, to);
        }
        let from = Strided { first: Shared(from.cast_mut().cast::<f32>()), line: lead as isize, term: 1 };
        transposed::<f32>(from, lines, terms, row, to.cast());
    }
}

/// Transposes the first `lines` lines of a panel of `groups` groups of `width` slots into rows of slots, `row` slots
/// apart, from slot `first` on.
///
/// # Safety
/// The panel is readable, and there is space for the rows at `to`.
pub unsafe fn transposed_panel<T: Scheme>(
    panel: *const T::Slot,
    [groups, width]: [usize; 2],
    lines: usize,
    [row, first]: [usize; 2],
    to: *mut T::Slot,
) {
    debug_assert!(size_of::<T::Slot>() == 4);
    // SAFETY: the caller's promise; slots are copied as bits.
    unsafe { words(panel.cast(), width, [groups, lines], row, to.wrapping_add(first).cast()) };
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
                let lines: [[T::Element; P]; 4] =
                    std::array::from_fn(|term| line(if term < T::GROUP { term } else { 0 }));
                let slots = std::array::from_fn(|at| T::slot(|term| lines[term][at]));
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

/// Transposes slots: `width` lines of `terms` slots become `terms` lines, `panel` slots apart.
///
/// # Safety
/// The slots are readable, and there is space at `to`, which does not overlap.
pub unsafe fn transposed_slots<T: Scheme>(
    from: Strided<T::Slot>,
    width: usize,
    terms: usize,
    panel: usize,
    to: *mut T::Slot,
) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && matches!(size_of::<T::Slot>(), 4 | 8) {
        let rows = Rows { line: from.line * size_of::<T::Slot>() as isize, width, terms, panel };
        // SAFETY: the caller's promise; slots are plain bits.
        return unsafe {
            match size_of::<T::Slot>() {
                4 => x86::four_bytes(from.first.get().cast(), rows, to.cast()),
                _ => x86::eight_bytes(from.first.get().cast(), rows, to.cast()),
            }
        };
    }
    for (line, term) in (0..width).flat_map(|line| (0..terms).map(move |term| (line, term))) {
        // SAFETY: the caller's promise.
        unsafe { to.add(term * panel + line).write(from.at(line, term).read()) };
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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Rows;
    use std::arch::x86_64::*;

    /// Prefetch distance along K, in 4-byte elements: 64 elements are four cache lines (8-byte elements use half of
    /// it). The hardware prefetcher does not follow as many short streams as the operand has lines.
    const AHEAD: usize = 64;

    /// Transposes a rectangle of 4-byte elements into a panel, in blocks of 16 × 16.
    ///
    /// # Safety
    /// As for [`super::part`], and the machine has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn sixteens(from: *const u32, rows: Rows, to: *mut u32) {
        for line in (0..rows.width).step_by(16) {
            let lines = 16.min(rows.width - line);
            let write = (u32::MAX >> (32 - lines)) as u16;
            for term in (0..rows.terms).step_by(16) {
                let terms = 16.min(rows.terms - term);
                let read = (u32::MAX >> (32 - terms)) as u16;
                let mut a = [_mm512_setzero_si512(); 16];
                let mut at = from.wrapping_byte_offset(line as isize * rows.line).wrapping_add(term);
                for r in a.iter_mut().take(lines) {
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD).cast());
                    // SAFETY: the caller's promise: these terms of the line.
                    *r = unsafe { _mm512_maskz_loadu_epi32(read, at.cast()) };
                    at = at.wrapping_byte_offset(rows.line);
                }
                let a = transposed_sixteen(a);
                let mut to = to.wrapping_add(term * rows.panel + line);
                for r in a.iter().take(terms) {
                    // SAFETY: the caller's promise: these lines of the term's row.
                    unsafe { _mm512_mask_storeu_epi32(to.cast(), write, *r) };
                    to = to.wrapping_add(rows.panel);
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn transposed_sixteen(r: [__m512i; 16]) -> [__m512i; 16] {
        let mut a = r;
        for i in (0..16).step_by(2) {
            a[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
            a[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
        }
        // Of rows 4g to 4g + 3, `b[4g + j]` has column 4q + j in its quarter q.
        let mut b = a;
        for g in (0..16).step_by(4) {
            b[g] = _mm512_unpacklo_epi64(a[g], a[g + 2]);
            b[g + 1] = _mm512_unpackhi_epi64(a[g], a[g + 2]);
            b[g + 2] = _mm512_unpacklo_epi64(a[g + 1], a[g + 3]);
            b[g + 3] = _mm512_unpackhi_epi64(a[g + 1], a[g + 3]);
        }
        for j in 0..4 {
            let (even, even_below) =
                (_mm512_shuffle_i32x4::<0x88>(b[j], b[4 + j]), _mm512_shuffle_i32x4::<0x88>(b[8 + j], b[12 + j]));
            let (odd, odd_below) =
                (_mm512_shuffle_i32x4::<0xDD>(b[j], b[4 + j]), _mm512_shuffle_i32x4::<0xDD>(b[8 + j], b[12 + j]));
            a[j] = _mm512_shuffle_i32x4::<0x88>(even, even_below);
            a[4 + j] = _mm512_shuffle_i32x4::<0x88>(odd, odd_below);
            a[8 + j] = _mm512_shuffle_i32x4::<0xDD>(even, even_below);
            a[12 + j] = _mm512_shuffle_i32x4::<0xDD>(odd, odd_below);
        }
        a
    }

    /// Whether the machine has the instructions of [`interleaved`].
    pub fn interleaves() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
    }

    /// Packs a panel of up to 32 adjacent lines of 2-byte elements in pairs of terms, which are `term` bytes apart:
    /// interleaves two rows.
    ///
    /// # Safety
    /// As for [`super::part`], and the machine has AVX-512 F and BW.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub unsafe fn interleaved(from: *const u16, term: isize, [width, panel]: [usize; 2], pairs: usize, to: *mut u32) {
        let read = (u64::MAX >> (64 - width)) as u32;
        let (low, high) = ((u32::MAX >> (32 - panel.min(16))) as u16, ((1u32 << panel.saturating_sub(16)) - 1) as u16);
        // `unpack` takes the lower, or the upper, half of each 128 bits.
        let order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
        let (mut from, mut to) = (from, to);
        for _ in 0..pairs {
            // Lines of the terms that are copied next, after these terms of the other panels.
            for ahead in [super::TERMS_PER_COPY as isize, super::TERMS_PER_COPY as isize + 1] {
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_byte_offset(ahead * term).cast());
            }
            // SAFETY: the caller's promise: the lines of two terms, and the slots of a panel.
            unsafe {
                let x = _mm512_maskz_loadu_epi16(read, from.cast());
                let y = _mm512_maskz_loadu_epi16(read, from.wrapping_byte_offset(term).cast());
                let (x, y) = (_mm512_permutexvar_epi64(order, x), _mm512_permutexvar_epi64(order, y));
                _mm512_mask_storeu_epi32(to.cast(), low, _mm512_unpacklo_epi16(x, y));
                _mm512_mask_storeu_epi32(to.wrapping_add(16).cast(), high, _mm512_unpackhi_epi16(x, y));
            }
            from = from.wrapping_byte_offset(2 * term);
            to = to.wrapping_add(panel);
        }
    }

    /// Calls `strip` with the number of lines left and their address until all are processed; `strip` returns how many
    /// it took.
    fn in_strips<T>(from: *const T, rows: Rows, to: *mut T, strip: impl Fn(usize, *const T, *mut T) -> usize) {
        let mut line = 0;
        while line < rows.width {
            let from = from.wrapping_byte_offset(line as isize * rows.line);
            line += strip(rows.width - line, from, to.wrapping_add(line));
        }
    }

    /// Copies the last terms of some lines, too few for a square block, element by element.
    ///
    /// # Safety
    /// As for [`super::part`].
    unsafe fn rest<T: Copy>(lines: usize, from: *const T, rows: Rows, done: usize, to: *mut T) {
        for term in done..rows.terms {
            for i in 0..lines {
                let from = from.wrapping_byte_offset(i as isize * rows.line).wrapping_add(term);
                // SAFETY: the caller's promise.
                unsafe { to.add(term * rows.panel + i).write(from.read_unaligned()) };
            }
        }
    }

    /// Transposes a rectangle of 4-byte elements into a panel.
    ///
    /// # Safety
    /// As for [`super::part`], and the machine has AVX2.
    #[target_feature(enable = "avx2")]
    pub unsafe fn four_bytes(from: *const u32, rows: Rows, to: *mut u32) {
        // SAFETY: the caller's promise for some of the lines.
        in_strips(from, rows, to, |lines, from, to| unsafe {
            match lines {
                8.. => strip_of_four::<8>(from, rows, to),
                6..8 => strip_of_four::<6>(from, rows, to),
                4..6 => strip_of_four::<4>(from, rows, to),
                2..4 => strip_of_four::<2>(from, rows, to),
                _ => strip_of_four::<1>(from, rows, to),
            }
        });
    }

    /// Transposes `N` lines of 4-byte elements (`N` is even, or 1); returns `N`.
    ///
    /// # Safety
    /// As for [`four_bytes`].
    #[target_feature(enable = "avx2")]
    unsafe fn strip_of_four<const N: usize>(from: *const u32, rows: Rows, to: *mut u32) -> usize {
        let line = |i: usize| from.wrapping_byte_offset(i.min(N - 1) as isize * rows.line);
        let whole = if N == 1 { 0 } else { rows.terms / 8 * 8 };
        for term in (0..whole).step_by(8) {
            // SAFETY: the caller's promise: 8 terms of each line, and 8 times `N` elements of the panel.
            unsafe {
                if term % 16 == 0 && term + AHEAD < rows.terms {
                    (0..N).for_each(|i| _mm_prefetch::<_MM_HINT_T0>(line(i).wrapping_add(term + AHEAD).cast()));
                }
                let r: [__m256; 8] = std::array::from_fn(|i| _mm256_loadu_ps(line(i).add(term).cast()));
                for (t, column) in transposed_eight(r).into_iter().enumerate() {
                    let to = to.add((term + t) * rows.panel);
                    let low = _mm256_castps256_ps128(column);
                    match N {
                        8 => _mm256_storeu_ps(to.cast(), column),
                        6 => {
                            _mm_storeu_ps(to.cast(), low);
                            _mm_storel_epi64(to.add(4).cast(), _mm_castps_si128(_mm256_extractf128_ps::<1>(column)));
                        }
                        4 => _mm_storeu_ps(to.cast(), low),
                        _ => _mm_storel_epi64(to.cast(), _mm_castps_si128(low)),
                    }
                }
            }
        }
        // SAFETY: as above.
        unsafe { rest(N, from, rows, whole, to) };
        N
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn transposed_eight(r: [__m256; 8]) -> [__m256; 8] {
        let (a0, a1) = (_mm256_unpacklo_ps(r[0], r[1]), _mm256_unpackhi_ps(r[0], r[1]));
        let (a2, a3) = (_mm256_unpacklo_ps(r[2], r[3]), _mm256_unpackhi_ps(r[2], r[3]));
        let (a4, a5) = (_mm256_unpacklo_ps(r[4], r[5]), _mm256_unpackhi_ps(r[4], r[5]));
        let (a6, a7) = (_mm256_unpacklo_ps(r[6], r[7]), _mm256_unpackhi_ps(r[6], r[7]));
        let (b0, b1) = (_mm256_shuffle_ps::<0x44>(a0, a2), _mm256_shuffle_ps::<0xEE>(a0, a2));
        let (b2, b3) = (_mm256_shuffle_ps::<0x44>(a1, a3), _mm256_shuffle_ps::<0xEE>(a1, a3));
        let (b4, b5) = (_mm256_shuffle_ps::<0x44>(a4, a6), _mm256_shuffle_ps::<0xEE>(a4, a6));
        let (b6, b7) = (_mm256_shuffle_ps::<0x44>(a5, a7), _mm256_shuffle_ps::<0xEE>(a5, a7));
        [
            _mm256_permute2f128_ps::<0x20>(b0, b4),
            _mm256_permute2f128_ps::<0x20>(b1, b5),
            _mm256_permute2f128_ps::<0x20>(b2, b6),
            _mm256_permute2f128_ps::<0x20>(b3, b7),
            _mm256_permute2f128_ps::<0x31>(b0, b4),
            _mm256_permute2f128_ps::<0x31>(b1, b5),
            _mm256_permute2f128_ps::<0x31>(b2, b6),
            _mm256_permute2f128_ps::<0x31>(b3, b7),
        ]
    }

    /// Transposes a rectangle of 8-byte elements into a panel.
    ///
    /// # Safety
    /// As for [`super::part`], and the machine has AVX2.
    #[target_feature(enable = "avx2")]
    pub unsafe fn eight_bytes(from: *const u64, rows: Rows, to: *mut u64) {
        // SAFETY: the caller's promise for some of the lines.
        in_strips(from, rows, to, |lines, from, to| unsafe {
            match lines {
                4.. => strip_of_eight::<4>(from, rows, to),
                2..4 => strip_of_eight::<2>(from, rows, to),
                _ => strip_of_eight::<1>(from, rows, to),
            }
        });
    }

    /// Transposes `N` lines of 8-byte elements; returns `N`.
    ///
    /// # Safety
    /// As for [`eight_bytes`].
    #[target_feature(enable = "avx2")]
    unsafe fn strip_of_eight<const N: usize>(from: *const u64, rows: Rows, to: *mut u64) -> usize {
        let line = |i: usize| from.wrapping_byte_offset(i.min(N - 1) as isize * rows.line);
        let whole = if N == 1 { 0 } else { rows.terms / 4 * 4 };
        for term in (0..whole).step_by(4) {
            // SAFETY: the caller's promise: 4 terms of each line, and 4 times `N` elements of the panel.
            unsafe {
                if term % 8 == 0 && term + AHEAD / 2 < rows.terms {
                    (0..N).for_each(|i| _mm_prefetch::<_MM_HINT_T0>(line(i).wrapping_add(term + AHEAD / 2).cast()));
                }
                let r: [__m256d; 4] = std::array::from_fn(|i| _mm256_loadu_pd(line(i).add(term).cast()));
                let (a0, a1) = (_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpackhi_pd(r[0], r[1]));
                let (a2, a3) = (_mm256_unpacklo_pd(r[2], r[3]), _mm256_unpackhi_pd(r[2], r[3]));
                let columns = [
                    _mm256_permute2f128_pd::<0x20>(a0, a2),
                    _mm256_permute2f128_pd::<0x20>(a1, a3),
                    _mm256_permute2f128_pd::<0x31>(a0, a2),
                    _mm256_permute2f128_pd::<0x31>(a1, a3),
                ];
                for (t, column) in columns.into_iter().enumerate() {
                    let to = to.add((term + t) * rows.panel);
                    match N {
                        4 => _mm256_storeu_pd(to.cast(), column),
                        _ => _mm_storeu_pd(to.cast(), _mm256_castpd256_pd128(column)),
                    }
                }
            }
        }
        // SAFETY: as above.
        unsafe { rest(N, from, rows, whole, to) };
        N
    }
}
