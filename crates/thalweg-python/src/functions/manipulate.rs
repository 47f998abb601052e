//! Shapes, joins and moves of elements.

use super::register;
use crate::dtype::{ArrayDType, DTypeArg};
use crate::error::{run, run_fallible, type_error, value_error};
use crate::functions::arguments::{ShapeArg, device_of_name};
use crate::functions::reduce::{AxisArg, axes_of, axis_of};
use crate::handle::{Array, Data};
use crate::promote::promote;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use thalweg::{DType, MAX_RANK, Shape, Tensor};

/// Array with other sizes; one may be -1.
///
/// # Errors
/// `ValueError` if the sizes do not fit.
pub fn reshape_to(py: Python<'_>, data: &Data, sizes: &[i64]) -> PyResult<Data> {
    let count = data.numel();
    let refuse = || {
        let text: Vec<String> = sizes.iter().map(i64::to_string).collect();
        value_error(py, format!("cannot reshape array of size {count} into shape ({})", text.join(", ")))
    };
    if sizes.len() > MAX_RANK {
        return Err(value_error(py, format!("rank {} is over the limit of {MAX_RANK}", sizes.len())));
    }
    let known = sizes.iter().filter(|&&s| s != -1).try_fold(1usize, |n, &s| n.checked_mul(usize::try_from(s).ok()?));
    let known = known.ok_or_else(refuse)?;
    let free = sizes.iter().filter(|&&s| s == -1).count();
    let rest = match free {
        0 if known == count => 0,
        1 if known > 0 && count.is_multiple_of(known) => count / known,
        _ => return Err(refuse()),
    };
    let dims: Vec<usize> = sizes.iter().map(|&s| if s == -1 { rest } else { s as usize }).collect();
    let shape = Shape::new(&dims);
    run(py, || data.map(|x| x.reshape(shape)))
}

/// Matrices with rows and columns exchanged.
///
/// # Errors
/// `ValueError` below two dimensions.
pub fn transposed(py: Python<'_>, data: &Data) -> PyResult<Data> {
    if data.rank() < 2 {
        return Err(value_error(py, format!("mT: takes matrices, not shape {}", data.shape())));
    }
    run(py, || data.map(|x| x.transpose(-1, -2)))
}

/// Applies a function of tensors to the parts of all arrays, which are promoted to one dtype.
fn joined(py: Python<'_>, arrays: &[Data], f: impl Fn(&[Tensor]) -> Tensor + Send + Sync) -> PyResult<Data> {
    let Some(dtype) = arrays.iter().map(Data::dtype).reduce(promote) else {
        return Err(value_error(py, "need at least one array"));
    };
    run(py, || {
        let all: Vec<Data> =
            arrays.iter().map(|a| if a.dtype() == dtype { a.clone() } else { a.cast(dtype) }).collect();
        let re: Vec<Tensor> = all
            .iter()
            .map(|d| match d {
                Data::Real(x) => x.clone(),
                Data::Complex(z) => z.re.clone(),
            })
            .collect();
        if !dtype.is_complex() {
            return Data::Real(f(&re));
        }
        let im: Vec<Tensor> = all.iter().map(|d| d.complex().im).collect();
        Data::Complex(thalweg::Complex { re: f(&re), im: f(&im) })
    })
}

/// Arrays along a new axis.
///
/// # Errors
/// `ValueError` for shapes that differ, or none.
pub fn stacked(py: Python<'_>, arrays: &[Data], axis: i64) -> PyResult<Data> {
    if let Some(other) = arrays.iter().find(|a| a.shape() != arrays[0].shape()) {
        let (a, b) = (arrays[0].shape(), other.shape());
        return Err(value_error(py, format!("all arrays must have the same shape, not {a} and {b}")));
    }
    let axis = axis_of(py, axis, arrays.first().map_or(0, Data::rank) + 1)?;
    joined(py, arrays, |all| Tensor::stack(all, axis))
}

