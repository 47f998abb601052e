//! Indexing functions, searching, sorting and sets.

use super::register;
use crate::dtype::{ArrayDType::Real, default_float};
use crate::error::{index_error, run, run_fallible, type_error, value_error};
use crate::functions::elementwise::{Binary, binary};
use crate::functions::linalg::promoted;
use crate::functions::reduce::axis_of;
use crate::handle::Data;
use crate::promote::Arg;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use thalweg::{Complex, DType, Shape, Tensor};

/// An index array on the device of the array that it indexes.
fn index_of(py: Python<'_>, name: &str, indices: Data, data: &Data) -> PyResult<Tensor> {
    let index = indices.real(py, name)?;
    if !index.dtype().is_int() {
        return Err(type_error(py, format!("{name}: indices are integers")));
    }
    let device = data.device();
    run_fallible(py, || index.to_device(device))
}

/// Elements at indices along an axis, which may be left out for one dimension. Negative indices count from the end; one
/// out of range is an IndexError where a value is read.
#[pyfunction]
#[pyo3(signature = (x, indices, /, *, axis = None))]
fn take(py: Python<'_>, x: Data, indices: Data, axis: Option<i64>) -> PyResult<Data> {
    let axis = match axis {
        Some(axis) => axis_of(py, axis, x.rank())?,
        None if x.rank() == 1 => 0,
        None => return Err(value_error(py, format!("take: axis has to be given for shape {}", x.shape()))),
    };
    let index = index_of(py, "take", indices, &x)?;
    if x.dims()[axis] == 0 && index.numel() > 0 {
        return Err(index_error(py, "take: the axis has no elements"));
    }
    run(py, || x.map(|t| t.index_select(axis, &index)))
}

/// Elements at an index for each element of the result: ``out[i, j] = x[indices[i, j], j]`` for axis 0 of two. The
/// other dimensions broadcast.
#[pyfunction]
#[pyo3(name = "take_along_axis", signature = (x, indices, /, *, axis = -1))]
fn take_each(py: Python<'_>, x: Data, indices: Data, axis: i64) -> PyResult<Data> {
    let axis = axis_of(py, axis, x.rank())?;
    let index = index_of(py, "take_along_axis", indices, &x)?;
    run(py, || x.map(|t| t.gather(axis, &index)))
}

/// Indices of the elements that are not 0, one int64 array for each dimension, as a tuple. Waits for their number.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn nonzero<'py>(py: Python<'py>, x: Data) -> PyResult<Bound<'py, PyTuple>> {
    if x.rank() == 0 {
        return Err(value_error(py, "nonzero: takes arrays of one dimension or more"));
    }
    let all = run_fallible(py, || match x.cast(Real(DType::Bool)) {
        Data::Real(x) => x.nonzero(),
        Data::Complex(_) => unreachable!("cast to bool"),
    })?;
    PyTuple::new(py, all.into_iter().map(Data::Real))
}

/// Indices at which ``x2`` would be inserted into the sorted ``x1``, as int64: before equal elements for
/// ``side="left"``, after them for ``"right"``. ``sorter`` are indices that sort ``x1``.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, side = "left", sorter = None))]
fn searchsorted(py: Python<'_>, x1: Data, x2: Arg, side: &str, sorter: Option<Data>) -> PyResult<Data> {
    let right = match side {
        "left" => false,
        "right" => true,
        other => return Err(value_error(py, format!("searchsorted: side is \"left\" or \"right\", not {other:?}"))),
    };
    if x1.rank() != 1 {
        return Err(value_error(py, format!("searchsorted: x1 has one dimension, not shape {}", x1.shape())));
    }
    let x1 = match sorter {
        Some(sorter) => take(py, x1, sorter, Some(0))?,
        None => x1,
    };
    let (a, b, _) = promoted(py, &Arg::Array(x1), &x2)?;
    let (mut a, mut b) = (a.real(py, "searchsorted")?, b.real(py, "searchsorted")?);
    if a.dtype() == DType::Bool {
        (a, b) = run(py, || (a.cast(DType::U8), b.cast(DType::U8)))?;
    }
    Ok(run(py, || a.searchsorted(&b, right))?.into())
}

