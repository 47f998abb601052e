//! Elements put together: the loops of folds, and of stores that combine with what is there.
//!
//! A fold keeps [`LANES`] partial results. Tiles are whole multiples of that, so each tile of a row begins at the first
//! lane, and the order is that of [`thalweg_kernel::order`], to the bit.

use thalweg_ir::DType;
use thalweg_kernel::FoldOp;
use thalweg_kernel::order::LANES;

/// Folds `n` elements into the lanes `acc`, the first one into the first lane.
///
/// # Safety
/// `acc` points at [`LANES`] elements of the dtype, `from` at `n`, all aligned, and they do not overlap.
pub(super) type Accumulate = unsafe fn(acc: *mut u8, from: *const u8, n: usize);

/// The lanes put together to one, in the form of `Scalar::to_bits`.
///
/// # Safety
/// `acc` points at [`LANES`] aligned elements of the dtype.
pub(super) type Finish = unsafe fn(acc: *const u8) -> u64;

/// Puts `n` elements together with what is in memory, `stride` elements apart, one after the other.
///
/// # Safety
/// `from` points at `n` elements of the dtype, and `to`, at that stride, at as many that may be written; all are
/// aligned, and they do not overlap.
pub(super) type Combine = unsafe fn(to: *mut u8, stride: isize, from: *const u8, n: usize);

/// A fold's code.
#[derive(Clone, Copy)]
pub(super) struct FoldCode {
    pub accumulate: Accumulate,
    pub finish: Finish,
}

/// A function for the baseline and, on x86-64, for AVX2, of which the machine's is picked once.
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
            // SAFETY: the processor has the features, as just asked; the rest is the contract of the type.
            |$($x),+| unsafe { with_avx2($($x),+) }
        } else {
            baseline
        };
        #[cfg(not(target_arch = "x86_64"))]
        let picked: $type = baseline;
        picked
    }};
}

/// The code of one operation on one type.
macro_rules! code {
    ($t:ty, $bits:expr, |$a:ident, $b:ident| $together:expr) => {{
        #[inline(always)]
        fn together($a: $t, $b: $t) -> $t {
            $together
        }
        #[inline(always)]
        unsafe fn accumulate(acc: *mut u8, from: *const u8, n: usize) {
            // SAFETY: the contract of `Accumulate`.
            let acc = unsafe { &mut *acc.cast::<[$t; LANES]>() };
            // SAFETY: likewise.
            let from = unsafe { std::slice::from_raw_parts(from.cast::<$t>(), n) };
            // A copy, which stays in registers from one chunk to the next.
            let mut lanes = *acc;
            let mut chunks = from.chunks_exact(LANES);
            for chunk in &mut chunks {
                for l in 0..LANES {
                    lanes[l] = together(lanes[l], chunk[l]);
                }
            }
            // Lanes beyond the last element stay as they are.
            for (lane, &v) in lanes.iter_mut().zip(chunks.remainder()) {
                *lane = together(*lane, v);
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
                    lanes[l] = together(lanes[l], lanes[l + half]);
                }
                half /= 2;
            }
            let bits: fn($t) -> u64 = $bits;
            bits(lanes[0])
        }
        #[inline(always)]
        unsafe fn combine(to: *mut u8, stride: isize, from: *const u8, n: usize) {
            // SAFETY: the contract of `Combine`.
            unsafe {
                let (to, from) = (to.cast::<$t>(), std::slice::from_raw_parts(from.cast::<$t>(), n));
                if stride == 1 {
                    for (old, &new) in std::slice::from_raw_parts_mut(to, n).iter_mut().zip(from) {
                        *old = together(*old, new);
                    }
                    return;
                }
                // Element by element: they may all meet in one place.
                for (i, &new) in from.iter().enumerate() {
                    let old = to.offset(stride * i as isize);
                    old.write(together(old.read(), new));
                }
            }
        }
        let code = FoldCode {
            accumulate: versions!(Accumulate, accumulate(acc: *mut u8, from: *const u8, n: usize)),
            finish: versions!(Finish, finish(acc: *const u8) -> u64),
        };
        (code, versions!(Combine, combine(to: *mut u8, stride: isize, from: *const u8, n: usize)))
    }};
}

macro_rules! float_codes {
    ($op:expr, $t:ident) => {
        match $op {
            FoldOp::Sum => code!($t, |v| v.to_bits() as u64, |a, b| a + b),
            FoldOp::Prod => code!($t, |v| v.to_bits() as u64, |a, b| a * b),
            FoldOp::Max => code!($t, |v| v.to_bits() as u64, |a, b| {
                let larger = if a > b || (a == b && b.is_sign_negative()) { a } else { b };
                if a.is_nan() || b.is_nan() { $t::NAN } else { larger }
            }),
            FoldOp::Min => code!($t, |v| v.to_bits() as u64, |a, b| {
                let smaller = if a < b || (a == b && a.is_sign_negative()) { a } else { b };
                if a.is_nan() || b.is_nan() { $t::NAN } else { smaller }
            }),
        }
    };
}

macro_rules! int_codes {
    ($op:expr, $t:ident, $bits:expr) => {
        match $op {
            FoldOp::Sum => code!($t, $bits, |a, b| a.wrapping_add(b)),
            FoldOp::Prod => code!($t, $bits, |a, b| a.wrapping_mul(b)),
            FoldOp::Max => code!($t, $bits, |a, b| a.max(b)),
            FoldOp::Min => code!($t, $bits, |a, b| a.min(b)),
        }
    };
}

fn codes(op: FoldOp, dtype: DType) -> (FoldCode, Combine) {
    match dtype {
        DType::F32 => float_codes!(op, f32),
        DType::F64 => float_codes!(op, f64),
        DType::I32 => int_codes!(op, i32, |v| v as u32 as u64),
        DType::U32 => int_codes!(op, u32, |v| v as u64),
        DType::I64 => int_codes!(op, i64, |v| v as u64),
        other => panic!("folds are not carried in {other}"),
    }
}

/// The code of a fold.
pub(super) fn fold(op: FoldOp, dtype: DType) -> FoldCode {
    codes(op, dtype).0
}

/// The code of a store that combines.
pub(super) fn combine(op: FoldOp, dtype: DType) -> Combine {
    codes(op, dtype).1
}
