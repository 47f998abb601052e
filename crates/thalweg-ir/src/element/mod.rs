//! Table of elementwise operations.
//!
//! An operation is one row of [`ROWS`]: name, dtypes, meaning (evaluated in f64 or i64 by the reference interpreter),
//! expansion into simpler operations (for code generators without an instruction or polynomial for it), derivative and
//! its value at kinks, cost, and the permitted error of a device. The interpreter, every code generator, autodiff, the
//! docs and the fuzzer read the row; adding an operation takes a variant and a row, nothing else: devices generate code
//! for the operations that they know and expand the rest. The operation `Probe` (feature `probe`, tests only) is such a
//! row: it runs on every engine and in the fuzzer, and no other file mentions it.

pub mod integers;
mod meaning;
mod rows;

use crate::DType;
pub use rows::ROWS;

macro_rules! element_ops {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Elementwise operation; [`ElementOp::row`] defines it.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum ElementOp {
            $($(#[$doc])* $name,)*
            /// `x / (1 + e^(-|x|))`: shows that a row is all that an operation takes.
            #[cfg(feature = "probe")]
            Probe,
        }

        impl ElementOp {
            /// All elementwise operations, in table order.
            pub const ALL: &[ElementOp] = &[
                $(ElementOp::$name,)*
                #[cfg(feature = "probe")]
                ElementOp::Probe,
            ];
        }
    };
}

element_ops! {
    /// `-x`; integers wrap.
    Neg,
    /// `|x|`; integers wrap.
    Abs,
    /// -1, 0 or 1 by the sign of `x`; NaN stays NaN, -0 gives 0.
    Sign,
    /// `x·x`.
    Square,
    /// `√x`.
    Sqrt,
    /// `1/√x`.
    Rsqrt,
    /// `1/x`.
    Recip,
    /// `eˣ`.
    Exp,
    /// `2ˣ`.
    Exp2,
    /// `eˣ - 1`, accurate near 0.
    Expm1,
    /// Natural logarithm.
    Log,
    /// Logarithm to base 2, exact at powers of 2.
    Log2,
    /// Logarithm to base 10.
    Log10,
    /// `ln(1 + x)`, accurate near 0.
    Log1p,
    /// Sine of radians.
    Sin,
    /// Cosine of radians.
    Cos,
    /// Tangent of radians.
    Tan,
    /// Inverse sine, in radians.
    Asin,
    /// Inverse cosine, in radians.
    Acos,
    /// Inverse tangent, in radians.
    Atan,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Hyperbolic tangent.
    Tanh,
    /// Inverse hyperbolic sine.
    Asinh,
    /// Inverse hyperbolic cosine.
    Acosh,
    /// Inverse hyperbolic tangent.
    Atanh,
    /// The error function `2/√π ∫₀ˣ e^(-t²) dt`.
    Erf,
    /// `1 - erf(x)`, accurate where it is small.
    Erfc,
    /// `1/(1 + e⁻ˣ)`.
    Sigmoid,
    /// `max(x, 0)`, NaN kept.
    Relu,
    /// Largest integer not above `x`.
    Floor,
    /// Smallest integer not below `x`.
    Ceil,
    /// Nearest integer, ties to even.
    Round,
    /// Integer part, rounded toward zero.
    Trunc,
    /// Whether `x` is NaN.
    IsNan,
    /// Whether `x` is an infinity.
    IsInf,
    /// Whether `x` is neither NaN nor an infinity.
    IsFinite,
    /// Logical not.
    Not,
    /// Every bit inverted.
    BitNot,
    /// `a + b`; integers wrap.
    Add,
    /// `a - b`; integers wrap.
    Sub,
    /// `a·b`; integers wrap.
    Mul,
    /// `a/b`; integers truncate toward zero, and division by zero gives 0.
    Div,
    /// `⌊a/b⌋`; integer division by zero gives 0.
    FloorDiv,
    /// `a - b·⌊a/b⌋`: the remainder with the sign of `b`, as in Python; integers: by zero gives 0.
    Rem,
    /// `a` to the power `b`; integers: a negative exponent gives 0 (1 and -1 excepted), overflow wraps.
    Pow,
    /// Smaller of two; NaN if either is NaN.
    Minimum,
    /// Larger of two; NaN if either is NaN.
    Maximum,
    /// The angle of the point (b, a) from the positive x axis: `atan2(y, x)`.
    Atan2,
    /// `√(a² + b²)` without intermediate overflow.
    Hypot,
    /// `a = b`.
    Eq,
    /// `a ≠ b`; true if either is NaN.
    Ne,
    /// `a < b`.
    Lt,
    /// `a ≤ b`.
    Le,
    /// `a > b`.
    Gt,
    /// `a ≥ b`.
    Ge,
    /// Logical and.
    And,
    /// Logical or.
    Or,
    /// Logical exclusive or.
    Xor,
    /// Bitwise and.
    BitAnd,
    /// Bitwise or.
    BitOr,
    /// Bitwise exclusive or.
    BitXor,
    /// `a` shifted left by `b` bits; 0 where `b` is negative or at least the width.
    Shl,
    /// `a` shifted right by `b` bits, arithmetic for signed types; only sign bits remain if `b` is negative or at least
    /// the width.
    Shr,
    /// `b` where the condition `a` holds, else `c`.
    Where,
    /// `min(max(a, b), c)`, NaN kept.
    Clamp,
    /// `a + c·(b - a)`.
    Lerp,
}

/// A set of dtype classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classes(u8);

impl Classes {
    /// f32, f64, bf16, f16.
    pub const FLOAT: Classes = Classes(1);
    /// Integer dtypes.
    pub const INT: Classes = Classes(2);
    /// bool.
    pub const BOOL: Classes = Classes(4);
    /// Floats and integers.
    pub const NUMBER: Classes = Classes(3);
    /// Every dtype.
    pub const ANY: Classes = Classes(7);

    /// Whether the dtype's class is in the set.
    pub const fn has(self, dtype: DType) -> bool {
        let bit = if dtype.is_float() {
            1
        } else if dtype.is_int() {
            2
        } else {
            4
        };
        self.0 & bit != 0
    }

    /// The set in words, for error messages.
    pub const fn describe(self) -> &'static str {
        match self.0 {
            1 => "a float dtype",
            2 => "an integer dtype",
            3 => "a float or integer dtype",
            4 => "bool",
            6 => "an integer dtype or bool",
            _ => "any dtype",
        }
    }
}

