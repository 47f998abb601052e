//! Table of elementwise operations.
//!
//! An operation is one row of [`ROWS`]: name, dtypes, meaning (evaluated in f64 or i64 by the reference interpreter),
//! expansion into simpler operations (for code generators without an instruction or polynomial for it), derivative and
//! its value at kinks, cost, and the permitted error of a device. The interpreter, every code generator, autodiff, the
//! docs and the fuzzer read the row. Adding an operation takes a variant and a row, nothing else: devices generate code
//! for the operations that they know, and expand the rest. The operation `Probe` (feature `probe`, tests only) proves
//! it: it runs on every engine and in the fuzzer, and no file outside this module mentions it.

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
            /// `x / (1 + e^(-|x|))`, a test operation that is defined by its row alone.
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
    /// Negation `-x`; integers wrap.
    Neg,
    /// Magnitude `|x|`; integers wrap.
    Abs,
    /// Sign of `x`: -1, 0 or 1; NaN stays NaN, -0 gives 0.
    Sign,
    /// Square `x·x`.
    Square,
    /// Square root `√x`.
    Sqrt,
    /// Reciprocal square root `1/√x`.
    Rsqrt,
    /// Reciprocal `1/x`.
    Recip,
    /// Exponential `eˣ`.
    Exp,
    /// Exponential to base 2, `2ˣ`.
    Exp2,
    /// Exponential minus 1, `eˣ - 1`, accurate near 0.
    Expm1,
    /// Natural logarithm of `x`.
    Log,
    /// Logarithm to base 2, exact at powers of 2.
    Log2,
    /// Logarithm of `x` to base 10.
    Log10,
    /// Natural logarithm of `1 + x`, accurate near 0.
    Log1p,
    /// Sine of `x`, an angle in radians.
    Sin,
    /// Cosine of `x`, an angle in radians.
    Cos,
    /// Tangent of `x`, an angle in radians.
    Tan,
    /// Inverse sine of `x`, in radians.
    Asin,
    /// Inverse cosine of `x`, in radians.
    Acos,
    /// Inverse tangent of `x`, in radians.
    Atan,
    /// Hyperbolic sine of `x`.
    Sinh,
    /// Hyperbolic cosine of `x`.
    Cosh,
    /// Hyperbolic tangent of `x`.
    Tanh,
    /// Inverse hyperbolic sine of `x`.
    Asinh,
    /// Inverse hyperbolic cosine of `x`.
    Acosh,
    /// Inverse hyperbolic tangent of `x`.
    Atanh,
    /// Error function `2/√π ∫₀ˣ e^(-t²) dt`.
    Erf,
    /// Complementary error function `1 - erf(x)`, accurate for large `x`, where the result is small.
    Erfc,
    /// Logistic function `1/(1 + e⁻ˣ)`.
    Sigmoid,
    /// Rectifier `max(x, 0)`; NaN stays NaN.
    Relu,
    /// Largest integer not above `x`.
    Floor,
    /// Smallest integer not below `x`.
    Ceil,
    /// Nearest integer, ties to even.
    Round,
    /// Integer part of `x`: rounds toward zero.
    Trunc,
    /// Whether `x` is NaN.
    IsNan,
    /// Whether `x` is an infinity.
    IsInf,
    /// Whether `x` is neither NaN nor an infinity.
    IsFinite,
    /// Logical negation of a bool.
    Not,
    /// Bitwise negation: every bit inverted.
    BitNot,
    /// Sum `a + b`; integers wrap.
    Add,
    /// Difference `a - b`; integers wrap.
    Sub,
    /// Product `a·b`; integers wrap.
    Mul,
    /// Quotient `a/b`; integers truncate toward zero, and integer division by zero gives 0.
    Div,
    /// Quotient rounded down, `⌊a/b⌋`; integer division by zero gives 0.
    FloorDiv,
    /// Remainder `a - b·⌊a/b⌋`, with the sign of `b`, as in Python; the integer remainder by zero is 0.
    Rem,
    /// Power `aᵇ`. Integers wrap; a negative exponent gives 0, except for the bases 1 and -1.
    Pow,
    /// Smaller of `a` and `b`; NaN if either is NaN.
    Minimum,
    /// Larger of `a` and `b`; NaN if either is NaN.
    Maximum,
    /// Angle, in radians, of the point (x, y) = (b, a) from the positive x axis: `atan2(a, b)`.
    Atan2,
    /// Hypotenuse `√(a² + b²)`, without intermediate overflow.
    Hypot,
    /// Comparison `a = b`.
    Eq,
    /// Comparison `a ≠ b`; true if either is NaN.
    Ne,
    /// Comparison `a < b`; false if either is NaN.
    Lt,
    /// Comparison `a ≤ b`; false if either is NaN.
    Le,
    /// Comparison `a > b`; false if either is NaN.
    Gt,
    /// Comparison `a ≥ b`; false if either is NaN.
    Ge,
    /// Logical and of two bools.
    And,
    /// Logical or of two bools.
    Or,
    /// Logical exclusive or of two bools.
    Xor,
    /// Bitwise and.
    BitAnd,
    /// Bitwise or.
    BitOr,
    /// Bitwise exclusive or.
    BitXor,
    /// Left shift of `a` by `b` bits; 0 if `b` is negative or at least the width of the dtype.
    Shl,
    /// Right shift of `a` by `b` bits, arithmetic for signed dtypes; only sign bits remain if `b` is negative or at
    /// least the width of the dtype.
    Shr,
    /// Selection by a condition: `b` where `a` is true, else `c`.
    Where,
    /// Clamping of `a` to the range `b..=c`: `min(max(a, b), c)`; NaN stays NaN.
    Clamp,
    /// Linear interpolation `a + c·(b - a)`.
    Lerp,
}

