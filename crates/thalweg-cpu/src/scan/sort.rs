//! Stable sorts and argsorts of columns, by integer keys.
//!
//! Keys are unsigned integers in the order of the elements, with NaN the largest, and -0 and +0 equal. An argsort
//! stores the index beside the key, so that any sorting algorithm is stable. A sort sorts keys alone and converts them
//! back to elements; the few elements that share a key - zeros, NaN - are written afterwards in their original order.
//! Long columns are sorted by radix, by all threads jointly.

use super::{Element, Rows, ns_per_element};
use crate::hardware::PRIVATE_CACHE;
use crate::simd::Shared;
use crate::threads::Threads;
use crate::tunable::TUNABLES;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use thalweg_ir::{DType, ScanOp};
use thalweg_kernel::Moved;

/// An item of a radix sort, whose digits are the bytes of its key.
trait Digits: Copy + Ord + Default + Send + Sync {
    /// Byte `n` of the key, counted from the lowest.
    fn digit(self, n: u32) -> usize;
}

/// An item of an argsort: a key with the index of its element.
trait Item: Digits {
    fn new(key: u64, place: usize) -> Self;
    fn place(self) -> usize;
}

/// Item with the key in the high half and the index in the low half, for keys of at most 32 bits in columns of fewer
/// than 2³² elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Packed(u64);

impl Digits for Packed {
    #[inline(always)]
    fn digit(self, n: u32) -> usize {
        (self.0 >> (32 + 8 * n)) as usize & 0xff
    }
}

impl Item for Packed {
    #[inline(always)]
    fn new(key: u64, place: usize) -> Packed {
        Packed(key << 32 | place as u64)
    }
    #[inline(always)]
    fn place(self) -> usize {
        self.0 as u32 as usize
    }
}

impl Digits for (u64, usize) {
    #[inline(always)]
    fn digit(self, n: u32) -> usize {
        self.0.digit(n)
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
}

/// An item of a sort: a key without an index.
trait Key: Digits {
    fn of(key: u64) -> Self;
    fn key(self) -> u64;
}

macro_rules! keys {
    ($($t:ty),*) => {$(
        impl Digits for $t {
            #[inline(always)]
            fn digit(self, n: u32) -> usize {
                (self >> (8 * n)) as usize & 0xff
            }
        }
        impl Key for $t {
            #[inline(always)]
            fn of(key: u64) -> $t {
                key as $t
            }
            #[inline(always)]
            fn key(self) -> u64 {
                self as u64
            }
        }
    )*};
}
keys!(u32, u64);

/// Memory traffic of sorting the keys of a column of `n` elements, if they do not fit a core's private caches.
pub fn moves(op: ScanOp, dtype: DType, n: usize, split: bool) -> Moved {
    let (digits, long) = (dtype.size() as u64, dtype.size() == 8);
    let item = match op {
        ScanOp::Sort if long => size_of::<u64>(),
        ScanOp::Sort => size_of::<u32>(),
        _ if long || n > u32::MAX as usize => size_of::<(u64, usize)>(),
        _ => size_of::<Packed>(),
    };
    let items = (n * item) as u64;
    if !TUNABLES.min_radix.reached_by(n) || 2 * items <= PRIVATE_CACHE as u64 {
        return Moved::default();
    }
    // Keys are read for counting, once for all digits, or by threads once per digit; they are moved once per digit; at
    // last they are read for the results.
    let counted = if split { digits } else { 1 };
    Moved { read: items * (counted + digits + 1), written: items * (1 + digits), ..Moved::default() }
}

/// Threads that sort a column jointly.
#[derive(Clone, Copy)]
struct Team<'a> {
    threads: &'a Threads,
    count: usize,
    estimate: f64,
}

impl Team<'_> {
    /// Range of the elements `0..n` that thread `k` processes.
    fn part(self, n: usize, k: usize) -> Range<usize> {
        let length = n.div_ceil(self.count);
        (k * length).min(n)..((k + 1) * length).min(n)
    }

    /// Runs `work` on each thread's range of `n` elements.
    fn run(self, n: usize, work: impl Fn(usize, Range<usize>) + Sync) {
        self.threads.run(self.count, 1, self.estimate, |range| range.for_each(|k| work(k, self.part(n, k))));
    }
}

