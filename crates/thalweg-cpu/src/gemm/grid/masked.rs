//! Packing of 4-byte elements of a grid by masked AVX-512 vectors.
//!
//! In: the runs of a panel's lines and, for each tap, which lines are inside the limits. Out: the panel, one vector at
//! a time. Each run that overlaps a vector is one masked load, merged into the lanes of the other runs. Lines with
//! stride 2 are the even lanes of two loads. Always true: lanes outside a mask are not read.

use super::terms::StridedRun;
use crate::number::{Number, Wide};
use std::any::TypeId;

/// Number of 4-byte lanes of an AVX-512 vector.
const LANES: usize = 16;

/// Whether panels of elements of type `T`, with this stride between lines, are packed by masked vectors.
pub(super) fn takes<T: Number>(step: isize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if TypeId::of::<T>() == TypeId::of::<T::Wide>() && size_of::<T>() == 4 && matches!(step, 1 | 2) {
        return std::arch::is_x86_feature_detected!("avx512f");
    }
    let _ = step;
    false
}

/// Bits of a value of 4 bytes; 0 for other sizes.
pub(super) fn bits<W: Wide>(value: W) -> u32 {
    if size_of::<W>() != 4 {
        return 0;
    }
    // SAFETY: `Wide` types are plain numbers, this one of 4 bytes.
    unsafe { std::mem::transmute_copy(&value) }
}

/// Masks of one load: `own` selects the destination lanes; for lines of stride 2, `pair` are the masks of the two loads
/// whose even lanes are taken.
#[derive(Clone, Copy, Default)]
struct Lanes {
    own: u16,
    pair: [u16; 2],
}

impl Lanes {
    fn new(own: u16) -> Lanes {
        let mut wide = own as u32;
        for (shift, keep) in [(8, 0x00ff_00ff), (4, 0x0f0f_0f0f), (2, 0x3333_3333), (1, 0x5555_5555)] {
            wide = (wide | wide << shift) & keep;
        }
        Lanes { own, pair: [wide as u16, (wide >> 16) as u16] }
    }
}

/// Masked loads of which the vectors of a panel are composed.
#[derive(Default)]
pub(super) struct Vectors {
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
    /// Computes the loads of a panel of `width` lines of stride `step`, with capacity `room`. `inside` is the range of
    /// lines inside the limits, by tap and run; if it is empty, all lines are inside.
    pub(super) fn set(
        &mut self,
        (width, room, step): (usize, usize, isize),
        runs: &[StridedRun],
        inside: &[(u32, u32)],
    ) {
        (self.width, self.room, self.step) = (width, room, step as usize);
        let count = room.div_ceil(LANES);
        let meets =
            |s: &StridedRun, vector: usize| s.place < (vector + 1) * LANES && s.place + s.count > vector * LANES;
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
                    self.masks.push(Lanes::new(lanes(start, end, vector)));
                    if tap == 0 {
                        let lane = (vector * LANES) as isize - s.place as isize;
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
    /// limits get the bits `outside`.
    ///
    /// # Safety
    /// [`takes`] returned true for the elements; those inside the limits are readable, and there is space for the
    /// panel.
    pub(super) unsafe fn fill(&self, first: *const u32, terms: (&[isize], &[u32]), outside: u32, to: *mut u32) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's promise; the instructions exist if `takes` returned true.
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

/// Mask of the lanes of a vector that lines `start..end` occupy.
fn lanes(start: usize, end: usize, vector: usize) -> u16 {
    let at = |line: usize| line.clamp(vector * LANES, (vector + 1) * LANES) - vector * LANES;
    let below = |lanes: usize| ((1u32 << lanes) - 1) as u16;
    below(at(end)) & !below(at(start))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LANES, Lanes, Vectors, lanes};
    use std::arch::x86_64::*;

    /// Packs a panel with `EACH` loads per vector (0: a variable number) from lines with stride `STEP`.
    ///
    /// # Safety
    /// As for [`Vectors::fill`], and the machine has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn fill<const STEP: usize, const EACH: usize>(
        v: &Vectors,
        first: *const u32,
        (terms, taps): (&[isize], &[u32]),
        outside: u32,
        to: *mut u32,
    ) {
        let each = if EACH == 0 { v.each } else { EACH };
        let count = v.room.div_ceil(LANES);
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        for vector in 0..count {
            // Lanes after the last line are 0.
            let around = _mm512_maskz_set1_epi32(lanes(0, v.width, vector), outside as i32);
            let room = lanes(0, v.room, vector);
            let offsets = &v.offsets[vector * each..(vector + 1) * each];
            let to = to.wrapping_add(vector * LANES);
            for (number, &term) in terms.iter().enumerate() {
                let tap = taps.get(number).map_or(0, |&tap| tap as usize);
                let start = (tap * count + vector) * each;
                let masks = &v.masks[start..start + each];
                let mut x = around;
                // The next panel begins where this one ends; the hardware prefetcher does not follow so many short
                // streams.
                let next = first.wrapping_offset(term + offsets[0]).wrapping_add(v.room * STEP);
                _mm_prefetch::<_MM_HINT_T0>(next.cast());
                for (&offset, &Lanes { own, pair }) in offsets.iter().zip(masks) {
                    let from = first.wrapping_offset(term + offset).cast::<i32>();
                    // SAFETY: the caller's promise for the lanes of the mask; other lanes are not read.
                    x = unsafe {
                        if STEP == 1 {
                            _mm512_mask_loadu_epi32(x, own, from)
                        } else {
                            let low = _mm512_maskz_loadu_epi32(pair[0], from);
                            let high = _mm512_maskz_loadu_epi32(pair[1], from.wrapping_add(LANES));
                            _mm512_mask_mov_epi32(x, own, _mm512_permutex2var_epi32(low, even, high))
                        }
                    };
                }
                let to = to.wrapping_add(number * v.room).cast::<i32>();
                // SAFETY: the panel has space for its lines.
                unsafe {
                    match room {
                        u16::MAX => _mm512_storeu_si512(to.cast(), x),
                        _ => _mm512_mask_storeu_epi32(to, room, x),
                    }
                }
            }
        }
    }
}
