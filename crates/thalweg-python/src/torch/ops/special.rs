//! Special functions of PyTorch that the front has not. PyTorch has no derivatives of most of them; where it has, its
//! formula calls the function again.

use super::super::call::{Call, Outcome, Row};
use super::special_tables::{self as t, Series};
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use thalweg::prelude::*;
use thalweg::{DType, Tensor};

/// A function of one argument in PyTorch's result dtype.
fn one(c: &Call<'_>, f: fn(&Tensor) -> Tensor) -> Outcome {
    Ok(f(&c.tensor(0)?.cast(c.out(0)?)).into())
}

/// A function of two arguments in PyTorch's result dtype; either may be a number.
fn two(c: &Call<'_>, f: impl Fn(&Tensor, &Tensor) -> Tensor) -> Outcome {
    let dtype = c.out(0)?;
    Ok(f(&c.tensor_of(0, dtype)?, &c.tensor_of(1, dtype)?).into())
}

/// As [`one`], computed in f64.
fn one_wide(c: &Call<'_>, f: fn(&Tensor) -> Tensor) -> Outcome {
    Ok(f(&c.tensor(0)?.cast(DType::F64)).cast(c.out(0)?).into())
}

/// As [`two`], computed in f64.
fn two_wide(c: &Call<'_>, f: impl Fn(&Tensor, &Tensor) -> Tensor) -> Outcome {
    let dtype = c.out(0)?;
    let wide = |i| c.tensor_of(i, dtype).map(|x| x.cast(DType::F64));
    Ok(f(&wide(0)?, &wide(1)?).cast(dtype).into())
}

/// Sum of a Chebyshev series by Clenshaw's recurrence, in terms of `t` in [-1, 1]. Narrower dtypes than f64 skip terms
/// below 1e-9 of the largest coefficient.
fn chebyshev_series(x: &Tensor, Series { low, high, coefficients }: &Series) -> Tensor {
    let [rest @ .., constant] = coefficients else { unreachable!("a series has coefficients") };
    let limit = match x.dtype() {
        DType::F64 => 0.0,
        _ => coefficients.iter().fold(0.0, |largest: f64, c| largest.max(c.abs())) * 1e-9,
    };
    let scale = 2.0 / (high - low);
    let t = x * scale - (low * scale + 1.0);
    let twice = &t + &t;
    let (mut previous, mut sum) = (t.zeros_like(), t.zeros_like());
    for &c in rest.iter().skip_while(|c| c.abs() < limit) {
        let next = &twice * &sum - &previous + c;
        previous = sum;
        sum = next;
    }
    t * sum - previous + *constant
}

const TWO_OVER_PI: f64 = std::f64::consts::FRAC_2_PI;

/// Distance of `x` from a root, without a rounding error near the root.
fn from_root(x: &Tensor, (first, rest): (f64, f64)) -> Tensor {
    x - first - rest
}

/// J (first kind) or Y (second kind) of order 0 or 1 for arguments over 5, by Hankel's form (DLMF 10.17.3, 10.17.4):
/// `√(2/πx)·(P·cos χ - Q·sin χ)` and `√(2/πx)·(P·sin χ + Q·cos χ)`. The cosine and the sine of χ, which is
/// `x - π/4` or `x - 3π/4`, are sums of those of x, so that x is not rounded.
fn hankel(x: &Tensor, first_order: bool, second_kind: bool) -> Tensor {
    let w = 5.0 / x;
    let z = w.square();
    let (p, q) = if first_order { (&t::J1_P, &t::J1_Q) } else { (&t::J0_P, &t::J0_Q) };
    let (p, q) = (chebyshev_series(&z, p), w * chebyshev_series(&z, q));
    let (s, c) = (x.sin(), x.cos());
    let (sum, difference) = (&s + &c, s - c);
    // √2·cos χ and √2·sin χ.
    let (c, s) = if first_order { (difference, -sum) } else { (sum, difference) };
    let y = if second_kind { p * s + q * c } else { p * c - q * s };
    y / (x.sqrt() * PI.sqrt())
}

