//! Math functions on f64 lanes (type `D` of a machine). They follow the scheme of [`super::single`]; only the
//! differences are explained here.

use super::coefficients::*;
use crate::machine::Machine;
use std::f64::consts::{FRAC_1_PI, FRAC_PI_2, FRAC_PI_4, LOG2_E};

const MAGIC: f64 = 6_755_399_441_055_744.0;
const SQRT_HALF_BITS: i64 = 0x3fe6_a09e_667f_3bcd;
/// Maximum magnitude of an argument of the sine and cosine; larger ones take the slow path.
pub const SIN_LIMIT: f64 = 1e9;

#[inline(always)]
fn poly<M: Machine>(m: &mut M, x: M::D, c: &[f64]) -> M::D {
    let (&last, rest) = c.split_last().expect("a polynomial has a coefficient");
    let mut acc = m.d(last);
    for &c in rest.iter().rev() {
        let c = m.d(c);
        acc = m.d_fma(acc, x, c);
    }
    acc
}

#[inline(always)]
fn clamp<M: Machine>(m: &mut M, lo: f64, x: M::D, hi: f64) -> M::D {
    let (lo, hi) = (m.d(lo), m.d(hi));
    let x = m.d_min(hi, x);
    m.d_max(lo, x)
}

#[inline(always)]
fn by_ln2<M: Machine>(m: &mut M, x: M::D) -> (M::D, M::D) {
    let (log2e, hi, lo) = (m.d(LOG2_E), m.d(D_LN2[0]), m.d(D_LN2[1]));
    let n = m.d_mul(x, log2e);
    let n = m.d_round(n);
    let r = m.d_fnma(n, hi, x);
    (n, m.d_fnma(n, lo, r))
}

/// Exponential `eˣ`.
#[inline(always)]
pub fn exp<M: Machine>(m: &mut M, x: M::D) -> M::D {
    let x = clamp(m, -746.0, x, 710.0);
    let (n, r) = by_ln2(m, x);
    let p = poly(m, r, &D_EXP);
    m.d_scale(p, n)
}

/// Exponential to base 2, `2ˣ`.
#[inline(always)]
pub fn exp2<M: Machine>(m: &mut M, x: M::D) -> M::D {
    let x = clamp(m, -1080.0, x, 1025.0);
    let n = m.d_round(x);
    let r = m.d_sub(x, n);
    let p = poly(m, r, &D_EXP2);
    m.d_scale(p, n)
}

/// Computes `eʳ - 1` for a reduced argument, |r| ≤ ln 2 / 2.
#[inline(always)]
fn expm1_reduced<M: Machine>(m: &mut M, r: M::D) -> M::D {
    let q = poly(m, r, &D_EXPM1);
    let r2 = m.d_mul(r, r);
    m.d_fma(r2, q, r)
}

/// Exponential minus 1, `eˣ - 1`.
#[inline(always)]
pub fn expm1<M: Machine>(m: &mut M, x: M::D) -> M::D {
    let t = clamp(m, -40.0, x, 710.0);
    let (n, r) = by_ln2(m, t);
    let p = expm1_reduced(m, r);
    let (one, minus_n) = (m.d(1.0), m.d_neg(n));
    let u = m.d_scale(one, minus_n);
    let u = m.d_sub(one, u);
    let y = m.d_add(p, u);
    let y = m.d_scale(y, n);
    m.d_copysign(y, x)
}

/// Converts an i64 far below 2⁵¹ to f64: the low 52 bits of the sum with [`MAGIC`]'s bits are a mantissa that holds
/// `l`.
#[inline(always)]
fn to_float<M: Machine>(m: &mut M, l: M::L) -> M::D {
    let (bits, magic) = (m.l(MAGIC.to_bits() as i64), m.d(MAGIC));
    let sum = m.l_add(l, bits);
    let sum = m.d_from_bits(sum);
    m.d_sub(sum, magic)
}

/// Returns the exponent that scales positive lanes with these bits into `[√½, √2)`, as a shifted exponent field and as
/// a float. There is no arithmetic shift of i64 lanes, so the field is made positive first.
#[inline(always)]
fn exponent<M: Machine>(m: &mut M, bits: M::L) -> (M::L, M::D) {
    let (half, bias, bias_field) = (m.l(SQRT_HALF_BITS - (1024 << 52)), m.l(1024), m.l(1024 << 52));
    let k = m.l_sub(bits, half);
    let e = m.l_shr(k, 52);
    let field = m.l_shl(e, 52);
    let field = m.l_sub(field, bias_field);
    let e = m.l_sub(e, bias);
    (field, to_float(m, e))
}

