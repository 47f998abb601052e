//! Conversion of Python data to arrays and back: numbers, nested lists, buffers, other libraries' arrays.

use crate::dlpack::{self, Copy};
use crate::dtype::{ArrayDType, ArrayDType::Real, default_float};
use crate::error::{run_fallible, type_error, value_error};
use crate::functions::elementwise::{array_of, fitted};
use crate::handle::Data;
use crate::promote::{Arg, common, promote};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyFloat, PyList, PyString, PyTuple};
use thalweg::{DType, Device, MAX_RANK, Scalar, Shape};

/// Elements of nested Python data.
#[derive(Default)]
struct Flat {
    dims: Vec<usize>,
    scalars: Vec<Arg>,
    /// Arrays among the data, which are stacked instead.
    arrays: bool,
}

impl Flat {
    fn push(&mut self, item: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
        let py = item.py();
        let sequence = item.cast::<PyList>().is_ok() || item.cast::<PyTuple>().is_ok();
        if !sequence {
            if depth < self.dims.len() {
                return Err(value_error(py, "nested data is ragged"));
            }
            let arg = match Arg::of(item)? {
                Some(arg) => arg,
                None => match of_foreign(item)? {
                    Some(data) => Arg::Array(data),
                    None if item.hasattr("__float__")? => Arg::Float(item.call_method0("__float__")?.extract()?),
                    None => {
                        let kind = item.get_type().name()?;
                        return Err(type_error(py, format!("{kind} is no element of an array")));
                    }
                },
            };
            self.arrays |= matches!(arg, Arg::Array(_));
            self.scalars.push(arg);
            return Ok(());
        }
        let count = item.len()?;
        if depth == self.dims.len() {
            if !self.scalars.is_empty() {
                return Err(value_error(py, "nested data is ragged"));
            }
            if depth == MAX_RANK {
                return Err(value_error(py, format!("nested data is deeper than the rank limit of {MAX_RANK}")));
            }
            self.dims.push(count);
        } else if self.dims[depth] != count {
            let text = format!("nested data is ragged: lengths {} and {count} are at one level", self.dims[depth]);
            return Err(value_error(py, text));
        }
        for item in item.try_iter()? {
            self.push(&item?, depth + 1)?;
        }
        Ok(())
    }
}

/// Array of a Python scalar or nested lists and tuples.
///
/// # Errors
/// `ValueError` for ragged data, `TypeError` for other objects.
pub fn of_nested(object: &Bound<'_, PyAny>, dtype: Option<ArrayDType>) -> PyResult<Data> {
    of_nested_on(object, dtype, None)
}

pub fn of_nested_on(object: &Bound<'_, PyAny>, dtype: Option<ArrayDType>, device: Option<Device>) -> PyResult<Data> {
    let py = object.py();
    let mut flat = Flat::default();
    flat.push(object, 0)?;
    let refs: Vec<&Arg> = flat.scalars.iter().collect();
    let own = refs.iter().map(|a| a.own_dtype()).reduce(promote).unwrap_or(Real(default_float()));
    let to = dtype.unwrap_or(if flat.arrays { common(&refs) } else { own });
    let device = match device {
        Some(device) => device,
        None => run_fallible(py, Device::try_default)?,
    };
    if flat.arrays {
        let all: Vec<Data> = refs.iter().map(|a| array_of(py, a, to, device)).collect::<PyResult<_>>()?;
        let stacked = crate::functions::manipulate::stacked(py, &all, 0)?;
        let mut dims = flat.dims.clone();
        dims.extend(&stacked.dims()[1..]);
        let dims: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
        return crate::functions::manipulate::reshape_to(py, &stacked, &dims);
    }
    for arg in &refs {
        arg.check_fits(py, to)?;
        if matches!(arg, Arg::Complex(..)) && !to.is_complex() {
            return Err(type_error(py, format!("a complex number does not fit {}", to.name())));
        }
    }
    let shape = Shape::new(&flat.dims);
    let mut bytes = Vec::with_capacity(refs.len() * to.size());
    for arg in &refs {
        match arg {
            Arg::Complex(re, im) => {
                push_bytes(&mut bytes, Scalar::Float(*re), to.part());
                push_bytes(&mut bytes, Scalar::Float(*im), to.part());
            }
            _ => {
                push_bytes(&mut bytes, arg.scalar().unwrap_or(Scalar::Int(0)), to.part());
                if to.is_complex() {
                    push_bytes(&mut bytes, Scalar::Int(0), to.part());
                }
            }
        }
    }
    dlpack::from_bytes(py, &bytes, shape, to, device)
}