/// J₀ of x in [0, 5]: a series times the distances from the first two roots.
fn near_j0(x: &Tensor) -> Tensor {
    let z = x.square();
    let reduced = chebyshev_series(&z, &t::J0) * (&z - t::J0_ROOT_2_SQUARE);
    let y = from_root(x, t::J0_ROOT) * (x + t::J0_ROOT.0 + t::J0_ROOT.1) * reduced;
    x.lt(1e-4).where_(1.0 - z * 0.25, y)
}

/// J₁ of x in [0, 5], as [`near_j0`].
fn near_j1(x: &Tensor) -> Tensor {
    let z = x.square();
    let reduced = chebyshev_series(&z, &t::J1) * (z - t::J1_ROOT_2_SQUARE);
    from_root(x, t::J1_ROOT) * (x + t::J1_ROOT.0 + t::J1_ROOT.1) * reduced * x
}

fn bessel_j0(x: &Tensor) -> Tensor {
    let x = x.abs();
    x.le(5.0).where_(near_j0(&x), hankel(&x, false, false))
}

fn bessel_j1(x: &Tensor) -> Tensor {
    let size = x.abs();
    let y = size.le(5.0).where_(near_j1(&size), hankel(&size, true, false));
    x.lt(0.0).where_(-&y, y)
}

fn bessel_y0(x: &Tensor) -> Tensor {
    let near = chebyshev_series(&x.square(), &t::Y0) + x.log() * TWO_OVER_PI * near_j0(x);
    let near = x.eq(0.0).where_(f64::NEG_INFINITY, near);
    x.le(5.0).where_(near, hankel(x, false, true))
}

fn bessel_y1(x: &Tensor) -> Tensor {
    let near = x * chebyshev_series(&x.square(), &t::Y1) + (near_j1(x) * x.log() - 1.0 / x) * TWO_OVER_PI;
    let near = x.eq(0.0).where_(f64::NEG_INFINITY, x.lt(0.0).where_(f64::NAN, near));
    x.le(5.0).where_(near, hankel(x, true, true))
}

/// K₀ or K₁, with the factor eˣ if `scaled`; ∞ at 0, NaN below. The logarithmic part (DLMF 10.31) is separate up to 2.
fn bessel_k(x: &Tensor, first_order: bool, scaled: bool) -> Tensor {
    let z = x.square();
    let near = if first_order {
        (x * 0.5).log() * x.i1() + chebyshev_series(&z, &t::K1) / x
    } else {
        chebyshev_series(&z, &t::K0) - (x * 0.5).log() * x.i0()
    };
    let near = if scaled { near * x.exp() } else { near };
    let far = chebyshev_series(&(2.0 / x), if first_order { &t::K1_FAR } else { &t::K0_FAR }) / x.sqrt();
    let far = if scaled { far } else { far * (-x).exp() };
    let y = x.le(2.0).where_(near, far);
    x.eq(0.0).where_(f64::INFINITY, x.lt(0.0).where_(f64::NAN, y))
}

/// ζ, which is `2/3·x^(3/2)`, as a sum of two terms. The first is `2/3·r³` for `r = 3m/2¹³` beside √x with an integer m:
/// it is exact in f64 if m has at most 16 bits, for x below 256. The second is small, a binomial series in `x/r² - 1`.
/// A rounded ζ of 60 would cost `exp(-ζ)` 60 roundings.
fn airy_zeta(x: &Tensor, root: &Tensor) -> (Tensor, Tensor) {
    const STEP: f64 = 3.0 / 8192.0;
    let m = (root * (1.0 / STEP)).round();
    let r = &m * STEP;
    let square = r.square();
    let d = x - &square;
    let e = &d / square;
    let series = 1.0 + &e * (0.25 - &e * (1.0 / 24.0 - &e / 64.0));
    (&m * (STEP * STEP * STEP * 2.0 / 3.0) * &m * &m, r * d * series)
}

