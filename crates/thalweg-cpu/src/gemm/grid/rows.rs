//! Packing of a grid ([`Grid`](super::Grid)) from runs of terms: each line has an address of its own.
//!
//! In: terms, and the lines of a panel. Out: the panel. A chunk of the terms of each line is gathered into a row of
//! staging memory, a run at a time, with the elements outside the limits filled in between; the rows are then transposed
//! like those of a matrix in memory. Example: the gradient of a convolution's weights, whose lines are the elements of
//! a window and whose terms are all windows: a run is a row of the image, shifted by the element's position.

use super::masked::bits;
use super::terms::{StridedRun, StridedRuns, inner, stepped, within};
use super::{At, Grid, Limit};
use crate::gemm::pack::{self, Strided};
use crate::number::{Number, Scheme, Wide};
use crate::simd::Shared;
use std::ops::Range;

/// Bytes of the terms of a line that are gathered before they are transposed: rows of 32 lines stay in the first-level
/// cache.
const CHUNK_BYTES: usize = 512;

/// Space in bytes after a row: vectors may write past its end, and rows do not fall into the same cache sets.
const GAP_BYTES: usize = 64;

/// Runs of a chunk of terms.
struct Chunk {
    /// Number of the chunk's first term, from the first term packed.
    start: usize,
    count: usize,
    runs: Vec<StridedRun>,
    /// For each run, what its first term adds to the coordinate of each limit.
    reaches: Vec<i64>,
}

/// Terms to pack, analysed once for all panels.
pub(super) struct Rows<'a, T: Number> {
    of: At<'a, T>,
    chunks: Vec<Chunk>,
    /// Stride between the terms of a run.
    step: isize,
    outside: T,
}

impl<'a, T: Number> Rows<'a, T> {
    pub(super) fn new(of: At<'a, T>, terms: Range<usize>) -> Rows<'a, T> {
        let (grid, most) = (of.grid, CHUNK_BYTES / size_of::<T>());
        let chunks = (0..terms.len()).step_by(most).map(|start| {
            let count = most.min(terms.len() - start);
            let runs: Vec<_> =
                StridedRuns::new(&grid.terms, terms.start + start..terms.start + start + count).collect();
            let reaches =
                runs.iter().flat_map(|r| grid.limits.iter().map(|l| stepped(&grid.terms, |d| l.terms[d], r.number)));
            Chunk { start, count, reaches: reaches.collect(), runs }
        });
        let outside = T::narrow(T::Wide::of_bits(grid.outside));
        Rows { of, chunks: chunks.collect(), step: inner(&grid.terms).1, outside }
    }

    /// Number of elements between rows of staging memory.
    fn pitch() -> usize {
        (CHUNK_BYTES + GAP_BYTES) / size_of::<T>()
    }

    /// Number of elements of staging memory for panels of this capacity.
    pub(super) fn staging(&self, most: usize) -> usize {
        most * Self::pitch()
    }

    /// Packs the panel of these lines, with capacity for `most` lines.
    ///
    /// # Safety
    /// Lines and terms are in the factor, whose elements are readable; `staging` and `to` have space.
    pub(super) unsafe fn fill<S: Scheme<Element = T>>(
        &self,
        lines: Range<usize>,
        most: usize,
        staging: *mut T,
        to: *mut S::Slot,
    ) {
        let (grid, width) = (self.of.grid, lines.len());
        let (step, pitch) = (inner(&grid.lines).1, Self::pitch());
        let runs: Vec<_> = StridedRuns::new(&grid.lines, lines).collect();
        for chunk in &self.chunks {
            let to = to.wrapping_add(chunk.start / S::GROUP * most);
            if let ([lines], [terms], 1) = (&runs[..], &chunk.runs[..], self.step)
                && grid.limits.is_empty()
            {
                // One matrix with contiguous terms.
                let first = Shared(self.of.first.get().wrapping_offset(lines.offset + terms.offset));
                // SAFETY: the caller's promise.
                unsafe { pack::part::<S>(Strided { first, line: step, term: 1 }, width, chunk.count, most, to) };
                continue;
            }
            for run in &runs {
                for line in 0..run.count {
                    let row = staging.wrapping_add((run.place + line) * pitch);
                    // SAFETY: the caller's promise; a row has space for a chunk and a vector.
                    unsafe { self.gather(chunk, run, line, row) };
                }
            }
            let rows = Strided { first: Shared(staging), line: pitch as isize, term: 1 };
            // SAFETY: the rows were just written; the caller's promise for the panel.
            unsafe { pack::part::<S>(rows, width, chunk.count, most, to) };
        }
    }

    /// Gathers the terms of a chunk of one line, number `line` of a run of lines.
    ///
    /// # Safety
    /// As for [`Rows::fill`]; there is space for the terms and [`GAP_BYTES`] more at `row`.
    unsafe fn gather(&self, chunk: &Chunk, lines: &StridedRun, line: usize, row: *mut T) {
        let grid = self.of.grid;
        let first = self.of.first.get().cast_const();
        let first = first.wrapping_offset(lines.offset + line as isize * inner(&grid.lines).1);
        let mut at = [0; thalweg_ir::MAX_RANK];
        for (at, l) in at.iter_mut().zip(&grid.limits) {
            let of_run = stepped(&grid.lines, |d| l.lines[d], lines.number);
            *at = l.first[self.of.product] + of_run + line as i64 * l.lines.last().copied().unwrap_or(0);
        }
        let line = Line { grid, first, at: &at[..grid.limits.len()], chunk, step: self.step, outside: self.outside };
        // SAFETY: the caller's promise.
        unsafe { line.gather(row) }
    }
}

/// One line of a panel.
struct Line<'a, T> {
    grid: &'a Grid,
    /// Address of the line's first term of the grid.
    first: *const T,
    /// Coordinate of each limit there.
    at: &'a [i64],
    chunk: &'a Chunk,
    step: isize,
    outside: T,
}

