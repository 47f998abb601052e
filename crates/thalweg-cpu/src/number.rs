//! Elements as matrix products take them: as they lie in memory, as wide as sums of them are carried, and together with
//! their neighbours where an instruction adds up the products of several ([`Scheme`]).

/// A number as wide as sums and products are carried.
pub trait Wide: Copy + Default + Send + Sync + 'static {
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

/// How the sums of a product are taken: what panels hold of its factors, and what a step adds.
///
/// A *slot* is as wide as a sum. Of numbers as wide as that it is one of them, of narrower ones it is as many
/// neighbouring terms of a line as fit: those that a line does not have are 0. Every [`Number`] is its own scheme, a slot
/// of which is one element, widened.
pub trait Scheme: Send + Sync + 'static {
    /// What the factors hold.
    type Element: Number;
    /// See above.
    type Slot: Copy + Default + Send + Sync + 'static;
    /// What is added up.
    type Sum: Wide;
    /// What becomes of a sum where it is stored.
    type Stored: Copy + Send + Sync + 'static;
    /// Terms of a slot.
    const GROUP: usize;
    /// Whether the sign bits of the right factor's bytes are turned in its slots, which adds 128 to each: 128 times the
    /// left factor's terms is then too much in a sum.
    const OFFSET: bool = false;
    /// Whether the factors may be exchanged.
    const SYMMETRIC: bool = true;
    /// Whether sums are handed over as they are stored: a dtype's own sums are as wide as it says, however they are taken.
    const HANDED_AS_STORED: bool = false;
    /// A slot of these terms.
    fn slot(term: impl Fn(usize) -> Self::Element) -> Self::Slot;
    /// The sum with the products of a slot of the left factor and one of the right one.
    fn dot(left: Self::Slot, right: Self::Slot, sum: Self::Sum) -> Self::Sum;
    /// The sum as it is stored.
    fn store(sum: Self::Sum) -> Self::Stored;
    /// What is to be added to the sums of a row whose left factor's bytes, with their signs, add up to so much, because of
    /// [`Scheme::OFFSET`].
    fn amends(_total: i64) -> Self::Sum {
        Self::Sum::ZERO
    }
}

impl<T: Number> Scheme for T {
    type Element = T;
    type Slot = T::Wide;
    type Sum = T::Wide;
    type Stored = T;
    const GROUP: usize = 1;
    #[inline(always)]
    fn slot(term: impl Fn(usize) -> T) -> T::Wide {
        term(0).widen()
    }
    #[inline(always)]
    fn dot(left: T::Wide, right: T::Wide, sum: T::Wide) -> T::Wide {
        left.times_plus(right, sum)
    }
    #[inline(always)]
    fn store(sum: T::Wide) -> T {
        T::narrow(sum)
    }
}

/// bf16 in pairs, as `vdpbf16ps` adds up their products in f32.
pub struct Pairs;

impl Scheme for Pairs {
    type Element = Bf16;
    type Slot = u32;
    type Sum = f32;
    type Stored = Bf16;
    const GROUP: usize = 2;
    #[inline(always)]
    fn slot(term: impl Fn(usize) -> Bf16) -> u32 {
        term(0).0 as u32 | (term(1).0 as u32) << 16
    }
    /// The second term before the first, each with one rounding to even; what is subnormal, of factors, sums and on the
    /// way, is 0 with its sign.
    #[inline(always)]
    fn dot(left: u32, right: u32, sum: f32) -> f32 {
        let normal = |x: f32| if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x };
        let [low, high] = [|x: u32| f32::from_bits(x << 16), |x: u32| f32::from_bits(x & 0xffff_0000)];
        let sum = normal(normal(high(left)).mul_add(normal(high(right)), normal(sum)));
        normal(normal(low(left)).mul_add(normal(low(right)), sum))
    }
    #[inline(always)]
    fn store(sum: f32) -> Bf16 {
        Bf16::narrow(sum)
    }
}

/// Bytes in fours, as `vpdpbusd` adds up their products in i32: those of the left factor have a sign, those of the right
/// one have none.
pub struct Quads;

impl Scheme for Quads {
    type Element = u8;
    type Slot = u32;
    type Sum = i32;
    /// Sums wrap to a byte, so that signs do not matter.
    type Stored = u8;
    const GROUP: usize = 4;
    const HANDED_AS_STORED: bool = true;
    #[inline(always)]
    fn slot(term: impl Fn(usize) -> u8) -> u32 {
        u32::from_le_bytes([0, 1, 2, 3].map(term))
    }
    #[inline(always)]
    fn dot(left: u32, right: u32, sum: i32) -> i32 {
        let pairs = left.to_le_bytes().into_iter().zip(right.to_le_bytes());
        pairs.fold(sum, |sum, (x, y)| sum.wrapping_add(x as i8 as i32 * y as i32))
    }
    #[inline(always)]
    fn store(sum: i32) -> u8 {
        sum as u8
    }
}

/// As [`Quads`], the sums stored as they are: products of i8 as i32 with i8 as i32 (`SIGNED`) or u8 as i32.
pub struct WideQuads<const SIGNED: bool>;

impl<const SIGNED: bool> Scheme for WideQuads<SIGNED> {
    type Element = u8;
    type Slot = u32;
    type Sum = i32;
    type Stored = i32;
    const GROUP: usize = 4;
    const OFFSET: bool = SIGNED;
    const SYMMETRIC: bool = SIGNED;
    #[inline(always)]
    fn slot(term: impl Fn(usize) -> u8) -> u32 {
        Quads::slot(term)
    }
    #[inline(always)]
    fn dot(left: u32, right: u32, sum: i32) -> i32 {
        Quads::dot(left, right, sum)
    }
    #[inline(always)]
    fn store(sum: i32) -> i32 {
        sum
    }
    fn amends(total: i64) -> i32 {
        if SIGNED { total.wrapping_mul(-128) as i32 } else { 0 }
    }
}
