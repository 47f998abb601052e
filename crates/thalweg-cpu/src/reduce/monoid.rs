//! What is reduced: elements as they lie in memory, and the monoids over them.
//!
//! Maxima and minima work on *keys*: integers in the order of the values, NaN above all others. A key
//! comparison is one instruction on any vector machine, and NaN needs no case of its own. Minima are maxima of inverted
//! keys, "all" is the contrary of "any contrary": each pair is one monoid under a [`Mode`], and one set of compiled loops.

use std::marker::PhantomData;

/// A number as wide as sums and products are carried.
pub trait Wide: Copy + Send + Sync + 'static {
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// `self + other`, integers wrap
    fn plus(self, other: Self) -> Self;
    /// `self · other`, integers wrap
    fn times(self, other: Self) -> Self;
}

macro_rules! wide {
    ($($t:ty, $one:expr, $zero:expr, $plus:expr, $times:expr;)*) => {$(
        impl Wide for $t {
            const ZERO: $t = $zero;
            const ONE: $t = $one;
            #[inline(always)]
            fn plus(self, other: $t) -> $t { ($plus)(self, other) }
            #[inline(always)]
            fn times(self, other: $t) -> $t { ($times)(self, other) }
        }
    )*};
}
wide! {
    f32, 1.0, 0.0, |a: f32, b| a + b, |a: f32, b| a * b;
    f64, 1.0, 0.0, |a: f64, b| a + b, |a: f64, b| a * b;
    u8, 1, 0, u8::wrapping_add, u8::wrapping_mul;
    i16, 1, 0, i16::wrapping_add, i16::wrapping_mul;
    i32, 1, 0, i32::wrapping_add, i32::wrapping_mul;
    i64, 1, 0, i64::wrapping_add, i64::wrapping_mul;
}

/// An element that sums and products are taken of. Integers are wrapped to their width, which is to add in that width: i8
/// and u8 are the same sum.
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

/// Truth value in a byte, 0 or 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Truth(pub u8);

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
        // The exponent's bias differs by 112; a product with 2¹¹² also brings subnormals to their place. Branches would not vectorise.
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

impl Number for Truth {
    type Wide = u8;
    #[inline(always)]
    fn widen(self) -> u8 {
        self.0
    }
    #[inline(always)]
    fn narrow(wide: u8) -> Truth {
        Truth(wide & 1)
    }
}

/// An element that has an order.
pub trait Ordered: Copy + Send + Sync + 'static {
    /// Integers in the order of the elements.
    type Key: Slot + Ord + std::ops::BitXor<Output = Self::Key>;
    /// No bit, and every bit.
    const FLIP: (Self::Key, Self::Key);
    /// The key of the least element that is a number; inverted, that of the greatest.
    const LEAST: Self::Key;
    /// The element's key under a mode: NaN is the highest, flipped or not.
    fn key(self, mode: Mode) -> Self::Key;
    /// The element of a key.
    fn from_key(key: Self::Key, mode: Mode) -> Self;
}

macro_rules! ordered_ints {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            type Key = $t;
            const FLIP: ($t, $t) = (0, !0);
            const LEAST: $t = <$t>::MIN;
            #[inline(always)]
            fn key(self, mode: Mode) -> $t { self ^ mode.flip::<$t>() }
            #[inline(always)]
            fn from_key(key: $t, mode: Mode) -> $t { key ^ mode.flip::<$t>() }
        }
    )*};
}
ordered_ints!(i8, i16, i32, i64, u8, u32);

impl Ordered for Truth {
    type Key = u8;
    const FLIP: (u8, u8) = (0, !0);
    const LEAST: u8 = 0;
    #[inline(always)]
    fn key(self, mode: Mode) -> u8 {
        self.0 ^ mode.flip::<Truth>()
    }
    #[inline(always)]
    fn from_key(key: u8, mode: Mode) -> Truth {
        Truth((key ^ mode.flip::<Truth>()) & 1)
    }
}

macro_rules! ordered_floats {
    ($($t:ty, $key:ty, $bits:expr, $from:expr, $inf:expr;)*) => {$(
        impl Ordered for $t {
            type Key = $key;
            const FLIP: ($key, $key) = (0, !0);
            const LEAST: $key = !($inf);
            #[inline(always)]
            fn key(self, mode: Mode) -> $key {
                // Sign and magnitude to two's complement: negative ones have their magnitude inverted. -0 is then -1.
                let bits: $key = ($bits)(self);
                let key = bits ^ ((bits >> (<$key>::BITS - 1)) & <$key>::MAX);
                let zero: $key = if mode.zeros_equal { 0 } else { -1 };
                let key = if key == -1 { zero } else { key };
                if (bits & <$key>::MAX) > $inf { <$key>::MAX } else { key ^ mode.flip::<$t>() }
            }
            #[inline(always)]
            fn from_key(key: $key, mode: Mode) -> $t {
                // A flipped NaN is the lowest integer, which is a NaN as well.
                let key = key ^ mode.flip::<$t>();
                ($from)(key ^ ((key >> (<$key>::BITS - 1)) & <$key>::MAX))
            }
        }
    )*};
}
ordered_floats! {
    f32, i32, |x: f32| x.to_bits() as i32, |b| f32::from_bits(b as u32), 0x7f80_0000;
    f64, i64, |x: f64| x.to_bits() as i64, |b| f64::from_bits(b as u64), 0x7ff0_0000_0000_0000;
    Bf16, i16, |x: Bf16| x.0 as i16, |b| Bf16(b as u16), 0x7f80;
    F16, i16, |x: F16| x.0 as i16, |b| F16(b as u16), 0x7c00;
}

