//! Blocked scans, for operations whose state is the running result itself (sums, maxima).
//!
//! Two passes (Blelloch 1990): compute the total of each block, and from those the initial state of each block; then
//! compute the blocks' results. Both passes over a single row interleave several blocks, on any number of threads,
//! since a single block is bound by the latency of additions. The order is that of the parent module, whatever thread
//! runs what.

use super::{Element, Plain, Rows, running};
use crate::simd::{Job, Shared, dispatch};
use crate::threads::Threads;
use crate::tunable::TUNABLES;
use thalweg_kernel::order::SCAN_BLOCK;

/// Number of interleaved blocks of a single row: f32 sums on one thread take 0.47 ns an element this way, and 0.67 in
/// one sequential pass (Zen 5).
const ABREAST: usize = 8;
/// Estimated nanoseconds per element of both passes together, on one thread.
const NS_PER_ELEMENT: f64 = 0.8;

/// Scans each column by the operation `with`, from the state `start` on. `EXACT` says that the operation is associative
/// to the bit.
///
/// # Safety
/// As for [`scan`](super::scan).
pub unsafe fn blocks<T, F, const EXACT: bool>(
    start: T::Wide,
    with: F,
    reverse: bool,
    (from, to): (*const T, *mut T),
    rows: Rows,
    threads: Option<&Threads>,
) where
    T: Element,
    F: Fn(T::Wide, T::Wide) -> T::Wide + Copy + Send + Sync,
{
    let count = rows.n.div_ceil(SCAN_BLOCK);
    let estimate = NS_PER_ELEMENT * (rows.n * rows.width) as f64;
    let threads = threads.filter(|t| t.for_work(estimate) > 1);
    // A sequential scan then gives the same bits, and is as fast on one thread.
    if count <= 1 || EXACT && threads.is_none() {
        // SAFETY: the caller's promise.
        unsafe { running(Plain(start, with), reverse, from, to, rows) };
        return;
    }
    let s = Scan { start, with, reverse, from: Shared(from.cast_mut()), to: Shared(to), rows };
    // SAFETY: the caller's promise.
    unsafe {
        match threads {
            Some(threads) => s.split(threads, estimate),
            None => {
                // Not compiled for exact operations, which were scanned in sequence.
                if !EXACT {
                    if rows.width == 1 { s.row() } else { s.columns() }
                }
            }
        }
    }
}

/// Parameters of a blocked scan: start state, operation, direction, addresses and sizes.
#[derive(Clone, Copy)]
struct Scan<T: Element, F> {
    start: T::Wide,
    with: F,
    reverse: bool,
    from: Shared<T>,
    to: Shared<T>,
    rows: Rows,
}

impl<T: Element, F: Fn(T::Wide, T::Wide) -> T::Wide + Copy + Send + Sync> Scan<T, F> {
    fn blocks(&self) -> usize {
        self.rows.n.div_ceil(SCAN_BLOCK)
    }

    /// Scans a single row on this thread, several blocks at a time.
    ///
    /// # Safety
    /// The promise of [`blocks`].
    unsafe fn row(self) {
        let mut next = self.start;
        for first in (0..self.blocks()).step_by(ABREAST) {
            let number = ABREAST.min(self.blocks() - first);
            let mut states = [self.start; ABREAST];
            // SAFETY: the caller's promise.
            unsafe { self.abreast(false, first, &mut states[..number]) };
            self.begin(&mut next, &mut states[..number]);
            // SAFETY: as above.
            unsafe { self.abreast(true, first, &mut states[..number]) };
        }
    }

    /// Replaces the total of each block by the block's initial state. `next` is the initial state of the first block,
    /// and becomes that of the block after the last one.
    fn begin(&self, next: &mut T::Wide, totals: &mut [T::Wide]) {
        for total in totals {
            let after = (self.with)(*next, *total);
            *total = std::mem::replace(next, after);
        }
    }

    /// Scans columns on this thread; one pass computes a block's results, and its total for the initial state of the
    /// next block.
    ///
    /// # Safety
    /// The promise of [`blocks`].
    unsafe fn columns(self) {
        let width = self.rows.width;
        let most = TUNABLES.max_scan_columns.size();
        let mut states = vec![self.start; most.min(width)];
        let (mut totals, mut next) = (states.clone(), states.clone());
        for first in (0..width).step_by(most) {
            let n = most.min(width - first);
            next[..n].fill(self.start);
            for block in 0..self.blocks() {
                states[..n].copy_from_slice(&next[..n]);
                totals[..n].fill(self.start);
                // SAFETY: the caller's promise.
                unsafe { self.strip::<true, true>(block, first, &mut states[..n], &mut totals[..n]) };
                for (next, total) in next[..n].iter_mut().zip(&totals) {
                    *next = (self.with)(*next, *total);
                }
            }
        }
    }

