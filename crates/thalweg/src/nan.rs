//! Reductions that ignore NaN, as NumPy's `nansum` and the like. On integers and bool they equal the plain reductions,
//! since those dtypes have no NaN.

use crate::record::{check_float, widened};
use crate::{Axes, Tensor};

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $keepdim:ident |$x:ident, $axes:ident| $body:expr, $panics:literal;)*) => {
        /// # Reductions that ignore NaN
        ///
        /// On integers and bool they equal the plain reductions.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = $panics]
            #[track_caller]
            pub fn $name(&self, axes: impl Into<Axes>) -> Tensor {
                let axes = axes.into();
                let shape = self.without(stringify!($name), axes);
                let ($x, $axes) = (self, axes);
                let kept: Tensor = $body;
                kept.reshaped(shape)
            }
            #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), ") with the reduced axes kept as size 1.")]
            ///
            /// # Panics
            #[doc = $panics]
            #[track_caller]
            pub fn $keepdim(&self, axes: impl Into<Axes>) -> Tensor {
                let axes = axes.into();
                let _ = self.without(stringify!($keepdim), axes);
                let ($x, $axes) = (self, axes);
                $body
            }
        )*}
    };
}

reductions! {
    /// The sum over the axes without NaN, as `numpy.nansum`; 0 if all are NaN.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::NAN]).nansum(..).item::<f32>()?, 1.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    nansum nansum_keepdim |x, axes| x.known(0).sum_keepdim(axes), "When an axis does not exist.";
    /// The product over the axes without NaN, as `numpy.nanprod`; 1 if all are NaN.
    nanprod nanprod_keepdim |x, axes| x.known(1).prod_keepdim(axes), "When an axis does not exist.";
    /// The mean over the axes without NaN, as `numpy.nanmean`; NaN if all are NaN.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::NAN, 3.0]).nanmean(..).item::<f32>()?, 2.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    nanmean nanmean_keepdim |x, axes| x.nanmean_of("nanmean", axes),
        "On a dtype that is not a float, or when an axis does not exist.";
    /// The variance over the axes without NaN: the mean of `(x - mean)²`, as `numpy.nanvar`; NaN if all are NaN.
    /// [`nanvar_with`](Tensor::nanvar_with) has another divisor.
    nanvar nanvar_keepdim |x, axes| x.nanvar_of("nanvar", axes, 0.0).cast(x.dtype()),
        "On a dtype that is not a float, or when an axis does not exist.";
    /// The standard deviation over the axes without NaN: the square root of [`nanvar`](Tensor::nanvar).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::NAN, 5.0]).nanstd(..).item::<f32>()?, 2.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    nanstd nanstd_keepdim |x, axes| crate::reduce::flat_at_zero(&x.nanvar_of("nanstd", axes, 0.0), Tensor::sqrt).cast(x.dtype()),
        "On a dtype that is not a float, or when an axis does not exist.";
    /// The maximum over the axes without NaN, as `numpy.nanmax`; NaN if all are NaN.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::NAN, 3.0]).nanmax(..).item::<f32>()?, 3.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    nanmax nanmax_keepdim |x, axes| x.extreme(axes, true),
        "On bool, when an axis does not exist, or when there is nothing along one.";
    /// The minimum over the axes without NaN, as `numpy.nanmin`; NaN if all are NaN.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::NAN, 3.0]).nanmin(..).item::<f32>()?, 1.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    nanmin nanmin_keepdim |x, axes| x.extreme(axes, false),
        "On bool, when an axis does not exist, or when there is nothing along one.";
}

/// # Reductions that ignore NaN: variances and indices
impl Tensor {
    /// The variance over the axes without NaN: the sum of squared deviations divided by the number of elements that are
    /// not NaN less `correction`, as `numpy.nanvar(ddof=correction)`.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn nanvar_with(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        let axes = axes.into();
        let shape = self.without("nanvar", axes);
        self.nanvar_of("nanvar", axes, correction).cast(self.dtype()).reshaped(shape)
    }

    /// Index of the first maximum along one axis, or in the flattened tensor for `..`, without NaN, as
    /// `numpy.nanargmax`; the first index if all are NaN (where NumPy raises an error).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::NAN, 3.0]).nanargmax(..).item::<i64>()?, 2);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`argmax`](Tensor::argmax).
    #[track_caller]
    pub fn nanargmax(&self, axes: impl Into<Axes>) -> Tensor {
        self.known(f64::NEG_INFINITY).argmax(axes)
    }

    /// Index of the first minimum along one axis, or in the flattened tensor for `..`, without NaN, as
    /// `numpy.nanargmin`; the first index if all are NaN (where NumPy raises an error).
    ///
    /// # Panics
    /// As [`argmin`](Tensor::argmin).
    #[track_caller]
    pub fn nanargmin(&self, axes: impl Into<Axes>) -> Tensor {
        self.known(f64::INFINITY).argmin(axes)
    }

    /// Elements of the tensor, with NaN replaced by a number.
    fn known(&self, instead: impl Into<crate::Scalar>) -> Tensor {
        if self.dtype().is_float() { self.is_nan().where_(instead.into(), self) } else { self.clone() }
    }

    /// The number of elements that are not NaN, in the dtype of `self`.
    #[track_caller]
    fn known_count(&self, axes: Axes) -> Tensor {
        (!self.is_nan()).cast(self.dtype()).sum_keepdim(axes)
    }

    #[track_caller]
    fn nanmean_of(&self, name: &str, axes: Axes) -> Tensor {
        check_float(name, self);
        let x = widened(self);
        (x.known(0).sum_keepdim(axes) / x.known_count(axes)).cast(self.dtype())
    }

    /// The variance in the dtype of computation (f32 for bf16 and f16).
    #[track_caller]
    fn nanvar_of(&self, name: &str, axes: Axes, correction: f64) -> Tensor {
        check_float(name, self);
        let x = widened(self);
        let count = x.known_count(axes);
        let mean = x.known(0).sum_keepdim(axes) / &count;
        (&x - mean).known(0).square().sum_keepdim(axes) / (count - correction).maximum(0.0)
    }

    #[track_caller]
    fn extreme(&self, axes: Axes, largest: bool) -> Tensor {
        let none = if largest { f64::NEG_INFINITY } else { f64::INFINITY };
        let x = self.known(none);
        let best = if largest { x.amax_keepdim(axes) } else { x.amin_keepdim(axes) };
        if self.dtype().is_float() { self.is_nan().all_keepdim(axes).where_(f64::NAN, best) } else { best }
    }

    /// The shape without some axes.
    #[track_caller]
    pub(crate) fn without(&self, name: &str, axes: Axes) -> crate::Shape {
        let mask = axes.mask(name, self.rank());
        let dims: Vec<usize> = (0..self.rank()).filter(|i| mask >> i & 1 == 0).map(|i| self.dims()[i]).collect();
        crate::Shape::new(&dims)
    }
}
