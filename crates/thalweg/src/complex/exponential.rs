//! Magnitudes and angles, exponentials, logarithms, roots and powers, with NumPy's principal branches.
//!
//! A function is its usual formula where that is accurate, and another one where it overflows or loses digits. Formulas
//! are selected by comparisons of the argument. The formula that is not selected gets an argument at which it is
//! finite, so that gradients never contain `0·∞`. Special values are inserted last.

use super::{Complex, common_shape, limits, sign_of};
use crate::Tensor;

/// Magnitudes and angles.
impl Complex {
    /// The magnitudes, as `numpy.abs`, without intermediate overflow; infinite if a part is, even beside NaN. The
    /// gradient at 0 is 0, as PyTorch's.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(3.0, -4.0), (f64::NAN, f64::INFINITY)], [2]).abs().to_vec::<f64>()?, [5.0, f64::INFINITY]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn abs(&self) -> Tensor {
        if !self.re.is_tracked() && !self.im.is_tracked() {
            return self.re.hypot(&self.im);
        }
        let zero = self.re.eq(0) & self.im.eq(0);
        zero.where_(0, zero.where_(1, &self.re).hypot(&self.im))
    }

    /// The squares of the magnitudes: a power spectrum. `z.real**2 + z.imag**2` in NumPy.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(3.0, -4.0)], [1]).abs_square().to_vec::<f64>()?, [25.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn abs_square(&self) -> Tensor {
        self.re.square() + self.im.square()
    }

    /// The angles in `-π..=π`, as `numpy.angle` and `torch.angle`: `atan2(im, re)`. The branch cut is the negative real
    /// axis, with π above it (`im` = +0) and -π below (`im` = -0). The angle of +0 is 0.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(0.0, 2.0), (-1.0, 0.0), (-1.0, -0.0)], [3]);
    /// assert_eq!(format!("{:.2}", z.angle()), "[ 1.57  3.14 -3.14]");
    /// ```
    #[doc(alias = "arg")]
    #[track_caller]
    pub fn angle(&self) -> Tensor {
        self.im.atan2(&self.re)
    }

    /// The complex conjugates, as `numpy.conj` and `torch.conj`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(1.0, 2.0)], [1]).conj().to_string(), "[1.-2.j]");
    /// ```
    #[track_caller]
    pub fn conj(&self) -> Complex {
        Complex { re: self.re.clone(), im: -&self.im }
    }

    /// `z/|z|`, and 0 for 0, as `numpy.sign` (of version 2) and `torch.sgn`. If one part is infinite, the result is ±1
    /// or ±i (beside NaN, too); if both are, it is NaN. The gradient at 0 is 0.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(3.0, -4.0), (0.0, 0.0)], [2]);
    /// assert_eq!(z.sign().to_string(), "[0.6-0.8j 0. +0.j ]");
    /// ```
    #[doc(alias = "sgn")]
    #[track_caller]
    pub fn sign(&self) -> Complex {
        let z = self.wide();
        let far = z.is_inf();
        let (near_re, near_im) = (far.where_(0, &z.re), far.where_(0, &z.im));
        let zero = near_re.eq(0) & near_im.eq(0);
        let size = zero.where_(1, &near_re).hypot(&near_im);
        let both = z.re.is_inf() & z.im.is_inf();
        let end = |part: &Tensor| {
            let one = part.is_inf().where_(sign_of(part), 0);
            both.where_(one.full_like(f64::NAN), one)
        };
        let re = far.where_(end(&z.re), zero.where_(0, near_re / &size));
        let im = far.where_(end(&z.im), zero.where_(0, near_im / &size));
        Complex { re, im }.cast(self.dtype())
    }
}

