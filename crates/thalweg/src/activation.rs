//! Activations and other composite functions, written in operations of the elementwise table. They fuse like those.

use crate::record::{check_float, widened};
use crate::special::function;
use crate::{Error, IntoOperand, Tensor};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

macro_rules! composites {
    ($($(#[$doc:meta])* fn $name:ident($x:ident $(, $arg:ident: $t:ty)*) $body:expr)*) => {
        /// # Activations
        ///
        /// Activations and other functions of one tensor. All take floats; bf16 and f16 are computed in f32 and rounded
        /// once, at the end. See also [`relu`](Tensor::relu), [`tanh`](Tensor::tanh), [`sigmoid`](Tensor::sigmoid),
        /// [`softmax`](Tensor::softmax).
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// On a dtype that is not a float.
            #[track_caller]
            pub fn $name(&self $(, $arg: $t)*) -> Tensor {
                check_float(stringify!($name), self);
                let $x = &widened(self);
                let y: Tensor = $body;
                y.cast(self.dtype())
            }
        )*}
    };
}

composites! {
    /// The Gaussian error linear unit, exact: `x·Φ(x) = x·(1 + erf(x/√2))/2` (Hendrycks and Gimpel 2016).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([-1.0f32, 1.0]).gelu().allclose(Tensor::new([-0.158655f32, 0.841345]), 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn gelu(x) (x * FRAC_1_SQRT_2).erf().add(1.0).mul(x).mul(0.5)

    /// The tanh approximation of the Gaussian error linear unit: `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))` (Hendrycks
    /// and Gimpel 2016).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new(1.0f32).gelu_tanh().allclose(0.841192, 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn gelu_tanh(x) {
        let inner = (x * x * 0.044715 + 1.0) * x * (2.0 / PI).sqrt();
        x * 0.5 * (inner.tanh() + 1.0)
    }

    /// `x·sigmoid(x)`, also called swish (Elfwing, Uchibe and Doya 2017).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([-1.0f32, 1.0]).silu().allclose(Tensor::new([-0.268941f32, 0.731059]), 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn silu(x) x * x.sigmoid()

    /// `ln(1 + eˣ)`, without overflow: `max(x, 0) + ln(1 + e^(-|x|))`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([0.0f32, 100.0]).softplus().allclose(Tensor::new([0.693147f32, 100.0]), 1e-6, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn softplus(x) {
        // The derivative of the composition would use that of |x| at 0.
        function("softplus", x, |x| x.relu() + (-x.abs()).exp().log1p(), Tensor::sigmoid)
    }

    /// `x·tanh(softplus(x))` (Misra 2019).
    fn mish(x) x * x.softplus().tanh()

    /// `x`, or `slope·x` below 0.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([-2.0f32, 2.0]).leaky_relu(0.5).to_vec::<f32>()?, [-1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn leaky_relu(x, slope: f64) x.gt(0.0).where_(x, x * slope)

    /// `x`, or `alpha·(eˣ - 1)` below 0 (Clevert, Unterthiner and Hochreiter 2015).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([-1.0f32, 2.0]).elu(1.0).allclose(Tensor::new([-0.632121f32, 2.0]), 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn elu(x, alpha: f64) {
        // `expm1(x) + 1`, the derivative of the composition, is inaccurate where eˣ is small.
        let value = |x: &Tensor| x.gt(0.0).where_(x, x.expm1() * alpha);
        function("elu", x, value, move |x| x.gt(0.0).where_(1.0, (-(-x).relu()).exp() * alpha))
    }

    /// The self-normalizing `elu`: `λ·elu(x, α)` with λ = 1.0507, α = 1.6733 (Klambauer et al. 2017).
    fn selu(x) x.elu(1.673_263_242_354_377_2) * 1.050_700_987_355_480_5

    /// `max(x, 0) + min(0, alpha·(e^(x/alpha) - 1))` (Barron 2017).
    fn celu(x, alpha: f64) {
        let value = |x: &Tensor| x.gt(0.0).where_(x, (x / alpha).expm1() * alpha);
        function("celu", x, value, move |x| x.gt(0.0).where_(1.0, (-(-(x / alpha)).relu()).exp()))
    }

    /// `x` clamped to `[low, high]`. The derivative is 0 at the bounds, as in PyTorch.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([-3.0f32, 0.5]).hardtanh(-1.0, 1.0).to_vec::<f32>()?, [-1.0, 0.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn hardtanh(x, low: f64, high: f64) held(x, low, high)

    /// `min(max(x, 0), 6)`. The derivative is 0 at 0 and 6, as in PyTorch.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([-1.0f32, 3.0, 9.0]).relu6().to_vec::<f32>()?, [0.0, 3.0, 6.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn relu6(x) held(x, 0.0, 6.0)

    /// `min(max(x + 3, 0), 6)/6` (Howard et al. 2019). The derivative is 0 at -3 and 3, as in PyTorch.
    fn hardsigmoid(x) held(&(x + 3.0), 0.0, 6.0) / 6.0

    /// `x·hardsigmoid(x)` (Howard et al. 2019). The derivative is 0 at -3 and 1 at 3, as in PyTorch.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([-3.0f32, 3.0]).hardswish().allclose(Tensor::new([0.0f32, 3.0]), 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn hardswish(x) x * x.hardsigmoid()

    /// `x/(1 + |x|)`.
    fn softsign(x) x / (x.abs() + 1.0)

    /// `x - tanh(x)`.
    fn tanhshrink(x) x - x.tanh()

    /// 0 between `-lambda` and `lambda`, else `x`.
    fn hardshrink(x, lambda: f64) x.abs().le(lambda).where_(0.0, x)

    /// `x` moved toward 0 by `lambda`, and 0 if that crosses it.
    fn softshrink(x, lambda: f64) x - x.clamp(-lambda, lambda)

    /// `x` above `limit`, else `value`.
    fn threshold(x, limit: f64, value: f64) x.gt(limit).where_(x, value)

    /// `ln sigmoid(x)`, without overflow: `-softplus(-x)`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([0.0f32, -100.0]).log_sigmoid().allclose(Tensor::new([-0.693147f32, -100.0]), 1e-6, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn log_sigmoid(x) {
        function("log_sigmoid", x, |x| x.minimum(0.0) - (-x.abs()).exp().log1p(), |x| (-x).sigmoid())
    }

    /// The inverse of `sigmoid`: `ln(x/(1 - x))`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new(0.5f32).logit().item::<f32>()?, 0.0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn logit(x) function("logit", x, |x| (x / (1.0 - x)).log(), |x| (x * (1.0 - x)).recip())

    /// `sin(πx)/(πx)`, 1 at 0.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([0.0f32, 1.0]).sinc().allclose(Tensor::new([1.0f32, 0.0]), 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn sinc(x) {
        let value = |x: &Tensor| {
            let t = x * PI;
            x.eq(0.0).where_(1.0, t.sin() / t)
        };
        function("sinc", x, value, sinc_slope)
    }

    /// `x`, in radians, converted to degrees.
    fn rad2deg(x) x * (180.0 / PI)

    /// `x`, in degrees, converted to radians.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new(180.0f64).deg2rad().allclose(3.141592653589793, 1e-12, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn deg2rad(x) x * (PI / 180.0)

    /// The fractional part, with the sign of `x`: `x - trunc(x)`.
    fn fract(x) x - x.trunc()

    /// `x` with NaN, +∞ and -∞ replaced by the given numbers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([f32::NAN, f32::INFINITY]).nan_to_num(0.0, 9.0, -9.0).to_vec::<f32>()?, [0.0, 9.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn nan_to_num(x, nan: f64, pos_inf: f64, neg_inf: f64) {
        let infinite = x.gt(0.0).where_(x.full_like(pos_inf), neg_inf);
        x.is_nan().where_(nan, x.is_inf().where_(infinite, x))
    }
}

