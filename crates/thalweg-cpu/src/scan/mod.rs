//! Cumulative scans in memory: running sums, products, maxima, minima, logarithms of sums of exponentials, and sorts.
//!
//! In: an operation and elements in `n` rows of `width` columns. Out: each column scanned. The order is part of the
//! definition, so the bits do not depend on layout or threads. Floats are accumulated in f64, including f32 and
//! narrower ones (a sequential chain is bound by the latency of an addition, which is the same for f32 and f64), and
//! each result is rounded once: the results equal the interpreter's. Integers wrap.
//!
//! Elements are combined in sequence, except for sums of more than [`SCAN_BLOCK`] elements: each block of that many has
//! a *total*, its elements added in order from -0; a block begins with the totals of all earlier blocks, added in
//! order, and continues element by element. Totals, and then results, of several blocks are computed at a time, by as
//! many threads as there are. For operations that are associative to the bit - integers, maxima, minima - blocks give
//! the same results as one sequence. Products of floats have no blocks: of two totals, one may overflow where the other
//! underflows. Neither has [`ScanOp::LogSumExp`], which would need twice the exponentials.

mod blocks;
mod sort;

use crate::combine::Combine;
use crate::hardware::PRIVATE_CACHE;
use crate::narrow_floats::{from_bf16, from_f16, to_bf16, to_f16};
use crate::simd::{Job, dispatch};
use crate::threads::Threads;
use crate::tunable::TUNABLES;
use blocks::blocks;
use half::{bf16, f16};
use sort::sorted;
use thalweg_ir::{DType, ScanOp, to_odd};
use thalweg_kernel::Moved;
use thalweg_kernel::order::SCAN_BLOCK;

/// Estimated nanoseconds per element of a scan on one thread.
pub fn ns_per_element(op: ScanOp) -> f64 {
    match op {
        ScanOp::Sort | ScanOp::Argsort | ScanOp::LogSumExp => 20.0,
        ScanOp::Sum | ScanOp::Prod | ScanOp::Max | ScanOp::Min => 0.7,
    }
}

/// Memory traffic of scanning each column, beyond reading the elements and writing the results once. `split` says that
/// threads share each column. A sort skips digits on which all keys agree, but that depends on data: all digits count.
pub fn moves(op: ScanOp, dtype: DType, [n, width]: [usize; 2], split: bool) -> Moved {
    let bytes = (n * width * dtype.size()) as u64;
    match op {
        ScanOp::Sort | ScanOp::Argsort => sort::moves(op, dtype, n, split).times(width as u64),
        // Scanned without blocks.
        ScanOp::LogSumExp => Moved::default(),
        ScanOp::Prod if dtype.is_float() => Moved::default(),
        // One pass for the totals of the blocks, one for the results.
        _ if split && n > SCAN_BLOCK && bytes > PRIVATE_CACHE as u64 => Moved { read: bytes, ..Moved::default() },
        _ => Moved::default(),
    }
}

/// Scans each column of an `[n][width]` row-major buffer; with `width` 1, a single row. `dtype` is that of the
/// elements; [`ScanOp::Argsort`] writes i64. `reverse`: from the last element to the first; for a sort, descending.
/// `from` may equal `to`, for [`ScanOp::Argsort`] only if elements have 8 bytes or `width` is 1. Without `threads`, the
/// calling thread works alone.
///
/// # Safety
/// `from` is readable and `to` writable for all elements, and aligned to them; they are the same or do not overlap.
///
/// # Panics
/// For [`ScanOp::LogSumExp`] of a dtype that is not a float.
pub unsafe fn scan(
    (op, reverse): (ScanOp, bool),
    dtype: DType,
    from: *const u8,
    to: *mut u8,
    [n, width]: [usize; 2],
    threads: Option<&Threads>,
) {
    if n == 0 || width == 0 {
        return;
    }
    let (rows, t) = (Rows { n, width }, threads);
    // SAFETY: the caller's promise, for the type of the dtype.
    unsafe {
        match dtype {
            DType::F32 => floats::<f32>(op, reverse, from.cast(), to, rows, t),
            DType::F64 => floats::<f64>(op, reverse, from.cast(), to, rows, t),
            DType::BF16 => floats::<bf16>(op, reverse, from.cast(), to, rows, t),
            DType::F16 => floats::<f16>(op, reverse, from.cast(), to, rows, t),
            DType::I8 => ints::<i8>(op, reverse, from.cast(), to, rows, t),
            DType::I16 => ints::<i16>(op, reverse, from.cast(), to, rows, t),
            DType::I32 => ints::<i32>(op, reverse, from.cast(), to, rows, t),
            DType::I64 => ints::<i64>(op, reverse, from.cast(), to, rows, t),
            DType::U8 => ints::<u8>(op, reverse, from.cast(), to, rows, t),
            DType::U16 => ints::<u16>(op, reverse, from.cast(), to, rows, t),
            DType::U32 => ints::<u32>(op, reverse, from.cast(), to, rows, t),
            DType::U64 => ints::<u64>(op, reverse, from.cast(), to, rows, t),
            DType::Bool => ints::<Truth>(op, reverse, from.cast(), to, rows, t),
        }
    }
}