/// Elements sorted along an axis. The sort is stable; NaN is larger than every number.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = -1, descending = false, stable = true))]
fn sort(py: Python<'_>, x: Data, axis: i64, descending: bool, stable: bool) -> PyResult<Data> {
    let _ = stable;
    let axis = axis_of(py, axis, x.rank())?;
    let x = x.real(py, "sort")?;
    Ok(run(py, || x.sort(axis, descending))?.into())
}

/// Indices that sort along an axis, as int64. The sort is stable; NaN is larger than every number.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = -1, descending = false, stable = true))]
fn argsort(py: Python<'_>, x: Data, axis: i64, descending: bool, stable: bool) -> PyResult<Data> {
    let _ = stable;
    let axis = axis_of(py, axis, x.rank())?;
    let x = x.real(py, "argsort")?;
    Ok(run(py, || x.argsort(axis, descending))?.into())
}

/// The ``k`` largest (or smallest) elements along an axis in order, and their indices as int64.
#[pyfunction]
#[pyo3(signature = (x, k, /, *, axis = -1, largest = true))]
fn topk(py: Python<'_>, x: Data, k: usize, axis: i64, largest: bool) -> PyResult<(Data, Data)> {
    let axis = axis_of(py, axis, x.rank())?;
    let x = x.real(py, "topk")?;
    let (values, indices) = run(py, || x.topk(k, axis, largest))?;
    Ok((values.into(), indices.into()))
}

/// Distinct elements in ascending order, with first indices, inverse indices and counts. Each NaN is distinct.
struct Distinct {
    values: Data,
    first: Tensor,
    inverse: Tensor,
    counts: Tensor,
}

/// Finds distinct elements. Waits for their number.
fn distinct(py: Python<'_>, x: &Data) -> PyResult<Distinct> {
    run_fallible(py, || {
        let flat = x.map(Tensor::flatten);
        let n = flat.numel();
        // Order of the elements; complex numbers by real part, then by imaginary part.
        let (order, begins) = match &flat {
            Data::Real(t) => {
                let order = t.argsort(0, false);
                let begins = differs(&t.index_select(0, &order));
                (order, begins)
            }
            Data::Complex(z) => {
                let by_im = z.im.argsort(0, false);
                let order = by_im.index_select(0, &z.re.index_select(0, &by_im).argsort(0, false));
                let begins = differs(&z.re.index_select(0, &order)) | differs(&z.im.index_select(0, &order));
                (order, begins)
            }
        };
        let starts = begins.flat_nonzero()?;
        let first = order.index_select(0, &starts);
        let values = flat.map(|t| t.index_select(0, &first));
        let run_of = begins.cast(DType::I64).cumsum(0) - 1;
        let inverse = run_of.zeros_like().scatter(0, &order, &run_of).reshape(*x.shape());
        let count = starts.numel();
        let counts = if count == 0 { starts } else { starts.narrow(0, 1, count - 1).pad([(0, 1)], n as i64) - starts };
        Ok(Distinct { values, first, inverse, counts })
    })
}

/// Whether each element of a sorted vector differs from the one before it; a NaN does.
fn differs(sorted: &Tensor) -> Tensor {
    let n = sorted.numel();
    if n == 0 {
        return sorted.ne(sorted);
    }
    sorted.narrow(0, 1, n - 1).ne(sorted.narrow(0, 0, n - 1)).pad([(1, 0)], true)
}

/// Distinct elements, in ascending order. Each NaN is distinct. Waits for their number.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn unique_values(py: Python<'_>, x: Data) -> PyResult<Data> {
    Ok(distinct(py, &x)?.values)
}

/// Parts of `unique_all`, for the Python wrappers that name them.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn _unique_all(py: Python<'_>, x: Data) -> PyResult<(Data, Data, Data, Data)> {
    let Distinct { values, first, inverse, counts } = distinct(py, &x)?;
    Ok((values, first.into(), inverse.into(), counts.into()))
}