/// The array with sizes ``shape``, in the same row-major order; one size may be -1.
#[pyfunction]
#[pyo3(signature = (x, /, shape, *, copy = None))]
fn reshape(py: Python<'_>, x: Data, shape: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Data> {
    let _ = copy;
    let sizes: Vec<i64> = match shape.extract::<i64>() {
        Ok(one) => vec![one],
        Err(_) => shape.try_iter()?.map(|s| s?.extract()).collect::<PyResult<_>>()?,
    };
    reshape_to(py, &x, &sizes)
}

/// Arrays broadcast to their common shape.
#[pyfunction]
#[pyo3(signature = (*arrays))]
fn broadcast_arrays<'py>(py: Python<'py>, arrays: Vec<Data>) -> PyResult<Bound<'py, PyTuple>> {
    let shape = common_shape(py, arrays.iter().map(|a| *a.shape()))?;
    let all: Vec<Data> = run(py, || arrays.iter().map(|a| a.map(|x| x.broadcast_to(shape))).collect())?;
    PyTuple::new(py, all)
}

fn common_shape(py: Python<'_>, shapes: impl Iterator<Item = Shape>) -> PyResult<Shape> {
    let mut common = Shape::SCALAR;
    for shape in shapes {
        let text = || value_error(py, format!("shapes {common} and {shape} do not broadcast"));
        common = common.broadcast(&shape).ok_or_else(text)?;
    }
    Ok(common)
}

/// The shape that shapes broadcast to.
#[pyfunction]
#[pyo3(signature = (*shapes))]
fn broadcast_shapes<'py>(py: Python<'py>, shapes: Vec<ShapeArg>) -> PyResult<Bound<'py, PyTuple>> {
    let shape = common_shape(py, shapes.iter().map(|s| Shape::new(&s.0)))?;
    PyTuple::new(py, shape.dims())
}

/// The array broadcast to a shape.
#[pyfunction]
#[pyo3(signature = (x, /, shape))]
fn broadcast_to(py: Python<'_>, x: Data, shape: ShapeArg) -> PyResult<Data> {
    let shape = Shape::new(&shape.0);
    if x.shape().broadcast(&shape) != Some(shape) {
        return Err(value_error(py, format!("shape {} does not broadcast to {shape}", x.shape())));
    }
    run(py, || x.map(|t| t.broadcast_to(shape)))
}

/// Arrays joined along an axis; ``axis=None`` joins their flattened elements. Dtypes are promoted.
#[pyfunction]
#[pyo3(signature = (arrays, /, *, axis = Some(0)))]
fn concat(py: Python<'_>, arrays: Vec<Data>, axis: Option<i64>) -> PyResult<Data> {
    let Some(axis) = axis else {
        return joined(py, &arrays, |all| {
            let flat: Vec<Tensor> = all.iter().map(Tensor::flatten).collect();
            Tensor::cat(&flat, 0)
        });
    };
    let rank = arrays.first().map_or(1, Data::rank);
    if rank == 0 {
        return Err(value_error(py, "zero-dimensional arrays cannot be concatenated"));
    }
    let axis = axis_of(py, axis, rank)?;
    for array in &arrays {
        let fits = array.rank() == rank && (0..rank).all(|i| i == axis || array.dims()[i] == arrays[0].dims()[i]);
        if !fits {
            let (a, b) = (arrays[0].shape(), array.shape());
            return Err(value_error(py, format!("concat: shapes {a} and {b} differ beside axis {axis}")));
        }
    }
    concat_on_axis(py, &arrays, axis)
}

/// Arrays joined along an axis in which alone they differ.
///
/// # Errors
/// When there are none.
pub fn concat_on_axis(py: Python<'_>, arrays: &[Data], axis: usize) -> PyResult<Data> {
    joined(py, arrays, |all| Tensor::cat(all, axis))
}

/// Arrays of one shape along a new axis. Dtypes are promoted.
#[pyfunction]
#[pyo3(signature = (arrays, /, *, axis = 0))]
fn stack(py: Python<'_>, arrays: Vec<Data>, axis: i64) -> PyResult<Data> {
    stacked(py, &arrays, axis)
}

