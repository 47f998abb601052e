//! Element types of matrix products: as stored in memory ([`Number`]), as accumulated ([`Wide`]), and in groups of
//! adjacent terms if an instruction adds several products at once ([`Scheme`]). A *term* is an index of the K
//! dimension, a *line* is a row of A or a column of B.

use crate::narrow_floats::{from_bf16, from_f16, to_bf16, to_f16};
/// Accumulator type of sums of products.
pub trait Wide: Number<Wide = Self> + Default {
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

/// Element type of GEMM operands. Integer sums wrap to the element's width, so accumulating in that width is exact: i8
/// and u8 have the same sum.
pub trait Number: Copy + Send + Sync + 'static {
    /// Accumulator type.
    type Wide: Wide;
    /// Number whose packed bits are the same: see [`Scheme::PackedAs`].
    type PackedAs: Number;
    /// Converts the element to the accumulator type, exactly.
    fn widen(self) -> Self::Wide;
    /// Rounds an accumulator to the element type.
    fn narrow(wide: Self::Wide) -> Self;
}

macro_rules! own_width {
    ($($t:ty, $bits:ty;)*) => {$(
        impl Number for $t {
            type Wide = $t;
            type PackedAs = $bits;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(wide: $t) -> $t { wide }
        }
    )*};
}
own_width!(f32, i32; f64, i64; u8, u8; i16, i16; i32, i32; i64, i64;);

/// A bfloat16 number (8 exponent bits), as bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// An IEEE binary16 number (f16), as bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F16(pub u16);

impl Number for Bf16 {
    type Wide = f32;
    type PackedAs = Bf16;
    #[inline(always)]
    fn widen(self) -> f32 {
        from_bf16(self.0)
    }
    #[inline(always)]
    fn narrow(wide: f32) -> Bf16 {
        Bf16(to_bf16(wide))
    }
}

impl Number for F16 {
    type Wide = f32;
    type PackedAs = F16;
    #[inline(always)]
    fn widen(self) -> f32 {
        from_f16(self.0)
    }
    #[inline(always)]
    fn narrow(wide: f32) -> F16 {
        F16(to_f16(wide))
    }
}

