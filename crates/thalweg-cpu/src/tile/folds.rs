//! Loops of folds, and of stores that combine with the previous contents.
//!
//! A fold has [`LANES`] accumulator lanes. Tiles are multiples of that, so each tile of a row begins at the first lane,
//! and the order is that of [`thalweg_kernel::order`], to the bit. A monoid without native loops is composed from the
//! loops of its table row's operations.

use super::lanes::Code;
use super::moves::{fill, first};
use crate::combine::Combine;
use std::sync::Arc;
use thalweg_ir::{DType, Monoid};
use thalweg_kernel::order::LANES;

/// Loop that folds `n` elements into the accumulator lanes `acc`: element `i` into lane `i` modulo [`LANES`].
///
/// # Safety
/// `acc` points at [`LANES`] elements of the dtype, `from` at `n`, all aligned, and they do not overlap.
type Accumulate = unsafe fn(acc: *mut u8, from: *const u8, n: usize);

/// Loop that reduces the accumulator lanes to one element, in a tree of halves; returns it in the form of
/// `Scalar::to_bits`.
///
/// # Safety
/// `acc` points at [`LANES`] aligned elements of the dtype.
type Finish = unsafe fn(acc: *const u8) -> u64;

/// Loop that combines `n` elements in memory, `stride` elements apart, with the elements of `from`, in order.
///
/// # Safety
/// `from` points at `n` elements of the dtype, and `to`, at that stride, at as many that may be written; all are
/// aligned, and the two do not overlap.
type Merge = unsafe fn(to: *mut u8, stride: isize, from: *const u8, n: usize);

/// Precompiled reduction loops of a monoid over one dtype.
#[derive(Clone, Copy)]
pub(crate) struct Loops {
    accumulate: Accumulate,
    finish: Finish,
    merge: Merge,
}

/// Reduction code of a monoid on a dtype.
#[derive(Clone)]
pub(crate) enum Folder {
    /// Native loops, which the compiler vectorises.
    Own(Loops),
    /// Loops that are composed from the operations of the monoid's table row.
    Derived(Arc<Derived>),
}

impl Folder {
    /// Folds elements into accumulator lanes: see [`Accumulate`].
    ///
    /// # Safety
    /// The contract of the type.
    pub(super) unsafe fn accumulate(&self, acc: *mut u8, from: *const u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Folder::Own(own) => (own.accumulate)(acc, from, n),
                Folder::Derived(d) => d.accumulate(acc, from, n),
            }
        }
    }

    /// Reduces accumulator lanes to one element: see [`Finish`].
    ///
    /// # Safety
    /// The contract of the type.
    pub(super) unsafe fn finish(&self, acc: *const u8) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Folder::Own(own) => (own.finish)(acc),
                Folder::Derived(d) => d.finish(acc),
            }
        }
    }

    /// Combines elements with elements in memory: see [`Merge`].
    ///
    /// # Safety
    /// The contract of the type.
    pub(crate) unsafe fn merge(&self, to: *mut u8, stride: isize, from: *const u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Folder::Own(own) => (own.merge)(to, stride, from, n),
                Folder::Derived(d) => d.merge(to, stride, from, n),
            }
        }
    }
}

