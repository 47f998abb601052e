//! Indexing: gathers, scatters, embeddings.

use super::super::call::{Call, Outcome, Reject, Row, axis, number_as};
use super::super::value::Value;
use thalweg::{DType, MAX_RANK, ScatterOp, Tensor};

/// A tensor of rank 1 in place of one of rank 0.
fn at_least_1d(x: &Tensor) -> Tensor {
    if x.rank() == 0 { x.unsqueeze(0) } else { x.clone() }
}

fn axis_of(c: &Call<'_>, i: usize, x: &Tensor) -> Result<usize, Reject> {
    Ok(axis(c.int(i)?, x.rank())?.unwrap_or(0))
}

fn gathered(c: &Call<'_>) -> Outcome {
    let (x, index) = (c.tensor(0)?, c.tensor(2)?);
    let a = axis_of(c, 1, x)?;
    let out = *index.shape();
    let (x, index) = (at_least_1d(x), at_least_1d(index));
    if index.numel() == 0 {
        return Ok(Tensor::zeros_with(out, (x.dtype(), x.device())).into());
    }
    // The index may be smaller than the tensor in the other axes.
    let x = cut(&x, index.dims(), a);
    Ok(x.gather(a, &index).reshape(out).into())
}

/// The first elements of all axes but one.
fn cut(x: &Tensor, dims: &[usize], but: usize) -> Tensor {
    (0..x.rank()).fold(x.clone(), |x, i| if i == but || x.dims()[i] == dims[i] { x } else { x.narrow(i, 0, dims[i]) })
}

/// Scatter whose index may be smaller than the tensor in the other axes.
fn scattered(x: &Tensor, a: usize, index: &Tensor, values: &Tensor, op: ScatterOp) -> Result<Tensor, Reject> {
    let shape = *x.shape();
    let (x, index) = (at_least_1d(x), at_least_1d(index));
    let mut values = if values.rank() == 0 { values.broadcast_to(*index.shape()) } else { values.clone() };
    if index.numel() == 0 {
        return Ok(x.reshape(shape));
    }
    if x.dtype() == DType::Bool && op != ScatterOp::Set {
        // The sum and the maximum of bools is "or", the product and the minimum "and".
        let op = if matches!(op, ScatterOp::Add | ScatterOp::Max) { ScatterOp::Max } else { ScatterOp::Min };
        let y = scattered(&x.cast(DType::U8), a, &index, &values.cast(DType::U8), op)?;
        return Ok(y.cast(DType::Bool).reshape(shape));
    }
    values = cut(&values, index.dims(), usize::MAX);
    let smaller = (0..x.rank()).any(|i| i != a && index.dims()[i] != x.dims()[i]);
    if !smaller {
        return Ok(x.scatter_reduce(a, &index, &values, op).reshape(shape));
    }
    let part = cut(&x, index.dims(), a).scatter_reduce(a, &index, &values, op);
    let args: Vec<thalweg::SliceArg> =
        (0..x.rank()).map(|i| thalweg::SliceArg::range(0, part.dims()[i] as i64, 1)).collect();
    Ok(x.slice_scatter(args, &part).reshape(shape))
}

fn scatter(c: &Call<'_>, op: ScatterOp) -> Outcome {
    let x = c.tensor(0)?;
    let a = axis_of(c, 1, x)?;
    let values = c.tensor_of(3, x.dtype())?;
    Ok(scattered(x, a, c.tensor(2)?, &values, op)?.into())
}

fn op_of(word: Option<&str>) -> Result<ScatterOp, Reject> {
    Ok(match word {
        Some("add" | "sum") => ScatterOp::Add,
        Some("multiply" | "prod") => ScatterOp::Prod,
        Some("amax") => ScatterOp::Max,
        Some("amin") => ScatterOp::Min,
        _ => return Err("a reduction by mean".into()),
    })
}

/// `scatter_reduce`, also without the tensor's own elements and by the mean.
fn scatter_reduce(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let (a, index) = (axis_of(c, 1, x)?, c.tensor(2)?);
    let values = c.tensor_of(3, x.dtype())?;
    reduced_into(c, x, a, index, &values)
}