/// A new axis of size 1 at position ``axis``, or at several positions of the result.
#[pyfunction]
#[pyo3(signature = (x, /, axis = AxisArg(vec![0])))]
fn expand_dims(py: Python<'_>, x: Data, axis: AxisArg) -> PyResult<Data> {
    let rank = x.rank() + axis.0.len();
    let axes = axes_of(py, Some(axis), rank)?;
    if rank > MAX_RANK {
        return Err(value_error(py, format!("rank {rank} is over the limit of {MAX_RANK}")));
    }
    run(py, || x.map(|t| axes.iter().fold(t.clone(), |t, &a| t.unsqueeze(a))))
}

/// The array without axes of size 1; ``axis`` names which.
#[pyfunction]
#[pyo3(signature = (x, /, axis = None))]
fn squeeze(py: Python<'_>, x: Data, axis: Option<AxisArg>) -> PyResult<Data> {
    let axes: Vec<usize> = match axis {
        None => (0..x.rank()).filter(|&i| x.dims()[i] == 1).collect(),
        axis => axes_of(py, axis, x.rank())?,
    };
    if let Some(&a) = axes.iter().find(|&&a| x.dims()[a] != 1) {
        return Err(value_error(py, format!("squeeze: axis {a} of shape {} has not one element", x.shape())));
    }
    let dims: Vec<usize> = (0..x.rank()).filter(|i| !axes.contains(i)).map(|i| x.dims()[i]).collect();
    let shape = Shape::new(&dims);
    run(py, || x.map(|t| t.reshape(shape)))
}

/// Axes in another order.
#[pyfunction]
#[pyo3(signature = (x, /, axes))]
fn permute_dims(py: Python<'_>, x: Data, axes: Vec<i64>) -> PyResult<Data> {
    let order: Vec<usize> = axes.iter().map(|&a| axis_of(py, a, x.rank())).collect::<PyResult<_>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted != (0..x.rank()).collect::<Vec<_>>() {
        return Err(value_error(py, format!("permute_dims: axes {axes:?} are no order of the {} axes", x.rank())));
    }
    run(py, || x.map(|t| t.permute(&order)))
}

/// Matrices with rows and columns exchanged: the last two dimensions.
#[pyfunction]
#[pyo3(signature = (x, /))]
pub fn matrix_transpose(py: Python<'_>, x: Data) -> PyResult<Data> {
    transposed(py, &x)
}

/// Axes moved to other positions; the others keep their order.
#[pyfunction]
#[pyo3(signature = (x, source, destination, /))]
fn moveaxis(py: Python<'_>, x: Data, source: AxisArg, destination: AxisArg) -> PyResult<Data> {
    let rank = x.rank();
    let axes = |list: AxisArg| list.0.iter().map(|&a| axis_of(py, a, rank)).collect::<PyResult<Vec<_>>>();
    let (from, to) = (axes(source)?, axes(destination)?);
    let twice = |list: &[usize]| (0..list.len()).any(|i| list[..i].contains(&list[i]));
    if from.len() != to.len() || twice(&from) || twice(&to) {
        return Err(value_error(py, "moveaxis: source and destination are as many different axes"));
    }
    let mut order: Vec<usize> = (0..rank).filter(|a| !from.contains(a)).collect();
    let mut moves: Vec<(usize, usize)> = to.into_iter().zip(from).collect();
    moves.sort_unstable();
    for (to, from) in moves {
        order.insert(to, from);
    }
    run(py, || x.map(|t| t.permute(&order)))
}

/// Elements in reverse order along axes; all of them by default.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = None))]
fn flip(py: Python<'_>, x: Data, axis: Option<AxisArg>) -> PyResult<Data> {
    let axes = axes_of(py, axis, x.rank())?;
    run(py, || x.map(|t| t.flip(&axes)))
}

