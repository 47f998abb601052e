//! Vector operations in which the math functions are written.
//!
//! The modules of `math` write each function once, generic over a [`Machine`]. The emitter's machine records
//! instructions. The scalar machine computes, in loops that the compiler vectorises; the tile engine uses it, and so do
//! the accuracy tests, which thus check the very arithmetic that is emitted.

/// A target for math functions: lanes of f32 (`F`), f64 (`D`), i32 (`I`), i64 (`L`), and masks (`M`) over them.
///
/// Comparisons are ordered: false if either side is NaN (`ne` is true). `fma` is fused: one rounding.
#[allow(clippy::wrong_self_convention, reason = "`self` is the machine, not the value converted")]
pub trait Machine {
    /// f32 lanes.
    type F: Copy;
    /// f64 lanes.
    type D: Copy;
    /// i32 lanes.
    type I: Copy;
    /// i64 lanes.
    type L: Copy;
    /// Truth values, valid for lanes of any width.
    type M: Copy;

    /// An f32 constant.
    fn f(&mut self, v: f32) -> Self::F;
    /// `a + b`
    fn add(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`
    fn sub(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// `a·b`
    fn mul(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// `a/b`, correctly rounded
    fn div(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// `a·b + c`, one rounding
    fn fma(&mut self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `c - a·b`, one rounding
    fn fnma(&mut self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `√a`
    fn sqrt(&mut self, a: Self::F) -> Self::F;
    /// `a < b ? a : b` (so `b` if either is NaN), as x86 `minps`
    fn min(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// `a > b ? a : b` (so `b` if either is NaN), as x86 `maxps`
    fn max(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// Sign bit cleared
    fn abs(&mut self, a: Self::F) -> Self::F;
    /// Sign bit inverted
    fn neg(&mut self, a: Self::F) -> Self::F;
    /// The magnitude of `a` with the sign bit of `s`
    fn copysign(&mut self, a: Self::F, s: Self::F) -> Self::F;
    /// Nearest integer, halves to even
    fn round(&mut self, a: Self::F) -> Self::F;
    /// `a·2ⁿ` for integral `n` in ±300, rounded once, including subnormal and infinite results.
    fn scale(&mut self, a: Self::F, n: Self::F) -> Self::F;
    /// `a < b`
    fn lt(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// `a ≤ b`
    fn le(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// `a = b`
    fn eq(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// `a ≠ b`, true if either is NaN
    fn ne(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// `m ? a : b`
    fn select(&mut self, m: Self::M, a: Self::F, b: Self::F) -> Self::F;
    /// The lanes reinterpreted as integers (a bit cast)
    fn bits(&mut self, a: Self::F) -> Self::I;
    /// Integer lanes reinterpreted as floats (a bit cast)
    fn from_bits(&mut self, a: Self::I) -> Self::F;
    /// Nearest integer as i32 (halves to even); unspecified out of range
    fn to_int(&mut self, a: Self::F) -> Self::I;
    /// The integer as f32, rounded
    fn to_float(&mut self, a: Self::I) -> Self::F;

    /// An i32 constant.
    fn i(&mut self, v: i32) -> Self::I;
    /// `a + b`, wrapping
    fn i_add(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// `a - b`, wrapping
    fn i_sub(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and
    fn i_and(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or
    fn i_or(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise exclusive or
    fn i_xor(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Shift left by a constant below 32
    fn i_shl(&mut self, a: Self::I, n: u32) -> Self::I;
    /// Logical shift right by a constant below 32
    fn i_shr(&mut self, a: Self::I, n: u32) -> Self::I;
    /// Arithmetic shift right by a constant below 32
    fn i_sar(&mut self, a: Self::I, n: u32) -> Self::I;
    /// `a = b`
    fn i_eq(&mut self, a: Self::I, b: Self::I) -> Self::M;
    /// `a > b`, signed
    fn i_gt(&mut self, a: Self::I, b: Self::I) -> Self::M;

    /// An f64 constant.
    fn d(&mut self, v: f64) -> Self::D;
    /// `a + b`
    fn d_add(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// `a - b`
    fn d_sub(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// `a·b`
    fn d_mul(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// `a/b`
    fn d_div(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// `a·b + c`, one rounding
    fn d_fma(&mut self, a: Self::D, b: Self::D, c: Self::D) -> Self::D;
    /// `c - a·b`, one rounding
    fn d_fnma(&mut self, a: Self::D, b: Self::D, c: Self::D) -> Self::D;
    /// `√a`
    fn d_sqrt(&mut self, a: Self::D) -> Self::D;
    /// `a < b ? a : b`
    fn d_min(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// `a > b ? a : b`
    fn d_max(&mut self, a: Self::D, b: Self::D) -> Self::D;
    /// Sign bit cleared
    fn d_abs(&mut self, a: Self::D) -> Self::D;
    /// Sign bit inverted
    fn d_neg(&mut self, a: Self::D) -> Self::D;
    /// The magnitude of `a` with the sign bit of `s`
    fn d_copysign(&mut self, a: Self::D, s: Self::D) -> Self::D;
    /// Nearest integer, halves to even
    fn d_round(&mut self, a: Self::D) -> Self::D;
    /// `a·2ⁿ` for integral `n` in ±2200, rounded once, subnormals and infinity included
    fn d_scale(&mut self, a: Self::D, n: Self::D) -> Self::D;
    /// `a < b`
    fn d_lt(&mut self, a: Self::D, b: Self::D) -> Self::M;
    /// `a ≤ b`
    fn d_le(&mut self, a: Self::D, b: Self::D) -> Self::M;
    /// `a = b`
    fn d_eq(&mut self, a: Self::D, b: Self::D) -> Self::M;
    /// `a ≠ b`, true if either is NaN
    fn d_ne(&mut self, a: Self::D, b: Self::D) -> Self::M;
    /// `m ? a : b`
    fn d_select(&mut self, m: Self::M, a: Self::D, b: Self::D) -> Self::D;
    /// The lanes reinterpreted as integers (a bit cast)
    fn d_bits(&mut self, a: Self::D) -> Self::L;
    /// Integer lanes reinterpreted as floats (a bit cast)
    fn d_from_bits(&mut self, a: Self::L) -> Self::D;

    /// An i64 constant.
    fn l(&mut self, v: i64) -> Self::L;
    /// `a + b`, wrapping
    fn l_add(&mut self, a: Self::L, b: Self::L) -> Self::L;
    /// `a - b`, wrapping
    fn l_sub(&mut self, a: Self::L, b: Self::L) -> Self::L;
    /// Bitwise and
    fn l_and(&mut self, a: Self::L, b: Self::L) -> Self::L;
    /// Bitwise or
    fn l_or(&mut self, a: Self::L, b: Self::L) -> Self::L;
    /// Bitwise exclusive or
    fn l_xor(&mut self, a: Self::L, b: Self::L) -> Self::L;
    /// Shift left by a constant below 64
    fn l_shl(&mut self, a: Self::L, n: u32) -> Self::L;
    /// Logical shift right by a constant below 64
    fn l_shr(&mut self, a: Self::L, n: u32) -> Self::L;

    /// f32 to f64, exact
    fn widen(&mut self, a: Self::F) -> Self::D;
    /// f64 to f32, rounded
    fn narrow(&mut self, a: Self::D) -> Self::F;

    /// `a` and `b`
    fn m_and(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// `a` or `b`
    fn m_or(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// The complement of mask `a`
    fn m_not(&mut self, a: Self::M) -> Self::M;

    /// Requests that lanes where `m` holds are computed again by the slow path (the scalar library function); their
    /// results of the fast path are discarded.
    fn guard(&mut self, m: Self::M);
}
