//! Creation of complex numbers: from parts, pairs, magnitudes and angles, and at random.

use super::{Complex, common_shape};
use crate::record::{check_alike, check_float};
use crate::{Element, Options, Shape, Tensor};

/// Creation from data.
impl Complex {
    /// Complex numbers with the given parts, which broadcast, as `torch.complex`.
    ///
    /// ```
    /// # use thalweg::{Complex, Tensor};
    /// let z = Complex::new(Tensor::new([1.0, 2.0]), Tensor::new(-1.0));
    /// assert_eq!(z.to_string(), "[1.-1.j 2.-1.j]");
    /// ```
    ///
    /// # Panics
    /// When they are not floats, dtypes or devices differ, or shapes do not broadcast.
    #[track_caller]
    pub fn new(re: Tensor, im: Tensor) -> Complex {
        check_float("Complex::new", &re);
        let shape = common_shape("Complex::new", &re, &im);
        Complex { re: re.broadcast_to(shape), im: im.broadcast_to(shape) }
    }

    /// Real numbers as complex ones, as `x.astype(complex)`.
    ///
    /// ```
    /// # use thalweg::{Complex, Tensor};
    /// assert_eq!(Complex::real(&Tensor::new([1.0, -2.0])).to_string(), "[ 1.+0.j -2.+0.j]");
    /// ```
    ///
    /// # Panics
    /// When they are not floats.
    #[track_caller]
    pub fn real(re: &Tensor) -> Complex {
        check_float("Complex::real", re);
        let zero = Tensor::zeros_with((), (re.dtype(), re.device()));
        Complex { re: re.clone(), im: zero.broadcast_to(*re.shape()) }
    }

    /// Complex numbers with the given magnitudes and angles, as `torch.polar`.
    ///
    /// ```
    /// # use thalweg::{Complex, Tensor};
    /// let z = Complex::from_polar(&Tensor::new(2.0), &Tensor::new([0.0, std::f64::consts::FRAC_PI_2]));
    /// assert!(z.allclose(&Complex::from_pairs(&[(2.0, 0.0), (0.0, 2.0)], [2]), 0.0, 1e-12)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`new`](Complex::new).
    #[track_caller]
    pub fn from_polar(abs: &Tensor, angle: &Tensor) -> Complex {
        check_float("Complex::from_polar", abs);
        common_shape("Complex::from_polar", abs, angle);
        Complex { re: abs * angle.cos(), im: abs * angle.sin() }
    }

    /// Complex numbers from pairs (re, im) in row-major order, on the default device.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0f32, 2.0), (3.0, 4.0)], [2, 1]);      // complex64
    /// assert_eq!(z.to_string(), "[[1.+2.j]\n [3.+4.j]]");
    /// ```
    ///
    /// # Panics
    /// When the parts are not floats, or the number of pairs is not that of the shape.
    #[track_caller]
    pub fn from_pairs<T: Element>(pairs: &[(T, T)], shape: impl Into<Shape>) -> Complex {
        let shape = shape.into();
        let (re, im): (Vec<T>, Vec<T>) = pairs.iter().copied().unzip();
        let re = Tensor::from_slice(&re, shape);
        check_float("Complex::from_pairs", &re);
        Complex { re, im: Tensor::from_slice(&im, shape) }
    }

    /// Complex numbers from a slice of interleaved parts, `[re, im, re, im, ..]`, the layout of audio and FFT
    /// libraries; on the default device. [`view_as_complex`](Complex::view_as_complex) takes a tensor.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_interleaved(&[1.0f32, 2.0, 3.0, 4.0], [2]).to_string(), "[1.+2.j 3.+4.j]");
    /// ```
    ///
    /// # Panics
    /// When the parts are not floats, or not twice as many as the shape has elements.
    #[track_caller]
    pub fn from_interleaved<T: Element>(parts: &[T], shape: impl Into<Shape>) -> Complex {
        let shape = shape.into();
        if Some(parts.len()) != shape.checked_bytes(2) {
            panic!("Complex::from_interleaved: {} parts for shape {shape}, which has two for each number", parts.len());
        }
        let (re, im): (Vec<T>, Vec<T>) = parts.chunks_exact(2).map(|p| (p[0], p[1])).unzip();
        let re = Tensor::from_slice(&re, shape);
        check_float("Complex::from_interleaved", &re);
        Complex { re, im: Tensor::from_slice(&im, shape) }
    }

    /// Complex numbers whose parts are interleaved along a last axis of size 2, as `torch.view_as_complex`; views of
    /// it.
    ///
    /// ```
    /// # use thalweg::{Complex, Tensor};
    /// let z = Complex::view_as_complex(&Tensor::new([[1.0, 2.0], [3.0, 4.0]]));
    /// assert_eq!(z.to_string(), "[1.+2.j 3.+4.j]");
    /// ```
    ///
    /// # Panics
    /// When the dtype is not a float, or the last axis does not have two elements.
    #[track_caller]
    pub fn view_as_complex(parts: &Tensor) -> Complex {
        check_float("Complex::view_as_complex", parts);
        if parts.dims().last() != Some(&2) {
            panic!("Complex::view_as_complex: takes parts along a last axis of size 2, not shape {}", parts.shape());
        }
        Complex { re: parts.index_axis(-1, 0), im: parts.index_axis(-1, 1) }
    }

