//! Operators and comparisons of complex numbers: with each other, with real tensors and with numbers on either side.
//!
//! The right operand may be complex, any real operand that a tensor takes, or a pair `(re, im)` of f64, which is one
//! complex number. The left one may be complex, a tensor, f64, i64 or a pair.

use super::create::number;
use super::{Complex, common_shape};
use crate::record::check_alike;
use crate::{Error, IntoOperand, Operand, Tensor};
use std::borrow::Borrow;
use std::ops;

#[track_caller]
fn add(a: &Complex, b: &Complex) -> Complex {
    Complex { re: &a.re + &b.re, im: &a.im + &b.im }
}

#[track_caller]
fn sub(a: &Complex, b: &Complex) -> Complex {
    Complex { re: &a.re - &b.re, im: &a.im - &b.im }
}

#[track_caller]
fn mul(a: &Complex, b: &Complex) -> Complex {
    Complex { re: &a.re * &b.re - &a.im * &b.im, im: &a.re * &b.im + &a.im * &b.re }
}

/// Divisor by Smith's method, as in NumPy, which squares nothing and so does not overflow early: the parts of a
/// quotient are sums of the dividend's parts, one of them times `ratio`, over `divisor`.
struct Divisor {
    ratio: Tensor,
    divisor: Tensor,
    /// Mask of the divisors whose imaginary part is the larger one.
    imaginary: Tensor,
}

impl Divisor {
    #[track_caller]
    fn of(z: &Complex) -> Divisor {
        let imaginary = z.im.abs().gt(z.re.abs());
        let (large, small) = (imaginary.where_(&z.im, &z.re), imaginary.where_(&z.re, &z.im));
        let zero = large.eq(0) & small.eq(0);
        let ratio = &small / zero.where_(1, &large);
        // For division by 0, each part is divided by +0.
        let divisor = zero.where_(0, &large + &small * &ratio);
        Divisor { ratio, divisor, imaginary }
    }
}

#[track_caller]
fn div(a: &Complex, b: &Complex) -> Complex {
    common_shape("div", &a.re, &b.re);
    let Divisor { ratio, divisor, imaginary } = Divisor::of(b);
    let re = imaginary.where_(&a.re * &ratio + &a.im, &a.re + &a.im * &ratio);
    let im = imaginary.where_(&a.im * &ratio - &a.re, &a.im - &a.re * &ratio);
    Complex { re: re / &divisor, im: im / divisor }
}

#[track_caller]
fn add_real(a: &Complex, b: impl IntoOperand) -> Complex {
    let re = &a.re + b;
    // The imaginary part is broadcast to the shape of the result.
    Complex { im: a.im.broadcast_to(*re.shape()), re }
}

#[track_caller]
fn sub_real(a: &Complex, b: impl IntoOperand) -> Complex {
    let re = &a.re - b;
    Complex { im: a.im.broadcast_to(*re.shape()), re }
}

#[track_caller]
fn mul_real(a: &Complex, b: impl IntoOperand) -> Complex {
    let b = b.operand();
    Complex { re: &a.re * b, im: &a.im * b }
}

#[track_caller]
fn div_real(a: &Complex, b: impl IntoOperand) -> Complex {
    let b = b.operand();
    Complex { re: &a.re / b, im: &a.im / b }
}

#[track_caller]
fn real_add(a: impl IntoOperand, b: &Complex) -> Complex {
    add_real(b, a)
}

#[track_caller]
fn real_sub(a: impl IntoOperand, b: &Complex) -> Complex {
    let a = a.operand();
    let re = match a {
        Operand::Tensor(a) => a - &b.re,
        Operand::Scalar(a) => a - &b.re,
    };
    Complex { im: (-&b.im).broadcast_to(*re.shape()), re }
}

#[track_caller]
fn real_mul(a: impl IntoOperand, b: &Complex) -> Complex {
    mul_real(b, a)
}

#[track_caller]
fn real_div(a: impl IntoOperand, b: &Complex) -> Complex {
    let a = a.operand();
    if let Operand::Tensor(a) = a {
        common_shape("div", a, &b.re);
    }
    let Divisor { ratio, divisor, imaginary } = Divisor::of(b);
    let re = imaginary.where_(&ratio, 1.0) * a;
    let im = imaginary.where_(-ratio.ones_like(), -&ratio) * a;
    Complex { re: re / &divisor, im: im / divisor }
}

