//! Views, joins and copies of parts. Results are values: who writes into them is decided by functionalisation.

use super::super::call::{Call, Out, Outcome, Reject, Row, axis, number_as};
use super::super::value::Value;
use thalweg::{Border, MAX_RANK, Shape, SliceArg, Tensor};

fn same(c: &Call<'_>) -> Outcome {
    Ok(c.tensor(0)?.clone().into())
}

fn reshaped(c: &Call<'_>) -> Outcome {
    let sizes = c.ints(1)?;
    if sizes.len() > MAX_RANK {
        return Err("a rank over the limit".into());
    }
    let x = c.tensor(0)?;
    if x.numel() == 0 && sizes.contains(&-1) {
        return Err("an inferred size of an empty tensor".into());
    }
    Ok(x.reshape(&sizes[..]).into())
}

fn permuted(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let order = c.ints(1)?;
    Ok(if order.is_empty() { x.clone() } else { x.permute(&order[..]) }.into())
}

fn unbound(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let at = axis(c.int_or(1, 0)?, x.rank())?.ok_or("rank 0")?;
    Ok(x.unbind(at).into())
}

/// The tensor expanded to sizes, of which -1 keeps a dimension.
fn expanded(c: &Call<'_>) -> Outcome {
    let (x, sizes) = (c.tensor(0)?, c.ints(1)?);
    let lead = sizes.len().checked_sub(x.rank()).ok_or("fewer sizes than dimensions")?;
    if sizes.len() > MAX_RANK {
        return Err("a rank over the limit".into());
    }
    let dims: Vec<usize> = sizes
        .iter()
        .enumerate()
        .map(|(i, &s)| if s < 0 && i >= lead { x.dims()[i - lead] } else { s.max(0) as usize })
        .collect();
    Ok(x.broadcast_to(&dims[..]).into())
}

/// Arguments of a slice along an axis from argument `i` on: axis, start, end, step.
fn slice_of(c: &Call<'_>, x: &Tensor, i: usize) -> Result<(usize, SliceArg), Reject> {
    let at = axis(c.int_or(i, 0)?, x.rank())?.ok_or("rank 0")?;
    let start = if c.is_none(i + 1) { None } else { Some(c.int(i + 1)?) };
    let end = if c.is_none(i + 2) { None } else { Some(c.int(i + 2)?) };
    Ok((at, SliceArg::range(start, end, c.int_or(i + 3, 1)?)))
}

fn at_axis(at: usize, arg: SliceArg) -> Vec<SliceArg> {
    let mut args = vec![SliceArg::range(None, None, 1); at];
    args.push(arg);
    args
}

fn wrapped(index: i64, size: usize) -> Result<i64, Reject> {
    let index = if index < 0 { index + size as i64 } else { index };
    if (0..size as i64).contains(&index) { Ok(index) } else { Err("an index out of range".into()) }
}

fn selected(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let at = c.axis(1, x.rank())?.ok_or("rank 0")?;
    Ok(x.select(at, wrapped(c.int(2)?, x.dims()[at])?).into())
}

fn squeezed(x: &Tensor, axes: &[i64]) -> Outcome {
    let mut taken = vec![];
    for &a in axes {
        if let Some(a) = axis(a, x.rank())?
            && x.dims()[a] == 1
        {
            taken.push(a);
        }
    }
    let dims: Vec<usize> = (0..x.rank()).filter(|i| !taken.contains(i)).map(|i| x.dims()[i]).collect();
    Ok(x.reshape(&dims[..]).into())
}

fn parts(x: &Tensor, sizes: &[usize], at: usize) -> Outcome {
    let mut first = 0;
    let mut out = vec![];
    for &size in sizes {
        out.push(x.narrow(at, first, size));
        first += size;
    }
    Ok(out.into())
}

/// Rows of `[start, end)` along the diagonals of dimensions `a` and `b`.
fn diagonal(x: &Tensor, offset: i64, a: usize, b: usize) -> Tensor {
    x.diagonal_of(offset, a, b)
}

