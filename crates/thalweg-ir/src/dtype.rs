//! Element types of tensors, and the register types in which their elements are computed.

use std::fmt;

/// Element type of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum DType {
    /// 32-bit float: IEEE 754 binary32.
    F32,
    /// 64-bit float: IEEE 754 binary64.
    F64,
    /// 16-bit float bfloat16: the upper half of a binary32. Computed in f32.
    BF16,
    /// 16-bit float: IEEE 754 binary16. Computed in f32.
    F16,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// Truth value, one byte in memory: 0 or 1.
    Bool,
}

/// Properties of a float dtype, as NumPy's `finfo`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FloatInfo {
    /// Number of bits of an element.
    pub bits: u32,
    /// Difference between 1 and the next larger number of the dtype.
    pub epsilon: f64,
    /// The largest finite number; the smallest is its negative.
    pub max: f64,
    /// The smallest positive number of full precision.
    pub smallest_normal: f64,
}

/// Register type in which elements of a [`DType`] are computed.
///
/// Narrow types are widened when loaded and narrowed when stored; narrow integers wrap to their
/// width after each operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compute {
    /// 32-bit float, for elements of f32, bf16 and f16.
    F32,
    /// 64-bit float, for elements of f64.
    F64,
    /// Signed 32-bit integer, for elements of i8, i16 and i32, and of u8 and u16 (which fit without loss).
    I32,
    /// Unsigned 32-bit integer, for elements of u32.
    U32,
    /// Signed 64-bit integer, for elements of i64.
    I64,
    /// Unsigned 64-bit integer, for elements of u64.
    U64,
    /// Truth value per lane (a mask), for elements of bool.
    Mask,
}

impl DType {
    /// All dtypes, in declaration order.
    pub const ALL: [DType; 13] = [
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::F16,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::Bool,
    ];

    /// Number of bytes of one element in memory.
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::BF16 | DType::F16 | DType::I16 | DType::U16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// Name of the dtype in the API and in messages, such as `f32`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::BF16 => "bf16",
            DType::F16 => "f16",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::Bool => "bool",
        }
    }

    /// Returns the dtype with this name (inverse of [`DType::name`]); `None` if there is none.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Returns the dtype with this discriminant (inverse of `dtype as u8`); `None` if there is none.
    pub fn from_index(index: u8) -> Option<DType> {
        DType::ALL.get(index as usize).copied()
    }

    /// Whether the dtype is f32, f64, bf16 or f16.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::BF16 | DType::F16)
    }

    /// Whether the dtype is a signed or unsigned integer; bool is not one.
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, DType::Bool)
    }

    /// Whether the dtype is an integer or float type that holds negative values.
    pub const fn is_signed(self) -> bool {
        !matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool)
    }

    /// Register type in which elements of the dtype are computed.
    pub const fn compute(self) -> Compute {
        match self {
            DType::F32 | DType::BF16 | DType::F16 => Compute::F32,
            DType::F64 => Compute::F64,
            DType::I8 | DType::I16 | DType::I32 | DType::U8 | DType::U16 => Compute::I32,
            DType::U32 => Compute::U32,
            DType::I64 => Compute::I64,
            DType::U64 => Compute::U64,
            DType::Bool => Compute::Mask,
        }
    }

    /// Smallest and largest value of an integer dtype (0 and 1 for bool).
    ///
    /// # Panics
    /// For a float dtype.
    pub const fn int_range(self) -> (i128, i128) {
        match self {
            DType::I8 => (i8::MIN as i128, i8::MAX as i128),
            DType::I16 => (i16::MIN as i128, i16::MAX as i128),
            DType::I32 => (i32::MIN as i128, i32::MAX as i128),
            DType::I64 => (i64::MIN as i128, i64::MAX as i128),
            DType::U8 => (0, u8::MAX as i128),
            DType::U16 => (0, u16::MAX as i128),
            DType::U32 => (0, u32::MAX as i128),
            DType::U64 => (0, u64::MAX as i128),
            DType::Bool => (0, 1),
            _ => panic!("a float dtype has no integer range"),
        }
    }

    /// Properties of a float dtype, as NumPy's `finfo`.
    ///
    /// # Panics
    /// For a dtype that is not a float.
    pub fn float_info(self) -> FloatInfo {
        let digits = self.mantissa_digits() as i32;
        let (most, least) = match self {
            DType::F64 => (1023, -1022),
            DType::F16 => (15, -14),
            _ => (127, -126),
        };
        FloatInfo {
            bits: 8 * self.size() as u32,
            epsilon: 2f64.powi(1 - digits),
            max: (2.0 - 2f64.powi(1 - digits)) * 2f64.powi(most),
            smallest_normal: 2f64.powi(least),
        }
    }

    /// Wraps an exact integer result to this integer dtype (two's complement; bool keeps bit 0). A u64 is represented
    /// by its 64 bits, here and in the meanings of operations; [`Scalar::integer`](crate::Scalar::integer) converts it.
    pub const fn wrap(self, v: i64) -> i64 {
        match self {
            DType::I8 => v as i8 as i64,
            DType::I16 => v as i16 as i64,
            DType::I32 => v as i32 as i64,
            DType::U8 => v as u8 as i64,
            DType::U16 => v as u16 as i64,
            DType::U32 => v as u32 as i64,
            DType::Bool => v & 1,
            _ => v,
        }
    }

    /// Rounds a value to the nearest value of this float dtype (ties to even); other dtypes return it unchanged.
    pub fn round(self, v: f64) -> f64 {
        match self {
            DType::F32 => v as f32 as f64,
            DType::BF16 => half::bf16::from_f32(to_odd(v)).to_f64(),
            DType::F16 => half::f16::from_f32(to_odd(v)).to_f64(),
            _ => v,
        }
    }

    /// Number of significand bits of a float dtype, the hidden bit included.
    ///
    /// # Panics
    /// For a dtype that is not a float.
    pub const fn mantissa_digits(self) -> u32 {
        match self {
            DType::F32 => 24,
            DType::F64 => 53,
            DType::BF16 => 8,
            DType::F16 => 11,
            _ => panic!("an integer dtype has no mantissa"),
        }
    }
}