/// `y` clamped to `[low, high]` by selects, so that the gradient at a bound is 0.
fn held(y: &Tensor, low: f64, high: f64) -> Tensor {
    y.le(low).where_(low, y.ge(high).where_(high, y))
}

/// The derivative of `sinc`, `(cos πx - sinc x)/x`; near 0, where that cancels, by its series in πx.
fn sinc_slope(x: &Tensor) -> Tensor {
    let t = x * PI;
    let near = t.abs().lt(0.5);
    let s = near.where_(&t, 0.0).square();
    // (-1)ᵏ·2k/(2k + 1)!
    let series = [-1.0 / 3.0, 1.0 / 30.0, -1.0 / 840.0, 1.0 / 45_360.0, -1.0 / 3_991_680.0, 1.0 / 518_918_400.0];
    let sum = series.iter().rev().fold(s.full_like(-14.0 / 1_307_674_368_000.0), |sum, c| sum * &s + *c);
    let far = near.where_(1.0, x);
    let t_far = &far * PI;
    near.where_(sum * t * PI, (t_far.cos() - t_far.sin() / &t_far) / far)
}

/// # Activations with weights
impl Tensor {
    /// `x`, or `weight·x` below 0, with a learned weight that broadcasts (He et al. 2015).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([-2.0f32, 2.0]).prelu(&Tensor::new(0.25f32)).to_vec::<f32>()?, [-0.5, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when shapes do not broadcast or dtypes differ.
    #[track_caller]
    pub fn prelu(&self, weight: &Tensor) -> Tensor {
        check_float("prelu", self);
        self.gt(0.0).where_(self, self * weight)
    }
}

/// # Comparisons with a tolerance
impl Tensor {
    /// Whether elements are close by NumPy's definition, as bool: `|a - b| ≤ atol + rtol·|b|`. Equal infinities are
    /// close, NaN is close to nothing.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 2.0]).isclose(1.0, 1e-5, 1e-8).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn isclose(&self, other: impl IntoOperand, rtol: f64, atol: f64) -> Tensor {
        check_float("isclose", self);
        let difference = self.sub(&other).abs();
        let bound = match other.operand() {
            crate::Operand::Tensor(b) => b.abs() * rtol + atol,
            crate::Operand::Scalar(b) => self.full_like(b.to_f64().abs() * rtol + atol),
        };
        self.eq(&other) | (difference.le(bound) & difference.is_finite())
    }

    /// Whether all elements are close, as `torch.allclose`; see [`isclose`](Tensor::isclose). Waits for the answer.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([1.0f64, 2.0]);
    /// assert!(x.allclose(&x + 1e-9, 1e-5, 1e-8)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be computed.
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn allclose(&self, other: impl IntoOperand, rtol: f64, atol: f64) -> Result<bool, Error> {
        self.isclose(other, rtol, atol).all(..).item()
    }
}
