//! Statistics beyond a single reduction: several at once, and of pairs of variables.

use crate::record::{check_alike, check_float, widened};
use crate::{Axes, Shape, Tensor};

/// # Reductions: statistics
impl Tensor {
    /// The variance (as [`var_with`](Tensor::var_with)) and the mean over the axes, as `torch.var_mean`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (var, mean) = Tensor::new([1.0f32, 3.0]).var_mean(.., 0.0);
    /// assert_eq!((var.item::<f32>()?, mean.item::<f32>()?), (1.0, 2.0));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn var_mean(&self, axes: impl Into<Axes>, correction: f64) -> (Tensor, Tensor) {
        let axes = axes.into();
        (self.var_with(axes, correction), self.mean(axes))
    }

    /// The standard deviation and the mean over the axes, as `torch.std_mean`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (std, mean) = Tensor::new([1.0f32, 5.0]).std_mean(.., 0.0);
    /// assert_eq!((std.item::<f32>()?, mean.item::<f32>()?), (2.0, 3.0));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn std_mean(&self, axes: impl Into<Axes>, correction: f64) -> (Tensor, Tensor) {
        let axes = axes.into();
        (self.std_with(axes, correction), self.mean(axes))
    }

    /// The minimum and the maximum over the axes, as `torch.aminmax`; both NaN if any is NaN.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (low, high) = Tensor::new([4i32, 1, 3]).aminmax(..);
    /// assert_eq!((low.item::<i32>()?, high.item::<i32>()?), (1, 4));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On bool, when an axis does not exist, or when there is nothing along one.
    #[track_caller]
    pub fn aminmax(&self, axes: impl Into<Axes>) -> (Tensor, Tensor) {
        let axes = axes.into();
        (self.amin(axes), self.amax(axes))
    }

    /// The maximum minus the minimum over the axes, as `numpy.ptp`; of integers it wraps.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([4i32, 1, 3]).ptp(..).item::<i32>()?, 3);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On bool, when an axis does not exist, or when there is nothing along one.
    #[track_caller]
    pub fn ptp(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.amax(axes) - self.amin(axes)
    }

    /// The weighted mean over the axes, as `numpy.average`; the weights broadcast. NaN if they add up to 0.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 5.0]).average(&Tensor::new([3.0f32, 1.0]), ..).item::<f32>()?, 2.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, when an axis does not exist, dtypes differ, or the weights do not broadcast to this
    /// shape.
    #[track_caller]
    pub fn average(&self, weights: &Tensor, axes: impl Into<Axes>) -> Tensor {
        check_float("average", self);
        check_alike("average", self, weights);
        let axes = axes.into();
        if weights.shape().broadcast(self.shape()) != Some(*self.shape()) {
            panic!("average: weights of shape {} do not broadcast to shape {}", weights.shape(), self.shape());
        }
        let (x, w) = (widened(self), widened(weights).broadcast_to(*self.shape()));
        ((x * &w).sum(axes) / w.sum(axes)).cast(self.dtype())
    }

    /// The covariance matrix of the rows, as `numpy.cov` and `torch.cov`: each row is a variable, the last axis has its
    /// observations, and sums of products are divided by the count less 1. A vector is one variable and gives its
    /// variance. Leading dimensions are batches.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1.0f32, 2.0, 3.0], [3.0, 2.0, 1.0]]).cov().to_vec::<f32>()?, [1.0, -1.0, -1.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or on rank 0.
    #[track_caller]
    pub fn cov(&self) -> Tensor {
        self.cov_with(1.0)
    }

    /// [`cov`](Tensor::cov) with the sums divided by the count less `correction`.
    ///
    /// # Panics
    /// On a dtype that is not a float, or on rank 0.
    #[track_caller]
    pub fn cov_with(&self, correction: f64) -> Tensor {
        self.covariance("cov", correction).cast(self.dtype())
    }

    /// The correlation matrix of the rows, as `numpy.corrcoef` and `torch.corrcoef`, clamped to [-1, 1]; NaN for a
    /// variable that does not vary.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1.0f32, 2.0], [2.0, 1.0]]);
    /// assert!(x.corrcoef().allclose(Tensor::new([[1.0f32, -1.0], [-1.0, 1.0]]), 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or on rank 0.
    #[track_caller]
    pub fn corrcoef(&self) -> Tensor {
        let c = self.covariance("corrcoef", 1.0);
        if c.rank() == 0 {
            let own = |c: &Tensor| c.gt(0.0).where_(c.ones_like(), f64::NAN);
            return crate::powers::constant(&c, own).cast(self.dtype());
        }
        let spread = c.diagonal(0).sqrt();
        let scaled = c / spread.unsqueeze(-1) / spread.unsqueeze(-2);
        scaled.clamp(-1.0, 1.0).cast(self.dtype())
    }

    #[track_caller]
    fn covariance(&self, name: &str, correction: f64) -> Tensor {
        check_float(name, self);
        assert!(self.rank() > 0, "{name}: takes observations along an axis, not shape {}", self.shape());
        let x = widened(self);
        let n = (self.dims()[self.rank() - 1] as f64 - correction).max(0.0);
        let centred = &x - x.mean_keepdim(-1);
        if self.rank() == 1 {
            return (centred.square().sum(..) / n).reshaped(Shape::SCALAR);
        }
        centred.matmul(&centred.t()) / n
    }
}
