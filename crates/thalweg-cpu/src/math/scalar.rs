//! Machine whose vectors have one lane: it computes with plain numbers.

use crate::machine::Machine;

/// Machine that computes math functions on single numbers; in a loop, the compiler vectorises the arithmetic. If the
/// caller's target features lack FMA, `fma` is a slow (but correct) library call.
#[derive(Default, Clone, Copy, Debug)]
pub struct ScalarMachine {
    /// Whether a lane has requested the slow path since this was last cleared.
    pub guarded: bool,
}

macro_rules! operations {
    ($($name:ident($($arg:ident: $from:ident),*) -> $to:ident = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(&mut self, $($arg: Self::$from),*) -> Self::$to { $body }
    )*};
}

/// The f64 `2ⁿ`, for integral n in ±1000.
#[inline(always)]
fn power_of_two(n: f64) -> f64 {
    // The integer is in the low bits of the sum; the shift moves it to the exponent.
    let sum = (n + 6_755_399_441_055_744.0).to_bits();
    f64::from_bits(sum.wrapping_add(1023) << 52)
}

/// The f32 `2ⁿ`, for integral n in ±126.
#[inline(always)]
fn power_of_two_f32(n: f32) -> f32 {
    f32::from_bits((n + 12_582_912.0).to_bits().wrapping_add(127) << 23)
}

/// Clamps `n` to ±`limit`; NaN stays NaN.
#[inline(always)]
fn clamp_f32(n: f32, limit: f32) -> f32 {
    let n = if limit < n { limit } else { n };
    if -limit > n { -limit } else { n }
}

impl Machine for ScalarMachine {
    type F = f32;
    type D = f64;
    type I = i32;
    type L = i64;
    type M = bool;

    #[inline(always)]
    fn f(&mut self, v: f32) -> f32 {
        v
    }
    #[inline(always)]
    fn i(&mut self, v: i32) -> i32 {
        v
    }
    #[inline(always)]
    fn d(&mut self, v: f64) -> f64 {
        v
    }
    #[inline(always)]
    fn l(&mut self, v: i64) -> i64 {
        v
    }
    #[inline(always)]
    fn i_shl(&mut self, a: i32, n: u32) -> i32 {
        a << n
    }
    #[inline(always)]
    fn i_shr(&mut self, a: i32, n: u32) -> i32 {
        (a as u32 >> n) as i32
    }
    #[inline(always)]
    fn i_sar(&mut self, a: i32, n: u32) -> i32 {
        a >> n
    }
    #[inline(always)]
    fn l_shl(&mut self, a: i64, n: u32) -> i64 {
        a << n
    }
    #[inline(always)]
    fn l_shr(&mut self, a: i64, n: u32) -> i64 {
        (a as u64 >> n) as i64
    }
    #[inline(always)]
    fn guard(&mut self, m: bool) {
        self.guarded |= m;
    }

    operations! {
        add(a: F, b: F) -> F = a + b;
        sub(a: F, b: F) -> F = a - b;
        mul(a: F, b: F) -> F = a * b;
        div(a: F, b: F) -> F = a / b;
        fma(a: F, b: F, c: F) -> F = a.mul_add(b, c);
        fnma(a: F, b: F, c: F) -> F = (-a).mul_add(b, c);
        sqrt(a: F) -> F = a.sqrt();
        min(a: F, b: F) -> F = if a < b { a } else { b };
        max(a: F, b: F) -> F = if a > b { a } else { b };
        abs(a: F) -> F = a.abs();
        neg(a: F) -> F = -a;
        copysign(a: F, s: F) -> F = a.copysign(s);
        round(a: F) -> F = a.round_ties_even();
        // In two steps: the first keeps values from 1/64 upward normal, so only the second rounds. (One product in f64
        // would be correct for all values, but twice as slow.)
        scale(a: F, n: F) -> F = {
            let first = clamp_f32(n, 120.0);
            let second = clamp_f32(n - first, 126.0);
            a * power_of_two_f32(first) * power_of_two_f32(second)
        };
        lt(a: F, b: F) -> M = a < b;
        le(a: F, b: F) -> M = a <= b;
        eq(a: F, b: F) -> M = a == b;
        ne(a: F, b: F) -> M = a != b;
        select(m: M, a: F, b: F) -> F = if m { a } else { b };
        bits(a: F) -> I = a.to_bits() as i32;
        from_bits(a: I) -> F = f32::from_bits(a as u32);
        to_int(a: F) -> I = a.round_ties_even() as i32;
        to_float(a: I) -> F = a as f32;
        i_add(a: I, b: I) -> I = a.wrapping_add(b);
        i_sub(a: I, b: I) -> I = a.wrapping_sub(b);
        i_and(a: I, b: I) -> I = a & b;
        i_or(a: I, b: I) -> I = a | b;
        i_xor(a: I, b: I) -> I = a ^ b;
        i_eq(a: I, b: I) -> M = a == b;
        i_gt(a: I, b: I) -> M = a > b;
        d_add(a: D, b: D) -> D = a + b;
        d_sub(a: D, b: D) -> D = a - b;
        d_mul(a: D, b: D) -> D = a * b;
        d_div(a: D, b: D) -> D = a / b;
        d_fma(a: D, b: D, c: D) -> D = a.mul_add(b, c);
        d_fnma(a: D, b: D, c: D) -> D = (-a).mul_add(b, c);
        d_sqrt(a: D) -> D = a.sqrt();
        d_min(a: D, b: D) -> D = if a < b { a } else { b };
        d_max(a: D, b: D) -> D = if a > b { a } else { b };
        d_abs(a: D) -> D = a.abs();
        d_neg(a: D) -> D = -a;
        d_copysign(a: D, s: D) -> D = a.copysign(s);
        d_round(a: D) -> D = a.round_ties_even();
        // In steps of at most 2^±1000: only the last one can leave the normal range, for values near 1.
        d_scale(a: D, n: D) -> D = {
            let first = n.clamp(-1000.0, 1000.0);
            let second = (n - first).clamp(-1000.0, 1000.0);
            let third = n - first - second;
            a * power_of_two(first) * power_of_two(second) * power_of_two(third)
        };
        d_lt(a: D, b: D) -> M = a < b;
        d_le(a: D, b: D) -> M = a <= b;
        d_eq(a: D, b: D) -> M = a == b;
        d_ne(a: D, b: D) -> M = a != b;
        d_select(m: M, a: D, b: D) -> D = if m { a } else { b };
        d_bits(a: D) -> L = a.to_bits() as i64;
        d_from_bits(a: L) -> D = f64::from_bits(a as u64);
        l_add(a: L, b: L) -> L = a.wrapping_add(b);
        l_sub(a: L, b: L) -> L = a.wrapping_sub(b);
        l_and(a: L, b: L) -> L = a & b;
        l_or(a: L, b: L) -> L = a | b;
        l_xor(a: L, b: L) -> L = a ^ b;
        widen(a: F) -> D = a as f64;
        narrow(a: D) -> F = a as f32;
        m_and(a: M, b: M) -> M = a & b;
        m_or(a: M, b: M) -> M = a | b;
        m_not(a: M) -> M = !a;
    }
}
