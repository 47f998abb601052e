//! Gradients of normalizations and activations, each one operation of a backward graph. Narrow floats are computed in
//! f32 and rounded once.

use super::super::call::{Call, Out, Outcome, Reject, Row, number_as};
use super::super::value::Value;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};
use thalweg::{DType, MAX_RANK, Tensor};

fn wide(x: &Tensor) -> Tensor {
    if matches!(x.dtype(), DType::BF16 | DType::F16) { x.cast(DType::F32) } else { x.clone() }
}

fn floats(x: &Tensor) -> Result<(), Reject> {
    if x.dtype().is_float() { Ok(()) } else { Err("integers".into()) }
}

/// The gradient from that of the result and another tensor.
fn pair(c: &Call<'_>, f: impl Fn(&Tensor, &Tensor) -> Tensor) -> Outcome {
    let (dy, x) = (c.tensor(0)?, c.tensor(1)?);
    floats(dy)?;
    Ok(f(&wide(dy), &wide(x)).cast(c.out(0)?).into())
}

/// A result that is wanted, rounded to a dtype.
fn wanted(mask: bool, x: Tensor, dtype: DType) -> Value {
    if mask { Value::Tensor(x.cast(dtype)) } else { Value::None }
}

fn batch_norm(c: &Call<'_>) -> Outcome {
    let (dy, x, weight) = (c.tensor(0)?, c.tensor(1)?, c.tensor_or_none(2)?);
    let (train, eps, mask) = (c.flag(7)?, c.float(8)?, c.flags(9)?);
    if x.numel() == 0 || x.rank() < 2 {
        return Err("an empty tensor".into());
    }
    floats(x)?;
    let channels = x.dims()[1];
    let mut dims = vec![1; x.rank()];
    dims[1] = channels;
    let along = |v: &Tensor| wide(v).reshape(&dims[..]);
    let (mean, rstd) = match train {
        true => (along(c.tensor(5)?), along(c.tensor(6)?)),
        false => (along(c.tensor(3)?), (along(c.tensor(4)?) + eps).rsqrt()),
    };
    let axes: Vec<usize> = (0..x.rank()).filter(|&i| i != 1).collect();
    let count = (x.numel() / channels) as f64;
    let (g, dtype) = (wide(dy), x.dtype());
    let xhat = (wide(x) - mean) * &rstd;
    let db = g.sum_keepdim(&axes);
    let dw = (&g * &xhat).sum_keepdim(&axes);
    let scale = match weight {
        Some(w) => along(w) * rstd,
        None => rstd,
    };
    let dx = match train {
        true => (&g - &db / count - xhat * (&dw / count)) * scale,
        false => g * scale,
    };
    let of_weight = weight.map_or(dtype, Tensor::dtype);
    let vector = |t: Tensor| t.reshape([channels]);
    Ok(Out::Many(vec![
        wanted(mask[0], dx, dtype),
        wanted(mask[1], vector(dw), of_weight),
        wanted(mask[2], vector(db), of_weight),
    ]))
}

fn layer_norm(c: &Call<'_>) -> Outcome {
    let (dy, x, last) = (c.tensor(0)?, c.tensor(1)?, c.ints(2)?.len());
    let weight = c.tensor_or_none(5)?;
    let mask = c.flags(7)?;
    if x.numel() == 0 || last == 0 {
        return Err("an empty tensor".into());
    }
    floats(x)?;
    let outer: Vec<usize> = (0..x.rank() - last).collect();
    let inner: Vec<usize> = (x.rank() - last..x.rank()).collect();
    let (mean, rstd) = (wide(c.tensor(3)?), wide(c.tensor(4)?));
    let g = wide(dy);
    let xhat = (wide(x) - mean) * &rstd;
    let gw = match weight {
        Some(w) => &g * wide(w),
        None => g.clone(),
    };
    let dx = (&gw - gw.mean_keepdim(&inner) - &xhat * (&gw * &xhat).mean_keepdim(&inner)) * rstd;
    let sum = |t: Tensor| if outer.is_empty() { t } else { t.sum(&outer) };
    let of_weight = weight.map_or(x.dtype(), Tensor::dtype);
    Ok(Out::Many(vec![
        wanted(mask[0], dx, x.dtype()),
        wanted(mask[1] && weight.is_some(), sum(&g * xhat), of_weight),
        wanted(mask[2] && !c.is_none(6), sum(g), of_weight),
    ]))
}

fn group_norm(c: &Call<'_>) -> Outcome {
    let (dy, x, weight) = (c.tensor(0)?, c.tensor(1)?, c.tensor_or_none(4)?);
    let (n, channels, plane, groups) = (c.size(5)?, c.size(6)?, c.size(7)?, c.size(8)?);
    let mask = c.flags(9)?;
    if x.numel() == 0 || groups == 0 {
        return Err("an empty tensor".into());
    }
    floats(x)?;
    let shape = [n, groups, channels / groups, plane];
    let statistic = |t: &Tensor| wide(t).reshape([n, groups, 1, 1]);
    let rstd = statistic(c.tensor(3)?);
    let g = wide(dy).reshape(shape);
    let xhat = (wide(x).reshape(shape) - statistic(c.tensor(2)?)) * &rstd;
    let gw = match weight {
        Some(w) => &g * wide(w).reshape([1, groups, channels / groups, 1]),
        None => g.clone(),
    };
    let dx = (&gw - gw.mean_keepdim([2, 3]) - &xhat * (&gw * &xhat).mean_keepdim([2, 3])) * rstd;
    let vector = |t: Tensor| t.sum([0, 3]).reshape([channels]);
    let of_weight = weight.map_or(x.dtype(), Tensor::dtype);
    Ok(Out::Many(vec![
        wanted(mask[0], dx.reshape(x.shape()), x.dtype()),
        wanted(mask[1], vector(&g * xhat), of_weight),
        wanted(mask[2], vector(g), of_weight),
    ]))
}