/// Dtype of an operation's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Dtype of the arguments.
    Same,
    /// Always bool.
    Bool,
}

/// Function of an operation on exact values: floats as f64, integers and bool as i64, u64 as the i64 of its bits.
///
/// The caller rounds or wraps the result to the output dtype.
#[derive(Clone, Copy)]
pub struct Meaning {
    /// Function on floats. A bool result is 0 or 1.
    pub float: Option<fn(&[f64]) -> f64>,
    /// Function on integers and bool; the dtype gives the width. A bool result is 0 or 1.
    pub int: Option<fn(&[i64], DType) -> i64>,
}

/// Value of an expression under construction; its [`Build`]er interprets the number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Expr(pub u32);

/// Builder of expressions: a kernel body, a tape of tensors.
pub trait Build {
    /// Applies an operation.
    fn op(&mut self, op: ElementOp, args: &[Expr]) -> Expr;
    /// A constant of the dtype of `like`.
    fn constant(&mut self, like: Expr, value: f64) -> Expr;
}

/// Expansion of an operation into simpler ones: builder and arguments in, result out.
pub type Expansion = fn(&mut dyn Build, &[Expr]) -> Expr;

/// Partial derivatives: builder, arguments and the operation's own result in; `∂y/∂xᵢ` out, one per argument. `None`
/// for an argument without gradient (a condition).
pub type Derivative = fn(&mut dyn Build, &[Expr], Expr) -> Vec<Option<Expr>>;

/// Definition of an elementwise operation.
pub struct Row {
    /// The operation.
    pub op: ElementOp,
    /// Name: the method on `Tensor`, and the word in explanations.
    pub name: &'static str,
    /// Number of arguments.
    pub arity: usize,
    /// Dtypes of its arguments ([`ElementOp::Where`]: all except the condition).
    pub takes: Classes,
    /// Dtype of its result.
    pub output: Output,
    /// Function that it computes.
    pub meaning: Meaning,
    /// Expansion into simpler operations, for devices without it; `None` for primitives, which every device has.
    pub expand: Option<Expansion>,
    /// Derivative on floats; `None` if it is zero almost everywhere (see `flat`) or does not exist because it takes or
    /// gives no floats.
    pub derivative: Option<Derivative>,
    /// Whether its derivative is zero wherever it exists: a step.
    pub flat: bool,
    /// Chosen derivative at points where the left and right derivatives differ; `None` if there are no such points.
    pub kink: Option<&'static str>,
    /// Whether the value jumps where an argument passes some points, though the derivative is not zero between them
    /// (see [`Row::selects`]).
    pub jumps: bool,
    /// Whether the operation is a function of a mathematical library or composed of one. A compiler's constant folding
    /// may round it differently from a device.
    pub function: bool,
    /// Permitted error of a device in units in the last place of f32 and f64; 0 if correctly rounded.
    pub ulps: u32,
    /// Arithmetic cost per element, in additions.
    pub cost: u32,
    /// Whether the order of the first two arguments does not matter.
    pub commutative: bool,
}

impl Row {
    /// Whether the operation makes a discrete choice: a rounding error of an argument may change the result by more
    /// than a rounding error. Comparisons, steps and remainders do. Their arguments are rounded to their dtype first.
    pub fn selects(&self) -> bool {
        self.flat || self.jumps || self.output == Output::Bool
    }

    /// Whether every result on floats is a number of the arguments' dtype, hence needs no rounding.
    pub fn is_exact(&self) -> bool {
        use ElementOp::*;
        matches!(self.op, Neg | Abs | Sign | Relu | Floor | Ceil | Round | Trunc | Minimum | Maximum | Where | Clamp)
    }
}

impl ElementOp {
    /// Row of the operation in the table.
    #[inline]
    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Name of the operation.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The operation with a name.
    pub fn from_name(name: &str) -> Option<ElementOp> {
        ElementOp::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// The operation with a discriminant.
    pub fn from_index(index: u8) -> Option<ElementOp> {
        ElementOp::ALL.get(index as usize).copied()
    }

    /// Dtype of the result for arguments of `dtype`.
    #[inline]
    pub fn output(self, dtype: DType) -> DType {
        match self.row().output {
            Output::Same => dtype,
            Output::Bool => DType::Bool,
        }
    }
}

#[cfg(test)]
mod tests;
