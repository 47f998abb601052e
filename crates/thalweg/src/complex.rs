//! Complex numbers as two tensors.
//!
//! In: a real and an imaginary part of one shape, dtype and device. Out: the same. Always true: everything here is
//! recorded operations on the parts, so it fuses, has gradients of every order, and runs on every device; there is no
//! complex dtype. Gradients are those of the real and of the imaginary part as two real variables.
//!
//! Creation is in `create`, operators in `arithmetic`, functions of one number in `exponential`, `hyperbolic` and
//! `inverse`, sums in `reduce`, products of vectors and matrices in `products`, views and joins in `moves`, text in
//! `text`, and with the feature `linalg` systems of equations in `solve`. `.npy` files of `complex64` and `complex128`
//! are in `io/npy_complex.rs`.

mod arithmetic;
mod create;
mod exponential;
mod hyperbolic;
mod inverse;
mod moves;
mod products;
mod reduce;
#[cfg(feature = "linalg")]
mod solve;
mod text;

use crate::record::{check_alike, check_float, shapes_differ, widened};
use crate::{DType, Device, Element, Error, Shape, Tensor};

/// Complex tensor: real and imaginary parts of one shape, one float dtype and one device. With parts of f32 it is
/// NumPy's `complex64`, of f64 `complex128`.
///
/// All operations are recorded on the parts and fuse: `z.exp().abs()` is one kernel. For operations that act on both
/// parts alike and have no method here, use [`map`](Complex::map): `z.map(|part| part.cumsum(0))`.
///
/// * Either operand of an operator may be complex, a real tensor, or a number; a pair `(re, im)` of f64 is one complex
///   number: `z * (0.0, 1.0)`.
/// * Functions have the branch cuts and special values of C99's Annex G, as NumPy's have. Products and quotients are
///   NumPy's: a product with an infinite part may have NaN in the other.
/// * A real operand has no imaginary part, as in C, rather than one of +0: `z + 1.0` keeps a -0 there, and so the side
///   of a branch cut.
/// * Parts of bf16 and f16 are allowed. Functions compute them in f32 and round once.
/// * Gradients are those of the real and of the imaginary part as two real variables, as PyTorch's (PyTorch's complex
///   gradient is `re + i·im` of these).
///
/// ```
/// # use thalweg::{Complex, Tensor};
/// let z = Complex::new(Tensor::new([3.0f32, 0.0]), Tensor::new([4.0f32, -2.0]));
/// assert_eq!(z.to_string(), "[3.+4.j 0.-2.j]");
/// assert_eq!(z.abs().to_vec::<f32>()?, [5.0, 2.0]);
/// assert_eq!((&z * &z).to_string(), "[-7.+24.j -4. -0.j]");
/// assert_eq!((1.0 + &z * (0.0, 1.0)).to_string(), "[-3.+3.j  3.+0.j]");
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
    /// The shape of each part.
    pub fn shape(&self) -> &Shape {
        self.re.shape()
    }

    /// The sizes of the dimensions.
    pub fn dims(&self) -> &[usize] {
        self.re.dims()
    }

    /// The number of dimensions, as `z.ndim`.
    pub fn rank(&self) -> usize {
        self.re.rank()
    }

    /// The number of complex elements, as `z.size` in NumPy and `z.numel()` in PyTorch.
    pub fn numel(&self) -> usize {
        self.re.numel()
    }

    /// The dtype of each part: f32 for `complex64`, f64 for `complex128`.
    pub fn dtype(&self) -> DType {
        self.re.dtype()
    }

    /// The device that both parts are on.
    pub fn device(&self) -> Device {
        self.re.device()
    }

    /// Applies a function to both parts. The function moves elements, or is linear with real coefficients.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.map(|part| part.diff(1, 0)).to_string(), "[2.+2.j]");
    /// ```
    ///
    /// # Panics
    /// When the results differ in shape or dtype, or are not floats.
    #[track_caller]
    pub fn map(&self, f: impl Fn(&Tensor) -> Tensor) -> Complex {
        let (re, im) = (f(&self.re), f(&self.im));
        check_float("Complex::map", &re);
        check_alike("Complex::map", &re, &im);
        if re.shape() != im.shape() {
            panic!("Complex::map: the parts have shapes {} and {}", re.shape(), im.shape());
        }
        Complex { re, im }
    }

    /// Converts the parts to another float dtype, as `z.astype(numpy.complex128)`; see [`Tensor::cast`].
    ///
    /// ```
    /// # use thalweg::{Complex, DType};
    /// let z = Complex::from_pairs(&[(1.0f64, 2.0)], [1]);      // complex128
    /// assert_eq!(z.cast(DType::F32).dtype(), DType::F32);      // complex64
    /// ```
    ///
    /// # Panics
    /// When the dtype is not a float.
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Complex {
        if !dtype.is_float() {
            crate::record::wrong_dtype("Complex::cast", "a float dtype", dtype);
        }
        Complex { re: self.re.cast(dtype), im: self.im.cast(dtype) }
    }

    /// Copies to another device; see [`Tensor::to_device`].
    ///
    /// ```
    /// # use thalweg::{Complex, Device};
    /// let z = Complex::from_pairs(&[(1.0, 2.0)], [1]).to_device(Device::cpu())?;
    /// assert_eq!(z.device(), Device::cpu());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::to_device`].
    pub fn to_device(&self, device: Device) -> Result<Complex, Error> {
        Ok(Complex { re: self.re.to_device(device)?, im: self.im.to_device(device)? })
    }

    /// An untracked handle to the same numbers, as `z.detach()` in PyTorch.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0)], [1]);
    /// assert!(!z.detach().re.is_tracked());
    /// ```
    pub fn detach(&self) -> Complex {
        Complex { re: self.re.detach(), im: self.im.detach() }
    }

    /// The pairs (re, im) in row-major order.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.conj().to_vec::<f64>()?, [(1.0, -2.0), (3.0, -4.0)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<(T, T)>, Error> {
        Ok(self.re.to_vec::<T>()?.into_iter().zip(self.im.to_vec::<T>()?).collect())
    }

    /// The pair (re, im) of the only element, as `z.item()`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.sum(..).item::<f64>()?, (4.0, 6.0));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::item`].
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<(T, T), Error> {
        Ok((self.re.item::<T>()?, self.im.item::<T>()?))
    }

    /// Parts of bf16 and f16 as f32, for functions of several steps, which cast their results back.
    #[track_caller]
    fn wide(&self) -> Complex {
        Complex { re: widened(&self.re), im: widened(&self.im) }
    }

    /// The parts swapped: `i·conj(z)`. It maps the hyperbolic functions to the trigonometric ones, including signs of
    /// zeros.
    fn swapped(&self) -> Complex {
        Complex { re: self.im.clone(), im: self.re.clone() }
    }
}