/// Accumulation scheme of a matrix product: the contents of packed panels, and the arithmetic of one accumulation step.
///
/// A *slot*, the unit of a packed panel, is as wide as an accumulator. It holds one element of that width, or as many
/// adjacent terms of a line of narrower elements as fit (4 bytes for an i32 accumulator); terms past the end of a line
/// are 0. Every [`Number`] is its own scheme, with slots of one widened element.
pub trait Scheme: Send + Sync + 'static {
    /// Element type of the factors.
    type Element: Number;
    /// Slot: a group of adjacent terms of a line, as wide as an accumulator.
    type Slot: Copy + Default + Send + Sync + 'static;
    /// Accumulator type.
    type Sum: Wide;
    /// Element type of the stored result.
    type Stored: Copy + Send + Sync + 'static;
    /// Number of terms in a slot.
    const GROUP: usize;
    /// Whether the sign bits of B's bytes are flipped when they are packed, which adds 128 to each signed byte and
    /// makes it unsigned. A sum is then too large by 128 times the sum of A's terms in that row; [`Scheme::amends`]
    /// corrects it.
    const OFFSET: bool = false;
    /// Whether A and B may be swapped: false if the instruction treats their signs differently.
    const SYMMETRIC: bool = true;
    /// Whether epilogues receive sums in the stored type instead of the accumulator type.
    const EPILOGUE_TAKES_STORED: bool = false;
    /// Number of slots that a step of a tile adds: above 1 if tile registers hold the operands (AMX). The sums of a step
    /// are then added up before they are added to a sum ([`Scheme::step`]); slots past the last term are 0.
    const STEP: usize = 1;
    /// [`Scheme::STEP`] is above 1. (A constant that a branch tests itself: the compiler then leaves out code that a scheme
    /// never runs.)
    const IN_STEPS: bool = Self::STEP > 1;
    /// [`Scheme::GROUP`] is above 1; a constant for the same reason.
    const IN_GROUPS: bool = Self::GROUP > 1;
    /// The constants above as values.
    const CONSTANTS: SchemeConstants = SchemeConstants {
        element: size_of::<Self::Element>(),
        slot: size_of::<Self::Slot>(),
        stored: size_of::<Self::Stored>(),
        group: Self::GROUP,
        step: Self::STEP,
        symmetric: Self::SYMMETRIC,
        is_float: <Self::Sum as Wide>::FLOAT,
    };
    /// Scheme with the same slots, sums and steps, for which micro-kernels are compiled: one for all schemes that it
    /// serves.
    type Arithmetic: Scheme<Slot = Self::Slot, Sum = Self::Sum>;
    /// Scheme with the same packed bits, for which packing is compiled: one for all schemes that it serves. Its elements,
    /// slots and groups have the size of this scheme's.
    type PackedAs: Scheme;
    /// Scheme of products with one row or one column, or with a few rows whose terms are added in lanes.
    type Few: Scheme<Element = Self::Element, Stored = Self::Stored>;
    /// Packs the [`Scheme::GROUP`] terms `term(0)`, `term(1)`, … into a slot.
    fn slot(term: impl Fn(usize) -> Self::Element) -> Self::Slot;
    /// Adds the products of the terms of two slots, pair by pair, to a sum.
    fn dot(left: Self::Slot, right: Self::Slot, sum: Self::Sum) -> Self::Sum;
    /// Adds the products of [`Scheme::STEP`] slots `0`, `1`, … of a row of A and of a column of B to a sum.
    #[inline(always)]
    fn step(left: impl Fn(usize) -> Self::Slot, right: impl Fn(usize) -> Self::Slot, sum: Self::Sum) -> Self::Sum {
        (0..Self::STEP).fold(sum, |sum, slot| Self::dot(left(slot), right(slot), sum))
    }
    /// Converts a sum to its stored type.
    fn store(sum: Self::Sum) -> Self::Stored;
    /// Correction added to the sums of a row of the result if [`Scheme::OFFSET`] is set. `_total` is the sum of the
    /// signed bytes of that row of A.
    fn amends(_total: i64) -> Self::Sum {
        Self::Sum::ZERO
    }
}

/// Constants of a scheme, for functions of sizes, which are compiled once instead of for each scheme.
#[derive(Clone, Copy, Debug)]
pub struct SchemeConstants {
    /// Bytes of an element, of a slot (and of an accumulator), and of an element of the stored result.
    pub element: usize,
    pub slot: usize,
    pub stored: usize,
    /// [`Scheme::GROUP`].
    pub group: usize,
    /// [`Scheme::STEP`].
    pub step: usize,
    /// [`Scheme::SYMMETRIC`].
    pub symmetric: bool,
    /// Whether sums are floats.
    pub is_float: bool,
}

impl SchemeConstants {
    /// Number of accumulators in 64 bytes: see `gemm_call::lanes`.
    pub fn lanes(&self) -> usize {
        64 / self.slot
    }

    /// Whether tile kernels store finished sums to the result themselves: it has the accumulator's type, and a tile has
    /// no elements past its edges.
    pub fn stored_as_carried(&self) -> bool {
        self.stored == self.slot && self.step == 1
    }
}

