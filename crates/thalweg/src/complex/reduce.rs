//! Reductions and running sums and products of complex numbers.

use super::Complex;
use crate::reduce::flat_at_zero;
use crate::{Axes, Axis, Tensor};

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $keepdim:ident |$z:ident, $axes:ident| $dropped:expr, $kept:expr => $out:ty;)*) => {
        impl Complex {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// When an axis does not exist.
            #[track_caller]
            pub fn $name(&self, axes: impl Into<Axes>) -> $out {
                let ($z, $axes) = (self, axes.into());
                $dropped
            }
            #[doc = concat!("[`", stringify!($name), "`](Complex::", stringify!($name), ") with the reduced axes kept as size 1, as `keepdims=True`.")]
            ///
            /// ```
            /// # use thalweg::Complex;
            #[doc = concat!("assert_eq!(Complex::ones([2, 3]).", stringify!($keepdim), "(1).dims(), [2, 1]);")]
            /// ```
            ///
            /// # Panics
            /// When an axis does not exist.
            #[track_caller]
            pub fn $keepdim(&self, axes: impl Into<Axes>) -> $out {
                let ($z, $axes) = (self, axes.into());
                $kept
            }
        )*}
    };
}

reductions! {
    /// The sums over axes, as `numpy.sum`; 0 over no elements.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, -5.0)], [2]);
    /// assert_eq!(z.sum(..).to_string(), "4.-3.j");
    /// ```
    sum sum_keepdim |z, axes|
        Complex { re: z.re.sum(axes), im: z.im.sum(axes) },
        Complex { re: z.re.sum_keepdim(axes), im: z.im.sum_keepdim(axes) } => Complex;
    /// The means over axes, as `numpy.mean`; NaN over no elements.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, -5.0)], [2]);
    /// assert_eq!(z.mean(0).to_string(), "2.-1.5j");
    /// ```
    mean mean_keepdim |z, axes|
        Complex { re: z.re.mean(axes), im: z.im.mean(axes) },
        Complex { re: z.re.mean_keepdim(axes), im: z.im.mean_keepdim(axes) } => Complex;
    /// The variances over axes, as `numpy.var`: the mean of `|z - mean|²`, which is real.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.var(0).item::<f64>()?, 2.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    var var_keepdim |z, axes| z.re.var(axes) + z.im.var(axes), z.re.var_keepdim(axes) + z.im.var_keepdim(axes) => Tensor;
    /// The standard deviations over axes, as `numpy.std`: the square roots of [`var`](Complex::var).
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (9.0, 8.0)], [2]);
    /// assert_eq!(z.std(0).item::<f64>()?, 5.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    std std_keepdim |z, axes| flat_at_zero(&z.var(axes), Tensor::sqrt), flat_at_zero(&z.var_keepdim(axes), Tensor::sqrt) => Tensor;
    /// The Euclidean norms over axes, `√Σ|z|²`, as `numpy.linalg.norm` of vectors and `torch.linalg.vector_norm`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 1.0), (1.0, -1.0)], [2]);
    /// assert_eq!(z.norm(..).item::<f64>()?, 2.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    norm norm_keepdim |z, axes|
        flat_at_zero(&z.wide().abs_square().sum(axes), Tensor::sqrt).cast(z.dtype()),
        flat_at_zero(&z.wide().abs_square().sum_keepdim(axes), Tensor::sqrt).cast(z.dtype()) => Tensor;
    /// The number of elements over axes that are not 0, as i64, as `numpy.count_nonzero`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(0.0, 0.0), (0.0, 1.0)], [2]);
    /// assert_eq!(z.count_nonzero(..).item::<i64>()?, 1);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    count_nonzero count_nonzero_keepdim |z, axes|
        (z.re.ne(0) | z.im.ne(0)).sum(axes), (z.re.ne(0) | z.im.ne(0)).sum_keepdim(axes) => Tensor;
}

impl Complex {
    /// The variances with the sum of squares divided by the count less `correction`, as `numpy.var(ddof=…)`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.var_with(0, 1.0).item::<f64>()?, 4.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When an axis does not exist.
    #[track_caller]
    pub fn var_with(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        let axes = axes.into();
        self.re.var_with(axes, correction) + self.im.var_with(axes, correction)
    }

    /// The products along an axis, as `numpy.prod`; 1 over no elements. The row is halved repeatedly, each time
    /// multiplying one half by the other.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(0.0, 1.0), (0.0, 1.0), (0.0, 1.0)], [3]);
    /// assert_eq!(z.prod(0).to_string(), "-0.-1.j");
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn prod(&self, axis: impl Into<Axis>) -> Complex {
        let axis = axis.into().of("prod", self.rank());
        let mut n = self.dims()[axis];
        if n == 0 {
            let re = self.re.prod(axis as i64);
            return Complex { im: re.zeros_like(), re };
        }
        let (mut z, mut odd) = (self.clone(), None::<Complex>);
        while n > 1 {
            let half = n / 2;
            if n % 2 == 1 {
                let last = z.narrow(axis, n - 1, 1);
                odd = Some(match odd {
                    None => last,
                    Some(odd) => odd * last,
                });
            }
            z = z.narrow(axis, 0, half) * z.narrow(axis, half, half);
            n = half;
        }
        let product = match odd {
            None => z,
            Some(odd) => z * odd,
        };
        product.squeeze(axis as i64)
    }

    /// The running sums along an axis, as `numpy.cumsum`; accumulated as [`Tensor::cumsum`] does.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(1.0, 2.0), (3.0, 4.0)], [2]);
    /// assert_eq!(z.cumsum(0).to_string(), "[1.+2.j 4.+6.j]");
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn cumsum(&self, axis: impl Into<Axis>) -> Complex {
        let axis = axis.into();
        Complex { re: self.re.cumsum(axis), im: self.im.cumsum(axis) }
    }

    /// The running products along an axis, as `numpy.cumprod`. Each element is multiplied by the one 1, 2, 4 … before
    /// it, so `n` elements take `n·log₂ n` products.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// let z = Complex::from_pairs(&[(0.0, 1.0), (0.0, 1.0), (0.0, 1.0)], [3]);
    /// assert_eq!(z.cumprod(0).to_string(), "[ 0.+1.j -1.+0.j -0.-1.j]");
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn cumprod(&self, axis: impl Into<Axis>) -> Complex {
        let axis = axis.into().of("cumprod", self.rank());
        let n = self.dims()[axis];
        let mut z = self.clone();
        let mut step = 1;
        while step < n {
            let later = z.narrow(axis, step, n - step) * z.narrow(axis, 0, n - step);
            let first = z.narrow(axis, 0, step);
            z = Complex { re: Tensor::cat(&[first.re, later.re], axis), im: Tensor::cat(&[first.im, later.im], axis) };
            step *= 2;
        }
        z
    }
}