    /// Runs both passes on all threads.
    ///
    /// # Safety
    /// The promise of [`blocks`].
    unsafe fn split(self, threads: &Threads, estimate: f64) {
        let (width, blocks) = (self.rows.width, self.blocks());
        let together = if width == 1 { ABREAST } else { 1 };
        let mut totals = vec![self.start; blocks * width];
        let each = Shared(totals.as_mut_ptr());
        let pass = |write: bool| {
            threads.run(blocks.div_ceil(together), 1, estimate / 2.0, |range| {
                let (first, last) = (range.start * together, blocks.min(range.end * together));
                for block in (first..last).step_by(together) {
                    let own = together.min(last - block) * width;
                    // SAFETY: blocks are disjoint, also in the totals; the caller's promise.
                    unsafe {
                        let states = std::slice::from_raw_parts_mut(each.get().add(block * width), own);
                        match (width, write) {
                            (1, false) => self.abreast(false, block, states),
                            (1, true) => self.abreast(true, block, states),
                            (_, false) => self.strip::<false, true>(block, 0, &mut [], states),
                            (_, true) => self.strip::<true, false>(block, 0, states, &mut []),
                        }
                    }
                }
            });
        };
        pass(false);
        let mut next = vec![self.start; width];
        // SAFETY: no other thread is running.
        let all = unsafe { std::slice::from_raw_parts_mut(each.get(), blocks * width) };
        for row in all.chunks_exact_mut(width) {
            for (next, total) in next.iter_mut().zip(row) {
                self.begin(next, std::slice::from_mut(total));
            }
        }
        pass(true);
    }

    /// Scans interleaved blocks of a single row, from block `first` on, one block per state. `states` holds the blocks'
    /// initial states, and afterwards their final states. With `write`, writes the results.
    ///
    /// # Safety
    /// The promise of [`blocks`]; no other thread has these blocks.
    unsafe fn abreast(&self, write: bool, first: usize, states: &mut [T::Wide]) {
        let at = first * SCAN_BLOCK;
        let whole = states.len() == ABREAST && at + ABREAST * SCAN_BLOCK <= self.rows.n;
        // SAFETY: the caller's promise.
        unsafe {
            if let (true, Ok(states)) = (whole, <&mut [T::Wide; ABREAST]>::try_from(&mut *states)) {
                return self.interleaved::<ABREAST>(write, at, SCAN_BLOCK, states);
            }
            for (k, state) in states.iter_mut().enumerate() {
                let at = at + k * SCAN_BLOCK;
                let n = SCAN_BLOCK.min(self.rows.n - at);
                self.interleaved::<1>(write, at, n, std::array::from_mut(state));
            }
        }
    }

    /// Scans `K` interleaved blocks of `n` elements, from index `at` of the scan order on. The loop is bound by the
    /// latency of the operation on scalars: it has no form for wider vectors.
    ///
    /// # Safety
    /// As for [`Scan::abreast`].
    unsafe fn interleaved<const K: usize>(&self, write: bool, at: usize, n: usize, states: &mut [T::Wide; K]) {
        let (from, to) = (self.from.get(), self.to.get());
        let (mut own, step) = (*states, if self.reverse { -1 } else { 1 });
        let mut p = self.place(at) as isize;
        for _ in 0..n {
            for (k, state) in own.iter_mut().enumerate() {
                let p = p + (k * SCAN_BLOCK) as isize * step;
                // SAFETY: the caller's promise; an element is read before it may be written over.
                unsafe {
                    *state = (self.with)(*state, from.offset(p).read().widen());
                    if write {
                        to.offset(p).write(T::narrow(*state));
                    }
                }
            }
            p += step;
        }
        *states = own;
    }

    /// Scans a block of adjacent columns, from column `first` on: writes the results, which begin with `states`
    /// (`WRITE`), or computes the block's totals (`TOTAL`), or both.
    ///
    /// # Safety
    /// As for [`Scan::abreast`].
    unsafe fn strip<const WRITE: bool, const TOTAL: bool>(
        &self,
        block: usize,
        first: usize,
        states: &mut [T::Wide],
        totals: &mut [T::Wide],
    ) {
        dispatch(Strip::<T, F, WRITE, TOTAL> { scan: *self, block, first, states, totals });
    }

    /// Row at index `i` of the scan order.
    #[inline(always)]
    fn place(&self, i: usize) -> usize {
        if self.reverse { self.rows.n - 1 - i } else { i }
    }
}

/// Loop that scans one block of adjacent columns.
struct Strip<'a, T: Element, F, const WRITE: bool, const TOTAL: bool> {
    scan: Scan<T, F>,
    block: usize,
    first: usize,
    states: &'a mut [T::Wide],
    totals: &'a mut [T::Wide],
}

impl<T, F, const WRITE: bool, const TOTAL: bool> Job for Strip<'_, T, F, WRITE, TOTAL>
where
    T: Element,
    F: Fn(T::Wide, T::Wide) -> T::Wide + Copy + Send + Sync,
{
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Strip { scan, block, first, states, totals } = self;
        let with = scan.with;
        let columns = if WRITE { states.len() } else { totals.len() };
        // Fixed lengths, so that the loop has no bounds checks.
        let (states, totals) = (&mut states[..columns * WRITE as usize], &mut totals[..columns * TOTAL as usize]);
        let end = scan.rows.n.min((block + 1) * SCAN_BLOCK);
        for i in block * SCAN_BLOCK..end {
            let row = scan.place(i) * scan.rows.width + first;
            // SAFETY: the promise of `strip`; an element is read before it may be written over.
            unsafe {
                let (x, out) = (scan.from.get().add(row), scan.to.get().add(row));
                for j in 0..columns {
                    let x = x.add(j).read().widen();
                    if TOTAL {
                        totals[j] = with(totals[j], x);
                    }
                    if WRITE {
                        states[j] = with(states[j], x);
                        out.add(j).write(T::narrow(states[j]));
                    }
                }
            }
        }
    }
}