fn cat(c: &Call<'_>) -> Outcome {
    let dtype = c.out(0)?;
    let list = c.tensors(0)?;
    // Tensors of shape [0] are left out, whatever the others' rank.
    let kept: Vec<Tensor> = list.iter().filter(|x| x.dims() != [0]).map(|x| x.cast(dtype)).collect();
    let Some(first) = kept.first() else {
        return Ok(list.first().ok_or("no tensor")?.cast(dtype).into());
    };
    let at = axis(c.int_or(1, 0)?, first.rank())?.ok_or("rank 0")?;
    Ok(Tensor::cat(&kept, at).into())
}

/// Copy of `x` with a box replaced by `values`.
fn put(x: &Tensor, args: Vec<SliceArg>, values: &Tensor) -> Tensor {
    x.slice_scatter(args, values.cast(x.dtype()))
}

/// Elements of row-major `x` at strides and an offset.
fn strided(x: &Tensor, sizes: &[i64], strides: &[i64], offset: i64) -> Outcome {
    let shape: Vec<usize> = sizes.iter().map(|&s| s as usize).collect();
    if shape.len() > MAX_RANK {
        return Err("a rank over the limit".into());
    }
    let index = places(&shape, strides, offset, x)?;
    Ok(x.flatten().take(&index).into())
}

/// Offsets of all elements of a strided view.
fn places(shape: &[usize], strides: &[i64], offset: i64, x: &Tensor) -> Result<Tensor, Reject> {
    let options = (thalweg::DType::I64, x.device());
    let mut index = Tensor::full_with(Shape::new(&vec![1; shape.len()]), offset, options);
    for (i, (&size, &stride)) in shape.iter().zip(strides).enumerate() {
        let mut dims = vec![1; shape.len()];
        dims[i] = size;
        index += (Tensor::arange_with(size, options) * stride).reshape(&dims[..]);
    }
    Ok(index.broadcast_to(shape))
}

