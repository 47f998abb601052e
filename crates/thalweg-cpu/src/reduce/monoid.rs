//! What is reduced: elements as they lie in memory, and the monoids over them.
//!
//! Maxima and minima work on *keys*: integers in the order of the values, NaN above (for minima: below) all others. A key
//! comparison is one instruction on any vector machine, and NaN needs no case of its own. Minima are maxima of inverted keys.

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
    type Key: Copy + Ord + Send + Sync + 'static + std::ops::Not<Output = Self::Key>;
    /// The lowest key there is.
    const BOTTOM: Self::Key;
    /// The key of the least element that is a number, and of the greatest.
    const RANGE: (Self::Key, Self::Key);
    /// The element's key; NaN is the highest (`nan_high`) or the lowest of all.
    fn key(self, nan_high: bool) -> Self::Key;
    /// The key with -0 taken for 0.
    fn key_zeros_equal(self, nan_high: bool) -> Self::Key;
    /// The element of a key.
    fn from_key(key: Self::Key) -> Self;
}

macro_rules! ordered_ints {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            type Key = $t;
            const BOTTOM: $t = <$t>::MIN;
            const RANGE: ($t, $t) = (<$t>::MIN, <$t>::MAX);
            #[inline(always)]
            fn key(self, _: bool) -> $t { self }
            #[inline(always)]
            fn key_zeros_equal(self, _: bool) -> $t { self }
            #[inline(always)]
            fn from_key(key: $t) -> $t { key }
        }
    )*};
}
ordered_ints!(i8, i16, i32, i64, u8, u32);

impl Ordered for Truth {
    type Key = u8;
    const BOTTOM: u8 = 0;
    const RANGE: (u8, u8) = (0, 1);
    #[inline(always)]
    fn key(self, _: bool) -> u8 {
        self.0
    }
    #[inline(always)]
    fn key_zeros_equal(self, _: bool) -> u8 {
        self.0
    }
    #[inline(always)]
    fn from_key(key: u8) -> Truth {
        Truth(key & 1)
    }
}

macro_rules! ordered_floats {
    ($($t:ty, $key:ty, $bits:expr, $from:expr, $inf:expr;)*) => {$(
        impl Ordered for $t {
            type Key = $key;
            const BOTTOM: $key = <$key>::MIN;
            const RANGE: ($key, $key) = (!($inf), $inf);
            #[inline(always)]
            fn key(self, nan_high: bool) -> $key {
                // Sign and magnitude to two's complement: negative ones have their magnitude inverted.
                let bits: $key = ($bits)(self);
                let key = bits ^ ((bits >> (<$key>::BITS - 1)) & <$key>::MAX);
                let nan = (bits & <$key>::MAX) > $inf;
                if nan { if nan_high { <$key>::MAX } else { <$key>::MIN } } else { key }
            }
            #[inline(always)]
            fn key_zeros_equal(self, nan_high: bool) -> $key {
                // The key of -0 is -1, and no other value's.
                let key = self.key(nan_high);
                if key == -1 { 0 } else { key }
            }
            #[inline(always)]
            fn from_key(key: $key) -> $t {
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

/// Bits of an element, of which those in a mask tell whether it is true.
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

/// A monoid, with the way into it from an element and the way out.
pub trait Monoid: 'static {
    /// An element.
    type In: Copy + Send + Sync;
    /// A partial result.
    type Acc: Copy + Send + Sync;
    /// A result.
    type Out: Copy + Send + Sync;
    /// Whether the order of combining cannot be seen in the result.
    const EXACT: bool;
    /// The result of nothing.
    const IDENTITY: Self::Acc;
    /// The result of one element.
    fn lift(x: Self::In) -> Self::Acc;
    /// The result of both.
    fn combine(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// The element of a result.
    fn finish(a: Self::Acc) -> Self::Out;
}

/// The sum.
pub struct Sum<T>(PhantomData<T>);
/// The product.
pub struct Prod<T>(PhantomData<T>);
/// The largest, or the smallest.
pub struct Extreme<T, const MAX: bool>(PhantomData<T>);
/// The key of the largest, or the inverted key of the smallest, with both zeros equal.
pub struct ExtremeKey<T, const MAX: bool>(PhantomData<T>);
/// Whether any is true, or all are.
pub struct Some<T, const ALL: bool, const FLOAT: bool>(PhantomData<T>);

impl<T: Number> Monoid for Sum<T> {
    type In = T;
    type Acc = T::Wide;
    type Out = T;
    const EXACT: bool = false;
    const IDENTITY: T::Wide = T::Wide::ZERO;
    #[inline(always)]
    fn lift(x: T) -> T::Wide {
        x.widen()
    }
    #[inline(always)]
    fn combine(a: T::Wide, b: T::Wide) -> T::Wide {
        a.plus(b)
    }
    #[inline(always)]
    fn finish(a: T::Wide) -> T {
        T::narrow(a)
    }
}

impl<T: Number> Monoid for Prod<T> {
    type In = T;
    type Acc = T::Wide;
    type Out = T;
    const EXACT: bool = false;
    const IDENTITY: T::Wide = T::Wide::ONE;
    #[inline(always)]
    fn lift(x: T) -> T::Wide {
        x.widen()
    }
    #[inline(always)]
    fn combine(a: T::Wide, b: T::Wide) -> T::Wide {
        a.times(b)
    }
    #[inline(always)]
    fn finish(a: T::Wide) -> T {
        T::narrow(a)
    }
}

/// The larger, in the form that compilers make one instruction of.
#[inline(always)]
fn larger<K: Ord>(a: K, b: K) -> K {
    if a > b { a } else { b }
}

impl<T: Ordered, const MAX: bool> Monoid for Extreme<T, MAX> {
    type In = T;
    type Acc = T::Key;
    type Out = T;
    const EXACT: bool = true;
    const IDENTITY: T::Key = if MAX { T::RANGE.0 } else { T::RANGE.1 };
    #[inline(always)]
    fn lift(x: T) -> T::Key {
        x.key(MAX)
    }
    #[inline(always)]
    fn combine(a: T::Key, b: T::Key) -> T::Key {
        if MAX == (a > b) { a } else { b }
    }
    #[inline(always)]
    fn finish(a: T::Key) -> T {
        T::from_key(a)
    }
}

impl<T: Ordered, const MAX: bool> Monoid for ExtremeKey<T, MAX> {
    type In = T;
    type Acc = T::Key;
    type Out = T::Key;
    const EXACT: bool = true;
    const IDENTITY: T::Key = T::BOTTOM;
    #[inline(always)]
    fn lift(x: T) -> T::Key {
        let key = x.key_zeros_equal(MAX);
        if MAX { key } else { !key }
    }
    #[inline(always)]
    fn combine(a: T::Key, b: T::Key) -> T::Key {
        larger(a, b)
    }
    #[inline(always)]
    fn finish(a: T::Key) -> T::Key {
        a
    }
}

impl<T: Bits, const ALL: bool, const FLOAT: bool> Monoid for Some<T, ALL, FLOAT> {
    type In = T;
    type Acc = u8;
    type Out = u8;
    const EXACT: bool = true;
    const IDENTITY: u8 = ALL as u8;
    #[inline(always)]
    fn lift(x: T) -> u8 {
        x.is_true(FLOAT) as u8
    }
    #[inline(always)]
    fn combine(a: u8, b: u8) -> u8 {
        if ALL { a & b } else { a | b }
    }
    #[inline(always)]
    fn finish(a: u8) -> u8 {
        a
    }
}
