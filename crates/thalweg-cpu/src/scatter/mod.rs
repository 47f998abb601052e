//! Scatters: values stored, or combined with elements, at given indices of an axis.
//!
//! The tensor is copied to the result, unless the result overwrites it; then values are scattered into the result.
//! Values for one element are combined in the order of the index, and each result is rounded to the tensor's dtype in
//! memory, so the bits depend on nothing else. Combinations that are exact in any order use a table per thread
//! ([`tables`]). Chunks of work partition the dimensions other than the axis; if there are too few chunks, each is
//! divided into ranges of the result along the axis, and a thread scans all indices for its range.
//!
//! Index and values may be computed by the kernel itself ([`inputs`]): in parts, each of which is scattered before the
//! next one is computed.

mod chunks;
mod inputs;
mod tables;

pub use inputs::{Input, ScatterProgram};

use crate::simd::Shared;
use crate::threads::Threads;
use crate::tunable::TUNABLES;
use chunks::{Chunks, Outside, check_disjoint, checked};
use half::{bf16, f16};
use std::ops::Range;
use thalweg_ir::{DType, ScatterOp};
use thalweg_kernel::ScatterGeometry;
use thalweg_runtime::{Buffer, Error};

/// Estimated nanoseconds per scattered value (`NS_PER_VALUE`), and per byte of the tensor copied (`NS_PER_BYTE`), on
/// one thread.
const NS_PER_VALUE: f64 = 2.0;
const NS_PER_BYTE: f64 = 0.05;
/// Number of elements that a thread copies at a time.
const CHUNK: usize = 1 << 18;

/// Copies the tensor to the result, unless both are the same memory.
///
/// # Panics
/// If the geometry reaches outside tensor or result, or the result overlaps the tensor without being in place.
fn prepare(dtype: DType, g: &ScatterGeometry, tensor: &Buffer, to: &Buffer, threads: &Threads) {
    let from = checked(g, tensor, 0, g.size, dtype.size());
    let place = checked(g, to, 3, g.size, dtype.size());
    if from != place {
        check_disjoint(to, tensor);
        copy(g, [Shared(from), Shared(place)], dtype.size(), threads);
    } else {
        // The stride over a single element is arbitrary.
        let step = (g.size > 1).then_some(g.steps);
        let all = g.outer.iter().chain(&g.inner).map(|d| d.1).chain(step).chain([g.base]);
        assert!(all.into_iter().all(|s| s[0] == s[3]), "a scatter's result lies in its tensor's place otherwise");
    }
}

/// Scatters the values: stores or combines them at the indices.
///
/// # Errors
/// If an index is out of range: nothing is written for it, and the result must not be used.
///
/// # Panics
/// If the geometry reaches outside an operand, or the result overlaps index or values.
fn apply(
    op: ScatterOp,
    dtype: DType,
    g: &ScatterGeometry,
    [index, values, to]: [&Buffer; 3],
    threads: &Threads,
) -> Result<(), Error> {
    let addresses = [
        checked(g, index, 1, g.n, 8),
        checked(g, values, 2, g.n, dtype.size()),
        checked(g, to, 3, g.size, dtype.size()),
    ];
    check_disjoint(to, index);
    check_disjoint(to, values);
    let addresses = addresses.map(Shared);
    let outside = Outside::default();
    use ScatterOp::Set;
    match (op, dtype) {
        (Set, _) => match dtype.size() {
            1 => put::<u8>(g, addresses, threads, &outside, |_, v| v),
            2 => put::<u16>(g, addresses, threads, &outside, |_, v| v),
            4 => put::<u32>(g, addresses, threads, &outside, |_, v| v),
            _ => put::<u64>(g, addresses, threads, &outside, |_, v| v),
        },
        (_, DType::F32) => accumulate::<f32>(op, g, addresses, threads, &outside),
        (_, DType::F64) => accumulate::<f64>(op, g, addresses, threads, &outside),
        (_, DType::BF16) => accumulate::<bf16>(op, g, addresses, threads, &outside),
        (_, DType::F16) => accumulate::<f16>(op, g, addresses, threads, &outside),
        (_, DType::I8) => accumulate::<i8>(op, g, addresses, threads, &outside),
        (_, DType::I16) => accumulate::<i16>(op, g, addresses, threads, &outside),
        (_, DType::I32) => accumulate::<i32>(op, g, addresses, threads, &outside),
        (_, DType::I64) => accumulate::<i64>(op, g, addresses, threads, &outside),
        (_, DType::U8) => accumulate::<u8>(op, g, addresses, threads, &outside),
        (_, DType::U16) => accumulate::<u16>(op, g, addresses, threads, &outside),
        (_, DType::U32) => accumulate::<u32>(op, g, addresses, threads, &outside),
        (_, DType::U64) => accumulate::<u64>(op, g, addresses, threads, &outside),
        (_, DType::Bool) => accumulate::<Truth>(op, g, addresses, threads, &outside),
    }
    outside.result(op.name(), g)
}

