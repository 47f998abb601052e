//! Elementwise operations.

use super::super::call::{Call, Operand, Outcome, Reject, Row, number_as};
use thalweg::{DType, Scalar, Tensor};

/// A function of floats; integers and bools are converted to PyTorch's result dtype first.
fn float(c: &Call<'_>, f: fn(&Tensor) -> Tensor) -> Outcome {
    let dtype = c.out(0)?;
    Ok(f(&c.tensor(0)?.cast(dtype)).into())
}

/// A function that takes floats and integers, and leaves bools unchanged.
fn plain(c: &Call<'_>, f: fn(&Tensor) -> Tensor) -> Outcome {
    let x = c.tensor(0)?;
    Ok(if x.dtype() == DType::Bool { x.clone() } else { f(x) }.into())
}

/// A function that changes floats only, such as a rounding.
fn of_floats(c: &Call<'_>, f: fn(&Tensor) -> Tensor) -> Outcome {
    let x = c.tensor(0)?;
    Ok(if x.dtype().is_float() { f(x) } else { x.clone() }.into())
}

/// A predicate that is constant on integers and bools.
fn predicate(c: &Call<'_>, f: fn(&Tensor) -> Tensor, of_others: bool) -> Outcome {
    let x = c.tensor(0)?;
    Ok(if x.dtype().is_float() { f(x) } else { constant(x, of_others) }.into())
}

fn constant(x: &Tensor, value: bool) -> Tensor {
    Tensor::full_with(*x.shape(), value, (DType::Bool, x.device()))
}

/// Whether elements are not 0.
pub fn holds(x: &Tensor) -> Tensor {
    if x.dtype() == DType::Bool { x.clone() } else { x.ne(0) }
}

/// Applies a binary method in a dtype. A number stays one, so that it is no operand in memory.
pub fn in_dtype(
    c: &Call<'_>,
    (i, j): (usize, usize),
    dtype: DType,
    f: impl Fn(&Tensor, thalweg::Operand<'_>) -> Tensor,
) -> Result<Tensor, Reject> {
    // A number that a narrow float would round is one of f32 in PyTorch's kernels.
    let narrow = matches!(dtype, DType::BF16 | DType::F16);
    let wide = |v: Scalar| narrow && matches!(v, Scalar::Float(_));
    Ok(match (c.operand(i)?, c.operand(j)?) {
        (Operand::Tensor(a), Operand::Tensor(b)) => f(&a.cast(dtype), thalweg::Operand::Tensor(&b.cast(dtype))),
        (Operand::Tensor(a), Operand::Number(v)) if wide(v) => {
            f(&a.cast(DType::F32), thalweg::Operand::Scalar(number_as(v, DType::F32)?)).cast(dtype)
        }
        (Operand::Tensor(a), Operand::Number(v)) => f(&a.cast(dtype), thalweg::Operand::Scalar(number_as(v, dtype)?)),
        (Operand::Number(v), Operand::Tensor(b)) => {
            let wider = if wide(v) { DType::F32 } else { dtype };
            let a = Tensor::full_with((), number_as(v, wider)?, (wider, b.device()));
            f(&a, thalweg::Operand::Tensor(&b.cast(wider))).cast(dtype)
        }
        (Operand::Number(a), Operand::Number(b)) => {
            let a = Tensor::full_with((), number_as(a, dtype)?, dtype);
            f(&a, thalweg::Operand::Scalar(number_as(b, dtype)?))
        }
    })
}

/// A binary operation in PyTorch's result dtype.
fn binary(c: &Call<'_>, f: impl Fn(&Tensor, thalweg::Operand<'_>) -> Tensor) -> Outcome {
    Ok(in_dtype(c, (0, 1), c.out(0)?, f)?.into())
}