/// Gradient of a softmax or its logarithm along an axis.
fn softmax(c: &Call<'_>, f: impl Fn(&Tensor, &Tensor, usize) -> Tensor) -> Outcome {
    let (dy, y) = (c.tensor(0)?, c.tensor(1)?);
    let dtype = c.out(0)?;
    Ok(match c.axis(2, y.rank())? {
        Some(a) if y.numel() > 0 => f(&wide(dy), &wide(y), a).cast(dtype),
        Some(_) => dy.cast(dtype),
        None => f(&wide(dy).unsqueeze(0), &wide(y).unsqueeze(0), 0).squeeze(0).cast(dtype),
    }
    .into())
}

fn gelu(g: &Tensor, x: &Tensor) -> Tensor {
    let cdf = ((x * FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
    let density = (x * x * -0.5).exp() * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5);
    g * (cdf + x * density)
}

fn gelu_tanh(g: &Tensor, x: &Tensor) -> Tensor {
    let root = (2.0 / PI).sqrt();
    let square = x * x;
    let t = ((&square * 0.044715 + 1.0) * x * root).tanh();
    let slope = (square * (3.0 * 0.044715) + 1.0) * root;
    let right = (1.0 - &t * &t) * slope * x * 0.5;
    g * ((t + 1.0) * 0.5 + right)
}

pub const ROWS: &[Row] = &[
    ("aten.native_batch_norm_backward.default", batch_norm),
    ("aten.native_layer_norm_backward.default", layer_norm),
    ("aten.native_group_norm_backward.default", group_norm),
    ("aten._softmax_backward_data.default", |c| softmax(c, |g, y, a| y * (g - (g * y).sum_keepdim(a)))),
    ("aten._log_softmax_backward_data.default", |c| softmax(c, |g, y, a| g - y.exp() * g.sum_keepdim(a))),
    ("aten.gelu_backward.default", |c| if c.word(2) == Some("tanh") { pair(c, gelu_tanh) } else { pair(c, gelu) }),
    ("aten.sigmoid_backward.default", |c| pair(c, |g, y| g * y * (1.0 - y))),
    ("aten.tanh_backward.default", |c| pair(c, |g, y| g * (1.0 - y * y))),
    ("aten.silu_backward.default", |c| {
        pair(c, |g, x| {
            let s = x.sigmoid();
            g * &s * (x * (1.0 - &s) + 1.0)
        })
    }),
    ("aten.threshold_backward.default", |c| {
        let limit = c.float(2)?;
        pair(c, |g, x| x.le(limit).where_(0.0, g))
    }),
    ("aten.hardtanh_backward.default", |c| {
        let (low, high) = (c.float(2)?, c.float(3)?);
        pair(c, |g, x| (x.le(low) | x.ge(high)).where_(0.0, g))
    }),
    ("aten.hardswish_backward.default", |c| {
        pair(c, |g, x| x.le(-3.0).where_(0.0, x.lt(3.0).where_(g * (x / 3.0 + 0.5), g)))
    }),
    ("aten.hardsigmoid_backward.default", |c| pair(c, |g, x| (x.gt(-3.0) & x.lt(3.0)).where_(g / 6.0, 0.0))),
    ("aten.leaky_relu_backward.default", |c| {
        let slope = c.float(2)?;
        pair(c, |g, x| x.gt(0.0).where_(g, g * slope))
    }),
    ("aten.hardsigmoid.default", |c| {
        let x = c.tensor(0)?;
        floats(x)?;
        Ok(((wide(x) + 3.0).clamp(0.0, 6.0) / 6.0).cast(x.dtype()).into())
    }),
    ("aten.hardswish.default", |c| {
        let x = c.tensor(0)?;
        floats(x)?;
        let w = wide(x);
        Ok((&w * (&w + 3.0).clamp(0.0, 6.0) / 6.0).cast(x.dtype()).into())
    }),
    ("aten.hardtanh.default", |c| {
        let x = c.tensor(0)?;
        let bound = |i: usize, default: f64| number_as(thalweg::Scalar::Float(c.float_or(i, default)?), x.dtype());
        Ok(x.maximum(bound(1, -1.0)?).minimum(bound(2, 1.0)?).into())
    }),
    ("aten.leaky_relu.default", |c| {
        let x = c.tensor(0)?;
        floats(x)?;
        Ok(x.leaky_relu(c.float_or(1, 0.01)?).into())
    }),
    ("aten.embedding_dense_backward.default", |c| {
        let (dy, index, rows, padding) = (c.tensor(0)?, c.tensor(1)?, c.size(2)?, c.int(3)?);
        if c.flag(4)? || dy.numel() == 0 || index.numel() == 0 || index.rank() == MAX_RANK {
            return Err("a scale by frequency, or an empty tensor".into());
        }
        let width = dy.size(-1);
        let index = index.flatten();
        let mut g = dy.reshape([index.numel(), width]);
        if padding >= 0 {
            g = index.eq(padding).unsqueeze(1).where_(0.0, g);
        }
        let zeros = Tensor::zeros_with([rows, width], (dy.dtype(), dy.device()));
        Ok(zeros.index_add(0, &index, &g).into())
    }),
];
