//! Sorts.
//!
//! They go by keys: unsigned integers in the order of the elements, NaN the largest, -0 and +0 one, each with its place
//! in the low bits, so that any way to sort them is stable. Long columns are sorted by radix, by all threads together.

use super::{Element, Rows, ns_per_element};
use crate::memory::PRIVATE;
use crate::simd::Shared;
use crate::threads::Threads;
use thalweg_ir::{DType, ScanOp};
use thalweg_kernel::Moved;

/// Elements from which a column is sorted by radix rather than by comparisons.
const RADIX: usize = 512;

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

/// What sorting a column of `n` elements moves of its keys and copies, where these do not stay in a core's own caches.
pub fn moves(dtype: DType, n: usize, split: bool) -> Moved {
    let (digits, size) = (dtype.size() as u64, dtype.size());
    let item = if size == 8 || n > u32::MAX as usize { size_of::<(u64, usize)>() } else { size_of::<u64>() };
    let (items, elements) = ((n * item) as u64, (n * size) as u64);
    if n < RADIX || 2 * items + elements <= PRIVATE as u64 {
        return Moved::default();
    }
    // Keys are counted for all digits at once, or by threads for each, and moved for each; at last they say which
    // element comes next.
    let counted = if split { digits } else { 1 };
    Moved {
        read: items * (counted + digits + 1) + elements,
        written: items * (1 + digits) + elements,
        ..Moved::default()
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
            Some(threads) => together(&mut items, &mut scratch, digits, (threads, helpers, estimate)),
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

/// As [`radix`], by threads together: each counts the digits of a part and moves that part to where the counts of all
/// parts say. The order is that of one thread, however many there are.
fn together<I: Item>(
    items: &mut Vec<I>,
    scratch: &mut Vec<I>,
    digits: u32,
    (threads, helpers, estimate): (&Threads, usize, f64),
) {
    let n = items.len();
    let length = n.div_ceil(helpers);
    let part = |k: usize| (k * length).min(n)..((k + 1) * length).min(n);
    let mut counts = vec![[0usize; 256]; helpers];
    scratch.resize(n, I::default());
    for digit in 0..digits {
        let (from, to) = (&items[..], Shared(scratch.as_mut_ptr()));
        let each = Shared(counts.as_mut_ptr());
        // SAFETY: each part has counts of its own, one thread at a time is at a part, and no two borrows of one are
        // alive at once.
        let own = |k: usize| unsafe { &mut *each.get().add(k) };
        threads.run(helpers, 1, estimate, |range| {
            for k in range {
                let count = own(k);
                count.fill(0);
                from[part(k)].iter().for_each(|item| count[item.digit(digit)] += 1);
            }
        });
        let (mut start, mut all_in_one) = (0, false);
        for d in 0..256 {
            let before = start;
            for k in 0..helpers {
                let count = &mut own(k)[d];
                start += std::mem::replace(count, start);
            }
            all_in_one |= start - before == n;
        }
        if all_in_one {
            continue;
        }
        threads.run(helpers, 1, estimate, |range| {
            for k in range {
                let places = own(k);
                for &item in &from[part(k)] {
                    let at = &mut places[item.digit(digit)];
                    // SAFETY: the counts give each item a place of its own below `n`.
                    unsafe { to.get().add(*at).write(item) };
                    *at += 1;
                }
            }
        });
        std::mem::swap(items, scratch);
    }
}
