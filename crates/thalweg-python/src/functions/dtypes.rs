//! Functions of dtypes.

use super::register;
use crate::dtype::{ArrayDType, ArrayDType::Real, DTypeArg, PyDType};
use crate::error::{type_error, value_error};
use crate::handle::Array;
use crate::promote::{Arg, common, promote};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use thalweg::DType;

/// Limits of a float dtype; for a complex one those of its parts.
#[pyclass(name = "finfo_object", module = "thalweg", frozen)]
pub struct FloatLimits(ArrayDType);

#[pymethods]
impl FloatLimits {
    /// Number of bits of an element.
    #[getter]
    fn bits(&self) -> u32 {
        self.0.part().float_info().bits
    }
    /// Difference between 1 and the next larger number.
    #[getter]
    fn eps(&self) -> f64 {
        self.0.part().float_info().epsilon
    }
    /// Largest finite number.
    #[getter]
    fn max(&self) -> f64 {
        self.0.part().float_info().max
    }
    /// Smallest finite number.
    #[getter]
    fn min(&self) -> f64 {
        -self.0.part().float_info().max
    }
    /// Smallest positive number of full precision.
    #[getter]
    fn smallest_normal(&self) -> f64 {
        self.0.part().float_info().smallest_normal
    }
    /// Alias of ``smallest_normal``, NumPy's name.
    #[getter]
    fn tiny(&self) -> f64 {
        self.smallest_normal()
    }
    /// The dtype.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        Real(self.0.part()).object(py)
    }
    fn __repr__(&self) -> String {
        let (name, eps, max) = (Real(self.0.part()).name(), self.eps(), self.max());
        format!("finfo(dtype={name}, eps={eps:e}, max={max:e}, smallest_normal={:e})", self.smallest_normal())
    }
}

/// Limits of an integer dtype.
#[pyclass(name = "iinfo_object", module = "thalweg", frozen)]
pub struct IntLimits(DType);

#[pymethods]
impl IntLimits {
    /// Number of bits of an element.
    #[getter]
    fn bits(&self) -> usize {
        self.0.size() * 8
    }
    /// Largest number.
    #[getter]
    fn max(&self) -> i128 {
        self.0.int_range().1
    }
    /// Smallest number.
    #[getter]
    fn min(&self) -> i128 {
        self.0.int_range().0
    }
    /// The dtype.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        Real(self.0).object(py)
    }
    fn __repr__(&self) -> String {
        format!("iinfo(dtype={}, min={}, max={})", Real(self.0).name(), self.min(), self.max())
    }
}

/// A dtype, or the one of an array.
fn dtype_of(object: &Bound<'_, PyAny>) -> PyResult<ArrayDType> {
    match object.cast::<Array>() {
        Ok(array) => Ok(array.get().with(|d| d.dtype())),
        Err(_) => Ok(object.extract::<DTypeArg>()?.0),
    }
}

/// Limits of a float dtype (or of an array's): bits, eps, max, min, smallest_normal, dtype.
#[pyfunction]
#[pyo3(signature = (r#type, /))]
fn finfo(r#type: &Bound<'_, PyAny>) -> PyResult<FloatLimits> {
    let dtype = dtype_of(r#type)?;
    if !dtype.is_float() && !dtype.is_complex() {
        return Err(type_error(r#type.py(), format!("finfo: takes a float dtype, not {}", dtype.name())));
    }
    Ok(FloatLimits(dtype))
}

/// Limits of an integer dtype (or of an array's): bits, max, min, dtype.
#[pyfunction]
#[pyo3(signature = (r#type, /))]
fn iinfo(r#type: &Bound<'_, PyAny>) -> PyResult<IntLimits> {
    let dtype = dtype_of(r#type)?;
    if !dtype.is_int() {
        return Err(type_error(r#type.py(), format!("iinfo: takes an integer dtype, not {}", dtype.name())));
    }
    Ok(IntLimits(dtype.part()))
}

/// Whether a dtype is of a kind: a dtype, "bool", "signed integer", "unsigned integer", "integral", "real floating",
/// "complex floating", "numeric", or a tuple of these, any of which may hold.
#[pyfunction]
fn isdtype(dtype: DTypeArg, kind: &Bound<'_, PyAny>) -> PyResult<bool> {
    let own = dtype.0;
    if let Ok(kinds) = kind.cast::<PyTuple>() {
        for kind in kinds.iter() {
            if isdtype(dtype, &kind)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let Ok(name) = kind.cast::<PyString>() else { return Ok(kind.extract::<DTypeArg>()?.0 == own) };
    let signed = own.is_int() && own.part().is_signed();
    Ok(match name.to_str()? {
        "bool" => own == Real(DType::Bool),
        "signed integer" => signed,
        "unsigned integer" => own.is_int() && !signed,
        "integral" => own.is_int(),
        "real floating" => own.is_float(),
        "complex floating" => own.is_complex(),
        "numeric" => own != Real(DType::Bool),
        other => {
            let Some(dtype) = ArrayDType::from_name(other) else {
                return Err(value_error(kind.py(), format!("isdtype: there is no kind {other:?}")));
            };
            dtype == own
        }
    })
}

/// Dtype of the result of an operation on arrays, dtypes and Python scalars, which are weak.
#[pyfunction]
#[pyo3(signature = (*arrays_and_dtypes))]
fn result_type(py: Python<'_>, arrays_and_dtypes: Vec<Bound<'_, PyAny>>) -> PyResult<Py<PyDType>> {
    let (mut dtype, mut scalars) = (None, vec![]);
    for object in &arrays_and_dtypes {
        match Arg::of(object)? {
            Some(Arg::Array(data)) => dtype = Some(dtype.map_or(data.dtype(), |d| promote(d, data.dtype()))),
            Some(scalar) => scalars.push(scalar),
            None => {
                let own = object.extract::<DTypeArg>()?.0;
                dtype = Some(dtype.map_or(own, |d| promote(d, own)));
            }
        }
    }
    let all: Vec<&Arg> = scalars.iter().collect();
    match dtype {
        _ if arrays_and_dtypes.is_empty() => {
            Err(value_error(py, "result_type: at least one array or dtype is required"))
        }
        None => common(&all).object(py),
        Some(dtype) => scalars.iter().fold(dtype, |dtype, scalar| scalar.weak(dtype)).object(py),
    }
}

/// Whether a dtype (or an array's) converts to another without loss, by the rules of promotion.
#[pyfunction]
#[pyo3(signature = (from_, to, /))]
fn can_cast(from_: &Bound<'_, PyAny>, to: DTypeArg) -> PyResult<bool> {
    Ok(promote(dtype_of(from_)?, to.0) == to.0)
}

/// Kind of default for Python scalars.
#[pyfunction]
fn _default_dtype(py: Python<'_>, kind: &str) -> PyResult<Py<PyDType>> {
    let part = crate::dtype::default_float();
    match kind {
        "real floating" => Real(part),
        "complex floating" => ArrayDType::complex_of(part),
        _ => Real(DType::I64),
    }
    .object(py)
}

/// Adds the functions of this module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register!(module; finfo, iinfo, isdtype, result_type, can_cast, _default_dtype);
    module.add_class::<FloatLimits>()?;
    module.add_class::<IntLimits>()?;
    Ok(())
}
