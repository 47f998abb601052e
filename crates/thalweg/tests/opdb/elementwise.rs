//! Elementwise entries: functions of one tensor, pairs, operators, activations, conversions.

use crate::call::Call;
use thalweg::prelude::*;
use thalweg::{Complex, Operand};

/// Methods without arguments, by entry.
macro_rules! unary {
    ($c:ident, $entry:ident; $($name:literal $method:ident)*) => {
        match $entry {
            $($name => return Some(vec![$c.x().$method()]),)*
            _ => {}
        }
    };
}

/// Methods that take a tensor or a number, by entry.
macro_rules! binary {
    ($c:ident, $entry:ident; $($name:literal $method:ident)*) => {
        match $entry {
            $($name => return Some(vec![$c.x().$method($c.op("other"))]),)*
            _ => {}
        }
    };
}

/// The operator with the number or tensor `other` as its left operand.
fn from_left(
    c: &Call,
    numbers: impl Fn(f64, &Tensor) -> Tensor,
    integers: impl Fn(i64, &Tensor) -> Tensor,
    tensors: impl Fn(&Tensor, &Tensor) -> Tensor,
) -> Tensor {
    match c.op("other") {
        Operand::Tensor(t) => tensors(t, c.x()),
        Operand::Scalar(Scalar::Int(i)) => integers(i, c.x()),
        Operand::Scalar(v) => numbers(v.to_f64(), c.x()),
    }
}

/// Argument `name` times the argument `alpha`, which usually is 1.
fn scaled(c: &Call, name: &str) -> Tensor {
    let other = match c.op(name) {
        Operand::Tensor(t) => t.clone(),
        Operand::Scalar(v) => Tensor::full_with([], v, c.x().dtype()),
    };
    if c.float("alpha") == 1.0 { other } else { other * c.scalar("alpha") }
}

