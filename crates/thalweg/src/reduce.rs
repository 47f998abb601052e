//! Reductions over one axis, several, or all (`..`), with the axes dropped or kept as size 1.

use crate::record::{check_float, record1, widened, wrong_dtype};
use crate::{Axes, DType, Shape, Tensor};
use thalweg_ir::{Monoid, Op, ReduceOp};

/// Attribute bit: reduced axes stay as size 1.
const KEEP: u32 = 1 << 8;

impl Tensor {
    /// Records a reduction whose dtype was checked.
    #[track_caller]
    fn reduced(&self, op: ReduceOp, dtype: DType, mask: u32, keep: bool) -> Tensor {
        let mut sizes = [0; crate::MAX_RANK];
        let mut rank = 0;
        for (i, &d) in self.dims().iter().enumerate() {
            let gone = mask >> i & 1 == 1;
            if !gone || keep {
                sizes[rank] = if gone { 1 } else { d };
                rank += 1;
            }
        }
        let shape = Shape::new(&sizes[..rank]);
        if self.rank() > 1
            && let Some((x, left)) = self.window_reduced(op, mask)
        {
            let x = if left == 0 { x } else { x.reduced(op, dtype, left, false) };
            return x.reshaped(shape);
        }
        let attr = mask | if keep { KEEP } else { 0 };
        record1(Op::Reduce(op), dtype, shape, attr, self, &[])
    }

    #[track_caller]
    fn reduce_numbers(&self, op: ReduceOp, axes: Axes, keep: bool) -> Tensor {
        if self.dtype() == DType::Bool {
            wrong_dtype(op.name(), "a float or integer dtype", self.dtype());
        }
        let mask = axes.mask(op.name(), self.rank());
        if matches!(op, ReduceOp::Max | ReduceOp::Min) {
            self.check_not_empty(op.name(), mask);
        }
        if mask == 0 {
            return self.clone();
        }
        self.reduced(op, self.dtype(), mask, keep)
    }

    /// Records a sum or a product. Those of integers and bool are in i64 (of u64 in u64), because a count may not fit a
    /// narrow dtype.
    #[track_caller]
    fn accumulate(&self, op: ReduceOp, axes: Axes, keep: bool) -> Tensor {
        let wide = if self.dtype().is_float() { self.clone() } else { self.cast(Monoid::widest(self.dtype())) };
        wide.reduce_numbers(op, axes, keep)
    }

    #[track_caller]
    fn reduce_bools(&self, op: ReduceOp, axes: Axes, keep: bool) -> Tensor {
        if self.dtype() != DType::Bool {
            wrong_dtype(op.name(), "bool", self.dtype());
        }
        let mask = axes.mask(op.name(), self.rank());
        if mask == 0 {
            return self.clone();
        }
        self.reduced(op, DType::Bool, mask, keep)
    }

    /// Records the index of the maximum or minimum along one axis, or in the flattened tensor for `..`.
    #[track_caller]
    fn reduce_to_index(&self, op: ReduceOp, axes: Axes, keep: bool) -> Tensor {
        let name = op.name();
        if self.dtype() == DType::Bool {
            wrong_dtype(name, "a float or integer dtype", self.dtype());
        }
        if axes.is_all() {
            self.check_not_empty(name, Axes::from(..).mask(name, self.rank()));
            let index = self.flatten().reduced(op, DType::I64, 1, false);
            return if keep { index.reshape(vec![1usize; self.rank()]) } else { index };
        }
        let (list, count) = axes.of(name, self.rank());
        assert!(count == 1, "{name}: takes one axis or all (..), not {count}");
        self.check_not_empty(name, 1 << list[0]);
        self.reduced(op, DType::I64, 1 << list[0], keep)
    }

    #[track_caller]
    fn check_not_empty(&self, name: &str, mask: u32) {
        let empty = self.dims().iter().enumerate().any(|(i, &d)| mask >> i & 1 == 1 && d == 0);
        if empty {
            panic!("{name}: nothing to reduce in shape {}, and no value stands for nothing", self.shape());
        }
    }

