//! Products of one row with columns whose terms are neighbours, by squares that are transposed in registers.
//!
//! In: some columns of the right factor, each one stretch of memory, and a block of terms of the left one. Out: the sums
//! of the block, a chain of fused multiply-adds over ascending terms for each column. A square is turned where it meets
//! its sums and goes nowhere else: packing it first would write and read the matrix once more. Always true: only
//! elements of the rectangle are read.

#[cfg(target_arch = "x86_64")]
use super::TERMS;
use super::pack::Strided;
use crate::number::Number;

/// Columns that are taken at a time.
pub const COLUMNS: usize = 16;

/// Whether this machine has instructions for it, and the dtype is one that they are for.
pub fn available<T: Number>() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let machine = std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma");
        machine && std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>()
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The products of the terms from 0 to `terms` with [`COLUMNS`] columns, added to `sums` a block of terms at a time, or
/// in their place with `first`.
///
/// # Safety
/// [`available`] says so; so many terms of so many lines are readable, those of a line being neighbours, and so many of
/// `left`; so many sums are writable.
pub unsafe fn dots<T: Number>(right: Strided<T>, left: *const T::Wide, terms: usize, first: bool, sums: *mut T::Wide) {
    debug_assert!(available::<T>() && right.term == 1);
    #[cfg(target_arch = "x86_64")]
    for block in (0..terms).step_by(TERMS) {
        let now = TERMS.min(terms - block);
        let (from, left) = (right.at(0, block).cast::<f32>(), left.wrapping_add(block).cast::<f32>());
        // SAFETY: the caller's promise for a block; the types are f32.
        unsafe {
            x86::block(
                [from, from.wrapping_offset(8 * right.line)],
                right.line,
                left,
                now,
                first && block == 0,
                sums.cast(),
            )
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (left, terms, first, sums);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Terms of a line of cache.
    const LINE: usize = 16;
    /// Terms that are asked for ahead: hardware does not follow so many lines that are a power of two apart.
    const AHEAD: usize = 8 * LINE;

    /// A block of terms of two groups of eight columns, `line` elements from column to column.
    ///
    /// # Safety
    /// As of [`super::dots`].
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn block(from: [*const f32; 2], line: isize, left: *const f32, terms: usize, first: bool, to: *mut f32) {
        let mut sums = [_mm256_setzero_ps(); 2];
        let whole = terms / LINE * LINE;
        for term in (0..whole).step_by(LINE) {
            for (from, sum) in from.iter().zip(&mut sums) {
                let from = from.wrapping_add(term);
                (0..8).for_each(|i| {
                    // A hint, which no address can make fail.
                    _mm_prefetch::<_MM_HINT_T0>(from.wrapping_offset(i * line).wrapping_add(AHEAD).cast());
                });
                for half in [0, 8] {
                    // SAFETY: the caller's promise: a line of cache of each column, and as many elements of the left
                    // factor.
                    unsafe {
                        let low = four_terms(from.wrapping_add(half), line);
                        let high = four_terms(from.wrapping_add(half + 4), line);
                        for (t, y) in low.into_iter().chain(high).enumerate() {
                            *sum = _mm256_fmadd_ps(_mm256_broadcast_ss(&*left.add(term + half + t)), y, *sum);
                        }
                    }
                }
            }
        }
        for term in whole..terms {
            for (from, sum) in from.iter().zip(&mut sums) {
                // SAFETY: as above, for one term.
                unsafe {
                    let y: [f32; 8] = std::array::from_fn(|i| from.wrapping_offset(i as isize * line).add(term).read());
                    *sum = _mm256_fmadd_ps(_mm256_broadcast_ss(&*left.add(term)), _mm256_loadu_ps(y.as_ptr()), *sum);
                }
            }
        }
        for (n, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller's promise: room for 16 sums.
            unsafe {
                let to = to.add(8 * n);
                let all = if first { sum } else { _mm256_add_ps(_mm256_loadu_ps(to), sum) };
                _mm256_storeu_ps(to, all);
            }
        }
    }

    /// Four terms of eight columns, a vector each.
    ///
    /// # Safety
    /// They are readable.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn four_terms(from: *const f32, line: isize) -> [__m256; 4] {
        let pair = |i: isize| {
            let (low, high) = (from.wrapping_offset(i * line), from.wrapping_offset((i + 4) * line));
            // SAFETY: the caller's promise.
            unsafe { _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high)) }
        };
        let r = [pair(0), pair(1), pair(2), pair(3)];
        let (a0, a1) = (_mm256_unpacklo_ps(r[0], r[1]), _mm256_unpackhi_ps(r[0], r[1]));
        let (a2, a3) = (_mm256_unpacklo_ps(r[2], r[3]), _mm256_unpackhi_ps(r[2], r[3]));
        [
            _mm256_shuffle_ps::<0x44>(a0, a2),
            _mm256_shuffle_ps::<0xEE>(a0, a2),
            _mm256_shuffle_ps::<0x44>(a1, a3),
            _mm256_shuffle_ps::<0xEE>(a1, a3),
        ]
    }
}
