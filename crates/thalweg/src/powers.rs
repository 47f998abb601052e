//! Powers. Special exponents are lowered to cheaper operations with the same meaning.

use crate::record::{binary, wrong_dtype};
use crate::{Backward, IntoOperand, Operand, Scalar, Tensor, custom_grad};
use thalweg_ir::ElementOp;

/// A function of a tensor that is independent of its values, with a gradient of 0.
#[track_caller]
pub(crate) fn constant(x: &Tensor, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    if !x.is_tracked() {
        return f(x);
    }
    custom_grad(x, |x| f(&x), |Backward { inputs: x, .. }: Backward<Tensor, Tensor>| x.zeros_like())
}

/// # Powers
impl Tensor {
    /// `self` to the power `exponent`, a tensor or a number. Takes floats and integers.
    ///
    /// For integers a negative exponent gives 0 (except for 1 and -1) and overflow wraps. A number as exponent is
    /// treated as in [`powf`](Tensor::powf). A number to the power of a tensor is `x.full_like(2.0).pow(&x)`.
    ///
    /// See also [`powf`](Tensor::powf) and [`powi`](Tensor::powi) for a number as the exponent, and
    /// [`exp`](Tensor::exp).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([2.0f32, 3.0]).pow(Tensor::new([3.0f32, 2.0])).to_vec::<f32>()?, [8.0, 9.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not taken, or a number does not fit the dtype.
    #[track_caller]
    pub fn pow(&self, exponent: impl IntoOperand) -> Tensor {
        match exponent.operand() {
            Operand::Tensor(e) => binary(ElementOp::Pow, self.operand(), e.operand()),
            Operand::Scalar(e) => self.pow_scalar(e),
        }
    }

    /// `self` to the power of a number. The exponents 0, 1, 2, 3, 4, 0.5, -0.5, -1, -2 are lowered to multiplications,
    /// `sqrt`, `rsqrt` and `recip` (so `x.powf(0.5)` is NaN for -∞ and -0 for -0, as `sqrt`).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([4.0f32, 9.0]).powf(0.5).to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the dtype is bool, or an integer and the exponent has a fraction.
    #[track_caller]
    pub fn powf(&self, exponent: f64) -> Tensor {
        self.pow_scalar(Scalar::Float(exponent))
    }

    /// `self` to the power of an integer; see [`powf`](Tensor::powf).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([2.0f32, -3.0]).powi(3).to_vec::<f32>()?, [8.0, -27.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the dtype is bool.
    #[track_caller]
    pub fn powi(&self, exponent: i64) -> Tensor {
        self.pow_scalar(Scalar::Int(exponent))
    }

    #[track_caller]
    fn pow_scalar(&self, exponent: Scalar) -> Tensor {
        if self.dtype() == crate::DType::Bool {
            wrong_dtype("pow", "a float or integer dtype", self.dtype());
        }
        let float = self.dtype().is_float();
        let e = exponent.to_f64();
        if e == 0.0 {
            constant(self, Tensor::ones_like)
        } else if e == 1.0 {
            self.clone()
        } else if e == 2.0 {
            self.square()
        } else if e == 3.0 {
            self.square().mul(self)
        } else if e == 4.0 {
            self.square().square()
        } else if e == 0.5 && float {
            self.sqrt()
        } else if e == -0.5 && float {
            self.rsqrt()
        } else if e == -1.0 && float {
            self.recip()
        } else if e == -2.0 && float {
            self.square().recip()
        } else {
            binary(ElementOp::Pow, self.operand(), Operand::Scalar(exponent))
        }
    }
}
