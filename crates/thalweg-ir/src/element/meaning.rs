//! What the operations of the table compute, where it takes more than a line.

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

/// Larger of two, NaN if either is NaN, +0 above -0 as IEEE 754-2019 `maximum`.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a > b || (a == b && b.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// Smaller of two, NaN if either is NaN.
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    -maximum(-a, -b)
}

/// Python's `a % b` on floats: exact, with the sign of `b`.
pub(super) fn rem(a: f64, b: f64) -> f64 {
    let r = libm::fmod(a, b);
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { libm::copysign(r, if r == 0.0 { b } else { r }) }
}

pub(super) fn int_div(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_div(b) }
}

pub(super) fn int_floor_div(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let q = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

pub(super) fn int_rem(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}

pub(super) fn int_pow(a: i64, b: i64) -> i64 {
    if b < 0 {
        return match a {
            1 => 1,
            -1 if b % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut base, mut exp, mut out) = (a, b, 1i64);
    while exp > 0 {
        if exp & 1 == 1 {
            out = out.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exp >>= 1;
    }
    out
}

fn bits(dtype: DType) -> i64 {
    dtype.size() as i64 * 8
}

pub(super) fn shl(a: i64, n: i64, dtype: DType) -> i64 {
    if (0..bits(dtype)).contains(&n) { a.wrapping_shl(n as u32) } else { 0 }
}

pub(super) fn shr(a: i64, n: i64, dtype: DType) -> i64 {
    // Values are held sign- or zero-extended, so an arithmetic shift serves both.
    if (0..bits(dtype)).contains(&n) { a >> n } else { a >> 63 }
}