/// A binary operation with another meaning on bools.
fn logic(
    c: &Call<'_>,
    bools: fn(&Tensor, thalweg::Operand<'_>) -> Tensor,
    numbers: fn(&Tensor, thalweg::Operand<'_>) -> Tensor,
) -> Outcome {
    if c.out(0)? == DType::Bool { binary(c, bools) } else { binary(c, numbers) }
}

fn compare(c: &Call<'_>, f: fn(&Tensor, thalweg::Operand<'_>) -> Tensor) -> Outcome {
    let dtype = match c.promoted(0, 1)? {
        DType::Bool => DType::U8,
        d => d,
    };
    // A fraction is compared with integers as a float; a number beyond the dtype's range is rare.
    Ok(in_dtype_of_operands(c, dtype, f)?.into())
}

fn in_dtype_of_operands(
    c: &Call<'_>,
    dtype: DType,
    f: fn(&Tensor, thalweg::Operand<'_>) -> Tensor,
) -> Result<Tensor, Reject> {
    Ok(match (c.operand(0)?, c.operand(1)?) {
        (Operand::Tensor(a), Operand::Number(v)) => f(&a.cast(dtype), thalweg::Operand::Scalar(number_as(v, dtype)?)),
        (Operand::Tensor(a), Operand::Tensor(b)) => f(&a.cast(dtype), thalweg::Operand::Tensor(&b.cast(dtype))),
        (Operand::Number(v), Operand::Tensor(b)) => {
            f(&Tensor::full_with((), number_as(v, dtype)?, dtype), thalweg::Operand::Tensor(&b.cast(dtype)))
        }
        _ => return Err("no tensor".into()),
    })
}

/// Sum or difference with the factor `alpha` of the second operand.
fn added(c: &Call<'_>, (i, j): (usize, usize), subtract: bool) -> Outcome {
    let dtype = c.out(0)?;
    let alpha = c.number_or_none(2)?.unwrap_or(Scalar::Int(1));
    if dtype == DType::Bool {
        if subtract || alpha.to_f64() == 0.0 {
            return Err("bools".into());
        }
        return Ok(in_dtype(c, (i, j), dtype, |a, b| a.or(b))?.into());
    }
    let one = alpha.to_f64() == 1.0;
    let factor = number_as(alpha, if dtype.is_float() { DType::F64 } else { dtype })?;
    Ok(in_dtype(c, (i, j), dtype, |a, b| {
        if one {
            return if subtract { a.sub(b) } else { a.add(b) };
        }
        match b {
            thalweg::Operand::Tensor(b) if j == 1 => {
                let b = b * factor;
                if subtract { a - b } else { a + b }
            }
            // With the operands swapped, `alpha` is the factor of the first.
            thalweg::Operand::Tensor(b) => b - a * factor,
            thalweg::Operand::Scalar(b) => {
                let b = match (b, factor) {
                    (Scalar::Float(b), f) => Scalar::Float(b * f.to_f64()),
                    (b, f) => Scalar::Int(b.to_i64().wrapping_mul(f.to_i64())),
                };
                if subtract { a - b } else { a + b }
            }
        }
    })?
    .into())
}

fn divided(c: &Call<'_>, mode: Option<&str>) -> Outcome {
    let dtype = c.out(0)?;
    if let (Operand::Number(v), true) = (c.operand(1)?, dtype.is_int())
        && v.to_f64() == 0.0
    {
        return Err("an integer division by 0".into());
    }
    let f: fn(&Tensor, thalweg::Operand<'_>) -> Tensor = match mode {
        None => |a, b| a.div(b),
        Some("trunc") if dtype.is_int() => |a, b| a.div(b),
        Some("trunc") => |a, b| a.div(b).trunc(),
        Some("floor") if dtype.is_int() => |a, b| a.floor_div(b),
        Some("floor") => floor_of_floats,
        _ => return Err("a rounding mode".into()),
    };
    binary(c, f)
}

/// ⌊a/b⌋ of floats as PyTorch computes it, by the remainder; a/b where b is 0.
fn floor_of_floats(a: &Tensor, b: thalweg::Operand<'_>) -> Tensor {
    let b = match b {
        thalweg::Operand::Tensor(b) => b.clone(),
        thalweg::Operand::Scalar(v) => Tensor::full_with((), v, (a.dtype(), a.device())),
    };
    let narrow = a.dtype();
    let wide = if matches!(narrow, DType::BF16 | DType::F16) { DType::F32 } else { narrow };
    let (a, b) = (a.cast(wide), b.cast(wide));
    let remainder = a.fmod(&b);
    let quotient = (&a - &remainder) / &b;
    let opposite = remainder.ne(0) & b.lt(0).ne(remainder.lt(0));
    let quotient = opposite.where_(&quotient - 1.0, &quotient);
    let floor = quotient.floor();
    let near = (&quotient - &floor).gt(0.5);
    let rounded = near.where_(&floor + 1.0, &floor);
    let signed = quotient.ne(0).where_(rounded, (&a / &b) * 0.0);
    b.eq(0).where_(&a / &b, signed).cast(narrow)
}

fn bound(c: &Call<'_>, x: &Tensor, i: usize, dtype: DType, low: bool) -> Result<Tensor, Reject> {
    if c.is_none(i) {
        return Ok(x.clone());
    }
    Ok(match c.operand(i)? {
        Operand::Number(v) if v.to_f64().is_nan() => x.full_like(f64::NAN),
        Operand::Number(v) => {
            let v = number_as(v, dtype)?;
            if low { x.maximum(v) } else { x.minimum(v) }
        }
        Operand::Tensor(b) => {
            let b = b.cast(dtype);
            if low { x.maximum(&b) } else { x.minimum(&b) }
        }
    })
}

fn clamped(c: &Call<'_>, low: Option<usize>, high: Option<usize>) -> Outcome {
    let result = c.out(0)?;
    let dtype = if result == DType::Bool { DType::U8 } else { result };
    let mut x = c.tensor(0)?.cast(dtype);
    if let Some(i) = low {
        x = bound(c, &x, i, dtype, true)?;
    }
    if let Some(i) = high {
        x = bound(c, &x, i, dtype, false)?;
    }
    Ok(x.cast(result).into())
}

fn selected(c: &Call<'_>) -> Outcome {
    let dtype = c.out(0)?;
    let condition = holds(c.tensor(0)?);
    let a = c.operand(1)?;
    let b = c.operand(2)?;
    let number = |o: Operand<'_>| match o {
        Operand::Number(v) => number_as(v, dtype).map(Some),
        Operand::Tensor(_) => Ok(None),
    };
    let cast = |o: Operand<'_>| match o {
        Operand::Tensor(x) => x.cast(dtype),
        Operand::Number(v) => Tensor::full_with((), v, dtype),
    };
    Ok(match (number(a)?, number(b)?) {
        (None, None) => condition.where_(cast(a), cast(b)),
        (Some(v), None) => condition.where_(v, cast(b)),
        (None, Some(v)) => condition.where_(cast(a), v),
        (Some(v), Some(w)) => condition.where_(Tensor::full_with((), v, dtype), w),
    }
    .into())
}