/// As `scatter_reduce`, with an index in one dimension.
fn index_reduce(c: &Call<'_>) -> Outcome {
    let (x, index, values) = (c.tensor(0)?, c.tensor(2)?, c.tensor(3)?);
    let a = axis_of(c, 1, x)?;
    let values = at_least_1d(values);
    let mut dims = vec![1; values.rank()];
    dims[a] = index.numel();
    let index = index.reshape(&dims[..]).broadcast_to(*values.shape());
    if x.rank() == 0 {
        let super::super::call::Out::One(Value::Tensor(y)) =
            reduced_into(c, &x.unsqueeze(0), a, &index, &values.cast(x.dtype()))?
        else {
            return Err("rank 0".into());
        };
        return Ok(y.reshape(()).into());
    }
    reduced_into(c, x, a, &index, &values.cast(x.dtype()))
}

fn reduced_into(c: &Call<'_>, x: &Tensor, a: usize, index: &Tensor, values: &Tensor) -> Outcome {
    let include = if c.is_none(5) { true } else { c.flag(5)? };
    let mean = c.word(4) == Some("mean");
    if x.numel() == 0 || index.numel() == 0 {
        return Ok(x.clone().into());
    }
    let op = if mean { ScatterOp::Add } else { op_of(c.word(4))? };
    if x.dtype() == DType::Bool && mean {
        return Err("bools".into());
    }
    let mut base = x.clone();
    if !include {
        // Elements that are scattered to begin at the operation's neutral element.
        let neutral = match (op, x.dtype().is_float()) {
            _ if x.dtype() == DType::Bool => thalweg::Scalar::Bool(matches!(op, ScatterOp::Prod | ScatterOp::Min)),
            (ScatterOp::Prod, _) => number_as(thalweg::Scalar::Int(1), x.dtype())?,
            (ScatterOp::Max, true) => thalweg::Scalar::Float(f64::NEG_INFINITY),
            (ScatterOp::Min, true) => thalweg::Scalar::Float(f64::INFINITY),
            (ScatterOp::Max, false) => thalweg::Scalar::int_bounds(x.dtype()).0,
            (ScatterOp::Min, false) => thalweg::Scalar::int_bounds(x.dtype()).1,
            _ => number_as(thalweg::Scalar::Int(0), x.dtype())?,
        };
        let value = Tensor::full_with((), neutral, (x.dtype(), x.device()));
        base = scattered(x, a, index, &value, ScatterOp::Set)?;
    }
    let y = scattered(&base, a, index, values, op)?;
    if !mean {
        return Ok(y.into());
    }
    let one = Tensor::full_with((), 1i64, (DType::I64, x.device()));
    let zeros = Tensor::zeros_with(*x.shape(), (DType::I64, x.device()));
    let counts = scattered(&zeros, a, index, &one, ScatterOp::Add)?;
    let counts = (counts + i64::from(include)).maximum(1i64).cast(x.dtype());
    Ok(if x.dtype().is_float() { y / counts } else { y.floor_div(&counts) }.into())
}

/// Indices of an advanced index: their axes, adjacent or not, and the tensors.
fn parts(c: &Call<'_>, i: usize, x: &Tensor) -> Result<(Vec<usize>, Vec<Tensor>), Reject> {
    let (mut axes, mut list) = (vec![], vec![]);
    for (a, index) in c.tensors_or_none(i)?.into_iter().enumerate() {
        let Some(index) = index else { continue };
        if matches!(index.dtype(), DType::Bool | DType::U8) {
            return Err("a mask as an index".into());
        }
        axes.push(a);
        list.push(index.clone());
    }
    if list.is_empty() || axes.iter().any(|&a| a >= x.rank()) {
        return Err("no index".into());
    }
    Ok((axes, list))
}

/// Order that moves `axes` to the front.
fn to_front(rank: usize, axes: &[usize]) -> Vec<usize> {
    axes.iter().copied().chain((0..rank).filter(|i| !axes.contains(i))).collect()
}

fn adjacent(axes: &[usize]) -> bool {
    axes.windows(2).all(|w| w[1] == w[0] + 1)
}