/// Ai: an oscillation below -3 (DLMF 9.7.9), `e^-ζ` times a series from 3 on (DLMF 9.7.5).
fn airy_ai(x: &Tensor) -> Tensor {
    let size = x.abs();
    let root = size.sqrt();
    let (zeta, rest) = airy_zeta(&size, &root);
    let inverse = (&zeta + &rest).recip();
    let w = inverse.square();
    let (s, c, rest_s, rest_c) = (zeta.sin(), zeta.cos(), rest.sin(), rest.cos());
    let (s, c) = (&s * &rest_c + &c * &rest_s, c * rest_c - s * rest_s);
    // √2·cos(ζ - π/4) and √2·sin(ζ - π/4).
    let (c, s) = (&c + &s, s - c);
    let wave = c * chebyshev_series(&w, &t::AIRY_P) + s * &inverse * chebyshev_series(&w, &t::AIRY_Q);
    let below = wave / (root.sqrt() * (2.0 * PI).sqrt());
    let negative = from_root(x, t::AIRY_ROOT) * chebyshev_series(x, &t::AIRY_NEGATIVE);
    let decay = chebyshev_series(&inverse, &t::AIRY_DECAY) * (-zeta).exp() * (-rest).exp();
    let decay = decay / (root.sqrt() * (2.0 * PI.sqrt()));
    let positive = x.gt(3.0).where_(decay, chebyshev_series(x, &t::AIRY_POSITIVE) * (-x).exp());
    let y = x.lt(-3.0).where_(below, x.lt(0.0).where_(negative, positive));
    // PyTorch's limits.
    x.is_finite().where_(x.gt(103.892).where_(0.0, y), f64::NAN)
}

fn spherical_j0(x: &Tensor) -> Tensor {
    const SERIES: [f64; 7] =
        [1.0 / 6_227_020_800.0, -1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0];
    let z = x.square();
    let near = SERIES.iter().fold(x.zeros_like(), |sum, &c| sum * &z + c);
    x.is_inf().where_(0.0, x.abs().lt(0.5).where_(near, x.sin() / x))
}

/// `exp(x²)·erfc(x)`: by the product up to 5, by a continued fraction above.
fn erfcx(x: &Tensor) -> Tensor {
    let size = x.abs();
    let near = size.minimum(5.0);
    let near = near.square().exp() * near.erfc();
    let far = size.maximum(5.0);
    let fraction = (1..=24).rev().fold(far.clone(), |sum, k| &far + f64::from(k) * 0.5 / sum);
    let y = size.le(5.0).where_(near, 0.564_189_583_547_756_3 / fraction);
    let y = x.is_nan().where_(x, y);
    x.lt(0.0).where_(2.0 * x.square().exp() - &y, y)
}

/// Quantile of the normal distribution: x of `y = p - 1/2` near the center, x of `s = √(-2 ln p)` in the tails.
fn ndtri(p: &Tensor) -> Tensor {
    let y = p - 0.5;
    let center = &y * chebyshev_series(&y.square(), &t::NDTRI_CENTER);
    let upper = y.gt(0.0);
    let squared = upper.where_(1.0 - p, p).log() * -2.0;
    let tail = chebyshev_series(&(squared.log() * 0.5), &t::NDTRI_TAIL) - squared.sqrt();
    let tail = upper.where_(-&tail, tail);
    let x = y.abs().le(0.36).where_(center, tail);
    let x = p.eq(0.0).where_(f64::NEG_INFINITY, p.eq(1.0).where_(f64::INFINITY, x));
    (p.lt(0.0) | p.gt(1.0)).where_(f64::NAN, x)
}

fn log_ndtr(x: &Tensor) -> Tensor {
    let t = x * FRAC_1_SQRT_2;
    let below = (erfcx(&-&t) * 0.5).log() - t.square();
    x.lt(-1.0).where_(below, (t.erfc() * -0.5).log1p())
}

/// Hurwitz's zeta function: nine terms and more up to 9, and the Euler-Maclaurin formula from there.
#[kernel(max_turns = 100000)]
fn zeta_terms<F: Real>(x: F, q: F) -> (F, F, F) {
    let mut sum = q.powf(-x);
    let (mut a, mut b) = (q, 0.0);
    let mut i = 0;
    let mut small = false;
    while !small && (i < 9 || a <= 9.0) {
        i += 1;
        a += 1.0;
        b = a.powf(-x);
        sum += b;
        small = -1.1e-16 * sum < b && b < 1.1e-16 * sum;
    }
    (sum, a, if small { 0.0 } else { b })
}