/// Elements moved along axes by ``shift``; what leaves at one end comes in at the other. Without ``axis`` the flattened
/// elements are moved.
#[pyfunction]
#[pyo3(signature = (x, /, shift, *, axis = None))]
fn roll(py: Python<'_>, x: Data, shift: AxisArg, axis: Option<AxisArg>) -> PyResult<Data> {
    let Some(AxisArg(axes)) = axis else {
        let by: i64 = shift.0.iter().sum();
        let shape = *x.shape();
        return run(py, || x.map(|t| t.flatten().roll(by, 0).reshape(shape)));
    };
    let axes: Vec<usize> = axes.iter().map(|&a| axis_of(py, a, x.rank())).collect::<PyResult<_>>()?;
    let shifts = match (shift.0.len(), axes.len()) {
        (1, n) => vec![shift.0[0]; n],
        (m, n) if m == n => shift.0,
        (m, 1) => vec![shift.0[..m].iter().sum()],
        (m, n) => return Err(value_error(py, format!("roll: {m} shifts for {n} axes"))),
    };
    run(py, || x.map(|t| axes.iter().zip(&shifts).fold(t.clone(), |t, (&a, &s)| t.roll(s, a))))
}

/// Each element repeated, a number of times that is one int or an array of ints for each position of the axis. Without
/// ``axis`` the flattened elements are repeated.
#[pyfunction]
#[pyo3(signature = (x, repeats, /, *, axis = None))]
fn repeat(py: Python<'_>, x: Data, repeats: &Bound<'_, PyAny>, axis: Option<i64>) -> PyResult<Data> {
    let axis = axis.map(|a| axis_of(py, a, x.rank())).transpose()?;
    let (x, axis) = match axis {
        Some(axis) => (x, axis),
        None => (reshape_to(py, &x, &[-1])?, 0),
    };
    let size = x.dims()[axis];
    let counts = match repeats.extract::<Data>() {
        Ok(counts) => {
            let counts = counts.real(py, "repeat")?;
            if !counts.dtype().is_int() {
                return Err(type_error(py, "repeat: counts are integers"));
            }
            counts
        }
        Err(_) => {
            let count: i64 = repeats.extract()?;
            if count < 0 {
                return Err(value_error(py, "repeats may not contain negative values"));
            }
            let count = count as usize;
            if count > 0 {
                return run(py, || {
                    x.map(|t| {
                        // `[n]` to `[n, count]`, then flat: each element follows itself.
                        let mut wide = t.dims().to_vec();
                        wide.insert(axis + 1, count);
                        let mut merged = t.dims().to_vec();
                        merged[axis] *= count;
                        t.unsqueeze(axis + 1).broadcast_to(&wide).reshape(Shape::new(&merged))
                    })
                });
            }
            return run(py, || x.map(|t| t.narrow(axis, 0, 0)));
        }
    };
    if counts.numel() != 1 && (counts.rank() != 1 || counts.numel() != size) {
        let text = format!("repeat: counts of shape {} for an axis of {size} elements", counts.shape());
        return Err(value_error(py, text));
    }
    run_fallible(py, || {
        let counts = counts.reshape([counts.numel()]).broadcast_to([size]).cast(DType::I64);
        Ok(match &x {
            Data::Real(x) => x.repeat_interleave(&counts, axis)?.into(),
            Data::Complex(z) => thalweg::Complex {
                re: z.re.repeat_interleave(&counts, axis)?,
                im: z.im.repeat_interleave(&counts, axis)?,
            }
            .into(),
        })
    })
}

/// The array repeated as a whole along each axis.
#[pyfunction]
#[pyo3(signature = (x, repetitions, /))]
fn tile(py: Python<'_>, x: Data, repetitions: ShapeArg) -> PyResult<Data> {
    let mut counts = repetitions.0;
    let rank = counts.len().max(x.rank());
    if rank > MAX_RANK {
        return Err(value_error(py, format!("rank {rank} is over the limit of {MAX_RANK}")));
    }
    while counts.len() < rank {
        counts.insert(0, 1);
    }
    let mut dims = x.dims().to_vec();
    while dims.len() < rank {
        dims.insert(0, 1);
    }
    run(py, || {
        x.map(|t| {
            let mut t = t.reshape(Shape::new(&dims));
            for (axis, &count) in counts.iter().enumerate() {
                if count == 0 {
                    t = t.narrow(axis, 0, 0);
                } else if count > 1 {
                    t = Tensor::cat(&vec![t; count], axis);
                }
            }
            t
        })
    })
}

