//! Reference functions of those operations of the table that take more than a line.

use crate::DType;

pub(super) fn b(v: bool) -> f64 {
    v as u8 as f64
}

pub(super) fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else if x == 0.0 {
        0.0
    } else {
        x
    }
}

pub(super) fn sigmoid(x: f64) -> f64 {
    let e = libm::exp(-x.abs());
    (if x >= 0.0 { 1.0 } else { e }) / (1.0 + e)
}

/// Larger of two numbers, as IEEE 754-2019 `maximum`: NaN if either is NaN, +0 above -0.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a > b || (a == b && b.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// Smaller of two numbers, as IEEE 754-2019 `minimum`: NaN if either is NaN, -0 below +0.
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    -maximum(-a, -b)
}

/// Remainder of floats with the sign of `b`, as Python's `a % b`.
pub(super) fn rem(a: f64, b: f64) -> f64 {
    let r = libm::fmod(a, b);
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { libm::copysign(r, if r == 0.0 { b } else { r }) }
}

fn bits(dtype: DType) -> i64 {
    dtype.size() as i64 * 8
}

pub(super) fn shl(a: i64, n: i64, dtype: DType) -> i64 {
    if (0..bits(dtype)).contains(&n) { a.wrapping_shl(n as u32) } else { 0 }
}

pub(super) fn shr(a: i64, n: i64, dtype: DType) -> i64 {
    if dtype == DType::U64 {
        return if (0..64).contains(&n) { (a as u64 >> n) as i64 } else { 0 };
    }
    // Narrower values are sign- or zero-extended, so an arithmetic shift is right for both.
    if (0..bits(dtype)).contains(&n) { a >> n } else { a >> 63 }
}
