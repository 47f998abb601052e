//! Definitions of integer operations of the table that take more than one instruction: on i64, of which narrower dtypes
//! take the low bits ([`crate::DType::wrap`]), and on u64. The interpreter and the portable engine use them.

/// Quotient of unsigned integers; 0 for division by 0.
#[inline(always)]
pub fn div_unsigned(a: u64, b: u64) -> u64 {
    a.checked_div(b).unwrap_or(0)
}

/// Remainder of unsigned integers; 0 for division by 0.
#[inline(always)]
pub fn rem_unsigned(a: u64, b: u64) -> u64 {
    a.checked_rem(b).unwrap_or(0)
}

/// Power of unsigned integers; wraps on overflow.
#[inline(always)]
pub fn pow_unsigned(a: u64, b: u64) -> u64 {
    let (mut base, mut exp, mut out) = (a, b, 1u64);
    while exp > 0 {
        if exp & 1 == 1 {
            out = out.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exp >>= 1;
    }
    out
}

/// Quotient of signed integers, rounded toward zero; 0 for division by 0.
#[inline(always)]
pub fn div(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_div(b) }
}

/// Quotient of signed integers, rounded down; 0 for division by 0.
#[inline(always)]
pub fn floor_div(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let q = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

/// Remainder of signed integers, with the sign of the divisor; 0 for division by 0.
#[inline(always)]
pub fn rem(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}

/// Power of signed integers; negative exponents give 0, except for bases 1 and -1.
#[inline(always)]
pub fn pow(a: i64, b: i64) -> i64 {
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
