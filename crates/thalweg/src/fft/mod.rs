//! Fourier transforms. Behind the feature `fft`.
//!
//! In: tensors, or complex numbers as two ([`Complex`]), f32 or f64. Out: the same. Always true: a transform along one
//! axis is a host operation ([`HostOp`](crate::HostOp)) on several threads, or a call of a GPU's library. The slicing,
//! padding and scaling around it are recorded operations, and so are gradients, which are transforms again.
//! docs/fourier.md has the choices.

mod lines;
mod pass;

use crate::record::wrong_dtype;
use crate::{Axes, Axis, Complex, DType, MAX_RANK, Tensor};

/// Normalization of transforms, as the `norm` of `numpy.fft` and `torch.fft`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum FftNorm {
    /// Divides inverse transforms by the number of samples; the usual convention.
    #[default]
    Backward,
    /// Divides forward transforms by the number of samples.
    Forward,
    /// Divides both by the square root of the number of samples, so that they preserve norms.
    Ortho,
}

/// Sizes and normalization of a transform: the arguments `n` or `s`, and `norm` of `numpy.fft` and `torch.fft`.
///
/// ```
/// # use thalweg::{Fft, FftNorm, Tensor};
/// let x = Tensor::randn([100]);
/// // Zeros are put behind it, up to a size that is fast.
/// let z = x.rfft_with(0, &Fft::new().sizes([128]).norm(FftNorm::Ortho));
/// assert_eq!(z.dims(), [65]);
///
/// // The inverse needs the number of columns if it is odd.
/// let image = Tensor::randn([4, 5]);
/// let back = image.rfft2().irfft2_with(&Fft::new().sizes([4, 5]));
/// assert!((back - image).abs().amax(..).item::<f32>()? < 1e-5);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct Fft {
    sizes: Option<Vec<usize>>,
    norm: FftNorm,
}

impl Fft {
    /// Defaults: the sizes of the operand, and normalization of the inverse.
    pub fn new() -> Fft {
        Fft::default()
    }

    /// Sets the number of samples along each of the axes, which are truncated or padded with zeros at the end. For an
    /// inverse transform to real numbers (`irfft`) it is the number of results, which may be odd.
    pub fn sizes(self, sizes: impl Into<Vec<usize>>) -> Fft {
        Fft { sizes: Some(sizes.into()), ..self }
    }

    /// Sets the normalization.
    pub fn norm(self, norm: FftNorm) -> Fft {
        Fft { norm, ..self }
    }
}

impl FftNorm {
    /// Factor by which a transform of `n` samples is multiplied.
    fn scale(self, inverse: bool, n: usize) -> f64 {
        match (self, inverse) {
            (FftNorm::Ortho, _) => 1.0 / (n as f64).sqrt(),
            (FftNorm::Backward, true) | (FftNorm::Forward, false) => 1.0 / n as f64,
            _ => 1.0,
        }
    }

    /// Normalization with the forward and backward transform exchanged.
    fn other(self) -> FftNorm {
        match self {
            FftNorm::Backward => FftNorm::Forward,
            FftNorm::Forward => FftNorm::Backward,
            FftNorm::Ortho => FftNorm::Ortho,
        }
    }
}

/// Axes of a transform, with the number of samples along each.
struct TransformAxes {
    name: &'static str,
    axes: Vec<(usize, usize)>,
    norm: FftNorm,
}

impl TransformAxes {
    /// The axes for an operand; `half` says that its last axis is the first half of a transform.
    #[track_caller]
    fn new(name: &'static str, x: &Tensor, axes: Axes, fft: &Fft, half: bool) -> TransformAxes {
        if !matches!(x.dtype(), DType::F32 | DType::F64) {
            wrong_dtype(name, "f32 or f64", x.dtype());
        }
        let (list, count) = axes.of(name, x.rank());
        if let Some(sizes) = fft.sizes.as_ref().filter(|sizes| sizes.len() != count) {
            panic!("{name}: {} sizes for {count} axes", sizes.len());
        }
        let samples = |i: usize| match &fft.sizes {
            Some(sizes) => sizes[i],
            None if half && i + 1 == count => 2 * x.dims()[list[i]].saturating_sub(1),
            None => x.dims()[list[i]],
        };
        let axes: Vec<(usize, usize)> = (0..count).map(|i| (list[i], samples(i))).collect();
        if let Some((axis, _)) = axes.iter().find(|(_, n)| *n == 0) {
            panic!("{name}: a transform of no samples, along axis {axis} of shape {}", x.shape());
        }
        TransformAxes { name, axes, norm: fft.norm }
    }