/// Bits of an element.
pub trait Bits: Copy + Send + Sync + 'static {
    /// Whether any bit but (of floats) the sign is set.
    fn is_true(self, float: bool) -> bool;
}

macro_rules! bits {
    ($($t:ty),*) => {$(
        impl Bits for $t {
            #[inline(always)]
            fn is_true(self, float: bool) -> bool {
                (self & if float { <$t>::MAX >> 1 } else { <$t>::MAX }) != 0
            }
        }
    )*};
}
bits!(u8, u16, u32, u64);

/// What the loops are told at run time, so that one loop serves several operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    /// Minima for maxima, "all" for "any".
    pub flip: bool,
    /// Whether -0 counts as 0.
    pub zeros_equal: bool,
    /// Whether truth leaves the sign bit out.
    pub float: bool,
}

impl Mode {
    #[inline(always)]
    fn flip<T: Ordered>(self) -> T::Key {
        if self.flip { T::FLIP.1 } else { T::FLIP.0 }
    }
}

/// A partial result, as it is kept between blocks: integers as i64, so that their order is kept too.
pub trait Slot: Copy + Send + Sync + 'static {
    /// In 64 bits.
    fn into_slot(self) -> i64;
    /// Out of them.
    fn from_slot(slot: i64) -> Self;
}

macro_rules! slots {
    ($($t:ty),*) => {$(
        impl Slot for $t {
            #[inline(always)]
            fn into_slot(self) -> i64 { self as i64 }
            #[inline(always)]
            fn from_slot(slot: i64) -> $t { slot as $t }
        }
    )*};
}
slots!(i8, i16, i32, i64, u8, u32);

impl Slot for f32 {
    #[inline(always)]
    fn into_slot(self) -> i64 {
        self.to_bits() as i64
    }
    #[inline(always)]
    fn from_slot(slot: i64) -> f32 {
        f32::from_bits(slot as u32)
    }
}

impl Slot for f64 {
    #[inline(always)]
    fn into_slot(self) -> i64 {
        self.to_bits() as i64
    }
    #[inline(always)]
    fn from_slot(slot: i64) -> f64 {
        f64::from_bits(slot as u64)
    }
}

/// A monoid, with the way into it from an element and the way out.
pub trait Monoid: 'static {
    /// An element.
    type In: Copy;
    /// A partial result.
    type Acc: Slot;
    /// Whether its loops are compiled for AVX2 too: those that are used most.
    const VECTOR: bool;
    /// The result of nothing.
    fn identity() -> Self::Acc;
    /// The result of one element.
    fn lift(x: Self::In, mode: Mode) -> Self::Acc;
    /// The result of both.
    fn combine(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// Writes a result as an element.
    ///
    /// # Safety
    /// There is room for one.
    unsafe fn finish(a: Self::Acc, mode: Mode, to: *mut u8);
}

/// The sum.
pub struct Sum<T>(PhantomData<T>);
/// The product.
pub struct Prod<T>(PhantomData<T>);
/// The largest; flipped: the smallest. Its partial results are keys, the largest key standing for either.
pub struct Extreme<T>(PhantomData<T>);
/// Whether any is true; flipped: whether all are.
pub struct Truths<T>(PhantomData<T>);

impl<T: Number<Wide: Slot>> Monoid for Sum<T> {
    type In = T;
    type Acc = T::Wide;
    const VECTOR: bool = true;
    #[inline(always)]
    fn identity() -> T::Wide {
        T::Wide::ZERO
    }
    #[inline(always)]
    fn lift(x: T, _: Mode) -> T::Wide {
        x.widen()
    }
    #[inline(always)]
    fn combine(a: T::Wide, b: T::Wide) -> T::Wide {
        a.plus(b)
    }
    #[inline(always)]
    unsafe fn finish(a: T::Wide, _: Mode, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<T>().write(T::narrow(a)) }
    }
}

impl<T: Number<Wide: Slot>> Monoid for Prod<T> {
    type In = T;
    type Acc = T::Wide;
    const VECTOR: bool = false;
    #[inline(always)]
    fn identity() -> T::Wide {
        T::Wide::ONE
    }
    #[inline(always)]
    fn lift(x: T, _: Mode) -> T::Wide {
        x.widen()
    }
    #[inline(always)]
    fn combine(a: T::Wide, b: T::Wide) -> T::Wide {
        a.times(b)
    }
    #[inline(always)]
    unsafe fn finish(a: T::Wide, _: Mode, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<T>().write(T::narrow(a)) }
    }
}

impl<T: Ordered> Monoid for Extreme<T> {
    type In = T;
    type Acc = T::Key;
    const VECTOR: bool = true;
    #[inline(always)]
    fn identity() -> T::Key {
        T::LEAST
    }
    #[inline(always)]
    fn lift(x: T, mode: Mode) -> T::Key {
        x.key(mode)
    }
    #[inline(always)]
    fn combine(a: T::Key, b: T::Key) -> T::Key {
        if a > b { a } else { b }
    }
    #[inline(always)]
    unsafe fn finish(a: T::Key, mode: Mode, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<T>().write(T::from_key(a, mode)) }
    }
}

impl<T: Bits> Monoid for Truths<T> {
    type In = T;
    type Acc = u8;
    const VECTOR: bool = false;
    #[inline(always)]
    fn identity() -> u8 {
        0
    }
    #[inline(always)]
    fn lift(x: T, mode: Mode) -> u8 {
        (x.is_true(mode.float) != mode.flip) as u8
    }
    #[inline(always)]
    fn combine(a: u8, b: u8) -> u8 {
        a | b
    }
    #[inline(always)]
    unsafe fn finish(a: u8, mode: Mode, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { to.write(a ^ mode.flip as u8) }
    }
}