    /// Number of elements that are reduced to one.
    #[track_caller]
    fn reduced_count(&self, name: &str, axes: Axes) -> usize {
        let mask = axes.mask(name, self.rank());
        self.dims().iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, &d)| d).product()
    }
}

/// A root of a non-negative value with the derivative 0 at 0 instead of infinity, as the gradient of a norm there. The
/// root itself must get another argument there: a select alone would propagate 0 times infinity. (NaN is not at most
/// 0.)
pub(crate) fn flat_at_zero(x: &Tensor, root: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    if !x.is_tracked() {
        return root(x);
    }
    let none = x.le(0.0);
    none.where_(0.0, root(&none.where_(1.0, x)))
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $keepdim:ident => $method:ident $op:ident, $panics:literal;)*) => {
        /// # Reductions
        ///
        /// Over one axis, several, or all (`..`). The axes are dropped; `…_keepdim` keeps them as size 1, so that the
        /// result broadcasts against the tensor.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = $panics]
            #[track_caller]
            pub fn $name(&self, axes: impl Into<Axes>) -> Tensor {
                self.$method(ReduceOp::$op, axes.into(), false)
            }
            #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), ") with the reduced axes kept as size 1, so that the result broadcasts against `self`.")]
            ///
            /// # Panics
            #[doc = $panics]
            #[track_caller]
            pub fn $keepdim(&self, axes: impl Into<Axes>) -> Tensor {
                self.$method(ReduceOp::$op, axes.into(), true)
            }
        )*}
    };
}

reductions! {
    /// The sum over the axes (`x.sum(1)`, `x.sum([0, -1])`, `x.sum(..)`); 0 over no elements. Integers and bool give
    /// i64 (u64 gives u64), which wraps.
    ///
    /// See also [`sum_keepdim`](Tensor::sum_keepdim), which keeps the axes as size 1, [`sum_to`](Tensor::sum_to) (to a
    /// shape) and [`cumsum`](Tensor::cumsum) (running).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.sum(0).to_vec::<f32>()?, [4.0, 6.0]);
    /// assert_eq!(x.sum(..).item::<f32>()?, 10.0);
    /// assert_eq!(x.sum_keepdim(1).dims(), [2, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sum sum_keepdim => accumulate Sum, "When an axis does not exist.";
    /// The product over the axes; 1 over no elements. Integers and bool give i64 (u64 gives u64), which wraps.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([2i32, 3, 4]).prod(..).item::<i64>()?, 24);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    prod prod_keepdim => accumulate Prod, "When an axis does not exist.";
    /// The maximum over the axes; NaN if any is NaN.
    ///
    /// The index is [`argmax`](Tensor::argmax), value and index [`topk`](Tensor::topk) with `k = 1`, the larger of two
    /// tensors [`maximum`](Tensor::maximum). [`max`](Tensor::max) is an alias.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1.0f32, 5.0], [4.0, 2.0]]);
    /// assert_eq!(x.amax(1).to_vec::<f32>()?, [5.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias = "max")]
    amax amax_keepdim => reduce_numbers Max, "On bool, when an axis does not exist, or when there is nothing along one.";
    /// The minimum over the axes; NaN if any is NaN.
    ///
    /// The index is [`argmin`](Tensor::argmin), the smaller of two tensors [`minimum`](Tensor::minimum).
    /// [`min`](Tensor::min) is an alias.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1.0f32, 5.0], [4.0, 2.0]]).amin(0).to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias = "min")]
    amin amin_keepdim => reduce_numbers Min, "On bool, when an axis does not exist, or when there is nothing along one.";
    /// Whether any element over the axes is true; false over no elements.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([1.0f32, f32::NAN]).is_nan().any(..).item::<bool>()?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    any any_keepdim => reduce_bools Any, "On another dtype than bool, or when an axis does not exist.";
    /// Whether all elements over the axes are true; true over no elements.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([1.0f32, 2.0]).gt(0.0).all(..).item::<bool>()?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    all all_keepdim => reduce_bools All, "On another dtype than bool, or when an axis does not exist.";
    /// Index of the first maximum along one axis, or in the flattened tensor for `..`, as i64. NaN counts as largest.
    ///
    /// See also [`amax`](Tensor::amax) for the value and [`argsort`](Tensor::argsort).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1.0f32, 5.0], [4.0, 2.0]]).argmax(1).to_vec::<i64>()?, [1, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    argmax argmax_keepdim => reduce_to_index ArgMax, "On bool, when the axis does not exist or has no elements, or with several axes.";
    /// Index of the first minimum along one axis, or in the flattened tensor for `..`, as i64. NaN counts as smallest.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([[1.0f32, 5.0], [4.0, 2.0]]).argmin(..).item::<i64>()?, 0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    argmin argmin_keepdim => reduce_to_index ArgMin, "On bool, when the axis does not exist or has no elements, or with several axes.";
}

