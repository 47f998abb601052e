//! Element types of matrix products: as stored in memory, as wide as their accumulators, and in groups of adjacent
//! terms if an instruction adds several products at once ([`Scheme`]).

/// Accumulator type of sums of products.
pub trait Wide: Copy + Default + Send + Sync + 'static {
    /// Zero.
    const ZERO: Self;
    /// Whether sums are rounded (floats).
    const FLOAT: bool;
    /// Value of a scalar in the form of [`thalweg_ir::Scalar::to_bits`].
    fn of_bits(bits: u64) -> Self;
    /// `self + other`; integers wrap.
    fn plus(self, other: Self) -> Self;
    /// `self · other + sum`, rounded once; integers wrap.
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

/// An element type of factors. Integer sums wrap to the element's width, so accumulating in that width is exact: i8 and
/// u8 have the same sum.
pub trait Number: Copy + Send + Sync + 'static {
    /// Accumulator type.
    type Wide: Wide;
    /// Converts exactly.
    fn widen(self) -> Self::Wide;
    /// Rounds to this type.
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

/// bfloat16, as bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// binary16, as bits.
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
        // The exponent biases differ by 112; multiplying by 2¹¹² also normalises subnormals. Branches would not
        // vectorise.
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

/// Accumulation scheme of a product: what packed panels hold, and what one step adds.
///
/// A *slot* is as wide as a sum. It holds one element of that width, or as many adjacent terms of a line of narrower
/// elements as fit; terms past the end of a line are 0. Every [`Number`] is its own scheme, with slots of one widened
/// element.
pub trait Scheme: Send + Sync + 'static {
    /// Element type of the factors.
    type Element: Number;
    /// A group of terms; see above.
    type Slot: Copy + Default + Send + Sync + 'static;
    /// Accumulator type.
    type Sum: Wide;
    /// Type of sums as stored.
    type Stored: Copy + Send + Sync + 'static;
    /// Terms per slot.
    const GROUP: usize;
    /// Whether slots of the right factor have the sign bits of their bytes flipped, which adds 128 to each byte. A sum
    /// is then too large by 128 times the sum of the left factor's terms.
    const OFFSET: bool = false;
    /// Whether the factors may be swapped.
    const SYMMETRIC: bool = true;
    /// Whether epilogues receive sums in their stored type: sums of a dtype are as wide as the dtype says, whatever the
    /// accumulator.
    const EPILOGUE_TAKES_STORED: bool = false;
    /// Packs terms into a slot.
    fn slot(term: impl Fn(usize) -> Self::Element) -> Self::Slot;
    /// Adds the products of two slots to a sum.
    fn dot(left: Self::Slot, right: Self::Slot, sum: Self::Sum) -> Self::Sum;
    /// Converts a sum to its stored type.
    fn store(sum: Self::Sum) -> Self::Stored;
    /// Correction added to the sums of a row, because of [`Scheme::OFFSET`]. `total` is the sum of the row's bytes in
    /// the left factor, as signed numbers.
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

/// bf16 in pairs: `vdpbf16ps` adds their products in f32.
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
    /// Adds the second term before the first, each rounded once to nearest even. Subnormal factors, sums and
    /// intermediate sums are flushed to 0 with their sign.
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

/// Bytes in groups of four: `vpdpbusd` adds their products in i32. Bytes of the left factor are signed, those of the
/// right one unsigned.
pub struct Quads;

impl Scheme for Quads {
    type Element = u8;
    type Slot = u32;
    type Sum = i32;
    /// Sums wrap to a byte, so signs do not matter.
    type Stored = u8;
    const GROUP: usize = 4;
    const EPILOGUE_TAKES_STORED: bool = true;
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

/// Like [`Quads`], with sums stored as i32: products of i8 with i8 (`SIGNED`) or with u8, both converted to i32.
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