/// Whether each element of ``x1`` is among the elements of ``x2``, as bool; ``invert`` negates it.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, invert = false))]
fn isin(py: Python<'_>, x1: Arg, x2: Arg, invert: bool) -> PyResult<Data> {
    let (a, b, dtype) = promoted(py, &x1, &x2)?;
    let found = match (&a, &b) {
        (Data::Real(a), Data::Real(b)) if dtype == Real(DType::Bool) => {
            run(py, || a.cast(DType::U8).isin(&b.cast(DType::U8).flatten()))?
        }
        (Data::Real(a), Data::Real(b)) => run(py, || {
            let found = a.isin(&b.flatten());
            // A NaN is in no set.
            if a.dtype().is_float() { found & !a.is_nan() } else { found }
        })?,
        _ => {
            let (a, b) = (a.complex(), b.complex());
            run(py, || {
                let column = Complex { re: a.re.unsqueeze(-1), im: a.im.unsqueeze(-1) };
                column.eq(&Complex { re: b.re.flatten(), im: b.im.flatten() }).any(-1)
            })?
        }
    };
    Ok(run(py, || if invert { !found } else { found })?.into())
}

/// Differences of neighbouring elements along an axis, ``n`` times. ``prepend`` and ``append`` are joined before.
#[pyfunction]
#[pyo3(signature = (x, /, n = 1, *, axis = -1, prepend = None, append = None))]
fn diff(py: Python<'_>, x: Data, n: usize, axis: i64, prepend: Option<Data>, append: Option<Data>) -> PyResult<Data> {
    let axis = axis_of(py, axis, x.rank())?;
    let mut all = vec![];
    for part in [prepend, Some(x.clone()), append].into_iter().flatten() {
        let part = if part.rank() == 0 {
            let mut dims = x.dims().to_vec();
            dims[axis] = 1;
            let shape = Shape::new(&dims);
            run(py, || part.map(|t| t.broadcast_to(shape)))?
        } else {
            part
        };
        all.push(part);
    }
    let mut x = if all.len() == 1 { x } else { super::manipulate::concat_on_axis(py, &all, axis)? };
    for _ in 0..n {
        let size = x.dims()[axis];
        if size == 0 {
            break;
        }
        let (upper, lower) =
            run(py, || (x.map(|t| t.narrow(axis, 1, size - 1)), x.map(|t| t.narrow(axis, 0, size - 1))))?;
        let op = if x.dtype() == Real(DType::Bool) { Binary::NotEqual } else { Binary::Sub };
        x = binary(py, op, &Arg::Array(upper), &Arg::Array(lower))?;
    }
    Ok(x)
}

/// Number of each value in a vector of integers that are not negative, as int64; with ``weights`` the sum of these for
/// each value, as floats. Waits for the largest.
#[pyfunction]
#[pyo3(signature = (x, /, *, weights = None, minlength = 0))]
fn bincount(py: Python<'_>, x: Data, weights: Option<Data>, minlength: usize) -> PyResult<Data> {
    if x.rank() != 1 {
        return Err(value_error(py, format!("bincount: takes a vector, not shape {}", x.shape())));
    }
    let x = x.real(py, "bincount")?;
    let x = if x.dtype() == DType::Bool { run(py, || x.cast(DType::U8))? } else { x };
    let Some(weights) = weights else { return Ok(run_fallible(py, || x.bincount(minlength))?.into()) };
    let weights = weights.real(py, "bincount")?;
    let weights = if weights.dtype().is_float() { weights } else { run(py, || weights.cast(default_float()))? };
    Ok(run_fallible(py, || x.bincount_weighted(&weights, minlength))?.into())
}

/// ``x`` with ``values`` at indices along an axis, as ``put_along_axis`` that returns its result.
#[pyfunction]
#[pyo3(signature = (x, indices, values, /, *, axis = -1))]
fn scatter(py: Python<'_>, x: Data, indices: Data, values: Data, axis: i64) -> PyResult<Data> {
    let axis = axis_of(py, axis, x.rank())?;
    let index = index_of(py, "scatter", indices, &x)?;
    let (x, values) = (x.real(py, "scatter")?, values.real(py, "scatter")?);
    Ok(run(py, || x.scatter(axis, &index, values.cast(x.dtype())))?.into())
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register!(module; take, take_each, nonzero, searchsorted, sort, argsort, topk, unique_values, _unique_all,
        isin, diff, bincount, scatter);
    Ok(())
}