impl<T: Number> Scheme for T {
    type Element = T;
    type Slot = T::Wide;
    type Sum = T::Wide;
    type Stored = T;
    type PackedAs = <T as Number>::PackedAs;
    type Arithmetic = T::Wide;
    type Few = T;
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

/// Scheme of bf16 operands in pairs of terms: `vdpbf16ps` adds the two products of a pair in f32.
pub struct Pairs;

impl Scheme for Pairs {
    type Element = Bf16;
    type Slot = u32;
    type Sum = f32;
    type Stored = Bf16;
    type PackedAs = Pairs;
    type Arithmetic = Pairs;
    type Few = Pairs;
    const GROUP: usize = 2;
    #[inline(always)]
    fn slot(term: impl Fn(usize) -> Bf16) -> u32 {
        term(0).0 as u32 | (term(1).0 as u32) << 16
    }
    /// Adds the second term before the first, each rounded once to nearest even. Subnormal factors, sums and
    /// intermediate sums are flushed to 0 with their sign.
    #[inline(always)]
    fn dot(left: u32, right: u32, sum: f32) -> f32 {
        let [[x, y], [z, w]] = [terms_of(left), terms_of(right)];
        let sum = normal(y.mul_add(w, normal(sum)));
        normal(x.mul_add(z, sum))
    }
    #[inline(always)]
    fn store(sum: f32) -> Bf16 {
        Bf16::narrow(sum)
    }
}

/// Number with subnormals flushed to 0 with their sign.
#[inline(always)]
fn normal(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}

/// Widened terms of a pair of bf16, with subnormals flushed to 0.
#[inline(always)]
fn terms_of(pair: u32) -> [f32; 2] {
    [pair << 16, pair & 0xffff_0000].map(|bits| normal(f32::from_bits(bits)))
}

/// Scheme of bf16 operands in steps of 16 pairs of terms, which tile registers hold (AMX): `tdpbf16ps` adds their
/// products in f32.
pub struct PairTiles;

impl Scheme for PairTiles {
    type Element = Bf16;
    type Slot = u32;
    type Sum = f32;
    type Stored = Bf16;
    type PackedAs = Pairs;
    type Arithmetic = PairTiles;
    type Few = Pairs;
    const GROUP: usize = 2;
    const STEP: usize = 16;
    #[inline(always)]
    fn slot(term: impl Fn(usize) -> Bf16) -> u32 {
        Pairs::slot(term)
    }
    #[inline(always)]
    fn dot(left: u32, right: u32, sum: f32) -> f32 {
        Pairs::dot(left, right, sum)
    }
    /// Adds the first terms of all pairs in one chain of fused multiply-adds from 0, the second terms in another, the
    /// two results, and that to the sum: each rounded once to nearest even, with subnormals flushed to 0 with their
    /// sign.
    #[inline(always)]
    fn step(left: impl Fn(usize) -> u32, right: impl Fn(usize) -> u32, sum: f32) -> f32 {
        let chains = (0..Self::STEP).fold([0f32; 2], |[even, odd], slot| {
            let [[x, y], [z, w]] = [terms_of(left(slot)), terms_of(right(slot))];
            [normal(x.mul_add(z, even)), normal(y.mul_add(w, odd))]
        });
        normal(normal(sum) + normal(chains[0] + chains[1]))
    }
    #[inline(always)]
    fn store(sum: f32) -> Bf16 {
        Bf16::narrow(sum)
    }
}

/// Scheme of byte operands in groups of four terms: `vpdpbusd` adds the four products of a group in i32. Bytes of A are
/// signed, bytes of B unsigned. Results are stored as bytes.
pub struct Quads;

impl Scheme for Quads {
    type Element = u8;
    type Slot = u32;
    type Sum = i32;
    /// Sums wrap to a byte, so u8 serves results of i8 too.
    type Stored = u8;
    type PackedAs = Quads;
    type Arithmetic = Quads;
    type Few = Quads;
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

/// Like [`Quads`], with results stored as i32: for products of operands that were converted to i32, A from i8, and B
/// from i8 (`SIGNED`) or u8.
pub struct WideQuads<const SIGNED: bool>;

impl<const SIGNED: bool> Scheme for WideQuads<SIGNED> {
    type Element = u8;
    type Slot = u32;
    type Sum = i32;
    type Stored = i32;
    type PackedAs = Quads;
    type Arithmetic = Quads;
    type Few = WideQuads<SIGNED>;
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