fn power(c: &Call<'_>) -> Outcome {
    let dtype = c.out(0)?;
    if dtype == DType::Bool {
        return Err("bools".into());
    }
    match (c.operand(0)?, c.operand(1)?) {
        (Operand::Tensor(x), Operand::Number(v)) => {
            let x = x.cast(dtype);
            if dtype.is_float() {
                return Ok(x.pow(v.to_f64()).into());
            }
            if v.to_f64() < 0.0 {
                return Err("a negative power of integers".into());
            }
            Ok(x.pow(number_as(v, dtype)?).into())
        }
        (Operand::Tensor(x), Operand::Tensor(y)) => Ok(x.cast(dtype).pow(y.cast(dtype)).into()),
        (Operand::Number(v), Operand::Tensor(y)) => {
            Ok(Tensor::full_with((), number_as(v, dtype)?, dtype).pow(y.cast(dtype)).into())
        }
        _ => Err("no tensor".into()),
    }
}

/// The larger or smaller operand, and the number if one is NaN.
fn ignoring_nan(c: &Call<'_>, larger: bool) -> Outcome {
    let dtype = c.out(0)?;
    if dtype == DType::Bool {
        return if larger { binary(c, |a, b| a.or(b)) } else { binary(c, |a, b| a.and(b)) };
    }
    let (a, b) = (c.tensor_of(0, dtype)?, c.tensor_of(1, dtype)?);
    let best = if larger { a.maximum(&b) } else { a.minimum(&b) };
    if !dtype.is_float() {
        return Ok(best.into());
    }
    Ok(a.is_nan().where_(&b, b.is_nan().where_(&a, best)).into())
}

fn both(c: &Call<'_>, f: fn(&Tensor, &Tensor) -> Tensor) -> Outcome {
    let dtype = c.out(0)?;
    Ok(f(&c.tensor_of(0, dtype)?, &c.tensor_of(1, dtype)?).into())
}