pub fn call(entry: &str, c: &Call) -> Option<Vec<Tensor>> {
    unary! { c, entry;
        "abs" abs  "acos" acos  "acosh" acosh  "asin" asin  "asinh" asinh  "atan" atan  "atanh" atanh  "ceil" ceil
        "cos" cos  "cosh" cosh  "deg2rad" deg2rad  "exp" exp  "floor" floor  "frac" fract  "i0" i0  "log1p" log1p  "log" log
        "log10" log10  "log2" log2  "neg" neg  "rad2deg" rad2deg  "round" round  "sin" sin  "sinc" sinc  "sinh" sinh
        "sign" sign  "signbit" signbit  "tan" tan  "tanh" tanh  "trunc" trunc  "exp2" exp2  "expm1" expm1
        "reciprocal" recip  "rsqrt" rsqrt  "sqrt" sqrt  "square" square  "isfinite" is_finite  "isinf" is_inf  "isnan" is_nan
        "sigmoid" sigmoid  "digamma" digamma  "erf" erf  "erfc" erfc  "erfinv" erfinv  "lgamma" lgamma
        "polygamma:polygamma_n_0" trigamma  "polygamma:polygamma_n_1" trigamma
        "special.polygamma:special_polygamma_n_0" trigamma  "special.i0e" i0e  "special.i1" i1  "special.i1e" i1e
        "special.modified_bessel_i0" i0  "special.modified_bessel_i1" i1
        "nn.functional.relu" relu  "nn.functional.hardswish" hardswish  "nn.functional.selu" selu  "nn.functional.silu" silu
        "nn.functional.hardsigmoid" hardsigmoid  "nn.functional.logsigmoid" log_sigmoid  "nn.functional.mish" mish
        "nn.functional.softsign" softsign  "nn.functional.tanhshrink" tanhshrink  "nn.functional.relu6" relu6
        "clone" clone  "contiguous" clone  "positive" clone  "alias_copy" clone
        "zeros_like" zeros_like  "ones_like" ones_like  "zero_" zeros_like
    }
    binary! { c, entry;
        "clamp_max" minimum  "clamp_min" maximum  "mul" mul  "atan2" atan2  "bitwise_left_shift" shl  "bitwise_right_shift" shr
        "copysign" copysign  "div:no_rounding_mode" div  "true_divide" div  "div:floor_rounding" floor_div  "floor_divide" floor_div
        "eq" eq  "ne" ne  "lt" lt  "le" le  "gt" gt  "ge" ge  "fmod" fmod  "remainder" rem  "logaddexp" logaddexp
        "logaddexp2" logaddexp2  "max:binary" maximum  "min:binary" minimum  "maximum" maximum  "minimum" minimum
        "heaviside" heaviside  "nextafter" nextafter  "hypot" hypot  "xlogy" xlogy  "special.xlog1py" xlog1py  "pow" pow
    }
    let boolean = |t: Tensor| t.cast(DType::Bool);
    let both = || -> (Tensor, Operand<'_>) { (c.x().clone(), c.op("other")) };
    Some(vec![match entry {
        "add" => c.x() + scaled(c, "other"),
        "sub" => c.x() - scaled(c, "other"),
        "rsub" => match c.op("other") {
            Operand::Tensor(t) => t - c.x() * c.scalar("alpha"),
            Operand::Scalar(v) => Tensor::full_with([], v, c.x().dtype()) - c.x() * c.scalar("alpha"),
        },
        "addcmul" => c.x() + c.t("a") * c.t("b") * c.scalar("value"),
        "addcdiv" => c.x() + c.t("a") / c.t("b") * c.scalar("value"),
        "allclose" => {
            let close = c.x().allclose(c.op("other"), c.float("rtol"), c.float("atol"));
            Tensor::new(close.expect("it can be computed"))
        }
        "isclose" => c.x().isclose(c.op("other"), c.float("rtol"), c.float("atol")),
        "equal" => c.x().eq(c.op("other")).all(..),
        "bitwise_not" if c.x().dtype() == DType::Bool => c.x().not(),
        "bitwise_not" => c.x().bit_not(),
        "bitwise_and" | "__rand__" if c.x().dtype() == DType::Bool => c.x().and(c.op("other")),
        "bitwise_or" | "__ror__" if c.x().dtype() == DType::Bool => c.x().or(c.op("other")),
        "bitwise_xor" | "__rxor__" if c.x().dtype() == DType::Bool => c.x().xor(c.op("other")),
        "bitwise_and" | "__rand__" => c.x().bit_and(c.op("other")),
        "bitwise_or" | "__ror__" => c.x().bit_or(c.op("other")),
        "bitwise_xor" | "__rxor__" => c.x().bit_xor(c.op("other")),
        "logical_not" => boolean(c.x().clone()).not(),
        "logical_and" => boolean(c.x().clone()).and(boolean(c.t("other").clone())),
        "logical_or" => boolean(c.x().clone()).or(boolean(c.t("other").clone())),
        "logical_xor" => boolean(c.x().clone()).xor(boolean(c.t("other").clone())),
        "clamp" => match (c.has("min"), c.has("max")) {
            (true, true) => c.x().clamp(c.op("min"), c.op("max")),
            (true, false) => c.x().maximum(c.op("min")),
            _ => c.x().minimum(c.op("max")),
        },
        "div:trunc_rounding" if c.x().dtype().is_int() => c.x().div(c.op("other")),
        "div:trunc_rounding" => c.x().div(c.op("other")).trunc(),
        "ldexp" => c.x() * c.t("other").cast(c.x().dtype()).exp2(),
        "masked_fill" if c.x().dtype() == DType::Bool && c.maybe("value").is_none() => {
            c.x().masked_fill(c.t("mask"), c.scalar("value").to_f64() != 0.0)
        }
        "masked_fill" => c.x().masked_fill(c.t("mask"), c.op("value")),
        "where" => c.t("condition").where_(c.x(), c.op("other")),
        "lerp" => c.x().lerp(c.op("end"), c.op("weight")),
        "float_power" => match both() {
            (x, Operand::Tensor(e)) => x.cast(DType::F64).pow(e.cast(DType::F64)),
            (x, Operand::Scalar(e)) => x.cast(DType::F64).pow(e),
        },
        "isposinf" => c.x().eq(f64::INFINITY),
        "isneginf" => c.x().eq(f64::NEG_INFINITY),
        "nan_to_num" => {
            let (least, largest) = match c.x().dtype() {
                DType::F64 => (f64::MIN, f64::MAX),
                DType::F32 => (f32::MIN.into(), f32::MAX.into()),
                _ => (thalweg::bf16::MIN.into(), thalweg::bf16::MAX.into()),
            };
            let or = |name: &str, other: f64| c.opt_float(name).unwrap_or(other);
            c.x().nan_to_num(or("nan", 0.0), or("posinf", largest), or("neginf", least))
        }
        "round:decimals_0" | "round:decimals_3" | "round:decimals_neg_3" => c.x().round_to(c.int("decimals") as i32),
        // Bounds that cross.
        "logit" if c.opt_float("eps").is_some_and(|eps| eps > 0.5) => return None,
        "logit" => match c.opt_float("eps") {
            Some(eps) => c.x().clamp(eps, 1.0 - eps).logit(),
            None => c.x().logit(),
        },
        "special.entr" => -c.x().xlogy(c.x()),
        "__radd__" => from_left(c, |a, x| a + x, |a, x| a + x, |a, x| a + x),
        "__rsub__" => from_left(c, |a, x| a - x, |a, x| a - x, |a, x| a - x),
        "__rmul__" => from_left(c, |a, x| a * x, |a, x| a * x, |a, x| a * x),
        "__rdiv__" => from_left(c, |a, x| a / x, |a, x| a / x, |a, x| a / x),
        "__rmod__" => from_left(c, |a, x| a % x, |a, x| a % x, |a, x| a % x),
        "__rpow__" => match c.op("other") {
            Operand::Tensor(t) => t.pow(c.x()),
            Operand::Scalar(v) => c.x().full_like(v).pow(c.x()),
        },
        "nn.functional.leaky_relu" => c.x().leaky_relu(c.float("slope")),
        "nn.functional.elu" => c.x().elu(c.float("alpha")),
        "nn.functional.celu" => c.x().celu(c.float("alpha")),
        "nn.functional.prelu" => {
            // One weight per channel: dimension 1.
            let (x, w) = (c.x(), c.t("weight"));
            let mut shape = vec![1; x.rank()];
            if x.rank() > 1 {
                shape[1] = w.numel();
            }
            if w.numel() == 1 { x.prelu(&w.reshape(())) } else { x.prelu(&w.reshape(shape)) }
        }
        "nn.functional.threshold" => c.x().threshold(c.float("threshold"), c.float("value")),
        "nn.functional.softshrink" => c.x().softshrink(c.float("lambda")),
        "nn.functional.hardshrink" => c.x().hardshrink(c.float("lambda")),
        "nn.functional.hardtanh" => c.x().hardtanh(c.float("min"), c.float("max")),
        "nn.functional.gelu" if c.text("approximate") == "tanh" => c.x().gelu_tanh(),
        "nn.functional.gelu" => c.x().gelu(),
        "nn.functional.softplus" => match c.float("beta") {
            1.0 => c.x().softplus(),
            beta => (c.x() * beta).softplus() / beta,
        },
        "nn.functional.glu" => {
            let halves = c.x().chunk(2, c.int("dim"));
            &halves[0] * halves[1].sigmoid()
        }
        "bfloat16" => c.x().cast(DType::BF16),
        "bool" => c.x().cast(DType::Bool),
        "byte" => c.x().cast(DType::U8),
        "char" => c.x().cast(DType::I8),
        "double" => c.x().cast(DType::F64),
        "float" => c.x().cast(DType::F32),
        "half" => c.x().cast(DType::F16),
        "int" => c.x().cast(DType::I32),
        "long" => c.x().cast(DType::I64),
        "short" => c.x().cast(DType::I16),
        "conj" | "conj_physical" => c.z("x").conj().view_as_real(),
        "view_as_real" => c.z("x").view_as_real(),
        "view_as_complex" => Complex::view_as_complex(c.x()).view_as_real(),
        "complex" => Complex::new(c.x().clone(), c.t("other").clone()).view_as_real(),
        "polar" => Complex::from_polar(c.x(), c.t("other")).view_as_real(),
        "imag" => c.z("x").im,
        "real" => c.z("x").re,
        "angle" => c.z("x").angle(),
        "sgn" => c.z("x").sign().view_as_real(),
        _ => return None,
    }])
}