/// Sizes of a row-major buffer to scan.
#[derive(Clone, Copy)]
struct Rows {
    /// Number of rows, which is the length of a scan.
    n: usize,
    /// Number of columns.
    width: usize,
}

/// Element type of a scan, with its accumulator type and its sort keys.
trait Element: Copy + Send + Sync {
    type Wide: Copy + Send + Sync;
    /// Whether a sort key needs 64 bits.
    const WIDE_KEY: bool = size_of::<Self>() == 8;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    /// Sort key: an unsigned integer in the order of the elements, in the low bits.
    fn key(self) -> u64;
    /// Returns the element of a key; if several elements share the key, one of them.
    fn of_key(key: u64) -> Self;
    /// Whether several elements may have the same key.
    const HAS_EQUAL_KEYS: bool = false;
    /// Keys that several elements share (those of zeros and of NaN); zeros if there are none.
    const SHARED: [u64; 2] = [0; 2];
    /// Whether the element may differ from the element that its key maps back to: true for -0 and NaN.
    fn is_noncanonical(self) -> bool {
        false
    }
}

macro_rules! float_elements {
    ($($t:ty, $bits:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Element for $t {
            type Wide = f64;
            #[inline(always)]
            fn widen(self) -> f64 { ($widen)(self) }
            #[inline(always)]
            fn narrow(wide: f64) -> $t { ($narrow)(wide) }
            #[inline(always)]
            fn key(self) -> u64 {
                let bits = self.to_bits();
                let sign = 1 << (<$bits>::BITS - 1);
                // Branchless: a branch on the sign would be unpredictable.
                let negative: $bits = (0 as $bits).wrapping_sub(bits >> (<$bits>::BITS - 1));
                let key = if self.is_nan() {
                    <$bits>::MAX
                } else if bits << 1 == 0 {
                    sign
                } else {
                    bits ^ (negative | sign)
                };
                key as u64
            }
            #[inline(always)]
            fn of_key(key: u64) -> $t {
                let key = key as $bits;
                let positive: $bits = (0 as $bits).wrapping_sub(key >> (<$bits>::BITS - 1));
                <$t>::from_bits(key ^ (!positive | 1 << (<$bits>::BITS - 1)))
            }
            const HAS_EQUAL_KEYS: bool = true;
            const SHARED: [u64; 2] = [1 << (<$bits>::BITS - 1), <$bits>::MAX as u64];
            #[inline(always)]
            fn is_noncanonical(self) -> bool {
                self.is_nan() | (self.to_bits() == 1 << (<$bits>::BITS - 1))
            }
        }
    )*};
}
float_elements! {
    f32, u32, |v: f32| v as f64, |v: f64| v as f32;
    f64, u64, |v: f64| v, |v: f64| v;
    bf16, u16, |v: bf16| from_bf16(v.to_bits()) as f64, |v| bf16::from_bits(to_bf16(to_odd(v)));
    f16, u16, |v: f16| from_f16(v.to_bits()) as f64, |v| f16::from_bits(to_f16(to_odd(v)));
}