fn logical(c: &Call<'_>, f: fn(&Tensor, &Tensor) -> Tensor) -> Outcome {
    Ok(f(&holds(c.tensor(0)?), &holds(c.tensor(1)?)).into())
}

fn casted(c: &Call<'_>, dtype: Option<DType>) -> Outcome {
    let x = c.tensor(0)?;
    let dtype = match dtype {
        Some(d) => d,
        None => c.out(0)?,
    };
    Ok(cast(x, dtype).into())
}

/// Conversion of dtypes as PyTorch's on a CPU: floats wrap into narrow integers through a wide one.
pub fn cast(x: &Tensor, dtype: DType) -> Tensor {
    if x.dtype().is_float() && dtype.is_int() && dtype.size() < 8 {
        x.cast(DType::I64).cast(dtype)
    } else {
        x.cast(dtype)
    }
}

fn shifted(c: &Call<'_>, left: bool) -> Outcome {
    let dtype = c.out(0)?;
    if dtype == DType::Bool {
        return Err("bools".into());
    }
    let bits = 8 * dtype.size() as i64;
    let (a, by) = (c.tensor_of(0, dtype)?, c.tensor_of(1, dtype)?);
    let outside = by.lt(0) | by.ge(bits);
    let inside = outside.where_(0, &by);
    if left {
        return Ok(outside.where_(0, a.shl(&inside)).into());
    }
    let sign = if dtype.is_signed() { a.shr(bits - 1) } else { a.zeros_like() };
    Ok(outside.where_(sign, a.shr(&inside)).into())
}