fn zeta(x: &Tensor, q: &Tensor) -> Tensor {
    let (sum, w, b) = zeta_terms::on(x, q);
    let done = b.eq(0.0);
    let mut total = &sum + &b * &w / (x - 1.0) - &b * 0.5;
    let (mut a, mut term, mut k) = (x.full_like(1.0), b, 0.0);
    for divisor in t::EULER_MACLAURIN {
        a *= x + k;
        term = &term / &w;
        total += &a * &term / divisor;
        a *= x + (k + 1.0);
        term = &term / &w;
        k += 2.0;
    }
    let y = done.where_(&sum, total);
    let integer = q.eq(q.floor());
    let y = q.le(0.0).where_(integer.where_(f64::INFINITY, x.ne(x.floor()).where_(f64::NAN, &y)), &y);
    x.eq(1.0).where_(f64::INFINITY, x.lt(1.0).where_(f64::NAN, y))
}

/// Sum of the series of the lower incomplete gamma function, without its factor.
#[kernel(max_turns = 20000)]
fn lower_series<F: Real>(a: F, x: F) -> F {
    let (mut sum, mut term, mut k) = (1.0, 1.0, a);
    while term > 1.1e-16 * sum {
        k += 1.0;
        term *= x / k;
        sum += term;
    }
    sum
}

/// Continued fraction of the upper incomplete gamma function, without its factor, by Lentz's method.
#[kernel(max_turns = 20000)]
fn upper_fraction<F: Real>(a: F, x: F) -> F {
    let mut b = x + 1.0 - a;
    let mut c = 1e300;
    let mut d = 1.0 / b;
    let mut h = d;
    let mut k = 0.0;
    let mut change = 1.0;
    while change > 1.1e-16 {
        k += 1.0;
        let n = k * (a - k);
        b += 2.0;
        d = n * d + b;
        d = if d.abs() < 1e-300 { 1e-300 } else { d };
        c = b + n / c;
        c = if c.abs() < 1e-300 { 1e-300 } else { c };
        d = 1.0 / d;
        let step = d * c;
        h *= step;
        change = (step - 1.0).abs();
    }
    h
}

/// The regularized incomplete gamma functions, the lower one or the upper one.
fn incomplete_gamma(a: &Tensor, x: &Tensor, upper: bool) -> Tensor {
    // The factor x^a e^-x / Γ(a), whose exponent is x where both are large.
    let factor = (a * x.log() - x - a.lgamma()).exp();
    let by_series = x.lt(&(a + 1.0));
    // Arguments of the other branch are replaced, so that its loop ends at once.
    let series = lower_series::on(by_series.where_(a, 1.0), by_series.where_(x, 0.0)) * &factor / a;
    let fraction = upper_fraction::on(by_series.where_(1.0, a), by_series.where_(3.0, x)) * &factor;
    let y = if upper { by_series.where_(1.0 - series, fraction) } else { by_series.where_(series, 1.0 - fraction) };
    let (at_zero, at_infinity) = if upper { (1.0, 0.0) } else { (0.0, 1.0) };
    let nan = y.full_like(f64::NAN);
    let y = x.eq(f64::INFINITY).where_(at_infinity, y);
    let y = a.eq(f64::INFINITY).where_(x.eq(f64::INFINITY).where_(&nan, at_zero), y);
    let y = x.eq(0.0).where_(at_zero, y);
    let y = a.eq(0.0).where_(x.gt(0.0).where_(at_infinity, &nan), y);
    (a.lt(0.0) | x.lt(0.0)).where_(f64::NAN, y)
}

/// `q` after `n - 1` steps of `r = slope·q - p`, from p = 1 and a first value.
#[kernel]
fn three_terms<F: Real>(slope: F, first: F, n: F) -> F {
    let m = n as i32;
    let (mut p, mut q) = (1.0, first);
    let mut k = 2;
    while k <= m && !q.is_nan() {
        let r = slope * q - p;
        p = q;
        q = r;
        k += 1;
    }
    q
}

/// As [`three_terms`], with `r = slope·q - k·step·p`.
#[kernel]
fn hermite_terms<F: Real>(slope: F, step: F, n: F) -> F {
    let m = n as i32;
    let (mut p, mut q) = (1.0, slope);
    let mut k = 1;
    while k < m {
        let r = slope * q - step * (k as F) * p;
        p = q;
        q = r;
        k += 1;
    }
    q
}

