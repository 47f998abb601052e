//! Integer functions, parts of floats, modes, bags of embeddings, and other operations that are short compositions.

use super::super::call::{Call, Out, Outcome, Row, axis, number_as};
use super::super::value::Value;
use super::elementwise::holds;
use thalweg::{DType, Scalar, ScatterOp, Shape, Tensor};

/// Greatest common divisor by Euclid's algorithm. 92 steps are enough for 64 bits (Lamé), 46 for 32.
fn gcd(a: &Tensor, b: &Tensor) -> Tensor {
    let steps = match a.dtype().size() {
        8 => 92,
        4 => 46,
        _ => 24,
    };
    let (mut a, mut b) = if a.dtype().is_signed() { (a.abs(), b.abs()) } else { (a.clone(), b.clone()) };
    for _ in 0..steps {
        let done = b.eq(0);
        let rest = a.rem(done.where_(1, &b));
        let next = done.where_(&a, &b);
        b = done.where_(0, rest);
        a = next;
    }
    a
}

fn integers(c: &Call<'_>, f: fn(&Tensor, &Tensor) -> Tensor) -> Outcome {
    let dtype = c.out(0)?;
    if !dtype.is_int() {
        return Err("no integer".into());
    }
    let (a, b) = (c.tensor_of(0, dtype)?, c.tensor_of(1, dtype)?);
    let shape = a.shape().broadcast(b.shape()).ok_or("shapes")?;
    Ok(f(&a.broadcast_to(shape), &b.broadcast_to(shape)).into())
}

fn lcm(a: &Tensor, b: &Tensor) -> Tensor {
    let divisor = gcd(a, b);
    let y = a / divisor.eq(0).where_(1, &divisor) * b;
    if y.dtype().is_signed() { y.abs() } else { y }
}

/// Mantissa in [0.5, 1) and exponent; zeros, infinities and NaN with exponent 0.
fn frexp(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    // Bits of the mantissa, bias for a mantissa in [0.5, 1), mask of the exponent, and a power of two above all subnormal numbers.
    let (wide, bits, fraction, bias, mask, lift) = match x.dtype() {
        DType::F64 => (DType::F64, DType::I64, 52, 1022i64, 0x7ff, 54),
        d if d.is_float() => (DType::F32, DType::I32, 23, 126, 0xff, 25),
        _ => return Err("no float".into()),
    };
    let w = x.cast(wide);
    let smallest = 2f64.powi(2 - bias as i32);
    let subnormal = w.abs().lt(smallest);
    let scaled = subnormal.where_(&w * 2f64.powi(lift), &w);
    let word = scaled.bitcast(bits);
    let exponent = ((&word >> fraction) & mask) - bias - subnormal.where_(word.full_like(i64::from(lift)), 0);
    let low = (1i64 << fraction) - 1;
    let mantissa = ((&word & low) | (bias << fraction)).bitcast(wide).copysign(&w);
    let plain = w.eq(0.0) | !w.is_finite();
    let exponent = plain.where_(0, exponent).cast(DType::I32);
    Ok((plain.where_(&w, mantissa).cast(x.dtype()), exponent).into())
}

/// The most frequent element (the smallest of several) and the last index that has it.
fn mode(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let keep = c.flag(2)?;
    let Some(a) = axis(c.int_or(1, -1)?, x.rank())? else {
        return Ok((x.clone(), Tensor::full_with((), 0i64, (DType::I64, x.device()))).into());
    };
    if x.numel() == 0 {
        return Err("no element".into());
    }
    let wide = if x.dtype() == DType::Bool { x.cast(DType::U8) } else { x.clone() };
    let value = wide.mode(a).0.unsqueeze(a);
    let mut equal = wide.eq(&value);
    if wide.dtype().is_float() {
        equal |= wide.is_nan() & value.is_nan();
    }
    let mut dims = vec![1; x.rank()];
    dims[a] = x.dims()[a];
    let numbers = Tensor::arange_with(x.dims()[a], (DType::I64, x.device())).reshape(&dims[..]);
    let index = equal.where_(numbers, -1).amax(a);
    let value = value.cast(x.dtype());
    Ok(if keep { (value, index.unsqueeze(a)) } else { (value.squeeze(a), index) }.into())
}

/// Σ over `sumdim` of the product of three tensors that are expanded by dimensions of size 1.
fn trilinear(c: &Call<'_>) -> Outcome {
    let mut product: Option<Tensor> = None;
    for i in 0..3 {
        let mut axes = c.ints(3 + i)?;
        axes.sort_unstable();
        let mut x = c.tensor(i)?.clone();
        for a in axes {
            x = x.unsqueeze(a);
        }
        product = Some(match product {
            None => x,
            Some(p) => p * x,
        });
    }
    let product = product.ok_or("no tensor")?;
    let axes: Vec<usize> = c.shape_list(6)?;
    let y = if axes.is_empty() { product } else { product.sum(&axes) };
    Ok(y.cast(c.out(0)?).into())
}

