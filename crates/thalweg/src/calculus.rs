//! Differences, slopes, integrals and interpolation of sampled functions.

use crate::record::{check_alike, check_float, widened};
use crate::{Axis, DType, Tensor};

/// # Sampled functions
///
/// Differences, derivatives, integrals and interpolation of functions given by samples.
impl Tensor {
    /// Differences of neighbours along an axis, taken `n` times, as `numpy.diff` and `torch.diff`; each time one
    /// element fewer. Of bool: whether neighbours differ. Integers wrap.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 4, 9]).diff(1, 0).to_vec::<i32>()?, [3, 5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such axis.
    #[track_caller]
    pub fn diff(&self, n: usize, axis: impl Into<Axis>) -> Tensor {
        let axis = axis.into().of("diff", self.rank());
        let mut x = self.clone();
        for _ in 0..n {
            let count = x.dims()[axis].saturating_sub(1);
            let start = (x.dims()[axis] - count) as i64;
            let (next, this) = (x.part(axis, (start, 1, count)), x.part(axis, (0, 1, count)));
            x = if self.dtype() == DType::Bool { next.xor(this) } else { next - this };
        }
        x
    }

    /// The derivative along an axis of samples at distance `spacing`, as `numpy.gradient`: central differences,
    /// one-sided at both ends. [`gradient_at`](Tensor::gradient_at) takes positions. For derivatives of recorded
    /// operations see [`backward`](Tensor::backward).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let y = Tensor::new([0.0f32, 1.0, 4.0, 9.0]);
    /// assert_eq!(y.gradient(1.0, 0).to_vec::<f32>()?, [1.0, 2.0, 4.0, 5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when there is no such axis or it has fewer than two elements.
    #[track_caller]
    pub fn gradient(&self, spacing: f64, axis: impl Into<Axis>) -> Tensor {
        let (axis, n) = self.samples("gradient", axis.into(), 2);
        let x = widened(self);
        let part = |start: usize, count: usize| x.part(axis, (start as i64, 1, count));
        let first = (part(1, 1) - part(0, 1)) / spacing;
        let last = (part(n - 1, 1) - part(n - 2, 1)) / spacing;
        let inner = (part(2, n - 2) - part(0, n - 2)) / (2.0 * spacing);
        Tensor::cat(&[first, inner, last], axis).cast(self.dtype())
    }

    /// The derivative along an axis of samples at the given positions (a vector), as `numpy.gradient` with coordinates:
    /// of the parabola through three neighbours, at both ends of the line through two.
    ///
    /// # Panics
    /// As [`gradient`](Tensor::gradient), or when the positions differ in number or dtype from the samples.
    #[track_caller]
    pub fn gradient_at(&self, positions: &Tensor, axis: impl Into<Axis>) -> Tensor {
        let (axis, n) = self.samples("gradient_at", axis.into(), 2);
        let at = self.broadcast_positions("gradient_at", positions, axis);
        let x = widened(self);
        let part = |t: &Tensor, start: usize, count: usize| t.part(axis, (start as i64, 1, count));
        let step = at.diff(1, axis);
        let first = (part(&x, 1, 1) - part(&x, 0, 1)) / part(&step, 0, 1);
        let last = (part(&x, n - 1, 1) - part(&x, n - 2, 1)) / part(&step, n - 2, 1);
        let (before, behind) = (part(&step, 0, n - 2), part(&step, 1, n - 2));
        let both = &before + &behind;
        let a = -&behind / (&before * &both);
        let b = (&behind - &before) / (&before * &behind);
        let c = &before / (behind * both);
        let inner = a * part(&x, 0, n - 2) + b * part(&x, 1, n - 2) + c * part(&x, 2, n - 2);
        Tensor::cat(&[first, inner, last], axis).cast(self.dtype())
    }

    /// The integral along an axis by the trapezoidal rule, with samples at distance `dx`, as `numpy.trapezoid` and
    /// `torch.trapezoid`; 0 for fewer than two samples.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0.0f32, 1.0, 2.0]).trapezoid(0.5, 0).item::<f32>()?, 1.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when there is no such axis.
    #[doc(alias = "trapz")]
    #[track_caller]
    pub fn trapezoid(&self, dx: f64, axis: impl Into<Axis>) -> Tensor {
        let (axis, _) = self.samples("trapezoid", axis.into(), 0);
        (self.trapezoids(axis) * dx).sum(axis).cast(self.dtype())
    }

