//! Small functions of two arguments, and of one argument and a number.

use crate::record::{check_float, widened, wrong_dtype};
use crate::{Backward, DType, IntoOperand, Operand, Tensor, custom_grad};
use std::f64::consts::LN_2;

/// Converts an operand to a tensor of `like`'s dtype.
#[track_caller]
fn tensor(name: &str, like: &Tensor, other: Operand<'_>) -> Tensor {
    match other {
        Operand::Tensor(t) => {
            crate::record::check_alike(name, like, t);
            if like.shape().broadcast(t.shape()).is_none() {
                crate::record::shapes_differ(name, like.shape(), t.shape());
            }
            t.clone()
        }
        Operand::Scalar(v) => {
            crate::record::scalar_bits(name, v, like.dtype());
            Tensor::full_with((), v, crate::Options::of(like))
        }
    }
}

/// Mask of the elements with a minus sign, also of -0. It has no gradient.
fn negative(x: &Tensor) -> Tensor {
    x.lt(0.0) | (x.eq(0.0) & x.detach().recip().lt(0.0))
}

/// # Special functions of two operands
impl Tensor {
    /// `ln(eᵃ + eᵇ)`, without overflow, as `numpy.logaddexp`. Takes floats; NaN if either is NaN. The gradient is
    /// divided by a softmax.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new(1000.0f32).logaddexp(1000.0).allclose(1000.6931, 1e-6, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when dtypes differ or shapes do not broadcast.
    #[track_caller]
    pub fn logaddexp(&self, other: impl IntoOperand) -> Tensor {
        self.log_sum("logaddexp", other.operand(), |less| less.exp().log1p(), 1.0)
    }

    /// `log₂(2ᵃ + 2ᵇ)`, without overflow, as `numpy.logaddexp2`. Takes floats.
    ///
    /// # Panics
    /// As [`logaddexp`](Tensor::logaddexp).
    #[track_caller]
    pub fn logaddexp2(&self, other: impl IntoOperand) -> Tensor {
        self.log_sum("logaddexp2", other.operand(), |less| less.exp2().log1p() / LN_2, LN_2)
    }

    /// The larger of two numbers, plus `more` of the negative distance to the smaller. The gradients are the shares of
    /// the two numbers in the sum: a softmax of two, of `base` times the difference.
    #[track_caller]
    fn log_sum(&self, name: &'static str, other: Operand<'_>, more: fn(Tensor) -> Tensor, base: f64) -> Tensor {
        check_float(name, self);
        let all = crate::Tensor::broadcast_all(&[widened(self), widened(&tensor(name, self, other))]);
        let value = |[a, b]: [Tensor; 2]| {
            let largest = a.maximum(&b);
            // The difference of equal infinities is NaN.
            let same = a.eq(&b);
            let less = -(same.where_(0.0, &a - &b)).abs();
            let finite = largest.is_finite();
            let sum = &largest + more(less);
            finite.where_(sum, largest)
        };
        let shares = move |Backward { inputs: [a, b], gradients: dy, .. }: Backward<[Tensor; 2], Tensor>| {
            let apart = (a.eq(&b) & a.is_inf()).where_(0.0, &a - &b) * base;
            [&dy * apart.sigmoid(), dy * (-apart).sigmoid()]
        };
        custom_grad([&all[0], &all[1]], value, shares).cast(self.dtype())
    }

    /// `x·ln y`, and 0 if `x` is 0, unless `y` is NaN: as `scipy.special.xlogy` and `torch.xlogy`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0.0f32, 2.0]).xlogy(Tensor::new([0.0f32, 1.0])).to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when dtypes differ or shapes do not broadcast.
    #[track_caller]
    pub fn xlogy(&self, y: impl IntoOperand) -> Tensor {
        check_float("xlogy", self);
        let (x, y) = (widened(self), widened(&tensor("xlogy", self, y.operand())));
        let nothing = x.eq(0.0) & (y.le(0.0) | y.is_inf());
        (&x * nothing.where_(1.0, y).log()).cast(self.dtype())
    }

    /// `x·ln(1 + y)`, and 0 if `x` is 0, unless `y` is NaN: as `scipy.special.xlog1py`. Takes floats.
    ///
    /// # Panics
    /// As [`xlogy`](Tensor::xlogy).
    #[track_caller]
    pub fn xlog1py(&self, y: impl IntoOperand) -> Tensor {
        check_float("xlog1py", self);
        let (x, y) = (widened(self), widened(&tensor("xlog1py", self, y.operand())));
        let nothing = x.eq(0.0) & (y.le(-1.0) | y.is_inf());
        (&x * nothing.where_(0.0, y).log1p()).cast(self.dtype())
    }

    /// The magnitude of `self` with the sign of `other`, including that of -0, as `numpy.copysign`. NaN counts as
    /// positive. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, -2.0]).copysign(-0.0).to_vec::<f32>()?, [-1.0, -2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when dtypes differ or shapes do not broadcast.
    #[track_caller]
    pub fn copysign(&self, other: impl IntoOperand) -> Tensor {
        check_float("copysign", self);
        let size = self.abs();
        negative(&tensor("copysign", self, other.operand())).where_(-&size, size)
    }

    /// Whether the sign is a minus, as bool, as `numpy.signbit`: true for -0. NaN counts as positive. Takes floats and
    /// integers.
    ///
    /// # Panics
    /// On bool.
    #[track_caller]
    pub fn signbit(&self) -> Tensor {
        match self.dtype() {
            DType::Bool => wrong_dtype("signbit", "a float or integer dtype", DType::Bool),
            dtype if dtype.is_int() => self.lt(0),
            _ => negative(self),
        }
    }