/// Sorts or argsorts each column.
///
/// # Safety
/// As for [`scan`](super::scan).
pub unsafe fn sorted<T: Element>(
    op: ScanOp,
    reverse: bool,
    from: *const T,
    to: *mut u8,
    rows: Rows,
    threads: Option<&Threads>,
) {
    let estimate = ns_per_element(op) * rows.n as f64;
    let all = threads.map(|threads| Team { threads, count: threads.for_work(estimate), estimate });
    let all = all.filter(|t| t.count > 1 && rows.n >= 2 * TUNABLES.min_radix.get());
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            ScanOp::Sort if T::WIDE_KEY => by_keys::<T, u64>(reverse, from, to.cast(), rows, all),
            ScanOp::Sort => by_keys::<T, u32>(reverse, from, to.cast(), rows, all),
            _ if T::WIDE_KEY || rows.n > u32::MAX as usize => {
                places::<T, (u64, usize)>(reverse, from, to.cast(), rows, all);
            }
            _ => places::<T, Packed>(reverse, from, to.cast(), rows, all),
        }
    }
}

/// Sort key of an element, complemented for a descending sort.
#[inline(always)]
fn key_of<T: Element>(x: T, reverse: bool) -> u64 {
    let mask = u64::MAX >> (64 - 8 * size_of::<T>() as u32);
    if reverse { !x.key() & mask } else { x.key() }
}

/// Returns the digits (bytes) in which keys of `size` bytes differ, given the bits that are set in some keys and in all
/// keys. A radix sort needs no pass for other digits.
fn digits(size: usize, (some, all): (u64, u64)) -> Vec<u32> {
    (0..size as u32).filter(|d| (some ^ all) >> (8 * d) & 0xff != 0).collect()
}

/// Sorts items; `digits` are those in which their keys differ.
fn sort<I: Digits>(items: &mut Vec<I>, scratch: &mut Vec<I>, digits: impl FnOnce() -> Vec<u32>, all: Option<Team<'_>>) {
    match all {
        _ if !TUNABLES.min_radix.reached_by(items.len()) => items.sort_unstable(),
        None => radix(items, scratch, &digits()),
        Some(all) => radix_parallel(items, scratch, &digits(), all),
    }
}

/// Argsorts each column: writes the elements' indices in order.
unsafe fn places<T: Element, I: Item>(reverse: bool, from: *const T, to: *mut i64, rows: Rows, all: Option<Team<'_>>) {
    let (mut items, mut scratch): (Vec<I>, Vec<I>) = (Vec::with_capacity(rows.n), vec![]);
    for j in 0..rows.width {
        items.clear();
        let mut bits = (0, u64::MAX);
        for i in 0..rows.n {
            // SAFETY: the caller's promise. (Indices ascend in the reverse order too, so both are stable.)
            let key = key_of(unsafe { from.add(i * rows.width + j).read() }, reverse);
            bits = (bits.0 | key, bits.1 & key);
            items.push(I::new(key, i));
        }
        sort(&mut items, &mut scratch, || digits(size_of::<T>(), bits), all);
        for (i, item) in items.iter().enumerate() {
            // SAFETY: as above; the column was read before.
            unsafe { to.add(i * rows.width + j).write(item.place() as i64) };
        }
    }
}

/// Summary of the keys of a range: the bits that are set in some and in all keys (`bits`), and whether an element
/// differs from the one that its key maps back to (`shared`).
#[derive(Clone, Copy)]
struct KeySummary {
    bits: (u64, u64),
    shared: bool,
}

impl KeySummary {
    const NOTHING: KeySummary = KeySummary { bits: (0, u64::MAX), shared: false };

    fn and(self, o: KeySummary) -> KeySummary {
        KeySummary { bits: (self.bits.0 | o.bits.0, self.bits.1 & o.bits.1), shared: self.shared | o.shared }
    }
}

/// Writes the keys of a range of a column whose elements are `step` apart, and summarises them.
///
/// # Safety
/// The elements are readable, and there is space for a key at each of their indices.
unsafe fn keys<T: Element, K: Key>(
    from: *const T,
    step: usize,
    reverse: bool,
    range: Range<usize>,
    to: *mut K,
) -> KeySummary {
    let mut seen = KeySummary::NOTHING;
    for i in range {
        // SAFETY: the caller's promise.
        let x = unsafe { from.add(i * step).read() };
        let key = key_of(x, reverse);
        seen = seen.and(KeySummary { bits: (key, key), shared: x.is_noncanonical() });
        // SAFETY: as above.
        unsafe { to.add(i).write(K::of(key)) };
    }
    seen
}