    /// Applies complex transforms along all axes but the last.
    #[track_caller]
    fn first(&self, z: Complex, inverse: bool) -> Complex {
        let first = &self.axes[..self.axes.len().saturating_sub(1)];
        first.iter().fold(z, |z, &axis| self.complex(z, axis, inverse))
    }

    #[track_caller]
    fn complex(&self, z: Complex, (axis, n): (usize, usize), inverse: bool) -> Complex {
        let z = Complex { re: fit(&z.re, axis, n), im: fit(&z.im, axis, n) };
        pass::complex(self.name, &z, axis, inverse, self.norm.scale(inverse, n))
    }

    #[track_caller]
    fn all(&self, z: Complex, inverse: bool) -> Complex {
        self.axes.iter().rev().fold(z, |z, &axis| self.complex(z, axis, inverse))
    }

    /// Applies the transform of real numbers along the last axis (its first half only), then complex ones along the
    /// others.
    #[track_caller]
    fn half(&self, x: &Tensor) -> Complex {
        let Some(&(axis, n)) = self.axes.last() else { return Complex::real(x) };
        let z = pass::half(self.name, &fit(x, axis, n), axis, self.norm.scale(false, n));
        self.first(z, false)
    }

    /// The inverse of [`half`](TransformAxes::half).
    #[track_caller]
    fn real(&self, z: Complex) -> Tensor {
        let Some(&(axis, n)) = self.axes.last() else { return z.re };
        let z = self.first(z, true);
        let z = Complex { re: fit(&z.re, axis, n / 2 + 1), im: fit(&z.im, axis, n / 2 + 1) };
        pass::real(self.name, &z, axis, n, self.norm.scale(true, n))
    }
}

/// First `n` elements along an axis, padded with zeros if there are fewer.
fn fit(x: &Tensor, axis: usize, n: usize) -> Tensor {
    let own = x.dims()[axis];
    if n == own {
        return x.clone();
    }
    if n < own {
        return x.narrow(axis, 0, n);
    }
    let mut widths = [(0, 0); MAX_RANK];
    widths[axis] = (0, n - own);
    x.pad(&widths[..x.rank()], 0)
}

/// Methods along one axis, with and without options.
macro_rules! one_axis_methods {
    ($($(#[$doc:meta])* $name:ident $with:ident -> $result:ty, $half:literal |$x:ident, $along:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        /// When there is no such axis, it has no samples, or the dtype is not f32 or f64.
        #[track_caller]
        pub fn $name(&self, axis: impl Into<Axis>) -> $result {
            self.$with(axis, &Fft::new())
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") of a size and with a norm of one's own.")]
        ///
        /// # Panics
        /// As without options, and when there is more than one size.
        #[track_caller]
        pub fn $with(&self, axis: impl Into<Axis>, fft: &Fft) -> $result {
            let $x = self;
            let axis = axis.into().of(stringify!($name), $x.shape().rank());
            let $along = TransformAxes::new(stringify!($name), $x.one_part(), axis.into(), fft, $half);
            $body
        }
    )*};
}

/// Methods along several axes and along the last two, with and without options.
macro_rules! several_axes_methods {
    ($($(#[$doc:meta])* $name:ident $with:ident $two:ident $two_with:ident -> $result:ty, $half:literal |$x:ident, $along:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        /// When there is no such axis, it is named twice or has no samples, or the dtype is not f32 or f64.
        #[track_caller]
        pub fn $name(&self, axes: impl Into<Axes>) -> $result {
            self.$with(axes, &Fft::new())
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") of sizes and with a norm of one's own.")]
        ///
        /// # Panics
        /// As without options, and when the number of sizes is not that of the axes.
        #[track_caller]
        pub fn $with(&self, axes: impl Into<Axes>, fft: &Fft) -> $result {
            let $x = self;
            let $along = TransformAxes::new(stringify!($name), $x.one_part(), axes.into(), fft, $half);
            $body
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") along the last two axes.")]
        ///
        /// # Panics
        /// When the rank is below 2, one of the axes has no samples, or the dtype is not f32 or f64.
        #[track_caller]
        pub fn $two(&self) -> $result {
            self.$two_with(&Fft::new())
        }

        #[doc = concat!("[`", stringify!($two), "`](Self::", stringify!($two), ") of two sizes and with a norm of one's own.")]
        ///
        /// # Panics
        /// As without options, and when there are not two sizes.
        #[track_caller]
        pub fn $two_with(&self, fft: &Fft) -> $result {
            let $x = self;
            let $along = TransformAxes::new(stringify!($two), $x.one_part(), [-2, -1].into(), fft, $half);
            $body
        }
    )*};
}

