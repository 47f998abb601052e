//! Creation of arrays, from Python data and from rules.

use super::register;
use crate::dlpack::{self, Copy};
use crate::dtype::{ArrayDType, ArrayDType::Real, DTypeArg, default_float};
use crate::error::{run, run_fallible, type_error, value_error};
use crate::functions::arguments::{ShapeArg, device_of_name, device_or_default};
use crate::functions::convert::{list_of, of_foreign, of_nested_on};
use crate::functions::elementwise::{array_of, fitted};
use crate::handle::{Array, Data};
use crate::promote::{Arg, integer};
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyFloat, PyTuple};
use thalweg::{Complex, DType, Device, Indexing, Scalar, Shape, Tensor};

/// An array of Python scalars, nested lists, or an array of another library.
///
/// Parameters
/// ----------
/// obj : scalar, nested lists or tuples, Array, or an object with the buffer protocol or DLPack (NumPy, PyTorch)
/// dtype : dtype of the result; by default that of the data, for Python scalars bool, int64, float64 or complex128
/// device : "cpu", "cuda", "cuda:1"; by default that of the data, or the fastest
/// copy : True copies, False raises ValueError where data has to be copied, None copies where needed: an Array of that
///     dtype and device is returned itself. Memory of another library is copied unless ``copy=False``: its owner may
///     change it later. See ``from_dlpack``, which shares.
#[pyfunction]
#[pyo3(signature = (obj, /, *, dtype = None, device = None, copy = None))]
fn asarray(
    obj: &Bound<'_, PyAny>,
    dtype: Option<DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Py<PyAny>> {
    let py = obj.py();
    let to = dtype.map(|d| d.0);
    let device = device.filter(|d| !d.is_none()).map(|d| device_of_name(py, d)).transpose()?;
    let refuse = || value_error(py, "asarray: this object has to be copied, and copy=False forbids it");
    let data = if let Ok(array) = obj.cast::<Array>() {
        array.get().data()
    } else if let Some(data) = match copy {
        Some(false) if obj.hasattr("__dlpack__")? => Some(dlpack::import_object(obj, Copy::Never)?),
        _ => of_foreign(obj)?,
    } {
        if copy == Some(false) && !obj.hasattr("__dlpack__")? {
            return Err(refuse());
        }
        data
    } else {
        if copy == Some(false) {
            return Err(refuse());
        }
        return object(py, of_nested_on(obj, to, device)?);
    };
    let stays = device.is_none_or(|device| device == data.device());
    let moved = match device {
        Some(device) if device != data.device() => run_fallible(py, || {
            Ok(match data {
                Data::Real(x) => Data::Real(x.to_device(device)?),
                Data::Complex(z) => Data::Complex(z.to_device(device)?),
            })
        })?,
        _ => data,
    };
    match to {
        Some(to) if to != moved.dtype() => {
            if copy == Some(false) {
                return Err(refuse());
            }
            object(py, run(py, || moved.cast(to))?)
        }
        // An array that is as wanted is returned itself.
        _ if stays && copy != Some(true) && obj.is_instance_of::<Array>() => Ok(obj.clone().unbind()),
        _ => object(py, moved),
    }
}

/// A new array.
fn object(py: Python<'_>, data: Data) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, Array::new(data))?.into_any())
}

/// An array over the memory of another library's array, by DLPack, without a copy.
///
/// The owner must not change the memory while the array is used. Complex arrays are copied.
#[pyfunction]
#[pyo3(signature = (x, /, *, device = None, copy = None))]
fn from_dlpack(x: &Bound<'_, PyAny>, device: Option<&Bound<'_, PyAny>>, copy: Option<bool>) -> PyResult<Data> {
    let py = x.py();
    let wanted = device.filter(|d| !d.is_none()).map(|d| device_of_name(py, d)).transpose()?;
    if let Ok(array) = x.cast::<Array>() {
        let data = array.get().data();
        if copy != Some(true) && wanted.is_none_or(|device| device == data.device()) {
            return Ok(data);
        }
    }
    let data = dlpack::import_object(x, Copy::of(copy))?;
    let Some(device) = wanted else { return Ok(data) };
    if device != data.device() && copy == Some(false) {
        return Err(value_error(py, "from_dlpack: another device takes a copy, and copy=False forbids it"));
    }
    run_fallible(py, || {
        Ok(match data {
            Data::Real(x) => x.to_device(device)?.into(),
            Data::Complex(z) => z.to_device(device)?.into(),
        })
    })
}

/// Constant array.
fn constant(py: Python<'_>, shape: &[usize], value: &Arg, dtype: ArrayDType, device: Device) -> PyResult<Data> {
    let shape = Shape::new(shape);
    let one = array_of(py, value, dtype, device)?;
    match (&one, value.scalar()) {
        (Data::Real(_), Some(scalar)) => {
            let scalar = fitted(scalar, dtype.part());
            Ok(run(py, || Tensor::full_with(shape, scalar, (dtype.part(), device)))?.into())
        }
        _ => run(py, || one.map(|x| x.broadcast_to(shape))),
    }
}

fn dtype_or_float(dtype: Option<DTypeArg>) -> ArrayDType {
    dtype.map_or(Real(default_float()), |d| d.0)
}

/// Device by name, or that of an array.
fn device_like(py: Python<'_>, name: Option<&Bound<'_, PyAny>>, x: &Data) -> PyResult<Device> {
    match name.filter(|d| !d.is_none()) {
        Some(name) => device_of_name(py, name),
        None => Ok(x.device()),
    }
}

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident $(#[$like_doc:meta])* $like:ident $value:expr;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (shape, *, dtype = None, device = None))]
            fn $name(
                py: Python<'_>,
                shape: ShapeArg,
                dtype: Option<DTypeArg>,
                device: Option<&Bound<'_, PyAny>>,
            ) -> PyResult<Data> {
                let value = Arg::Int(Scalar::Int($value));
                constant(py, &shape.0, &value, dtype_or_float(dtype), device_or_default(py, device)?)
            }

            $(#[$like_doc])*
            #[pyfunction]
            #[pyo3(signature = (x, /, *, dtype = None, device = None))]
            fn $like(
                py: Python<'_>,
                x: Data,
                dtype: Option<DTypeArg>,
                device: Option<&Bound<'_, PyAny>>,
            ) -> PyResult<Data> {
                let device = device_like(py, device, &x)?;
                let dtype = dtype.map_or(x.dtype(), |d| d.0);
                constant(py, x.dims(), &Arg::Int(Scalar::Int($value)), dtype, device)
            }
        )*
    };
}

