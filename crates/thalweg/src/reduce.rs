//! Reductions over one axis, several, or all (`..`), with the axes dropped or kept as size 1.

use crate::record::{check_float, record1, widened, wrong_dtype};
use crate::{Axes, Axis, DType, Shape, Tensor};
use thalweg_ir::{Op, ReduceOp};

/// Bit of the attribute that says that reduced axes stay as size 1.
const KEEP: u32 = 1 << 8;

impl Tensor {
    /// Records a reduction whose dtype was checked.
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
        let attr = mask | if keep { KEEP } else { 0 };
        record1(Op::Reduce(op), dtype, Shape::new(&sizes[..rank]), attr, self, &[])
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

    /// The index along one axis, or into the flattened tensor for `..`.
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

    /// How many elements fall together into one.
    #[track_caller]
    fn reduced_count(&self, name: &str, axes: Axes) -> usize {
        let mask = axes.mask(name, self.rank());
        self.dims().iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, &d)| d).product()
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $keepdim:ident => $method:ident $op:ident, $panics:literal;)*) => {
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
    /// The sum over the axes (`x.sum(1)`, `x.sum([0, -1])`, `x.sum(..)`); 0 of nothing. In the tensor's dtype:
    /// integers wrap.
    sum sum_keepdim => reduce_numbers Sum, "On bool (cast first), or when an axis does not exist.";
    /// The product over the axes; 1 of nothing. In the tensor's dtype: integers wrap.
    prod prod_keepdim => reduce_numbers Prod, "On bool (cast first), or when an axis does not exist.";
    /// The largest over the axes; NaN if any is NaN.
    #[doc(alias = "max")]
    amax amax_keepdim => reduce_numbers Max, "On bool, when an axis does not exist, or when there is nothing along one.";
    /// The smallest over the axes; NaN if any is NaN.
    #[doc(alias = "min")]
    amin amin_keepdim => reduce_numbers Min, "On bool, when an axis does not exist, or when there is nothing along one.";
    /// Whether any is true over the axes; false of nothing.
    any any_keepdim => reduce_bools Any, "On another dtype than bool, or when an axis does not exist.";
    /// Whether all are true over the axes; true of nothing.
    all all_keepdim => reduce_bools All, "On another dtype than bool, or when an axis does not exist.";
    /// Index of the first largest along one axis, or in the flattened tensor for `..`, as i64. A NaN counts as largest.
    argmax argmax_keepdim => reduce_to_index ArgMax, "On bool, when the axis does not exist or has no elements, or with several axes.";
    /// Index of the first smallest along one axis, or in the flattened tensor for `..`, as i64. A NaN counts as
    /// smallest.
    argmin argmin_keepdim => reduce_to_index ArgMin, "On bool, when the axis does not exist or has no elements, or with several axes.";
}

/// Statistics and normalisations, written from the reductions above. All take floats; bf16 and f16 are computed in
/// f32 and rounded once, at the end.
impl Tensor {
    /// The mean over the axes; NaN of nothing.
    ///
    /// # Panics
    /// On a dtype that is not a float (cast first), or when an axis does not exist.
    #[track_caller]
    pub fn mean(&self, axes: impl Into<Axes>) -> Tensor {
        check_float("mean", self);
        let axes = axes.into();
        (widened(self).sum(axes) / self.reduced_count("mean", axes)).cast(self.dtype())
    }

    /// [`mean`](Tensor::mean) with the reduced axes kept as size 1.
    ///
    /// # Panics
    /// As [`mean`](Tensor::mean).
    #[track_caller]
    pub fn mean_keepdim(&self, axes: impl Into<Axes>) -> Tensor {
        check_float("mean", self);
        let axes = axes.into();
        (widened(self).sum_keepdim(axes) / self.reduced_count("mean", axes)).cast(self.dtype())
    }

    /// The variance over the axes: the mean of `(x - mean)²`, as NumPy's default ([`var_with`](Tensor::var_with)
    /// divides by less).
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn var(&self, axes: impl Into<Axes>) -> Tensor {
        self.var_with(axes, 0.0)
    }