/// Compiles a function for the baseline and, on x86-64, for AVX2, and selects the version for this machine.
macro_rules! versions {
    ($type:ty, $body:ident($($x:ident: $t:ty),+) $(-> $r:ty)?) => {{
        unsafe fn baseline($($x: $t),+) $(-> $r)? {
            // SAFETY: the contract of the type.
            unsafe { $body($($x),+) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn with_avx2($($x: $t),+) $(-> $r)? {
            // SAFETY: the contract of the type.
            unsafe { $body($($x),+) }
        }
        #[cfg(target_arch = "x86_64")]
        let picked: $type = if crate::math::lanes::has_fma() {
            // SAFETY: the processor has the features, as just checked; the rest is the contract of the type.
            |$($x),+| unsafe { with_avx2($($x),+) }
        } else {
            baseline
        };
        #[cfg(not(target_arch = "x86_64"))]
        let picked: $type = baseline;
        picked
    }};
}

/// Expands to the native [`Loops`] of one combining expression on one type.
macro_rules! code {
    ($t:ty, $bits:expr, |$a:ident, $b:ident| $combine:expr) => {{
        #[inline(always)]
        fn combine($a: $t, $b: $t) -> $t {
            $combine
        }
        #[inline(always)]
        unsafe fn accumulate(acc: *mut u8, from: *const u8, n: usize) {
            // SAFETY: the contract of `Accumulate`.
            let acc = unsafe { &mut *acc.cast::<[$t; LANES]>() };
            // SAFETY: likewise.
            let from = unsafe { std::slice::from_raw_parts(from.cast::<$t>(), n) };
            // A copy that stays in registers from one chunk to the next.
            let mut lanes = *acc;
            let mut chunks = from.chunks_exact(LANES);
            for chunk in &mut chunks {
                for l in 0..LANES {
                    lanes[l] = combine(lanes[l], chunk[l]);
                }
            }
            // Lanes past the last element are unchanged.
            for (lane, &v) in lanes.iter_mut().zip(chunks.remainder()) {
                *lane = combine(*lane, v);
            }
            *acc = lanes;
        }
        #[inline(always)]
        unsafe fn finish(acc: *const u8) -> u64 {
            // SAFETY: the contract of `Finish`.
            let mut lanes = unsafe { acc.cast::<[$t; LANES]>().read() };
            let mut half = LANES / 2;
            while half > 0 {
                for l in 0..half {
                    lanes[l] = combine(lanes[l], lanes[l + half]);
                }
                half /= 2;
            }
            let bits: fn($t) -> u64 = $bits;
            bits(lanes[0])
        }
        #[inline(always)]
        unsafe fn merge(to: *mut u8, stride: isize, from: *const u8, n: usize) {
            // SAFETY: the contract of `Merge`.
            unsafe {
                let (to, from) = (to.cast::<$t>(), std::slice::from_raw_parts(from.cast::<$t>(), n));
                if stride == 1 {
                    for (old, &new) in std::slice::from_raw_parts_mut(to, n).iter_mut().zip(from) {
                        *old = combine(*old, new);
                    }
                    return;
                }
                // Element by element: all may be the same address.
                for (i, &new) in from.iter().enumerate() {
                    let old = to.offset(stride * i as isize);
                    old.write(combine(old.read(), new));
                }
            }
        }
        Loops {
            accumulate: versions!(Accumulate, accumulate(acc: *mut u8, from: *const u8, n: usize)),
            finish: versions!(Finish, finish(acc: *const u8) -> u64),
            merge: versions!(Merge, merge(to: *mut u8, stride: isize, from: *const u8, n: usize)),
        }
    }};
}

macro_rules! codes {
    ($op:expr, $t:ident, $bits:expr) => {
        match $op {
            Monoid::Sum => code!($t, $bits, |a, b| <$t as Combine>::sum(a, b)),
            Monoid::Prod => code!($t, $bits, |a, b| <$t as Combine>::prod(a, b)),
            Monoid::Max => code!($t, $bits, |a, b| <$t as Combine>::max(a, b)),
            Monoid::Min => code!($t, $bits, |a, b| <$t as Combine>::min(a, b)),
            _ => return None,
        }
    };
}

/// Returns the native loops of a monoid; `None` if there are none.
pub(super) fn own(op: Monoid, dtype: DType) -> Option<Loops> {
    Some(match dtype {
        DType::F32 => codes!(op, f32, |v| v.to_bits() as u64),
        DType::F64 => codes!(op, f64, |v| v.to_bits()),
        DType::I32 => codes!(op, i32, |v| v as u32 as u64),
        DType::U32 => codes!(op, u32, |v| v as u64),
        DType::I64 => codes!(op, i64, |v| v as u64),
        DType::U64 => codes!(op, u64, |v| v),
        other => panic!("folds are not carried in {other}"),
    })
}

/// Source of one instruction's value in a [`Derived`].
pub(super) enum Lane {
    /// The earlier (0) or the later (1) partial result.
    Given(u16),
    /// A constant in all lanes: its bits, and the bytes of a lane.
    Bits(u64, usize),
    /// A loop, applied to the values of earlier instructions.
    Apply(Code, [usize; 3]),
}

/// Reduction code that evaluates the expression of a monoid's table row, one loop over [`LANES`] lanes per operation.
/// It supports any monoid of one component, but each operation goes through memory.
pub(crate) struct Derived {
    pub(super) lanes: Vec<Lane>,
    /// Index in `lanes` of the expression's result.
    pub(super) result: usize,
    /// Bytes of an element.
    pub(super) width: usize,
}

/// Storage for the lanes of one instruction's value.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct LaneSlots([u64; LANES]);

impl Derived {
    fn places(&self) -> Vec<LaneSlots> {
        let mut places = vec![LaneSlots([0; LANES]); self.lanes.len()];
        for (place, lane) in places.iter_mut().zip(&self.lanes) {
            if let Lane::Bits(bits, width) = *lane {
                // SAFETY: a slot has space for that many lanes of at most 8 bytes.
                unsafe { fill(bits, width, place.0.as_mut_ptr().cast(), LANES) };
            }
        }
        places
    }

    /// Computes `before = before op after` for `n` elements, at most [`LANES`].
    ///
    /// # Safety
    /// Both point at `n` aligned elements; those at `before` may be written.
    unsafe fn combine(&self, places: &mut [LaneSlots], before: *mut u8, after: *const u8, n: usize) {
        let at = places.as_mut_ptr();
        let place = |i: usize| match self.lanes[i] {
            Lane::Given(0) => before.cast_const(),
            Lane::Given(_) => after,
            // SAFETY: there is a slot for each instruction.
            _ => unsafe { at.add(i).cast::<u8>().cast_const() },
        };
        for (i, lane) in self.lanes.iter().enumerate() {
            if let Lane::Apply(code, args) = lane {
                // SAFETY: arguments precede the instruction and are written; slots do not overlap.
                unsafe { code.run(args.map(place), at.add(i).cast(), n) };
            }
        }
        // SAFETY: the caller's promise; the result was written, or is one of the two. It may be `before` itself.
        unsafe { std::ptr::copy(place(self.result), before, n * self.width) };
    }

    /// Folds `n` elements into the accumulator lanes.
    ///
    /// # Safety
    /// As [`Accumulate`].
    unsafe fn accumulate(&self, acc: *mut u8, from: *const u8, n: usize) {
        let mut places = self.places();
        for first in (0..n).step_by(LANES) {
            // SAFETY: the caller's promise. Lanes past the last element are unchanged.
            unsafe { self.combine(&mut places, acc, from.add(first * self.width), LANES.min(n - first)) };
        }
    }

    /// Reduces the accumulator lanes to one element, in a tree of halves.
    ///
    /// # Safety
    /// As [`Finish`].
    unsafe fn finish(&self, acc: *const u8) -> u64 {
        let (mut places, mut lanes) = (self.places(), LaneSlots([0; LANES]));
        let lanes = lanes.0.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's promise; `lanes` has space for as many.
        unsafe {
            std::ptr::copy_nonoverlapping(acc, lanes, LANES * self.width);
            let mut half = LANES / 2;
            while half > 0 {
                self.combine(&mut places, lanes, lanes.add(half * self.width), half);
                half /= 2;
            }
            first(lanes, self.width)
        }
    }

    /// Combines `n` elements in memory with the elements of `from`, in order.
    ///
    /// # Safety
    /// As [`Merge`].
    unsafe fn merge(&self, to: *mut u8, stride: isize, from: *const u8, n: usize) {
        let mut places = self.places();
        // Element by element if strided: all may be the same address.
        let each = if stride == 1 { LANES } else { 1 };
        for first in (0..n).step_by(each) {
            // SAFETY: the caller's promise.
            unsafe {
                let to = to.offset(stride * first as isize * self.width as isize);
                self.combine(&mut places, to, from.add(first * self.width), each.min(n - first));
            }
        }
    }
}
