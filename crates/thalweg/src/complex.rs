//! Complex numbers as two tensors.
//!
//! In: a real and an imaginary part of one shape, dtype and device. Out: the same. Always true: everything here is
//! recorded operations on the parts, so it fuses, has gradients of every order, and runs on every device; there is no
//! complex dtype. Gradients are those of the real and of the imaginary part as two real variables.

use crate::record::{check_alike, check_float, shapes_differ};
use crate::{Axes, DType, Device, Element, Error, Shape, Sizes, SliceArgs, Tensor};
use std::borrow::Borrow;
use std::ops;

/// Complex numbers: a tensor of real and one of imaginary parts, which have one shape, one float dtype, one device. What
/// Fourier transforms and `eig` give, and `torch.complex(re, im)`.
///
/// Its arithmetic is recorded operations on the parts, which fuse. What moves elements, or works on real and imaginary
/// part alike, is done by [`map`](Complex::map): `z.map(|part| part.roll(1, 0))`.
///
/// ```
/// # use thalweg::{Complex, Tensor};
/// let z = Complex::new(Tensor::new([3.0f32, 0.0]), Tensor::new([4.0f32, -2.0]));
/// assert_eq!(z.abs().to_vec::<f32>()?, [5.0, 2.0]);
/// let square = &z * &z;
/// assert_eq!(square.re.to_vec::<f32>()?, [-7.0, -4.0]);
/// assert_eq!((&z * z.conj()).im.to_vec::<f32>()?, [0.0, 0.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "an operation on tensors has no effect but its result"]
pub struct Complex {
    /// The real parts.
    pub re: Tensor,
    /// The imaginary parts.
    pub im: Tensor,
}

impl Complex {
    /// Numbers of these parts, which broadcast, as `torch.complex`.
    ///
    /// # Panics
    /// When they are not floats, dtypes or devices differ, or shapes do not broadcast.
    #[track_caller]
    pub fn new(re: Tensor, im: Tensor) -> Complex {
        check_float("Complex::new", &re);
        check_alike("Complex::new", &re, &im);
        let Some(shape) = re.shape().broadcast(im.shape()) else {
            shapes_differ("Complex::new", re.shape(), im.shape())
        };
        Complex { re: re.broadcast_to(shape), im: im.broadcast_to(shape) }
    }

    /// Real numbers as complex ones.
    ///
    /// # Panics
    /// When they are not floats.
    #[track_caller]
    pub fn real(re: &Tensor) -> Complex {
        check_float("Complex::real", re);
        let zero = Tensor::zeros_with((), (re.dtype(), re.device()));
        Complex { re: re.clone(), im: zero.broadcast_to(*re.shape()) }
    }

    /// Numbers of these magnitudes and angles, as `torch.polar`.
    ///
    /// # Panics
    /// As [`new`](Complex::new).
    #[track_caller]
    pub fn from_polar(abs: &Tensor, angle: &Tensor) -> Complex {
        check_float("Complex::from_polar", abs);
        check_alike("Complex::from_polar", abs, angle);
        if abs.shape().broadcast(angle.shape()).is_none() {
            shapes_differ("Complex::from_polar", abs.shape(), angle.shape());
        }
        Complex { re: abs * angle.cos(), im: abs * angle.sin() }
    }

    /// The shape of each part.
    pub fn shape(&self) -> &Shape {
        self.re.shape()
    }

    /// The sizes of its dimensions.
    pub fn dims(&self) -> &[usize] {
        self.re.dims()
    }

    /// The dtype of each part: half of `complex64` is f32.
    pub fn dtype(&self) -> DType {
        self.re.dtype()
    }

    /// The device that both parts are on.
    pub fn device(&self) -> Device {
        self.re.device()
    }

    /// Does the same with both parts: what moves elements, or is linear with real coefficients.
    ///
    /// # Panics
    /// When the results differ in shape or dtype, or are no floats.
    #[track_caller]
    pub fn map(&self, f: impl Fn(&Tensor) -> Tensor) -> Complex {
        Complex::new(f(&self.re), f(&self.im))
    }

    /// As [`Tensor::reshape`].
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn reshape(&self, sizes: impl Into<Sizes>) -> Complex {
        let sizes = sizes.into();
        Complex { re: self.re.reshape(sizes), im: self.im.reshape(sizes) }
    }

    /// As [`Tensor::slice`].
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn slice(&self, args: impl SliceArgs + Copy) -> Complex {
        Complex { re: self.re.slice(args), im: self.im.slice(args) }
    }

    /// The sums over axes, as [`Tensor::sum`].
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn sum(&self, axes: impl Into<Axes>) -> Complex {
        let axes = axes.into();
        Complex { re: self.re.sum(axes), im: self.im.sum(axes) }
    }

