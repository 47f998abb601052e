//! Operands of elementwise operations: tensors, references to them, and numbers.

use crate::{Scalar, Tensor};
use half::{bf16, f16};

/// Operand of an elementwise operation: a tensor, or a number that takes the dtype of the tensor operands.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A single value.
    Scalar(Scalar),
}

/// Argument of an operation that is being recorded.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A scalar in the form of [`Scalar::to_bits`].
    Scalar(u64),
}

/// Types that are operands of elementwise operations: `Tensor`, `&Tensor`, every Rust number, `bool`, [`Scalar`].
///
/// ```
/// # use thalweg::Tensor;
/// let x = Tensor::randn([4]);
/// let y = x.gt(0.5).where_(x.maximum(&x * 2.0), 0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument of an elementwise operation",
    label = "neither a tensor nor a number",
    note = "tensors, references to tensors, `Scalar`, `bool` and Rust's numbers are; data becomes a tensor by `Tensor::new`"
)]
pub trait IntoOperand: sealed::Sealed {
    /// Converts the value to an operand.
    fn operand(&self) -> Operand<'_>;
}

impl IntoOperand for Tensor {
    #[inline]
    fn operand(&self) -> Operand<'_> {
        Operand::Tensor(self)
    }
}

impl<T: IntoOperand + ?Sized> IntoOperand for &T {
    #[inline]
    fn operand(&self) -> Operand<'_> {
        (**self).operand()
    }
}

impl IntoOperand for Operand<'_> {
    #[inline]
    fn operand(&self) -> Operand<'_> {
        *self
    }
}

macro_rules! scalars {
    ($($t:ty),*) => {$(
        impl IntoOperand for $t {
            #[inline]
            fn operand(&self) -> Operand<'_> { Operand::Scalar(Scalar::from(*self)) }
        }
        impl sealed::Sealed for $t {}
    )*};
}
scalars!(f32, f64, bf16, f16, i8, i16, i32, i64, u8, u16, u32, u64, usize, bool, Scalar);

mod sealed {
    /// Seals the set of operands, so that it can grow.
    pub trait Sealed {}
    impl Sealed for crate::Tensor {}
    impl Sealed for super::Operand<'_> {}
    impl<T: Sealed + ?Sized> Sealed for &T {}
}