/// # Reductions: counts and sums to a shape
///
/// Results of [`count_nonzero`](Tensor::count_nonzero) are i64.
impl Tensor {
    /// Number of elements over the axes that are not 0, as i64.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0i32, 3, 0, 4]).count_nonzero(..).item::<i64>()?, 2);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When an axis does not exist.
    #[track_caller]
    pub fn count_nonzero(&self, axes: impl Into<Axes>) -> Tensor {
        self.holds().sum(axes)
    }

    /// [`count_nonzero`](Tensor::count_nonzero) with the reduced axes kept as size 1.
    ///
    /// # Panics
    /// When an axis does not exist.
    #[track_caller]
    pub fn count_nonzero_keepdim(&self, axes: impl Into<Axes>) -> Tensor {
        self.holds().sum_keepdim(axes)
    }

    /// Sum over the dimensions along which a tensor of shape `shape` is repeated when it is broadcast to this one's
    /// shape: the gradient of a broadcast (`torch.Tensor.sum_to_size`).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::ones([4, 3]).sum_to([3]).to_vec::<f32>()?, [4.0, 4.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When a tensor of that shape does not broadcast to this one's, or the dtype is bool.
    #[track_caller]
    pub fn sum_to(&self, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        if *self.shape() == shape {
            return self.clone();
        }
        if shape.broadcast(self.shape()) != Some(*self.shape()) {
            panic!("sum_to: a tensor of shape {shape} does not broadcast to {}", self.shape());
        }
        let mask = shape.broadcast_mask(self.shape());
        let rank = self.rank();
        let axes: Vec<usize> = (0..rank).filter(|i| mask >> (rank - 1 - i) & 1 == 1).collect();
        self.sum(axes).reshaped(shape)
    }

    #[track_caller]
    fn sum_of_floats(&self, axes: Axes, keep: bool) -> Tensor {
        self.reduce_numbers(ReduceOp::Sum, axes, keep)
    }

    #[track_caller]
    fn mean_of(&self, axes: Axes, keep: bool) -> Tensor {
        check_float("mean", self);
        (widened(self).sum_of_floats(axes, keep) / self.reduced_count("mean", axes)).cast(self.dtype())
    }

    /// Variance in two passes: the mean, then the squared deviations. One pass cancels where the mean is large.
    #[track_caller]
    fn var_of(&self, name: &str, axes: Axes, correction: f64, keep: bool) -> Tensor {
        check_float(name, self);
        let count = self.reduced_count(name, axes) as f64;
        let x = widened(self);
        if let Some(squares) = x.window_squares(axes.mask(name, self.rank())) {
            let mut kept = *self.shape();
            let rank = squares.rank();
            (rank..self.rank()).for_each(|axis| kept.dims_mut()[axis] = 1);
            let squares = if keep { squares.reshaped(kept) } else { squares };
            return squares / (count - correction).max(0.0);
        }
        (&x - x.mean_of(axes, true)).square().sum_of_floats(axes, keep) / (count - correction).max(0.0)
    }

