//! [`Real`]: the float type that kernels are generic over.

use super::integer::{Int, Mask};
use super::repr::Repr;
use super::trace::Traced;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Rem, RemAssign, Sub, SubAssign};
use thalweg_ir::ElementOp;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident => $op:ident($($arg:ident),*);)*) => {$(
        $(#[$doc])*
        fn $name(self $(, $arg: Self)*) -> Self {
            Self::apply(ElementOp::$op, &[self $(, $arg)*])
        }
    )*};
}

/// Float type that a kernel is generic over: `f32`, `f64`, and the traced numbers of a call on tensors.
///
/// Its operators and functions have the meaning of those of `Tensor`, on numbers, too: `max` keeps NaN, `%` has the
/// sign of the divisor, `round` takes halves to even. Float literals have this type, too; convert computed constants
/// with [`lit`](Real::lit).
pub trait Real:
    Repr
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + RemAssign
{
    /// A constant: `F::lit(std::f64::consts::PI)`, `F::lit(k as f64)`.
    fn lit(value: f64) -> Self {
        Self::constant(value)
    }

    functions! {
        /// `|x|`.
        abs => Abs();
        /// -1, 0 or 1 by the sign; NaN for NaN.
        sign => Sign();
        /// `x·x`.
        square => Square();
        /// `√x`.
        sqrt => Sqrt();
        /// `1/√x`.
        rsqrt => Rsqrt();
        /// `1/x`.
        recip => Recip();
        /// `eˣ`.
        exp => Exp();
        /// `2ˣ`.
        exp2 => Exp2();
        /// `eˣ - 1`, accurate near 0.
        exp_m1 => Expm1();
        /// The natural logarithm.
        ln => Log();
        /// The logarithm to base 2.
        log2 => Log2();
        /// The logarithm to base 10.
        log10 => Log10();
        /// `ln(1 + x)`, accurate near 0.
        ln_1p => Log1p();
        /// The sine of radians.
        sin => Sin();
        /// The cosine of radians.
        cos => Cos();
        /// The tangent of radians.
        tan => Tan();
        /// The inverse sine.
        asin => Asin();
        /// The inverse cosine.
        acos => Acos();
        /// The inverse tangent.
        atan => Atan();
        /// The hyperbolic sine.
        sinh => Sinh();
        /// The hyperbolic cosine.
        cosh => Cosh();
        /// The hyperbolic tangent.
        tanh => Tanh();
        /// The inverse hyperbolic sine.
        asinh => Asinh();
        /// The inverse hyperbolic cosine.
        acosh => Acosh();
        /// The inverse hyperbolic tangent.
        atanh => Atanh();
        /// The error function.
        erf => Erf();
        /// `1 - erf(x)`, accurate where it is small.
        erfc => Erfc();
        /// `1/(1 + e⁻ˣ)`.
        sigmoid => Sigmoid();
        /// `max(x, 0)`; NaN for NaN.
        relu => Relu();
        /// The largest integer not above `x`.
        floor => Floor();
        /// The smallest integer not below `x`.
        ceil => Ceil();
        /// The nearest integer, halves to even.
        round => Round();
        /// The integer part, toward zero.
        trunc => Trunc();
        /// `x` to the power `y`.
        powf => Pow(y);
        /// `⌊x/y⌋`.
        floor_div => FloorDiv(y);
        /// The smaller of the two numbers; NaN if either is NaN.
        min => Minimum(y);
        /// The larger of the two numbers; NaN if either is NaN.
        max => Maximum(y);
        /// The angle of the point (`x`, `self`) from the positive x axis.
        atan2 => Atan2(x);
        /// `√(x² + y²)` without intermediate overflow.
        hypot => Hypot(y);
        /// `x` clamped to `[low, high]`; NaN for NaN.
        clamp => Clamp(low, high);
        /// `x + weight·(end - x)`.
        lerp => Lerp(end, weight);
    }

    /// `x·a + b`, rounded once or twice, depending on the device.
    fn mul_add(self, a: Self, b: Self) -> Self {
        self * a + b
    }

    /// `x` to an integer power, by squaring; 1 for 0.
    fn powi(self, n: i32) -> Self {
        let (mut rest, mut square, mut product) = (n.unsigned_abs(), self, None);
        while rest > 0 {
            if rest & 1 == 1 {
                product = Some(product.map_or(square, |p| p * square));
            }
            rest >>= 1;
            if rest > 0 {
                square = square * square;
            }
        }
        match product {
            None => Self::lit(1.0),
            Some(p) if n < 0 => p.recip(),
            Some(p) => p,
        }
    }

    /// Whether the number is NaN.
    fn is_nan(self) -> Mask<Self> {
        Mask(Self::test(ElementOp::IsNan, &[self]))
    }

    /// Whether the number is an infinity.
    fn is_infinite(self) -> Mask<Self> {
        Mask(Self::test(ElementOp::IsInf, &[self]))
    }

    /// Whether the number is neither NaN nor an infinity.
    fn is_finite(self) -> Mask<Self> {
        Mask(Self::test(ElementOp::IsFinite, &[self]))
    }

    /// Converts an integer of the kernel to a float.
    fn of_int(i: impl Into<Int<Self>>) -> Self {
        Self::from_int(i.into().0)
    }
}

macro_rules! operators {
    ($t:ty: $($trait:ident $f:ident $op:ident, $assign:ident $g:ident;)*) => {$(
        impl $trait for $t {
            type Output = $t;
            fn $f(self, other: $t) -> $t {
                <$t as Repr>::apply(ElementOp::$op, &[self, other])
            }
        }
        impl $assign for $t {
            fn $g(&mut self, other: $t) {
                *self = $trait::$f(*self, other);
            }
        }
    )*};
}

operators! { Traced:
    Add add Add, AddAssign add_assign;
    Sub sub Sub, SubAssign sub_assign;
    Mul mul Mul, MulAssign mul_assign;
    Div div Div, DivAssign div_assign;
    Rem rem Rem, RemAssign rem_assign;
}

impl Neg for Traced {
    type Output = Traced;
    fn neg(self) -> Traced {
        <Traced as Repr>::apply(ElementOp::Neg, &[self])
    }
}

impl Real for Traced {}
impl Real for f32 {}
impl Real for f64 {}
