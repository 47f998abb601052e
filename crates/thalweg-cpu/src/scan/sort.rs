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
    /// The key, where that is all there is.
    #[inline(always)]
    fn key(self) -> Option<u64> {
        None
    }
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

/// A key alone: of integers, which are known by it, where nobody asks for places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Key(u64);

impl Item for Key {
    #[inline(always)]
    fn new(key: u64, _: usize) -> Key {
        Key(key)
    }
    #[inline(always)]
    fn place(self) -> usize {
        unreachable!("a key alone has no place")
    }
    #[inline(always)]
    fn digit(self, n: u32) -> usize {
        (self.0 >> (8 * n)) as usize & 0xff
    }
    #[inline(always)]
    fn key(self) -> Option<u64> {
        Some(self.0)
    }
}

/// What sorting a column of `n` elements moves of its keys and copies, where these do not stay in a core's own caches.
pub fn moves(op: ScanOp, dtype: DType, n: usize, split: bool) -> Moved {
    let (digits, size) = (dtype.size() as u64, dtype.size());
    let alone = op == ScanOp::Sort && dtype.is_int() && size == 8;
    let pair = size == 8 && !alone || n > u32::MAX as usize;
    let item = if pair { size_of::<(u64, usize)>() } else { size_of::<u64>() };
    let (items, elements) = ((n * item) as u64, if alone { 0 } else { (n * size) as u64 });
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
        if op == ScanOp::Sort && T::LONG && T::OF_KEY.is_some() {
            sorted_by::<T, Key>(op, reverse, from, to, rows, threads);
        } else if T::LONG || rows.n > u32::MAX as usize {
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
    // What keys say is not kept besides.
    let kept = I::default().key().is_none();
    let mut elements: Vec<T> = Vec::with_capacity(if kept { rows.n } else { 0 });
    for j in 0..rows.width {
        items.clear();
        elements.clear();
        let (mut some, mut all) = (0, u64::MAX);
        for i in 0..rows.n {
            // SAFETY: the caller's promise.
            let x = unsafe { from.add(i * rows.width + j).read() };
            // The contrary order of keys with places still ascending: stable either way.
            let key = if reverse { !x.key() & mask } else { x.key() };
            (some, all) = (some | key, all & key);
            items.push(I::new(key, i));
            if kept {
                elements.push(x);
            }
        }
        // Bytes in which keys differ: the others take no pass.
        let digits: Vec<u32> = (0..size_of::<T>() as u32).filter(|d| (some ^ all) >> (8 * d) & 0xff != 0).collect();
        match threads {
            _ if rows.n < RADIX => items.sort_unstable(),
            None => radix(&mut items, &mut scratch, &digits),
            Some(threads) => together(&mut items, &mut scratch, &digits, (threads, helpers, estimate)),
        }
        for (i, item) in items.iter().enumerate() {
            // SAFETY: as above; the column was read before.
            unsafe {
                if let (Some(key), Some(of)) = (item.key(), T::OF_KEY) {
                    to.cast::<T>().add(i * rows.width + j).write(of(if reverse { !key & mask } else { key }));
                } else if op == ScanOp::Sort {
                    to.cast::<T>().add(i * rows.width + j).write(elements[item.place()]);
                } else {
                    to.cast::<i64>().add(i * rows.width + j).write(item.place() as i64);
                }
            }
        }
    }
}

/// Sorts by these bytes of the keys, from the lowest on.
fn radix<I: Item>(items: &mut Vec<I>, scratch: &mut Vec<I>, digits: &[u32]) {
    let mut counts = vec![[0usize; 256]; digits.len()];
    for item in items.iter() {
        for (count, &n) in counts.iter_mut().zip(digits) {
            count[item.digit(n)] += 1;
        }
    }
    scratch.resize(items.len(), I::default());
    for (count, &n) in counts.iter_mut().zip(digits) {
        let mut start = 0;
        for c in count.iter_mut() {
            start += std::mem::replace(c, start);
        }
        for &item in items.iter() {
            let at = &mut count[item.digit(n)];
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
    digits: &[u32],
    (threads, helpers, estimate): (&Threads, usize, f64),
) {
    let n = items.len();
    let length = n.div_ceil(helpers);
    let part = |k: usize| (k * length).min(n)..((k + 1) * length).min(n);
    let mut counts = vec![[0usize; 256]; helpers];
    scratch.resize(n, I::default());
    for &digit in digits {
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
        let mut start = 0;
        for d in 0..256 {
            for k in 0..helpers {
                let count = &mut own(k)[d];
                start += std::mem::replace(count, start);
            }
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
