//! Elementwise methods, one for each row of the elementwise table, and conversion between dtypes.
//!
//! A method has the name of its row; a test compares the two lists. `pow` is in powers.rs, because special exponents
//! are cheaper operations.

use crate::record::{binary, record1, ternary, unary};
use crate::{DType, IntoOperand, Tensor};
use thalweg_ir::{ElementOp, Op};

macro_rules! unary_methods {
    ($(#[$about:meta])* $list:ident: $($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        $(#[$about])*
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
        const $list: &[(&str, ElementOp)] = &[$((stringify!($name), ElementOp::$op)),*];
    };
}

macro_rules! binary_methods {
    ($(#[$about:meta])* $list:ident: $($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        $(#[$about])*
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
        const $list: &[(&str, ElementOp)] = &[$((stringify!($name), ElementOp::$op)),*];
    };
}

binary_methods! {
    /// # Arithmetic
    ///
    /// Operations of two operands: another tensor, which broadcasts by NumPy's rule, or a number. The operators `+ - *
    /// / %` are the same, also with a number on the left. See [`pow`](Tensor::pow) for powers and
    /// [`matmul`](Tensor::matmul) for the matrix product.
    ARITHMETIC:
    /// `a + b`; integers wrap. The operator `+` is the same. Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([[1.0f32], [2.0]]) + Tensor::new([10.0f32, 20.0]);      // broadcasts to [2, 2]
    /// assert_eq!(x.to_vec::<f32>()?, [11.0, 21.0, 12.0, 22.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    add => Add;
    /// `a - b`; integers wrap. The operator `-` is the same. Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((1.0 - Tensor::new([0.25f32, 3.0])).to_vec::<f32>()?, [0.75, -2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sub => Sub;
    /// `a·b`; integers wrap. The operator `*` is the same. Takes floats and integers.
    ///
    /// The matrix product is [`matmul`](Tensor::matmul).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((Tensor::new([1i32, 2]) * 3).to_vec::<i32>()?, [3, 6]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    mul => Mul;
    /// `a/b`; integers truncate toward zero, and integer division by zero gives 0 (by the number 0 it panics). The
    /// operator `/` is the same. Takes floats and integers.
    ///
    /// See also [`floor_div`](Tensor::floor_div), which rounds down.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((Tensor::new([1.0f32, -7.0]) / 2.0).to_vec::<f32>()?, [0.5, -3.5]);
    /// assert_eq!((Tensor::new([1i32, -7]) / 2).to_vec::<i32>()?, [0, -3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    div => Div;
    /// `⌊a/b⌋`; integer division by zero gives 0 (by the number 0 it panics). Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([7i32, -7]).floor_div(2).to_vec::<i32>()?, [3, -4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    floor_div => FloorDiv;
    /// `a - b·⌊a/b⌋`: the remainder with the sign of `b`, as in Python (Rust's `%` on numbers takes the sign of `a`);
    /// integers by zero give 0 (by the number 0 it panics). The operator `%` is the same. Takes floats and integers.
    ///
    /// See also [`fmod`](Tensor::fmod) with the sign of `a`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((Tensor::new([7i32, -7]) % 3).to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    rem => Rem;
    /// The smaller of the two; NaN if either is NaN. Takes floats and integers.
    ///
    /// The smallest element of one tensor is [`amin`](Tensor::amin).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 5.0]).minimum(3.0).to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    minimum => Minimum;
    /// The larger of the two; NaN if either is NaN. Takes floats and integers.
    ///
    /// The largest element of one tensor is [`amax`](Tensor::amax).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 5.0]).maximum(Tensor::new([2.0f32, 4.0])).to_vec::<f32>()?, [2.0, 5.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    maximum => Maximum;
    /// The angle of the point (`b`, `a`) from the positive x axis, in (-π, π]. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0.0f32, 1.0]).atan2(1.0).to_vec::<f32>()?, [0.0, std::f32::consts::FRAC_PI_4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    atan2 => Atan2;
    /// `√(a² + b²)` without intermediate overflow. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([3.0f64, 0.0]).hypot(4.0).to_vec::<f64>()?, [5.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    hypot => Hypot;
}

unary_methods! {
    /// # Functions of one tensor
    ///
    /// Applied to each element. Activations of neural networks and special functions follow further down.
    FUNCTIONS:
    /// `-x`; integers wrap. The operator `-x` is the same. Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((-Tensor::new([1.0f32, -2.0])).to_vec::<f32>()?, [-1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    neg => Neg;
    /// `|x|`; integers wrap (`abs` of the smallest one is itself). Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([-1.5f32, 2.0]).abs().to_vec::<f32>()?, [1.5, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    abs => Abs;
    /// -1, 0 or 1 by the sign of `x`; NaN for NaN, 0 for -0. Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([-3i32, 0, 5]).sign().to_vec::<i32>()?, [-1, 0, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sign => Sign;
    /// `x·x`; integers wrap. Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([3.0f32, -2.0]).square().to_vec::<f32>()?, [9.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    square => Square;
    /// `√x`; NaN below 0. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([4.0f32, 9.0]).sqrt().to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sqrt => Sqrt;
    /// `1/√x`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new(4.0f64).rsqrt().item::<f64>()?, 0.5);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    rsqrt => Rsqrt;
    /// `1/x`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([4.0f32, -0.5]).recip().to_vec::<f32>()?, [0.25, -2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    recip => Recip;
    /// `eˣ`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([0.0f32, 1.0]).exp().allclose(Tensor::new([1.0f32, 2.718282]), 1e-6, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    exp => Exp;
    /// `2ˣ`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([3.0f32, -1.0]).exp2().to_vec::<f32>()?, [8.0, 0.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    exp2 => Exp2;
    /// `eˣ - 1`, accurate near 0. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new(1e-10f64).expm1().allclose(1e-10, 1e-9, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    expm1 => Expm1;
    /// The natural logarithm `ln x`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([1.0f32, 2.718282]).log().allclose(Tensor::new([0.0f32, 1.0]), 1e-6, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    log => Log;
    /// The logarithm to base 2, exact at powers of 2. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 8.0]).log2().to_vec::<f32>()?, [0.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    log2 => Log2;
    /// The logarithm to base 10. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([1.0f32, 1000.0]).log10().allclose(Tensor::new([0.0f32, 3.0]), 1e-6, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    log10 => Log10;
    /// `ln(1 + x)`, accurate near 0. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new(1e-10f64).log1p().allclose(1e-10, 1e-9, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    log1p => Log1p;
    /// The sine of radians. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([0.0f64, 1.5707963267948966]).sin().allclose(Tensor::new([0.0f64, 1.0]), 0.0, 1e-12)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sin => Sin;
    /// The cosine of radians. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([0.0f64, 3.141592653589793]).cos().allclose(Tensor::new([1.0f64, -1.0]), 0.0, 1e-12)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    cos => Cos;
    /// The tangent of radians. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new(0.7853981633974483f64).tan().allclose(1.0, 1e-12, 0.0)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    tan => Tan;
    /// The inverse sine, in radians; NaN outside [-1, 1]. Takes floats.
    asin => Asin;
    /// The inverse cosine, in radians; NaN outside [-1, 1]. Takes floats.
    acos => Acos;
    /// The inverse tangent, in radians. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0.0f32, 1.0]).atan().to_vec::<f32>()?, [0.0, std::f32::consts::FRAC_PI_4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    atan => Atan;
    /// The hyperbolic sine `(eˣ - e⁻ˣ)/2`. Takes floats.
    sinh => Sinh;
    /// The hyperbolic cosine `(eˣ + e⁻ˣ)/2`. Takes floats.
    cosh => Cosh;
    /// The hyperbolic tangent `sinh x / cosh x`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0.0f32, 100.0]).tanh().to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    tanh => Tanh;
    /// The inverse hyperbolic sine. Takes floats.
    asinh => Asinh;
    /// The inverse hyperbolic cosine; NaN below 1. Takes floats.
    acosh => Acosh;
    /// The inverse hyperbolic tangent; NaN outside [-1, 1]. Takes floats.
    atanh => Atanh;
    /// The error function `2/√π ∫₀ˣ e^(-t²) dt`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([0.0f32, 1.0]).erf().allclose(Tensor::new([0.0f32, 0.842701]), 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    erf => Erf;
    /// `1 - erf(x)`, accurate where it is small. Takes floats.
    erfc => Erfc;
    /// The logistic function `1/(1 + e⁻ˣ)`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::new([0.0f32, 2.0]).sigmoid().allclose(Tensor::new([0.5f32, 0.880797]), 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sigmoid => Sigmoid;
    /// `max(x, 0)`; NaN for NaN. Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([-1.0f32, 2.0]).relu().to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    relu => Relu;
}

unary_methods! {
    /// # Rounding
    ///
    /// To integers, in the dtype of the tensor; [`round_to`](Tensor::round_to) keeps decimals, [`cast`](Tensor::cast)
    /// gives an integer dtype.
    ROUNDING:
    /// The largest integer not above `x`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.5f32, -1.5]).floor().to_vec::<f32>()?, [1.0, -2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    floor => Floor;
    /// The smallest integer not below `x`. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.5f32, -1.5]).ceil().to_vec::<f32>()?, [2.0, -1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ceil => Ceil;
    /// The nearest integer, halves to even. Takes floats.
    ///
    /// See also [`round_to`](Tensor::round_to) for decimals, [`trunc`](Tensor::trunc), [`floor`](Tensor::floor).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0.5f32, 1.5, 2.4]).round().to_vec::<f32>()?, [0.0, 2.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    round => Round;
    /// The integer part, toward zero. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.7f32, -1.7]).trunc().to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    trunc => Trunc;
}

binary_methods! {
    /// # Comparisons
    ///
    /// Results are bool. Rust's `==` and `<` cannot return tensors, so these are methods. [`isclose`](Tensor::isclose)
    /// compares with a tolerance.
    COMPARISONS:
    /// `a = b`, as bool. Takes every dtype.
    ///
    /// See also [`isclose`](Tensor::isclose) for floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2]).eq(2).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    eq => Eq;
    /// `a ≠ b`, as bool; true if either is NaN. Takes every dtype.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1i32, 2]).ne(2).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ne => Ne;
    /// `a < b`, as bool. Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 2.0]).lt(2.0).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    lt => Lt;
    /// `a ≤ b`, as bool. Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 3.0]).le(Tensor::new([2.0f32, 2.0])).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    le => Le;
    /// `a > b`, as bool. Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 3.0]).gt(2.0).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    gt => Gt;
    /// `a ≥ b`, as bool. Takes floats and integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, 2.0]).ge(2.0).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ge => Ge;
}

unary_methods! {
    /// # Tests of floats
    ///
    /// Results are bool.
    TESTS:
    /// Whether `x` is NaN, as bool. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::NAN]).is_nan().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    is_nan => IsNan;
    /// Whether `x` is an infinity, as bool. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::INFINITY]).is_inf().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    is_inf => IsInf;
    /// Whether `x` is neither NaN nor an infinity, as bool. Takes floats.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([1.0f32, f32::INFINITY]).is_finite().to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    is_finite => IsFinite;
}

binary_methods! {
    /// # Logic and bits
    LOGIC:
    /// Logical and. The operator `&` is the same. Takes bool.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([0.5f32, 2.0]);
    /// assert_eq!((x.gt(0.0) & x.lt(1.0)).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    and => And;
    /// Logical or. The operator `|` is the same. Takes bool.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([0.5f32, 2.0]);
    /// assert_eq!((x.lt(0.0) | x.gt(1.0)).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    or => Or;
    /// Logical exclusive or. The operator `^` is the same. Takes bool.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((Tensor::new([true, false]) ^ true).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    xor => Xor;
    /// Bitwise and. The operator `&` is the same. Takes integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((Tensor::new([6i32, 5]) & 3).to_vec::<i32>()?, [2, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    bit_and => BitAnd;
    /// Bitwise or. The operator `|` is the same. Takes integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((Tensor::new([4i32, 1]) | 1).to_vec::<i32>()?, [5, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    bit_or => BitOr;
    /// Bitwise exclusive or. The operator `^` is the same. Takes integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((Tensor::new([4i32, 1]) ^ 1).to_vec::<i32>()?, [5, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    bit_xor => BitXor;
    /// `a` shifted left by `b` bits; 0 where `b` is negative or at least the width. The operator `<<` is the same.
    /// Takes integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((Tensor::new([1i32, 3]) << 2).to_vec::<i32>()?, [4, 12]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    shl => Shl;
    /// `a` shifted right by `b` bits, arithmetic for signed dtypes; only sign bits remain if `b` is negative or at
    /// least the width. The operator `>>` is the same. Takes integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((Tensor::new([8i32, -8]) >> 1).to_vec::<i32>()?, [4, -4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    shr => Shr;
}

unary_methods! {
    /// # Logic and bits: inversion
    INVERSIONS:
    /// Logical not. The operator `!x` is the same. Takes bool.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((!Tensor::new([true, false])).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    not => Not;
    /// Every bit inverted. The operator `!x` is the same. Takes integers.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!((!Tensor::new([0u8, 1])).to_vec::<u8>()?, [255, 254]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    bit_not => BitNot;
}

/// # Selection and bounds
impl Tensor {
    /// Selects elements by a condition, as `torch.where` and `numpy.where`: `a` where `self` is true, else `b`. All
    /// three broadcast; `a` and `b` may be scalars (two scalars give f32, i64 or bool).
    ///
    /// See also [`masked_fill`](Tensor::masked_fill) and [`masked_select`](Tensor::masked_select).
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([1.0f32, -2.0]);
    /// assert_eq!(x.gt(0.0).where_(&x, 0.0).to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
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
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([1.0f32, -2.0]);
    /// assert_eq!(x.masked_fill(&x.lt(0.0), 9.0).to_vec::<f32>()?, [1.0, 9.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`where_`](Tensor::where_).
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl IntoOperand) -> Tensor {
        mask.where_(value, self)
    }

    /// `min(max(x, low), high)`; NaN for NaN. If the bounds cross, the result is `high`. Takes floats and integers.
    ///
    /// See also [`hardtanh`](Tensor::hardtanh), whose gradient is 0 at the bounds.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([-1.0f32, 0.5, 7.0]).clamp(0.0, 1.0).to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
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
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::new([0.0f32, 10.0]).lerp(20.0, 0.25).to_vec::<f32>()?, [5.0, 12.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When shapes do not broadcast, dtypes differ or are not floats.
    #[track_caller]
    pub fn lerp(&self, end: impl IntoOperand, weight: impl IntoOperand) -> Tensor {
        ternary(ElementOp::Lerp, [self.operand(), end.operand(), weight.operand()])
    }
}

/// # Conversion of dtypes
impl Tensor {
    /// The elements converted to `dtype`; every pair of dtypes is allowed.
    ///
    /// Float to float rounds to nearest, ties to even (overflow gives an infinity). Float to integer truncates toward
    /// zero and saturates; NaN gives 0. Integer to integer wraps, integer to float rounds. Conversion to bool is
    /// `x ≠ 0` (NaN is true); bool converts to 0 and 1.
    ///
    /// The bits as another dtype are [`bitcast`](Tensor::bitcast).
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// let x = Tensor::new([1.9f32, -1.9, 300.0]);
    /// assert_eq!(x.cast(DType::U8).to_vec::<u8>()?, [1, 0, 255]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
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
        let methods =
            [ARITHMETIC, FUNCTIONS, ROUNDING, COMPARISONS, TESTS, LOGIC, INVERSIONS, &written_out[..]].concat();
        for op in ElementOp::ALL.iter().filter(|op| op.name() != "probe") {
            let found: Vec<_> = methods.iter().filter(|(_, o)| o == op).collect();
            assert_eq!(found.len(), 1, "{op:?}");
            assert_eq!(found[0].0, op.name());
        }
    }
}
