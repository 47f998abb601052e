//! Packing of lines of a grid by masked AVX-512 vectors.
//!
//! In: the runs of a panel's lines and, for each tap, which lines are inside the limits. Out: the panel, one vector at
//! a time. Each run that overlaps a vector is one masked load, merged into the lanes of the other runs. Lines with
//! stride 2 are the even lanes of two loads. Vectors of 2-byte elements are stored as they are, widened to f32, or
//! interleaved with those of the next term (pairs). Always true: lanes outside a mask are not read.

use super::terms::StridedRun;
use crate::number::{Bf16, F16, Number, Scheme};
use std::any::TypeId;

/// Elements of a vector, and what becomes of them in a panel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// 4 bytes, as they are.
    Words,
    /// 8 bytes, as they are.
    Longs,
    /// 2 bytes, as they are.
    Halves,
    /// bf16, widened to f32.
    Bf16,
    /// f16, widened to f32.
    F16,
    /// 2 bytes, in pairs of terms.
    Pairs,
}

impl Form {
    /// Form in which panels of a scheme are packed from lines with this stride; `None` if not by masked vectors.
    pub(super) fn of<S: Scheme>(step: isize) -> Option<Form> {
        #[cfg(target_arch = "x86_64")]
        if matches!(step, 1 | 2) && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            let element = TypeId::of::<S::Element>();
            let plain = element == TypeId::of::<<S::Element as Number>::Wide>();
            return match (size_of::<S::Element>(), S::GROUP) {
                (4, 1) if plain => Some(Form::Words),
                (8, 1) if plain => Some(Form::Longs),
                (2, 2) => Some(Form::Pairs),
                (2, 1) if plain => Some(Form::Halves),
                (2, 1) if element == TypeId::of::<Bf16>() => Some(Form::Bf16),
                (2, 1) if element == TypeId::of::<F16>() => Some(Form::F16),
                _ => None,
            };
        }
        let _ = step;
        None
    }

    /// Number of elements of a vector.
    fn lanes(self) -> usize {
        match self {
            Form::Words => 16,
            Form::Longs => 8,
            Form::Halves | Form::Bf16 | Form::F16 | Form::Pairs => 32,
        }
    }
}

/// Bits of an element, in the low bits.
pub(super) fn bits<T: Number>(element: T) -> u64 {
    // SAFETY: `Number` types are plain numbers of these sizes.
    unsafe {
        match size_of::<T>() {
            1 => std::mem::transmute_copy::<T, u8>(&element) as u64,
            2 => std::mem::transmute_copy::<T, u16>(&element) as u64,
            4 => std::mem::transmute_copy::<T, u32>(&element) as u64,
            _ => std::mem::transmute_copy::<T, u64>(&element),
        }
    }
}

/// Masks of one load: `own` selects the destination lanes; for lines of stride 2, `pair` are the masks of the two loads
/// whose even lanes are taken.
#[derive(Clone, Copy, Default)]
struct Lanes {
    own: u32,
    pair: [u32; 2],
}

impl Lanes {
    fn new(own: u32, lanes: usize) -> Lanes {
        let mut wide = own as u64;
        for (shift, keep) in [
            (16, 0x0000_ffff_0000_ffff),
            (8, 0x00ff_00ff_00ff_00ff),
            (4, 0x0f0f_0f0f_0f0f_0f0f),
            (2, 0x3333_3333_3333_3333),
            (1, 0x5555_5555_5555_5555),
        ] {
            wide = (wide | wide << shift) & keep;
        }
        Lanes { own, pair: [wide as u32 & below(lanes), (wide >> lanes) as u32] }
    }
}

/// Masked loads of which the vectors of a panel are composed.
pub(super) struct Vectors {
    form: Form,
    /// Capacity of a panel in lines (`room`), and lines of the current panel (`width`).
    room: usize,
    width: usize,
    step: usize,
    /// Number of loads per vector, equal for all vectors; unused loads have empty masks.
    each: usize,
    /// Source offset, in elements, of each load: where lane 0 of its vector would be if the run extended that far.
    offsets: Vec<isize>,
    /// Masks of each load, by tap, then by vector.
    masks: Vec<Lanes>,
}