#[inline(always)]
fn split<M: Machine>(m: &mut M, x: M::D) -> (M::D, M::D) {
    let (least, up, off) = (m.d(f64::MIN_POSITIVE), m.d(4_503_599_627_370_496.0), m.d(52.0));
    let small = m.d_lt(x, least);
    let raised = m.d_mul(x, up);
    let x = m.d_select(small, raised, x);
    let bits = m.d_bits(x);
    let (field, e) = exponent(m, bits);
    let mantissa = m.l_sub(bits, field);
    let mantissa = m.d_from_bits(mantissa);
    let one = m.d(1.0);
    let f = m.d_sub(mantissa, one);
    let lowered = m.d_sub(e, off);
    (f, m.d_select(small, lowered, e))
}

#[inline(always)]
fn log_specials<M: Machine>(m: &mut M, y: M::D, x: M::D, zero_at: f64) -> M::D {
    let (inf, minus, nan, zero) = (m.d(f64::INFINITY), m.d(f64::NEG_INFINITY), m.d(f64::NAN), m.d(zero_at));
    let finite = m.d_lt(x, inf);
    let y = m.d_select(finite, y, x);
    let at = m.d_eq(x, zero);
    let y = m.d_select(at, minus, y);
    let below = m.d_lt(x, zero);
    m.d_select(below, nan, y)
}

/// With `s = f/(f + 2)`: returns `f²/2` and `s·(f²/2 + R)`, where `log(1 + f) = f - (f²/2 - s·(f²/2 + R))` (as in
/// fdlibm, so that the leading term is exact and the rest small).
#[inline(always)]
fn log_parts<M: Machine>(m: &mut M, f: M::D) -> (M::D, M::D) {
    let (two, half) = (m.d(2.0), m.d(0.5));
    let d = m.d_add(f, two);
    let s = m.d_div(f, d);
    let s2 = m.d_mul(s, s);
    let r = poly(m, s2, &D_LOG);
    let h = m.d_mul(f, half);
    let h = m.d_mul(h, f);
    let t = m.d_fma(s2, r, h);
    (h, m.d_mul(s, t))
}

#[inline(always)]
fn log_of<M: Machine>(m: &mut M, f: M::D, e: M::D) -> M::D {
    let (h, t) = log_parts(m, f);
    let (hi, lo) = (m.d(D_LN2[0]), m.d(D_LN2[1]));
    let t = m.d_fma(e, lo, t);
    let t = m.d_sub(h, t);
    let t = m.d_sub(f, t);
    m.d_fma(e, hi, t)
}

/// Natural logarithm.
#[inline(always)]
pub fn log<M: Machine>(m: &mut M, x: M::D) -> M::D {
    let (f, e) = split(m, x);
    let y = log_of(m, f, e);
    log_specials(m, y, x, 0.0)
}

/// Logarithm to base 2. The rounding of the factor log₂e would add to that of the logarithm, so both have two
/// components.
#[inline(always)]
pub fn log2<M: Machine>(m: &mut M, x: M::D) -> M::D {
    let (f, e) = split(m, x);
    let (h, t) = log_parts(m, f);
    let hi = m.d_sub(f, h);
    let lo = m.d_sub(f, hi);
    let lo = m.d_sub(lo, h);
    let lo = m.d_add(lo, t);
    let (c_hi, c_lo) = (m.d(D_LOG2E[0]), m.d(D_LOG2E[1]));
    let p = m.d_mul(hi, c_hi);
    let minus_p = m.d_neg(p);
    let rest = m.d_fma(hi, c_hi, minus_p);
    let rest = m.d_fma(hi, c_lo, rest);
    let rest = m.d_fma(lo, c_hi, rest);
    let y = m.d_add(e, p);
    let back = m.d_sub(y, e);
    let left = m.d_sub(p, back);
    let rest = m.d_add(rest, left);
    let y = m.d_add(y, rest);
    log_specials(m, y, x, 0.0)
}

/// Natural logarithm of `1 + x`.
#[inline(always)]
pub fn log1p<M: Machine>(m: &mut M, x: M::D) -> M::D {
    let one = m.d(1.0);
    let u = m.d_add(x, one);
    let u = m.d_bits(u);
    let (field, e) = exponent(m, u);
    let (bits, one_bits) = (m.d_bits(x), m.l(1.0f64.to_bits() as i64));
    let scaled = m.l_sub(bits, field);
    let scaled = m.d_from_bits(scaled);
    let power = m.l_sub(one_bits, field);
    let power = m.d_from_bits(power);
    let zero = m.d(0.0);
    let power = m.d_max(power, zero);
    let less = m.d_sub(power, one);
    let f = m.d_add(scaled, less);
    let y = log_of(m, f, e);
    let y = m.d_copysign(y, x);
    log_specials(m, y, x, -1.0)
}