fn indexed(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let (axes, list) = parts(c, 1, x)?;
    let all = Tensor::broadcast_all(&list);
    let rank = all[0].rank();
    if rank + x.rank() - axes.len() > MAX_RANK {
        return Err("a rank over the limit".into());
    }
    if x.numel() == 0 || all[0].numel() == 0 {
        return Err("an empty tensor".into());
    }
    if let ([a], [index]) = (&axes[..], &all[..]) {
        return Ok(x.index_select(*a, index).into());
    }
    let y = x.permute(to_front(x.rank(), &axes)).index(&all);
    if !adjacent(&axes) || axes[0] == 0 {
        return Ok(y.into());
    }
    // Adjacent indices leave their axes where the first of them is.
    let lead = axes[0];
    let order: Vec<usize> = (rank..rank + lead).chain(0..rank).chain(rank + lead..y.rank()).collect();
    Ok(y.permute(order).into())
}

/// Whether each index goes along a dimension of its own of their common shape, in order: what they select is a grid of
/// rows and columns, as in the gradient of an interpolation to the nearest element.
fn is_grid(list: &[Tensor], common: &[usize]) -> bool {
    list.len() == common.len()
        && list.iter().enumerate().all(|(k, index)| {
            let lead = common.len() - index.rank();
            let own = |d: usize| if d < lead { 1 } else { index.dims()[d - lead] };
            (0..common.len()).all(|d| own(d) == if d == k { common[k] } else { 1 })
        })
}

/// `x` with the values of a grid of adjacent axes added, which begin at axis `first`: one axis after the other, so that no
/// axis has to be moved, and the next one has fewer values.
fn added_to_grid(x: &Tensor, first: usize, list: &[Tensor], values: &Tensor) -> Tensor {
    let last = list.len() - 1;
    let mut sums = values.clone();
    for (k, index) in list.iter().enumerate() {
        let axis = first + k;
        let base = if k == last {
            x.clone()
        } else {
            let mut dims = sums.dims().to_vec();
            dims[axis] = x.dims()[axis];
            Tensor::zeros_with(&dims[..], (x.dtype(), x.device()))
        };
        sums = base.index_add(axis, &index.flatten(), &sums);
    }
    sums
}

fn index_put(c: &Call<'_>) -> Outcome {
    let (x, values) = (c.tensor(0)?, c.tensor(2)?);
    let accumulate = c.flag(3)?;
    let listed = c.tensors_or_none(1)?;
    if let [Some(mask)] = &listed[..]
        && mask.dtype() == DType::Bool
        && !accumulate
        && values.numel() == 1
        && mask.rank() <= x.rank()
    {
        // A mask and one value select.
        let mut dims = mask.dims().to_vec();
        dims.resize(x.rank(), 1);
        return Ok(mask.reshape(&dims[..]).where_(values.cast(x.dtype()).reshape(()), x).into());
    }
    let (axes, list) = parts(c, 1, x)?;
    if x.numel() == 0 {
        return Err("an empty tensor".into());
    }
    let all = Tensor::broadcast_all(&list);
    let rank = all[0].rank();
    if all[0].numel() == 0 {
        return Ok(x.clone().into());
    }
    let order = to_front(x.rank(), &axes);
    let mut back = vec![0; order.len()];
    for (i, &o) in order.iter().enumerate() {
        back[o] = i;
    }
    let moved = x.permute(&order[..]);
    let mut shape: Vec<usize> = all[0].dims().to_vec();
    shape.extend(&moved.dims()[axes.len()..]);
    if shape.len() > MAX_RANK {
        return Err("a rank over the limit".into());
    }
    let mut values = values.cast(x.dtype());
    if adjacent(&axes) && axes[0] > 0 {
        // The values' axes are in the order of the result of indexing.
        let lead = axes[0];
        let natural: Vec<usize> =
            shape[rank..rank + lead].iter().chain(&shape[..rank]).chain(&shape[rank + lead..]).copied().collect();
        let order: Vec<usize> = (lead..lead + rank).chain(0..lead).chain(lead + rank..shape.len()).collect();
        values = values.broadcast_to(&natural[..]);
        if accumulate && x.dtype().is_float() && is_grid(&list, all[0].dims()) {
            // Sums of a narrow dtype are rounded once.
            let wide = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
            let sums = added_to_grid(&x.cast(wide), axes[0], &list, &values.cast(wide));
            return Ok(sums.cast(x.dtype()).into());
        }
        values = values.permute(order);
    } else {
        values = values.broadcast_to(&shape[..]);
    }
    if accumulate && x.dtype() == DType::Bool {
        // The sum of bools is "or".
        let sum = moved.cast(DType::I32).index_put(&all, values.cast(DType::I32), true);
        return Ok(sum.ne(0).permute(back).into());
    }
    Ok(moved.index_put(&all, &values, accumulate).permute(back).into())
}

