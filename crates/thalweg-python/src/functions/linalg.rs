//! Products of vectors and matrices.

use super::register;
use crate::array::Data;
use crate::dtype::{ArrayDType, ArrayDType::Real};
use crate::error::{run, type_error, value_error};
use crate::functions::elementwise::{array_of, device_of};
use crate::promote::{Arg, common};
use pyo3::prelude::*;
use thalweg::DType;

/// Two arrays in their promoted dtype.
pub fn promoted(py: Python<'_>, a: &Arg, b: &Arg) -> PyResult<(Data, Data, ArrayDType)> {
    let dtype = common(&[a, b]);
    let device = device_of(&[a, b]);
    Ok((array_of(py, a, dtype, device)?, array_of(py, b, dtype, device)?, dtype))
}

/// `a @ b`.
///
/// # Errors
/// `ValueError` for shapes that do not multiply.
pub fn matmul_args(py: Python<'_>, a: &Arg, b: &Arg) -> PyResult<Data> {
    let (x, y, dtype) = promoted(py, a, b)?;
    if x.rank() == 0 || y.rank() == 0 {
        return Err(value_error(py, "matmul: takes arrays of one dimension or more"));
    }
    match (&x, &y) {
        (Data::Real(x), Data::Real(y)) if dtype == Real(DType::Bool) => {
            let product = run(py, || x.cast(DType::I32).matmul(&y.cast(DType::I32)).ne(0))?;
            Ok(product.into())
        }
        (Data::Real(x), Data::Real(y)) => Ok(run(py, || x.matmul(y))?.into()),
        _ => Ok(run(py, || x.complex().matmul(&y.complex()))?.into()),
    }
}

/// Matrix product; leading dimensions broadcast, vectors are rows or columns.
#[pyfunction]
#[pyo3(signature = (x1, x2, /))]
fn matmul(py: Python<'_>, x1: Data, x2: Data) -> PyResult<Data> {
    matmul_args(py, &Arg::Array(x1), &Arg::Array(x2))
}

/// Sum of products along an axis of both arrays; the first is conjugated.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, axis = -1))]
fn vecdot(py: Python<'_>, x1: Data, x2: Data, axis: i64) -> PyResult<Data> {
    let (x, y, dtype) = promoted(py, &Arg::Array(x1), &Arg::Array(x2))?;
    let least = x.rank().min(y.rank());
    if axis >= 0 || axis < -(least as i64) {
        let text = format!("vecdot: axis {axis} is not from {} to -1", -(least as i64));
        return Err(crate::error::axis_error(py, text));
    }
    let size = |d: &Data| d.dims()[(d.rank() as i64 + axis) as usize];
    if size(&x) != size(&y) {
        let text = format!("vecdot: shapes {} and {} have not one size along axis {axis}", x.shape(), y.shape());
        return Err(value_error(py, text));
    }
    match (&x, &y) {
        (Data::Real(x), Data::Real(y)) if dtype == Real(DType::Bool) => Ok(run(py, || (x & y).any(axis))?.into()),
        (Data::Real(x), Data::Real(y)) => Ok(run(py, || x.vecdot(y, axis))?.into()),
        _ => Ok(run(py, || x.complex().vecdot(&y.complex(), axis))?.into()),
    }
}

/// Sum of products over axes of both arrays: the last and first ``axes``, or a pair of lists of axes.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, axes = None))]
fn tensordot(py: Python<'_>, x1: Data, x2: Data, axes: Option<&Bound<'_, PyAny>>) -> PyResult<Data> {
    let (x, y, dtype) = promoted(py, &Arg::Array(x1), &Arg::Array(x2))?;
    let (left, right): (Vec<i64>, Vec<i64>) = match axes {
        None => ((x.rank() as i64 - 2..x.rank() as i64).collect(), vec![0, 1]),
        Some(axes) => match axes.extract::<i64>() {
            Ok(n) => ((x.rank() as i64 - n..x.rank() as i64).collect(), (0..n).collect()),
            Err(_) => axes.extract()?,
        },
    };
    let check = |list: &[i64], d: &Data| -> PyResult<Vec<usize>> {
        list.iter().map(|&a| super::reduce::axis_of(py, a, d.rank())).collect()
    };
    let (left, right) = (check(&left, &x)?, check(&right, &y)?);
    if left.len() != right.len() || left.iter().zip(&right).any(|(&a, &b)| x.dims()[a] != y.dims()[b]) {
        let text = format!("tensordot: axes {left:?} of {} against axes {right:?} of {}", x.shape(), y.shape());
        return Err(value_error(py, text));
    }
    if dtype == Real(DType::Bool) {
        return Err(type_error(py, "tensordot: takes numbers, not bool"));
    }
    run(py, || match (&x, &y) {
        (Data::Real(x), Data::Real(y)) => x.tensordot(y, (left, right)).into(),
        _ => x.complex().tensordot(&y.complex(), (left, right)).into(),
    })
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register!(module; matmul, vecdot, tensordot);
    Ok(())
}
