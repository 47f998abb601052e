//! Scalars: single values that are arguments of operations, and are not part of the pattern of a recorded segment.

use crate::{Compute, DType};

/// Number or truth value given by the caller, before conversion to a tensor's dtype.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// A floating-point value.
    Float(f64),
    /// An integer value.
    Int(i64),
    /// An integer value above [`i64::MAX`], which `Int` cannot hold. Each number has one representation, so equal
    /// integers are equal scalars.
    Unsigned(u64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// Converts the value to f64 (bool: 0 or 1).
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Float(v) => v,
            Scalar::Int(v) => v as f64,
            Scalar::Unsigned(v) => v as f64,
            Scalar::Bool(v) => v as u8 as f64,
        }
    }

    /// Converts the value to i64. Floats round toward zero and saturate, NaN gives 0; an integer above [`i64::MAX`]
    /// wraps.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Float(v) => v as i64,
            Scalar::Int(v) => v,
            Scalar::Unsigned(v) => v as i64,
            Scalar::Bool(v) => v as i64,
        }
    }

    /// Converts the value to i128, which holds the integers of all dtypes. Floats round toward zero and saturate, NaN
    /// gives 0.
    pub fn to_i128(self) -> i128 {
        match self {
            Scalar::Float(v) => v as i128,
            Scalar::Int(v) => v as i128,
            Scalar::Unsigned(v) => v as i128,
            Scalar::Bool(v) => v as i128,
        }
    }

    /// Creates the scalar of an integer or bool element from its bits in the form of [`DType::wrap`].
    #[inline]
    pub const fn integer(bits: i64, dtype: DType) -> Scalar {
        if bits < 0 && matches!(dtype, DType::U64) { Scalar::Unsigned(bits as u64) } else { Scalar::Int(bits) }
    }

    /// Smallest and largest value of an integer dtype (0 and 1 for bool).
    ///
    /// # Panics
    /// For a float dtype.
    pub const fn int_bounds(dtype: DType) -> (Scalar, Scalar) {
        let (least, most) = dtype.int_range();
        (Scalar::integer(least as i64, dtype), Scalar::integer(most as i64, dtype))
    }

    /// Whether the dtype can represent this value without changing its kind: fractions do not fit an integer, values
    /// out of range do not fit (nor finite ones that a float dtype would round to an infinity), and only 0 and 1 fit
    /// bool.
    pub fn fits(self, dtype: DType) -> bool {
        if dtype.is_float() {
            // Numbers small enough for f16 fit all float dtypes.
            let size = self.to_f64().abs();
            return size <= 65504.0 || !size.is_finite() || dtype.round(size).is_finite();
        }
        let (lo, hi) = dtype.int_range();
        match self {
            // An i128 also holds values just outside the range of every dtype.
            Scalar::Float(v) => v.fract() == 0.0 && (lo..=hi).contains(&(v as i128)),
            Scalar::Int(v) => (lo..=hi).contains(&(v as i128)),
            Scalar::Unsigned(_) => dtype == DType::U64,
            Scalar::Bool(_) => true,
        }
    }

    /// Encodes this value as a 64-bit kernel argument: rounded or wrapped to `dtype`, then stored as the dtype's
    /// [`Compute`] type (32-bit types in the low half, integers narrower than 32 bits extended to 32).
    pub fn to_bits(self, dtype: DType) -> u64 {
        match dtype.compute() {
            Compute::F32 => (dtype.round(self.to_f64()) as f32).to_bits() as u64,
            Compute::F64 => self.to_f64().to_bits(),
            Compute::I32 | Compute::U32 => dtype.wrap(self.to_i64()) as i32 as u32 as u64,
            Compute::I64 => self.to_i64() as u64,
            Compute::U64 => match self {
                Scalar::Float(v) => v as u64,
                other => other.to_i64() as u64,
            },
            Compute::Mask => (self.to_f64() != 0.0) as u64,
        }
    }

    /// Decodes a kernel argument of `dtype`: inverse of [`Scalar::to_bits`].
    pub fn from_bits(bits: u64, dtype: DType) -> Scalar {
        match dtype.compute() {
            Compute::F32 => Scalar::Float(f32::from_bits(bits as u32) as f64),
            Compute::F64 => Scalar::Float(f64::from_bits(bits)),
            Compute::I32 => Scalar::Int(bits as u32 as i32 as i64),
            Compute::U32 => Scalar::Int(bits as u32 as i64),
            Compute::I64 => Scalar::Int(bits as i64),
            Compute::U64 => Scalar::from(bits),
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
      i64 => Int as i64, u8 => Int as i64, u16 => Int as i64, u32 => Int as i64, bool => Bool as bool);

impl From<u64> for Scalar {
    #[inline]
    fn from(v: u64) -> Scalar {
        Scalar::integer(v as i64, DType::U64)
    }
}
impl From<usize> for Scalar {
    #[inline]
    fn from(v: usize) -> Scalar {
        Scalar::from(v as u64)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_u64_is_carried_whole() {
        for v in [0, 1, i64::MAX as u64, 1 << 63, u64::MAX] {
            let scalar = Scalar::from(v);
            assert!(scalar.fits(DType::U64));
            assert_eq!(scalar.to_bits(DType::U64), v);
            assert_eq!(Scalar::from_bits(v, DType::U64), scalar);
            assert_eq!(scalar.to_f64(), v as f64);
            assert_eq!(scalar.to_i128(), v as i128);
            assert_eq!(scalar.fits(DType::I64), v <= i64::MAX as u64);
        }
        assert!(!Scalar::Int(-1).fits(DType::U64) && !Scalar::Int(65_536).fits(DType::U16));
        assert!(Scalar::Float(9_223_372_036_854_775_808.0).fits(DType::U64));
        assert!(!Scalar::Float(18_446_744_073_709_551_616.0).fits(DType::U64));
        assert!(!Scalar::Float(9_223_372_036_854_775_808.0).fits(DType::I64));
        assert!(!Scalar::Float(f64::NAN).fits(DType::U64) && !Scalar::Float(f64::INFINITY).fits(DType::U64));
        assert_eq!(Scalar::Float(-3.0).to_bits(DType::U64), 0);
        assert_eq!(Scalar::Float(1e30).to_bits(DType::U64), u64::MAX);
        assert_eq!(Scalar::int_bounds(DType::U64), (Scalar::Int(0), Scalar::Unsigned(u64::MAX)));
    }
}