#[track_caller]
fn add_pair(a: &Complex, (re, im): (f64, f64)) -> Complex {
    Complex { re: &a.re + re, im: &a.im + im }
}

#[track_caller]
fn sub_pair(a: &Complex, (re, im): (f64, f64)) -> Complex {
    Complex { re: &a.re - re, im: &a.im - im }
}

#[track_caller]
fn mul_pair(a: &Complex, (re, im): (f64, f64)) -> Complex {
    Complex { re: &a.re * re - &a.im * im, im: &a.re * im + &a.im * re }
}

#[track_caller]
fn div_pair(a: &Complex, b: (f64, f64)) -> Complex {
    div(a, &number(b, a))
}

#[track_caller]
fn pair_add(a: (f64, f64), b: &Complex) -> Complex {
    add_pair(b, a)
}

#[track_caller]
fn pair_sub((re, im): (f64, f64), b: &Complex) -> Complex {
    Complex { re: re - &b.re, im: im - &b.im }
}

#[track_caller]
fn pair_mul(a: (f64, f64), b: &Complex) -> Complex {
    mul_pair(b, a)
}

#[track_caller]
fn pair_div(a: (f64, f64), b: &Complex) -> Complex {
    div(&number(a, b), b)
}

macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident: $f:ident $right:ident $left:ident $right_pair:ident $left_pair:ident;)*) => {$(
        operators!(each $trait $method $f: &Complex, &Complex; Complex, &Complex; &Complex, Complex; Complex, Complex);
        operators!(each $trait $method $left: Tensor, &Complex; &Tensor, &Complex; f64, &Complex; i64, &Complex;
            Tensor, Complex; &Tensor, Complex; f64, Complex; i64, Complex);
        operators!(value $trait $method $left_pair: (f64, f64), &Complex; (f64, f64), Complex);
        operators!(right $trait $method $right_pair: &Complex, (f64, f64); Complex, (f64, f64));
        impl<R: IntoOperand> ops::$trait<R> for &Complex {
            type Output = Complex;
            #[track_caller]
            fn $method(self, other: R) -> Complex {
                $right(self, other)
            }
        }
        impl<R: IntoOperand> ops::$trait<R> for Complex {
            type Output = Complex;
            #[track_caller]
            fn $method(self, other: R) -> Complex {
                $right(&self, other)
            }
        }
        /// Replaces the handles with those of the result; other handles keep the old parts.
        impl<R> ops::$assign<R> for Complex
        where
            for<'a> &'a Complex: ops::$trait<R, Output = Complex>,
        {
            #[track_caller]
            fn $assign_method(&mut self, other: R) {
                *self = ops::$trait::$method(&*self, other);
            }
        }
    )*};
    (each $trait:ident $method:ident $f:ident: $($a:ty, $b:ty);*) => {$(
        impl ops::$trait<$b> for $a {
            type Output = Complex;
            #[track_caller]
            fn $method(self, other: $b) -> Complex {
                $f(self.borrow(), other.borrow())
            }
        }
    )*};
    (value $trait:ident $method:ident $f:ident: $($a:ty, $b:ty);*) => {$(
        impl ops::$trait<$b> for $a {
            type Output = Complex;
            #[track_caller]
            fn $method(self, other: $b) -> Complex {
                $f(self, other.borrow())
            }
        }
    )*};
    (right $trait:ident $method:ident $f:ident: $($a:ty, $b:ty);*) => {$(
        impl ops::$trait<$b> for $a {
            type Output = Complex;
            #[track_caller]
            fn $method(self, other: $b) -> Complex {
                $f(self.borrow(), other)
            }
        }
    )*};
}

operators! {
    Add add AddAssign add_assign: add add_real real_add add_pair pair_add;
    Sub sub SubAssign sub_assign: sub sub_real real_sub sub_pair pair_sub;
    Mul mul MulAssign mul_assign: mul mul_real real_mul mul_pair pair_mul;
    Div div DivAssign div_assign: div div_real real_div div_pair pair_div;
}

impl ops::Neg for &Complex {
    type Output = Complex;
    #[track_caller]
    fn neg(self) -> Complex {
        Complex { re: -&self.re, im: -&self.im }
    }
}