pub const ROWS: &[Row] = &[
    ("aten.alias.default", same),
    ("aten.clone.default", same),
    ("aten.contiguous.default", same),
    ("aten.detach.default", same),
    ("aten.lift_fresh_copy.default", same),
    ("aten.view_of.default", same),
    ("prims.view_of.default", same),
    ("aten.view.default", reshaped),
    ("aten.view_copy.default", reshaped),
    ("aten.reshape.default", reshaped),
    ("aten._unsafe_view.default", reshaped),
    ("aten.view.dtype", |c| {
        let (x, dtype) = (c.tensor(0)?, c.dtype(1)?.ok_or("no dtype")?);
        if x.dtype() == dtype {
            return same(c);
        }
        if x.dtype().size() != dtype.size() || x.dtype() == thalweg::DType::Bool || dtype == thalweg::DType::Bool {
            return Err("dtypes of other widths".into());
        }
        Ok(x.bitcast(dtype).into())
    }),
    ("aten.permute.default", permuted),
    ("aten.permute_copy.default", permuted),
    ("aten.t.default", |c| {
        let x = c.tensor(0)?;
        Ok(if x.rank() < 2 { x.clone() } else { x.transpose(0, 1) }.into())
    }),
    ("aten.transpose.int", |c| {
        let x = c.tensor(0)?;
        Ok(match (c.axis(1, x.rank())?, c.axis(2, x.rank())?) {
            (Some(a), Some(b)) => x.transpose(a, b),
            _ => x.clone(),
        }
        .into())
    }),
    ("aten.expand.default", expanded),
    ("aten.broadcast_to.default", expanded),
    ("prims.broadcast_in_dim.default", |c| {
        let (x, shape, axes) = (c.tensor(0)?, c.shape(1)?, c.ints(2)?);
        let mut dims = vec![1; shape.rank()];
        for (i, &a) in axes.iter().enumerate() {
            dims[a as usize] = x.dims()[i];
        }
        Ok(x.reshape(&dims[..]).broadcast_to(shape).into())
    }),
    ("aten.squeeze.default", |c| {
        let x = c.tensor(0)?;
        squeezed(x, &(0..x.rank() as i64).collect::<Vec<_>>())
    }),
    ("aten.squeeze.dim", |c| squeezed(c.tensor(0)?, &c.ints(1)?)),
    ("aten.squeeze.dims", |c| squeezed(c.tensor(0)?, &c.ints(1)?)),
    ("aten.unsqueeze.default", |c| {
        let x = c.tensor(0)?;
        let at = c.axis(1, x.rank() + 1)?.ok_or("no axis")?;
        Ok(x.unsqueeze(at).into())
    }),
    ("aten.slice.Tensor", |c| {
        let x = c.tensor(0)?;
        let (at, arg) = slice_of(c, x, 1)?;
        Ok(x.slice(at_axis(at, arg)).into())
    }),
    ("aten.narrow_copy.default", |c| {
        let x = c.tensor(0)?;
        let at = c.axis(1, x.rank())?.ok_or("rank 0")?;
        let start = c.int(2)?;
        let start = if start < 0 { start + x.dims()[at] as i64 } else { start };
        Ok(x.narrow(at, start, c.int(3)?).into())
    }),
    ("aten.select.int", selected),
    ("aten.select_copy.int", selected),
    ("aten.unfold.default", |c| {
        let x = c.tensor(0)?;
        let (size, step) = (c.size(2)?, c.size(3)?);
        match c.axis(1, x.rank())? {
            Some(at) if x.rank() < MAX_RANK && size > 0 => Ok(x.window(at, size, step).into()),
            None if size == 1 => Ok(x.unsqueeze(0).into()),
            _ => Err("windows of such a shape".into()),
        }
    }),
    ("aten.diagonal.default", |c| {
        let x = c.tensor(0)?;
        let a = axis(c.int_or(2, 0)?, x.rank())?.ok_or("rank 0")?;
        let b = axis(c.int_or(3, 1)?, x.rank())?.ok_or("rank 0")?;
        Ok(diagonal(x, c.int_or(1, 0)?, a, b).into())
    }),
    ("aten.split.Tensor", |c| {
        let (x, size) = (c.tensor(0)?, c.size(1)?);
        let at = axis(c.int_or(2, 0)?, x.rank())?.ok_or("rank 0")?;
        if size == 0 {
            return Err("parts of size 0".into());
        }
        let all = x.dims()[at];
        let sizes: Vec<usize> = (0..all.max(1)).step_by(size).map(|i| size.min(all - i)).collect();
        parts(x, &sizes, at)
    }),
    ("aten.split_with_sizes.default", |c| {
        let x = c.tensor(0)?;
        let at = axis(c.int_or(2, 0)?, x.rank())?.ok_or("rank 0")?;
        parts(x, c.shape_list(1)?.as_slice(), at)
    }),
    ("aten.unbind.int", unbound),
    ("aten.unbind_copy.int", unbound),
    ("aten.cat.default", cat),
    ("aten.stack.default", |c| {
        let dtype = c.out(0)?;
        let list: Vec<Tensor> = c.tensors(0)?.iter().map(|x| x.cast(dtype)).collect();
        let at = axis(c.int_or(1, 0)?, list[0].rank() + 1)?.ok_or("no axis")?;
        Ok(Tensor::stack(&list, at).into())
    }),
    ("aten.constant_pad_nd.default", |c| {
        let (x, pads) = (c.tensor(0)?, c.ints(1)?);
        let value = number_as(c.number_or_none(2)?.unwrap_or(thalweg::Scalar::Int(0)), x.dtype())?;
        let mut x = x.clone();
        let mut widths = vec![(0, 0); x.rank()];
        let rank = x.rank();
        for (i, pair) in pads.chunks(2).enumerate() {
            let at = rank - 1 - i;
            // Negative widths cut elements off.
            let cut = |w: i64| (-w).max(0) as usize;
            let (before, after) = (cut(pair[0]), cut(pair[1]));
            let left = x.dims()[at].checked_sub(before + after).ok_or("a negative size")?;
            x = x.narrow(at, before, left);
            widths[at] = (pair[0].max(0) as usize, pair[1].max(0) as usize);
        }
        Ok(x.pad(&widths, Border::Constant(value)).into())
    }),
    ("aten.flip.default", |c| {
        let x = c.tensor(0)?;
        let axes = c.ints(1)?;
        Ok(if axes.is_empty() || x.rank() == 0 { x.clone() } else { x.flip(&axes[..]) }.into())
    }),
    ("aten.roll.default", |c| {
        let x = c.tensor(0)?;
        let (shifts, axes) = (c.ints(1)?, c.ints_or_none(2)?.unwrap_or_default());
        if x.numel() == 0 || x.rank() == 0 {
            return same(c);
        }
        if axes.is_empty() {
            return Ok(x.flatten().roll(shifts[0], 0).reshape(x.shape()).into());
        }
        Ok(shifts.iter().zip(&axes).fold(x.clone(), |x, (&s, &a)| x.roll(s, a)).into())
    }),
    ("aten.repeat.default", |c| {
        let (x, counts) = (c.tensor(0)?, c.shape(1)?);
        let lead = counts.rank().checked_sub(x.rank()).ok_or("fewer counts than dimensions")?;
        let dims: Vec<usize> = std::iter::repeat_n(1, lead).chain(x.dims().iter().copied()).collect();
        Ok(x.reshape(&dims[..]).tile(counts).into())
    }),
    ("aten.tril.default", |c| Ok(c.tensor(0)?.tril(c.int_or(1, 0)?).into())),
    ("aten.triu.default", |c| Ok(c.tensor(0)?.triu(c.int_or(1, 0)?).into())),
    ("aten.copy.default", |c| {
        let (x, values) = (c.tensor(0)?, c.tensor(1)?);
        Ok(super::elementwise::cast(values, x.dtype()).broadcast_to(*x.shape()).into())
    }),
    ("aten.copy_.default", |c| {
        let (x, values) = (c.tensor(0)?, c.tensor(1)?);
        Ok(super::elementwise::cast(values, x.dtype()).broadcast_to(*x.shape()).into())
    }),
    ("aten.fill.Scalar", |c| {
        let x = c.tensor(0)?;
        Ok(Tensor::full_with(*x.shape(), number_as(c.number(1)?, x.dtype())?, (x.dtype(), x.device())).into())
    }),
    ("aten.fill.Tensor", |c| {
        let x = c.tensor(0)?;
        Ok(c.tensor(1)?.cast(x.dtype()).broadcast_to(*x.shape()).into())
    }),
    ("aten.slice_scatter.default", |c| {
        let (x, values) = (c.tensor(0)?, c.tensor(1)?);
        let (at, arg) = slice_of(c, x, 2)?;
        Ok(put(x, at_axis(at, arg), values).into())
    }),
    ("aten.select_scatter.default", |c| {
        let (x, values) = (c.tensor(0)?, c.tensor(1)?);
        let at = c.axis(2, x.rank())?.ok_or("rank 0")?;
        let index = wrapped(c.int(3)?, x.dims()[at])?;
        Ok(put(x, at_axis(at, SliceArg::At(index)), values).into())
    }),
    ("aten.diagonal_scatter.default", |c| {
        let (x, values) = (c.tensor(0)?, c.tensor(1)?);
        let offset = c.int_or(2, 0)?;
        let a = axis(c.int_or(3, 0)?, x.rank())?.ok_or("rank 0")?;
        let b = axis(c.int_or(4, 1)?, x.rank())?.ok_or("rank 0")?;
        if x.numel() == 0 {
            return same(c);
        }
        // Elements of `x` by their number in row-major order, of which the diagonal's are replaced.
        let numbers = Tensor::arange_with(x.numel(), (thalweg::DType::I64, x.device())).reshape(x.shape());
        let at = diagonal(&numbers, offset, a, b);
        Ok(x.flatten().index_copy(0, &at.flatten(), values.cast(x.dtype()).flatten()).reshape(x.shape()).into())
    }),
    ("aten.as_strided.default", |c| strided(c.tensor(0)?, &c.ints(1)?, &c.ints(2)?, c.int_or(3, 0)?)),
    ("aten.as_strided_copy.default", |c| strided(c.tensor(0)?, &c.ints(1)?, &c.ints(2)?, c.int_or(3, 0)?)),
    ("aten.as_strided_scatter.default", |c| {
        let (x, values) = (c.tensor(0)?, c.tensor(1)?);
        let shape = c.shape_list(2)?;
        let at = places(&shape, &c.ints(3)?, c.int_or(4, 0)?, x)?;
        if shape.len() > MAX_RANK {
            return Err("a rank over the limit".into());
        }
        Ok(x.flatten().index_copy(0, &at.flatten(), values.cast(x.dtype()).flatten()).reshape(x.shape()).into())
    }),
    ("thalweg.nothing", |_| Ok(Out::One(Value::None))),
];
