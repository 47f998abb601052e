//! Frequencies of the results of Fourier transforms, and their order.

use crate::{Axes, DType, Options, Tensor};

/// # Frequencies
///
/// Sample frequencies of discrete Fourier transforms; the transforms need the feature `fft`.
impl Tensor {
    /// The frequencies of a discrete Fourier transform of `n` samples at distance `spacing`, in the order of its
    /// results, as `numpy.fft.fftfreq`: 0 and the positive ones, then the negative ones. As f32.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::fftfreq(4, 1.0).to_vec::<f32>()?, [0.0, 0.25, -0.5, -0.25]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the spacing is 0.
    #[track_caller]
    pub fn fftfreq(n: usize, spacing: f64) -> Tensor {
        assert!(spacing != 0.0, "fftfreq: samples lie 0 apart");
        let i = Tensor::arange_with(n, (DType::F64, Options::default().device));
        let half = n.div_ceil(2) as f64;
        let signed = i.lt(half).where_(&i, &i - n as f64);
        (signed / (n as f64 * spacing)).cast(DType::F32)
    }

    /// The frequencies of a transform of real samples, as `numpy.fft.rfftfreq`: 0 and the positive ones. As f32.
    ///
    /// # Panics
    /// When the spacing is 0.
    #[track_caller]
    pub fn rfftfreq(n: usize, spacing: f64) -> Tensor {
        assert!(spacing != 0.0, "rfftfreq: samples lie 0 apart");
        let i = Tensor::arange_with(n / 2 + 1, (DType::F64, Options::default().device));
        (i / (n as f64 * spacing)).cast(DType::F32)
    }

    /// This tensor with frequency 0 moved to the middle of the axes, as `numpy.fft.fftshift`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::fftfreq(4, 0.25).fftshift(..).to_vec::<f32>()?, [-2.0, -1.0, 0.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When an axis does not exist.
    #[track_caller]
    pub fn fftshift(&self, axes: impl Into<Axes>) -> Tensor {
        let (list, count) = axes.into().of("fftshift", self.rank());
        list[..count].iter().fold(self.clone(), |x, &axis| x.roll(self.dims()[axis] as i64 / 2, axis))
    }

    /// The inverse of [`fftshift`](Tensor::fftshift), as `numpy.fft.ifftshift`.
    ///
    /// # Panics
    /// When an axis does not exist.
    #[track_caller]
    pub fn ifftshift(&self, axes: impl Into<Axes>) -> Tensor {
        let (list, count) = axes.into().of("ifftshift", self.rank());
        list[..count].iter().fold(self.clone(), |x, &axis| x.roll(-(self.dims()[axis] as i64 / 2), axis))
    }
}