#[inline(always)]
fn by_pi<M: Machine>(m: &mut M, x: M::D, n: M::D) -> M::D {
    let mut r = x;
    for part in D_PI {
        let part = m.d(part);
        r = m.d_fnma(n, part, r);
    }
    r
}

#[inline(always)]
fn signed_sin<M: Machine>(m: &mut M, r: M::D, parity: M::D) -> M::D {
    let one = m.d(1.0);
    let r2 = m.d_mul(r, r);
    let s = poly(m, r2, &D_SIN);
    let s = m.d_fma(s, r2, one);
    let y = m.d_mul(r, s);
    let (parity, y) = (m.d_bits(parity), m.d_bits(y));
    let sign = m.l_shl(parity, 63);
    let y = m.l_xor(y, sign);
    m.d_from_bits(y)
}

#[inline(always)]
fn guard_far<M: Machine>(m: &mut M, x: M::D) {
    let (limit, a) = (m.d(SIN_LIMIT), m.d_abs(x));
    let far = m.d_lt(limit, a);
    m.guard(far);
}

/// Sine of an angle in radians; arguments above [`SIN_LIMIT`] are guarded.
#[inline(always)]
pub fn sin<M: Machine>(m: &mut M, x: M::D) -> M::D {
    guard_far(m, x);
    let (inv, magic) = (m.d(FRAC_1_PI), m.d(MAGIC));
    let t = m.d_fma(x, inv, magic);
    let n = m.d_sub(t, magic);
    let r = by_pi(m, x, n);
    signed_sin(m, r, t)
}

/// Cosine of an angle in radians; arguments above [`SIN_LIMIT`] are guarded.
#[inline(always)]
pub fn cos<M: Machine>(m: &mut M, x: M::D) -> M::D {
    guard_far(m, x);
    let (inv, magic, half) = (m.d(FRAC_1_PI), m.d(MAGIC), m.d(0.5));
    let t = m.d_fma(x, inv, half);
    let t = m.d_add(t, magic);
    let n = m.d_sub(t, magic);
    let n = m.d_sub(n, half);
    let r = by_pi(m, x, n);
    signed_sin(m, r, t)
}

/// Inverse tangent, reduced to `|t| ≤ √2 - 1` relative to the nearest of the angles 0, π/4 and π/2.
#[inline(always)]
pub fn atan<M: Machine>(m: &mut M, x: M::D) -> M::D {
    const TAN_PI_8: f64 = std::f64::consts::SQRT_2 - 1.0;
    let (zero, one) = (m.d(0.0), m.d(1.0));
    let (low, high) = (m.d(TAN_PI_8), m.d(TAN_PI_8 + 2.0));
    let (eighth, quarter) = (m.d(FRAC_PI_4), m.d(FRAC_PI_2));
    let (eighth_lo, quarter_lo) = (m.d(D_PI[1] / 4.0), m.d(D_PI[1] / 2.0));
    let a = m.d_abs(x);
    let (middle, far) = (m.d_lt(low, a), m.d_lt(high, a));
    let (below, above) = (m.d_sub(a, one), m.d_add(a, one));
    let minus = m.d_neg(one);
    let num = m.d_select(middle, below, a);
    let num = m.d_select(far, minus, num);
    let den = m.d_select(middle, above, one);
    let den = m.d_select(far, a, den);
    let t = m.d_div(num, den);
    let base = m.d_select(middle, eighth, zero);
    let base = m.d_select(far, quarter, base);
    let base_lo = m.d_select(middle, eighth_lo, zero);
    let base_lo = m.d_select(far, quarter_lo, base_lo);
    let t2 = m.d_mul(t, t);
    let p = poly(m, t2, &D_ATAN);
    let t3 = m.d_mul(t2, t);
    let rest = m.d_fma(t3, p, base_lo);
    let y = m.d_add(t, rest);
    let y = m.d_add(base, y);
    m.d_copysign(y, x)
}