    /// The complex conjugates, as `numpy.conj`.
    pub fn conj(&self) -> Complex {
        Complex { re: self.re.clone(), im: -&self.im }
    }

    /// The conjugated transpose of the last two dimensions, as `torch.adjoint`.
    ///
    /// # Panics
    /// When the rank is below 2.
    #[track_caller]
    pub fn adjoint(&self) -> Complex {
        Complex { re: self.re.t(), im: -self.im.t() }
    }

    /// The magnitudes, as `numpy.abs`, without overflow on the way. The gradient at 0 is 0, as PyTorch's.
    pub fn abs(&self) -> Tensor {
        if !self.re.is_tracked() && !self.im.is_tracked() {
            return self.re.hypot(&self.im);
        }
        let zero = self.re.eq(0) & self.im.eq(0);
        zero.where_(0, zero.where_(1, &self.re).hypot(&self.im))
    }

    /// The squares of the magnitudes: a power spectrum.
    pub fn abs_square(&self) -> Tensor {
        self.re.square() + self.im.square()
    }

    /// The angles in `-π..=π`, as `numpy.angle`; of 0 that is 0.
    pub fn angle(&self) -> Tensor {
        self.im.atan2(&self.re)
    }

    /// `eᶻ`, as `numpy.exp`.
    pub fn exp(&self) -> Complex {
        Complex::from_polar(&self.re.exp(), &self.im)
    }

    /// The principal logarithm, as `numpy.log`.
    pub fn log(&self) -> Complex {
        Complex { re: self.abs().log(), im: self.angle() }
    }

    /// `1/z`, without overflow on the way; of 0 it is NaN.
    pub fn recip(&self) -> Complex {
        // What it is scaled by makes no difference to the result, and so none to gradients.
        let scale = self.re.detach().abs().maximum(self.im.detach().abs()).recip();
        let z = self * &scale;
        let square = z.abs_square();
        z.conj() * (scale / square)
    }

    /// The numbers times `i`.
    pub fn times_i(&self) -> Complex {
        Complex { re: -&self.im, im: self.re.clone() }
    }

    /// The matrix product, as [`Tensor::matmul`]: four real ones.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn matmul(&self, other: &Complex) -> Complex {
        Complex {
            re: self.re.matmul(&other.re) - self.im.matmul(&other.im),
            im: self.re.matmul(&other.im) + self.im.matmul(&other.re),
        }
    }

    /// The parts of each number, in row-major order.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<(T, T)>, Error> {
        Ok(self.re.to_vec::<T>()?.into_iter().zip(self.im.to_vec::<T>()?).collect())
    }
}

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

#[track_caller]
fn div(a: &Complex, b: &Complex) -> Complex {
    mul(a, &b.recip())
}

macro_rules! operators {
    ($($trait:ident $method:ident $f:ident;)*) => {$(
        operators!(each $trait $method $f: &Complex, &Complex);
        operators!(each $trait $method $f: Complex, &Complex);
        operators!(each $trait $method $f: &Complex, Complex);
        operators!(each $trait $method $f: Complex, Complex);
    )*};
    (each $trait:ident $method:ident $f:ident: $a:ty, $b:ty) => {
        impl ops::$trait<$b> for $a {
            type Output = Complex;
            #[track_caller]
            fn $method(self, other: $b) -> Complex {
                $f(self.borrow(), other.borrow())
            }
        }
    };
}

operators! {
    Add add add;
    Sub sub sub;
    Mul mul mul;
    Div div div;
}

/// Each part times a real tensor or number.
macro_rules! real {
    ($($trait:ident $method:ident;)*) => {$(
        real!(each $trait $method: &Complex, &Tensor);
        real!(each $trait $method: Complex, &Tensor);
        real!(each $trait $method: &Complex, Tensor);
        real!(each $trait $method: Complex, Tensor);
        real!(each $trait $method: &Complex, f64);
        real!(each $trait $method: Complex, f64);
    )*};
    (each $trait:ident $method:ident: $a:ty, $b:ty) => {
        impl ops::$trait<$b> for $a {
            type Output = Complex;
            #[track_caller]
            fn $method(self, other: $b) -> Complex {
                Complex { re: (&self.re).$method(&other), im: (&self.im).$method(&other) }
            }
        }
    };
}

real! {
    Mul mul;
    Div div;
}

impl ops::Neg for &Complex {
    type Output = Complex;
    fn neg(self) -> Complex {
        Complex { re: -&self.re, im: -&self.im }
    }
}

impl ops::Neg for Complex {
    type Output = Complex;
    fn neg(self) -> Complex {
        -&self
    }
}

/// As `re + im·i`, element by element, where the values can be computed.
impl std::fmt::Debug for Complex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Complex").field("re", &self.re).field("im", &self.im).finish()
    }
}