/// Integer element type, with the operations of running results.
trait Int: Element<Wide = Self> {
    /// Unsigned type of the same width.
    type Unsigned: Int;
    const MIN: Self;
    const MAX: Self;
    const ZERO: Self;
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! int_elements {
    ($($t:ty as $unsigned:ty),*) => {$(
        impl Element for $t {
            type Wide = $t;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(wide: $t) -> $t { wide }
            #[inline(always)]
            fn key(self) -> u64 {
                // Offset by the minimum: unsigned values are unchanged.
                self.wrapping_sub(<$t>::MIN) as u64 & (u64::MAX >> (64 - <$t>::BITS))
            }
            #[inline(always)]
            fn of_key(key: u64) -> $t {
                (key as $t).wrapping_add(<$t>::MIN)
            }
        }
        impl Int for $t {
            type Unsigned = $unsigned;
            const MIN: $t = <$t>::MIN;
            const MAX: $t = <$t>::MAX;
            const ZERO: $t = 0;
            const ONE: $t = 1;
            #[inline(always)]
            fn plus(self, other: $t) -> $t { Combine::sum(self, other) }
            #[inline(always)]
            fn times(self, other: $t) -> $t { Combine::prod(self, other) }
        }
    )*};
}
int_elements!(i8 as u8, i16 as u16, i32 as u32, i64 as u64, u8 as u8, u16 as u16, u32 as u32, u64 as u64);

/// Element of a bool tensor, as an integer of one bit.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Truth(u8);

impl Element for Truth {
    type Wide = Truth;
    fn widen(self) -> Truth {
        self
    }
    fn narrow(wide: Truth) -> Truth {
        wide
    }
    fn key(self) -> u64 {
        self.0 as u64
    }
    fn of_key(key: u64) -> Truth {
        Truth(key as u8)
    }
}

impl Int for Truth {
    type Unsigned = Truth;
    const MIN: Truth = Truth(0);
    const MAX: Truth = Truth(1);
    const ZERO: Truth = Truth(0);
    const ONE: Truth = Truth(1);
    fn plus(self, other: Truth) -> Truth {
        Truth(self.0 ^ other.0)
    }
    fn times(self, other: Truth) -> Truth {
        Truth(self.0 & other.0)
    }
}

/// Sequential scan operation: a state, and its update by the next element, which returns the running result.
trait Running<T: Element>: Copy {
    type State: Copy;
    fn start(self) -> Self::State;
    fn next(self, state: &mut Self::State, x: T::Wide) -> T::Wide;
}

/// Scan operation whose state is the running result: start state, and binary operation.
#[derive(Clone, Copy)]
struct Plain<S, F>(S, F);

impl<T: Element, F: Fn(T::Wide, T::Wide) -> T::Wide + Copy> Running<T> for Plain<T::Wide, F> {
    type State = T::Wide;
    #[inline(always)]
    fn start(self) -> T::Wide {
        self.0
    }
    #[inline(always)]
    fn next(self, state: &mut T::Wide, x: T::Wide) -> T::Wide {
        *state = (self.1)(*state, x);
        *state
    }
}

/// Scan operation ln Σ eˣ. Its state is the largest exponent so far, and the sum of exponentials scaled by it.
#[derive(Clone, Copy)]
struct LogSumExp;

impl<T: Element<Wide = f64>> Running<T> for LogSumExp {
    type State = (f64, f64);
    fn start(self) -> (f64, f64) {
        (f64::NEG_INFINITY, 0.0)
    }
    fn next(self, (largest, sum): &mut (f64, f64), x: f64) -> f64 {
        if largest.is_nan() || x.is_nan() {
            *largest = f64::NAN;
        } else if x > *largest {
            *sum = if x.is_infinite() { 1.0 } else { *sum * libm::exp(*largest - x) + 1.0 };
            *largest = x;
        } else if x != f64::NEG_INFINITY && *largest != f64::INFINITY {
            *sum += libm::exp(x - *largest);
        }
        // Infinities are valid results, but their differences are NaN.
        if largest.is_finite() { *largest + libm::log(*sum) } else { *largest }
    }
}

unsafe fn floats<T: Element<Wide = f64>>(
    op: ScanOp,
    reverse: bool,
    from: *const T,
    to: *mut u8,
    rows: Rows,
    threads: Option<&Threads>,
) {
    let out = to.cast::<T>();
    let least = f64::NEG_INFINITY;
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            // -0 is the identity of a sum, so a sum that begins with -0 stays -0.
            ScanOp::Sum => blocks::<_, _, false>(-0.0, <f64 as Combine>::sum, reverse, (from, out), rows, threads),
            ScanOp::Prod => running(Plain(1.0, <f64 as Combine>::prod), reverse, from, out, rows),
            ScanOp::Max => blocks::<_, _, true>(least, <f64 as Combine>::max, reverse, (from, out), rows, threads),
            ScanOp::Min => blocks::<_, _, true>(-least, <f64 as Combine>::min, reverse, (from, out), rows, threads),
            ScanOp::LogSumExp => running(LogSumExp, reverse, from, out, rows),
            ScanOp::Sort | ScanOp::Argsort => sorted(op, reverse, from, to, rows, threads),
        }
    }
}

