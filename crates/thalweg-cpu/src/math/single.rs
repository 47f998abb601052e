//! Math functions on f32 lanes. They use no f64 lanes, which would halve the number of points per step of every kernel.
//!
//! All follow one scheme: clamp so that the integer part stays in range (clamps preserve NaN), reduce the argument,
//! evaluate a minimax polynomial, reconstruct. `accuracy.rs` measures the errors. Special values need no branch of
//! their own unless a comment says so.

use super::coefficients::*;
use crate::machine::Machine;
use std::f32::consts::{FRAC_1_PI, FRAC_PI_2, LOG2_E};

/// Constant 1.5·2²³ for rounding: adding and subtracting it rounds a float to an integer, and the lowest bit of the sum
/// is the parity of that integer.
const MAGIC: f32 = 12_582_912.0;
/// Difference between the f32 nearest to π/2 and π/2.
const FRAC_PI_2_LO: f32 = (FRAC_PI_2 as f64 - std::f64::consts::FRAC_PI_2) as f32;
/// Bits of the f32 `√½`, the lower bound of the interval `[√½, √2)` into which logarithms scale their argument.
const SQRT_HALF_BITS: i32 = 0x3f35_04f3;
/// Maximum magnitude of an argument of the sine and cosine. Larger ones take the slow path, since three components of π
/// no longer suffice for argument reduction.
pub const SIN_LIMIT: f32 = 1e5;

/// Evaluates the polynomial `c₀ + c₁x + …` by Horner's rule.
#[inline(always)]
pub(super) fn poly<M: Machine>(m: &mut M, x: M::F, c: &[f32]) -> M::F {
    let (&last, rest) = c.split_last().expect("a polynomial has a coefficient");
    let mut acc = m.f(last);
    for &c in rest.iter().rev() {
        let c = m.f(c);
        acc = m.fma(acc, x, c);
    }
    acc
}

/// Clamps `x` to `lo..=hi`; NaN stays NaN.
#[inline(always)]
fn clamp<M: Machine>(m: &mut M, lo: f32, x: M::F, hi: f32) -> M::F {
    let (lo, hi) = (m.f(lo), m.f(hi));
    let x = m.min(hi, x);
    m.max(lo, x)
}

/// Argument reduction `x = n·ln 2 + r`: returns n and r. The first product is subtracted without error, since the
/// components of ln 2 are full-width and the multiply-add is fused.
#[inline(always)]
fn by_ln2<M: Machine>(m: &mut M, x: M::F) -> (M::F, M::F) {
    let (log2e, hi, lo) = (m.f(LOG2_E), m.f(LN2[0]), m.f(LN2[1]));
    let n = m.mul(x, log2e);
    let n = m.round(n);
    let r = m.fnma(n, hi, x);
    (n, m.fnma(n, lo, r))
}

/// Exponential `eˣ`.
#[inline(always)]
pub fn exp<M: Machine>(m: &mut M, x: M::F) -> M::F {
    let x = clamp(m, -104.0, x, 89.0);
    let (n, r) = by_ln2(m, x);
    let p = poly(m, r, &EXP);
    m.scale(p, n)
}

/// Exponential to base 2, `2ˣ`.
#[inline(always)]
pub fn exp2<M: Machine>(m: &mut M, x: M::F) -> M::F {
    let x = clamp(m, -151.0, x, 129.0);
    let n = m.round(x);
    let r = m.sub(x, n);
    let p = poly(m, r, &EXP2);
    m.scale(p, n)
}

/// Exponential minus 1, `eˣ - 1`.
#[inline(always)]
pub fn expm1<M: Machine>(m: &mut M, x: M::F) -> M::F {
    let t = clamp(m, -20.0, x, 89.0);
    let (n, r) = by_ln2(m, t);
    let q = poly(m, r, &EXPM1);
    let r2 = m.mul(r, r);
    let p = m.fma(r2, q, r);
    // 2ⁿ(p + 1 - 2⁻ⁿ): scaling last avoids overflow of 2ⁿ where the result is finite, and leaves p unchanged for n = 0.
    let (one, minus_n) = (m.f(1.0), m.neg(n));
    let u = m.scale(one, minus_n);
    let u = m.sub(one, u);
    let y = m.add(p, u);
    let y = m.scale(y, n);
    m.copysign(y, x)
}

