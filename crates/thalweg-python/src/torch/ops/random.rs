//! Random numbers, from Thalweg's stream, which a program seeds from PyTorch's generator at each run.

use super::super::call::{Call, Outcome, Reject, Row};
use thalweg::{DType, Device, Shape, Tensor};

fn floats(dtype: DType) -> Result<DType, Reject> {
    if dtype.is_float() { Ok(dtype) } else { Err("integers".into()) }
}

fn like(c: &Call<'_>) -> Result<(Shape, (DType, Device)), Reject> {
    let x = c.tensor(0)?;
    Ok((*x.shape(), (floats(c.out(0)?)?, x.device())))
}

fn new(c: &Call<'_>, i: usize) -> Result<(Shape, (DType, Device)), Reject> {
    Ok((c.shape(i)?, (floats(c.out(0)?)?, Device::default())))
}

/// Uniform numbers in (0, 1), in f64, of a tensor's shape.
fn uniform(x: &Tensor) -> Tensor {
    Tensor::rand_with(*x.shape(), (DType::F64, x.device())).maximum(1e-300)
}

fn integers(shape: Shape, dtype: DType, range: std::ops::Range<i64>) -> Outcome {
    if range.is_empty() {
        return Err("an empty range".into());
    }
    Ok(Tensor::randint_with(range, shape, DType::I64).cast(dtype).into())
}

pub const ROWS: &[Row] = &[
    ("aten.rand.default", |c| {
        let (shape, options) = new(c, 0)?;
        Ok(Tensor::rand_with(shape, options).into())
    }),
    ("aten.randn.default", |c| {
        let (shape, options) = new(c, 0)?;
        Ok(Tensor::randn_with(shape, options).into())
    }),
    ("aten.rand_like.default", |c| {
        let (shape, options) = like(c)?;
        Ok(Tensor::rand_with(shape, options).into())
    }),
    ("aten.randn_like.default", |c| {
        let (shape, options) = like(c)?;
        Ok(Tensor::randn_with(shape, options).into())
    }),
    ("aten.randint.default", |c| integers(c.shape(1)?, c.out(0)?, 0..c.int(0)?)),
    ("aten.randint.low", |c| integers(c.shape(2)?, c.out(0)?, c.int(0)?..c.int(1)?)),
    ("aten.randint_like.default", |c| integers(*c.tensor(0)?.shape(), c.out(0)?, 0..c.int(1)?)),
    ("aten.randint_like.low_dtype", |c| integers(*c.tensor(0)?.shape(), c.out(0)?, c.int(1)?..c.int(2)?)),
    ("aten.randperm.default", |c| {
        let n = c.size(0)?;
        if n == 0 {
            return Err("no element".into());
        }
        Ok(Tensor::randperm(n).cast(c.out(0)?).into())
    }),
    ("aten.uniform.default", |c| {
        let x = c.tensor(0)?;
        let (low, high) = (c.float_or(1, 0.0)?, c.float_or(2, 1.0)?);
        Ok((Tensor::rand_with(*x.shape(), (floats(x.dtype())?, x.device())) * (high - low) + low).into())
    }),
    ("aten.normal_functional.default", |c| {
        let x = c.tensor(0)?;
        let (mean, std) = (c.float_or(1, 0.0)?, c.float_or(2, 1.0)?);
        Ok((Tensor::randn_with(*x.shape(), (floats(x.dtype())?, x.device())) * std + mean).into())
    }),
    ("aten.normal.Tensor_Tensor", |c| {
        let (mean, std) = (c.tensor(0)?, c.tensor(1)?);
        let shape = mean.shape().broadcast(std.shape()).ok_or("shapes")?;
        Ok((Tensor::randn_with(shape, (floats(c.out(0)?)?, mean.device())) * std + mean).into())
    }),
    ("aten.exponential.default", |c| {
        let x = c.tensor(0)?;
        Ok((uniform(x).log() / -c.float_or(1, 1.0)?).cast(floats(x.dtype())?).into())
    }),
    ("aten.cauchy.default", |c| {
        let x = c.tensor(0)?;
        let angle = (uniform(x) - 0.5) * std::f64::consts::PI;
        Ok((angle.tan() * c.float_or(2, 1.0)? + c.float_or(1, 0.0)?).cast(floats(x.dtype())?).into())
    }),
    ("aten.log_normal.default", |c| {
        let x = c.tensor(0)?;
        let normal = Tensor::randn_with(*x.shape(), (floats(x.dtype())?, x.device()));
        Ok((normal * c.float_or(2, 2.0)? + c.float_or(1, 1.0)?).exp().into())
    }),
    ("aten.geometric.default", |c| {
        let x = c.tensor(0)?;
        let p = c.float(1)?;
        Ok((uniform(x).log() / (-p).ln_1p()).ceil().cast(x.dtype()).into())
    }),
    ("aten.bernoulli.p", |c| {
        let x = c.tensor(0)?;
        let p = c.float_or(1, 0.5)?;
        Ok(Tensor::rand_with(*x.shape(), (DType::F32, x.device())).lt(p).cast(x.dtype()).into())
    }),
    ("aten.bernoulli.Tensor", |c| {
        let (x, p) = (c.tensor(0)?, c.tensor(1)?);
        Ok(Tensor::rand_with(*x.shape(), (DType::F32, x.device())).lt(p.cast(DType::F32)).cast(x.dtype()).into())
    }),
    ("aten.bernoulli.default", |c| {
        let p = c.tensor(0)?;
        Ok(Tensor::rand_with(*p.shape(), (DType::F32, p.device())).lt(p.cast(DType::F32)).cast(p.dtype()).into())
    }),
    ("aten.native_dropout.default", |c| {
        let x = c.tensor(0)?;
        let p = c.float(1)?;
        let training = c.is_none(2) || c.flag(2)?;
        if !training {
            let all = Tensor::full_with(*x.shape(), true, (DType::Bool, x.device()));
            return Ok((x.clone(), all).into());
        }
        let kept = Tensor::rand_with(*x.shape(), (DType::F32, x.device())).ge(p);
        let scale = if p >= 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
        Ok((x * scale * kept.cast(x.dtype()), kept).into())
    }),
];