fn index_select(c: &Call<'_>) -> Outcome {
    let (x, index) = (c.tensor(0)?, c.tensor(2)?);
    let a = axis_of(c, 1, x)?;
    if x.numel() == 0 || index.numel() == 0 {
        return Err("an empty tensor".into());
    }
    let y = at_least_1d(x).index_select(a, &at_least_1d(index));
    Ok(if x.rank() == 0 { y.reshape(()) } else { y }.into())
}

pub const ROWS: &[Row] = &[
    ("aten.gather.default", gathered),
    ("aten.index_select.default", index_select),
    ("aten.index.Tensor", indexed),
    ("aten._unsafe_index.Tensor", indexed),
    ("aten.index_put.default", index_put),
    ("aten._unsafe_index_put.default", index_put),
    ("aten.take.default", |c| {
        let (x, index) = (c.tensor(0)?, c.tensor(1)?);
        if x.numel() == 0 || index.numel() == 0 {
            return Err("an empty tensor".into());
        }
        Ok(x.take(index).into())
    }),
    ("aten.embedding.default", |c| {
        let (table, index) = (c.tensor(0)?, c.tensor(1)?);
        if index.numel() == 0 || table.rank() != 2 || index.rank() == MAX_RANK {
            return Err("an empty tensor".into());
        }
        Ok(table.embedding(index).into())
    }),
    ("aten.scatter.src", |c| scatter(c, ScatterOp::Set)),
    ("aten.scatter.value", |c| scatter(c, ScatterOp::Set)),
    ("aten.scatter.reduce", |c| scatter(c, op_of(c.word(4))?)),
    ("aten.scatter.value_reduce", |c| scatter(c, op_of(c.word(4))?)),
    ("aten.scatter_add.default", |c| scatter(c, ScatterOp::Add)),
    ("aten.scatter_reduce.two", scatter_reduce),
    ("aten.index_add.default", |c| {
        let (x, index) = (c.tensor(0)?, c.tensor(2)?);
        let alpha = c.number_or_none(4)?.unwrap_or(thalweg::Scalar::Int(1));
        let a = axis_of(c, 1, x)?;
        if x.dtype() == DType::Bool {
            let values = at_least_1d(c.tensor(3)?);
            if alpha.to_f64() == 0.0 || x.numel() == 0 {
                return Ok(x.clone().into());
            }
            let mut dims = vec![1; values.rank()];
            dims[a] = index.numel();
            let index = index.reshape(&dims[..]).broadcast_to(*values.shape());
            return Ok(scattered(x, a, &index, &values, ScatterOp::Add)?.into());
        }
        let values = at_least_1d(c.tensor(3)?);
        let values = if alpha.to_f64() == 1.0 { values } else { values * number_as(alpha, x.dtype())? };
        Ok(at_least_1d(x).index_add(a, &at_least_1d(index), &values).reshape(x.shape()).into())
    }),
    ("aten.index_reduce.default", index_reduce),
    ("aten.put.default", |c| {
        let (x, index, values) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
        if x.numel() == 0 || index.numel() == 0 {
            return Ok(x.clone().into());
        }
        let op = if c.flag(3)? { ScatterOp::Add } else { ScatterOp::Set };
        let y = scattered(&x.flatten(), 0, &index.flatten(), &values.cast(x.dtype()).flatten(), op)?;
        Ok(y.reshape(x.shape()).into())
    }),
    ("aten.masked_scatter.default", |c| {
        let (x, mask, values) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
        let Some(shape) = x.shape().broadcast(mask.shape()) else { return Err("shapes".into()) };
        Ok(x.broadcast_to(shape).masked_scatter(mask, &values.cast(x.dtype())).into())
    }),
    ("prims._unsafe_index_put_.default", index_put),
];
