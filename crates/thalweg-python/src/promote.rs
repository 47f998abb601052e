//! Promotion of dtypes: the standard's table, and NumPy's where the standard leaves it open.
//!
//! Python scalars are weak: they take the dtype of the array, or the default dtype of their kind where the array's kind
//! is below theirs (an integer array and a Python float give the default float).

use crate::dtype::{ArrayDType, ArrayDType::Real, default_float};
use crate::error::{overflow_error, type_error};
use crate::handle::{Array, Data};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyComplexMethods, PyFloat, PyInt};
use thalweg::{DType, Scalar};

/// Dtype of the result of an operation on two dtypes.
pub fn promote(a: ArrayDType, b: ArrayDType) -> ArrayDType {
    if a == b {
        return a;
    }
    if a.is_complex() || b.is_complex() {
        // A complex dtype with parts of the promoted real dtype: complex64 and float64 or int64 give complex128.
        let part = match (a, b) {
            (Real(r), c) | (c, Real(r)) => real(r, c.part()),
            _ => DType::F64,
        };
        return ArrayDType::complex_of(part);
    }
    Real(real(a.part(), b.part()))
}

fn real(a: DType, b: DType) -> DType {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    if a == b || b == Bool {
        return a;
    }
    if a == Bool {
        return b;
    }
    match (a.is_float(), b.is_float()) {
        (true, true) => match (a, b) {
            (F64, _) | (_, F64) => F64,
            // bfloat16 and float16: neither holds the other.
            _ => F32,
        },
        (true, false) => with_integer(a, b),
        (false, true) => with_integer(b, a),
        (false, false) => {
            let (small, large) = if a.size() <= b.size() { (a, b) } else { (b, a) };
            if a.is_signed() == b.is_signed() || (large.is_signed() && small.size() < large.size()) {
                return large;
            }
            // The smallest signed dtype that holds both; NumPy's float64 for uint64 and a signed one.
            match large {
                I8 | U8 => I16,
                I16 | U16 => I32,
                I32 | U32 => I64,
                I64 | U64 => F64,
                F32 | F64 | F16 | BF16 | Bool => unreachable!("both are integers"),
            }
        }
    }
}

/// Dtype of a float and an integer dtype, as NumPy's: the float dtype that holds both. bfloat16 stays, as in PyTorch.
fn with_integer(float: DType, int: DType) -> DType {
    match (float, int.size()) {
        (DType::BF16 | DType::F64, _) | (DType::F16 | DType::F32, 1) | (DType::F32, 2) => float,
        (DType::F16, 2) => DType::F32,
        _ => DType::F64,
    }
}

/// Argument of a function: an array, or a weak Python scalar.
#[derive(Clone)]
pub enum Arg {
    /// An array.
    Array(Data),
    /// Python's bool.
    Bool(bool),
    /// Python's int within i64 or u64.
    Int(Scalar),
    /// Python's float.
    Float(f64),
    /// Python's complex.
    Complex(f64, f64),
}

impl Arg {
    /// Dtype of the array, if it is one.
    pub fn array_dtype(&self) -> Option<ArrayDType> {
        match self {
            Arg::Array(data) => Some(data.dtype()),
            _ => None,
        }
    }

    /// Dtype of an operation on this weak scalar and an array of dtype `other`.
    pub fn weak(&self, other: ArrayDType) -> ArrayDType {
        match self {
            Arg::Array(data) => promote(data.dtype(), other),
            Arg::Bool(_) => other,
            Arg::Int(_) if other == Real(DType::Bool) => Real(DType::I64),
            Arg::Int(_) => other,
            Arg::Float(_) if other.is_float() || other.is_complex() => other,
            Arg::Float(_) => Real(default_float()),
            Arg::Complex(..) if other.is_complex() => other,
            Arg::Complex(..) if other == Real(DType::F64) => ArrayDType::Complex128,
            Arg::Complex(..) if other.is_float() => ArrayDType::Complex64,
            Arg::Complex(..) => ArrayDType::complex_of(default_float()),
        }
    }

    /// Dtype of the scalar alone, or of the array.
    pub fn own_dtype(&self) -> ArrayDType {
        match self {
            Arg::Array(data) => data.dtype(),
            Arg::Bool(_) => Real(DType::Bool),
            Arg::Int(Scalar::Unsigned(_)) => Real(DType::U64),
            Arg::Int(_) => Real(DType::I64),
            Arg::Float(_) => Real(default_float()),
            Arg::Complex(..) => ArrayDType::complex_of(default_float()),
        }
    }

    /// The scalar, if it is a real one.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Arg::Bool(v) => Some(Scalar::Bool(*v)),
            Arg::Int(v) => Some(*v),
            Arg::Float(v) => Some(Scalar::Float(*v)),
            _ => None,
        }
    }

    /// Checks that a Python int fits a dtype, as NumPy does.
    ///
    /// # Errors
    /// `OverflowError`.
    pub fn check_fits(&self, py: Python<'_>, dtype: ArrayDType) -> PyResult<()> {
        match self {
            Arg::Int(v) if dtype.is_int() && !v.fits(dtype.part()) => {
                Err(overflow_error(py, format!("Python integer {} is out of bounds for {}", v.to_i128(), dtype.name())))
            }
            _ => Ok(()),
        }
    }
}

/// A Python int as a scalar.
///
/// # Errors
/// `OverflowError` beyond int64 and uint64.
pub fn integer(object: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if let Ok(v) = object.extract::<i64>() {
        return Ok(Scalar::Int(v));
    }
    let beyond = || overflow_error(object.py(), format!("Python integer {object} is beyond int64 and uint64"));
    object.extract::<u64>().map(Scalar::from).map_err(|_| beyond())
}

impl Arg {
    /// The argument that a Python object is; `None` if it is neither an array nor a Python scalar.
    ///
    /// # Errors
    /// `OverflowError` for an int beyond int64 and uint64.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Arg>> {
        Ok(Some(if let Ok(array) = object.cast::<Array>() {
            Arg::Array(array.get().data())
        } else if let Ok(v) = object.cast::<PyFloat>() {
            Arg::Float(v.value())
        } else if let Ok(v) = object.cast::<PyBool>() {
            Arg::Bool(v.is_true())
        } else if object.cast::<PyInt>().is_ok() {
            Arg::Int(integer(object)?)
        } else if let Ok(v) = object.cast::<PyComplex>() {
            Arg::Complex(v.real(), v.imag())
        } else {
            return Ok(None);
        }))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Arg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Arg> {
        let refused = || {
            let kind = object.get_type().name().map_or("this".into(), |n| n.to_string());
            let message = format!("takes a thalweg.Array or a Python scalar, not {kind}; thalweg.asarray converts");
            type_error(object.py(), message)
        };
        Arg::of(&object)?.ok_or_else(refused)
    }
}

/// Dtype of the result of an operation on arguments, at least one of which is an array (else: on scalars alone).
pub fn common(args: &[&Arg]) -> ArrayDType {
    let arrays = args.iter().filter_map(|a| a.array_dtype()).reduce(promote);
    let scalars = args.iter().filter(|a| a.array_dtype().is_none());
    match arrays {
        Some(dtype) => scalars.fold(dtype, |dtype, scalar| scalar.weak(dtype)),
        None => scalars.map(|s| s.own_dtype()).reduce(promote).unwrap_or(Real(default_float())),
    }
}
