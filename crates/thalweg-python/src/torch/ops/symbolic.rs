//! Sizes: integers, floats and bools that are computed from the sizes of inputs.

use super::super::call::{Call, Out, Reject, Row};
use super::super::value::Value;
use thalweg::Scalar;

fn number(v: Scalar) -> Result<Out, Reject> {
    Ok(Out::One(match v {
        Scalar::Int(v) => Value::Int(v),
        Scalar::Float(v) => Value::Float(v),
        Scalar::Bool(v) => Value::Bool(v),
        Scalar::Unsigned(_) => return Err("a number over i64".into()),
    }))
}

/// A binary operation in integers if both numbers are, else in floats.
fn binary(c: &Call<'_>, ints: fn(i64, i64) -> Option<i64>, floats: fn(f64, f64) -> f64) -> Result<Out, Reject> {
    let (a, b) = (c.number(0)?, c.number(1)?);
    if matches!(a, Scalar::Float(_)) || matches!(b, Scalar::Float(_)) {
        return number(Scalar::Float(floats(a.to_f64(), b.to_f64())));
    }
    ints(c.int(0)?, c.int(1)?).map_or(Err("an integer operation overflows".into()), |v| number(Scalar::Int(v)))
}

fn compare(c: &Call<'_>, holds: fn(std::cmp::Ordering) -> bool) -> Result<Out, Reject> {
    let (a, b) = (c.number(0)?, c.number(1)?);
    let order = match (a, b) {
        (Scalar::Float(_), _) | (_, Scalar::Float(_)) => a.to_f64().partial_cmp(&b.to_f64()).ok_or("NaN")?,
        _ => c.int(0)?.cmp(&c.int(1)?),
    };
    number(Scalar::Bool(holds(order)))
}

pub const ROWS: &[Row] = &[
    ("aten.sym_size.int", |c| {
        let x = c.tensor(0)?;
        let axis = c.axis(1, x.rank())?.ok_or("rank 0")?;
        number(Scalar::Int(x.dims()[axis] as i64))
    }),
    ("aten.sym_numel.default", |c| number(Scalar::Int(c.tensor(0)?.numel() as i64))),
    ("aten.sym_storage_offset.default", |_| Err("the offset of a tensor".into())),
    ("operator.add", |c| binary(c, i64::checked_add, |a, b| a + b)),
    ("operator.sub", |c| binary(c, i64::checked_sub, |a, b| a - b)),
    ("operator.mul", |c| binary(c, i64::checked_mul, |a, b| a * b)),
    ("operator.pow", |c| binary(c, |a, b| a.checked_pow(u32::try_from(b).ok()?), f64::powf)),
    ("operator.floordiv", |c| {
        binary(
            c,
            |a, b| if b == 0 { None } else { Some(a.div_euclid(b) - i64::from(b < 0 && a.rem_euclid(b) != 0)) },
            |a, b| (a / b).floor(),
        )
    }),
    ("operator.mod", |c| {
        binary(c, |a, b| if b == 0 { None } else { Some(((a % b) + b) % b) }, |a, b| a - b * (a / b).floor())
    }),
    ("operator.truediv", |c| number(Scalar::Float(c.float(0)? / c.float(1)?))),
    ("operator.neg", |c| match c.number(0)? {
        Scalar::Float(v) => number(Scalar::Float(-v)),
        _ => number(Scalar::Int(-c.int(0)?)),
    }),
    ("operator.eq", |c| compare(c, std::cmp::Ordering::is_eq)),
    ("operator.ne", |c| compare(c, std::cmp::Ordering::is_ne)),
    ("operator.lt", |c| compare(c, std::cmp::Ordering::is_lt)),
    ("operator.le", |c| compare(c, std::cmp::Ordering::is_le)),
    ("operator.gt", |c| compare(c, std::cmp::Ordering::is_gt)),
    ("operator.ge", |c| compare(c, std::cmp::Ordering::is_ge)),
    ("operator.and", |c| number(Scalar::Bool(c.flag(0)? && c.flag(1)?))),
    ("operator.or", |c| number(Scalar::Bool(c.flag(0)? || c.flag(1)?))),
    ("operator.not", |c| number(Scalar::Bool(!c.flag(0)?))),
    ("sym.max", |c| binary(c, |a, b| Some(a.max(b)), f64::max)),
    ("sym.min", |c| binary(c, |a, b| Some(a.min(b)), f64::min)),
    ("sym.sum", |c| number(Scalar::Int(c.ints(0)?.iter().sum()))),
    ("sym.float", |c| number(Scalar::Float(c.float(0)?))),
    ("sym.int", |c| number(Scalar::Int(c.float(0)?.trunc() as i64))),
    ("sym.floor", |c| number(Scalar::Int(c.float(0)?.floor() as i64))),
    ("sym.ceil", |c| number(Scalar::Int(c.float(0)?.ceil() as i64))),
    ("sym.sqrt", |c| number(Scalar::Float(c.float(0)?.sqrt()))),
];
