//! Values of Python objects, and Python objects of values.
//!
//! In: tensors and numbers that PyTorch passes to a program, results of its kernels. Out: [`Value`]s over the same memory,
//! and the reverse. Always true: a tensor over an object's memory is used only while the object, or its owner, is alive.

use super::exchange::{Described, Exchange};
use super::value::Value;
use crate::dlpack::from_bytes;
use crate::dtype::ArrayDType;
use crate::handle::Data;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use thalweg::{Device, Tensor};

/// Input's memory: first and last address, to find results that are views of it.
pub struct Range {
    /// First address.
    pub first: usize,
    /// Address after the last byte.
    pub end: usize,
}

/// Value of a Python object for a program on `device`, the GPU of that number or the host, and the range of its memory. A
/// tensor over the memory has `owner`.
pub fn import(
    exchange: Exchange,
    (device, gpu): (Device, Option<i32>),
    object: &Bound<'_, PyAny>,
    owner: impl Any + Send + Sync,
) -> PyResult<(Value, Range)> {
    let nothing = Range { first: 0, end: 0 };
    if object.is_none() {
        return Ok((Value::None, nothing));
    }
    if object.is_instance_of::<PyBool>() {
        return Ok((Value::Bool(object.extract()?), nothing));
    }
    if object.is_instance_of::<PyInt>() {
        return Ok((Value::Int(object.extract()?), nothing));
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok((Value::Float(object.extract()?), nothing));
    }
    let Some(found) = exchange.describe(object) else {
        return Ok((Value::Foreign(Arc::new(object.clone().unbind())), nothing));
    };
    let rank = found.shape.rank();
    if found.shape.numel() == 0 {
        let zeros = Tensor::zeros_with(found.shape, (found.dtype, device));
        return Ok((Value::Tensor(zeros), nothing));
    }
    if found.gpu != gpu {
        // A number on the host may be an operand of tensors on a GPU.
        let value = match found.gpu {
            None if rank == 0 => number_on(object.py(), device, &found),
            _ => None,
        };
        return Ok((
            value.map(Value::Tensor).unwrap_or_else(|| Value::Foreign(Arc::new(object.clone().unbind()))),
            nothing,
        ));
    }
    let Some(address) = NonNull::new(found.address) else {
        return Ok((Value::Foreign(Arc::new(object.clone().unbind())), nothing));
    };
    let size = found.dtype.size();
    if !found.address.addr().is_multiple_of(size) {
        return Ok((Value::Foreign(Arc::new(object.clone().unbind())), nothing));
    }
    let last: usize = (0..rank).map(|i| (found.shape.dims()[i] - 1) * found.strides[i] as usize).sum();
    let first = found.address.addr();
    let range = Range { first, end: first + (last + 1) * size };
    // SAFETY: the object describes its memory. The list of inputs, or the owner, keeps it alive until the run ends, when
    // no register, no recorded work and no result reads an input any more; a run that fails drops its registers, too.
    let x =
        unsafe { Tensor::from_stream_memory(address, found.shape, &found.strides[..rank], found.dtype, device, owner) };
    Ok((Value::Tensor(x), range))
}

/// Copy on a device of a number on the host.
fn number_on(py: Python<'_>, device: Device, found: &Described) -> Option<Tensor> {
    // SAFETY: the description of an element on the host.
    let bytes = unsafe { std::slice::from_raw_parts(found.address, found.dtype.size()) };
    match from_bytes(py, bytes, found.shape, ArrayDType::Real(found.dtype), device) {
        Ok(Data::Real(x)) => Some(x),
        _ => None,
    }
}

/// Python object of a value that is no tensor of Thalweg.
pub fn object_of(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::None => py.None().into_bound(py),
        Value::Int(v) => v.into_pyobject(py)?.into_any(),
        Value::Float(v) => v.into_pyobject(py)?.into_any(),
        Value::Bool(v) => PyBool::new(py, v).to_owned().into_any(),
        Value::Foreign(object) => object.bind(py).clone(),
        Value::Tensor(_) => {
            return Err(PyRuntimeError::new_err("thalweg.torch: internal error: a tensor without memory"));
        }
    })
}

/// A Python object that keeps memory alive, dropped with the GIL.
pub struct Owner(pub Option<Py<PyAny>>);

impl Drop for Owner {
    fn drop(&mut self) {
        let Some(object) = self.0.take() else { return };
        // PyTorch releases the GIL while it frees a storage, which may own memory of Thalweg and so this. Below a call of
        // ours `Python::attach` would believe that the thread still has the GIL; the interpreter knows.
        // SAFETY: the state is released on the thread that took it, and the reference is owned.
        unsafe {
            let state = ffi::PyGILState_Ensure();
            ffi::Py_DECREF(object.into_ptr());
            ffi::PyGILState_Release(state);
        }
    }
}