impl ops::Neg for Complex {
    type Output = Complex;
    #[track_caller]
    fn neg(self) -> Complex {
        -&self
    }
}

/// Arithmetic without an operator.
impl Complex {
    /// `1/z`, as `numpy.reciprocal` and `torch.reciprocal`, without intermediate overflow. `∞ + NaN·i` for 0, as
    /// NumPy's quotient `1/z`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(0.0, 2.0)], [1]).recip().to_string(), "[0.-0.5j]");
    /// ```
    #[doc(alias = "reciprocal")]
    #[track_caller]
    pub fn recip(&self) -> Complex {
        1.0 / self
    }

    /// `z·z`, as `numpy.square`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(1.0, 2.0)], [1]).square().to_string(), "[-3.+4.j]");
    /// ```
    #[track_caller]
    pub fn square(&self) -> Complex {
        let product = &self.re * &self.im;
        // The difference of the squares, as a product without cancellation.
        Complex { re: (&self.re - &self.im) * (&self.re + &self.im), im: &product + &product }
    }

    /// The numbers times `i`: exact, and without the products of `z * (0.0, 1.0)`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(1.0, 2.0)], [1]).times_i().to_string(), "[-2.+1.j]");
    /// ```
    #[track_caller]
    pub fn times_i(&self) -> Complex {
        Complex { re: -&self.im, im: self.re.clone() }
    }
}

/// Comparisons. Complex numbers have no order, so there are no others.
impl Complex {
    /// Whether both parts are equal, as bool, as `numpy.equal`; shapes broadcast. 0 and -0 are equal.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (1.0, -2.0)], [2]);
    /// assert_eq!(z.eq(&z.flip(0).conj()).to_vec::<bool>()?, [true, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When dtypes differ or shapes do not broadcast.
    #[track_caller]
    pub fn eq(&self, other: &Complex) -> Tensor {
        self.re.eq(&other.re) & self.im.eq(&other.im)
    }

    /// Whether a part differs, as bool, as `numpy.not_equal`; NaN differs from everything.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (f64::NAN, 0.0)], [2]);
    /// assert_eq!(z.ne(&z).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`eq`](Complex::eq).
    #[track_caller]
    pub fn ne(&self, other: &Complex) -> Tensor {
        self.re.ne(&other.re) | self.im.ne(&other.im)
    }

    /// Whether the numbers are close, `|a - b| ≤ atol + rtol·|b|`, as bool, as `numpy.isclose`. Equal infinite numbers
    /// are close, NaN is close to nothing.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0)], [1]);
    /// assert_eq!(z.isclose(&(&z * 1.001), 1e-2, 0.0).to_vec::<bool>()?, [true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`eq`](Complex::eq).
    #[track_caller]
    pub fn isclose(&self, other: &Complex, rtol: f64, atol: f64) -> Tensor {
        let difference = (self - other).abs();
        self.eq(other) | (difference.le(other.abs() * rtol + atol) & difference.is_finite())
    }

    /// Whether all numbers are close, as `numpy.allclose`; see [`isclose`](Complex::isclose). Waits for the answer.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::randn([10]);
    /// assert!((&z * &z / &z).allclose(&z, 1e-5, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    ///
    /// # Panics
    /// As [`eq`](Complex::eq).
    #[track_caller]
    pub fn allclose(&self, other: &Complex, rtol: f64, atol: f64) -> Result<bool, Error> {
        check_alike("allclose", &self.re, &other.re);
        self.isclose(other, rtol, atol).all(..).item()
    }

    /// Whether a part is NaN, as bool, as `numpy.isnan`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, f64::NAN), (f64::INFINITY, 0.0)], [2]);
    /// assert_eq!(z.is_nan().to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn is_nan(&self) -> Tensor {
        self.re.is_nan() | self.im.is_nan()
    }

    /// Whether a part is an infinity, as bool, as `numpy.isinf`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 0.0), (f64::NAN, f64::INFINITY)], [2]);
    /// assert_eq!(z.is_inf().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn is_inf(&self) -> Tensor {
        self.re.is_inf() | self.im.is_inf()
    }

    /// Whether both parts are finite, as bool, as `numpy.isfinite`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 0.0), (f64::NAN, 0.0)], [2]);
    /// assert_eq!(z.is_finite().to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn is_finite(&self) -> Tensor {
        self.re.is_finite() & self.im.is_finite()
    }
}
