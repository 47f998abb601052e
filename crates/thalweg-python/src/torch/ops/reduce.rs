//! Reductions, running reductions, sorts.

use super::super::call::{Call, Outcome, Reject, Row, axis};
use super::elementwise::holds;
use thalweg::{DType, Tensor};

/// Drops or keeps reduced axes of a result that has none of them.
fn finish(x: Tensor, from: &Tensor, axes: &[usize], keep: bool) -> Tensor {
    if keep && axes.len() + x.rank() == from.rank() {
        let dims: Vec<usize> = (0..from.rank()).map(|i| if axes.contains(&i) { 1 } else { from.dims()[i] }).collect();
        return x.reshape(&dims[..]);
    }
    x
}

fn reduced(x: &Tensor, axes: &[usize], keep: bool, f: impl Fn(&Tensor, &[usize]) -> Tensor) -> Tensor {
    finish(f(x, axes), x, axes, keep)
}

/// Sum in PyTorch's result dtype. Narrow floats are summed as f32 by the front.
fn sum(c: &Call<'_>, axes: &[usize], keep: bool) -> Outcome {
    let dtype = c.out(0)?;
    let x = c.tensor(0)?.cast(dtype);
    if dtype == DType::Bool {
        return Ok(reduced(&x, axes, keep, |x, a| x.any(a)).into());
    }
    Ok(reduced(&x, axes, keep, |x, a| x.sum(a)).into())
}

fn mean(c: &Call<'_>, axes: &[usize], keep: bool) -> Outcome {
    let x = c.tensor(0)?.cast(c.out(0)?);
    Ok(reduced(&x, axes, keep, |x, a| x.mean(a)).into())
}

fn prod(c: &Call<'_>, axes: &[usize], keep: bool) -> Outcome {
    let dtype = c.out(0)?;
    let x = c.tensor(0)?.cast(dtype);
    if dtype == DType::Bool {
        return Ok(reduced(&x, axes, keep, |x, a| x.all(a)).into());
    }
    Ok(reduced(&x, axes, keep, |x, a| x.prod(a)).into())
}

fn extreme(c: &Call<'_>, axes: &[usize], keep: bool, largest: bool) -> Outcome {
    let x = c.tensor(0)?;
    Ok(extreme_of(x, axes, keep, largest).into())
}

fn extreme_of(x: &Tensor, axes: &[usize], keep: bool, largest: bool) -> Tensor {
    reduced(x, axes, keep, |x, a| match (x.dtype(), largest) {
        (DType::Bool, true) => x.any(a),
        (DType::Bool, false) => x.all(a),
        (_, true) => x.amax(a),
        (_, false) => x.amin(a),
    })
}

/// The extreme and its index along an axis.
fn extreme_with_index(c: &Call<'_>, largest: bool) -> Outcome {
    let x = c.tensor(0)?;
    let keep = c.flag(2)?;
    let Some(a) = c.axis(1, x.rank())? else {
        return Ok((x.clone(), Tensor::full_with((), 0i64, (DType::I64, x.device()))).into());
    };
    let wide = if x.dtype() == DType::Bool { x.cast(DType::U8) } else { x.clone() };
    let index = if largest { wide.argmax(a) } else { wide.argmin(a) };
    Ok((extreme_of(x, &[a], keep, largest), finish(index, x, &[a], keep)).into())
}

fn argument(c: &Call<'_>, largest: bool) -> Outcome {
    let x = c.tensor(0)?;
    let keep = c.flag(2)?;
    let wide = if x.dtype() == DType::Bool { x.cast(DType::U8) } else { x.clone() };
    let find = |x: &Tensor, a: usize| if largest { x.argmax(a) } else { x.argmin(a) };
    if c.is_none(1) {
        let all: Vec<usize> = (0..x.rank()).collect();
        return Ok(finish(find(&wide.flatten(), 0), x, &all, keep).into());
    }
    let Some(a) = c.axis(1, x.rank())? else {
        return Ok(Tensor::full_with((), 0i64, (DType::I64, x.device())).into());
    };
    Ok(finish(find(&wide, a), x, &[a], keep).into())
}

fn any_or_all(c: &Call<'_>, axes: &[usize], keep: bool, any: bool) -> Outcome {
    let x = c.tensor(0)?;
    let y = reduced(&holds(x), axes, keep, |x, a| if any { x.any(a) } else { x.all(a) });
    // bytes stay bytes
    Ok(y.cast(c.out(0)?).into())
}