/// Appends the bytes of a scalar as an element.
fn push_bytes(bytes: &mut Vec<u8>, scalar: Scalar, dtype: DType) {
    let scalar = fitted(scalar, dtype);
    let float = scalar.to_f64();
    match dtype {
        DType::F32 => bytes.extend((float as f32).to_ne_bytes()),
        DType::F64 => bytes.extend(float.to_ne_bytes()),
        DType::BF16 => bytes.extend(half::bf16::from_f64(float).to_ne_bytes()),
        DType::F16 => bytes.extend(half::f16::from_f64(float).to_ne_bytes()),
        DType::Bool => bytes.push(u8::from(float != 0.0)),
        _ => bytes.extend(&(scalar.to_i128() as i64).to_le_bytes()[..dtype.size()]),
    }
}

/// Array of an object with the buffer protocol, NumPy's array interface or DLPack: arrays and scalars of NumPy, `bytes`,
/// `memoryview`, tensors of PyTorch; `None` for other objects. Values are copied, since their owner may change them.
///
/// # Errors
/// When the object refuses, or has a dtype that Thalweg has not.
pub fn of_foreign(object: &Bound<'_, PyAny>) -> PyResult<Option<Data>> {
    if object.cast::<PyString>().is_ok() {
        return Ok(None);
    }
    // SAFETY: the object is alive.
    if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 1 && object.hasattr("__float__").unwrap_or(false)
        || object.is_instance_of::<PyBytes>()
        || object.hasattr("__array_interface__")?
        || object.get_type().name()? == "memoryview"
    {
        return of_buffer(object).map(Some);
    }
    if object.hasattr("__dlpack__")? {
        return dlpack::import_object(object, Copy::Always).map(Some);
    }
    Ok(None)
}

/// Array of an object with the buffer protocol, copied.
fn of_buffer(object: &Bound<'_, PyAny>) -> PyResult<Data> {
    struct Held(ffi::Py_buffer);
    impl Drop for Held {
        fn drop(&mut self) {
            // SAFETY: filled in by PyObject_GetBuffer; the GIL is held where this is used.
            unsafe { ffi::PyBuffer_Release(&mut self.0) };
        }
    }
    let py = object.py();
    let mut view = ffi::Py_buffer::new();
    // SAFETY: a buffer to fill in.
    let status = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut view, ffi::PyBUF_FULL_RO) };
    if status != 0 {
        return Err(PyErr::fetch(py));
    }
    let held = Held(view);
    let view = &held.0;
    let format = if view.format.is_null() {
        "B"
    } else {
        // SAFETY: a string that lives as long as the buffer.
        unsafe { std::ffi::CStr::from_ptr(view.format) }.to_str().unwrap_or("")
    };
    let swapped = format.starts_with(['>', '!']);
    let code = format.trim_start_matches(['@', '=', '<', '>', '!']);
    let size = view.itemsize as usize;
    let dtype = match (code, size) {
        ("f", _) => Real(DType::F32),
        ("d", _) => Real(DType::F64),
        ("e", _) => Real(DType::F16),
        ("?", _) => Real(DType::Bool),
        ("Zf", _) => ArrayDType::Complex64,
        ("Zd", _) => ArrayDType::Complex128,
        ("b" | "h" | "i" | "l" | "q" | "n", 1) => Real(DType::I8),
        ("b" | "h" | "i" | "l" | "q" | "n", 2) => Real(DType::I16),
        ("b" | "h" | "i" | "l" | "q" | "n", 4) => Real(DType::I32),
        ("b" | "h" | "i" | "l" | "q" | "n", 8) => Real(DType::I64),
        ("B" | "H" | "I" | "L" | "Q" | "N" | "c", 1) => Real(DType::U8),
        ("B" | "H" | "I" | "L" | "Q" | "N", 2) => Real(DType::U16),
        ("B" | "H" | "I" | "L" | "Q" | "N", 4) => Real(DType::U32),
        ("B" | "H" | "I" | "L" | "Q" | "N", 8) => Real(DType::U64),
        _ => return Err(type_error(py, format!("no dtype is {format:?} of the buffer protocol"))),
    };
    if swapped && dtype.part().size() > 1 {
        return Err(type_error(py, "elements in another byte order"));
    }
    let rank = view.ndim as usize;
    if rank > MAX_RANK {
        return Err(value_error(py, format!("rank {rank} is over the limit of {MAX_RANK}")));
    }
    let mut dims = vec![0usize; rank];
    let mut strides = vec![0isize; rank];
    for i in 0..rank {
        // SAFETY: with these flags shape and strides are lists of `ndim` numbers.
        unsafe {
            dims[i] = *view.shape.add(i) as usize;
            strides[i] = if view.strides.is_null() { 0 } else { *view.strides.add(i) };
        }
    }
    let shape = Shape::new(&dims);
    if view.strides.is_null() {
        let mut step = size as isize;
        for i in (0..rank).rev() {
            strides[i] = step;
            step *= dims[i] as isize;
        }
    }
    let mut step = size as isize;
    let mut dense = true;
    for i in (0..rank).rev() {
        dense &= dims[i] == 1 || strides[i] == step;
        step *= dims[i] as isize;
    }
    let device = run_fallible(py, Device::try_default)?;
    if dense || shape.numel() == 0 {
        let count = shape.numel() * size;
        if count == 0 {
            return dlpack::from_bytes(py, &[], shape, dtype, device);
        }
        // SAFETY: dense memory of that many bytes while the buffer is held.
        let bytes = unsafe { std::slice::from_raw_parts(view.buf.cast::<u8>(), count) };
        return dlpack::from_bytes(py, bytes, shape, dtype, device);
    }
    // Strides are in bytes, so elements are taken as steps of one byte.
    let mut bytes = Vec::with_capacity(shape.numel() * size);
    let mut index = vec![0usize; rank];
    for _ in 0..shape.numel() {
        let offset: isize = (0..rank).map(|i| index[i] as isize * strides[i]).sum();
        // SAFETY: the element at a valid index of the buffer.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(view.buf.cast::<u8>().offset(offset).cast_const(), size)
        });
        for i in (0..rank).rev() {
            index[i] += 1;
            if index[i] < dims[i] {
                break;
            }
            index[i] = 0;
        }
    }
    dlpack::from_bytes(py, &bytes, shape, dtype, device)
}

