//! Integers and truth values of kernels, for `i32` and `bool` in a kernel's signature.

use super::repr::Repr;
use std::fmt;
use std::ops::*;
use thalweg_ir::ElementOp;

/// Integer of a kernel over `F`: 32 bits, signed, wrapping. `/` truncates toward zero and gives 0 for division by 0,
/// `%` has the sign of the divisor, shifts by the width or more give 0 (or the sign), as in the table of operations.
pub struct Int<F: Repr>(pub(super) F::RawInt);

/// Truth value of a kernel over `F`.
pub struct Mask<F: Repr>(pub(super) F::RawMask);

impl<F: Repr> Clone for Int<F> {
    fn clone(&self) -> Int<F> {
        *self
    }
}
impl<F: Repr> Copy for Int<F> {}
impl<F: Repr> Clone for Mask<F> {
    fn clone(&self) -> Mask<F> {
        *self
    }
}
impl<F: Repr> Copy for Mask<F> {}

impl<F: Repr> fmt::Debug for Int<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl<F: Repr> fmt::Debug for Mask<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<F: Repr> From<i32> for Int<F> {
    fn from(value: i32) -> Int<F> {
        Int(F::int(value))
    }
}
impl<F: Repr> From<bool> for Mask<F> {
    fn from(value: bool) -> Mask<F> {
        Mask(F::mask(value))
    }
}

/// Plain integers, in calls of a kernel on numbers.
impl<F: Repr<RawInt = i32>> Int<F> {
    /// Value of the integer.
    pub fn get(self) -> i32 {
        self.0
    }
}
/// Plain truth values, in calls of a kernel on numbers.
impl<F: Repr<RawMask = bool>> Mask<F> {
    /// Value of the truth value, as a bool.
    pub fn get(self) -> bool {
        self.0
    }
}
impl<F: Repr<RawInt = i32>> PartialEq<i32> for Int<F> {
    fn eq(&self, other: &i32) -> bool {
        self.0 == *other
    }
}
impl<F: Repr<RawMask = bool>> PartialEq<bool> for Mask<F> {
    fn eq(&self, other: &bool) -> bool {
        self.0 == *other
    }
}

impl<F: Repr> Int<F> {
    fn binary(op: ElementOp, a: impl Into<Int<F>>, b: impl Into<Int<F>>) -> Int<F> {
        Int(F::apply_int(op, &[a.into().0, b.into().0]))
    }

    /// `|i|`; wraps.
    pub fn abs(self) -> Int<F> {
        Int(F::apply_int(ElementOp::Abs, &[self.0]))
    }

    /// The smaller of this integer and `other`.
    pub fn min(self, other: impl Into<Int<F>>) -> Int<F> {
        Int::binary(ElementOp::Minimum, self, other)
    }

    /// The larger of this integer and `other`.
    pub fn max(self, other: impl Into<Int<F>>) -> Int<F> {
        Int::binary(ElementOp::Maximum, self, other)
    }

    /// The integer clamped to `[low, high]`.
    pub fn clamp(self, low: impl Into<Int<F>>, high: impl Into<Int<F>>) -> Int<F> {
        Int(F::apply_int(ElementOp::Clamp, &[self.0, low.into().0, high.into().0]))
    }

    /// `⌊i/j⌋`; 0 for division by 0.
    pub fn floor_div(self, other: impl Into<Int<F>>) -> Int<F> {
        Int::binary(ElementOp::FloorDiv, self, other)
    }
}

macro_rules! operators {
    ($($trait:ident $f:ident $op:ident, $assign:ident $g:ident;)*) => {$(
        impl<F: Repr, I: Into<Int<F>>> $trait<I> for Int<F> {
            type Output = Int<F>;
            fn $f(self, other: I) -> Int<F> {
                Int::binary(ElementOp::$op, self, other)
            }
        }
        impl<F: Repr> $trait<Int<F>> for i32 {
            type Output = Int<F>;
            fn $f(self, other: Int<F>) -> Int<F> {
                Int::binary(ElementOp::$op, self, other)
            }
        }
        impl<F: Repr, I: Into<Int<F>>> $assign<I> for Int<F> {
            fn $g(&mut self, other: I) {
                *self = Int::binary(ElementOp::$op, *self, other);
            }
        }
    )*};
}
operators! {
    Add add Add, AddAssign add_assign;
    Sub sub Sub, SubAssign sub_assign;
    Mul mul Mul, MulAssign mul_assign;
    Div div Div, DivAssign div_assign;
    Rem rem Rem, RemAssign rem_assign;
    BitAnd bitand BitAnd, BitAndAssign bitand_assign;
    BitOr bitor BitOr, BitOrAssign bitor_assign;
    BitXor bitxor BitXor, BitXorAssign bitxor_assign;
    Shl shl Shl, ShlAssign shl_assign;
    Shr shr Shr, ShrAssign shr_assign;
}

impl<F: Repr> Neg for Int<F> {
    type Output = Int<F>;
    fn neg(self) -> Int<F> {
        Int(F::apply_int(ElementOp::Neg, &[self.0]))
    }
}
impl<F: Repr> Not for Int<F> {
    type Output = Int<F>;
    fn not(self) -> Int<F> {
        Int(F::apply_int(ElementOp::BitNot, &[self.0]))
    }
}

macro_rules! logic {
    ($($trait:ident $f:ident $op:ident, $assign:ident $g:ident;)*) => {$(
        impl<F: Repr, M: Into<Mask<F>>> $trait<M> for Mask<F> {
            type Output = Mask<F>;
            fn $f(self, other: M) -> Mask<F> {
                Mask(F::logic(ElementOp::$op, &[self.0, other.into().0]))
            }
        }
        impl<F: Repr, M: Into<Mask<F>>> $assign<M> for Mask<F> {
            fn $g(&mut self, other: M) {
                *self = $trait::$f(*self, other);
            }
        }
    )*};
}
logic! {
    BitAnd bitand And, BitAndAssign bitand_assign;
    BitOr bitor Or, BitOrAssign bitor_assign;
    BitXor bitxor Xor, BitXorAssign bitxor_assign;
}

impl<F: Repr> Not for Mask<F> {
    type Output = Mask<F>;
    fn not(self) -> Mask<F> {
        Mask(F::logic(ElementOp::Not, &[self.0]))
    }
}
