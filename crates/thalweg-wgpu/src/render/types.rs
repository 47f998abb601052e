//! Dtypes in WGSL: types of values, and conversions between them.
//!
//! Registers hold bf16 and f16 as f32, and integers of 8 and 16 bits as i32 or u32, always wrapped. Elements of 8 and 16
//! bits are stored in u32 words; an element in its memory format is a u32 with its bits, or an i32 with its value.

use thalweg_gpu::ir::Type;
use thalweg_ir::{DType, Scalar};

/// WGSL type of a value in a register; `None` for f64.
pub fn held(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 | DType::BF16 | DType::F16 => "f32",
        DType::F64 => return None,
        DType::I8 | DType::I16 | DType::I32 => "i32",
        DType::U8 | DType::U16 | DType::U32 => "u32",
        DType::I64 => "i64",
        DType::U64 => "u64",
        DType::Bool => "bool",
    })
}

/// WGSL type of an element in its memory format; `None` for f64.
pub fn stored(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::BF16 | DType::F16 | DType::Bool => Some("u32"),
        other => held(other),
    }
}

/// Bytes of an element of this type in memory. A narrow float in a register is an f32.
pub fn size(ty: Type) -> usize {
    match ty {
        Type::Held(DType::BF16 | DType::F16) => 4,
        Type::Held(dtype) | Type::Stored(dtype) => dtype.size(),
        Type::State(_) | Type::Wide(_) | Type::Matrix => 8,
    }
}

/// Wraps a value to its dtype, after arithmetic in 32 bits.
pub fn wrapped(dtype: DType, x: &str) -> String {
    match dtype {
        DType::I8 => format!("signed_8(bitcast<u32>({x}))"),
        DType::I16 => format!("signed_16(bitcast<u32>({x}))"),
        DType::U8 => format!("(({x}) & 255u)"),
        DType::U16 => format!("(({x}) & 65535u)"),
        _ => x.into(),
    }
}

/// Element from its raw bits in memory: a u32, or a u64 for 8 bytes.
pub fn from_bits(ty: Type, raw: &str) -> String {
    match ty {
        Type::Held(DType::F32 | DType::BF16 | DType::F16) | Type::Stored(DType::F32) => format!("bitcast<f32>({raw})"),
        Type::Held(DType::I32) | Type::Stored(DType::I32) => format!("bitcast<i32>({raw})"),
        Type::Held(DType::I8) | Type::Stored(DType::I8) => format!("signed_8({raw})"),
        Type::Held(DType::I16) | Type::Stored(DType::I16) => format!("signed_16({raw})"),
        Type::Held(DType::I64) | Type::Stored(DType::I64) => format!("i64({raw})"),
        Type::Held(DType::Bool) => format!("({raw} != 0u)"),
        _ => raw.into(),
    }
}

/// Raw bits of an element: a u32 whose upper bits are 0, or a u64 for 8 bytes.
pub fn to_bits(ty: Type, x: &str) -> String {
    match ty {
        Type::Held(DType::F32 | DType::BF16 | DType::F16) | Type::Stored(DType::F32) => format!("bitcast<u32>({x})"),
        Type::Held(DType::I32) | Type::Stored(DType::I32) => format!("bitcast<u32>({x})"),
        Type::Held(DType::I8) | Type::Stored(DType::I8) => format!("(bitcast<u32>({x}) & 255u)"),
        Type::Held(DType::I16) | Type::Stored(DType::I16) => format!("(bitcast<u32>({x}) & 65535u)"),
        Type::Held(DType::I64) | Type::Stored(DType::I64) => format!("u64({x})"),
        Type::Held(DType::Bool) => format!("u32({x})"),
        _ => x.into(),
    }
}

/// Conversion of a value between WGSL types. The compiler extends integers by the sign of the target, so they are
/// extended by their own sign first.
pub fn widened(from: &str, to: &str, x: &str) -> String {
    match (from, to) {
        ("u32", "i64") => format!("i64(u64({x}))"),
        ("i32", "u64") => format!("u64(i64({x}))"),
        _ => format!("{to}({x})"),
    }
}

/// Value of an element in its memory format.
pub fn unpack(dtype: DType, raw: &str) -> String {
    match dtype {
        DType::BF16 => format!("from_bf16({raw})"),
        DType::F16 => format!("from_f16({raw})"),
        DType::Bool => format!("({raw} != 0u)"),
        _ => raw.into(),
    }
}

/// Element in memory format of a value that is already rounded.
pub fn pack(dtype: DType, value: &str) -> String {
    match dtype {
        DType::BF16 => format!("bits_bf16({value})"),
        DType::F16 => format!("bits_f16({value})"),
        DType::Bool => format!("u32({value})"),
        _ => value.into(),
    }
}

