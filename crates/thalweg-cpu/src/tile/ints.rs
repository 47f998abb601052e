//! Elementwise operations on i32, u32, i64 and u64 lanes, and on bools (one byte, 0 or 1).
//!
//! Narrow integers are computed in i32; the step after the operation wraps them. Operations of more than one
//! instruction use the operation table's own functions.

use super::lanes::{Loop, lanes};
use super::quotients;
use thalweg_ir::element::integers;
use thalweg_ir::{DType, ElementOp};

/// Operations common to signed and unsigned integers.
macro_rules! shared_operations {
    ($name:ident, $t:ident) => {
        fn $name(op: ElementOp) -> Option<Loop> {
            use ElementOp::*;
            Some(match op {
                Neg => lanes!(|a: $t| -> $t { a.wrapping_neg() }),
                Square => lanes!(|a: $t| -> $t { a.wrapping_mul(a) }),
                Relu => lanes!(|a: $t| -> $t { a.max(0) }),
                BitNot => lanes!(|a: $t| -> $t { !a }),
                Add => lanes!(|a: $t, b: $t| -> $t { a.wrapping_add(b) }),
                Sub => lanes!(|a: $t, b: $t| -> $t { a.wrapping_sub(b) }),
                Mul => lanes!(|a: $t, b: $t| -> $t { a.wrapping_mul(b) }),
                Div => lanes!(|a: $t, b: $t| -> $t { if b == 0 { 0 } else { a.wrapping_div(b) } }),
                Minimum => lanes!(|a: $t, b: $t| -> $t { a.min(b) }),
                Maximum => lanes!(|a: $t, b: $t| -> $t { a.max(b) }),
                Clamp => lanes!(|a: $t, b: $t, c: $t| -> $t { a.max(b).min(c) }),
                BitAnd => lanes!(|a: $t, b: $t| -> $t { a & b }),
                BitOr => lanes!(|a: $t, b: $t| -> $t { a | b }),
                BitXor => lanes!(|a: $t, b: $t| -> $t { a ^ b }),
                Eq => lanes!(|a: $t, b: $t| -> u8 { (a == b) as u8 }),
                Ne => lanes!(|a: $t, b: $t| -> u8 { (a != b) as u8 }),
                Lt => lanes!(|a: $t, b: $t| -> u8 { (a < b) as u8 }),
                Le => lanes!(|a: $t, b: $t| -> u8 { (a <= b) as u8 }),
                Gt => lanes!(|a: $t, b: $t| -> u8 { (a > b) as u8 }),
                Ge => lanes!(|a: $t, b: $t| -> u8 { (a >= b) as u8 }),
                Where => lanes!(|c: u8, a: $t, b: $t| -> $t { if c != 0 { a } else { b } }),
                _ => return None,
            })
        }
    };
}
shared_operations!(shared_i32, i32);
shared_operations!(shared_i64, i64);
shared_operations!(shared_u32, u32);
shared_operations!(shared_u64, u64);

macro_rules! signed_operations {
    ($name:ident, $t:ident) => {
        fn $name(op: ElementOp) -> Option<Loop> {
            use ElementOp::*;
            Some(match op {
                Abs => lanes!(|a: $t| -> $t { a.wrapping_abs() }),
                Sign => lanes!(|a: $t| -> $t { a.signum() }),
                FloorDiv => lanes!(|a: $t, b: $t| -> $t { integers::floor_div(a as i64, b as i64) as $t }),
                Rem => lanes!(|a: $t, b: $t| -> $t { integers::rem(a as i64, b as i64) as $t }),
                Pow => lanes!(|a: $t, b: $t| -> $t { integers::pow(a as i64, b as i64) as $t }),
                _ => return None,
            })
        }
    };
}
signed_operations!(signed_i32, i32);
signed_operations!(signed_i64, i64);

