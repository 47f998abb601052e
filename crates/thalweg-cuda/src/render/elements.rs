//! Elementwise operations in CUDA C++.
//!
//! Floats go through CUDA's own functions (or those of the prelude), whose bounds are in the CUDA C++ Programming Guide
//! ("Mathematical Functions"); narrow floats have been cast to f32 before ([`thalweg_kernel::widen`]). Integers wrap.

use super::types::held;
use thalweg_ir::{DType, ElementOp};

/// CUDA C++ expression of an operation on arguments of `dtype`; `None` where the operation has none.
fn written(op: ElementOp, dtype: DType, args: &[&str]) -> Option<String> {
    if dtype.is_float() {
        float(op, dtype, args)
    } else if dtype == DType::Bool {
        boolean(op, args)
    } else {
        integer(op, dtype, args)
    }
}

/// Whether an operation has an expression; others are expanded into simpler ones ([`thalweg_kernel::expand`]).
pub fn is_native(op: ElementOp, dtype: DType) -> bool {
    written(op, dtype, &["", "", ""]).is_some()
}

/// Expression of an operation on arguments of `dtype`; panics where there is none.
pub fn expression(op: ElementOp, dtype: DType, args: &[&str]) -> String {
    written(op, dtype, args)
        .unwrap_or_else(|| panic!("{} of {dtype} has no expression, and none was put in its place", op.name()))
}

fn compared(op: ElementOp) -> Option<&'static str> {
    Some(match op {
        ElementOp::Eq => "==",
        ElementOp::Ne => "!=",
        ElementOp::Lt => "<",
        ElementOp::Le => "<=",
        ElementOp::Gt => ">",
        ElementOp::Ge => ">=",
        _ => return None,
    })
}

fn float(op: ElementOp, dtype: DType, a: &[&str]) -> Option<String> {
    use ElementOp::*;
    if let Some(sign) = compared(op) {
        return Some(format!("{} {sign} {}", a[0], a[1]));
    }
    // C's functions of f32 have the suffix f.
    let f = if dtype == DType::F64 { "" } else { "f" };
    let call = |name: &str| format!("{name}{f}({})", a.join(", "));
    let x = a[0];
    Some(match op {
        Neg => format!("-{x}"),
        Abs => call("fabs"),
        Sign => format!("float_sign({x})"),
        Square => format!("{x} * {x}"),
        Sqrt => call("sqrt"),
        Rsqrt => format!("1.0{f} / sqrt{f}({x})"),
        Recip => format!("1.0{f} / {x}"),
        Exp => call("exp"),
        Exp2 => call("exp2"),
        Expm1 => call("expm1"),
        Log => call("log"),
        Log2 => call("log2"),
        Log10 => call("log10"),
        Log1p => call("log1p"),
        Sin if dtype == DType::F32 => format!("sine({x})"),
        Sin => call("sin"),
        Cos if dtype == DType::F32 => format!("cosine({x})"),
        Cos => call("cos"),
        Tan => call("tan"),
        Asin => call("asin"),
        Acos => call("acos"),
        Atan => call("atan"),
        Sinh => call("sinh"),
        Cosh => call("cosh"),
        Tanh if dtype == DType::F32 => format!("tangent({x})"),
        Tanh => call("tanh"),
        Asinh => call("asinh"),
        Acosh => call("acosh"),
        Atanh => call("atanh"),
        Erf if dtype == DType::F32 => format!("error_function({x})"),
        Erf => call("erf"),
        Erfc => call("erfc"),
        Sigmoid => format!("sigmoid({x})"),
        Relu => format!("({x} <= 0 ? 0 : {x})"),
        Floor => call("floor"),
        Ceil => call("ceil"),
        Round => call("rint"),
        Trunc => call("trunc"),
        IsNan => format!("{x} != {x}"),
        IsInf => format!("fabs{f}({x}) == {}", infinity(dtype)),
        IsFinite => format!("fabs{f}({x}) < {}", infinity(dtype)),
        Add => format!("{x} + {}", a[1]),
        Sub => format!("{x} - {}", a[1]),
        Mul => format!("{x} * {}", a[1]),
        Div => format!("{x} / {}", a[1]),
        FloorDiv => format!("floor{f}({x} / {})", a[1]),
        Rem => format!("float_rem({x}, {})", a[1]),
        Pow => call("pow"),
        Minimum => format!("smaller({x}, {})", a[1]),
        Maximum => format!("larger({x}, {})", a[1]),
        Atan2 => call("atan2"),
        Hypot => call("hypot"),
        Where => format!("{x} ? {} : {}", a[1], a[2]),
        Clamp => format!("smaller(larger({x}, {}), {})", a[1], a[2]),
        Lerp => format!("{x} + {} * ({} - {x})", a[2], a[1]),
        _ => return None,
    })
}

fn infinity(dtype: DType) -> &'static str {
    if dtype == DType::F64 { "__longlong_as_double(0x7ff0000000000000ll)" } else { "bits_f32(0x7f800000u)" }
}

fn boolean(op: ElementOp, a: &[&str]) -> Option<String> {
    use ElementOp::*;
    Some(match op {
        Not => format!("!{}", a[0]),
        And => format!("{} && {}", a[0], a[1]),
        Or => format!("{} || {}", a[0], a[1]),
        Eq => format!("{} == {}", a[0], a[1]),
        Xor | Ne => format!("{} != {}", a[0], a[1]),
        Where => format!("{} ? {} : {}", a[0], a[1], a[2]),
        _ => return None,
    })
}

fn integer(op: ElementOp, dtype: DType, a: &[&str]) -> Option<String> {
    use ElementOp::*;
    if let Some(sign) = compared(op) {
        return Some(format!("{} {sign} {}", a[0], a[1]));
    }
    let t = held(dtype);
    let call = |name: &str| format!("{name}<{t}>({})", a.join(", "));
    Some(match op {
        Neg => call("int_neg"),
        Abs => call("int_abs"),
        Sign => call("int_sign"),
        Square => format!("int_mul<{t}>({0}, {0})", a[0]),
        Relu => format!("larger<{t}>({}, 0)", a[0]),
        Add => call("int_add"),
        Sub => call("int_sub"),
        Mul => call("int_mul"),
        Div => call("int_div"),
        FloorDiv => call("int_floor"),
        Rem => call("int_rem"),
        Pow => call("int_pow"),
        Minimum => call("smaller"),
        Maximum => call("larger"),
        Clamp => format!("smaller<{t}>(larger<{t}>({}, {}), {})", a[0], a[1], a[2]),
        BitNot => call("int_not"),
        BitAnd => format!("({t})({} & {})", a[0], a[1]),
        BitOr => format!("({t})({} | {})", a[0], a[1]),
        BitXor => format!("({t})({} ^ {})", a[0], a[1]),
        Shl => call("int_shl"),
        Shr => call("int_shr"),
        Where => format!("{} ? {} : {}", a[0], a[1], a[2]),
        _ => return None,
    })
}
