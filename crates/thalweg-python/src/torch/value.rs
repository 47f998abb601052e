//! Values of registers, and arguments of instructions.

use crate::dtype::ArrayDType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::sync::Arc;
use thalweg::Tensor;

/// Value of a register.
#[derive(Clone)]
pub enum Value {
    /// No value yet, no longer one, or Python's `None`.
    None,
    /// A tensor.
    Tensor(Tensor),
    /// An integer, a symbolic size among them.
    Int(i64),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// A tensor of PyTorch that Thalweg has no dtype or rank for.
    Foreign(Arc<Py<PyAny>>),
}

impl From<Tensor> for Value {
    fn from(x: Tensor) -> Value {
        Value::Tensor(x)
    }
}

/// Argument of an instruction.
#[derive(Clone, Debug)]
pub enum Arg {
    /// Python's `None`, or an option at its default.
    None,
    /// Value of a register.
    Register(usize),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// A word, such as a rounding mode.
    Word(String),
    /// A dtype.
    DType(ArrayDType),
    /// A list.
    List(Vec<Arg>),
}

impl Arg {
    /// The argument in the form that `lower.py` writes: `("r", i)` a register, `("d", name)` a dtype, lists, and
    /// Python's numbers, words and `None`.
    ///
    /// # Errors
    /// `TypeError` for anything else.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Arg> {
        if object.is_none() {
            return Ok(Arg::None);
        }
        if object.is_instance_of::<PyBool>() {
            return Ok(Arg::Bool(object.extract()?));
        }
        if object.is_instance_of::<PyInt>() {
            return Ok(Arg::Int(object.extract()?));
        }
        if object.is_instance_of::<PyFloat>() {
            return Ok(Arg::Float(object.extract()?));
        }
        if object.is_instance_of::<PyString>() {
            return Ok(Arg::Word(object.extract()?));
        }
        if let Ok(list) = object.cast::<PyList>() {
            return Ok(Arg::List(list.iter().map(|a| Arg::of(&a)).collect::<PyResult<_>>()?));
        }
        if let Ok(pair) = object.cast::<PyTuple>() {
            let kind: String = pair.get_item(0)?.extract()?;
            if kind == "r" {
                return Ok(Arg::Register(pair.get_item(1)?.extract()?));
            }
            let name: String = pair.get_item(1)?.extract()?;
            if let ("d", Some(dtype)) = (&kind[..], ArrayDType::from_name(&name)) {
                return Ok(Arg::DType(dtype));
            }
        }
        Err(PyTypeError::new_err(format!("thalweg.torch: no argument of a program: {object:?}")))
    }

    /// Calls `f` with each register that the argument reads.
    pub fn registers(&self, f: &mut impl FnMut(usize)) {
        match self {
            Arg::Register(i) => f(*i),
            Arg::List(list) => list.iter().for_each(|a| a.registers(f)),
            _ => {}
        }
    }
}