/// Copies the tensor to the result, on several threads; positions were checked.
fn copy(g: &ScatterGeometry, [from, to]: [Shared<u8>; 2], size: usize, threads: &Threads) {
    let along = (g.size, g.steps);
    let mut dims: Vec<(usize, [isize; 4])> = vec![];
    for &(d, s) in g.outer.iter().chain([&along]).chain(&g.inner).filter(|d| d.0 != 1) {
        match dims.last_mut() {
            Some(last) if [0, 3].iter().all(|&o| last.1[o] == s[o] * d as isize) => *last = (last.0 * d, s),
            _ => dims.push((d, s)),
        }
    }
    let elements: usize = dims.iter().map(|d| d.0).product();
    let estimate = NS_PER_BYTE * (elements * size) as f64;
    let at = |address: Shared<u8>, position: isize| address.get().wrapping_offset(position * size as isize);
    if let [] | [(_, [1, _, _, 1])] = dims[..] {
        threads.run(elements.div_ceil(CHUNK), 1, estimate, |range| {
            let (start, end) = (range.start * CHUNK, elements.min(range.end * CHUNK));
            let (from, to) = (at(from, g.base[0] + start as isize), at(to, g.base[3] + start as isize));
            // SAFETY: all positions were checked, and the two do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(from, to, (end - start) * size) };
        });
        return;
    }
    let chunks = Chunks::new(dims, g.base, true);
    threads.run(chunks.count(), 16, estimate, |range| {
        for chunk in range {
            let (first, width) = chunks.get(chunk);
            for j in 0..width as isize {
                let from = at(from, first[0] + j * chunks.columns[0]);
                let to = at(to, first[3] + j * chunks.columns[3]);
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(from, to, size) };
            }
        }
    });
}

/// Element type in which values are accumulated.
trait Element: Copy + Send + Sync {
    /// Whether combinations are exact in any order.
    const EXACT: bool;
    /// Identities of addition, multiplication, maximum and minimum, if these are exact.
    const NEUTRAL: [Self; 4];
    /// Type whose sums and products have the same bits: for signed integers the unsigned one.
    type Wrapping: Element;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
}

macro_rules! elements {
    (ints $($t:ty as $unsigned:ty),*) => {$(
        impl Element for $t {
            type Wrapping = $unsigned;
            const EXACT: bool = true;
            const NEUTRAL: [$t; 4] = [0, 1, <$t>::MIN, <$t>::MAX];
            #[inline(always)]
            fn add(self, other: $t) -> $t { self.wrapping_add(other) }
            #[inline(always)]
            fn mul(self, other: $t) -> $t { self.wrapping_mul(other) }
            #[inline(always)]
            fn max(self, other: $t) -> $t { Ord::max(self, other) }
            #[inline(always)]
            fn min(self, other: $t) -> $t { Ord::min(self, other) }
        }
    )*};
    (floats $($t:ty, $widen:expr, $narrow:expr, $nan:expr;)*) => {$(
        impl Element for $t {
            const EXACT: bool = false;
            const NEUTRAL: [$t; 4] = [$nan; 4];
            type Wrapping = $t;
            #[inline(always)]
            fn add(self, other: $t) -> $t { ($narrow)(($widen)(self) + ($widen)(other)) }
            #[inline(always)]
            fn mul(self, other: $t) -> $t { ($narrow)(($widen)(self) * ($widen)(other)) }
            #[inline(always)]
            fn max(self, other: $t) -> $t {
                if self.is_nan() || other.is_nan() {
                    $nan
                } else if other.total_cmp(&self).is_gt() {
                    other
                } else {
                    self
                }
            }
            #[inline(always)]
            fn min(self, other: $t) -> $t {
                if self.is_nan() || other.is_nan() {
                    $nan
                } else if other.total_cmp(&self).is_lt() {
                    other
                } else {
                    self
                }
            }
        }
    )*};
}
elements!(ints i8 as u8, i16 as u16, i32 as u32, i64 as u64, u8 as u8, u16 as u16, u32 as u32, u64 as u64);
elements! { floats
    f32, |v: f32| v, |v: f32| v, f32::NAN;
    f64, |v: f64| v, |v: f64| v, f64::NAN;
    bf16, |v: bf16| v.to_f32(), |v: f32| bf16::from_f32(v), bf16::NAN;
    f16, |v: f16| v.to_f32(), |v: f32| f16::from_f32(v), f16::NAN;
}