macro_rules! unsigned_operations {
    ($name:ident, $t:ident) => {
        fn $name(op: ElementOp) -> Option<Loop> {
            use ElementOp::*;
            Some(match op {
                Abs => lanes!(|a: $t| -> $t { a }),
                Sign => lanes!(|a: $t| -> $t { a.min(1) }),
                FloorDiv => lanes!(|a: $t, b: $t| -> $t { a.checked_div(b).unwrap_or(0) }),
                Rem => lanes!(|a: $t, b: $t| -> $t { a.checked_rem(b).unwrap_or(0) }),
                Pow => lanes!(|a: $t, b: $t| -> $t { integers::pow_unsigned(a as u64, b as u64) as $t }),
                _ => return None,
            })
        }
    };
}
unsigned_operations!(unsigned_u32, u32);
unsigned_operations!(unsigned_u64, u64);

/// Loop of a shift. It depends on the width of the dtype, which may be narrower than its i32 lanes; `None` for other
/// operations.
fn shift(op: ElementOp, dtype: DType) -> Option<Loop> {
    /// Expands to the loop of a shift. A count that is negative or at least the width gives 0 to the left; to the
    /// right, it gives -1 for negative values, else 0.
    macro_rules! by_width {
        ($t:ident, $unsigned:ident, $bits:literal) => {
            match op {
                ElementOp::Shl => lanes!(|a: $t, b: $t| -> $t {
                    let within = (b as $unsigned) < $bits;
                    let shifted = a.wrapping_shl(b as u32);
                    if within { shifted } else { 0 }
                }),
                ElementOp::Shr => lanes!(|a: $t, b: $t| -> $t {
                    let within = (b as $unsigned) < $bits;
                    let sign = if a < (0 as $t) { !(0 as $t) } else { 0 };
                    let shifted = a.wrapping_shr(b as u32);
                    if within { shifted } else { sign }
                }),
                _ => return None,
            }
        };
    }
    #[allow(clippy::absurd_extreme_comparisons, unused_comparisons, reason = "one macro for signed and unsigned")]
    Some(match dtype {
        DType::I8 | DType::U8 => by_width!(i32, u32, 8),
        DType::I16 | DType::U16 => by_width!(i32, u32, 16),
        DType::I32 => by_width!(i32, u32, 32),
        DType::U32 => by_width!(u32, u32, 32),
        DType::I64 => by_width!(i64, u64, 64),
        DType::U64 => by_width!(u64, u64, 64),
        _ => return None,
    })
}

/// Loop of an operation on an integer dtype; narrow results still have to be wrapped.
pub(super) fn int(op: ElementOp, dtype: DType) -> Option<Loop> {
    match dtype {
        DType::U32 => shared_u32(op).or_else(|| unsigned_u32(op)),
        DType::I64 => quotients::i64(op).or_else(|| shared_i64(op)).or_else(|| signed_i64(op)),
        DType::U64 => shared_u64(op).or_else(|| unsigned_u64(op)),
        _ => shared_i32(op).or_else(|| signed_i32(op)),
    }
    .or_else(|| shift(op, dtype))
}

/// Whether an operation on values in range of a narrow dtype may give a result out of range.
pub(super) fn may_leave(op: ElementOp) -> bool {
    use ElementOp::*;
    !matches!(op, Sign | Relu | Rem | Minimum | Maximum | Clamp | BitAnd | BitOr | BitXor | Shr | Where)
}

/// Loop of an operation on bools.
pub(super) fn bool(op: ElementOp) -> Option<Loop> {
    use ElementOp::*;
    Some(match op {
        Not => lanes!(|a: u8| -> u8 { a ^ 1 }),
        And => lanes!(|a: u8, b: u8| -> u8 { a & b }),
        Or => lanes!(|a: u8, b: u8| -> u8 { a | b }),
        Xor | Ne => lanes!(|a: u8, b: u8| -> u8 { a ^ b }),
        Eq => lanes!(|a: u8, b: u8| -> u8 { a ^ b ^ 1 }),
        Where => lanes!(|c: u8, a: u8, b: u8| -> u8 { if c != 0 { a } else { b } }),
        _ => return None,
    })
}