/// Decomposition `x = 2ᵉ(1 + f)` with `1 + f` in `[√½, √2)`: returns f and e, for positive finite x (subnormals
/// included).
#[inline(always)]
fn split<M: Machine>(m: &mut M, x: M::F) -> (M::F, M::F) {
    let (least, up, off) = (m.f(f32::MIN_POSITIVE), m.f(8_388_608.0), m.f(23.0));
    let small = m.lt(x, least);
    let raised = m.mul(x, up);
    let x = m.select(small, raised, x);
    let (i, half) = (m.bits(x), m.i(SQRT_HALF_BITS));
    let k = m.i_sub(i, half);
    let e = m.i_sar(k, 23);
    let mantissa = m.i_shl(e, 23);
    let mantissa = m.i_sub(i, mantissa);
    let mantissa = m.from_bits(mantissa);
    let one = m.f(1.0);
    let f = m.sub(mantissa, one);
    let e = m.to_float(e);
    let lowered = m.sub(e, off);
    (f, m.select(small, lowered, e))
}

/// Selects the special values of a logarithm `y` whose argument is 0 at `x = zero_at`: -inf there, NaN below it, and
/// `x` itself if `x` is +inf or NaN.
#[inline(always)]
fn log_specials<M: Machine>(m: &mut M, y: M::F, x: M::F, zero_at: f32) -> M::F {
    let (inf, minus, nan, zero) = (m.f(f32::INFINITY), m.f(f32::NEG_INFINITY), m.f(f32::NAN), m.f(zero_at));
    let finite = m.lt(x, inf);
    let y = m.select(finite, y, x);
    let at = m.eq(x, zero);
    let y = m.select(at, minus, y);
    let below = m.lt(x, zero);
    m.select(below, nan, y)
}

/// Natural logarithm.
#[inline(always)]
pub fn log<M: Machine>(m: &mut M, x: M::F) -> M::F {
    let (f, e) = split(m, x);
    let y = log_of(m, f, e);
    log_specials(m, y, x, 0.0)
}

/// Computes `e·ln 2 + log(1 + f)`. ln 2 happens to be within 2⁻²⁸ of a float, so one component is enough.
#[inline(always)]
fn log_of<M: Machine>(m: &mut M, f: M::F, e: M::F) -> M::F {
    let q = poly(m, f, &LOG);
    let y = m.mul(f, q);
    let ln2 = m.f(LN2[0]);
    m.fma(e, ln2, y)
}

/// Logarithm to base 2; f = 0 gives exactly e.
#[inline(always)]
pub fn log2<M: Machine>(m: &mut M, x: M::F) -> M::F {
    let (f, e) = split(m, x);
    let q = poly(m, f, &LOG2);
    let y = m.fma(f, q, e);
    log_specials(m, y, x, 0.0)
}

/// Natural logarithm of `1 + x`.
#[inline(always)]
pub fn log1p<M: Machine>(m: &mut M, x: M::F) -> M::F {
    // With 2ᵉ from 1 + x, f = 2⁻ᵉx + (2⁻ᵉ - 1) has a negligible error: none at all for e = 0.
    let one = m.f(1.0);
    let u = m.add(x, one);
    let (u, half) = (m.bits(u), m.i(SQRT_HALF_BITS));
    let k = m.i_sub(u, half);
    let e = m.i_sar(k, 23);
    let shift = m.i_shl(e, 23);
    let (bits, one_bits) = (m.bits(x), m.i(0x3f80_0000));
    let scaled = m.i_sub(bits, shift);
    let scaled = m.from_bits(scaled);
    let power = m.i_sub(one_bits, shift);
    let power = m.from_bits(power);
    // For the largest x, e is one more than a float's maximum exponent, which makes the power -inf.
    let zero = m.f(0.0);
    let power = m.max(power, zero);
    let less = m.sub(power, one);
    let f = m.add(scaled, less);
    let e = m.to_float(e);
    let y = log_of(m, f, e);
    let y = m.copysign(y, x);
    log_specials(m, y, x, -1.0)
}