/// Element of a bool tensor, as an integer of one bit.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Truth(u8);

impl Element for Truth {
    type Wrapping = Truth;
    const EXACT: bool = true;
    const NEUTRAL: [Truth; 4] = [Truth(0), Truth(1), Truth(0), Truth(1)];
    fn add(self, other: Truth) -> Truth {
        Truth(self.0 ^ other.0)
    }
    fn mul(self, other: Truth) -> Truth {
        Truth(self.0 & other.0)
    }
    fn max(self, other: Truth) -> Truth {
        Truth(self.0 | other.0)
    }
    fn min(self, other: Truth) -> Truth {
        Truth(self.0 & other.0)
    }
}

fn accumulate<T: Element>(
    op: ScatterOp,
    g: &ScatterGeometry,
    addresses: [Shared<u8>; 3],
    threads: &Threads,
    outside: &Outside,
) {
    let all = (g, addresses, threads, outside);
    match op {
        ScatterOp::Set => unreachable!("values are stored by the size of an element"),
        ScatterOp::Add => combine(all, T::Wrapping::NEUTRAL[0], T::Wrapping::add),
        ScatterOp::Prod => combine(all, T::Wrapping::NEUTRAL[1], T::Wrapping::mul),
        ScatterOp::Max => combine(all, T::NEUTRAL[2], T::max),
        ScatterOp::Min => combine(all, T::NEUTRAL[3], T::min),
    }
}

/// Scatters values by a combination: through tables if the combination has an identity (is exact in any order) and
/// tables are faster, else directly.
fn combine<T: Element>(
    (g, addresses, threads, outside): (&ScatterGeometry, [Shared<u8>; 3], &Threads, &Outside),
    identity: T,
    with: impl Fn(T, T) -> T + Copy + Sync,
) {
    // The constant first: tables are not compiled for floats.
    if T::EXACT && tables::pays(g, size_of::<T>()) {
        let estimate = NS_PER_VALUE * g.n as f64;
        let how = tables::Combination { identity, with };
        // SAFETY: `apply` checked all positions, and that the result does not overlap index and values.
        return unsafe { tables::put(g, addresses, (threads, estimate), outside, how) };
    }
    put(g, addresses, threads, outside, with);
}

/// Part of a scatter that one thread runs: a chunk, and the range of the result along the axis whose indices it takes.
struct ScatterPart<'a> {
    /// Addresses of the chunk's first index, value, and element of the result.
    index: *const i64,
    values: *const u8,
    to: *mut u8,
    /// Number of indices along the axis, and of columns of the chunk.
    n: usize,
    width: usize,
    /// Strides of index, values and result along the axis, in elements.
    steps: [isize; 3],
    /// Their strides between columns.
    columns: [isize; 3],
    /// Range of indices that this part takes.
    own: Range<u64>,
    /// Number of the result's elements along the axis.
    size: u64,
    chunk: usize,
    outside: &'a Outside,
}

