//! How far a device's result may be from the interpreter's, one operation at a time on equal arguments.

use thalweg_ir::{DType, ElementOp, Op, RandomKind, ReduceOp, Scalar};
use thalweg_kernel::reference::Array;

/// Distance in units in the last place of `dtype`: how many representable values lie between.
pub fn ulps(a: f64, b: f64, dtype: DType) -> u64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0;
    }
    if a.is_nan() || b.is_nan() {
        return u64::MAX;
    }
    let line = |v: f64| -> i64 {
        let (bits, sign) = match dtype {
            DType::F32 => ((v as f32).to_bits() as i64, 1i64 << 31),
            DType::BF16 => (half::bf16::from_f64(v).to_bits() as i64, 1 << 15),
            DType::F16 => (half::f16::from_f64(v).to_bits() as i64, 1 << 15),
            _ => {
                return if v.is_sign_negative() {
                    i64::MIN.wrapping_sub(v.to_bits() as i64)
                } else {
                    v.to_bits() as i64
                };
            }
        };
        if bits & sign != 0 { sign - bits } else { bits }
    };
    line(a).abs_diff(line(b))
}

/// Units in the last place that an elementwise operation may be off in f32 and f64.
fn element_ulps(op: ElementOp) -> u64 {
    use ElementOp::*;
    match op {
        Neg | Abs | Sign | Square | Sqrt | Recip | Relu | Floor | Ceil | Round | Trunc | Add | Sub | Mul | Div
        | Minimum | Maximum | Where | Clamp | Rem => 0,
        Exp | Exp2 | Expm1 | Log | Log2 | Log1p | Sin | Cos | Atan | Rsqrt => 2,
        Tanh | Erf | Pow | Log10 | Sigmoid | Hypot => 4,
        Asin | Acos | Tan | Sinh | Cosh | Asinh | Acosh | Atanh | Atan2 | Erfc => 8,
        _ => 0,
    }
}

/// Whether `got` is an acceptable result of `op` at element `i`, the interpreter saying `want`.
pub fn accepts(op: Op, dtype: DType, args: &[&Array], got: Scalar, want: Scalar) -> bool {
    let (Scalar::Float(g), Scalar::Float(w)) = (got, want) else { return got == want };
    let distance = ulps(g, w, dtype);
    // Narrow floats are computed in f32 and rounded a second time.
    let narrow = matches!(dtype, DType::BF16 | DType::F16) as u64;
    let epsilon = 2f64.powi(1 - dtype.mantissa_digits() as i32);
    match op {
        Op::Element(ElementOp::FloorDiv) => distance <= 1 || (g - w).abs() <= 1.0,
        // Its three roundings are relative to its terms, which may cancel.
        Op::Element(ElementOp::Lerp) => {
            // A difference of terms that large may overflow where the result does not.
            distance <= 2 + narrow
                || !w.is_finite()
                || (!g.is_finite() && magnitude(args) > overflow(dtype))
                || (g - w).abs() <= 4.0 * epsilon * magnitude(args)
        }
        Op::Element(e) => distance <= element_ulps(e) + narrow,
        Op::Cast => distance <= narrow,
        Op::Random(RandomKind::Normal) => (g - w).abs() <= 2e-5 || distance <= narrow,
        Op::Reduce(ReduceOp::Sum) => {
            !w.is_finite() || !g.is_finite() || (g - w).abs() <= epsilon * (16.0 + depth(args[0])) * sum_of(args[0])
        }
        Op::Reduce(ReduceOp::Prod) => {
            let n = args[0].shape.numel() as f64;
            !w.is_finite()
                || !g.is_finite()
                || (g - w).abs() <= 4.0 * n * epsilon * w.abs()
                || extreme(args[0])
                || w.abs() < tiny(dtype)
        }
        Op::Matmul => {
            let k = args[0].shape.last().copied().unwrap_or(1) as f64;
            let bound = epsilon * (k + 2.0) * k * magnitude(&args[..1]) * magnitude(&args[1..]);
            !w.is_finite() || !g.is_finite() || (g - w).abs() <= bound || !bound.is_finite()
        }
        _ => distance == 0,
    }
}

fn overflow(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 3e3,
        DType::F64 => 1e306,
        _ => 1e37,
    }
}

fn tiny(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1e-3,
        DType::F64 => 1e-280,
        _ => 1e-30,
    }
}

/// Roundings that a sum's error grows with; in f64 the interpreter's own, one after the other, are the larger.
fn depth(a: &Array) -> f64 {
    let n = a.shape.numel() as f64;
    if a.dtype == DType::F64 { n } else { n.sqrt() }
}

fn floats(a: &Array) -> impl Iterator<Item = f64> + '_ {
    (0..a.shape.numel()).map(|i| a.get(i).to_f64())
}

/// A product of these may overflow on the way in one order and not in another.
fn extreme(a: &Array) -> bool {
    floats(a).map(|v| v.abs().ln().abs()).filter(|v| v.is_finite()).sum::<f64>()
        > if a.dtype == DType::F16 { 6.0 } else { 60.0 }
}

fn sum_of(a: &Array) -> f64 {
    floats(a).map(f64::abs).filter(|v| v.is_finite()).sum()
}

fn magnitude(args: &[&Array]) -> f64 {
    args.iter().flat_map(|a| floats(a)).map(f64::abs).filter(|v| v.is_finite()).fold(1.0, f64::max)
}