/// Elements as nested lists, or the only one (`scalar`).
///
/// # Errors
/// When the value cannot be computed.
pub fn list_of<'py>(py: Python<'py>, data: &Data, scalar: bool) -> PyResult<Bound<'py, PyAny>> {
    let flat: Vec<Bound<'py, PyAny>> = match data {
        Data::Real(x) => match x.dtype() {
            DType::Bool => {
                let values = run_fallible(py, || x.to_vec::<bool>())?;
                values.into_iter().map(|v| PyBool::new(py, v).to_owned().into_any()).collect()
            }
            d if d.is_float() => {
                let values = run_fallible(py, || x.to_f64_vec())?;
                values.into_iter().map(|v| PyFloat::new(py, v).into_any()).collect()
            }
            DType::U64 => {
                let values = run_fallible(py, || x.to_vec::<u64>())?;
                values.into_iter().map(|v| Ok(v.into_pyobject(py)?.into_any())).collect::<PyResult<_>>()?
            }
            DType::I64 => {
                let values = run_fallible(py, || x.to_vec::<i64>())?;
                values.into_iter().map(|v| Ok(v.into_pyobject(py)?.into_any())).collect::<PyResult<_>>()?
            }
            _ => {
                let values = run_fallible(py, || x.to_f64_vec())?;
                values.into_iter().map(|v| Ok((v as i64).into_pyobject(py)?.into_any())).collect::<PyResult<_>>()?
            }
        },
        Data::Complex(z) => {
            let (re, im) = run_fallible(py, || Ok((z.re.to_f64_vec()?, z.im.to_f64_vec()?)))?;
            re.into_iter().zip(im).map(|(re, im)| PyComplex::from_doubles(py, re, im).into_any()).collect()
        }
    };
    if scalar || data.rank() == 0 {
        return flat.into_iter().next().ok_or_else(|| value_error(py, "there is no element"));
    }
    let mut level = flat;
    for (axis, &size) in data.dims().iter().enumerate().rev() {
        // The lists of an empty dimension: one for each index of the dimensions before it.
        let count: usize = data.dims()[..axis].iter().product();
        let mut lists = Vec::with_capacity(count);
        let mut items = level.into_iter();
        for _ in 0..count {
            let row: Vec<_> = items.by_ref().take(size).collect();
            lists.push(PyList::new(py, row)?.into_any());
        }
        level = lists;
    }
    Ok(level.swap_remove(0))
}