impl ScatterPart<'_> {
    /// Whether an index is in this part's range; one that is out of bounds is recorded by the first chunk that sees it.
    #[inline(always)]
    fn takes(&self, i: i64) -> bool {
        if i as u64 >= self.size {
            self.outside.note(self.chunk, i);
            return false;
        }
        (i as u64).wrapping_sub(self.own.start) < self.own.end - self.own.start
    }

    /// Scatters the part's values.
    ///
    /// # Safety
    /// Index and values are readable, the result is readable and writable at each index of the part's range.
    unsafe fn run<T: Copy>(&self, with: impl Fn(T, T) -> T) {
        let (values, to) = (self.values.cast::<T>(), self.to.cast::<T>());
        let ([index_step, value_step, step], [index_columns, value_columns, columns]) = (self.steps, self.columns);
        // SAFETY: the caller's promise.
        let combine = |to: *mut T, value: *const T| unsafe { to.write(with(to.read(), value.read())) };
        // SAFETY: as above.
        unsafe {
            if [index_step, value_step, step, self.width as isize, index_columns] == [1, 1, 1, 1, 0] {
                let len = self.own.end - self.own.start;
                for k in 0..self.n {
                    let i = self.index.add(k).read();
                    // An index outside the range may be out of bounds, which is noted.
                    if (i as u64).wrapping_sub(self.own.start) < len || self.takes(i) {
                        combine(to.add(i as usize), values.add(k));
                    }
                }
                return;
            }
            for k in 0..self.n as isize {
                let (index, values) = (self.index.offset(k * index_step), values.offset(k * value_step));
                if index_columns != 0 {
                    for j in 0..self.width as isize {
                        let i = index.offset(j * index_columns).read();
                        if self.takes(i) {
                            combine(to.offset(i as isize * step + j * columns), values.offset(j * value_columns));
                        }
                    }
                    continue;
                }
                let i = index.read();
                if !self.takes(i) {
                    continue;
                }
                let to = to.offset(i as isize * step);
                if value_columns == 1 && columns == 1 {
                    (0..self.width).for_each(|j| combine(to.add(j), values.add(j)));
                } else {
                    (0..self.width as isize)
                        .for_each(|j| combine(to.offset(j * columns), values.offset(j * value_columns)));
                }
            }
        }
    }
}

/// Scatters values by a combination of an element of the result and a value.
fn put<T: Copy>(
    g: &ScatterGeometry,
    addresses: [Shared<u8>; 3],
    threads: &Threads,
    outside: &Outside,
    with: impl Fn(T, T) -> T + Copy + Sync,
) {
    // SAFETY: all positions were checked, those of the result for every valid index; no two parts write the same element.
    in_parts(g, size_of::<T>(), addresses, threads, outside, &|part| unsafe { part.run::<T>(with) });
}

/// Runs the parts of a scatter of elements of `size` bytes on several threads.
fn in_parts(
    g: &ScatterGeometry,
    size: usize,
    addresses: [Shared<u8>; 3],
    threads: &Threads,
    outside: &Outside,
    run: &(dyn Fn(&ScatterPart<'_>) + Sync),
) {
    let chunks = Chunks::new(g.outer.iter().chain(&g.inner).copied().collect(), g.base, !g.inner.is_empty());
    let count = chunks.count();
    let columns: usize = g.outer.iter().chain(&g.inner).map(|d| d.0).product();
    let estimate = NS_PER_VALUE * (columns * g.n) as f64;
    let wanted = threads.for_work(estimate);
    // Scanning an index costs as much as putting a value in, or several times as much if its range is unpredictable for
    // the branch predictor. So ranges pay off only if values miss the caches, or there are many values per index; then
    // one range per thread, no more.
    let index_row = if g.inner.is_empty() { 1 } else { chunks.width };
    let shared = || chunks.columns[1] == 0 && TUNABLES.min_shared_values.reached_by(index_row);
    let far = !TUNABLES.max_cached_result.admits(g.size * index_row * size) || shared();
    let ranges = if count == 0 || count >= wanted || !far { 1 } else { wanted.div_ceil(count).min(g.size.max(1)) };
    let length = g.size.div_ceil(ranges).max(1);
    let at = |address: Shared<u8>, place: isize, size: usize| address.get().wrapping_offset(place * size as isize);
    threads.run(count * ranges, 1, estimate, |range| {
        for n in range {
            let (chunk, part) = (n / ranges, n % ranges);
            let (first, width) = chunks.get(chunk);
            // The last ranges may be empty, because of rounding up.
            let [start, end] = [part, part + 1].map(|p| (p * length).min(g.size) as u64);
            let [_, steps @ ..] = g.steps;
            let [_, columns @ ..] = chunks.columns;
            run(&ScatterPart {
                index: at(addresses[0], first[1], size_of::<i64>()).cast(),
                values: at(addresses[1], first[2], size),
                to: at(addresses[2], first[3], size),
                n: g.n,
                width,
                steps,
                columns,
                own: start..end,
                size: g.size as u64,
                chunk,
                outside,
            });
        }
    });
}
