//! Scalars: single values that are arguments of operations, never part of a pattern.

use crate::{Compute, DType};

/// A number or truth value that the caller gave, before it takes a tensor's dtype.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// A floating-point value.
    Float(f64),
    /// An integer value.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// The value as f64 (bool: 0 or 1).
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Float(v) => v,
            Scalar::Int(v) => v as f64,
            Scalar::Bool(v) => v as u8 as f64,
        }
    }

    /// The value as i64, floats saturating toward zero, NaN as 0.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Float(v) => v as i64,
            Scalar::Int(v) => v,
            Scalar::Bool(v) => v as i64,
        }
    }

    /// Whether the dtype can hold this value without turning it into another kind of number:
    /// a fraction does not fit an integer, a value out of range does not fit (a finite one that a float dtype would round
    /// to an infinity neither), and only 0 and 1 fit bool.
    pub fn fits(self, dtype: DType) -> bool {
        if dtype.is_float() {
            // Every number that is small enough for f16 is for all.
            let size = self.to_f64().abs();
            return size <= 65504.0 || !size.is_finite() || dtype.round(size).is_finite();
        }
        let (lo, hi) = dtype.int_range();
        match self {
            Scalar::Float(v) => v.fract() == 0.0 && v >= lo as f64 && v <= hi as f64,
            Scalar::Int(v) => v >= lo && v <= hi,
            Scalar::Bool(_) => true,
        }
    }

    /// The bits of this value as a kernel's argument: rounded or wrapped to `dtype`, then held in
    /// the dtype's [`Compute`] type (32-bit types in the low half, sign-extended integers).
    pub fn to_bits(self, dtype: DType) -> u64 {
        match dtype.compute() {
            Compute::F32 => (dtype.round(self.to_f64()) as f32).to_bits() as u64,
            Compute::F64 => self.to_f64().to_bits(),
            Compute::I32 | Compute::U32 => dtype.wrap(self.to_i64()) as i32 as u32 as u64,
            Compute::I64 => self.to_i64() as u64,
            Compute::Mask => (self.to_f64() != 0.0) as u64,
        }
    }

    /// The inverse of [`Scalar::to_bits`].
    pub fn from_bits(bits: u64, dtype: DType) -> Scalar {
        match dtype.compute() {
            Compute::F32 => Scalar::Float(f32::from_bits(bits as u32) as f64),
            Compute::F64 => Scalar::Float(f64::from_bits(bits)),
            Compute::I32 => Scalar::Int(bits as u32 as i32 as i64),
            Compute::U32 => Scalar::Int(bits as u32 as i64),
            Compute::I64 => Scalar::Int(bits as i64),
            Compute::Mask => Scalar::Bool(bits != 0),
        }
    }
}

macro_rules! from {
    ($($t:ty => $variant:ident as $as:ty),*) => {$(
        impl From<$t> for Scalar {
            fn from(v: $t) -> Scalar { Scalar::$variant(v as $as) }
        }
    )*};
}
from!(f64 => Float as f64, f32 => Float as f64, i8 => Int as i64, i16 => Int as i64, i32 => Int as i64,
      i64 => Int as i64, u8 => Int as i64, u16 => Int as i64, u32 => Int as i64, usize => Int as i64, bool => Bool as bool);

impl From<half::f16> for Scalar {
    fn from(v: half::f16) -> Scalar {
        Scalar::Float(v.to_f64())
    }
}
impl From<half::bf16> for Scalar {
    fn from(v: half::bf16) -> Scalar {
        Scalar::Float(v.to_f64())
    }
}