/// Rows of a table that are looked up, scaled down to a norm.
fn embedding_renorm(c: &Call<'_>) -> Outcome {
    let (table, index) = (c.tensor(0)?, c.tensor(1)?);
    if table.rank() != 2 || table.numel() == 0 || index.numel() == 0 {
        return Err("no table".into());
    }
    let (most, p) = (c.float(2)?, c.float(3)?);
    let rows = table.dims()[0];
    let index = index.flatten().cast(DType::I64);
    let ones = Tensor::full_with(*index.shape(), 1u8, (DType::U8, table.device()));
    let read = Tensor::zeros_with([rows], (DType::U8, table.device()))
        .scatter_reduce(0, &index, &ones, ScatterOp::Set)
        .ne(0)
        .unsqueeze(1);
    let norm = table.norm_p(p, 1).unsqueeze(1);
    Ok((read & norm.gt(most)).where_(table * (most / (&norm + 1e-7)), table).into())
}

/// Sums, means or maxima of bags of rows, if nothing else of the operation is read.
fn embedding_bag(c: &Call<'_>) -> Outcome {
    let (table, index, offsets) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let (mode, weights, padding) = (c.int_or(4, 0)?, c.tensor_or_none(6)?, c.int_or(8, -1)?);
    if (1..4).any(|k| c.is_read(k)) {
        return Err("indices for gradients".into());
    }
    let bags = offsets.numel() - usize::from(c.flag(7)?);
    let (count, width) = (index.numel(), table.dims()[1]);
    if count == 0 || bags == 0 || table.rank() != 2 || table.numel() == 0 {
        return Err("an empty tensor".into());
    }
    let dtype = table.dtype();
    let wide = if dtype.size() < 4 { DType::F32 } else { dtype };
    let starts = offsets.narrow(0, 0, bags).cast(DType::I64);
    let index = index.cast(DType::I64);
    let places = Tensor::arange_with(count, (DType::I64, table.device()));
    let bag = starts.searchsorted(&places, true).cast(DType::I64) - 1;
    let mut rows = table.embedding(&index).cast(wide);
    if let Some(w) = weights {
        rows *= w.cast(wide).unsqueeze(1);
    }
    // Negative paddings count from the end in the front of PyTorch, and -1 here is none.
    let valid = if padding >= 0 { index.ne(padding) } else { index.ge(0) };
    let counts = Tensor::zeros_with([bags], (wide, table.device())).index_add(0, &bag, valid.cast(wide)).unsqueeze(1);
    let valid = valid.unsqueeze(1);
    let shape = Shape::new(&[bags, width]);
    let y = match mode {
        0 | 1 => {
            let sums = Tensor::zeros_with(shape, (wide, table.device())).index_add(0, &bag, valid.where_(rows, 0.0));
            if mode == 0 { sums } else { sums / counts.maximum(1.0) }
        }
        2 => {
            let low = Tensor::full_with(shape, f64::NEG_INFINITY, (wide, table.device()));
            let index = bag.unsqueeze(1).broadcast_to([count, width]);
            let most = low.scatter_reduce(0, &index, valid.where_(rows, f64::NEG_INFINITY), ScatterOp::Max);
            counts.gt(0.0).where_(most, 0.0)
        }
        _ => return Err("a mode".into()),
    };
    Ok(Out::Many(vec![y.cast(dtype).into(), Value::None, Value::None, Value::None]))
}

/// Indices of the first `size` elements that are not 0, filled up.
fn nonzero_static(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let (size, fill) = (c.size(1)?, c.int_or(2, -1)?);
    if x.rank() == 0 || x.numel() == 0 || size == 0 {
        return Err("an empty tensor, or rank 0".into());
    }
    let options = (DType::I64, x.device());
    let mask = holds(x).flatten();
    let place = mask.cast(DType::I64).cumsum(0) - 1;
    let size_i = size as i64;
    // Elements that are not counted go to a last slot, which is cut off.
    let place = (mask & place.lt(size_i)).where_(place, size_i);
    let numbers = Tensor::arange_with(x.numel(), options);
    let found = Tensor::full_with([size + 1], -1i64, options)
        .scatter_reduce(0, &place, &numbers, ScatterOp::Set)
        .narrow(0, 0, size);
    let none = found.lt(0);
    let mut stride = 1i64;
    let mut columns = vec![];
    for &n in x.dims().iter().rev() {
        let at = found.maximum(0i64).floor_div(stride).rem(n as i64);
        columns.push(none.where_(fill, at));
        stride *= n as i64;
    }
    columns.reverse();
    Ok(Tensor::stack(&columns, 1).into())
}