/// Converts a value to f32, rounded to odd (Boldo, Melquiond 2008). If the result is then rounded to nearest in a
/// narrower float, the value is rounded only once overall, unlike in the conversion from f64 of the crate `half`.
#[inline(always)]
pub fn to_odd(v: f64) -> f32 {
    let near = v as f32;
    let exact = near as f64 == v || !near.is_finite() && v.is_infinite() || v.is_nan();
    let away = (near as f64).abs() > v.abs();
    let odd = near.to_bits().wrapping_sub(away as u32) | 1;
    // Without a branch, so that loops vectorise.
    f32::from_bits(if exact { near.to_bits() } else { odd })
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_as_rust_has_them() {
        let (f, d) = (DType::F32.float_info(), DType::F64.float_info());
        assert_eq!((f.epsilon, f.max), (f32::EPSILON as f64, f32::MAX as f64));
        assert_eq!(f.smallest_normal, f32::MIN_POSITIVE as f64);
        assert_eq!((d.epsilon, d.max, d.smallest_normal), (f64::EPSILON, f64::MAX, f64::MIN_POSITIVE));
        let (h, b) = (DType::F16.float_info(), DType::BF16.float_info());
        assert_eq!((h.max, b.max), (half::f16::MAX.to_f64(), half::bf16::MAX.to_f64()));
        assert_eq!((h.epsilon, b.epsilon), (half::f16::EPSILON.to_f64(), half::bf16::EPSILON.to_f64()));
    }

    #[test]
    fn narrow_floats_are_rounded_once() {
        assert_eq!(DType::BF16.round(1866466089.0), 1870659584.0);
        // Just above the midpoint of 1 and its successor in bf16; rounding to f32 first would give the midpoint.
        assert_eq!(DType::BF16.round(1.0 + 2f64.powi(-8) + 2f64.powi(-40)), 1.0 + 2f64.powi(-7));
        assert_eq!(DType::BF16.round(1.0 + 2f64.powi(-8)), 1.0);
        assert_eq!(DType::F16.round(1e30), f64::INFINITY);
        assert_eq!(DType::F16.round(-0.0).to_bits(), (-0.0f64).to_bits());
        assert!(DType::F16.round(f64::NAN).is_nan());
    }
}