/// Argument reduction `x - n·π`, for n an integer or half-integer. The components of π are all positive, so that -0
/// stays -0.
#[inline(always)]
fn by_pi<M: Machine>(m: &mut M, x: M::F, n: M::F) -> M::F {
    let mut r = x;
    for part in PI {
        let part = m.f(part);
        r = m.fnma(n, part, r);
    }
    r
}

/// Computes `sin r`, negated if the lowest bit of `parity` is set.
#[inline(always)]
fn signed_sin<M: Machine>(m: &mut M, r: M::F, parity: M::F) -> M::F {
    let r2 = m.mul(r, r);
    let s = poly(m, r2, &SIN);
    let r3 = m.mul(r, r2);
    let y = m.fma(r3, s, r);
    let (bits, y) = (m.bits(parity), m.bits(y));
    let sign = m.i_shl(bits, 31);
    let y = m.i_xor(y, sign);
    m.from_bits(y)
}

#[inline(always)]
fn guard_far<M: Machine>(m: &mut M, x: M::F) {
    let (limit, a) = (m.f(SIN_LIMIT), m.abs(x));
    let far = m.lt(limit, a);
    m.guard(far);
}

/// Sine of an angle in radians; arguments above [`SIN_LIMIT`] are guarded.
#[inline(always)]
pub fn sin<M: Machine>(m: &mut M, x: M::F) -> M::F {
    guard_far(m, x);
    let (inv, magic) = (m.f(FRAC_1_PI), m.f(MAGIC));
    let t = m.fma(x, inv, magic);
    let n = m.sub(t, magic);
    let r = by_pi(m, x, n);
    let y = signed_sin(m, r, t);
    // The sum -0 + 0 has lost the sign.
    let zero = m.f(0.0);
    let at_zero = m.eq(x, zero);
    m.select(at_zero, x, y)
}

/// Cosine of an angle in radians, by `cos x = -(-1)ʰ sin(x - (h + ½)π)`; arguments above [`SIN_LIMIT`] are guarded.
#[inline(always)]
pub fn cos<M: Machine>(m: &mut M, x: M::F) -> M::F {
    guard_far(m, x);
    let (inv, magic, half) = (m.f(FRAC_1_PI), m.f(MAGIC), m.f(0.5));
    // h + 1 has the other parity, which gives the leading sign.
    let t = m.fma(x, inv, half);
    let t = m.add(t, magic);
    let n = m.sub(t, magic);
    let n = m.sub(n, half);
    let r = by_pi(m, x, n);
    signed_sin(m, r, t)
}

/// Inverse tangent, in radians.
#[inline(always)]
pub fn atan<M: Machine>(m: &mut M, x: M::F) -> M::F {
    let (one, right, right_lo) = (m.f(1.0), m.f(FRAC_PI_2), m.f(FRAC_PI_2_LO));
    let a = m.abs(x);
    let (lo, hi) = (m.min(one, a), m.max(one, a));
    let t = m.div(lo, hi);
    // The quotient is 1/|x| for |x| > 1: `min(one, a)` and `max(one, a)` are then 1 and |x|.
    let t2 = m.mul(t, t);
    let s = poly(m, t2, &ATAN);
    let near = m.mul(t, s);
    let far = m.fma(t, s, right_lo);
    let far = m.sub(right, far);
    let beyond = m.lt(one, a);
    let y = m.select(beyond, far, near);
    m.copysign(y, x)
}

/// Hyperbolic tangent, by `tanh |x| = t/(t + 2)` with `t = e^(2|x|) - 1`.
#[inline(always)]
pub fn tanh<M: Machine>(m: &mut M, x: M::F) -> M::F {
    let (top, inv, half_ln2) = (m.f(10.0), m.f(2.0 * LOG2_E), m.f(LN2[0] * 0.5));
    let (one, two) = (m.f(1.0), m.f(2.0));
    let a = m.abs(x);
    let a = m.min(top, a);
    let n = m.mul(a, inv);
    let n = m.round(n);
    // One component of ln 2: the error matters only where the result is already 1.
    let r = m.fnma(n, half_ln2, a);
    let q = poly(m, r, &TANH);
    let p = m.mul(r, q);
    let s = m.scale(one, n);
    let less = m.sub(s, one);
    let t = m.fma(s, p, less);
    let d = m.add(t, two);
    let y = m.div(t, d);
    m.copysign(y, x)
}

