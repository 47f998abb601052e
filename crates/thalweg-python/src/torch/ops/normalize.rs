//! Softmax and normalizations.

use super::super::call::{Call, Out, Outcome, Reject, Row};
use super::super::value::Value;
use thalweg::{DType, Tensor};

fn wide(x: &Tensor) -> Tensor {
    if matches!(x.dtype(), DType::BF16 | DType::F16) { x.cast(DType::F32) } else { x.clone() }
}

fn softmax(c: &Call<'_>, f: fn(&Tensor, usize) -> Tensor) -> Outcome {
    let dtype = c.out(0)?;
    let x = c.tensor(0)?.cast(dtype);
    Ok(match c.axis(1, x.rank())? {
        Some(a) if x.numel() > 0 => f(&x, a),
        Some(_) => x,
        None => f(&x.unsqueeze(0), 0).squeeze(0),
    }
    .into())
}

/// Mean and reciprocal deviation over axes, both kept.
fn moments(x: &Tensor, axes: &[usize], eps: f64) -> (Tensor, Tensor, Tensor) {
    let mean = x.mean_keepdim(axes);
    let centred = x - &mean;
    let rstd = (centred.square().mean_keepdim(axes) + eps).rsqrt();
    (centred * &rstd, mean, rstd)
}

fn layer_norm(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let last = c.ints(1)?.len();
    if x.numel() == 0 || last == 0 {
        return Err("an empty tensor".into());
    }
    let axes: Vec<usize> = (x.rank() - last..x.rank()).collect();
    let (mut y, mean, rstd) = moments(&wide(x), &axes, c.float(4)?);
    if let Some(w) = c.tensor_or_none(2)? {
        y *= w.cast(x_dtype(x));
    }
    if let Some(b) = c.tensor_or_none(3)? {
        y += b.cast(x_dtype(x));
    }
    Ok((y.cast(x.dtype()), mean.cast(c.out(1)?), rstd.cast(c.out(2)?)).into())
}

fn x_dtype(x: &Tensor) -> DType {
    if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 }
}

fn group_norm(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let (n, channels, plane, groups) = (c.size(3)?, c.size(4)?, c.size(5)?, c.size(6)?);
    if x.numel() == 0 || groups == 0 {
        return Err("an empty tensor".into());
    }
    let grouped = wide(x).reshape([n, groups, channels / groups * plane]);
    let (y, mean, rstd) = moments(&grouped, &[2], c.float(7)?);
    let mut y = y.reshape([n, channels, plane]);
    if let Some(w) = c.tensor_or_none(1)? {
        y *= w.cast(x_dtype(x)).reshape([channels, 1]);
    }
    if let Some(b) = c.tensor_or_none(2)? {
        y += b.cast(x_dtype(x)).reshape([channels, 1]);
    }
    let statistic = |t: Tensor, k| -> Result<Tensor, Reject> { Ok(t.reshape([n, groups]).cast(c.out(k)?)) };
    Ok((y.reshape(x.shape()).cast(x.dtype()), statistic(mean, 1)?, statistic(rstd, 2)?).into())
}

/// A vector of channels in the shape that broadcasts with `x`.
fn channels(x: &Tensor, v: &Tensor) -> Tensor {
    let mut dims = vec![1; x.rank()];
    dims[1] = v.numel();
    v.cast(x_dtype(x)).reshape(&dims[..])
}

