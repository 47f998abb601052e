//! Vector operations in which the math functions are written.
//!
//! The modules of `math` write each function once, generic over a [`Machine`]. The emitter's machine records
//! instructions. The scalar machine computes with numbers, in loops that the compiler vectorises. The tile engine and
//! the accuracy tests use the scalar machine, so the tests check the arithmetic that is emitted.

/// A target for math functions: lanes of f32 (`F`), f64 (`D`), i32 (`I`), i64 (`L`), and masks (`M`) over them.
///
/// Comparisons are ordered: false if either side is NaN (`ne` is true). `fma` is fused: one rounding.
#[allow(clippy::wrong_self_convention, reason = "`self` is the machine, not the value converted")]
pub trait Machine {
    /// Vector of f32 lanes.
    type F: Copy;
    /// Vector of f64 lanes.
    type D: Copy;
    /// Vector of i32 lanes.
    type I: Copy;
    /// Vector of i64 lanes.
    type L: Copy;
    /// Mask: one truth value per lane, valid for lanes of any width.
    type M: Copy;

    /// An f32 constant in every lane.
    fn f(&mut self, v: f32) -> Self::F;
    /// Sum `a + b` of f32 lanes.
    fn add(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// Difference `a - b` of f32 lanes.
    fn sub(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// Product `a·b` of f32 lanes.
    fn mul(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// Quotient `a/b`, correctly rounded (lanes of f32).
    fn div(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// Fused multiply-add `a·b + c`, rounded once (lanes of f32).
    fn fma(&mut self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// Fused negated multiply-add `c - a·b`, rounded once (lanes of f32).
    fn fnma(&mut self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// Square root `√a`, correctly rounded (lanes of f32).
    fn sqrt(&mut self, a: Self::F) -> Self::F;
    /// Minimum `a < b ? a : b` of f32 lanes, so `b` if either is NaN, as x86 `minps`.
    fn min(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// Maximum `a > b ? a : b` of f32 lanes, so `b` if either is NaN, as x86 `maxps`.
    fn max(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// Magnitude: the sign bit cleared (lanes of f32).
    fn abs(&mut self, a: Self::F) -> Self::F;
    /// Negation: the sign bit inverted (lanes of f32).
    fn neg(&mut self, a: Self::F) -> Self::F;
    /// The magnitude of `a` with the sign bit of `s` (lanes of f32).
    fn copysign(&mut self, a: Self::F, s: Self::F) -> Self::F;
    /// Nearest integer as a float, halves to even (lanes of f32).
    fn round(&mut self, a: Self::F) -> Self::F;
    /// Product `a·2ⁿ` of f32 lanes, for integral `n` in ±300, rounded once, including subnormal and infinite results.
    fn scale(&mut self, a: Self::F, n: Self::F) -> Self::F;
    /// Comparison `a < b` (lanes of f32).
    fn lt(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// Comparison `a ≤ b` (lanes of f32).
    fn le(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// Comparison `a = b` (lanes of f32).
    fn eq(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// Comparison `a ≠ b`, true if either is NaN (lanes of f32).
    fn ne(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// Selection by lane: `m ? a : b` (lanes of f32).
    fn select(&mut self, m: Self::M, a: Self::F, b: Self::F) -> Self::F;
    /// Bit cast of f32 lanes to i32 lanes.
    fn bits(&mut self, a: Self::F) -> Self::I;
    /// Bit cast of i32 lanes to f32 lanes.
    fn from_bits(&mut self, a: Self::I) -> Self::F;
    /// Conversion of f32 lanes to the nearest i32, halves to even; unspecified out of range.
    fn to_int(&mut self, a: Self::F) -> Self::I;
    /// Conversion of i32 lanes to f32, rounded.
    fn to_float(&mut self, a: Self::I) -> Self::F;

    /// An i32 constant in every lane.
    fn i(&mut self, v: i32) -> Self::I;
    /// Sum `a + b` of i32 lanes, wrapping.
    fn i_add(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Difference `a - b` of i32 lanes, wrapping.
    fn i_sub(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and `a & b` of i32 lanes.
    fn i_and(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or `a | b` of i32 lanes.
    fn i_or(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise exclusive or `a ^ b` of i32 lanes.
    fn i_xor(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Left shift of i32 lanes by a constant below 32.
    fn i_shl(&mut self, a: Self::I, n: u32) -> Self::I;
    /// Logical right shift of i32 lanes by a constant below 32.
    fn i_shr(&mut self, a: Self::I, n: u32) -> Self::I;
    /// Arithmetic right shift of i32 lanes by a constant below 32.
    fn i_sar(&mut self, a: Self::I, n: u32) -> Self::I;
    /// Comparison `a = b` of i32 lanes.
    fn i_eq(&mut self, a: Self::I, b: Self::I) -> Self::M;
    /// Signed comparison `a > b` of i32 lanes.
    fn i_gt(&mut self, a: Self::I, b: Self::I) -> Self::M;

    /// An f64 constant in every lane.
    fn d(&mut self, v: f64) -> Self::D;
    /// Sum `a + b` of f64 lanes.
    fn d_add(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// Difference `a - b` of f64 lanes.
    fn d_sub(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// Product `a·b` of f64 lanes.
    fn d_mul(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// Quotient `a/b`, correctly rounded (lanes of f64).
    fn d_div(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// Fused multiply-add `a·b + c`, rounded once (lanes of f64).
    fn d_fma(&mut self, a: Self::D, b: Self::D, c: Self::D) -> Self::D;
    /// Fused negated multiply-add `c - a·b`, rounded once (lanes of f64).
    fn d_fnma(&mut self, a: Self::D, b: Self::D, c: Self::D) -> Self::D;
    /// Square root `√a`, correctly rounded (lanes of f64).
    fn d_sqrt(&mut self, a: Self::D) -> Self::D;
    /// Minimum `a < b ? a : b` of f64 lanes, so `b` if either is NaN, as x86 `minpd`.
    fn d_min(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// Maximum `a > b ? a : b` of f64 lanes, so `b` if either is NaN, as x86 `maxpd`.
    fn d_max(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// Magnitude: the sign bit cleared (lanes of f64).
    fn d_abs(&mut self, a: Self::D) -> Self::D;
    /// Negation: the sign bit inverted (lanes of f64).
    fn d_neg(&mut self, a: Self::D) -> Self::D;
    /// The magnitude of `a` with the sign bit of `s` (lanes of f64).
    fn d_copysign(&mut self, a: Self::D, s: Self::D) -> Self::D;
    /// Nearest integer as a float, halves to even (lanes of f64).
    fn d_round(&mut self, a: Self::D) -> Self::D;
    /// Product `a·2ⁿ` of f64 lanes, for integral `n` in ±2200, rounded once, including subnormal and infinite results.
    fn d_scale(&mut self, a: Self::D, n: Self::D) -> Self::D;
    /// Comparison `a < b` (lanes of f64).
    fn d_lt(&mut self, a: Self::D, b: Self::D) -> Self::M;
    /// Comparison `a ≤ b` (lanes of f64).
    fn d_le(&mut self, a: Self::D, b: Self::D) -> Self::M;
    /// Comparison `a = b` (lanes of f64).
    fn d_eq(&mut self, a: Self::D, b: Self::D) -> Self::M;
    /// Comparison `a ≠ b`, true if either is NaN (lanes of f64).
    fn d_ne(&mut self, a: Self::D, b: Self::D) -> Self::M;
    /// Selection by lane: `m ? a : b` (lanes of f64).
    fn d_select(&mut self, m: Self::M, a: Self::D, b: Self::D) -> Self::D;
    /// Bit cast of f64 lanes to i64 lanes.
    fn d_bits(&mut self, a: Self::D) -> Self::L;
    /// Bit cast of i64 lanes to f64 lanes.
    fn d_from_bits(&mut self, a: Self::L) -> Self::D;

    /// An i64 constant in every lane.
    fn l(&mut self, v: i64) -> Self::L;
    /// Sum `a + b` of i64 lanes, wrapping.
    fn l_add(&mut self, a: Self::L, b: Self::L) -> Self::L;
    /// Difference `a - b` of i64 lanes, wrapping.
    fn l_sub(&mut self, a: Self::L, b: Self::L) -> Self::L;
    /// Bitwise and `a & b` of i64 lanes.
    fn l_and(&mut self, a: Self::L, b: Self::L) -> Self::L;
    /// Bitwise or `a | b` of i64 lanes.
    fn l_or(&mut self, a: Self::L, b: Self::L) -> Self::L;
    /// Bitwise exclusive or `a ^ b` of i64 lanes.
    fn l_xor(&mut self, a: Self::L, b: Self::L) -> Self::L;
    /// Left shift of i64 lanes by a constant below 64.
    fn l_shl(&mut self, a: Self::L, n: u32) -> Self::L;
    /// Logical right shift of i64 lanes by a constant below 64.
    fn l_shr(&mut self, a: Self::L, n: u32) -> Self::L;

    /// Conversion of f32 lanes to f64, exact.
    fn widen(&mut self, a: Self::F) -> Self::D;
    /// Conversion of f64 lanes to f32, rounded.
    fn narrow(&mut self, a: Self::D) -> Self::F;

    /// Mask that is true where both `a` and `b` are.
    fn m_and(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// Mask that is true where `a` or `b` is.
    fn m_or(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// Mask that is true where `a` is false.
    fn m_not(&mut self, a: Self::M) -> Self::M;

    /// Requests that lanes where `m` holds are computed again by the slow path (the scalar library function); their
    /// results of the fast path are discarded.
    fn guard(&mut self, m: Self::M);
}