    /// The exact remainder of `a/b` with the sign of `a`, as C's `fmod`, `numpy.fmod` and `torch.fmod`
    /// ([`rem`](Tensor::rem) has the sign of `b`). Division by 0 gives NaN for floats and 0 for integers. Takes floats
    /// and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([7i32, -7]).fmod(3).to_vec::<i32>()?, [1, -1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On bool, or when dtypes differ or shapes do not broadcast.
    #[track_caller]
    pub fn fmod(&self, other: impl IntoOperand) -> Tensor {
        if self.dtype() == DType::Bool {
            wrong_dtype("fmod", "a float or integer dtype", DType::Bool);
        }
        let other = tensor("fmod", self, other.operand());
        if self.dtype().is_float() {
            let all = Tensor::broadcast_all(&[self.clone(), other]);
            let value = |[a, b]: [Tensor; 2]| {
                let rest = a.abs().rem(b.abs());
                negative(&a).where_(-&rest, rest)
            };
            // The derivative of the composition would be 0 at a = 0, because of |a|.
            let slopes = |Backward { inputs: [a, b], gradients: dy, .. }: Backward<[Tensor; 2], Tensor>| {
                [dy.clone(), -dy * (a / b).trunc()]
            };
            return custom_grad([&all[0], &all[1]], value, slopes);
        }
        let rest = self.rem(&other);
        let crossed = rest.ne(0) & rest.lt(0).ne(self.lt(0));
        crossed.where_(&rest - &other, rest)
    }

    /// 0 below 0, 1 above, and `at_zero` at 0, as `numpy.heaviside`; NaN for NaN. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([-1.0f32, 0.0, 2.0]).heaviside(0.5).to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when dtypes differ or shapes do not broadcast.
    #[track_caller]
    pub fn heaviside(&self, at_zero: impl IntoOperand) -> Tensor {
        check_float("heaviside", self);
        let at_zero = tensor("heaviside", self, at_zero.operand());
        let step = self.gt(0.0).cast(self.dtype());
        self.is_nan().where_(self, self.eq(0.0).where_(at_zero, step))
    }

    /// `self` rounded to `digits` decimal digits after the point, halves to even, as `numpy.round(x, digits)`; negative
    /// digits are before the point. The intermediate product with 10^digits may have a rounding error, as in NumPy.
    /// Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new(3.14159f64).round_to(2).allclose(3.14, 1e-12, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float.
    #[track_caller]
    pub fn round_to(&self, digits: i32) -> Tensor {
        check_float("round_to", self);
        let (x, by) = (widened(self), 10f64.powi(digits.abs()));
        let rounded = if digits < 0 { (&x / by).round() * by } else { (&x * by).round() / by };
        // Too large to be multiplied: it has no digits after the point.
        rounded.is_finite().where_(rounded, x).cast(self.dtype())
    }

    /// The next number of the dtype after `self` in the direction of `toward`, as C's and NumPy's `nextafter`; equal
    /// numbers give `toward`, NaN gives NaN. Takes floats.
    ///
    /// # Panics
    /// On a dtype that is not a float, or when dtypes differ or shapes do not broadcast.
    #[track_caller]
    pub fn nextafter(&self, toward: impl IntoOperand) -> Tensor {
        check_float("nextafter", self);
        let toward = tensor("nextafter", self, toward.operand());
        let up = toward.gt(self);
        let next = match self.dtype() {
            DType::F64 => next_of_f64(self, &up),
            dtype => next_of_narrow(self, &up, dtype),
        };
        // The neighbour of an infinity is the largest number.
        let most = self.dtype().float_info().max;
        let back = self.gt(0.0).where_(self.full_like(most), -most);
        let next = self.is_inf().where_(back, next);
        let unknown = self.is_nan() | toward.is_nan();
        let equal = self.eq(&toward).where_(&toward, next);
        unknown.where_(self + &toward, equal)
    }
}

/// The next number of f32, bf16 or f16 after `x`: in f64, a step of between 0.5 and 1.5 units in the last place,
/// rounded back. Exactly one number of the dtype is in that range, also downward from a power of two.
fn next_of_narrow(x: &Tensor, up: &Tensor, dtype: DType) -> Tensor {
    let (digits, least) = match dtype {
        DType::F32 => (24, -149),
        DType::BF16 => (8, -133),
        _ => (11, -24),
    };
    let wide = x.cast(DType::F64);
    let step = (wide.abs() * (1.25 * 2f64.powi(-digits))).maximum(0.75 * 2f64.powi(least));
    (&wide + up.where_(&step, -&step)).cast(dtype)
}

/// The next f64 after `x`, by Rump, Zimmermann, Boldo and Melquiond (2009): half a unit and a little more is added,
/// rounding to nearest. Numbers so small that half a unit is rounded itself are scaled up; subnormal numbers have steps
/// of one size.
fn next_of_f64(x: &Tensor, up: &Tensor) -> Tensor {
    const HALF_UNIT: f64 = 1.110_223_024_625_156_8e-16;
    let size = x.abs();
    let scale = size.lt(2f64.powi(-900)).where_(x.full_like(2f64.powi(200)), 1.0);
    let large = x * &scale;
    let step = large.abs() * HALF_UNIT;
    let moved = (&large + up.where_(&step, -&step)) / scale;
    let least = f64::from_bits(1);
    let tiny = x + up.where_(x.full_like(least), -least);
    size.lt(2f64.powi(-1021)).where_(tiny, moved)
}