impl Vectors {
    pub(super) fn new(form: Form) -> Vectors {
        Vectors { form, room: 0, width: 0, step: 1, each: 1, offsets: vec![], masks: vec![] }
    }

    /// Computes the loads of a panel of `width` lines of stride `step`, with capacity `room`. `inside` is the range of
    /// lines inside the limits, by tap and run; if it is empty, all lines are inside.
    pub(super) fn set(
        &mut self,
        (width, room, step): (usize, usize, isize),
        runs: &[StridedRun],
        inside: &[(u32, u32)],
    ) {
        let lanes = self.form.lanes();
        (self.width, self.room, self.step) = (width, room, step as usize);
        let count = room.div_ceil(lanes);
        let meets =
            |s: &StridedRun, vector: usize| s.place < (vector + 1) * lanes && s.place + s.count > vector * lanes;
        let loads = |vector: usize| runs.iter().filter(|s| meets(s, vector)).count();
        self.each = (0..count).map(loads).max().unwrap_or(0).max(1);
        self.offsets.clear();
        self.masks.clear();
        let taps = if inside.is_empty() { 1 } else { inside.len() / runs.len().max(1) };
        for tap in 0..taps {
            for vector in 0..count {
                let own = runs.iter().enumerate().filter(|(_, s)| meets(s, vector));
                let mut left = self.each;
                for (n, s) in own {
                    let (start, end) = match inside.get(tap * runs.len() + n) {
                        Some(&(start, end)) => (s.place + start as usize, s.place + end as usize),
                        None => (s.place, s.place + s.count),
                    };
                    self.masks.push(Lanes::new(mask(start..end, vector, lanes), lanes));
                    if tap == 0 {
                        let lane = (vector * lanes) as isize - s.place as isize;
                        self.offsets.push(s.offset + lane * step);
                    }
                    left -= 1;
                }
                let last = if tap == 0 { self.offsets.last().copied().unwrap_or(0) } else { 0 };
                for _ in 0..left {
                    self.masks.push(Lanes::default());
                    if tap == 0 {
                        self.offsets.push(last);
                    }
                }
            }
        }
    }

    /// Packs the panel from terms with these offsets and taps (without taps, all terms have tap 0). Lines outside the
    /// limits get the element with the bits `outside`.
    ///
    /// # Safety
    /// [`Form::of`] returned this form for the scheme; elements inside the limits are readable, and there is space for
    /// the panel.
    pub(super) unsafe fn fill(&self, first: *const u8, terms: (&[isize], &[u32]), outside: u64, to: *mut u8) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's promise; the instructions exist if `Form::of` returned a form.
        unsafe {
            match (self.step, self.each) {
                (1, 1) => x86::fill::<1, 1>(self, first, terms, outside, to),
                (1, 2) => x86::fill::<1, 2>(self, first, terms, outside, to),
                (1, 3) => x86::fill::<1, 3>(self, first, terms, outside, to),
                (1, _) => x86::fill::<1, 0>(self, first, terms, outside, to),
                (_, 1) => x86::fill::<2, 1>(self, first, terms, outside, to),
                (_, 2) => x86::fill::<2, 2>(self, first, terms, outside, to),
                _ => x86::fill::<2, 0>(self, first, terms, outside, to),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (first, terms, outside, to);
    }
}

/// Mask of the lowest `lanes` lanes.
fn below(lanes: usize) -> u32 {
    ((1u64 << lanes) - 1) as u32
}

/// Mask of the lanes of a vector that a range of lines occupies.
fn mask(lines: std::ops::Range<usize>, vector: usize, lanes: usize) -> u32 {
    let at = |line: usize| line.clamp(vector * lanes, (vector + 1) * lanes) - vector * lanes;
    below(at(lines.end)) & !below(at(lines.start))
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::needless_range_loop, reason = "iterators are not inlined into functions with target features")]
pub(super) mod x86 {
    use super::{Form, Lanes, Vectors, mask};
    use std::arch::x86_64::*;