/// Hyperbolic tangent.
#[inline(always)]
pub fn tanh<M: Machine>(m: &mut M, x: M::D) -> M::D {
    let (one, two, top) = (m.d(1.0), m.d(2.0), m.d(20.0));
    let a = m.d_abs(x);
    let a = m.d_min(top, a);
    let a = m.d_add(a, a);
    let (n, r) = by_ln2(m, a);
    let p = expm1_reduced(m, r);
    let s = m.d_scale(one, n);
    let less = m.d_sub(s, one);
    let t = m.d_fma(s, p, less);
    let d = m.d_add(t, two);
    let y = m.d_div(t, d);
    m.d_copysign(y, x)
}

/// Logistic function `1/(1 + e⁻ˣ)`.
#[inline(always)]
pub fn sigmoid<M: Machine>(m: &mut M, x: M::D) -> M::D {
    let x = clamp(m, -746.0, x, 40.0);
    let (n, r) = by_ln2(m, x);
    let minus_r = m.d_neg(r);
    let e = poly(m, minus_r, &D_EXP);
    let one = m.d(1.0);
    let s = m.d_scale(one, n);
    let d = m.d_add(s, e);
    m.d_div(s, d)
}

/// Error function: an odd polynomial for |x| < 1, `1 - erfc(|x|)` above.
#[inline(always)]
pub fn erf<M: Machine>(m: &mut M, x: M::D) -> M::D {
    let one = m.d(1.0);
    let x2 = m.d_mul(x, x);
    let s = poly(m, x2, &D_ERF);
    let near = m.d_mul(x, s);
    let a = m.d_abs(x);
    let below = m.d_lt(a, one);
    let c = erfc_of(m, a, 7.0);
    let far = m.d_sub(one, c);
    let far = m.d_copysign(far, x);
    m.d_select(below, near, far)
}

/// Complementary error function `1 - erf(x)`.
#[inline(always)]
pub fn erfc<M: Machine>(m: &mut M, x: M::D) -> M::D {
    let a = m.d_abs(x);
    let y = erfc_of(m, a, 27.3);
    let (zero, two) = (m.d(0.0), m.d(2.0));
    let below = m.d_lt(x, zero);
    let rest = m.d_sub(two, y);
    m.d_select(below, rest, y)
}

/// Computes `erfc(min(a, top))` for non-negative a: `e^(-a²)` over `(a + K)/K`, times a polynomial in
/// `(a - K)/(a + K)`.
#[inline(always)]
fn erfc_of<M: Machine>(m: &mut M, a: M::D, top: f64) -> M::D {
    let (top, far) = (m.d(top), m.d(ERFC_FAR));
    let a = m.d_min(top, a);
    let d = m.d_add(a, far);
    let over = m.d_sub(a, far);
    let u = m.d_div(over, d);
    let g = poly(m, u, &D_ERFC);
    let inv = m.d_div(far, d);
    let g = m.d_mul(g, inv);
    // Exactly: a² = s - lo.
    let s = m.d_mul(a, a);
    let lo = m.d_fnma(a, a, s);
    let (log2e, ln2_hi, ln2_lo) = (m.d(LOG2_E), m.d(D_LN2[0]), m.d(D_LN2[1]));
    let n = m.d_mul(s, log2e);
    let n = m.d_round(n);
    let r = m.d_fnma(n, ln2_hi, s);
    let lo = m.d_fma(n, ln2_lo, lo);
    let r = m.d_sub(lo, r);
    let e = poly(m, r, &D_EXP);
    let y = m.d_mul(e, g);
    let n = m.d_neg(n);
    m.d_scale(y, n)
}

/// Constant K of the rational argument in [`erfc_of`].
const ERFC_FAR: f64 = 3.75;

/// Double-double number: an unevaluated sum of two f64, the first of which is the rounded sum.
type Sum<M> = (<M as Machine>::D, <M as Machine>::D);

/// Product of two double-double numbers, with a relative error of about 2⁻¹⁰⁰.
#[inline(always)]
fn product<M: Machine>(m: &mut M, (a, a_lo): Sum<M>, (b, b_lo): Sum<M>) -> Sum<M> {
    let hi = m.d_mul(a, b);
    let minus = m.d_neg(hi);
    let lo = m.d_fma(a, b, minus);
    let lo = m.d_fma(a, b_lo, lo);
    (hi, m.d_fma(a_lo, b, lo))
}

/// Sum of two double-double numbers, the first of which is 0 or larger in magnitude than the second.
#[inline(always)]
fn add_double<M: Machine>(m: &mut M, (a, a_lo): Sum<M>, (b, b_lo): Sum<M>) -> Sum<M> {
    let hi = m.d_add(a, b);
    let back = m.d_sub(hi, a);
    let left = m.d_sub(b, back);
    let lo = m.d_add(a_lo, b_lo);
    (hi, m.d_add(lo, left))
}