/// Logistic function `1/(1 + e⁻ˣ)`, by `2ⁿ/(2ⁿ + e⁻ʳ)` with `x = n·ln 2 + r`, which preserves tiny results.
#[inline(always)]
pub fn sigmoid<M: Machine>(m: &mut M, x: M::F) -> M::F {
    let x = clamp(m, -105.0, x, 30.0);
    let (n, r) = by_ln2(m, x);
    let e = poly(m, r, &EXP_MINUS);
    let one = m.f(1.0);
    let s = m.scale(one, n);
    let d = m.add(s, e);
    m.div(s, d)
}

/// Coefficients of the polynomial for `e⁻ʳ`: those of `eʳ` with alternating signs.
const EXP_MINUS: [f32; EXP.len()] = {
    let mut c = EXP;
    let mut k = 1;
    while k < c.len() {
        c[k] = -c[k];
        k += 2;
    }
    c
};

/// Error function: an odd polynomial for |x| < 1, `1 - q(|x|)⁻⁸` with a polynomial q above.
#[inline(always)]
pub fn erf<M: Machine>(m: &mut M, x: M::F) -> M::F {
    let (one, top) = (m.f(1.0), m.f(4.0));
    let x2 = m.mul(x, x);
    let s = poly(m, x2, &ERF);
    let near = m.mul(x, s);
    let a = m.abs(x);
    let below = m.lt(a, one);
    let a = m.min(top, a);
    let q = poly(m, a, &ERF_FAR);
    let q = m.mul(q, q);
    let q = m.mul(q, q);
    let q = m.mul(q, q);
    let c = m.div(one, q);
    let far = m.sub(one, c);
    let far = m.copysign(far, x);
    m.select(below, near, far)
}

/// Complementary error function `1 - erf(x)`: `e^(-x²)` over `(|x| + 2)/2`, times a polynomial in `2|x|/(|x| + 2)` that
/// is 1 at 0 and stays near 1.
#[inline(always)]
pub fn erfc<M: Machine>(m: &mut M, x: M::F) -> M::F {
    let (top, two) = (m.f(10.2), m.f(2.0));
    let a = m.abs(x);
    let a = m.min(top, a);
    let d = m.add(a, two);
    let inv = m.div(two, d);
    let t = m.mul(a, inv);
    let g = poly(m, t, &ERFC);
    let g = m.mul(g, inv);
    // Exactly: a² = s - lo.
    let s = m.mul(a, a);
    let lo = m.fnma(a, a, s);
    let (log2e, ln2_hi, ln2_lo) = (m.f(LOG2_E), m.f(LN2[0]), m.f(LN2[1]));
    let n = m.mul(s, log2e);
    let n = m.round(n);
    let r = m.fnma(n, ln2_hi, s);
    let lo = m.fma(n, ln2_lo, lo);
    let r = m.sub(r, lo);
    let e = poly(m, r, &EXP_MINUS);
    let y = m.mul(e, g);
    let n = m.neg(n);
    let y = m.scale(y, n);
    let zero = m.f(0.0);
    let below = m.lt(x, zero);
    let rest = m.sub(two, y);
    m.select(below, rest, y)
}