fn all_axes(c: &Call<'_>) -> Result<Vec<usize>, Reject> {
    Ok((0..c.tensor(0)?.rank()).collect())
}

fn one_axis(c: &Call<'_>, i: usize) -> Result<Vec<usize>, Reject> {
    Ok(c.axis(i, c.tensor(0)?.rank())?.into_iter().collect())
}

/// Variance, and the mean in the same shape.
fn variance(c: &Call<'_>) -> Result<(Tensor, Tensor), Reject> {
    let x = c.tensor(0)?;
    if !x.dtype().is_float() {
        return Err("no float".into());
    }
    let axes = c.axes(1, x.rank())?;
    let correction = c.float_or(2, 1.0)?;
    let keep = c.flag(3)?;
    if axes.is_empty() {
        // One element: 0 without a correction, else 0/0.
        let var = x * 0.0 / (1.0 - correction).max(0.0);
        return Ok((var, x.clone()));
    }
    let mean = x.mean(&axes);
    let count: usize = axes.iter().map(|&a| x.dims()[a]).product();
    let var = if count as f64 - correction <= 0.0 {
        let wide = if x.dtype().size() < 4 { x.cast(DType::F32) } else { x.clone() };
        let sums = (&wide - wide.mean_keepdim(&axes)).square().sum(&axes);
        (sums / 0.0).cast(x.dtype())
    } else {
        x.var_with(&axes, correction)
    };
    Ok((finish(var, x, &axes, keep), finish(mean, x, &axes, keep)))
}

fn running(c: &Call<'_>, f: fn(&Tensor, usize) -> Tensor) -> Outcome {
    let dtype = c.out(0)?;
    let x = c.tensor(0)?.cast(dtype);
    match c.axis(1, x.rank())? {
        Some(a) if x.numel() > 0 => Ok(f(&x, a).into()),
        _ => Ok(x.into()),
    }
}

fn running_extreme(c: &Call<'_>, largest: bool) -> Outcome {
    let x = c.tensor(0)?;
    let Some(a) = c.axis(1, x.rank())? else {
        return Ok((x.clone(), Tensor::full_with((), 0i64, (DType::I64, x.device()))).into());
    };
    if x.numel() == 0 {
        return Ok((x.clone(), Tensor::zeros_with(*x.shape(), (DType::I64, x.device()))).into());
    }
    if x.dtype() == DType::Bool {
        let wide = x.cast(DType::U8);
        let (v, i) = if largest { wide.cummax_with_indices(a) } else { wide.cummin_with_indices(a) };
        return Ok((v.cast(DType::Bool), i).into());
    }
    Ok(if largest { x.cummax_with_indices(a) } else { x.cummin_with_indices(a) }.into())
}

fn sorted(c: &Call<'_>, at: usize, descending: usize) -> Outcome {
    let x = c.tensor(0)?;
    let a = axis(c.int_or(at, -1)?, x.rank())?;
    let descending = c.flag(descending)?;
    let Some(a) = a else {
        return Ok((x.clone(), Tensor::full_with((), 0i64, (DType::I64, x.device()))).into());
    };
    if x.numel() == 0 {
        return Ok((x.clone(), Tensor::zeros_with(*x.shape(), (DType::I64, x.device()))).into());
    }
    if x.dtype() == DType::Bool {
        let (v, i) = x.cast(DType::U8).sort_with_indices(a, descending);
        return Ok((v.cast(DType::Bool), i).into());
    }
    Ok(x.sort_with_indices(a, descending).into())
}

fn kth(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let k = c.int_or(1, 1)?;
    let keep = c.flag(3)?;
    let Some(a) = axis(c.int_or(2, -1)?, x.rank())? else {
        return Ok((x.clone(), Tensor::full_with((), 0i64, (DType::I64, x.device()))).into());
    };
    if k < 1 || k as usize > x.dims()[a] || x.dtype() == DType::Bool {
        return Err("no such element".into());
    }
    let (v, i) = x.sort_with_indices(a, false);
    let pick = |t: Tensor| finish(t.select(a, k - 1), x, &[a], keep);
    Ok((pick(v), pick(i)).into())
}

