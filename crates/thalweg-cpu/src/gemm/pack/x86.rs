//! Packing and transposition in vectors of AVX2 and AVX-512.
//!
//! In: rectangles whose terms (or lines) are contiguous in memory, at any alignment. Out: panels, or rows of the
//! transpose. Always true: elements are copied as bits, and only those of the rectangle are read and written.

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
