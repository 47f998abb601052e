//! Operators of the class, reflected and in-place ones too.

// Code that `#[pymethods]` writes inside a macro of this crate is linted as if it were written here.
#![allow(unsafe_op_in_unsafe_fn, reason = "written by pyo3")]

use crate::dtype::ArrayDType;
use crate::error::{type_error, value_error};
use crate::functions::convert::of_foreign;
use crate::functions::elementwise::{Binary, binary};
use crate::functions::linalg::matmul_args;
use crate::functions::unary::unary_operator;
use crate::handle::{Array, Data};
use crate::promote::Arg;
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use thalweg::DType;

/// The other operand: an array, a Python scalar, or an array of NumPy; `None` for anything else.
fn other_operand(other: &Bound<'_, PyAny>) -> PyResult<Option<Arg>> {
    match Arg::of(other)? {
        Some(arg) => Ok(Some(arg)),
        None => Ok(of_foreign(other)?.map(Arg::Array)),
    }
}

fn operate(array: &Array, other: &Bound<'_, PyAny>, op: Binary, reflected: bool) -> PyResult<Py<PyAny>> {
    let py = other.py();
    let Some(other) = other_operand(other)? else { return Ok(py.NotImplemented()) };
    let own = Arg::Array(array.data());
    let (a, b) = if reflected { (&other, &own) } else { (&own, &other) };
    Ok(Py::new(py, Array::new(binary(py, op, a, b)?))?.into_any())
}

/// Whether the result of an in-place operator may be cast to the array's dtype: within its kind, or to a higher one.
fn fits_in_place(from: ArrayDType, to: ArrayDType) -> bool {
    let rank = |d: ArrayDType| match d {
        ArrayDType::Real(DType::Bool) => 0,
        d if d.is_int() => 1,
        d if d.is_float() => 2,
        _ => 3,
    };
    rank(from) <= rank(to)
}

/// Rebinds the handle to the result of an operator, in the array's own shape and dtype.
fn in_place(
    array: &Array,
    other: &Bound<'_, PyAny>,
    name: &str,
    f: impl FnOnce(Python<'_>, &Arg, &Arg) -> PyResult<Data>,
) -> PyResult<()> {
    let py = other.py();
    let Some(other) = other_operand(other)? else {
        let kind = other.get_type().name()?;
        return Err(type_error(py, format!("unsupported operand type for {name}: Array and {kind}")));
    };
    let own = array.data();
    let (shape, dtype) = (*own.shape(), own.dtype());
    let result = f(py, &Arg::Array(own), &other)?;
    if *result.shape() != shape {
        let message = format!("{name}: a result of shape {} does not fit the array of shape {shape}", result.shape());
        return Err(value_error(py, message));
    }
    if !fits_in_place(result.dtype(), dtype) {
        let (from, to) = (result.dtype().name(), dtype.name());
        return Err(type_error(py, format!("{name}: a result of {from} is not cast to the array's dtype {to}")));
    }
    let result = if result.dtype() == dtype { result } else { crate::error::run(py, || result.cast(dtype))? };
    array.rebind(result);
    Ok(())
}

macro_rules! operators {
    ($($op:ident $name:ident $reflected:ident $in_place:ident $text:literal;)*) => {
        #[pymethods]
        impl Array {
            $(
                fn $name(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                    operate(self, other, Binary::$op, false)
                }
                fn $reflected(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                    operate(self, other, Binary::$op, true)
                }
                fn $in_place(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
                    in_place(self, other, $text, |py, a, b| binary(py, Binary::$op, a, b))
                }
            )*
        }
    };
}

operators! {
    Add __add__ __radd__ __iadd__ "+=";
    Sub __sub__ __rsub__ __isub__ "-=";
    Mul __mul__ __rmul__ __imul__ "*=";
    Div __truediv__ __rtruediv__ __itruediv__ "/=";
    FloorDiv __floordiv__ __rfloordiv__ __ifloordiv__ "//=";
    Rem __mod__ __rmod__ __imod__ "%=";
    BitAnd __and__ __rand__ __iand__ "&=";
    BitOr __or__ __ror__ __ior__ "|=";
    BitXor __xor__ __rxor__ __ixor__ "^=";
    Shl __lshift__ __rlshift__ __ilshift__ "<<=";
    Shr __rshift__ __rrshift__ __irshift__ ">>=";
}

#[pymethods]
impl Array {
    fn __pow__(&self, other: &Bound<'_, PyAny>, modulo: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        if modulo.is_some() {
            return Ok(other.py().NotImplemented());
        }
        operate(self, other, Binary::Pow, false)
    }

    fn __rpow__(&self, other: &Bound<'_, PyAny>, modulo: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        if modulo.is_some() {
            return Ok(other.py().NotImplemented());
        }
        operate(self, other, Binary::Pow, true)
    }

    fn __ipow__(&self, other: &Bound<'_, PyAny>, _modulo: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        in_place(self, other, "**=", |py, a, b| binary(py, Binary::Pow, a, b))
    }

    fn __matmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = other.py();
        match other_operand(other)? {
            Some(other @ Arg::Array(_)) => {
                let data = matmul_args(py, &Arg::Array(self.data()), &other)?;
                Ok(Py::new(py, Array::new(data))?.into_any())
            }
            _ => Ok(py.NotImplemented()),
        }
    }

    fn __rmatmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = other.py();
        match other_operand(other)? {
            Some(other @ Arg::Array(_)) => {
                let data = matmul_args(py, &other, &Arg::Array(self.data()))?;
                Ok(Py::new(py, Array::new(data))?.into_any())
            }
            _ => Ok(py.NotImplemented()),
        }
    }

    fn __imatmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, other, "@=", matmul_args)
    }

    fn __divmod__(&self, other: &Bound<'_, PyAny>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        Ok((operate(self, other, Binary::FloorDiv, false)?, operate(self, other, Binary::Rem, false)?))
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let op = match op {
            CompareOp::Lt => Binary::Lt,
            CompareOp::Le => Binary::Le,
            CompareOp::Eq => Binary::Equal,
            CompareOp::Ne => Binary::NotEqual,
            CompareOp::Gt => Binary::Gt,
            CompareOp::Ge => Binary::Ge,
        };
        operate(self, other, op, false)
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<Data> {
        unary_operator(py, Arg::Array(self.data()), "negative")
    }

    fn __pos__(&self, py: Python<'_>) -> PyResult<Data> {
        unary_operator(py, Arg::Array(self.data()), "positive")
    }

    fn __abs__(&self, py: Python<'_>) -> PyResult<Data> {
        unary_operator(py, Arg::Array(self.data()), "abs")
    }

    fn __invert__(&self, py: Python<'_>) -> PyResult<Data> {
        unary_operator(py, Arg::Array(self.data()), "invert")
    }
}
