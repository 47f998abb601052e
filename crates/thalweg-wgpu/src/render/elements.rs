//! Elementwise operations in WGSL.
//!
//! Comparisons and extremes of floats look at bits, since the language may assume that there is no NaN. Functions are
//! those of `math.wgsl`. Integers wrap.

use super::types::{held, wrapped};
use thalweg_ir::{DType, ElementOp};

/// Whether an operation has an expression; others are expanded into simpler ones ([`thalweg_kernel::expand`]).
pub fn is_native(op: ElementOp, dtype: DType) -> bool {
    expression(op, dtype, &["", "", ""]).is_some()
}

/// Expression of an operation on arguments of `dtype`; `None` where the operation has none.
pub fn expression(op: ElementOp, dtype: DType, args: &[&str]) -> Option<String> {
    match dtype {
        // Refused where types are printed: there is no f64.
        DType::F64 | DType::F32 | DType::BF16 | DType::F16 => float(op, args),
        DType::Bool => boolean(op, args),
        _ => integer(op, dtype, args),
    }
}

fn float(op: ElementOp, a: &[&str]) -> Option<String> {
    use ElementOp::*;
    let call = |name: &str| format!("{name}_f32({})", a.join(", "));
    let x = a[0];
    Some(match op {
        Eq => call("equal"),
        Ne => format!("!equal_f32({x}, {})", a[1]),
        Lt => call("less"),
        Le => call("less_equal"),
        Gt => format!("less_f32({}, {x})", a[1]),
        Ge => format!("less_equal_f32({}, {x})", a[1]),
        Neg => format!("(-{x})"),
        Abs => format!("abs({x})"),
        Sign => call("sign"),
        Square => format!("({x} * {x})"),
        Sqrt => format!("sqrt({x})"),
        Rsqrt => format!("(1.0 / sqrt({x}))"),
        Recip => format!("(1.0 / {x})"),
        Exp => call("exp"),
        Exp2 => call("exp2"),
        Expm1 => call("expm1"),
        Log => call("log"),
        Log2 => call("log2"),
        Log1p => call("log1p"),
        Sin => call("sin"),
        Cos => call("cos"),
        Tan => call("tan"),
        Asin => call("asin"),
        Acos => call("acos"),
        Atan => call("atan"),
        Atan2 => call("atan2"),
        Sinh => call("sinh"),
        Cosh => call("cosh"),
        Asinh => call("asinh"),
        Acosh => call("acosh"),
        Atanh => call("atanh"),
        Hypot => call("hypot"),
        Tanh => call("tanh"),
        Erf => call("erf"),
        Erfc => call("erfc"),
        Sigmoid => call("sigmoid"),
        Pow => call("pow"),
        Rem => call("remainder"),
        Relu => call("relu"),
        Floor => format!("floor({x})"),
        Ceil => format!("ceil({x})"),
        Round => format!("round({x})"),
        Trunc => format!("trunc({x})"),
        IsNan => format!("is_nan({x})"),
        IsInf => format!("is_infinite({x})"),
        IsFinite => format!("is_finite({x})"),
        Add => format!("({x} + {})", a[1]),
        // The language may take a difference of equals for 0, and their quotient for 1, whatever they are.
        Sub if x == a[1] => format!("no_difference_f32({x})"),
        Div if x == a[1] => format!("unit_quotient_f32({x})"),
        FloorDiv if x == a[1] => format!("unit_quotient_f32({x})"),
        Sub => format!("({x} - {})", a[1]),
        Mul => format!("({x} * {})", a[1]),
        Div => format!("({x} / {})", a[1]),
        FloorDiv => format!("floor({x} / {})", a[1]),
        Minimum => call("smaller"),
        Maximum => call("larger"),
        Where => select(a),
        Clamp => format!("smaller_f32(larger_f32({x}, {}), {})", a[1], a[2]),
        Lerp => format!("({x} + {} * ({} - {x}))", a[2], a[1]),
        _ => return None,
    })
}

fn select(a: &[&str]) -> String {
    format!("select({}, {}, {})", a[2], a[1], a[0])
}

fn boolean(op: ElementOp, a: &[&str]) -> Option<String> {
    use ElementOp::*;
    Some(match op {
        Not => format!("!{}", a[0]),
        And => format!("({} & {})", a[0], a[1]),
        Or => format!("({} | {})", a[0], a[1]),
        Eq => format!("({} == {})", a[0], a[1]),
        Xor | Ne => format!("({} != {})", a[0], a[1]),
        Where => select(a),
        _ => return None,
    })
}

fn integer(op: ElementOp, dtype: DType, a: &[&str]) -> Option<String> {
    use ElementOp::*;
    let t = held(dtype)?;
    let call = |name: &str| format!("{name}_{t}({})", a.join(", "));
    let shift = |name: &str| format!("{name}_{t}({}, {}, {}u)", a[0], a[1], 8 * dtype.size());
    let sign = |sign: &str| format!("({} {sign} {})", a[0], a[1]);
    let value = match op {
        Eq => return Some(call("equal")),
        Ne => return Some(format!("!{}", call("equal"))),
        Lt => return Some(call("less")),
        Le => return Some(format!("!less_{t}({}, {})", a[1], a[0])),
        Gt => return Some(format!("less_{t}({}, {})", a[1], a[0])),
        Ge => return Some(format!("!{}", call("less"))),
        Neg => format!("({t}(0) - {})", a[0]),
        Abs => call("magnitude"),
        Sign => call("sign"),
        Square => format!("({0} * {0})", a[0]),
        Relu => format!("larger_{t}({}, {t}(0))", a[0]),
        Add => sign("+"),
        Sub => sign("-"),
        Mul => sign("*"),
        Div => call("div"),
        FloorDiv => call("floor"),
        Rem => call("rem"),
        Pow => call("pow"),
        Minimum => call("smaller"),
        Maximum => call("larger"),
        Clamp => format!("smaller_{t}(larger_{t}({}, {}), {})", a[0], a[1], a[2]),
        BitNot => format!("~{}", a[0]),
        BitAnd => sign("&"),
        BitOr => sign("|"),
        BitXor => sign("^"),
        Shl => shift("shl"),
        Shr => shift("shr"),
        Where => select(a),
        _ => return None,
    };
    Some(wrapped(dtype, &value))
}