    #[track_caller]
    fn norm_of(&self, name: &str, p: f64, axes: Axes, keep: bool) -> Tensor {
        check_float(name, self);
        let x = widened(self);
        let norm = if p == f64::INFINITY {
            x.abs().reduce_numbers(ReduceOp::Max, axes, keep)
        } else if p == f64::NEG_INFINITY {
            x.abs().reduce_numbers(ReduceOp::Min, axes, keep)
        } else if p == 0.0 {
            x.ne(0).cast(x.dtype()).sum_of_floats(axes, keep)
        } else if p == 1.0 {
            x.abs().sum_of_floats(axes, keep)
        } else if p == 2.0 {
            flat_at_zero(&x.square().sum_of_floats(axes, keep), Tensor::sqrt)
        } else {
            let powers = match p < 1.0 {
                // The derivative of this power is infinite at 0.
                true => flat_at_zero(&x.abs(), |x| x.powf(p)),
                false => x.abs().powf(p),
            };
            flat_at_zero(&powers.sum_of_floats(axes, keep), |sum| sum.powf(1.0 / p))
        };
        norm.cast(self.dtype())
    }

    #[track_caller]
    fn logsumexp_of(&self, axes: Axes, keep: bool) -> Tensor {
        check_float("logsumexp", self);
        let x = widened(self);
        // Subtracted as a constant: the result does not depend on it, so it has no gradient.
        let largest = x.detach().reduce_numbers(ReduceOp::Max, axes, true);
        // An infinite maximum is itself the result, but ∞ - ∞ is NaN.
        let largest = largest.is_finite().where_(&largest, 0.0);
        let sum = (x - &largest).exp().sum_of_floats(axes, keep).log();
        let shape = *sum.shape();
        (sum + largest.reshaped(shape)).cast(self.dtype())
    }
}

macro_rules! statistics {
    ($($(#[$doc:meta])* $name:ident $keepdim:ident ($($arg:ident: $t:ty),*) |$x:ident, $axes:ident, $keep:ident| $body:expr, $panics:literal;)*) => {
        /// # Reductions: means, variances, norms
        ///
        /// They take floats; bf16 and f16 are computed in f32 and rounded once, at the end.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = $panics]
            #[track_caller]
            pub fn $name(&self, $($arg: $t,)* axes: impl Into<Axes>) -> Tensor {
                let ($x, $axes, $keep) = (self, axes.into(), false);
                $body
            }
            #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), ") with the reduced axes kept as size 1.")]
            ///
            /// # Panics
            #[doc = $panics]
            #[track_caller]
            pub fn $keepdim(&self, $($arg: $t,)* axes: impl Into<Axes>) -> Tensor {
                let ($x, $axes, $keep) = (self, axes.into(), true);
                $body
            }
        )*}
    };
}