/// Operand of a transform (a tensor or complex number), one tensor of which has its shape and dtype.
trait OneComponent {
    fn one_part(&self) -> &Tensor;
}

impl OneComponent for Tensor {
    fn one_part(&self) -> &Tensor {
        self
    }
}

impl OneComponent for Complex {
    fn one_part(&self) -> &Tensor {
        &self.re
    }
}

/// # Fourier transforms
///
/// Transforms of real numbers. They need the feature `fft`, take f32 and f64, and have gradients of every
/// order; NaN propagates to all results of its line.
impl Tensor {
    one_axis_methods! {
        /// The discrete Fourier transform, `Σ x[t] e^(-2πi kt/n)` for all `n` values of `k`, as `numpy.fft.fft` and
        /// `torch.fft.fft`. [`rfft`](Tensor::rfft) computes only one half, which determines the other.
        fft fft_with -> Complex, false |x, along| along.all(Complex::real(x), false);
        /// The first `n/2 + 1` results of the discrete Fourier transform, as `numpy.fft.rfft` and `torch.fft.rfft`; the
        /// others are their conjugates.
        ///
        /// ```
        /// # use thalweg::Tensor;
        /// let wave = (Tensor::arange(8) * (2.0 * std::f64::consts::PI / 8.0)).cos();
        /// let z = wave.rfft(0);
        /// assert_eq!(z.abs().argmax(0).item::<i64>()?, 1);
        /// assert!((z.irfft(0) - wave).abs().amax(..).item::<f32>()? < 1e-6);
        /// # Ok::<(), thalweg::Error>(())
        /// ```
        rfft rfft_with -> Complex, false |x, along| along.half(x);
        /// The inverse of [`hfft`](Complex::hfft), as `numpy.fft.ihfft`.
        ihfft ihfft_with -> Complex, false |x, along| {
            // The inverse transform is the conjugate of the forward one, with the factor of the inverse.
            TransformAxes { norm: along.norm.other(), ..along }.half(x).conj()
        };
    }

    several_axes_methods! {
        /// The discrete Fourier transform along several axes, as `numpy.fft.fftn` and `torch.fft.fftn`.
        fftn fftn_with fft2 fft2_with -> Complex, false |x, along| along.all(Complex::real(x), false);
        /// [`rfft`](Tensor::rfft) along the last of the axes, then transforms along the others, as `numpy.fft.rfftn` and
        /// `torch.fft.rfftn`.
        rfftn rfftn_with rfft2 rfft2_with -> Complex, false |x, along| along.half(x);
    }
}

/// Fourier transforms of complex numbers. They need the feature `fft`, take f32 and f64, and have gradients of every
/// order; NaN propagates to all results of its line.
impl Complex {
    one_axis_methods! {
        /// The discrete Fourier transform, `Σ z[t] e^(-2πi kt/n)`, as `numpy.fft.fft` and `torch.fft.fft`.
        fft fft_with -> Complex, false |z, along| along.all(z.clone(), false);
        /// The inverse of [`fft`](Complex::fft), as `numpy.fft.ifft` and `torch.fft.ifft`.
        ifft ifft_with -> Complex, false |z, along| along.all(z.clone(), true);
        /// The inverse of [`Tensor::rfft`], as `numpy.fft.irfft` and `torch.fft.irfft`. `m` numbers give `2(m - 1)`
        /// real ones, or as many as `sizes` says, which is required for an odd number.
        irfft irfft_with -> Tensor, true |z, along| along.real(z.clone());
        /// The discrete Fourier transform of a Hermitian-symmetric signal, given by its first half, as `numpy.fft.hfft`
        /// and `torch.fft.hfft`. The result is real. `m` numbers give `2(m - 1)` results, or as many as `sizes` says.
        hfft hfft_with -> Tensor, true |z, along| TransformAxes { norm: along.norm.other(), ..along }.real(z.conj());
    }

    several_axes_methods! {
        /// The discrete Fourier transform along several axes, as `numpy.fft.fftn` and `torch.fft.fftn`.
        fftn fftn_with fft2 fft2_with -> Complex, false |z, along| along.all(z.clone(), false);
        /// The inverse of [`fftn`](Complex::fftn), as `numpy.fft.ifftn` and `torch.fft.ifftn`.
        ifftn ifftn_with ifft2 ifft2_with -> Complex, false |z, along| along.all(z.clone(), true);
        /// The inverse of [`Tensor::rfftn`], as `numpy.fft.irfftn` and `torch.fft.irfftn`: the last of the axes is the
        /// half, as for [`irfft`](Complex::irfft).
        irfftn irfftn_with irfft2 irfft2_with -> Tensor, true |z, along| along.real(z.clone());
    }
}