    /// The variance with the sum of squares divided by the count less `correction`: 1 gives the unbiased estimate,
    /// PyTorch's default.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn var_with(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        check_float("var", self);
        let axes = axes.into();
        let count = self.reduced_count("var", axes) as f64;
        let x = widened(self);
        let var = (&x - x.mean_keepdim(axes)).square().sum(axes) / (count - correction).max(0.0);
        var.cast(self.dtype())
    }

    /// The standard deviation over the axes, the root of [`var`](Tensor::var).
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn std(&self, axes: impl Into<Axes>) -> Tensor {
        check_float("std", self);
        widened(self).var(axes).sqrt().cast(self.dtype())
    }

    /// The Euclidean norm over the axes: `√Σx²`.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn norm(&self, axes: impl Into<Axes>) -> Tensor {
        check_float("norm", self);
        widened(self).square().sum(axes).sqrt().cast(self.dtype())
    }

    /// The p-norm over the axes: `(Σ|x|ᵖ)^(1/p)`; the largest magnitude for `p = ∞`, the smallest for -∞, the count
    /// of non-zeros for 0.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn norm_p(&self, p: f64, axes: impl Into<Axes>) -> Tensor {
        check_float("norm_p", self);
        let x = widened(self).abs();
        let norm = if p == f64::INFINITY {
            x.amax(axes)
        } else if p == f64::NEG_INFINITY {
            x.amin(axes)
        } else if p == 0.0 {
            x.ne(0).cast(x.dtype()).sum(axes)
        } else if p == 2.0 {
            x.norm(axes)
        } else {
            x.powf(p).sum(axes).powf(1.0 / p)
        };
        norm.cast(self.dtype())
    }

    /// `ln Σeˣ` over the axes, without overflow on the way: the largest is taken out first.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist or has no elements.
    #[track_caller]
    pub fn logsumexp(&self, axes: impl Into<Axes>) -> Tensor {
        check_float("logsumexp", self);
        let axes = axes.into();
        let x = widened(self);
        let largest = x.amax_keepdim(axes);
        // An infinite largest is itself the answer, but ∞ - ∞ is NaN.
        let largest = largest.is_finite().where_(&largest, 0.0);
        let sum = (x - &largest).exp().sum(axes).log();
        let shape = *sum.shape();
        (sum + largest.reshape(shape)).cast(self.dtype())
    }

    /// `e^xᵢ / Σe^xⱼ` along an axis, without overflow on the way.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when the axis does not exist.
    #[track_caller]
    pub fn softmax(&self, axis: impl Into<Axis>) -> Tensor {
        check_float("softmax", self);
        let axis = axis.into().of("softmax", self.rank());
        if self.numel() == 0 {
            return self.clone();
        }
        let x = widened(self);
        let e = (&x - x.amax_keepdim(axis)).exp();
        (&e / e.sum_keepdim(axis)).cast(self.dtype())
    }

    /// `xᵢ - ln Σe^xⱼ` along an axis: the logarithm of [`softmax`](Tensor::softmax), accurate where that is small.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when the axis does not exist.
    #[track_caller]
    pub fn log_softmax(&self, axis: impl Into<Axis>) -> Tensor {
        check_float("log_softmax", self);
        let axis = axis.into().of("log_softmax", self.rank());
        if self.numel() == 0 {
            return self.clone();
        }
        let x = widened(self);
        let centred = &x - x.amax_keepdim(axis);
        (&centred - centred.exp().sum_keepdim(axis).log()).cast(self.dtype())
    }

    /// `(x - mean)/√(var + eps)` over the axes, usually -1 (Ba, Kiros and Hinton 2016). Scale and shift are for the
    /// caller to multiply and add.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn layer_norm(&self, axes: impl Into<Axes>, eps: f64) -> Tensor {
        check_float("layer_norm", self);
        let axes = axes.into();
        let x = widened(self);
        let centred = &x - x.mean_keepdim(axes);
        let var = centred.square().mean_keepdim(axes);
        (centred * (var + eps).rsqrt()).cast(self.dtype())
    }

    /// `x/√(mean(x²) + eps)` over the axes, usually -1 (Zhang and Sennrich 2019). The scale is for the caller to
    /// multiply.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when an axis does not exist.
    #[track_caller]
    pub fn rms_norm(&self, axes: impl Into<Axes>, eps: f64) -> Tensor {
        check_float("rms_norm", self);
        let x = widened(self);
        (&x * (x.square().mean_keepdim(axes) + eps).rsqrt()).cast(self.dtype())
    }
}