/// Exponentials and logarithms.
impl Complex {
    /// `eᶻ`, as `numpy.exp`. It does not overflow if only `eˣ` does, and not its product with the sine or cosine.
    ///
    /// For `-∞ + iy` it is 0, whatever `y` is; for `∞ + 0i` it is `∞ + 0i`; for `∞ ± ∞i` it is `∞ + NaN·i`; for
    /// `NaN + 0i` the imaginary part is 0.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(0.0, std::f64::consts::PI)], [1]);
    /// assert!(z.exp().allclose(&Complex::full_with([1], (-1.0, 0.0), z.dtype()), 0.0, 1e-15)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn exp(&self) -> Complex {
        let z = self.wide();
        let (x, y) = (&z.re, &z.im);
        let limit = limits(x.dtype()).exponent;
        let (size, more) = (x.minimum(limit).exp(), (x - limit).maximum(0).exp());
        let (re, im) = (&size * y.cos() * &more, &size * y.sin() * &more);
        // 0 and ∞ are not rotated.
        let still = x.is_inf() & !y.is_finite();
        let end = size * more;
        let level = y.eq(0) & !x.is_finite();
        let (re, im) = (still.where_(&end, re), still.where_(end.clone() * 0.0 * sign_of(y), level.where_(y, im)));
        Complex { re, im }.cast(self.dtype())
    }

    /// `eᶻ - 1`, accurate near 0, as `numpy.expm1`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(1e-20, 1e-20)], [1]).expm1().to_string(), "[1.e-20+1.e-20j]");
    /// ```
    #[track_caller]
    pub fn expm1(&self) -> Complex {
        let z = self.wide();
        let (x, y) = (&z.re, &z.im);
        let half = (y * 0.5).sin();
        let exp = z.exp();
        // Beyond the limit the 1 is negligible, and the formula overflows before the result does.
        let far = x.abs().gt(limits(x.dtype()).exponent);
        let near = far.where_(0, x).expm1() * y.cos() - half.square() * 2.0;
        let re = far.where_(&exp.re - 1.0, near);
        Complex { re, im: exp.im }.cast(self.dtype())
    }

    /// The principal logarithm `ln|z| + i·angle`, as `numpy.log`. The branch cut is the negative real axis, as for
    /// [`angle`](Complex::angle). The real part is `-∞` for 0, and `∞` if a part is infinite, even beside NaN. If `|z|`
    /// is near 1, its logarithm is computed from the parts and not from `|z|`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(-1.0, 0.0), (1.0, 0.0)], [2]);
    /// assert_eq!(format!("{:.3}", z.log()), "[0.+3.142j 0.+0.j   ]");
    /// ```
    #[track_caller]
    pub fn log(&self) -> Complex {
        let z = self.wide();
        Complex { re: log_abs(&z), im: z.angle() }.cast(self.dtype())
    }

    /// `ln(1 + z)`, accurate near 0, as `numpy.log1p`. The branch cut is the real axis below -1.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(1e-20, 1e-20)], [1]).log1p().to_string(), "[1.e-20+1.e-20j]");
    /// ```
    #[track_caller]
    pub fn log1p(&self) -> Complex {
        let z = self.wide();
        let (x, y) = (&z.re, &z.im);
        let near = x.abs().lt(0.5) & y.abs().lt(0.5);
        let (a, b) = (near.where_(x, 0), near.where_(y, 0));
        let moved = &z + 1.0;
        let re = near.where_((&a * (&a + 2.0) + b.square()).log1p() * 0.5, log_abs(&moved));
        Complex { re, im: moved.angle() }.cast(self.dtype())
    }

    /// The logarithm to base 2, as `numpy.log2`; see [`log`](Complex::log).
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(8.0, 0.0)], [1]).log2().to_string(), "[3.+0.j]");
    /// ```
    #[track_caller]
    pub fn log2(&self) -> Complex {
        (self.wide().log() * std::f64::consts::LOG2_E).cast(self.dtype())
    }

    /// The logarithm to base 10, as `numpy.log10`; see [`log`](Complex::log).
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(format!("{:.3}", Complex::from_pairs(&[(100.0, 0.0)], [1]).log10()), "[2.+0.j]");
    /// ```
    #[track_caller]
    pub fn log10(&self) -> Complex {
        (self.wide().log() * std::f64::consts::LOG10_E).cast(self.dtype())
    }
}

/// `ln|z|`, without overflow or underflow of `|z|²`.
#[track_caller]
fn log_abs(z: &Complex) -> Tensor {
    let limits = limits(z.dtype());
    let (a, b) = (z.re.abs(), z.im.abs());
    let (large, small) = (a.maximum(&b), a.minimum(&b));
    // Around 1: the difference of |z|² and 1, without cancellation; only the rounding of the parts' squares remains.
    let near = large.gt(0.5) & large.lt(1.5);
    let (m, n) = (near.where_(&large, 1), near.where_(&small, 0));
    let around_one = ((&m - 1.0) * (&m + 1.0) + n.square()).log1p() * 0.5;
    // Scaled so that |z| neither overflows nor becomes subnormal.
    let (up, down) = (large.lt(limits.small), large.gt(limits.large));
    let (more, less) = (1.0 / limits.small, 1.0 / limits.large);
    let one = large.ones_like();
    let scale = up.where_(&one * more, down.where_(&one * less, &one));
    let log_scale = up.where_(&one * more.ln(), down.where_(&one * less.ln(), 0));
    let scaled = Complex { re: near.where_(2, &z.re) * &scale, im: &z.im * &scale };
    near.where_(around_one, scaled.re.hypot(&scaled.im).log() - log_scale)
}

