//! Sorts.
//!
//! They go by keys: unsigned integers in the order of the elements, NaN the largest, -0 and +0 one, each with its place in the low bits, so that
//! any way to sort them is stable. Long columns are sorted by radix, in parts on several threads where there are any.

use super::{Element, Rows, ns_per_element};
use crate::simd::Shared;
use crate::threads::Threads;
use thalweg_ir::ScanOp;

/// Elements from which a column is sorted by radix rather than by comparisons.
const RADIX: usize = 512;
/// Items of a merge that a thread takes at a time.
const MERGED: usize = 16 << 10;

/// A key with the place of its element.
trait Item: Copy + Ord + Default + Send + Sync {
    fn new(key: u64, place: usize) -> Self;
    fn place(self) -> usize;
    /// Eight bits of the key.
    fn digit(self, n: u32) -> usize;
}

/// Key in the high half: keys of at most 32 bits in columns of fewer than 2³² elements.
impl Item for u64 {
    #[inline(always)]
    fn new(key: u64, place: usize) -> u64 {
        key << 32 | place as u64
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as u32 as usize
    }
    #[inline(always)]
    fn digit(self, n: u32) -> usize {
        (self >> (32 + 8 * n)) as usize & 0xff
    }
}

impl Item for (u64, usize) {
    #[inline(always)]
    fn new(key: u64, place: usize) -> (u64, usize) {
        (key, place)
    }
    #[inline(always)]
    fn place(self) -> usize {
        self.1
    }
    #[inline(always)]
    fn digit(self, n: u32) -> usize {
        (self.0 >> (8 * n)) as usize & 0xff
    }
}

/// Sorts each column.
///
/// # Safety
/// As [`scan`](super::scan).
pub unsafe fn sorted<T: Element>(
    op: ScanOp,
    reverse: bool,
    from: *const T,
    to: *mut u8,
    rows: Rows,
    threads: Option<&Threads>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if T::LONG || rows.n > u32::MAX as usize {
            sorted_by::<T, (u64, usize)>(op, reverse, from, to, rows, threads);
        } else {
            sorted_by::<T, u64>(op, reverse, from, to, rows, threads);
        }
    }
}

unsafe fn sorted_by<T: Element, I: Item>(
    op: ScanOp,
    reverse: bool,
    from: *const T,
    to: *mut u8,
    rows: Rows,
    threads: Option<&Threads>,
) {
    let mask = u64::MAX >> (64 - 8 * size_of::<T>() as u32);
    let estimate = ns_per_element(op) * rows.n as f64;
    let helpers = threads.map_or(1, |t| t.for_work(estimate));
    let threads = threads.filter(|_| helpers > 1 && rows.n >= 2 * RADIX);
    let (mut items, mut scratch): (Vec<I>, Vec<I>) = (Vec::with_capacity(rows.n), vec![]);
    let mut elements: Vec<T> = Vec::with_capacity(rows.n);
    for j in 0..rows.width {
        items.clear();
        elements.clear();
        for i in 0..rows.n {
            // SAFETY: the caller's promise.
            let x = unsafe { from.add(i * rows.width + j).read() };
            // The contrary order of keys with places still ascending: stable either way.
            let key = if reverse { !x.key() & mask } else { x.key() };
            items.push(I::new(key, i));
            elements.push(x);
        }
        let digits = size_of::<T>() as u32;
        match threads {
            _ if rows.n < RADIX => items.sort_unstable(),
            None => radix(&mut items, &mut scratch, digits),
            Some(threads) => together(&mut items, &mut scratch, digits, threads, (helpers, estimate)),
        }
        for (i, item) in items.iter().enumerate() {
            // SAFETY: as above; the column was read before.
            unsafe {
                if op == ScanOp::Sort {
                    to.cast::<T>().add(i * rows.width + j).write(elements[item.place()]);
                } else {
                    to.cast::<i64>().add(i * rows.width + j).write(item.place() as i64);
                }
            }
        }
    }
}

/// Sorts on all threads: a part on each, then two and two parts merged, all threads at each merge. No two items are equal, so there is one order, and how
/// many threads find it makes no difference.
fn together<I: Item>(
    items: &mut Vec<I>,
    scratch: &mut Vec<I>,
    digits: u32,
    threads: &Threads,
    (helpers, estimate): (usize, f64),
) {
    let n = items.len();
    let parts = helpers.next_power_of_two();
    let mut length = n.div_ceil(parts);
    let base = Shared(items.as_mut_ptr());
    threads.run(parts, 1, estimate, |range| {
        for part in range {
            let (start, end) = ((part * length).min(n), ((part + 1) * length).min(n));
            // SAFETY: parts are apart, and the vector is not touched otherwise meanwhile.
            let part = unsafe { std::slice::from_raw_parts_mut(base.get().add(start), end - start) };
            let mut own = part.to_vec();
            radix(&mut own, &mut vec![], digits);
            part.copy_from_slice(&own);
        }
    });
    scratch.resize(n, I::default());
    while length < n {
        let to = Shared(scratch.as_mut_ptr());
        let pieces = n.div_ceil(MERGED);
        threads.run(pieces, 1, estimate, |range| {
            for piece in range {
                // A piece of the result lies in one pair, or begins in one and ends in another.
                let (mut at, end) = (piece * MERGED, ((piece + 1) * MERGED).min(n));
                while at < end {
                    let pair = at / (2 * length) * 2 * length;
                    let (middle, last) = ((pair + length).min(n), (pair + 2 * length).min(n));
                    let stop = end.min(last);
                    // SAFETY: pieces are apart, and the vector is not touched otherwise meanwhile.
                    let out = unsafe { std::slice::from_raw_parts_mut(to.get().add(at), stop - at) };
                    merge(&items[pair..middle], &items[middle..last], at - pair, out);
                    at = stop;
                }
            }
        });
        std::mem::swap(items, scratch);
        length *= 2;
    }
}

/// What the merge of two sorted slices has from place `from` on.
fn merge<I: Item>(a: &[I], b: &[I], from: usize, out: &mut [I]) {
    // How many of the first `from` items are of `a`: the least number after which the next of `a` is above what has been taken of `b`.
    let (mut low, mut high) = (from.saturating_sub(b.len()), from.min(a.len()));
    while low < high {
        let i = low.midpoint(high);
        if a[i] < b[from - i - 1] { low = i + 1 } else { high = i }
    }
    let (mut i, mut j) = (low, from - low);
    for item in out {
        let first = j == b.len() || i < a.len() && a[i] < b[j];
        *item = if first { a[i] } else { b[j] };
        i += first as usize;
        j += !first as usize;
    }
}

/// Sorts by the key's bytes from the lowest on; digits that are all the same take no pass.
fn radix<I: Item>(items: &mut Vec<I>, scratch: &mut Vec<I>, digits: u32) {
    let mut counts = vec![[0usize; 256]; digits as usize];
    for item in items.iter() {
        for (n, count) in counts.iter_mut().enumerate() {
            count[item.digit(n as u32)] += 1;
        }
    }
    scratch.resize(items.len(), I::default());
    for (n, count) in counts.iter_mut().enumerate() {
        if count.contains(&items.len()) {
            continue;
        }
        let mut start = 0;
        for c in count.iter_mut() {
            start += std::mem::replace(c, start);
        }
        for &item in items.iter() {
            let at = &mut count[item.digit(n as u32)];
            scratch[*at] = item;
            *at += 1;
        }
        std::mem::swap(items, scratch);
    }
}
