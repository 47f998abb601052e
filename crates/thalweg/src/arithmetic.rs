//! Operators, for owned and borrowed tensors and for numbers on either side.
//!
//! The right operand may be any number type. The left one may be f64, i64, bool or [`Scalar`] only: with two float
//! types the compiler could not infer the type of `1.0` in `1.0 - x`, and `(1.0 - x).exp()` would need annotations.

use crate::record::{binary, unary, wrong_dtype};
use crate::{DType, IntoOperand, Operand, Scalar, Tensor};
use std::ops;
use thalweg_ir::ElementOp;

/// Operation of `&`, `|`, `^` or `!`: logical on bool, bitwise on integers.
///
/// # Panics
/// On floats.
#[track_caller]
fn by_class(a: Operand<'_>, b: Operand<'_>, logical: ElementOp, bitwise: ElementOp) -> ElementOp {
    let dtype = match (a, b) {
        (Operand::Tensor(t), _) | (_, Operand::Tensor(t)) => t.dtype(),
        _ => DType::Bool,
    };
    if dtype.is_float() {
        wrong_dtype(bitwise.name(), "an integer dtype or bool", dtype);
    }
    if dtype == DType::Bool { logical } else { bitwise }
}

macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident |$a:ident, $b:ident| $op:expr;)*) => {$(
        impl<R: IntoOperand> ops::$trait<R> for Tensor {
            type Output = Tensor;
            #[inline]
            #[track_caller]
            fn $method(self, other: R) -> Tensor {
                let ($a, $b) = (self.operand(), other.operand());
                binary($op, $a, $b)
            }
        }
        impl<R: IntoOperand> ops::$trait<R> for &Tensor {
            type Output = Tensor;
            #[inline]
            #[track_caller]
            fn $method(self, other: R) -> Tensor {
                let ($a, $b) = (self.operand(), other.operand());
                binary($op, $a, $b)
            }
        }
        /// Replaces the handle with the result; other handles keep the old value.
        impl<R: IntoOperand> ops::$assign<R> for Tensor {
            #[inline]
            #[track_caller]
            fn $assign_method(&mut self, other: R) {
                let ($a, $b) = (self.operand(), other.operand());
                *self = binary($op, $a, $b);
            }
        }
        operators!(scalar $trait $method |$a, $b| $op;
            f64, i64, bool, Scalar);
    )*};
    (scalar $trait:ident $method:ident |$a:ident, $b:ident| $op:expr; $($t:ty),*) => {
        operators!(each $trait $method |$a, $b| ($op); $($t),*);
    };
    (each $trait:ident $method:ident |$a:ident, $b:ident| ($op:expr); $t:ty $(, $rest:ty)*) => {
        impl ops::$trait<Tensor> for $t {
            type Output = Tensor;
            #[inline]
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                let ($a, $b) = (self.operand(), other.operand());
                binary($op, $a, $b)
            }
        }
        impl ops::$trait<&Tensor> for $t {
            type Output = Tensor;
            #[inline]
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                let ($a, $b) = (self.operand(), other.operand());
                binary($op, $a, $b)
            }
        }
        operators!(each $trait $method |$a, $b| ($op); $($rest),*);
    };
    (each $trait:ident $method:ident |$a:ident, $b:ident| ($op:expr);) => {};
}

operators! {
    Add add AddAssign add_assign |a, b| ElementOp::Add;
    Sub sub SubAssign sub_assign |a, b| ElementOp::Sub;
    Mul mul MulAssign mul_assign |a, b| ElementOp::Mul;
    Div div DivAssign div_assign |a, b| ElementOp::Div;
    Rem rem RemAssign rem_assign |a, b| ElementOp::Rem;
    Shl shl ShlAssign shl_assign |a, b| ElementOp::Shl;
    Shr shr ShrAssign shr_assign |a, b| ElementOp::Shr;
    BitAnd bitand BitAndAssign bitand_assign |a, b| by_class(a, b, ElementOp::And, ElementOp::BitAnd);
    BitOr bitor BitOrAssign bitor_assign |a, b| by_class(a, b, ElementOp::Or, ElementOp::BitOr);
    BitXor bitxor BitXorAssign bitxor_assign |a, b| by_class(a, b, ElementOp::Xor, ElementOp::BitXor);
}

impl ops::Neg for &Tensor {
    type Output = Tensor;
    #[inline]
    #[track_caller]
    fn neg(self) -> Tensor {
        unary(ElementOp::Neg, self)
    }
}
impl ops::Neg for Tensor {
    type Output = Tensor;
    #[inline]
    #[track_caller]
    fn neg(self) -> Tensor {
        unary(ElementOp::Neg, &self)
    }
}
impl ops::Not for &Tensor {
    type Output = Tensor;
    #[inline]
    #[track_caller]
    fn not(self) -> Tensor {
        unary(by_class(self.operand(), self.operand(), ElementOp::Not, ElementOp::BitNot), self)
    }
}
impl ops::Not for Tensor {
    type Output = Tensor;
    #[inline]
    #[track_caller]
    fn not(self) -> Tensor {
        !&self
    }
}