fn affine(x: &Tensor, mut y: Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Tensor {
    if let Some(w) = weight {
        y *= channels(x, w);
    }
    if let Some(b) = bias {
        y += channels(x, b);
    }
    y.cast(x.dtype())
}

/// Results of batch norm in training: y, mean, reciprocal deviation, running mean, running variance.
fn batch_norm_train(c: &Call<'_>, momentum: usize) -> Result<[Tensor; 5], Reject> {
    let x = c.tensor(0)?;
    let (mean, var) = (c.tensor(3)?, c.tensor(4)?);
    let (momentum, eps) = (c.float(momentum)?, c.float(momentum + 1)?);
    if x.numel() == 0 || x.rank() < 2 {
        return Err("an empty tensor".into());
    }
    let axes: Vec<usize> = (0..x.rank()).filter(|&i| i != 1).collect();
    let x_wide = wide(x);
    let count = (x.numel() / x.dims()[1]) as f64;
    let m = x_wide.mean_keepdim(&axes);
    let centred = &x_wide - &m;
    let v = centred.square().mean_keepdim(&axes);
    let rstd = (&v + eps).rsqrt();
    let y = affine(x, centred * &rstd, c.tensor_or_none(1)?, c.tensor_or_none(2)?);
    let vector = |t: &Tensor| t.reshape([x.dims()[1]]);
    let toward =
        |old: &Tensor, new: Tensor| (old.cast(x_dtype(x)) * (1.0 - momentum) + new * momentum).cast(old.dtype());
    let unbiased = vector(&v) * (count / (count - 1.0).max(1.0));
    Ok([y, vector(&m), vector(&rstd), toward(mean, vector(&m)), toward(var, unbiased)])
}

fn batch_norm_infer(c: &Call<'_>, eps: f64) -> Result<Tensor, Reject> {
    let x = c.tensor(0)?;
    let (mean, var) = (c.tensor(3)?, c.tensor(4)?);
    let scale = (var.cast(x_dtype(x)) + eps).rsqrt();
    let y = (wide(x) - channels(x, mean)) * channels(x, &scale);
    Ok(affine(x, y, c.tensor_or_none(1)?, c.tensor_or_none(2)?))
}

fn nothing(x: &Tensor) -> Tensor {
    Tensor::zeros_with([0], (x_dtype(x), x.device()))
}

fn functional(c: &Call<'_>, reserve: bool) -> Outcome {
    let training = if reserve { true } else { c.flag(5)? };
    if !training {
        let x = c.tensor(0)?;
        let y = batch_norm_infer(c, c.float(7)?)?;
        let list = [y, nothing(x), nothing(x), c.tensor(3)?.clone(), c.tensor(4)?.clone()];
        return Ok(list.to_vec().into());
    }
    let [y, mean, rstd, running_mean, running_var] = batch_norm_train(c, if reserve { 5 } else { 6 })?;
    if reserve {
        let reserved = Tensor::zeros_with([0], (DType::U8, y.device()));
        return Ok(vec![y, mean, rstd, reserved, running_mean, running_var].into());
    }
    Ok(vec![y, mean, rstd, running_mean, running_var].into())
}

pub const ROWS: &[Row] = &[
    ("aten._softmax.default", |c| softmax(c, |x, a| x.softmax(a))),
    ("aten._log_softmax.default", |c| softmax(c, |x, a| x.log_softmax(a))),
    ("aten.native_layer_norm.default", layer_norm),
    ("aten.native_group_norm.default", group_norm),
    ("aten._native_batch_norm_legit_functional.default", |c| functional(c, false)),
    ("aten._batch_norm_with_update_functional.default", |c| functional(c, true)),
    ("aten._native_batch_norm_legit_no_training.default", |c| {
        let x = c.tensor(0)?;
        let y = batch_norm_infer(c, c.float(6)?)?;
        Ok((y, nothing(x), nothing(x)).into())
    }),
    ("aten._native_batch_norm_legit.no_stats", |c| {
        let x = c.tensor(0)?;
        if x.numel() == 0 || x.rank() < 2 || !c.flag(3)? {
            return Err("an empty tensor".into());
        }
        let axes: Vec<usize> = (0..x.rank()).filter(|&i| i != 1).collect();
        let (y, mean, rstd) = moments(&wide(x), &axes, c.float(5)?);
        let y = affine(x, y, c.tensor_or_none(1)?, c.tensor_or_none(2)?);
        let vector = |t: &Tensor| t.reshape([x.dims()[1]]);
        Ok(Out::Many(vec![Value::Tensor(y), vector(&mean).into(), vector(&rstd).into()]))
    }),
];