/// As [`three_terms`], with `r = ((2k + 1)·a - b)·q - k·p)/(k + 1)`.
#[kernel]
fn orthogonal_terms<F: Real>(a: F, b: F, first: F, n: F) -> F {
    let m = n as i32;
    let (mut p, mut q) = (1.0, first);
    let mut k = 1;
    while k < m && !q.is_nan() {
        let i = k as F;
        let r = (((2.0 * i + 1.0) * a - b) * q - i * p) / (i + 1.0);
        p = q;
        q = r;
        k += 1;
    }
    q
}

/// 1 for even orders, -1 for odd ones.
fn parity(n: &Tensor) -> Tensor {
    let even = (n * 0.5).floor() * 2.0;
    n.eq(&even).where_(n.full_like(1.0), -1.0)
}

/// 0 below order 0, 1 at 0.
fn from_order_0(n: &Tensor, y: Tensor) -> Tensor {
    n.lt(0.0).where_(0.0, n.eq(0.0).where_(1.0, y))
}

/// Chebyshev polynomials of the kinds `t`, `u`, `v` and `w`. Above an order, those of arguments in (-1, 1) are quotients
/// of sines and cosines, as PyTorch computes them.
fn chebyshev(c: &Call<'_>, kind: char, shifted: bool) -> Outcome {
    two(c, |x, n| {
        let (x, n) = (x.broadcast_to(x.shape().broadcast(n.shape()).unwrap_or(*x.shape())), n.trunc());
        let y = if shifted { &x + &x - 1.0 } else { x };
        let slope = &y + &y;
        let first = match kind {
            't' => y.clone(),
            'u' => slope.clone(),
            'v' => &slope - 1.0,
            _ => &slope + 1.0,
        };
        let angle = y.acos();
        let closed = match kind {
            't' => (&n * &angle).cos(),
            'u' => ((&n + 1.0) * &angle).sin() / angle.sin(),
            'v' => ((&n + 0.5) * &angle).cos() / (&angle * 0.5).cos(),
            _ => ((&n + 0.5) * &angle).sin() / (&angle * 0.5).sin(),
        };
        let last = match (kind, shifted) {
            ('t', _) | ('u' | 'v', true) => 6.0,
            ('w', true) => 4.0,
            _ => 8.0,
        };
        let inside = n.gt(last) & y.abs().lt(1.0);
        // Orders of the closed form need no step.
        let terms = three_terms::on(&slope, &first, inside.where_(0.0, &n));
        let (one, many, twice) = (n.full_like(1.0), &n + 1.0, &n + &n + 1.0);
        let (right, left) = match kind {
            't' => (one.clone(), one),
            'u' => (many.clone(), many),
            'v' => (one, twice),
            _ => (twice, one),
        };
        let ends = y.eq(1.0).where_(right, y.eq(-1.0).where_(left * parity(&n), inside.where_(closed, terms)));
        from_order_0(&n, ends)
    })
}

fn hermite(c: &Call<'_>, physicists: bool) -> Outcome {
    two(c, |x, n| {
        let limit = if x.dtype() == DType::F64 { 512.0 } else { 128.0 };
        let n = n.is_finite().where_(n.trunc(), -1.0);
        let (slope, step) = if physicists { (x + x, 2.0) } else { (x.clone(), 1.0) };
        let y = hermite_terms::on(&slope, step, n.minimum(limit));
        from_order_0(&n, n.gt(limit).where_(f64::NAN, y))
    })
}

fn laguerre(x: &Tensor, n: &Tensor) -> Tensor {
    let n = n.trunc();
    let y = orthogonal_terms::on(1.0, x, &(1.0 - x), &n);
    from_order_0(&n, x.eq(0.0).where_(1.0, y))
}

fn legendre(x: &Tensor, n: &Tensor) -> Tensor {
    let n = n.trunc();
    let ends = x.gt(0.0).where_(1.0, parity(&n));
    let y = x.abs().eq(1.0).where_(ends, orthogonal_terms::on(x, 0.0, x, &n));
    from_order_0(&n, y)
}