impl<T: Number> Line<'_, T> {
    /// Line of the same addresses, as elements of another type of the same size.
    fn cast<U>(&self, outside: U) -> Line<'_, U> {
        let Line { grid, first, at, chunk, step, .. } = *self;
        Line { grid, first: first.cast(), at, chunk, step, outside }
    }

    /// Calls `copy` for each run of terms, with the address of its first term, its place, the number of terms, and the
    /// range of these inside the limits.
    #[inline(always)]
    fn runs(&self, mut copy: impl FnMut(*const T, usize, usize, Range<usize>)) {
        let (limits, reaches, runs) = (&self.grid.limits[..], &self.chunk.reaches[..], &self.chunk.runs[..]);
        // Innermost step of each limit.
        let step = |l: &Limit| if l.terms.is_empty() { 0 } else { l.terms[l.terms.len() - 1] };
        let mut n = 0;
        while n < runs.len() {
            let (run, reach) = (&runs[n], &reaches[n * limits.len()..(n + 1) * limits.len()]);
            let at = |i: usize| self.at[i] + reach[i];
            let inside = if limits.is_empty() { 0..run.count } else { within(limits, at, step, run.count) };
            copy(self.first.wrapping_offset(run.offset), run.place, run.count, inside);
            n += 1;
        }
    }

    /// Gathers all runs.
    ///
    /// # Safety
    /// As for [`Rows::gather`].
    unsafe fn gather(&self, row: *mut T) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            // SAFETY: the caller's promise; the machine has the instructions.
            unsafe {
                let bits = bits(self.outside);
                match (size_of::<T>(), self.step) {
                    (2, 1) => return x86::halves::<1>(&self.cast(bits as i16), row.cast()),
                    (2, 2) => return x86::halves::<2>(&self.cast(bits as i16), row.cast()),
                    (4, 1) => return x86::words::<1>(&self.cast(bits as i32), row.cast()),
                    (4, 2) => return x86::words::<2>(&self.cast(bits as i32), row.cast()),
                    _ => {}
                }
            }
        }
        self.runs(|from, place, count, inside| {
            let to = row.wrapping_add(place);
            // SAFETY: the caller's promise: elements inside the limits are readable.
            unsafe {
                if self.step == 1 {
                    (0..inside.start).chain(inside.end..count).for_each(|term| to.add(term).write(self.outside));
                    to.add(inside.start).copy_from_nonoverlapping(from.wrapping_add(inside.start), inside.len());
                    return;
                }
                for term in 0..count {
                    let element = from.wrapping_offset(term as isize * self.step);
                    to.add(term).write(if inside.contains(&term) { element.read() } else { self.outside });
                }
            }
        });
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Line;
    use crate::gemm::grid::masked::x86::even_halves;
    use std::arch::x86_64::*;

    /// Mask of the elements `start..end` that are in `lanes` lanes from element `at` on.
    #[inline(always)]
    fn mask(start: usize, end: usize, at: usize, lanes: usize) -> u64 {
        let below = |end: usize| {
            let lanes = end.saturating_sub(at).min(lanes) as u32;
            if lanes == 64 { u64::MAX } else { (1u64 << lanes) - 1 }
        };
        below(end) & !below(start)
    }

    macro_rules! gathers {
        ($name:ident, $t:ty, $mask:ty, $lanes:literal, $even:expr, $set1:ident, $load:ident, $loadz:ident, $two:ident, $mov:ident) => {
            /// Gathers the runs of a line, whose terms have stride `STEP`.
            ///
            /// # Safety
            /// As for [`Line::gather`]; elements have the width of the lanes, and the machine has AVX-512 F and BW.
            #[target_feature(enable = "avx512f,avx512bw")]
            pub(super) unsafe fn $name<const STEP: usize>(line: &Line<'_, $t>, row: *mut $t) {
                let outside = $set1(line.outside);
                let even = $even;
                line.runs(|from, place, count, inside| {
                    let to = row.wrapping_add(place);
                    let mut at = 0;
                    while at < count {
                        let own = mask(inside.start, inside.end, at, $lanes) as $mask;
                        let from = from.wrapping_add(at * STEP);
                        // SAFETY: the caller's promise: elements inside the limits are readable, others are not read.
                        // Elements past the run are overwritten by the next run, or are in the gap after the row.
                        unsafe {
                            let x = if STEP == 1 {
                                $load(outside, own, from)
                            } else {
                                let element = |at: usize| {
                                    mask(2 * inside.start, (2 * inside.end).saturating_sub(1), at, $lanes) as $mask
                                };
                                let low = $loadz(element(2 * at), from);
                                let high = $loadz(element(2 * at + $lanes), from.wrapping_add($lanes));
                                $mov(outside, own, $two(low, even, high))
                            };
                            _mm512_storeu_si512(to.wrapping_add(at).cast(), x);
                        }
                        at += $lanes;
                    }
                });
            }
        };
    }
    gathers!(
        words,
        i32,
        u16,
        16,
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
        _mm512_set1_epi32,
        _mm512_mask_loadu_epi32,
        _mm512_maskz_loadu_epi32,
        _mm512_permutex2var_epi32,
        _mm512_mask_mov_epi32
    );
    gathers!(
        halves,
        i16,
        u32,
        32,
        even_halves(),
        _mm512_set1_epi16,
        _mm512_mask_loadu_epi16,
        _mm512_maskz_loadu_epi16,
        _mm512_permutex2var_epi16,
        _mm512_mask_mov_epi16
    );
}
