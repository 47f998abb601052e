//! Elementwise methods, one for each row of the elementwise table, and conversion between dtypes.
//!
//! A method has the name of its row; a test compares the two lists. `pow` is in powers.rs, because special exponents
//! are cheaper operations.

use crate::record::{binary, record1, ternary, unary};
use crate::{DType, IntoOperand, Tensor};
use thalweg_ir::{ElementOp, Op};

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// On a dtype that the operation does not take.
            #[inline]
            #[track_caller]
            pub fn $name(&self) -> Tensor { unary(ElementOp::$op, self) }
        )*}
        #[cfg(test)]
        const UNARY: &[(&str, ElementOp)] = &[$((stringify!($name), ElementOp::$op)),*];
    };
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Panics
            /// When the shapes do not broadcast, the dtypes differ or are not taken, or a scalar does not fit the
            /// tensor's dtype.
            #[inline]
            #[track_caller]
            pub fn $name(&self, other: impl IntoOperand) -> Tensor {
                binary(ElementOp::$op, self.operand(), other.operand())
            }
        )*}
        #[cfg(test)]
        const BINARY: &[(&str, ElementOp)] = &[$((stringify!($name), ElementOp::$op)),*];
    };
}

unary_methods! {
    /// `-x`; integers wrap. The operator `-x` is the same. Takes floats and integers.
    neg => Neg;
    /// `|x|`; integers wrap (`abs` of the smallest one is itself). Takes floats and integers.
    abs => Abs;
    /// -1, 0 or 1 by the sign of `x`; NaN for NaN, 0 for -0. Takes floats and integers.
    sign => Sign;
    /// `x·x`; integers wrap. Takes floats and integers.
    square => Square;
    /// `√x`; NaN below 0. Takes floats.
    sqrt => Sqrt;
    /// `1/√x`. Takes floats.
    rsqrt => Rsqrt;
    /// `1/x`. Takes floats.
    recip => Recip;
    /// `eˣ`. Takes floats.
    exp => Exp;
    /// `2ˣ`. Takes floats.
    exp2 => Exp2;
    /// `eˣ - 1`, accurate near 0. Takes floats.
    expm1 => Expm1;
    /// The natural logarithm `ln x`. Takes floats.
    log => Log;
    /// The logarithm to base 2, exact at powers of 2. Takes floats.
    log2 => Log2;
    /// The logarithm to base 10. Takes floats.
    log10 => Log10;
    /// `ln(1 + x)`, accurate near 0. Takes floats.
    log1p => Log1p;
    /// The sine of radians. Takes floats.
    sin => Sin;
    /// The cosine of radians. Takes floats.
    cos => Cos;
    /// The tangent of radians. Takes floats.
    tan => Tan;
    /// The inverse sine, in radians; NaN outside [-1, 1]. Takes floats.
    asin => Asin;
    /// The inverse cosine, in radians; NaN outside [-1, 1]. Takes floats.
    acos => Acos;
    /// The inverse tangent, in radians. Takes floats.
    atan => Atan;
    /// The hyperbolic sine `(eˣ - e⁻ˣ)/2`. Takes floats.
    sinh => Sinh;
    /// The hyperbolic cosine `(eˣ + e⁻ˣ)/2`. Takes floats.
    cosh => Cosh;
    /// The hyperbolic tangent `sinh x / cosh x`. Takes floats.
    tanh => Tanh;
    /// The inverse hyperbolic sine. Takes floats.
    asinh => Asinh;
    /// The inverse hyperbolic cosine; NaN below 1. Takes floats.
    acosh => Acosh;
    /// The inverse hyperbolic tangent; NaN outside [-1, 1]. Takes floats.
    atanh => Atanh;
    /// The error function `2/√π ∫₀ˣ e^(-t²) dt`. Takes floats.
    erf => Erf;
    /// `1 - erf(x)`, accurate where it is small. Takes floats.
    erfc => Erfc;
    /// The logistic function `1/(1 + e⁻ˣ)`. Takes floats.
    sigmoid => Sigmoid;
    /// `max(x, 0)`; NaN for NaN. Takes floats and integers.
    relu => Relu;
    /// The largest integer not above `x`. Takes floats.
    floor => Floor;
    /// The smallest integer not below `x`. Takes floats.
    ceil => Ceil;
    /// The nearest integer, halves to even. Takes floats.
    round => Round;
    /// The integer part, toward zero. Takes floats.
    trunc => Trunc;
    /// Whether `x` is NaN, as bool. Takes floats.
    is_nan => IsNan;
    /// Whether `x` is an infinity, as bool. Takes floats.
    is_inf => IsInf;
    /// Whether `x` is neither NaN nor an infinity, as bool. Takes floats.
    is_finite => IsFinite;
    /// Logical not. The operator `!x` is the same. Takes bool.
    not => Not;
    /// Every bit inverted. The operator `!x` is the same. Takes integers.
    bit_not => BitNot;
}