/// Integer literal of a type.
pub fn number(n: i64, ty: Type) -> String {
    let (Type::Held(dtype) | Type::Stored(dtype)) = ty else { return n.to_string() };
    match stored(dtype).filter(|_| ty != Type::BOOL) {
        Some("f32") => format!("{n}.0f"),
        Some("u32") => format!("{}u", n as u32),
        Some("u64") => format!("{}lu", n as u64),
        Some("i64") if n == i64::MIN => "i64(9223372036854775808lu)".into(),
        Some("i64") if n < 0 => format!("({n}li)"),
        Some("i64") => format!("{n}li"),
        Some(_) if n == i64::from(i32::MIN) => "bitcast<i32>(0x80000000u)".into(),
        Some(_) if n < 0 => format!("({n}i)"),
        Some(_) => format!("{n}i"),
        None => (n != 0).to_string(),
    }
}

/// Literal of a constant, whose bits are in the form of [`Scalar::to_bits`].
pub fn constant(dtype: DType, bits: u64) -> String {
    match dtype {
        DType::F32 | DType::BF16 | DType::F16 => {
            let v = f32::from_bits(bits as u32);
            // Only 0 and normal numbers are safe as literals.
            let is_plain = v.is_normal() || bits as u32 == 0;
            if is_plain { format!("({v:?}f)") } else { format!("bits_f32(0x{:08x}u)", bits as u32) }
        }
        DType::Bool => (bits != 0).to_string(),
        // No constants to the compiler, which cannot convert constants of 64 bits.
        DType::U64 => format!("long_u64({bits}lu)"),
        DType::I64 => format!("long_i64({})", number(bits as i64, Type::I64)),
        _ => number(Scalar::from_bits(bits, dtype).to_i64(), Type::Held(dtype)),
    }
}

/// Value of a scalar kernel argument, in its two words.
pub fn scalar(dtype: DType, words: &str) -> String {
    match dtype {
        DType::F32 | DType::BF16 | DType::F16 => format!("bits_f32({words}.x)"),
        DType::Bool => format!("(({words}.x | {words}.y) != 0u)"),
        DType::I64 => format!("i64(word_u64({words}))"),
        DType::U64 | DType::F64 => format!("word_u64({words})"),
        DType::I8 | DType::I16 | DType::I32 => wrapped(dtype, &format!("bitcast<i32>({words}.x)")),
        DType::U8 | DType::U16 | DType::U32 => wrapped(dtype, &format!("{words}.x")),
    }
}

/// Conversion of a value from one dtype to another.
pub fn cast(from: DType, to: DType, x: &str) -> String {
    use DType::{BF16, Bool, F16, F32, I8, I16, I32, I64, U8, U16, U32, U64};
    let round = |d: DType, x: String| format!("round_{}({x})", if d == BF16 { "bf16" } else { "f16" });
    match (from, to) {
        (a, b) if a == b => x.into(),
        (f, Bool) if f.is_float() => format!("bool_of_f32({x})"),
        (f, Bool) => format!("!equal_{}({x}, {})", held(f).unwrap_or_default(), number(0, Type::Held(f))),
        (F32 | BF16 | F16, F32) => x.into(),
        (F32 | BF16 | F16, BF16 | F16) => round(to, x.into()),
        (Bool | I8 | I16 | U8 | U16, BF16 | F16) => round(to, format!("f32({x})")),
        (I32 | I64, BF16 | F16) => round(to, format!("odd_i64(i64({x}))")),
        (_, BF16 | F16) => round(to, format!("odd_u64(u64({x}))")),
        (_, F32) => format!("f32({x})"),
        (F32 | BF16 | F16, I32 | U32 | I64 | U64) => format!("to_{}({x})", held(to).unwrap_or_default()),
        (F32 | BF16 | F16, I8) => format!("saturated_i32({x}, -128.0, 127.0, -128i, 127i)"),
        (F32 | BF16 | F16, I16) => format!("saturated_i32({x}, -32768.0, 32767.0, -32768i, 32767i)"),
        (F32 | BF16 | F16, U8) => format!("u32(saturated_i32({x}, 0.0, 255.0, 0i, 255i))"),
        (F32 | BF16 | F16, U16) => format!("u32(saturated_i32({x}, 0.0, 65535.0, 0i, 65535i))"),
        // Integers wrap; a condition becomes 0 or 1 of 32 bits first.
        (Bool, I64 | U64) => widened("u32", held(to).unwrap_or_default(), &format!("u32({x})")),
        (f, t) => wrapped(t, &widened(held(f).unwrap_or_default(), held(t).unwrap_or_default(), x)),
    }
}

/// Reinterpretation of the bits of a value as another dtype of the same width.
pub fn bitcast(from: DType, to: DType, x: &str) -> String {
    let bits = match from {
        DType::BF16 => format!("bits_bf16({x})"),
        DType::F16 => format!("bits_f16({x})"),
        other => to_bits(Type::Held(other), x),
    };
    match to {
        DType::BF16 => format!("from_bf16({bits})"),
        DType::F16 => format!("from_f16({bits})"),
        other => from_bits(Type::Held(other), &bits),
    }
}
