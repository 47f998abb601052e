//! Creation of tensors.

use super::super::call::{Call, Outcome, Reject, Row, number_as};
use crate::functions::create::progression;
use thalweg::{DType, Device, Scalar, Shape, Tensor};

fn filled(c: &Call<'_>, shape: Shape, value: Scalar) -> Outcome {
    let dtype = c.out(0)?;
    Ok(Tensor::full_with(shape, number_as(value, dtype)?, (dtype, Device::default())).into())
}

/// Memory that PyTorch leaves uninitialised.
fn empty(c: &Call<'_>, i: usize) -> Outcome {
    filled(c, c.shape(i)?, Scalar::Int(0))
}

fn like(c: &Call<'_>, value: i64) -> Outcome {
    filled(c, *c.tensor(0)?.shape(), Scalar::Int(value))
}

/// `start + i·step` for `count` numbers.
fn steps(c: &Call<'_>, count: usize, start: Scalar, step: Scalar) -> Outcome {
    let dtype = c.out(0)?;
    let all_ints = !matches!((start, step), (Scalar::Float(_), _) | (_, Scalar::Float(_)));
    let wide = if all_ints && !dtype.is_float() { DType::I64 } else { DType::F64 };
    Ok(progression(count, start, step, (wide, Device::default())).cast(dtype).into())
}

fn arange(c: &Call<'_>, start: Scalar, end: Scalar, step: Scalar) -> Outcome {
    let (a, b, s) = (start.to_f64(), end.to_f64(), step.to_f64());
    let count = ((b - a) / s).ceil();
    if !(0.0..=1e15).contains(&count) {
        return Err("a range against its step".into());
    }
    steps(c, count as usize, start, step)
}

/// Row and column numbers of a triangle.
fn triangle(c: &Call<'_>, upper: bool) -> Outcome {
    let (rows, columns, offset) = (c.size(0)?, c.size(1)?, c.int_or(2, 0)?);
    let mut list = [vec![], vec![]];
    for i in 0..rows as i64 {
        for j in 0..columns as i64 {
            if upper && j - i >= offset || !upper && j - i <= offset {
                list[0].push(i);
                list[1].push(j);
            }
        }
    }
    let n = list[0].len();
    if n == 0 {
        return Err("no element".into());
    }
    Ok(Tensor::from_slice(&list.concat(), [2, n]).cast(c.out(0)?).into())
}

fn number(c: &Call<'_>, i: usize) -> Result<Scalar, Reject> {
    c.number(i)
}

pub const ROWS: &[Row] = &[
    ("aten.full.default", |c| filled(c, c.shape(0)?, c.number(1)?)),
    ("aten.full_like.default", |c| filled(c, *c.tensor(0)?.shape(), c.number(1)?)),
    ("aten.zeros.default", |c| empty(c, 0)),
    ("aten.ones.default", |c| filled(c, c.shape(0)?, Scalar::Int(1))),
    ("aten.empty.memory_format", |c| empty(c, 0)),
    ("aten.empty_strided.default", |c| empty(c, 0)),
    ("aten.empty_permuted.default", |c| empty(c, 0)),
    ("aten.new_empty.default", |c| empty(c, 1)),
    ("aten.new_empty_strided.default", |c| empty(c, 1)),
    ("aten.new_zeros.default", |c| empty(c, 1)),
    ("aten.new_ones.default", |c| filled(c, c.shape(1)?, Scalar::Int(1))),
    ("aten.new_full.default", |c| filled(c, c.shape(1)?, c.number(2)?)),
    ("aten.zeros_like.default", |c| like(c, 0)),
    ("aten.ones_like.default", |c| like(c, 1)),
    ("aten.empty_like.default", |c| like(c, 0)),
    ("aten._efficientzerotensor.default", |c| empty(c, 0)),
    ("aten.scalar_tensor.default", |c| filled(c, Shape::SCALAR, c.number(0)?)),
    ("aten.arange.default", |c| arange(c, Scalar::Int(0), number(c, 0)?, Scalar::Int(1))),
    ("aten.arange.start", |c| arange(c, number(c, 0)?, number(c, 1)?, Scalar::Int(1))),
    ("aten.arange.start_step", |c| {
        let step = c.number_or_none(2)?.unwrap_or(Scalar::Int(1));
        arange(c, number(c, 0)?, number(c, 1)?, step)
    }),
    ("prims.iota.default", |c| steps(c, c.size(0)?, Scalar::Int(c.int_or(1, 0)?), Scalar::Int(c.int_or(2, 1)?))),
    ("aten.eye.default", |c| eye(c, c.size(0)?)),
    ("aten.eye.m", |c| eye(c, c.size(1)?)),
    ("aten.tril_indices.default", |c| triangle(c, false)),
    ("aten.triu_indices.default", |c| triangle(c, true)),
];

fn eye(c: &Call<'_>, columns: usize) -> Outcome {
    let dtype = c.out(0)?;
    if dtype == DType::Bool {
        return Ok(Tensor::eye_with(c.size(0)?, columns, DType::U8).cast(dtype).into());
    }
    Ok(Tensor::eye_with(c.size(0)?, columns, dtype).into())
}