pub const ROWS: &[Row] = &[
    ("aten.acos.default", |c| float(c, Tensor::acos)),
    ("aten.acosh.default", |c| float(c, Tensor::acosh)),
    ("aten.asin.default", |c| float(c, Tensor::asin)),
    ("aten.asinh.default", |c| float(c, Tensor::asinh)),
    ("aten.atan.default", |c| float(c, Tensor::atan)),
    ("aten.atanh.default", |c| float(c, Tensor::atanh)),
    ("aten.cos.default", |c| float(c, Tensor::cos)),
    ("aten.cosh.default", |c| float(c, Tensor::cosh)),
    ("aten.digamma.default", |c| float(c, Tensor::digamma)),
    ("aten.erf.default", |c| float(c, Tensor::erf)),
    ("aten.erfc.default", |c| float(c, Tensor::erfc)),
    ("aten.erfinv.default", |c| float(c, Tensor::erfinv)),
    ("aten.exp.default", |c| float(c, Tensor::exp)),
    ("aten.exp2.default", |c| float(c, Tensor::exp2)),
    ("aten.expm1.default", |c| float(c, Tensor::expm1)),
    ("aten.i0.default", |c| float(c, Tensor::i0)),
    ("aten.special_i0e.default", |c| float(c, Tensor::i0e)),
    ("aten.special_i1.default", |c| float(c, Tensor::i1)),
    ("aten.special_i1e.default", |c| float(c, Tensor::i1e)),
    ("aten.lgamma.default", |c| float(c, Tensor::lgamma)),
    ("aten.log.default", |c| float(c, Tensor::log)),
    ("aten.log10.default", |c| float(c, Tensor::log10)),
    ("aten.log1p.default", |c| float(c, Tensor::log1p)),
    ("aten.log2.default", |c| float(c, Tensor::log2)),
    ("aten.reciprocal.default", |c| float(c, Tensor::recip)),
    ("aten.rsqrt.default", |c| float(c, Tensor::rsqrt)),
    ("aten.sigmoid.default", |c| float(c, Tensor::sigmoid)),
    ("aten.silu.default", |c| float(c, Tensor::silu)),
    ("aten.sin.default", |c| float(c, Tensor::sin)),
    ("aten.sinc.default", |c| float(c, Tensor::sinc)),
    ("aten.sinh.default", |c| float(c, Tensor::sinh)),
    ("aten.sqrt.default", |c| float(c, Tensor::sqrt)),
    ("aten.tan.default", |c| float(c, Tensor::tan)),
    ("aten.tanh.default", |c| float(c, Tensor::tanh)),
    ("aten.abs.default", |c| plain(c, Tensor::abs)),
    ("aten.neg.default", |c| plain(c, Tensor::neg)),
    ("aten.sign.default", |c| plain(c, Tensor::sign)),
    ("aten.sgn.default", |c| plain(c, Tensor::sign)),
    ("aten.relu.default", |c| plain(c, Tensor::relu)),
    ("aten.square.default", |c| plain(c, Tensor::square)),
    ("aten.ceil.default", |c| of_floats(c, Tensor::ceil)),
    ("aten.floor.default", |c| of_floats(c, Tensor::floor)),
    ("aten.round.default", |c| of_floats(c, Tensor::round)),
    ("aten.trunc.default", |c| of_floats(c, Tensor::trunc)),
    ("aten.round.decimals", |c| {
        let x = c.tensor(0)?;
        let digits = c.int(1)?;
        Ok(match x.dtype().is_float() {
            true if digits == 0 => x.round(),
            true => {
                let by = 10f64.powi(digits.unsigned_abs() as i32);
                if digits > 0 { (x * by).round() / by } else { (x / by).round() * by }
            }
            false if digits >= 0 => x.clone(),
            false => return Err("decimals of integers".into()),
        }
        .into())
    }),
    ("aten.isnan.default", |c| predicate(c, Tensor::is_nan, false)),
    ("aten.isinf.default", |c| predicate(c, Tensor::is_inf, false)),
    ("aten.isfinite.default", |c| predicate(c, Tensor::is_finite, true)),
    ("aten.signbit.default", |c| {
        let x = c.tensor(0)?;
        Ok(match x.dtype() {
            d if d.is_float() => x.signbit(),
            d if d.is_signed() => x.lt(0),
            _ => constant(x, false),
        }
        .into())
    }),
    ("aten.logical_not.default", |c| Ok(holds(c.tensor(0)?).not().into())),
    ("aten.logical_and.default", |c| logical(c, |a, b| a.and(b))),
    ("aten.logical_or.default", |c| logical(c, |a, b| a.or(b))),
    ("aten.logical_xor.default", |c| logical(c, |a, b| a.xor(b))),
    ("aten.bitwise_not.default", |c| {
        let x = c.tensor(0)?;
        Ok(if x.dtype() == DType::Bool { x.not() } else { x.bit_not() }.into())
    }),
    ("aten.bitwise_and.Tensor", |c| logic(c, |a, b| a.and(b), |a, b| a.bit_and(b))),
    ("aten.bitwise_and.Scalar", |c| logic(c, |a, b| a.and(b), |a, b| a.bit_and(b))),
    ("aten.bitwise_and.Scalar_Tensor", |c| logic(c, |a, b| a.and(b), |a, b| a.bit_and(b))),
    ("aten.bitwise_or.Tensor", |c| logic(c, |a, b| a.or(b), |a, b| a.bit_or(b))),
    ("aten.bitwise_or.Scalar", |c| logic(c, |a, b| a.or(b), |a, b| a.bit_or(b))),
    ("aten.bitwise_or.Scalar_Tensor", |c| logic(c, |a, b| a.or(b), |a, b| a.bit_or(b))),
    ("aten.bitwise_xor.Tensor", |c| logic(c, |a, b| a.xor(b), |a, b| a.bit_xor(b))),
    ("aten.bitwise_xor.Scalar", |c| logic(c, |a, b| a.xor(b), |a, b| a.bit_xor(b))),
    ("aten.bitwise_xor.Scalar_Tensor", |c| logic(c, |a, b| a.xor(b), |a, b| a.bit_xor(b))),
    ("aten.bitwise_left_shift.Tensor", |c| shifted(c, true)),
    ("aten.bitwise_left_shift.Tensor_Scalar", |c| shifted(c, true)),
    ("aten.bitwise_right_shift.Tensor", |c| shifted(c, false)),
    ("aten.bitwise_right_shift.Tensor_Scalar", |c| shifted(c, false)),
    ("aten.__lshift__.Tensor", |c| shifted(c, true)),
    ("aten.__lshift__.Scalar", |c| shifted(c, true)),
    ("aten.__rshift__.Tensor", |c| shifted(c, false)),
    ("aten.__rshift__.Scalar", |c| shifted(c, false)),
    ("aten.add.Tensor", |c| added(c, (0, 1), false)),
    ("aten.add.Scalar", |c| added(c, (0, 1), false)),
    ("aten.sub.Tensor", |c| added(c, (0, 1), true)),
    ("aten.sub.Scalar", |c| added(c, (0, 1), true)),
    ("aten.rsub.Scalar", |c| {
        if c.number_or_none(2)?.is_some_and(|a| a.to_f64() != 1.0) {
            return Err("alpha".into());
        }
        added(c, (1, 0), true)
    }),
    ("aten.mul.Tensor", |c| logic(c, |a, b| a.and(b), |a, b| a.mul(b))),
    ("aten.mul.Scalar", |c| logic(c, |a, b| a.and(b), |a, b| a.mul(b))),
    ("aten.div.Tensor", |c| divided(c, None)),
    ("aten.div.Scalar", |c| divided(c, None)),
    ("aten.div.Tensor_mode", |c| divided(c, c.word(2))),
    ("aten.div.Scalar_mode", |c| divided(c, c.word(2))),
    ("aten.floor_divide.default", |c| divided(c, Some("floor"))),
    ("aten.remainder.Tensor", remainder),
    ("aten.remainder.Scalar", remainder),
    ("aten.remainder.Scalar_Tensor", remainder),
    ("aten.fmod.Tensor", |c| if c.out(0)? == DType::Bool { Err("bools".into()) } else { both(c, |a, b| a.fmod(b)) }),
    ("aten.fmod.Scalar", |c| if c.out(0)? == DType::Bool { Err("bools".into()) } else { both(c, |a, b| a.fmod(b)) }),
    ("aten.pow.Tensor_Tensor", power),
    ("aten.pow.Tensor_Scalar", power),
    ("aten.pow.Scalar", power),
    ("aten.maximum.default", |c| logic(c, |a, b| a.or(b), |a, b| a.maximum(b))),
    ("aten.minimum.default", |c| logic(c, |a, b| a.and(b), |a, b| a.minimum(b))),
    ("aten.fmax.default", |c| ignoring_nan(c, true)),
    ("aten.fmin.default", |c| ignoring_nan(c, false)),
    ("aten.atan2.default", |c| binary(c, |a, b| a.atan2(b))),
    ("aten.hypot.default", |c| binary(c, |a, b| a.hypot(b))),
    ("aten.copysign.Tensor", |c| both(c, |a, b| a.copysign(b))),
    ("aten.copysign.Scalar", |c| both(c, |a, b| a.copysign(b))),
    ("aten.nextafter.default", |c| both(c, |a, b| a.nextafter(b))),
    ("aten.heaviside.default", |c| {
        if c.out(0)? == DType::Bool {
            let (a, b) = (c.tensor(0)?, c.tensor(1)?);
            return Ok((a | &b.broadcast_to(a.shape().broadcast(b.shape()).ok_or("shapes")?)).into());
        }
        both(c, |a, b| if a.dtype().is_float() { a.heaviside(b) } else { a.eq(0).where_(b, a.gt(0).cast(a.dtype())) })
    }),
    ("aten.polygamma.default", |c| {
        let x = c.tensor(1)?.cast(c.out(0)?);
        match c.int(0)? {
            0 => Ok(x.digamma().into()),
            1 => Ok(x.trigamma().into()),
            n => Ok(super::special::polygamma(&x.cast(DType::F64), n).cast(x.dtype()).into()),
        }
    }),
    ("aten.angle.default", |c| {
        let x = c.tensor(0)?.cast(c.out(0)?);
        Ok(x.is_nan().where_(&x, x.lt(0.0).where_(x.full_like(std::f64::consts::PI), 0.0)).into())
    }),
    ("aten._conj_physical.default", |c| Ok(c.tensor(0)?.clone().into())),
    ("aten.special_modified_bessel_i0.default", |c| float(c, Tensor::i0)),
    ("aten.special_modified_bessel_i1.default", |c| float(c, Tensor::i1)),
    ("aten.logaddexp.default", |c| both(c, |a, b| a.logaddexp(b))),
    ("aten.logaddexp2.default", |c| both(c, |a, b| a.logaddexp2(b))),
    ("aten.xlogy.Tensor", |c| both(c, |a, b| a.xlogy(b))),
    ("aten.special_xlog1py.default", |c| both(c, |a, b| a.xlog1py(b))),
    ("aten.eq.Tensor", |c| compare(c, |a, b| a.eq(b))),
    ("aten.eq.Scalar", |c| compare(c, |a, b| a.eq(b))),
    ("aten.ne.Tensor", |c| compare(c, |a, b| a.ne(b))),
    ("aten.ne.Scalar", |c| compare(c, |a, b| a.ne(b))),
    ("aten.lt.Tensor", |c| compare(c, |a, b| a.lt(b))),
    ("aten.lt.Scalar", |c| compare(c, |a, b| a.lt(b))),
    ("aten.le.Tensor", |c| compare(c, |a, b| a.le(b))),
    ("aten.le.Scalar", |c| compare(c, |a, b| a.le(b))),
    ("aten.gt.Tensor", |c| compare(c, |a, b| a.gt(b))),
    ("aten.gt.Scalar", |c| compare(c, |a, b| a.gt(b))),
    ("aten.ge.Tensor", |c| compare(c, |a, b| a.ge(b))),
    ("aten.ge.Scalar", |c| compare(c, |a, b| a.ge(b))),
    ("aten.clamp.default", |c| clamped(c, Some(1), Some(2))),
    ("aten.clamp.Tensor", |c| clamped(c, Some(1), Some(2))),
    ("aten.clamp_min.default", |c| clamped(c, Some(1), None)),
    ("aten.clamp_min.Tensor", |c| clamped(c, Some(1), None)),
    ("aten.clamp_max.default", |c| clamped(c, None, Some(1))),
    ("aten.clamp_max.Tensor", |c| clamped(c, None, Some(1))),
    ("aten.where.self", selected),
    ("aten.where.ScalarSelf", selected),
    ("aten.where.ScalarOther", selected),
    ("aten.where.Scalar", selected),
    ("aten.masked_fill.Scalar", |c| {
        let x = c.tensor(0)?;
        Ok(holds(c.tensor(1)?).where_(number_as(c.number(2)?, x.dtype())?, x).into())
    }),
    ("aten.masked_fill.Tensor", |c| {
        let x = c.tensor(0)?;
        Ok(holds(c.tensor(1)?).where_(c.tensor(2)?.cast(x.dtype()), x).into())
    }),
    ("aten.lerp.Scalar", |c| {
        let x = c.tensor(0)?;
        Ok(lerp(x, c.tensor(1)?, &Tensor::full_with((), c.float(2)?, x.dtype())).into())
    }),
    ("aten.lerp.Tensor", |c| Ok(lerp(c.tensor(0)?, c.tensor(1)?, c.tensor(2)?).into())),
    ("aten._to_copy.default", |c| casted(c, None)),
    ("aten.to.dtype", |c| casted(c, None)),
    ("prims.convert_element_type.default", |c| casted(c, c.dtype(1)?)),
    ("prims.device_put.default", |c| casted(c, None)),
    ("aten.real.default", |c| Ok(c.tensor(0)?.clone().into())),
    ("aten.gelu.default", |c| {
        let x = c.tensor(0)?;
        Ok(if c.word(1) == Some("tanh") { x.gelu_tanh() } else { x.gelu() }.into())
    }),
];

fn remainder(c: &Call<'_>) -> Outcome {
    let dtype = c.out(0)?;
    if dtype == DType::Bool {
        return Err("bools".into());
    }
    if dtype.is_float() {
        // As PyTorch: the truncated remainder, moved to the divisor's sign; exact where the quotient is large.
        return both(c, |a, b| {
            let r = a.fmod(b);
            let opposite = r.ne(0) & b.lt(0).ne(r.lt(0));
            opposite.where_(&r + b, &r)
        });
    }
    if let Operand::Number(v) = c.operand(1)?
        && v.to_f64() == 0.0
    {
        return Err("an integer division by 0".into());
    }
    binary(c, |a, b| a.rem(b))
}

/// PyTorch's formula: from the nearer end.
fn lerp(a: &Tensor, b: &Tensor, weight: &Tensor) -> Tensor {
    let d = b - a;
    weight.abs().lt(0.5).where_(a + weight * &d, b - d * (1.0 - weight))
}
