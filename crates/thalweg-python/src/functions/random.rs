//! Random numbers: `thalweg.random`. Each thread has its own generator; a value repeats from seed and position.

use super::register;
use crate::dtype::{ArrayDType::Real, DTypeArg, default_float};
use crate::error::{run, type_error, value_error};
use crate::functions::arguments::{ShapeArg, device_or_default};
use crate::functions::reduce::axis_of;
use crate::handle::Data;
use pyo3::prelude::*;
use thalweg::{DType, Device, Shape, Tensor};

/// Seeds the calling thread's generator: the same program then draws the same numbers, on every device.
#[pyfunction]
#[pyo3(signature = (seed, /))]
fn seed(seed: u64) {
    thalweg::manual_seed(seed);
}

fn float_options(
    py: Python<'_>,
    dtype: Option<DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<(DType, Device)> {
    let dtype = dtype.map_or(Real(default_float()), |d| d.0);
    if !dtype.is_float() {
        return Err(type_error(py, format!("takes a float dtype, not {}", dtype.name())));
    }
    Ok((dtype.part(), device_or_default(py, device)?))
}

/// Uniform numbers from ``low`` to below ``high``.
#[pyfunction]
#[pyo3(signature = (shape = ShapeArg(vec![]), *, low = 0.0, high = 1.0, dtype = None, device = None))]
fn uniform(
    py: Python<'_>,
    shape: ShapeArg,
    low: f64,
    high: f64,
    dtype: Option<DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<Data> {
    let options = float_options(py, dtype, device)?;
    let shape = Shape::new(&shape.0);
    Ok(run(py, || {
        let x = Tensor::rand_with(shape, options);
        if (low, high) == (0.0, 1.0) { x } else { x * (high - low) + low }
    })?
    .into())
}

/// Normally distributed numbers.
#[pyfunction]
#[pyo3(signature = (shape = ShapeArg(vec![]), *, mean = 0.0, std = 1.0, dtype = None, device = None))]
fn normal(
    py: Python<'_>,
    shape: ShapeArg,
    mean: f64,
    std: f64,
    dtype: Option<DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<Data> {
    let options = float_options(py, dtype, device)?;
    let shape = Shape::new(&shape.0);
    Ok(run(py, || {
        let x = Tensor::randn_with(shape, options);
        if (mean, std) == (0.0, 1.0) { x } else { x * std + mean }
    })?
    .into())
}

/// Integers from ``low`` to below ``high``; with one argument from 0. By default as int64.
#[pyfunction]
#[pyo3(signature = (low, high = None, shape = ShapeArg(vec![]), *, dtype = None, device = None))]
fn integers(
    py: Python<'_>,
    low: i64,
    high: Option<i64>,
    shape: ShapeArg,
    dtype: Option<DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<Data> {
    let (low, high) = high.map_or((0, low), |high| (low, high));
    let dtype = dtype.map_or(Real(DType::I64), |d| d.0);
    if !dtype.is_int() {
        return Err(type_error(py, format!("integers: takes an integer dtype, not {}", dtype.name())));
    }
    if low >= high {
        return Err(value_error(py, format!("integers: there is none from {low} to below {high}")));
    }
    let options = (dtype.part(), device_or_default(py, device)?);
    let shape = Shape::new(&shape.0);
    Ok(run(py, || Tensor::randint_with(low..high, shape, options))?.into())
}

/// The numbers from 0 to below ``n`` in random order, as int64; or an array with the slices of an axis in random order.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = 0))]
fn permutation(py: Python<'_>, x: &Bound<'_, PyAny>, axis: i64) -> PyResult<Data> {
    if let Ok(n) = x.extract::<usize>() {
        return Ok(run(py, || Tensor::randperm(n))?.into());
    }
    let data: Data = x.extract()?;
    let axis = axis_of(py, axis, data.rank())?;
    let order = run(py, || Tensor::randperm(data.dims()[axis]))?;
    run(py, || data.map(|t| t.index_select(axis, &order)))
}

/// True with probability ``p``, a number or an array of probabilities.
#[pyfunction]
#[pyo3(signature = (p, shape = None, *, device = None))]
fn bernoulli(
    py: Python<'_>,
    p: crate::promote::Arg,
    shape: Option<ShapeArg>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<Data> {
    let device = device_or_default(py, device)?;
    let p = crate::functions::elementwise::array_of(py, &p, p.own_dtype(), device)?.real(py, "bernoulli")?;
    let shape = shape.map_or(*p.shape(), |s| Shape::new(&s.0));
    Ok(run(py, || Tensor::rand_with(shape, (p.dtype(), p.device())).lt(&p))?.into())
}

/// Indices drawn with probabilities proportional to the weights in the last axis, as int64.
#[pyfunction]
#[pyo3(signature = (weights, n, /, *, replacement = true))]
fn multinomial(py: Python<'_>, weights: Data, n: usize, replacement: bool) -> PyResult<Data> {
    let weights = weights.real(py, "multinomial")?;
    Ok(run(py, || weights.multinomial(n, replacement))?.into())
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let random = PyModule::new(module.py(), "_random")?;
    let m = &random;
    register!(m; seed, uniform, normal, integers, permutation, bernoulli, multinomial);
    module.add("_random", random)
}