/// The lower median and its index; NaN if there is one, unless `ignore`.
fn median_of_axis(x: &Tensor, a: usize, keep: bool, ignore: bool) -> Outcome {
    if x.dtype() == DType::Bool || x.dims()[a] == 0 {
        return Err("no number".into());
    }
    let n = x.dims()[a];
    let (v, i) = x.sort_with_indices(a, false);
    let nan = if x.dtype().is_float() { Some(x.is_nan().cast(DType::I64).sum_keepdim(a)) } else { None };
    let at = match nan {
        None => Tensor::full_with((), (n as i64 - 1) / 2, DType::I64)
            .broadcast_to(reduced(x, &[a], true, |x, a| x.amax(a)).shape()),
        Some(count) if ignore => {
            let left = (count * -1i64 + n as i64 - 1i64).maximum(0i64);
            left.floor_div(2i64)
        }
        // NaN are last: the first of them is the median if there is one.
        Some(count) => count.gt(0i64).where_(&count * -1i64 + n as i64, (n as i64 - 1) / 2),
    };
    let pick = |t: &Tensor| finish(t.gather(a, &at).squeeze(a), x, &[a], keep);
    Ok((pick(&v), pick(&i)).into())
}

fn median(c: &Call<'_>, ignore: bool) -> Outcome {
    let x = c.tensor(0)?;
    let Some(a) = c.axis(1, x.rank())? else {
        return Ok((x.clone(), Tensor::full_with((), 0i64, (DType::I64, x.device()))).into());
    };
    median_of_axis(x, a, c.flag(2)?, ignore)
}

fn median_of_all(c: &Call<'_>, ignore: bool) -> Outcome {
    let x = c.tensor(0)?;
    if x.numel() == 0 {
        return Err("no element".into());
    }
    let super::super::call::Out::Many(list) = median_of_axis(&x.flatten(), 0, false, ignore)? else {
        return Err("no element".into());
    };
    list.into_iter().next().map(super::super::call::Out::One).ok_or("no element".into())
}

fn top(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let k = c.size(1)?;
    let largest = if c.is_none(3) { true } else { c.flag(3)? };
    let Some(a) = axis(c.int_or(2, -1)?, x.rank())? else {
        return Ok((x.clone(), Tensor::full_with((), 0i64, (DType::I64, x.device()))).into());
    };
    if x.dtype() == DType::Bool || k > x.dims()[a] {
        return Err("no such elements".into());
    }
    if k == 0 || x.numel() == 0 {
        let part = x.narrow(a, 0, k);
        let zeros = Tensor::zeros_with(*part.shape(), (DType::I64, x.device()));
        return Ok((part, zeros).into());
    }
    Ok(x.topk(k, a, largest).into())
}

fn norm(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?.cast(c.out(0)?);
    let axes = c.axes(2, x.rank())?;
    let p = c.float_or(1, 2.0)?;
    if x.numel() == 0 {
        return Err("no element".into());
    }
    if axes.is_empty() {
        return Ok(x.unsqueeze(0).norm_p(p, 0).into());
    }
    Ok(reduced(&x, &axes, c.flag(3)?, |x, a| x.norm_p(p, a)).into())
}