/// A derivative of the digamma function, by the zeta function: `(-1)ⁿ⁺¹ n! ζ(n + 1, x)`.
pub fn polygamma(x: &Tensor, n: i64) -> Tensor {
    let factorial: f64 = (1..=n).map(|i| i as f64).product();
    let sign = if n % 2 == 0 { -1.0 } else { 1.0 };
    zeta(&x.full_like((n + 1) as f64), x) * (sign * factorial)
}

/// A row for each overload: two tensors, or a number first or second.
macro_rules! overloads {
    ($($name:literal, $first:literal, $second:literal => $rule:expr;)*) => {
        pub const PAIRS: &[Row] = &[$(
            (concat!("aten.", $name, ".default"), $rule),
            (concat!("aten.", $name, ".", $first), $rule),
            (concat!("aten.", $name, ".", $second), $rule),
        )*];
    };
}

overloads! {
    "special_chebyshev_polynomial_t", "x_scalar", "n_scalar" => |c| chebyshev(c, 't', false);
    "special_chebyshev_polynomial_u", "x_scalar", "n_scalar" => |c| chebyshev(c, 'u', false);
    "special_chebyshev_polynomial_v", "x_scalar", "n_scalar" => |c| chebyshev(c, 'v', false);
    "special_chebyshev_polynomial_w", "x_scalar", "n_scalar" => |c| chebyshev(c, 'w', false);
    "special_shifted_chebyshev_polynomial_t", "x_scalar", "n_scalar" => |c| chebyshev(c, 't', true);
    "special_shifted_chebyshev_polynomial_u", "x_scalar", "n_scalar" => |c| chebyshev(c, 'u', true);
    "special_shifted_chebyshev_polynomial_v", "x_scalar", "n_scalar" => |c| chebyshev(c, 'v', true);
    "special_shifted_chebyshev_polynomial_w", "x_scalar", "n_scalar" => |c| chebyshev(c, 'w', true);
    "special_hermite_polynomial_h", "x_scalar", "n_scalar" => |c| hermite(c, true);
    "special_hermite_polynomial_he", "x_scalar", "n_scalar" => |c| hermite(c, false);
    "special_laguerre_polynomial_l", "x_scalar", "n_scalar" => |c| two(c, laguerre);
    "special_legendre_polynomial_p", "x_scalar", "n_scalar" => |c| two(c, legendre);
    "special_zeta", "self_scalar", "other_scalar" => |c| two_wide(c, zeta);
}

pub const ROWS: &[Row] = &[
    ("aten.special_bessel_j0.default", |c| one(c, bessel_j0)),
    ("aten.special_bessel_j1.default", |c| one(c, bessel_j1)),
    ("aten.special_bessel_y0.default", |c| one(c, bessel_y0)),
    ("aten.special_bessel_y1.default", |c| one(c, bessel_y1)),
    ("prims.bessel_j0.default", |c| one(c, bessel_j0)),
    ("prims.bessel_j1.default", |c| one(c, bessel_j1)),
    ("aten.special_modified_bessel_k0.default", |c| one(c, |x| bessel_k(x, false, false))),
    ("aten.special_modified_bessel_k1.default", |c| one(c, |x| bessel_k(x, true, false))),
    ("aten.special_scaled_modified_bessel_k0.default", |c| one(c, |x| bessel_k(x, false, true))),
    ("aten.special_scaled_modified_bessel_k1.default", |c| one(c, |x| bessel_k(x, true, true))),
    ("aten.special_airy_ai.default", |c| one(c, airy_ai)),
    ("aten.special_spherical_bessel_j0.default", |c| one(c, spherical_j0)),
    ("prims.spherical_bessel_j0.default", |c| one(c, spherical_j0)),
    ("aten.special_erfcx.default", |c| one_wide(c, erfcx)),
    ("prims.erfcx.default", |c| one_wide(c, erfcx)),
    ("aten.special_ndtri.default", |c| one_wide(c, ndtri)),
    ("prims.ndtri.default", |c| one_wide(c, ndtri)),
    ("aten.special_log_ndtr.default", |c| one_wide(c, log_ndtr)),
    ("prims.zeta.default", |c| two_wide(c, zeta)),
    ("aten.igamma.default", |c| two_wide(c, |a, x| incomplete_gamma(a, x, false))),
    ("aten.igammac.default", |c| two_wide(c, |a, x| incomplete_gamma(a, x, true))),
];