/// A set of dtype classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classes(u8);

impl Classes {
    /// Float dtypes.
    pub const FLOAT: Classes = Classes(1);
    /// Integer dtypes.
    pub const INT: Classes = Classes(2);
    /// The dtype bool.
    pub const BOOL: Classes = Classes(4);
    /// Floats and integers.
    pub const NUMBER: Classes = Classes(3);
    /// All dtypes.
    pub const ANY: Classes = Classes(7);

    /// Whether the set contains the class of a dtype.
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
    /// The dtype of the arguments.
    Same,
    /// Bool, whatever the arguments are (comparisons).
    Bool,
}

/// Reference function of an operation on exact values: floats as f64, integers and bool as i64, u64 as the i64 with the
/// same bits.
///
/// The caller rounds or wraps the result to the output dtype.
#[derive(Clone, Copy)]
pub struct Meaning {
    /// Function on floats. A bool result is 0 or 1.
    pub float: Option<fn(&[f64]) -> f64>,
    /// Function on integers and bool; the dtype gives the width. A bool result is 0 or 1.
    pub int: Option<fn(&[i64], DType) -> i64>,
}

/// Value of an expression under construction, as a number that its [`Build`]er interprets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Expr(pub u32);

/// Builder of expressions, implemented by a kernel body, by the tensors of a backward pass, and by the interpreter.
pub trait Build {
    /// Appends an operation on values, and returns its result.
    fn op(&mut self, op: ElementOp, args: &[Expr]) -> Expr;
    /// Appends a constant of the dtype of `like`.
    fn constant(&mut self, like: Expr, value: f64) -> Expr;
}

/// Function that expands an operation into simpler ones: gets the builder and the arguments, returns the result.
pub type Expansion = fn(&mut dyn Build, &[Expr]) -> Expr;

/// Function that builds the partial derivatives of an operation: gets the builder, the arguments and the operation's
/// result `y`; returns `∂y/∂xᵢ` for each argument, or `None` for an argument without gradient (a condition).
pub type Derivative = fn(&mut dyn Build, &[Expr], Expr) -> Vec<Option<Expr>>;

/// Definition of an elementwise operation: a row of the table.
pub struct Row {
    /// The operation.
    pub op: ElementOp,
    /// Name of the operation, which is that of the method on `Tensor`.
    pub name: &'static str,
    /// Number of arguments.
    pub arity: usize,
    /// Dtypes that the arguments may have ([`ElementOp::Where`]: all arguments except the condition).
    pub takes: Classes,
    /// Dtype of the result.
    pub output: Output,
    /// Reference function of the operation.
    pub meaning: Meaning,
    /// Expansion into simpler operations, for devices without code for this one; `None` for primitives, which every
    /// device has.
    pub expand: Option<Expansion>,
    /// Derivative on floats; `None` if it is zero almost everywhere (see `flat`), or if the operation takes or returns
    /// no floats.
    pub derivative: Option<Derivative>,
    /// Whether the operation is a step function: its derivative is zero wherever it exists.
    pub flat: bool,
    /// Description of the chosen derivative at points where the left and right derivatives differ, such as `0 at 0`;
    /// `None` if there are no such points.
    pub kink: Option<&'static str>,
    /// Whether the function has discontinuities although its derivative is not zero between them (remainders); see
    /// [`Row::selects`].
    pub jumps: bool,
    /// Whether the operation is a function of a mathematical library or composed of one. A compiler's constant folding
    /// may round it differently from a device.
    pub function: bool,
    /// Permitted error of a device, in units in the last place of f32 and f64; 0 if results must be correctly rounded.
    pub ulps: u32,
    /// Arithmetic cost per element, in additions.
    pub cost: u32,
    /// Whether the order of the first two arguments does not matter.
    pub commutative: bool,
}

impl Row {
    /// Whether the operation makes a discrete choice, so that a rounding error of an argument may change the result by
    /// more than a rounding error: comparisons, step functions, remainders. Kernels round the arguments of such an
    /// operation to their dtype first.
    pub fn selects(&self) -> bool {
        self.flat || self.jumps || self.output == Output::Bool
    }

    /// Whether every result on floats is exactly a number of the arguments' dtype, so that it needs no rounding.
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

    /// Returns the operation with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<ElementOp> {
        ElementOp::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// Returns the operation with this discriminant; `None` if there is none.
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
