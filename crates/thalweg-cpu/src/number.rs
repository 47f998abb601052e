//! Elements as matrix products take them: as they lie in memory, and as wide as sums of them are carried.

/// A number as wide as sums and products are carried.
pub trait Wide: Copy + Send + Sync + 'static {
    /// 0
    const ZERO: Self;
    /// Whether it is rounded.
    const FLOAT: bool;
    /// The value of a scalar given in the form of [`thalweg_ir::Scalar::to_bits`].
    fn of_bits(bits: u64) -> Self;
    /// `self + other`, integers wrap
    fn plus(self, other: Self) -> Self;
    /// `self · other + sum`, rounded once, integers wrap
    fn times_plus(self, other: Self, sum: Self) -> Self;
}

macro_rules! wide {
    ($($t:ty, $zero:expr, $float:expr, $of_bits:expr, $plus:expr, $times_plus:expr;)*) => {$(
        impl Wide for $t {
            const ZERO: $t = $zero;
            const FLOAT: bool = $float;
            fn of_bits(bits: u64) -> $t { ($of_bits)(bits) }
            #[inline(always)]
            fn plus(self, other: $t) -> $t { ($plus)(self, other) }
            #[inline(always)]
            fn times_plus(self, other: $t, sum: $t) -> $t { ($times_plus)(self, other, sum) }
        }
    )*};
}
wide! {
    f32, 0.0, true, |b| f32::from_bits(b as u32), |a: f32, b| a + b, f32::mul_add;
    f64, 0.0, true, f64::from_bits, |a: f64, b| a + b, f64::mul_add;
    u8, 0, false, |b| b as u8, u8::wrapping_add, |a: u8, b, sum| a.wrapping_mul(b).wrapping_add(sum);
    i16, 0, false, |b| b as i16, i16::wrapping_add, |a: i16, b, sum| a.wrapping_mul(b).wrapping_add(sum);
    i32, 0, false, |b| b as i32, i32::wrapping_add, |a: i32, b, sum| a.wrapping_mul(b).wrapping_add(sum);
    i64, 0, false, |b| b as i64, i64::wrapping_add, |a: i64, b, sum| a.wrapping_mul(b).wrapping_add(sum);
}

/// An element that sums and products are taken of. Integers are wrapped to their width, which is to add in that width:
/// i8 and u8 are the same sum.
pub trait Number: Copy + Send + Sync + 'static {
    /// What it is added up in.
    type Wide: Wide;
    /// The value, exactly.
    fn widen(self) -> Self::Wide;
    /// The value, rounded.
    fn narrow(wide: Self::Wide) -> Self;
}

macro_rules! own_width {
    ($($t:ty),*) => {$(
        impl Number for $t {
            type Wide = $t;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(wide: $t) -> $t { wide }
        }
    )*};
}
own_width!(f32, f64, u8, i16, i32, i64);

/// bfloat16 by its bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// binary16 by its bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F16(pub u16);

impl Number for Bf16 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits((self.0 as u32) << 16)
    }
    #[inline(always)]
    fn narrow(wide: f32) -> Bf16 {
        Bf16(half::bf16::from_f32(wide).to_bits())
    }
}

impl Number for F16 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        // The exponent's bias differs by 112; a product with 2¹¹² also brings subnormals to their place. Branches would
        // not vectorise.
        let magnitude = f32::from_bits(((self.0 & 0x7fff) as u32) << 13) * f32::from_bits((112 + 127) << 23);
        let special = (self.0 & 0x7c00) == 0x7c00;
        let bits = magnitude.to_bits() | if special { 0x7f80_0000 } else { 0 };
        f32::from_bits(bits | ((self.0 & 0x8000) as u32) << 16)
    }
    #[inline(always)]
    fn narrow(wide: f32) -> F16 {
        F16(half::f16::from_f32(wide).to_bits())
    }
}