    /// The parts interleaved along a new last axis of size 2, as `torch.view_as_real` (which shares memory; this is a
    /// new tensor). [`Tensor::to_vec`] of it gives the interleaved parts.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.view_as_real().to_vec::<f64>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// At rank 8.
    #[track_caller]
    pub fn view_as_real(&self) -> Tensor {
        Tensor::stack(&[&self.re, &self.im], -1)
    }
}

/// Creation from a rule.
impl Complex {
    /// Zeros, as `numpy.zeros(shape, complex)`; parts of f32 on the default device.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::zeros([2]).to_string(), "[0.+0.j 0.+0.j]");
    /// ```
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>) -> Complex {
        Complex::full_with(shape, (0.0, 0.0), Options::default())
    }

    /// Ones, as `numpy.ones(shape, complex)`; parts of f32 on the default device.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::ones([2]).to_string(), "[1.+0.j 1.+0.j]");
    /// ```
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>) -> Complex {
        Complex::full_with(shape, (1.0, 0.0), Options::default())
    }

    /// One number in every element, as `numpy.full`; parts of f32 on the default device.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::full([2], (1.0, -0.5)).to_string(), "[1.-0.5j 1.-0.5j]");
    /// ```
    #[track_caller]
    pub fn full(shape: impl Into<Shape>, value: (f64, f64)) -> Complex {
        Complex::full_with(shape, value, Options::default())
    }

    /// [`full`](Complex::full) with parts of a float dtype, on a device.
    ///
    /// ```
    /// # use thalweg::{Complex, DType};
    /// assert_eq!(Complex::full_with([2], (0.0, 1.0), DType::F64).dtype(), DType::F64);
    /// ```
    ///
    /// # Panics
    /// When the dtype is not a float.
    #[track_caller]
    pub fn full_with(shape: impl Into<Shape>, value: (f64, f64), options: impl Into<Options>) -> Complex {
        let (shape, options) = (shape.into(), options.into());
        let re = Tensor::full_with(shape, value.0, (options.dtype(), options.device));
        check_float("Complex::full", &re);
        Complex { re, im: Tensor::full_with(shape, value.1, (options.dtype(), options.device)) }
    }

    /// Standard normal numbers: both parts have mean 0 and variance ½, so that the mean of `|z|²` is 1, as
    /// `torch.randn(shape, dtype=torch.complex64)`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let power = Complex::randn([10_000]).abs_square().mean(..).item::<f32>()?;
    /// assert!((power - 1.0).abs() < 0.1);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn randn(shape: impl Into<Shape>) -> Complex {
        Complex::randn_with(shape, Options::default())
    }

    /// [`randn`](Complex::randn) with parts of a float dtype, on a device.
    ///
    /// ```
    /// # use thalweg::{Complex, DType};
    /// assert_eq!(Complex::randn_with([3], DType::F64).dtype(), DType::F64);
    /// ```
    ///
    /// # Panics
    /// When the dtype is not a float.
    #[track_caller]
    pub fn randn_with(shape: impl Into<Shape>, options: impl Into<Options>) -> Complex {
        let (shape, options) = (shape.into(), options.into());
        let re = Tensor::randn_with(shape, options);
        let im = Tensor::randn_with(shape, options);
        Complex { re: re * std::f64::consts::FRAC_1_SQRT_2, im: im * std::f64::consts::FRAC_1_SQRT_2 }
    }

    /// Both parts uniform on [0, 1), as `torch.rand(shape, dtype=torch.complex64)`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert!(Complex::rand([100]).im.amax(..).item::<f32>()? < 1.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn rand(shape: impl Into<Shape>) -> Complex {
        Complex::rand_with(shape, Options::default())
    }

    /// [`rand`](Complex::rand) with parts of a float dtype, on a device.
    ///
    /// ```
    /// # use thalweg::{Complex, DType};
    /// assert_eq!(Complex::rand_with([3], DType::F64).dtype(), DType::F64);
    /// ```
    ///
    /// # Panics
    /// When the dtype is not a float.
    #[track_caller]
    pub fn rand_with(shape: impl Into<Shape>, options: impl Into<Options>) -> Complex {
        let (shape, options) = (shape.into(), options.into());
        Complex { re: Tensor::rand_with(shape, options), im: Tensor::rand_with(shape, options) }
    }

    /// Selects by a condition, as `numpy.where`: `a` where it is true, else `b`; all three broadcast.
    ///
    /// ```
    /// # use thalweg::{Complex, Tensor};
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// let picked = Complex::where_(&z.re.gt(2.0), &z.conj(), &z);
    /// assert_eq!(picked.to_string(), "[1.+2.j 3.-4.j]");
    /// ```
    ///
    /// # Panics
    /// When the condition is not bool, shapes do not broadcast, or dtypes differ.
    #[track_caller]
    pub fn where_(condition: &Tensor, a: &Complex, b: &Complex) -> Complex {
        check_alike("Complex::where_", &a.re, &b.re);
        Complex { re: condition.where_(&a.re, &b.re), im: condition.where_(&a.im, &b.im) }
    }
}

/// A pair (re, im) as a complex number of rank 0, with dtype and device of `like`.
#[track_caller]
pub(super) fn number((re, im): (f64, f64), like: &Complex) -> Complex {
    let of = (like.dtype(), like.device());
    Complex { re: Tensor::full_with((), re, of), im: Tensor::full_with((), im, of) }
}