    /// [`trapezoid`](Tensor::trapezoid) with samples at the given positions (a vector).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0.0f32, 2.0]).trapezoid_at(&Tensor::new([0.0f32, 3.0]), 0).item::<f32>()?, 3.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, when there is no such axis, or the positions differ in number or dtype from the
    /// samples.
    #[track_caller]
    pub fn trapezoid_at(&self, positions: &Tensor, axis: impl Into<Axis>) -> Tensor {
        let (axis, _) = self.samples("trapezoid_at", axis.into(), 0);
        let at = self.broadcast_positions("trapezoid_at", positions, axis);
        (self.trapezoids(axis) * at.diff(1, axis)).sum(axis).cast(self.dtype())
    }

    /// The running integral along an axis by the trapezoidal rule, with samples at distance `dx`, from the first sample
    /// to each of the others; one element fewer. As `torch.cumulative_trapezoid` and
    /// `scipy.integrate.cumulative_trapezoid`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0.0f32, 2.0, 4.0]).cumulative_trapezoid(1.0, 0).to_vec::<f32>()?, [1.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when there is no such axis.
    #[track_caller]
    pub fn cumulative_trapezoid(&self, dx: f64, axis: impl Into<Axis>) -> Tensor {
        let (axis, _) = self.samples("cumulative_trapezoid", axis.into(), 0);
        (self.trapezoids(axis) * dx).cumsum(axis).cast(self.dtype())
    }

    /// Piecewise linear interpolation of the points `(xp, fp)` at the elements, as `numpy.interp`. `xp` is ascending;
    /// beyond the first and the last point the result is their value; NaN at NaN. The gradient flows to `self` and to
    /// `fp`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let (xp, fp) = (Tensor::new([0.0f32, 1.0, 3.0]), Tensor::new([0.0f32, 10.0, 30.0]));
    /// let x = Tensor::new([-1.0f32, 0.5, 2.0, 9.0]);
    /// assert_eq!(x.interp(&xp, &fp).to_vec::<f32>()?, [0.0, 5.0, 20.0, 30.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when `xp` and `fp` are not two vectors of one length, have no elements, or
    /// have another dtype.
    #[track_caller]
    pub fn interp(&self, xp: &Tensor, fp: &Tensor) -> Tensor {
        check_float("interp", self);
        check_alike("interp", self, xp);
        check_alike("interp", self, fp);
        if xp.rank() != 1 || xp.shape() != fp.shape() || xp.numel() == 0 {
            panic!("interp: points at shape {} with values of shape {}", xp.shape(), fp.shape());
        }
        let n = xp.numel() as i64;
        let x = self.flatten();
        let right = xp.searchsorted(&x.detach(), true).clamp(1, (n - 1).max(1));
        let left = &right - 1;
        let right = right.minimum(n - 1);
        let (x, xp, fp) = (widened(&x), widened(xp), widened(fp));
        let (x0, x1) = (xp.gathered("interp", 0, &left), xp.gathered("interp", 0, &right));
        let (f0, f1) = (fp.gathered("interp", 0, &left), fp.gathered("interp", 0, &right));
        // `x` is clamped to the segment, so that positions beyond the points get the values of the ends.
        let at = x.clamp(&x0, &x1);
        let width = &x1 - &x0;
        let flat = width.eq(0.0);
        let t = (at - x0) / flat.where_(1.0, width);
        let y = t.eq(1.0).where_(&f1, &f0 + t * (&f1 - &f0));
        y.cast(self.dtype()).reshaped(*self.shape())
    }

    /// Checks for floats and at least `least` samples along an axis; returns the axis and the number of samples.
    #[track_caller]
    fn samples(&self, name: &str, axis: Axis, least: usize) -> (usize, usize) {
        check_float(name, self);
        let axis = axis.of(name, self.rank());
        let n = self.dims()[axis];
        assert!(n >= least, "{name}: takes at least {least} elements along axis {axis}, not shape {}", self.shape());
        (axis, n)
    }

    /// Positions of samples, reshaped to broadcast against the samples along `axis`.
    #[track_caller]
    fn broadcast_positions(&self, name: &str, positions: &Tensor, axis: usize) -> Tensor {
        check_alike(name, self, positions);
        if positions.rank() != 1 || positions.numel() != self.dims()[axis] {
            panic!("{name}: positions of shape {} for axis {axis} of {}", positions.shape(), self.shape());
        }
        let mut shape = vec![1; self.rank()];
        shape[axis] = positions.numel();
        widened(positions).reshape(shape)
    }

    /// Mean of every two neighbours along an axis.
    fn trapezoids(&self, axis: usize) -> Tensor {
        let x = widened(self);
        let count = x.dims()[axis].saturating_sub(1);
        let start = (x.dims()[axis] - count) as i64;
        (x.part(axis, (start, 1, count)) + x.part(axis, (0, 1, count))) * 0.5
    }
}