/// Sorts each column: sorts the keys, and converts them back to elements.
unsafe fn by_keys<T: Element, K: Key>(reverse: bool, from: *const T, to: *mut T, rows: Rows, all: Option<Team<'_>>) {
    let (n, width) = (rows.n, rows.width);
    let (mut items, mut scratch): (Vec<K>, Vec<K>) = (vec![K::default(); n], vec![]);
    let (from, to) = (Shared(from.cast_mut()), Shared(to));
    for j in 0..width {
        // SAFETY: the caller's promise.
        let element = |i: usize| unsafe { from.get().add(i * width + j).read() };
        let places = Shared(items.as_mut_ptr());
        // SAFETY: the caller's promise; inside the vector, where each thread has its own range.
        let keys = |range: Range<usize>| unsafe { keys(from.get().add(j), width, reverse, range, places.get()) };
        let seen = match all {
            None => keys(0..n),
            Some(all) => {
                let each = Mutex::new(KeySummary::NOTHING);
                all.run(n, |_, range| {
                    let seen = keys(range);
                    let mut each = each.lock().unwrap_or_else(PoisonError::into_inner);
                    *each = each.and(seen);
                });
                each.into_inner().unwrap_or_else(PoisonError::into_inner)
            }
        };
        sort(&mut items, &mut scratch, || digits(size_of::<T>(), seen.bits), all);
        // Elements that share a key, in their original order, copied since the result may overwrite them.
        let shared: Vec<(u64, Vec<T>)> = if T::HAS_EQUAL_KEYS && seen.shared {
            T::SHARED.map(|k| (k, (0..n).map(element).filter(|x| x.key() == k).collect())).into()
        } else {
            vec![]
        };
        let keys = &items[..];
        let write = |range: Range<usize>| {
            for (i, k) in range.clone().zip(&keys[range]) {
                let key = k.key();
                let mask = u64::MAX >> (64 - 8 * size_of::<T>() as u32);
                // SAFETY: the caller's promise; the column was read before, and each thread has its own range.
                unsafe { to.get().add(i * width + j).write(T::of_key(if reverse { !key & mask } else { key })) };
            }
        };
        match all {
            None => write(0..n),
            Some(all) => all.run(n, |_, range| write(range)),
        }
        for (key, elements) in shared {
            let Some(&one) = elements.first() else { continue };
            debug_assert_eq!(one.key(), key);
            let start = items.partition_point(|k| k.key() < key_of(one, reverse));
            for (i, x) in elements.into_iter().enumerate() {
                // SAFETY: as above; that many keys are equal from there on.
                unsafe { to.get().add((start + i) * width + j).write(x) };
            }
        }
    }
}

/// Sorts by the given digits (bytes) of the keys, least significant first (radix sort).
fn radix<I: Digits>(items: &mut Vec<I>, scratch: &mut Vec<I>, digits: &[u32]) {
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

/// Parallel [`radix`]: each thread counts the digits of a range and moves that range to the offsets that the counts of
/// all ranges give. The order is that of one thread, for any number of threads.
fn radix_parallel<I: Digits>(items: &mut Vec<I>, scratch: &mut Vec<I>, digits: &[u32], all: Team<'_>) {
    let n = items.len();
    let mut counts = vec![[0usize; 256]; all.count];
    scratch.resize(n, I::default());
    for &digit in digits {
        let (from, to) = (&items[..], Shared(scratch.as_mut_ptr()));
        let each = Shared(counts.as_mut_ptr());
        // SAFETY: each range has its own counts, one thread at a time processes a range, and no two borrows of one are
        // alive at once.
        let own = |k: usize| unsafe { &mut *each.get().add(k) };
        all.run(n, |k, part| {
            let (mut count, digit) = ([0; 256], digit);
            from[part].iter().for_each(|item| count[item.digit(digit)] += 1);
            *own(k) = count;
        });
        let mut start = 0;
        for d in 0..256 {
            for k in 0..all.count {
                let count = &mut own(k)[d];
                start += std::mem::replace(count, start);
            }
        }
        all.run(n, |k, part| {
            // Local copies, which the compiler knows to be unaliased.
            let (mut places, to, digit) = (*own(k), to.get(), digit);
            for &item in &from[part] {
                let at = &mut places[item.digit(digit)];
                // SAFETY: the counts give each item a unique index below `n`.
                unsafe { to.add(*at).write(item) };
                *at += 1;
            }
        });
        std::mem::swap(items, scratch);
    }
}