binary_methods! {
    /// `a + b`; integers wrap. The operator `+` is the same. Takes floats and integers.
    add => Add;
    /// `a - b`; integers wrap. The operator `-` is the same. Takes floats and integers.
    sub => Sub;
    /// `a·b`; integers wrap. The operator `*` is the same. Takes floats and integers.
    mul => Mul;
    /// `a/b`; integers truncate toward zero, and integer division by zero gives 0 (by the number 0 it panics). The
    /// operator `/` is the same. Takes floats and integers.
    div => Div;
    /// `⌊a/b⌋`; integer division by zero gives 0 (by the number 0 it panics). Takes floats and integers.
    floor_div => FloorDiv;
    /// `a - b·⌊a/b⌋`: the remainder with the sign of `b`, as in Python (Rust's `%` on numbers takes the sign of `a`);
    /// integers by zero give 0 (by the number 0 it panics). The operator `%` is the same. Takes floats and integers.
    rem => Rem;
    /// The smaller of the two; NaN if either is NaN. Takes floats and integers.
    minimum => Minimum;
    /// The larger of the two; NaN if either is NaN. Takes floats and integers.
    maximum => Maximum;
    /// The angle of the point (`b`, `a`) from the positive x axis, in (-π, π]. Takes floats.
    atan2 => Atan2;
    /// `√(a² + b²)` without intermediate overflow. Takes floats.
    hypot => Hypot;
    /// `a = b`, as bool. Takes every dtype.
    eq => Eq;
    /// `a ≠ b`, as bool; true if either is NaN. Takes every dtype.
    ne => Ne;
    /// `a < b`, as bool. Takes floats and integers.
    lt => Lt;
    /// `a ≤ b`, as bool. Takes floats and integers.
    le => Le;
    /// `a > b`, as bool. Takes floats and integers.
    gt => Gt;
    /// `a ≥ b`, as bool. Takes floats and integers.
    ge => Ge;
    /// Logical and. The operator `&` is the same. Takes bool.
    and => And;
    /// Logical or. The operator `|` is the same. Takes bool.
    or => Or;
    /// Logical exclusive or. The operator `^` is the same. Takes bool.
    xor => Xor;
    /// Bitwise and. The operator `&` is the same. Takes integers.
    bit_and => BitAnd;
    /// Bitwise or. The operator `|` is the same. Takes integers.
    bit_or => BitOr;
    /// Bitwise exclusive or. The operator `^` is the same. Takes integers.
    bit_xor => BitXor;
    /// `a` shifted left by `b` bits; 0 where `b` is negative or at least the width. The operator `<<` is the same.
    /// Takes integers.
    shl => Shl;
    /// `a` shifted right by `b` bits, arithmetic for signed dtypes; only sign bits remain if `b` is negative or at
    /// least the width. The operator `>>` is the same. Takes integers.
    shr => Shr;
}

impl Tensor {
    /// Selects elements by a condition, as `torch.where` and `numpy.where`: `a` where `self` is true, else `b`. All
    /// three broadcast; `a` and `b` may be scalars (two scalars give f32, i64 or bool).
    ///
    /// # Panics
    /// When `self` is not bool, the shapes do not broadcast, or `a` and `b` differ in dtype.
    #[track_caller]
    pub fn where_(&self, a: impl IntoOperand, b: impl IntoOperand) -> Tensor {
        if self.dtype() != DType::Bool {
            crate::record::wrong_dtype("where", "bool", self.dtype());
        }
        ternary(ElementOp::Where, [self.operand(), a.operand(), b.operand()])
    }

    /// `self` with `value` where `mask` is true.
    ///
    /// # Panics
    /// As [`where_`](Tensor::where_).
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl IntoOperand) -> Tensor {
        mask.where_(value, self)
    }

    /// `min(max(x, low), high)`; NaN for NaN. If the bounds cross, the result is `high`. Takes floats and integers.
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not taken, or a scalar does not fit.
    #[track_caller]
    #[doc(alias = "clip")]
    pub fn clamp(&self, low: impl IntoOperand, high: impl IntoOperand) -> Tensor {
        ternary(ElementOp::Clamp, [self.operand(), low.operand(), high.operand()])
    }

    /// `self + weight·(end - self)`: linear interpolation, as `torch.lerp`. Takes floats.
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn lerp(&self, end: impl IntoOperand, weight: impl IntoOperand) -> Tensor {
        ternary(ElementOp::Lerp, [self.operand(), end.operand(), weight.operand()])
    }

    /// The elements converted to `dtype`; every pair of dtypes is allowed.
    ///
    /// Float to float rounds to nearest, ties to even (overflow gives an infinity). Float to integer truncates toward
    /// zero and saturates; NaN gives 0. Integer to integer wraps, integer to float rounds. Conversion to bool is
    /// `x ≠ 0` (NaN is true); bool converts to 0 and 1.
    #[doc(alias = "astype")]
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tensor {
        if dtype == self.dtype() {
            return self.clone();
        }
        record1(Op::Cast, dtype, *self.shape(), 0, self, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_method() {
        let written_out = [
            ("pow", ElementOp::Pow),
            ("where", ElementOp::Where),
            ("clamp", ElementOp::Clamp),
            ("lerp", ElementOp::Lerp),
        ];
        let methods: Vec<_> = UNARY.iter().chain(BINARY).chain(&written_out).collect();
        for op in ElementOp::ALL.iter().filter(|op| op.name() != "probe") {
            let found: Vec<_> = methods.iter().filter(|(_, o)| o == op).collect();
            assert_eq!(found.len(), 1, "{op:?}");
            assert_eq!(found[0].0, op.name());
        }
    }
}