/// Logarithm to base 2 of a positive finite x as a double-double number, accurate to about 2⁻⁶⁴.
#[inline(always)]
fn log2_sum<M: Machine>(m: &mut M, x: M::D) -> Sum<M> {
    let (f, e) = split(m, x);
    let (one, two, zero) = (m.d(1.0), m.d(2.0), m.d(0.0));
    // s + s_lo = f/(f + 2), where f + 2 = d + d_lo.
    let d = m.d_add(f, two);
    let back = m.d_sub(d, two);
    let d_lo = m.d_sub(f, back);
    let inv = m.d_div(one, d);
    let s = m.d_mul(f, inv);
    let rest = m.d_fnma(s, d, f);
    let rest = m.d_fnma(s, d_lo, rest);
    let s_lo = m.d_mul(rest, inv);
    let s = (s, s_lo);
    // 2·log₂e·(s + s³/3), all in sums, + s⁵·Q(s²)
    let square = product(m, s, s);
    let (first, first_lo) = (m.d(D_POW_FIRST[0]), m.d(D_POW_FIRST[1]));
    let q = poly(m, square.0, &D_POW_LOG);
    let q = m.d_mul(q, square.0);
    let factor = add_double(m, (first, first_lo), (q, zero));
    let cube = product(m, s, square);
    let small = product(m, cube, factor);
    let c = (m.d(D_LOG2E2[0]), m.d(D_LOG2E2[1]));
    let large = product(m, s, c);
    let of = add_double(m, large, small);
    let (t, lo) = add_double(m, (e, zero), of);
    // The low component may be too large for its rounding error to be multiplied later: renormalise.
    let sum = m.d_add(t, lo);
    let back = m.d_sub(sum, t);
    (sum, m.d_sub(lo, back))
}

/// Power `xʸ`, with every special case of IEEE 754.
#[inline(always)]
pub fn pow<M: Machine>(m: &mut M, x: M::D, y: M::D) -> M::D {
    let (zero, half, one, inf) = (m.d(0.0), m.d(0.5), m.d(1.0), m.d(f64::INFINITY));
    let a = m.d_abs(x);
    let (t_hi, t_lo) = log2_sum(m, a);
    // log₂ of 0 is -inf; of inf and NaN it is the argument itself.
    let (finite, at_zero, minus_inf) = (m.d_lt(a, inf), m.d_eq(a, zero), m.d(f64::NEG_INFINITY));
    let t_hi = m.d_select(finite, t_hi, a);
    let t_hi = m.d_select(at_zero, minus_inf, t_hi);
    // |log₂ x| ≥ 2⁻⁵³ unless x is 1, so exponents beyond 2⁶⁴ change nothing; without infinities, 0·inf does not occur.
    let bounded = clamp(m, -18_446_744_073_709_551_616.0, y, 18_446_744_073_709_551_616.0);
    let z = m.d_mul(bounded, t_hi);
    let minus_z = m.d_neg(z);
    let z_lo = m.d_fma(bounded, t_hi, minus_z);
    let z_lo = m.d_fma(bounded, t_lo, z_lo);
    let z = clamp(m, -1100.0, z, 1100.0);
    // Where z was clamped, z_lo may be large or NaN, but no longer matters: make it a number.
    let (low, high) = (m.d(-1.0), m.d(1.0));
    let z_lo = m.d_min(z_lo, high);
    let z_lo = m.d_max(z_lo, low);
    let n = m.d_round(z);
    let r = m.d_sub(z, n);
    let r = m.d_add(r, z_lo);
    let p = poly(m, r, &D_EXP2);
    let p = m.d_scale(p, n);
    // Sign of a negative base: odd exponents keep it, fractional ones give NaN.
    let whole = m.d_round(y);
    let is_whole = m.d_eq(whole, y);
    let h = m.d_mul(y, half);
    let whole_h = m.d_round(h);
    let is_odd = m.d_ne(whole_h, h);
    let is_odd = m.m_and(is_odd, is_whole);
    let signed = m.d_copysign(p, x);
    let p = m.d_select(is_odd, signed, p);
    let below = m.d_lt(x, zero);
    let fraction = m.d_ne(whole, y);
    let bad = m.m_and(below, fraction);
    let bad = m.m_and(bad, finite);
    let nan = m.d(f64::NAN);
    let p = m.d_select(bad, nan, p);
    let (y_zero, x_one) = (m.d_eq(y, zero), m.d_eq(x, one));
    let certain = m.m_or(y_zero, x_one);
    m.d_select(certain, one, p)
}