    /// Packs a panel with `EACH` loads per vector (0: a variable number) from lines with stride `STEP`.
    ///
    /// # Safety
    /// As for [`Vectors::fill`], and the machine has AVX-512 F and BW.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn fill<const STEP: usize, const EACH: usize>(
        v: &Vectors,
        first: *const u8,
        terms: (&[isize], &[u32]),
        outside: u64,
        to: *mut u8,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match v.form {
                Form::Words => words::<STEP, EACH>(v, first.cast(), terms, outside as i32, to.cast()),
                Form::Longs => longs::<STEP, EACH>(v, first.cast(), terms, outside as i64, to.cast()),
                Form::Halves => singles::<STEP, EACH, AS_IS>(v, first.cast(), terms, outside as i16, to),
                Form::Bf16 => singles::<STEP, EACH, FROM_BF16>(v, first.cast(), terms, outside as i16, to),
                Form::F16 => singles::<STEP, EACH, FROM_F16>(v, first.cast(), terms, outside as i16, to),
                Form::Pairs => pairs::<STEP, EACH>(v, first.cast(), terms, outside as i16, to.cast()),
            }
        }
    }

    /// Loads of one vector. Loops over them are written with numbers: iterators are not inlined into functions with target
    /// features.
    #[derive(Clone, Copy)]
    struct Loads<'a> {
        offsets: &'a [isize],
        masks: &'a [Lanes],
        /// Number of the first mask of tap 0, and of masks of a tap.
        start: usize,
        stride: usize,
    }

    impl<'a> Loads<'a> {
        #[inline(always)]
        fn new(v: &'a Vectors, vector: usize, count: usize, each: usize) -> Loads<'a> {
            let offsets = &v.offsets[vector * each..(vector + 1) * each];
            Loads { offsets, masks: &v.masks, start: vector * each, stride: count * each }
        }

        /// Masks of the loads for terms of a tap.
        #[inline(always)]
        fn of_tap(&self, tap: usize) -> &'a [Lanes] {
            let start = self.start + tap * self.stride;
            &self.masks[start..start + self.offsets.len()]
        }

        /// Address that the next panel reads for a term: it begins where this one ends. The hardware prefetcher does not
        /// follow so many short streams.
        #[inline(always)]
        fn next<T>(&self, first: *const T, term: isize, lines: usize) -> *const i8 {
            first.wrapping_offset(term + self.offsets[0]).wrapping_add(lines).cast()
        }
    }

    #[inline(always)]
    fn tap_of(taps: &[u32], number: usize) -> usize {
        if number < taps.len() { taps[number] as usize } else { 0 }
    }

    /// Composes a vector of 2-byte elements of one term.
    ///
    /// # Safety
    /// As for [`fill`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn halves<const STEP: usize, const EACH: usize>(
        from: *const i16,
        loads: Loads<'_>,
        tap: usize,
        around: __m512i,
        even: __m512i,
    ) -> __m512i {
        let mut x = around;
        let (masks, each) = (loads.of_tap(tap), if EACH == 0 { loads.offsets.len() } else { EACH });
        for load in 0..each {
            let Lanes { own, pair } = masks[load];
            let from = from.wrapping_offset(loads.offsets[load]);
            // SAFETY: the caller's promise for the lanes of the mask; other lanes are not read.
            x = unsafe {
                if STEP == 1 {
                    _mm512_mask_loadu_epi16(x, own, from)
                } else {
                    let low = _mm512_maskz_loadu_epi16(pair[0], from);
                    let high = _mm512_maskz_loadu_epi16(pair[1], from.wrapping_add(32));
                    _mm512_mask_mov_epi16(x, own, _mm512_permutex2var_epi16(low, even, high))
                }
            };
        }
        x
    }

    /// Numbers of the even lanes of two vectors of 2-byte elements.
    static EVEN: [i16; 32] = {
        let (mut numbers, mut i) = ([0; 32], 0);
        while i < 32 {
            numbers[i] = 2 * i as i16;
            i += 1;
        }
        numbers
    };

    /// Numbers of the even lanes of two vectors of 2-byte elements.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(in crate::gemm::grid) fn even_halves() -> __m512i {
        // SAFETY: the array is as large as a vector.
        unsafe { _mm512_loadu_si512(EVEN.as_ptr().cast()) }
    }

    /// Stores the lanes of a mask; whole vectors are stored without it, and nothing if it is empty.
    ///
    /// # Safety
    /// These lanes are writable.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn store(to: *mut i32, mask: u16, x: __m512i) {
        // SAFETY: the caller's promise.
        unsafe {
            match mask {
                u16::MAX => _mm512_storeu_si512(to.cast(), x),
                0 => {}
                _ => _mm512_mask_storeu_epi32(to, mask, x),
            }
        }
    }

    const AS_IS: u8 = 0;
    const FROM_BF16: u8 = 1;
    const FROM_F16: u8 = 2;

    /// Packs 2-byte elements of single terms.
    ///
    /// # Safety
    /// As for [`fill`].
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn singles<const STEP: usize, const EACH: usize, const TO: u8>(
        v: &Vectors,
        first: *const i16,
        (terms, taps): (&[isize], &[u32]),
        outside: i16,
        to: *mut u8,
    ) {
        let each = if EACH == 0 { v.each } else { EACH };
        let (count, even) = (v.room.div_ceil(32), even_halves());
        for vector in 0..count {
            // Lanes after the last line are 0.
            let around = _mm512_maskz_set1_epi16(mask(0..v.width, vector, 32), outside);
            let room = mask(0..v.room, vector, 32);
            let loads = Loads::new(v, vector, count, each);
            for number in 0..terms.len() {
                let term = terms[number];
                _mm_prefetch::<_MM_HINT_T0>(loads.next(first, term, v.room * STEP));
                let at = number * v.room + vector * 32;
                // SAFETY: the caller's promise; the panel has space for its lines.
                unsafe {
                    let x =
                        halves::<STEP, EACH>(first.wrapping_offset(term), loads, tap_of(taps, number), around, even);
                    if TO == AS_IS {
                        _mm512_mask_storeu_epi16(to.cast::<i16>().wrapping_add(at), room, x);
                        continue;
                    }
                    let to = to.cast::<i32>().wrapping_add(at);
                    let (low, high) = (_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
                    let wide = |x: __m256i| match TO {
                        FROM_BF16 => _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(x)),
                        _ => _mm512_castps_si512(_mm512_cvtph_ps(x)),
                    };
                    store(to, room as u16, wide(low));
                    store(to.wrapping_add(16), (room >> 16) as u16, wide(high));
                }
            }
        }
    }

    /// Packs 2-byte elements in pairs of terms; the last one of an odd number of terms has a 0 beside it.
    ///
    /// # Safety
    /// As for [`fill`].
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn pairs<const STEP: usize, const EACH: usize>(
        v: &Vectors,
        first: *const i16,
        (terms, taps): (&[isize], &[u32]),
        outside: i16,
        to: *mut i32,
    ) {
        let each = if EACH == 0 { v.each } else { EACH };
        let (count, even) = (v.room.div_ceil(32), even_halves());
        // `unpack` takes the lower, or the upper, half of each 128 bits.
        let order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
        for vector in 0..count {
            // Lanes after the last line are 0.
            let around = _mm512_maskz_set1_epi16(mask(0..v.width, vector, 32), outside);
            let room = mask(0..v.room, vector, 32);
            let (low, high) = (room as u16, (room >> 16) as u16);
            let loads = Loads::new(v, vector, count, each);
            let mut to = to.wrapping_add(vector * 32);
            let mut number = 0;
            while number < terms.len() {
                let mut both = [_mm512_setzero_si512(); 2];
                for side in 0..2.min(terms.len() - number) {
                    let term = terms[number + side];
                    _mm_prefetch::<_MM_HINT_T0>(loads.next(first, term, v.room * STEP));
                    let (from, tap) = (first.wrapping_offset(term), tap_of(taps, number + side));
                    // SAFETY: the caller's promise.
                    both[side] = unsafe { halves::<STEP, EACH>(from, loads, tap, around, even) };
                }
                let [x, y] = both;
                let (x, y) = (_mm512_permutexvar_epi64(order, x), _mm512_permutexvar_epi64(order, y));
                // SAFETY: the panel has space for its lines.
                unsafe {
                    store(to, low, _mm512_unpacklo_epi16(x, y));
                    store(to.wrapping_add(16), high, _mm512_unpackhi_epi16(x, y));
                }
                to = to.wrapping_add(v.room);
                number += 2;
            }
        }
    }

    /// Packs elements of a width that is stored as it is.
    macro_rules! as_they_are {
        ($name:ident, $t:ty, $mask:ty, $lanes:literal, $even:expr, $set1:ident, $load:ident, $loadz:ident, $two:ident, $mov:ident, $store:ident) => {
            /// Packs a panel of elements that are stored as they are.
            ///
            /// # Safety
            /// As for [`fill`].
            #[target_feature(enable = "avx512f,avx512bw")]
            unsafe fn $name<const STEP: usize, const EACH: usize>(
                v: &Vectors,
                first: *const $t,
                (terms, taps): (&[isize], &[u32]),
                outside: $t,
                to: *mut $t,
            ) {
                let each = if EACH == 0 { v.each } else { EACH };
                let count = v.room.div_ceil($lanes);
                let even = $even;
                for vector in 0..count {
                    // Lanes after the last line are 0.
                    let around = $set1(mask(0..v.width, vector, $lanes) as $mask, outside);
                    let room = mask(0..v.room, vector, $lanes) as $mask;
                    let loads = Loads::new(v, vector, count, each);
                    let to = to.wrapping_add(vector * $lanes);
                    for number in 0..terms.len() {
                        let (mut x, term) = (around, terms[number]);
                        _mm_prefetch::<_MM_HINT_T0>(loads.next(first, term, v.room * STEP));
                        let masks = loads.of_tap(tap_of(taps, number));
                        for load in 0..each {
                            let Lanes { own, pair } = masks[load];
                            let from = first.wrapping_offset(term + loads.offsets[load]);
                            // SAFETY: the caller's promise for the lanes of the mask; other lanes are not read.
                            x = unsafe {
                                if STEP == 1 {
                                    $load(x, own as $mask, from)
                                } else {
                                    let low = $loadz(pair[0] as $mask, from);
                                    let high = $loadz(pair[1] as $mask, from.wrapping_add($lanes));
                                    $mov(x, own as $mask, $two(low, even, high))
                                }
                            };
                        }
                        let to = to.wrapping_add(number * v.room);
                        // SAFETY: the panel has space for its lines.
                        unsafe {
                            match room {
                                <$mask>::MAX => _mm512_storeu_si512(to.cast(), x),
                                _ => $store(to, room, x),
                            }
                        }
                    }
                }
            }
        };
    }
    as_they_are!(
        words,
        i32,
        u16,
        16,
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
        _mm512_maskz_set1_epi32,
        _mm512_mask_loadu_epi32,
        _mm512_maskz_loadu_epi32,
        _mm512_permutex2var_epi32,
        _mm512_mask_mov_epi32,
        _mm512_mask_storeu_epi32
    );
    as_they_are!(
        longs,
        i64,
        u8,
        8,
        _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14),
        _mm512_maskz_set1_epi64,
        _mm512_mask_loadu_epi64,
        _mm512_maskz_loadu_epi64,
        _mm512_permutex2var_epi64,
        _mm512_mask_mov_epi64,
        _mm512_mask_storeu_epi64
    );
}