/// Leaky rectifier, in training with random slopes, which are the noise.
fn rrelu(c: &Call<'_>) -> Outcome {
    let (x, noise) = (c.tensor(0)?, c.tensor(1)?);
    let (low, high) = (c.float_or(2, 0.125)?, c.float_or(3, 1.0 / 3.0)?);
    if !c.flag(4)? {
        return Ok((x.gt(0.0).where_(x, x * ((low + high) / 2.0)), noise.clone()).into());
    }
    let slope = Tensor::rand_with(*x.shape(), (x.dtype(), x.device())) * (high - low) + low;
    let slope = x.le(0.0).where_(slope, 1.0);
    Ok((x * &slope, slope).into())
}

/// Row-major elements in another size, followed by zeros if there are more.
fn resized(c: &Call<'_>) -> Outcome {
    let (x, shape) = (c.tensor(0)?, c.shape(1)?);
    let (have, want) = (x.numel(), shape.numel());
    let flat = x.flatten();
    let flat = if want <= have {
        flat.narrow(0, 0, want)
    } else {
        flat.pad([(0, want - have)], thalweg::Border::Constant(number_as(Scalar::Int(0), x.dtype())?))
    };
    Ok(flat.reshape(shape).into())
}

fn normal(c: &Call<'_>) -> Outcome {
    let dtype = c.out(0)?;
    if !dtype.is_float() {
        return Err("integers".into());
    }
    Ok((Tensor::randn_with(c.shape(0)?, dtype) * c.float(2)? + c.float(1)?).into())
}

/// Sums, means, products or extremes of segments along the first axis, given by lengths or offsets of rank 1.
fn segment_reduce(c: &Call<'_>) -> Outcome {
    let x = c.tensor(0)?;
    let (lengths, offsets) = (c.tensor_or_none(2)?, c.tensor_or_none(4)?);
    if !c.is_none(3) || c.int_or(5, 0)? != 0 || x.rank() == 0 || x.numel() == 0 {
        return Err("segments of another form".into());
    }
    let ends = match (lengths, offsets) {
        (Some(l), None) if l.rank() == 1 && l.numel() > 0 => l.cast(DType::I64).cumsum(0),
        (None, Some(o)) if o.rank() == 1 && o.numel() > 1 => o.narrow(0, 1, o.numel() - 1).cast(DType::I64),
        _ => return Err("segments of another form".into()),
    };
    let (op, neutral) = match c.word(1) {
        Some("sum" | "mean") => (ScatterOp::Add, 0.0),
        Some("prod") => (ScatterOp::Prod, 1.0),
        Some("max") => (ScatterOp::Max, f64::NEG_INFINITY),
        Some("min") => (ScatterOp::Min, f64::INFINITY),
        _ => return Err("a reduction".into()),
    };
    let mean = c.word(1) == Some("mean");
    let initial = c.number_or_none(7)?.map(Scalar::to_f64);
    let segments = ends.numel();
    let places = Tensor::arange_with(x.dims()[0], (DType::I64, x.device()));
    let segment = ends.searchsorted(&places, true).cast(DType::I64);
    let mut dims = vec![1; x.rank()];
    dims[0] = x.dims()[0];
    let index = segment.reshape(&dims[..]).broadcast_to(*x.shape());
    dims[0] = segments;
    let one = Tensor::full_with(*segment.shape(), 1i64, (DType::I64, x.device()));
    let counts =
        Tensor::zeros_with([segments], (DType::I64, x.device())).index_add(0, &segment, &one).reshape(&dims[..]);
    let mut shape = x.dims().to_vec();
    shape[0] = segments;
    let base = Tensor::full_with(Shape::new(&shape), initial.unwrap_or(neutral), (x.dtype(), x.device()));
    let y = base.scatter_reduce(0, &index, x, op);
    if mean {
        let empty = initial.unwrap_or(f64::NAN);
        return Ok(counts.gt(0).where_(&y / counts.maximum(1i64).cast(x.dtype()), empty).into());
    }
    Ok(y.into())
}

/// Rows of the operations in this file.
pub const ROWS: &[Row] = &[
    ("aten.gcd.default", |c| integers(c, gcd)),
    ("prims.gcd.default", |c| integers(c, gcd)),
    ("aten.lcm.default", |c| integers(c, lcm)),
    ("aten.frexp.Tensor", frexp),
    ("prims.frexp.default", frexp),
    ("aten.mode.default", mode),
    ("aten._trilinear.default", trilinear),
    ("aten.embedding_renorm.default", embedding_renorm),
    ("aten._embedding_bag_forward_only.default", embedding_bag),
    ("aten._embedding_bag.default", embedding_bag),
    ("aten.nonzero_static.default", nonzero_static),
    ("aten.rrelu_with_noise_functional.default", rrelu),
    ("aten.resize.default", resized),
    ("aten.segment_reduce.default", segment_reduce),
    ("prims.normal.default", normal),
];