/// The arrays along an axis, which is dropped, as a tuple.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = 0))]
fn unstack<'py>(py: Python<'py>, x: Data, axis: i64) -> PyResult<Bound<'py, PyTuple>> {
    let axis = axis_of(py, axis, x.rank())?;
    let all: Vec<Data> = run(py, || (0..x.dims()[axis]).map(|i| x.map(|t| t.select(axis, i))).collect())?;
    PyTuple::new(py, all)
}

/// Adds elements at both ends of each axis.
///
/// ``pad_width`` has a pair (before, after) for each axis, or is one pair or int for all. ``mode`` is "constant", "reflect", "edge" or
/// "wrap".
#[pyfunction]
#[pyo3(signature = (x, pad_width, mode = "constant", *, constant_values = 0.0))]
fn pad(py: Python<'_>, x: Data, pad_width: &Bound<'_, PyAny>, mode: &str, constant_values: f64) -> PyResult<Data> {
    let widths: Vec<(usize, usize)> = if let Ok(n) = pad_width.extract::<usize>() {
        vec![(n, n); x.rank()]
    } else if let Ok(pair) = pad_width.extract::<(usize, usize)>() {
        vec![pair; x.rank()]
    } else {
        pad_width.extract()?
    };
    if widths.len() != x.rank() {
        return Err(value_error(py, format!("pad: {} pairs of widths for shape {}", widths.len(), x.shape())));
    }
    let border = match mode {
        "constant" => None,
        "reflect" => Some(thalweg::Border::Reflect),
        "edge" => Some(thalweg::Border::Edge),
        "wrap" => Some(thalweg::Border::Wrap),
        other => return Err(value_error(py, format!("pad: there is no mode {other:?}"))),
    };
    let dtype = x.dtype();
    run(py, || match (&x, border) {
        (_, Some(border)) => x.map(|t| t.pad(&widths[..], border)),
        (Data::Real(t), None) => {
            let value = crate::functions::elementwise::fitted(thalweg::Scalar::Float(constant_values), dtype.part());
            Data::Real(t.pad(&widths[..], value))
        }
        (Data::Complex(z), None) => {
            thalweg::Complex { re: z.re.pad(&widths[..], constant_values), im: z.im.pad(&widths[..], 0) }.into()
        }
    })
}

/// The array with elements of another dtype, on another device if one is given. Without ``copy`` an array of that dtype and
/// device is returned itself.
#[pyfunction]
#[pyo3(signature = (x, dtype, /, *, copy = true, device = None))]
fn astype<'py>(
    x: &Bound<'py, Array>,
    dtype: DTypeArg,
    copy: bool,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, Array>> {
    let (py, data, to) = (x.py(), x.get().data(), dtype.0);
    if data.dtype().is_complex() && !to.is_complex() && to != ArrayDType::Real(DType::Bool) {
        let (from, to) = (data.dtype().name(), to.name());
        return Err(type_error(py, format!("astype: {from} to {to} would drop imaginary parts; see real")));
    }
    let device = device.filter(|d| !d.is_none()).map(|d| device_of_name(py, d)).transpose()?;
    let device = device.unwrap_or(data.device());
    if !copy && device == data.device() && data.dtype() == to {
        return Ok(x.clone());
    }
    let data = run_fallible(py, || {
        Ok(match data {
            Data::Real(x) => Data::Real(x.to_device(device)?),
            Data::Complex(z) => Data::Complex(z.to_device(device)?),
        })
    })?;
    let data = if data.dtype() == to { data } else { run(py, || data.cast(to))? };
    Bound::new(py, Array::new(data))
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register!(module; reshape, broadcast_arrays, broadcast_shapes, broadcast_to, concat, stack, expand_dims, squeeze,
        permute_dims, matrix_transpose, moveaxis, flip, roll, repeat, tile, unstack, pad, astype);
    Ok(())
}