constants! {
    /// Zeros of a shape, by default as float64.
    zeros
    /// Zeros of the shape, dtype and device of ``x``.
    zeros_like 0;
    /// Ones of a shape, by default as float64.
    ones
    /// Ones of the shape, dtype and device of ``x``.
    ones_like 1;
    /// Zeros of a shape: arrays are immutable values, so none is uninitialised.
    empty
    /// Zeros of the shape, dtype and device of ``x``.
    empty_like 0;
}

/// ``fill_value`` in every element, by default in the dtype of the value: bool, int64, float64 or complex128.
#[pyfunction]
#[pyo3(signature = (shape, fill_value, *, dtype = None, device = None))]
fn full(
    py: Python<'_>,
    shape: ShapeArg,
    fill_value: Arg,
    dtype: Option<DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<Data> {
    let dtype = dtype.map_or(fill_value.own_dtype(), |d| d.0);
    constant(py, &shape.0, &fill_value, dtype, device_or_default(py, device)?)
}

/// ``fill_value`` in every element, in the shape, dtype and device of ``x``.
#[pyfunction]
#[pyo3(signature = (x, /, fill_value, *, dtype = None, device = None))]
fn full_like(
    py: Python<'_>,
    x: Data,
    fill_value: Arg,
    dtype: Option<DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<Data> {
    let device = device_like(py, device, &x)?;
    let dtype = dtype.map_or(x.dtype(), |d| d.0);
    constant(py, x.dims(), &fill_value, dtype, device)
}

/// `start + i·step` for `count` numbers, computed in the dtype: f64 or an integer. A start of 0 and a step of 1 are no
/// operations, so that masks that compare positions are seen as such.
pub fn progression(count: usize, start: Scalar, step: Scalar, options: (DType, Device)) -> Tensor {
    let number = |s: Scalar| if options.0.is_float() { Scalar::Float(s.to_f64()) } else { Scalar::Int(s.to_i64()) };
    let (start, step, mut x) = (number(start), number(step), Tensor::arange_with(count, options));
    if step.to_f64() != 1.0 {
        x *= step;
    }
    if start.to_f64() != 0.0 {
        x += start;
    }
    x
}

/// Numbers from ``start`` on in steps of ``step``, below ``stop``; with one argument from 0 on.
///
/// By default int64 if all arguments are ints, else float64.
#[pyfunction]
#[pyo3(signature = (start, /, stop = None, step = None, *, dtype = None, device = None))]
fn arange(
    py: Python<'_>,
    start: Arg,
    stop: Option<Arg>,
    step: Option<Arg>,
    dtype: Option<DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<Data> {
    let device = device_or_default(py, device)?;
    let number = |arg: &Arg| -> PyResult<Scalar> {
        match arg {
            Arg::Array(Data::Real(x)) => {
                let list = list_of(py, &Data::Real(x.clone()), true)?;
                match list.cast::<PyFloat>() {
                    Ok(v) => Ok(Scalar::Float(v.value())),
                    Err(_) => integer(&list),
                }
            }
            _ => arg.scalar().ok_or_else(|| type_error(py, "arange: takes real numbers")),
        }
    };
    let (start, stop) = match stop {
        Some(stop) => (number(&start)?, number(&stop)?),
        None => (Scalar::Int(0), number(&start)?),
    };
    let step = step.as_ref().map_or(Ok(Scalar::Int(1)), number)?;
    let float = [start, stop, step].iter().any(|s| matches!(s, Scalar::Float(_)));
    let dtype = dtype.map_or(if float { Real(default_float()) } else { Real(DType::I64) }, |d| d.0);
    if step.to_f64() == 0.0 {
        return Err(value_error(py, "arange: the step is 0"));
    }
    let count = if float {
        ((stop.to_f64() - start.to_f64()) / step.to_f64()).ceil()
    } else {
        let (start, stop, step) = (start.to_i128(), stop.to_i128(), step.to_i128());
        (stop - start + step - step.signum()).div_euclid(step).max(0) as f64
    };
    if !count.is_finite() || count > 1e15 {
        return Err(value_error(py, format!("arange: there would be {count} elements")));
    }
    let count = count.max(0.0) as usize;
    let part = dtype.part();
    let data: Data = run(py, || {
        let options =
            (if part.is_float() && part.size() < 8 || part == DType::Bool { DType::F64 } else { part }, device);
        if options.0.is_int() && float {
            // As NumPy: start and step are truncated.
            let (start, step) = (start.to_i64(), (start.to_f64() + step.to_f64()) as i64 - start.to_i64());
            return Data::Real(progression(count, Scalar::Int(start), Scalar::Int(step), options));
        }
        let dtype = if options.0.is_int() { DType::I64 } else { DType::F64 };
        Data::Real(progression(count, start, step, (dtype, device)).cast(part))
    })?;
    if dtype.is_complex() { run(py, || data.cast(dtype)) } else { Ok(data) }
}

/// ``num`` evenly spaced numbers from ``start`` to ``stop``, which is the last one if ``endpoint``.
#[pyfunction]
#[pyo3(signature = (start, stop, /, num, *, dtype = None, device = None, endpoint = true))]
fn linspace(
    py: Python<'_>,
    start: Arg,
    stop: Arg,
    num: i64,
    dtype: Option<DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
    endpoint: bool,
) -> PyResult<Data> {
    let device = device_or_default(py, device)?;
    let count = usize::try_from(num).map_err(|_| value_error(py, format!("linspace: {num} numbers")))?;
    let number = |arg: &Arg| -> PyResult<(f64, f64)> {
        Ok(match arg {
            Arg::Complex(re, im) => (*re, *im),
            Arg::Array(data) => {
                let z = list_of(py, data, true)?;
                match z.cast::<PyComplex>() {
                    Ok(z) => (z.getattr("real")?.extract()?, z.getattr("imag")?.extract()?),
                    Err(_) => (z.extract()?, 0.0),
                }
            }
            _ => (arg.scalar().map_or(0.0, Scalar::to_f64), 0.0),
        })
    };
    let (a, b) = (number(&start)?, number(&stop)?);
    let default = match default_float() {
        part if start.own_dtype().is_complex() || stop.own_dtype().is_complex() => ArrayDType::complex_of(part),
        part => Real(part),
    };
    let dtype = dtype.map_or(default, |d| d.0);
    let line = |a: f64, b: f64| {
        let options = (DType::F64, device);
        if endpoint {
            return Tensor::linspace_with(a, b, count, options);
        }
        Tensor::linspace_with(a, b, count + 1, options).narrow(0, 0, count)
    };
    run(py, || match dtype {
        Real(part) if part.is_int() => line(a.0, b.0).floor().cast(part).into(),
        Real(part) => line(a.0, b.0).cast(part).into(),
        _ => Complex { re: line(a.0, b.0), im: line(a.1, b.1) }.cast(dtype.part()).into(),
    })
}

/// Ones on diagonal ``k``, zeros elsewhere; ``n_cols`` is ``n_rows`` by default.
#[pyfunction]
#[pyo3(signature = (n_rows, n_cols = None, /, *, k = 0, dtype = None, device = None))]
fn eye(
    py: Python<'_>,
    n_rows: usize,
    n_cols: Option<usize>,
    k: i128,
    dtype: Option<DTypeArg>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<Data> {
    let k = diagonal_of(k);
    let device = device_or_default(py, device)?;
    let dtype = dtype_or_float(dtype);
    let columns = n_cols.unwrap_or(n_rows);
    run(py, || {
        let row = Tensor::arange_with(n_rows, (DType::I64, device)).unsqueeze(1);
        let column = Tensor::arange_with(columns, (DType::I64, device));
        Data::Real((row + k).eq(column)).cast(dtype)
    })
}

/// Coordinate arrays of vectors: one array for each, of the rank of their number.
///
/// ``indexing="xy"`` exchanges the first two dimensions, ``"ij"`` does not.
#[pyfunction]
#[pyo3(signature = (*arrays, indexing = "xy"))]
fn meshgrid<'py>(py: Python<'py>, arrays: Vec<Data>, indexing: &str) -> PyResult<Bound<'py, PyTuple>> {
    let by = match indexing {
        "xy" => Indexing::Cartesian,
        "ij" => Indexing::Matrix,
        other => return Err(value_error(py, format!("meshgrid: indexing is \"xy\" or \"ij\", not {other:?}"))),
    };
    let all: Vec<Data> = run(py, || {
        let vectors: Vec<Data> =
            arrays.iter().map(|d| if d.rank() == 0 { d.map(|x| x.reshape([1])) } else { d.clone() }).collect();
        let parts = |f: fn(&Data) -> Tensor| Tensor::meshgrid(&vectors.iter().map(f).collect::<Vec<_>>(), by);
        let re = parts(|d| match d {
            Data::Real(x) => x.clone(),
            Data::Complex(z) => z.re.clone(),
        });
        if vectors.iter().all(|d| !d.dtype().is_complex()) {
            return re.into_iter().map(Data::Real).collect();
        }
        let im = parts(|d| match d {
            Data::Real(x) => x.zeros_like(),
            Data::Complex(z) => z.im.clone(),
        });
        let all = re.into_iter().zip(im).zip(&vectors);
        all.map(|((re, im), d)| if d.dtype().is_complex() { Complex { re, im }.into() } else { re.into() }).collect()
    })?;
    PyTuple::new(py, all)
}

/// Number of a diagonal; beyond all arrays it is clamped.
fn diagonal_of(k: i128) -> i64 {
    const BEYOND: i128 = 1 << 48;
    k.clamp(-BEYOND, BEYOND) as i64
}

fn triangle(py: Python<'_>, x: &Data, k: i64, upper: bool) -> PyResult<Data> {
    if x.rank() < 2 {
        return Err(value_error(py, format!("takes two dimensions or more, not shape {}", x.shape())));
    }
    run(py, || x.map(|t| if upper { t.triu(k) } else { t.tril(k) }))
}

/// Elements on and below diagonal ``k`` of matrices, zeros above.
#[pyfunction]
#[pyo3(signature = (x, /, *, k = 0))]
fn tril(py: Python<'_>, x: Data, k: i128) -> PyResult<Data> {
    triangle(py, &x, diagonal_of(k), false)
}

/// Elements on and above diagonal ``k`` of matrices, zeros below.
#[pyfunction]
#[pyo3(signature = (x, /, *, k = 0))]
fn triu(py: Python<'_>, x: Data, k: i128) -> PyResult<Data> {
    triangle(py, &x, diagonal_of(k), true)
}

/// Array of bytes, for `pickle`.
#[pyfunction]
fn _from_bytes(py: Python<'_>, bytes: &[u8], shape: ShapeArg, dtype: &str) -> PyResult<Data> {
    let dtype = ArrayDType::from_name(dtype).ok_or_else(|| type_error(py, format!("{dtype} is not a dtype")))?;
    let shape = Shape::new(&shape.0);
    if shape.numel() * dtype.size() != bytes.len() {
        return Err(value_error(py, format!("{} bytes for shape {shape} of {}", bytes.len(), dtype.name())));
    }
    dlpack::from_bytes(py, bytes, shape, dtype, run_fallible(py, Device::try_default)?)
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register!(module; asarray, from_dlpack, zeros, zeros_like, ones, ones_like, empty, empty_like, full, full_like,
        arange, linspace, eye, meshgrid, tril, triu, _from_bytes);
    Ok(())
}