unsafe fn ints<T: Int>(op: ScanOp, reverse: bool, from: *const T, to: *mut u8, rows: Rows, threads: Option<&Threads>) {
    let lie = (from, to.cast::<T>());
    // Sums and products have the same bits for signed and unsigned integers.
    let bits = (from.cast::<T::Unsigned>(), to.cast::<T::Unsigned>());
    let larger = |a: T, b: T| if b.key() > a.key() { b } else { a };
    let smaller = |a: T, b: T| if b.key() < a.key() { b } else { a };
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            ScanOp::Max => blocks::<_, _, true>(T::MIN, larger, reverse, lie, rows, threads),
            ScanOp::Min => blocks::<_, _, true>(T::MAX, smaller, reverse, lie, rows, threads),
            ScanOp::Sort | ScanOp::Argsort => sorted(op, reverse, from, to, rows, threads),
            ScanOp::Sum => blocks::<_, _, true>(T::Unsigned::ZERO, T::Unsigned::plus, reverse, bits, rows, threads),
            ScanOp::Prod => blocks::<_, _, true>(T::Unsigned::ONE, T::Unsigned::times, reverse, bits, rows, threads),
            ScanOp::LogSumExp => panic!("logcumsumexp takes floats"),
        }
    }
}

/// Scans each column, element by element, with the operation `with`.
///
/// # Safety
/// As for [`scan`].
unsafe fn running<T: Element, R: Running<T>>(with: R, reverse: bool, from: *const T, to: *mut T, rows: Rows) {
    struct Columns<T, R> {
        with: R,
        reverse: bool,
        from: *const T,
        to: *mut T,
        rows: Rows,
    }
    impl<T: Element, R: Running<T>> Job for Columns<T, R> {
        type Out = ();
        #[inline(always)]
        fn run(self) {
            let Columns { with, reverse, from, to, rows } = self;
            let place = |i: usize| if reverse { rows.n - 1 - i } else { i };
            if rows.width == 1 {
                let mut state = with.start();
                for i in 0..rows.n {
                    let i = place(i);
                    // SAFETY: the promise of `running`; an element is read before it may be overwritten.
                    unsafe {
                        let x = from.add(i).read();
                        to.add(i).write(T::narrow(with.next(&mut state, x.widen())));
                    }
                }
                return;
            }
            let most = TUNABLES.max_scan_columns.size();
            let mut states = vec![with.start(); rows.width.min(most)];
            for first in (0..rows.width).step_by(most) {
                let states = &mut states[..most.min(rows.width - first)];
                states.fill(with.start());
                for i in 0..rows.n {
                    let i = place(i);
                    // SAFETY: as above.
                    unsafe {
                        let (x, out) = (from.add(i * rows.width + first), to.add(i * rows.width + first));
                        for (j, state) in states.iter_mut().enumerate() {
                            out.add(j).write(T::narrow(with.next(state, x.add(j).read().widen())));
                        }
                    }
                }
            }
        }
    }
    dispatch(Columns { with, reverse, from, to, rows });
}