statistics! {
    /// The mean over the axes; NaN over no elements.
    ///
    /// See also [`average`](Tensor::average) with weights and [`nanmean`](Tensor::nanmean).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.mean(0).to_vec::<f32>()?, [2.0, 3.0]);
    /// assert_eq!((&x - x.mean_keepdim(1)).to_vec::<f32>()?, [-0.5, 0.5, -0.5, 0.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    mean mean_keepdim() |x, axes, keep| x.mean_of(axes, keep),
        "On a dtype that is not a float (cast first), or when an axis does not exist.";
    /// The variance over the axes: the mean of `(x - mean)²`, as `numpy.var`. `torch.var` divides by the count less 1:
    /// use [`var_with`](Tensor::var_with).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 3.0]).var(..).item::<f32>()?, 1.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    var var_keepdim() |x, axes, keep| x.var_of("var", axes, 0.0, keep).cast(x.dtype()),
        "On a dtype that is not a float, or when an axis does not exist.";
    /// The standard deviation over the axes: the square root of [`var`](Tensor::var), as `numpy.std`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 5.0]).std(..).item::<f32>()?, 2.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    std std_keepdim() |x, axes, keep| flat_at_zero(&x.var_of("std", axes, 0.0, keep), Tensor::sqrt).cast(x.dtype()),
        "On a dtype that is not a float, or when an axis does not exist.";
    /// The Euclidean norm over the axes: `√Σx²`.
    ///
    /// See also [`norm_p`](Tensor::norm_p) and [`normalize`](Tensor::normalize), which divides by it.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([3.0f32, 4.0]).norm(..).item::<f32>()?, 5.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    norm norm_keepdim() |x, axes, keep| x.norm_of("norm", 2.0, axes, keep),
        "On a dtype that is not a float, or when an axis does not exist.";
    /// The p-norm over the axes: `(Σ|x|ᵖ)^(1/p)`; the largest magnitude for `p = ∞`, the smallest for -∞, the count
    /// of non-zeros for 0.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([3.0f32, -4.0]).norm_p(1.0, ..).item::<f32>()?, 7.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    norm_p norm_p_keepdim(p: f64) |x, axes, keep| x.norm_of("norm_p", p, axes, keep),
        "On a dtype that is not a float, when an axis does not exist, or for an infinite `p` has no elements.";
    /// `ln Σeˣ` over the axes, without overflow: the maximum is subtracted before `exp`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([1000.0f32, 1000.0]).logsumexp(..).allclose(1000.6931, 1e-6, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    logsumexp logsumexp_keepdim() |x, axes, keep| x.logsumexp_of(axes, keep),
        "On a dtype that is not a float, or when an axis does not exist or has no elements.";
}

/// # Reductions: aliases and other divisors
impl Tensor {
    /// Alias of [`amax`](Tensor::amax), as `numpy.max`. `torch.max` with an axis returns indices, too;
    /// [`topk`](Tensor::topk) with `k = 1` does so here. The larger of two tensors is [`maximum`](Tensor::maximum).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 5.0, 2.0]).max(..).item::<f32>()?, 5.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`amax`](Tensor::amax).
    #[track_caller]
    pub fn max(&self, axes: impl Into<Axes>) -> Tensor {
        self.amax(axes)
    }

    /// Alias of [`amin`](Tensor::amin), as `numpy.min`. The smaller of two tensors is [`minimum`](Tensor::minimum).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 5.0, 2.0]).min(..).item::<f32>()?, 1.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`amin`](Tensor::amin).
    #[track_caller]
    pub fn min(&self, axes: impl Into<Axes>) -> Tensor {
        self.amin(axes)
    }

    /// [`var_with`](Tensor::var_with) with the reduced axes kept as size 1.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn var_with_keepdim(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        self.var_of("var", axes.into(), correction, true).cast(self.dtype())
    }

    /// [`std_with`](Tensor::std_with) with the reduced axes kept as size 1.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn std_with_keepdim(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        flat_at_zero(&self.var_of("std", axes.into(), correction, true), Tensor::sqrt).cast(self.dtype())
    }

    /// The variance with the sum of squared deviations divided by the count less `correction`: 1 gives the unbiased
    /// estimate, PyTorch's default.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 3.0]).var_with(.., 1.0).item::<f32>()?, 2.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn var_with(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        self.var_of("var", axes.into(), correction, false).cast(self.dtype())
    }

    /// The standard deviation: the square root of [`var_with`](Tensor::var_with).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 3.0]).std_with(.., 1.0).item::<f32>()?, 2f32.sqrt());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn std_with(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        flat_at_zero(&self.var_of("std", axes.into(), correction, false), Tensor::sqrt).cast(self.dtype())
    }
}
