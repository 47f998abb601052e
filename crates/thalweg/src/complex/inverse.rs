//! Inverse trigonometric and hyperbolic functions, by Kahan's formulas ("Branch cuts for complex elementary functions, or
//! much ado about nothing's sign bit", 1987).

use super::{Complex, limits, odd, sign_of};
use crate::Tensor;
use std::f64::consts::{FRAC_PI_2, LN_2};

/// Inverse functions. On a branch cut the sign of the zero part selects the side, as in C and NumPy.
impl Complex {
    /// The inverse sine, as `numpy.arcsin`. The branch cuts are the real axis below -1 and above 1. For infinite `z`
    /// the real part is the angle from the imaginary axis, and the imaginary part is infinite. For `0 + NaN·i` the real
    /// part is 0.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(2.0, 0.0), (2.0, -0.0)], [2]);
    /// assert_eq!(z.asin().to_string(), "[1.5708+1.317j 1.5708-1.317j]");
    /// ```
    #[doc(alias = "arcsin")]
    #[track_caller]
    pub fn asin(&self) -> Complex {
        let z = self.wide();
        let (left, right) = z.roots();
        let re = z.re.atan2(&left.re * &right.re - &left.im * &right.im);
        let im = asinh(left.re * right.im - left.im * right.re);
        let re = z.beside_nan().where_(&z.re, re);
        let at = z.detach();
        let end = Complex { re: at.re.abs().atan2(at.im.abs()) * sign_of(&at.re), im: sign_of(&at.im) * f64::INFINITY };
        z.with_ends(end, Complex { re, im }).cast(self.dtype())
    }

    /// The inverse cosine, as `numpy.arccos`. The branch cuts are the real axis below -1 and above 1. For infinite `z`
    /// the real part is the angle, and the imaginary part is infinite with the opposite sign.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(2.0, 0.0), (0.0, 0.0)], [2]);
    /// assert_eq!(z.acos().to_string(), "[0.    -1.317j 1.5708-0.j   ]");
    /// ```
    #[doc(alias = "arccos")]
    #[track_caller]
    pub fn acos(&self) -> Complex {
        let z = self.wide();
        let (left, right) = z.roots();
        let re = left.re.atan2(&right.re) * 2.0;
        let re = z.beside_nan().where_(re.full_like(FRAC_PI_2), re);
        let im = asinh(right.re * left.im - right.im * left.re);
        let at = z.detach();
        let end = Complex { re: at.im.abs().atan2(&at.re), im: sign_of(&at.im) * f64::NEG_INFINITY };
        z.with_ends(end, Complex { re, im }).cast(self.dtype())
    }

    /// The inverse tangent, as `numpy.arctan`. The branch cuts are the imaginary axis below -i and above i, its poles
    /// ±i. For infinite `z` it is `±π/2 + 0i`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(1.0, 1.0)], [1]).atan().to_string(), "[1.0172+0.4024j]");
    /// ```
    #[doc(alias = "arctan")]
    #[track_caller]
    pub fn atan(&self) -> Complex {
        self.swapped().atanh().swapped()
    }

    /// The inverse hyperbolic sine, as `numpy.arcsinh`. The branch cuts are the imaginary axis below -i and above i. Special
    /// values are those of [`asin`](Complex::asin) with the parts exchanged.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(1.0, 1.0)], [1]).asinh().to_string(), "[1.0613+0.6662j]");
    /// ```
    #[doc(alias = "arcsinh")]
    #[track_caller]
    pub fn asinh(&self) -> Complex {
        self.swapped().asin().swapped()
    }

    /// The inverse hyperbolic cosine, as `numpy.arccosh`: its real part is not negative, its imaginary part in
    /// `-π..=π`. The branch cut is the real axis below 1. For infinite `z` it is `∞ + i·angle`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(2.0, 0.0), (0.0, 0.0)], [2]);
    /// assert_eq!(z.acosh().to_string(), "[1.317+0.j     0.   +1.5708j]");
    /// ```
    #[doc(alias = "arccosh")]
    #[track_caller]
    pub fn acosh(&self) -> Complex {
        let z = self.wide();
        let (below, above) = ((&z - 1.0).sqrt(), (&z + 1.0).sqrt());
        let re = asinh(&below.re * &above.re + &below.im * &above.im);
        let im = below.im.atan2(&above.re) * 2.0;
        let im = z.beside_nan().where_(im.full_like(FRAC_PI_2), im);
        let end = Complex { re: re.full_like(f64::INFINITY), im: z.detach().angle() };
        z.with_ends(end, Complex { re, im }).cast(self.dtype())
    }

    /// The inverse hyperbolic tangent, as `numpy.arctanh`. The branch cuts are the real axis below -1 and above 1, its
    /// poles ±1. For infinite `z` it is `0 ± i·π/2`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(2.0, 0.0), (2.0, -0.0)], [2]);
    /// assert_eq!(z.atanh().to_string(), "[0.5493+1.5708j 0.5493-1.5708j]");
    /// ```
    #[doc(alias = "arctanh")]
    #[track_caller]
    pub fn atanh(&self) -> Complex {
        let z = self.wide();
        let limits = limits(z.dtype());
        let (a, b) = (z.re.abs(), z.im.abs());
        let far = a.maximum(&b).gt(limits.large) | z.is_inf();
        let sign = sign_of(&z.re);
        let (x, y) = (far.where_(0, &z.re) * &sign, far.where_(1, &z.im));
        // At x = 1 the square of a small y would underflow to 0.
        let pole = x.eq(1) & y.abs().lt(limits.small);
        let beside = pole.where_(1, &y);
        let near_re = (&x * 4.0 / ((1.0 - &x).square() + beside.square())).log1p() * 0.25;
        let near_re = pole.where_((LN_2 - pole.where_(&y, 1).abs().log()) * 0.5, near_re);
        let near_im = (&y * 2.0).atan2((1.0 - &x) * (&x + 1.0) - y.square()) * 0.5;
        // For large z: 1/z, whose magnitude is negligible beside 1, and the angle.
        let safe = Complex { re: far.where_(&z.re, 1), im: far.where_(&z.im, 0) };
        let size = safe.re.hypot(&safe.im);
        let inverse = z.is_inf().where_(z.re.zeros_like(), safe.re.abs() / &size / size);
        let turn = sign_of(&z.im) * FRAC_PI_2;
        let turn = z.im.is_nan().where_(&z.im, turn);
        let re = far.where_(inverse, near_re) * sign;
        let re = z.beside_nan().where_(&z.re, re);
        Complex { re, im: far.where_(turn, near_im) }.cast(self.dtype())
    }

    /// `√(1 - z)` and `√(1 + z)`, with the sign of the imaginary part on the side of the cut.
    #[track_caller]
    fn roots(&self) -> (Complex, Complex) {
        let left = Complex { re: 1.0 - &self.re, im: -&self.im };
        (left.sqrt(), (self + 1.0).sqrt())
    }

    /// Mask of real part 0 and imaginary part NaN, where the real part of the result is known.
    #[track_caller]
    fn beside_nan(&self) -> Tensor {
        self.re.eq(0) & self.im.is_nan()
    }

    /// Selects `end` where a part of `self` is infinite, else `else_`.
    #[track_caller]
    fn with_ends(&self, end: Complex, else_: Complex) -> Complex {
        let far: Tensor = self.is_inf();
        Complex { re: far.where_(end.re, else_.re), im: far.where_(end.im, else_.im) }
    }
}

/// The inverse hyperbolic sine, with -0 for -0.
#[track_caller]
fn asinh(x: Tensor) -> Tensor {
    let y = x.asinh();
    odd(&x, y)
}