/// Checks that two tensors can be operands of one operation; returns the broadcast shape.
#[track_caller]
fn common_shape(name: &str, a: &Tensor, b: &Tensor) -> Shape {
    check_alike(name, a, b);
    let Some(shape) = a.shape().broadcast(b.shape()) else { shapes_differ(name, a.shape(), b.shape()) };
    shape
}

/// Sign of each element, 1 or -1, also of zeros; a constant for gradients.
#[track_caller]
fn sign_of(x: &Tensor) -> Tensor {
    x.signbit().where_(x.full_like(-1), 1.0)
}

/// The value `y` of an odd function, with the sign of a zero argument kept. The derivative at 0 has to be 1.
#[track_caller]
fn odd(x: &Tensor, y: Tensor) -> Tensor {
    x.eq(0).where_(x, y)
}

/// Bounds, by dtype of computation, beyond which functions use another formula.
struct Limits {
    /// Magnitude of x below which `eˣ` does not overflow and `e⁻ˣ` does not underflow.
    exponent: f64,
    /// Maximum magnitude whose square does not overflow.
    large: f64,
    /// Minimum magnitude whose square is a normal number.
    small: f64,
}

fn limits(dtype: DType) -> Limits {
    match dtype {
        DType::F64 => Limits { exponent: 700.0, large: 1e150, small: 1e-145 },
        _ => Limits { exponent: 80.0, large: 1e18, small: 1e-15 },
    }
}
