//! Dtypes in CUDA C++: types in memory and in registers, and conversions between them.

use thalweg_ir::{DType, Scalar};

/// C++ type of an element in memory.
pub fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::BF16 | DType::F16 => "u16",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U8 | DType::Bool => "u8",
        DType::U16 => "u16",
        DType::U32 => "u32",
        DType::U64 => "u64",
    }
}

/// C++ type of a value in a register; bf16 and f16 are held as float.
pub fn held(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::BF16 | DType::F16 => "float",
        DType::Bool => "bool",
        other => stored(other),
    }
}

/// Expression that converts a loaded element to its register type.
pub fn unpack(dtype: DType, raw: &str) -> String {
    match dtype {
        DType::BF16 => format!("from_bf16({raw})"),
        DType::F16 => format!("from_f16({raw})"),
        DType::Bool => format!("({raw} != 0)"),
        _ => raw.into(),
    }
}

/// Expression that converts a register value to the element type in memory, rounding it.
pub fn pack(dtype: DType, value: &str) -> String {
    match dtype {
        DType::BF16 => format!("to_bf16({value})"),
        DType::F16 => format!("to_f16({value})"),
        DType::Bool => format!("(u8)({value})"),
        _ => value.into(),
    }
}

/// Expression that converts a register value to the element type in memory, where the value is already rounded.
pub fn pack_rounded(dtype: DType, value: &str) -> String {
    if dtype == DType::BF16 { format!("bits_bf16({value})") } else { pack(dtype, value) }
}

/// C++ literal of a constant, whose bits are in the form of [`Scalar::to_bits`].
pub fn constant(dtype: DType, bits: u64) -> String {
    let scalar = Scalar::from_bits(bits, dtype);
    match dtype {
        DType::F32 | DType::BF16 | DType::F16 => {
            let v = f32::from_bits(bits as u32);
            if v.is_finite() { format!("{v:?}f") } else { format!("bits_f32(0x{:08x}u)", bits as u32) }
        }
        DType::F64 => {
            let v = f64::from_bits(bits);
            if v.is_finite() { format!("{v:?}") } else { format!("__longlong_as_double(0x{bits:016x}ll)") }
        }
        DType::Bool => format!("{}", bits != 0),
        DType::I64 => format!("(i64)0x{bits:x}ull"),
        DType::U64 => format!("0x{bits:x}ull"),
        DType::U32 => format!("{}u", scalar.to_i64()),
        DType::I32 => format!("(i32)0x{:x}u", bits as u32),
        _ => format!("({}){}", held(dtype), scalar.to_i64()),
    }
}

/// Expression of a scalar kernel argument, decoded from its 64-bit argument word.
pub fn scalar(dtype: DType, word: &str) -> String {
    match dtype {
        DType::F32 | DType::BF16 | DType::F16 => format!("bits_f32((u32){word})"),
        DType::F64 => format!("__longlong_as_double((i64){word})"),
        DType::Bool => format!("({word} != 0)"),
        _ => format!("({}){word}", held(dtype)),
    }
}

/// Expression that converts a register value from one dtype to another.
pub fn cast(from: DType, to: DType, x: &str) -> String {
    use DType::{BF16, Bool, F16, F32, F64};
    let narrow = |d| matches!(d, BF16 | F16);
    let name = |d| if d == BF16 { "bf16" } else { "f16" };
    match (from, to) {
        (a, b) if a == b => x.into(),
        (_, Bool) => format!("({x} != 0)"),
        // Bool and integers of 8 and 16 bits are exact in f32. Others are rounded once, through f64 where that is
        // exact.
        (Bool | DType::I8 | DType::I16 | DType::U8 | DType::U16 | F32 | BF16 | F16, t) if narrow(t) => {
            format!("round_{}((float){x})", name(t))
        }
        (DType::I64, t) if narrow(t) => format!("{}_of(odd_f64({x}))", name(t)),
        (_, t) if narrow(t) => format!("{}_of((double){x})", name(t)),
        (F32 | BF16 | F16, F32) => x.into(),
        (f, F32 | F64) if f.is_float() || f.is_int() || f == Bool => format!("({}){x}", held(to)),
        (f, t) if f.is_float() && t.is_int() => format!("to_int<{}>({x})", held(t)),
        (_, t) => format!("({}){x}", held(t)),
    }
}

/// Expression that reinterprets the bits of a value as another dtype of the same width.
pub fn bitcast(from: DType, to: DType, x: &str) -> String {
    let bits = match from {
        DType::F32 => format!("f32_bits({x})"),
        DType::F64 => format!("__double_as_longlong({x})"),
        DType::BF16 => format!("bits_bf16({x})"),
        DType::F16 => format!("to_f16({x})"),
        _ => x.into(),
    };
    match to {
        DType::F32 => format!("bits_f32((u32){bits})"),
        DType::F64 => format!("__longlong_as_double((i64){bits})"),
        DType::BF16 => format!("from_bf16((u16){bits})"),
        DType::F16 => format!("from_f16((u16){bits})"),
        _ => format!("({}){bits}", held(to)),
    }
}
