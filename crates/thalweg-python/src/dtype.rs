//! Dtypes as Python objects: `thalweg.float32` and so on, and every form in which a caller may name one.

use crate::error::type_error;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyString, PyType};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use thalweg::DType;

/// Dtype of an array: one of a tensor, or a complex one, which is stored as two tensors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArrayDType {
    /// Dtype of a tensor.
    Real(DType),
    /// Two f32.
    Complex64,
    /// Two f64.
    Complex128,
}

use ArrayDType::{Complex64, Complex128, Real};

impl ArrayDType {
    /// All dtypes, in the order of [`ArrayDType::index`].
    pub const ALL: [ArrayDType; 15] = [
        Real(DType::F32),
        Real(DType::F64),
        Real(DType::BF16),
        Real(DType::F16),
        Real(DType::I8),
        Real(DType::I16),
        Real(DType::I32),
        Real(DType::I64),
        Real(DType::U8),
        Real(DType::U16),
        Real(DType::U32),
        Real(DType::U64),
        Real(DType::Bool),
        Complex64,
        Complex128,
    ];

    /// Index of the dtype in [`ArrayDType::ALL`].
    fn index(self) -> usize {
        match self {
            Real(d) => d as usize,
            Complex64 => 13,
            Complex128 => 14,
        }
    }

    /// NumPy's name: `float32`.
    pub fn name(self) -> &'static str {
        match self {
            Real(DType::F32) => "float32",
            Real(DType::F64) => "float64",
            Real(DType::BF16) => "bfloat16",
            Real(DType::F16) => "float16",
            Real(DType::I8) => "int8",
            Real(DType::I16) => "int16",
            Real(DType::I32) => "int32",
            Real(DType::I64) => "int64",
            Real(DType::U8) => "uint8",
            Real(DType::U16) => "uint16",
            Real(DType::U32) => "uint32",
            Real(DType::U64) => "uint64",
            Real(DType::Bool) => "bool",
            Complex64 => "complex64",
            Complex128 => "complex128",
        }
    }

    /// The dtype with NumPy's name.
    pub fn from_name(name: &str) -> Option<ArrayDType> {
        ArrayDType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Real(d) => d.size(),
            Complex64 => 8,
            Complex128 => 16,
        }
    }

    /// Whether it is complex64 or complex128.
    pub fn is_complex(self) -> bool {
        !matches!(self, Real(_))
    }

    /// Whether it is a real float.
    pub fn is_float(self) -> bool {
        matches!(self, Real(d) if d.is_float())
    }

    /// Whether it is a signed or unsigned integer.
    pub fn is_int(self) -> bool {
        matches!(self, Real(d) if d.is_int())
    }

    /// Dtype of an element, or of each part of a complex one.
    pub fn part(self) -> DType {
        match self {
            Real(d) => d,
            Complex64 => DType::F32,
            Complex128 => DType::F64,
        }
    }

    /// The complex dtype with such parts.
    pub fn complex_of(part: DType) -> ArrayDType {
        if part == DType::F64 { Complex128 } else { Complex64 }
    }

    /// Python object of the dtype, always the same.
    pub fn object(self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        static OBJECTS: PyOnceLock<Vec<Py<PyDType>>> = PyOnceLock::new();
        let make = || ArrayDType::ALL.into_iter().map(|dtype| Py::new(py, PyDType(dtype))).collect::<PyResult<_>>();
        let objects = OBJECTS.get_or_try_init(py, make)?;
        Ok(objects[self.index()].clone_ref(py))
    }
}

/// Whether Python's `float` is float32 by default, by `set_default_dtype`.
static DEFAULT_IS_F32: AtomicBool = AtomicBool::new(false);

/// Dtype of Python's `float`, and of what a float is created from without a dtype.
pub fn default_float() -> DType {
    if DEFAULT_IS_F32.load(Relaxed) { DType::F32 } else { DType::F64 }
}