pub const ROWS: &[Row] = &[
    ("aten.sum.default", |c| sum(c, &all_axes(c)?, false)),
    ("aten.sum.dim_IntList", |c| sum(c, &c.axes(1, c.tensor(0)?.rank())?, c.flag(2)?)),
    ("aten.mean.default", |c| mean(c, &all_axes(c)?, false)),
    ("aten.mean.dim", |c| mean(c, &c.axes(1, c.tensor(0)?.rank())?, c.flag(2)?)),
    ("aten.prod.default", |c| prod(c, &all_axes(c)?, false)),
    ("aten.prod.dim_int", |c| prod(c, &one_axis(c, 1)?, c.flag(2)?)),
    ("aten.amax.default", |c| extreme(c, &c.axes(1, c.tensor(0)?.rank())?, c.flag(2)?, true)),
    ("aten.amin.default", |c| extreme(c, &c.axes(1, c.tensor(0)?.rank())?, c.flag(2)?, false)),
    ("aten.max.default", |c| extreme(c, &all_axes(c)?, false, true)),
    ("aten.min.default", |c| extreme(c, &all_axes(c)?, false, false)),
    ("aten.max.dim", |c| extreme_with_index(c, true)),
    ("aten.min.dim", |c| extreme_with_index(c, false)),
    ("aten.argmax.default", |c| argument(c, true)),
    ("aten.argmin.default", |c| argument(c, false)),
    ("aten.any.default", |c| any_or_all(c, &all_axes(c)?, false, true)),
    ("aten.any.dim", |c| any_or_all(c, &one_axis(c, 1)?, c.flag(2)?, true)),
    ("aten.any.dims", |c| any_or_all(c, &some_axes(c)?, c.flag(2)?, true)),
    ("aten.all.default", |c| any_or_all(c, &all_axes(c)?, false, false)),
    ("aten.all.dim", |c| any_or_all(c, &one_axis(c, 1)?, c.flag(2)?, false)),
    ("aten.all.dims", |c| any_or_all(c, &some_axes(c)?, c.flag(2)?, false)),
    ("aten.var.correction", |c| Ok(variance(c)?.0.into())),
    ("aten.var_mean.correction", |c| Ok(variance(c)?.into())),
    ("aten.std.correction", |c| Ok(variance(c)?.0.sqrt().into())),
    ("prims.var.default", |c| {
        let x = c.tensor(0)?;
        let axes = c.axes(1, x.rank())?;
        Ok(x.var_with(&axes, c.float_or(2, 1.0)?).into())
    }),
    ("aten.linalg_vector_norm.default", norm),
    ("aten.logsumexp.default", |c| {
        let x = c.tensor(0)?.cast(c.out(0)?);
        let axes = c.axes(1, x.rank())?;
        if axes.is_empty() || x.numel() == 0 {
            return Err("no element".into());
        }
        Ok(reduced(&x, &axes, c.flag(2)?, |x, a| x.logsumexp(a)).into())
    }),
    ("aten.cumsum.default", |c| running(c, |x, a| x.cumsum(a))),
    ("aten.cumprod.default", |c| running(c, |x, a| x.cumprod(a))),
    ("aten.logcumsumexp.default", |c| running(c, |x, a| x.logcumsumexp(a))),
    ("aten._logcumsumexp.default", |c| running(c, |x, a| x.logcumsumexp(a))),
    ("aten.cummax.default", |c| running_extreme(c, true)),
    ("aten.cummin.default", |c| running_extreme(c, false)),
    ("aten.sort.default", |c| sorted(c, 1, 2)),
    ("aten.sort.stable", |c| sorted(c, 2, 3)),
    ("aten.kthvalue.default", kth),
    ("aten.median.dim", |c| median(c, false)),
    ("aten.nanmedian.dim", |c| median(c, true)),
    ("aten.median.default", |c| median_of_all(c, false)),
    ("aten.nanmedian.default", |c| median_of_all(c, true)),
    ("aten.topk.default", top),
    ("aten.searchsorted.Tensor", |c| {
        let (edges, values) = (c.tensor(0)?, c.tensor(1)?);
        let right = c.flag(3)? || c.word(4) == Some("right");
        if edges.dtype() == DType::Bool || edges.numel() == 0 {
            return Err("no edges".into());
        }
        let dtype = c.promoted(0, 1)?;
        let sorted = match c.tensor_or_none(5)? {
            Some(order) => edges.gather(-1, order),
            None => edges.clone(),
        };
        let edges = &sorted;
        if edges.rank() != 1 {
            if values.rank() != edges.rank() || edges.rank() == thalweg::MAX_RANK {
                return Err("rows of edges".into());
            }
            // The number of smaller edges of the row.
            let (e, v) = (edges.cast(dtype).unsqueeze(-2), values.cast(dtype).unsqueeze(-1));
            let below = if right { e.le(&v) } else { e.lt(&v) };
            return Ok(below.cast(DType::I64).sum(-1).cast(c.out(0)?).into());
        }
        Ok(edges.cast(dtype).searchsorted(&values.cast(dtype), right).cast(c.out(0)?).into())
    }),
    ("aten.bucketize.Tensor", |c| {
        let (values, edges) = (c.tensor(0)?, c.tensor(1)?);
        if edges.rank() != 1 || edges.dtype() == DType::Bool || edges.numel() == 0 {
            return Err("no edges".into());
        }
        let dtype = c.promoted(0, 1)?;
        Ok(edges.cast(dtype).searchsorted(&values.cast(dtype), c.flag(3)?).cast(c.out(0)?).into())
    }),
    ("aten.dist.default", |c| {
        let dtype = c.out(0)?;
        let d = (c.tensor(0)?.cast(dtype) - c.tensor(1)?.cast(dtype)).flatten();
        Ok(d.norm_p(c.float_or(2, 2.0)?, 0).into())
    }),
];

/// Axes of `any.dims`, whose empty list means none.
fn some_axes(c: &Call<'_>) -> Result<Vec<usize>, Reject> {
    let x = c.tensor(0)?;
    if c.is_none(1) {
        return all_axes(c);
    }
    let mut out = vec![];
    for a in c.ints(1)? {
        out.extend(axis(a, x.rank())?);
    }
    Ok(out)
}