/// Logarithm to base 2 of a positive finite x as an unevaluated sum of two floats, accurate to about 2⁻³⁰.
#[inline(always)]
fn log2_sum<M: Machine>(m: &mut M, x: M::F) -> (M::F, M::F) {
    let (f, e) = split(m, x);
    let (one, two) = (m.f(1.0), m.f(2.0));
    let (c_hi, c_lo) = (m.f(LOG2E2[0]), m.f(LOG2E2[1]));
    // s + s_lo = f/(f + 2), where f + 2 = d + d_lo.
    let d = m.add(f, two);
    let back = m.sub(d, two);
    let d_lo = m.sub(f, back);
    let inv = m.div(one, d);
    let s = m.mul(f, inv);
    let rest = m.fnma(s, d, f);
    let rest = m.fnma(s, d_lo, rest);
    let s_lo = m.mul(rest, inv);
    // 2·log₂e·(s + s_lo) + s³·Q(s²)
    let hi = m.mul(s, c_hi);
    let minus_hi = m.neg(hi);
    let lo = m.fma(s, c_hi, minus_hi);
    let lo = m.fma(s, c_lo, lo);
    // s_lo also affects s³: multiply it by 1 + s², which is accurate enough.
    let s2 = m.mul(s, s);
    let s_lo = m.fma(s_lo, s2, s_lo);
    let lo = m.fma(s_lo, c_hi, lo);
    let q = poly(m, s2, &POW_LOG);
    let s3 = m.mul(s2, s);
    let lo = m.fma(s3, q, lo);
    // e is 0 or larger than hi, so the sum's error is exact (fast two-sum).
    let t = m.add(e, hi);
    let back = m.sub(t, e);
    let left = m.sub(hi, back);
    let lo = m.add(left, lo);
    // lo may reach 1 % of t, too much for its rounding error to be multiplied later: renormalise.
    let sum = m.add(t, lo);
    let back = m.sub(sum, t);
    (sum, m.sub(lo, back))
}

/// Power `xʸ`, with every special case of IEEE 754.
#[inline(always)]
pub fn pow<M: Machine>(m: &mut M, x: M::F, y: M::F) -> M::F {
    let (zero, half, one, inf) = (m.f(0.0), m.f(0.5), m.f(1.0), m.f(f32::INFINITY));
    let a = m.abs(x);
    let (t_hi, t_lo) = log2_sum(m, a);
    // log₂ of 0 is -inf; of inf and NaN it is the argument itself.
    let (finite, at_zero, minus_inf) = (m.lt(a, inf), m.eq(a, zero), m.f(f32::NEG_INFINITY));
    let t_hi = m.select(finite, t_hi, a);
    let t_hi = m.select(at_zero, minus_inf, t_hi);
    // |log₂ x| ≥ 2⁻²⁴ unless x is 1, so exponents beyond 2³¹ change nothing; without infinities, 0·inf does not occur.
    let bounded = clamp(m, -2_147_483_648.0, y, 2_147_483_648.0);
    let z = m.mul(bounded, t_hi);
    let minus_z = m.neg(z);
    let z_lo = m.fma(bounded, t_hi, minus_z);
    let z_lo = m.fma(bounded, t_lo, z_lo);
    let z = clamp(m, -200.0, z, 200.0);
    // Where z was clamped, z_lo may be large or NaN, but no longer matters: make it a number.
    let (low, high) = (m.f(-1.0), m.f(1.0));
    let z_lo = m.min(z_lo, high);
    let z_lo = m.max(z_lo, low);
    let n = m.round(z);
    let r = m.sub(z, n);
    let r = m.add(r, z_lo);
    let p = poly(m, r, &EXP2);
    let p = m.scale(p, n);
    // Sign of a negative base: odd exponents keep it, fractional ones give NaN.
    let whole = m.round(y);
    let is_whole = m.eq(whole, y);
    let h = m.mul(y, half);
    let whole_h = m.round(h);
    let is_odd = m.ne(whole_h, h);
    let is_odd = m.m_and(is_odd, is_whole);
    let signed = m.copysign(p, x);
    let p = m.select(is_odd, signed, p);
    let below = m.lt(x, zero);
    let fraction = m.ne(whole, y);
    let bad = m.m_and(below, fraction);
    let bad = m.m_and(bad, finite);
    let nan = m.f(f32::NAN);
    let p = m.select(bad, nan, p);
    let (y_zero, x_one) = (m.eq(y, zero), m.eq(x, one));
    let certain = m.m_or(y_zero, x_one);
    m.select(certain, one, p)
}