/// Sets the dtype of arrays created from Python floats or from a rule (``zeros``, ``linspace``, ``random.normal``)
/// without a dtype: float64 (the default, as NumPy's) or float32. Returns the previous one.
#[pyfunction]
pub fn set_default_dtype(py: Python<'_>, dtype: DTypeArg) -> PyResult<Py<PyDType>> {
    let before = Real(default_float()).object(py)?;
    match dtype.0 {
        Real(DType::F32) => DEFAULT_IS_F32.store(true, Relaxed),
        Real(DType::F64) => DEFAULT_IS_F32.store(false, Relaxed),
        other => {
            return Err(type_error(py, format!("set_default_dtype: takes float32 or float64, not {}", other.name())));
        }
    }
    Ok(before)
}

/// Dtype of an array: ``thalweg.float32``, ``thalweg.int64`` …
///
/// Dtypes are equal to themselves and to their name: ``x.dtype == "float32"``.
#[pyclass(name = "DType", module = "thalweg", frozen)]
pub struct PyDType(pub ArrayDType);

#[pymethods]
impl PyDType {
    /// Name of the dtype, as NumPy's.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    /// Number of bytes of an element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }

    /// Kind, as NumPy's character: b bool, i signed integer, u unsigned integer, f float, c complex.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0 {
            Real(DType::Bool) => "b",
            Real(d) if d.is_float() => "f",
            Real(d) if d.is_signed() => "i",
            Real(_) => "u",
            _ => "c",
        }
    }

    fn __repr__(&self) -> String {
        format!("thalweg.{}", self.0.name())
    }

    fn __str__(&self) -> String {
        self.__repr__()
    }

    fn __hash__(&self) -> u64 {
        self.0.index() as u64 + 0x7468_616c
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        if let Ok(other) = other.cast::<PyDType>() {
            return other.get().0 == self.0;
        }
        other.cast::<PyString>().is_ok_and(|s| s.to_str().is_ok_and(|s| s == self.0.name()))
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (&'static str,))> {
        Ok((py.import("thalweg")?.getattr("_dtype")?.unbind(), (self.0.name(),)))
    }
}

/// The dtype with a name, for `pickle`.
#[pyfunction]
#[pyo3(name = "_dtype")]
pub fn dtype_of_name(py: Python<'_>, name: &str) -> PyResult<Py<PyDType>> {
    let dtype = ArrayDType::from_name(name).ok_or_else(|| type_error(py, format!("{name} is not a dtype")))?;
    dtype.object(py)
}

/// A dtype as an argument: a [`PyDType`], its name, Python's bool, int, float or complex, or NumPy's dtype or type.
#[derive(Clone, Copy)]
pub struct DTypeArg(pub ArrayDType);

impl<'a, 'py> FromPyObject<'a, 'py> for DTypeArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<DTypeArg> {
        if let Ok(dtype) = object.cast::<PyDType>() {
            return Ok(DTypeArg(dtype.get().0));
        }
        let py = object.py();
        if let Ok(name) = object.cast::<PyString>() {
            let name = name.to_str()?;
            let found = ArrayDType::from_name(name);
            return found.map(DTypeArg).ok_or_else(|| type_error(py, format!("{name:?} is not a dtype")));
        }
        if let Ok(class) = object.cast::<PyType>() {
            if class.is(py.get_type::<PyBool>()) {
                return Ok(DTypeArg(Real(DType::Bool)));
            } else if class.is(py.get_type::<PyInt>()) {
                return Ok(DTypeArg(Real(DType::I64)));
            } else if class.is(py.get_type::<PyFloat>()) {
                return Ok(DTypeArg(Real(default_float())));
            } else if class.is(py.get_type::<PyComplex>()) {
                return Ok(DTypeArg(ArrayDType::complex_of(default_float())));
            }
        }
        // NumPy's dtypes have a name, its scalar types are called like their dtype.
        let name = object.getattr("name").or_else(|_| object.getattr("__name__"));
        let name: Option<String> = name.ok().and_then(|n| n.extract().ok());
        let found = name.and_then(|n| ArrayDType::from_name(n.trim_end_matches('_')));
        found.map(DTypeArg).ok_or_else(|| {
            let text = object.repr().map_or("the argument".into(), |r| r.to_string());
            type_error(py, format!("{text} is not a dtype"))
        })
    }
}