/// Roots and powers.
impl Complex {
    /// The principal square root, as `numpy.sqrt`: its real part is not negative, and its imaginary part has the sign
    /// of that of `z`, including -0. The branch cut is the negative real axis. There is no intermediate overflow or
    /// underflow.
    ///
    /// With an infinite imaginary part it is `∞ ± ∞i`, even beside NaN; for `-∞ + iy` it is `0 ± ∞i`, for `∞ + iy` it
    /// is `∞ ± 0i`. It has no derivative at 0, and a gradient there is meaningless.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(-4.0, 0.0), (-4.0, -0.0), (0.0, 2.0)], [3]);
    /// assert_eq!(z.sqrt().to_string(), "[0.+2.j 0.-2.j 1.+1.j]");
    /// ```
    #[track_caller]
    pub fn sqrt(&self) -> Complex {
        let z = self.wide();
        let limits = limits(z.dtype());
        let size = z.re.abs().maximum(z.im.abs());
        // Scaled by powers of 4, whose square roots are exact.
        let (up, down) = (size.lt(limits.small), size.gt(limits.large));
        let power = |of: f64| 4f64.powf((of.ln() / 4f64.ln()).round());
        let (more, less) = (power(1.0 / limits.small), power(1.0 / limits.large));
        let one = size.ones_like();
        let scale = up.where_(&one * more, down.where_(&one * less, &one));
        let back = up.where_(&one / more.sqrt(), down.where_(&one / less.sqrt(), &one));
        let (x, y) = (&z.re * &scale, &z.im * &scale);
        let zero = size.eq(0);
        let sum = (zero.where_(1, &x).hypot(&y) + x.abs()) * 0.5;
        let large = zero.where_(0, sum.sqrt());
        // The smaller part of the root; infinite for an infinite imaginary part.
        let small = &y / (zero.where_(1, &large) * 2.0);
        let (large, small) = (large * &back, small * back);
        let right = x.ge(0);
        let sign = sign_of(&z.im);
        let re = right.where_(&large, &small * &sign);
        let im = right.where_(&small, large * sign);
        let far = z.im.is_inf();
        let re = far.where_(re.full_like(f64::INFINITY), re);
        Complex { re, im: far.where_(&z.im, im) }.cast(self.dtype())
    }

    /// `z` to the power of complex exponents, which broadcast, as `numpy.power`: `exp(w·log z)`, the principal value,
    /// with the branch cut of [`log`](Complex::log) in `z`. For the base 0 it is 1 if the exponent is 0, 0 if the
    /// exponent's real part is positive, and else NaN.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(0.0, 1.0), (0.0, 0.0)], [2]);
    /// let w = Complex::from_pairs(&[(0.0, 1.0), (2.0, 0.0)], [2]);
    /// assert_eq!(z.pow(&w).to_string(), "[0.2079+0.j 0.    +0.j]");      // iⁱ = e^(-π/2)
    /// ```
    ///
    /// # Panics
    /// When dtypes differ or shapes do not broadcast.
    #[track_caller]
    pub fn pow(&self, exponent: &Complex) -> Complex {
        common_shape("pow", &self.re, &exponent.re);
        let (z, w) = (self.wide(), exponent.wide());
        let zero = z.re.eq(0) & z.im.eq(0);
        let none = w.re.eq(0) & w.im.eq(0);
        // The base 0 is replaced by 1, so that no gradient is infinite.
        let base = Complex { re: zero.where_(1, &z.re), im: z.im.clone() };
        let power = (&w * base.log()).exp();
        let nan = w.re.full_like(f64::NAN);
        let of_zero = none.where_(1, w.re.gt(0).where_(nan.zeros_like(), &nan));
        let rest = of_zero.is_nan().where_(nan, 0);
        let re = (&zero & !&none).where_(&of_zero, none.where_(1, power.re));
        let im = (zero & !&none).where_(rest, none.where_(0, power.im));
        Complex { re, im }.cast(self.dtype())
    }

    /// `z` to the power of a real number, as `z**1.5`. Integer exponents up to 64 are products
    /// ([`powi`](Complex::powi)), ½ is [`sqrt`](Complex::sqrt), others are [`pow`](Complex::pow).
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(0.0, 2.0)], [1]).powf(2.0).to_string(), "[-4.+0.j]");
    /// ```
    #[track_caller]
    pub fn powf(&self, exponent: f64) -> Complex {
        if exponent == 0.5 {
            return self.sqrt();
        }
        if exponent.fract() == 0.0 && exponent.abs() <= 64.0 {
            return self.powi(exponent as i64);
        }
        self.pow(&super::create::number((exponent, 0.0), self))
    }

    /// `z` to the power of an integer, as `z**3`, by multiplications; for a negative one the reciprocal of the power.
    /// The power 0 is 1, also of NaN and infinities.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 1.0)], [1]);
    /// assert_eq!(z.powi(4).to_string(), "[-4.+0.j]");
    /// assert_eq!(z.powi(-2).to_string(), "[0.-0.5j]");
    /// ```
    #[track_caller]
    pub fn powi(&self, exponent: i64) -> Complex {
        let mut left = exponent.unsigned_abs();
        let mut base = self.wide();
        let mut power: Option<Complex> = None;
        while left > 0 {
            if left & 1 == 1 {
                power = Some(match power {
                    None => base.clone(),
                    Some(p) => p * &base,
                });
            }
            left >>= 1;
            if left > 0 {
                base = base.square();
            }
        }
        let power = power.unwrap_or_else(|| Complex::real(&base.re.ones_like()));
        let power = if exponent < 0 { power.recip() } else { power };
        power.cast(self.dtype())
    }
}

/// Selects `first` where the sign bit of `x` is set, else `second`.
#[track_caller]
pub(super) fn by_sign(x: &Tensor, first: &Tensor, second: &Tensor) -> Tensor {
    x.signbit().where_(first, second)
}
