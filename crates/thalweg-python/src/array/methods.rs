//! Attributes and methods of the class.

// Code that `#[pymethods]` writes inside a macro of this crate is linted as if it were written here.
#![allow(unsafe_op_in_unsafe_fn, reason = "written by pyo3")]

use crate::dlpack;
use crate::dtype::{ArrayDType, ArrayDType::Real, DTypeArg, PyDType};
use crate::error::{run, run_fallible, type_error, value_error};
use crate::functions::arguments::device_of_name;
use crate::functions::convert::list_of;
use crate::functions::manipulate::{reshape_to, transposed};
use crate::functions::reduce::{AxisArg, Reduction, reduce};
use crate::handle::{Array, Data, dense_memory};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyComplex, PyDict, PyTuple};
use std::ffi::{CStr, CString, c_int, c_void};
use thalweg::{DType, Error, MAX_RANK, TensorMemory};

/// The only element as a Python object.
fn item(py: Python<'_>, data: &Data) -> PyResult<Py<PyAny>> {
    if data.numel() != 1 {
        return Err(value_error(py, format!("item: shape {} has {} elements, not one", data.shape(), data.numel())));
    }
    let list = list_of(py, data, true)?;
    Ok(list.unbind())
}

/// Text format of elements in the buffer protocol; `None` where it has none.
fn format_of(dtype: ArrayDType) -> Option<&'static CStr> {
    Some(match dtype {
        Real(DType::F32) => c"f",
        Real(DType::F64) => c"d",
        Real(DType::F16) => c"e",
        Real(DType::I8) => c"b",
        Real(DType::I16) => c"h",
        Real(DType::I32) => c"i",
        Real(DType::I64) => c"q",
        Real(DType::U8) => c"B",
        Real(DType::U16) => c"H",
        Real(DType::U32) => c"I",
        Real(DType::U64) => c"Q",
        Real(DType::Bool) => c"?",
        Real(DType::BF16) => return None,
        ArrayDType::Complex64 => c"Zf",
        ArrayDType::Complex128 => c"Zd",
    })
}

/// State of an exported buffer until it is released.
struct ExportedBuffer {
    _memory: TensorMemory,
    format: CString,
    shape: [isize; MAX_RANK],
    strides: [isize; MAX_RANK],
}

/// Dense memory of an array on the host; complex numbers are interleaved.
fn host_memory(py: Python<'_>, data: &Data) -> PyResult<TensorMemory> {
    let data = data.clone();
    run_fallible(py, move || {
        let tensor = match &data {
            Data::Real(x) => x.to_device(thalweg::Device::cpu())?,
            Data::Complex(z) => z.to_device(thalweg::Device::cpu())?.view_as_real(),
        };
        dense_memory(&tensor)
    })
}

#[pymethods]
impl Array {
    /// Sizes of the dimensions, as a tuple of ints.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.with(|d| PyTuple::new(py, d.dims()))
    }

    /// Number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.with(Data::rank)
    }

    /// Number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.with(Data::numel)
    }

    /// Dtype of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        self.with(Data::dtype).object(py)
    }

    /// Number of bytes of an element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.with(Data::dtype).size()
    }

    /// Number of bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.with(|d| d.numel() * d.dtype().size())
    }

    /// Name of the device: ``"cpu"``, ``"cuda:0"``.
    #[getter]
    fn device(&self) -> &'static str {
        self.with(Data::device).name()
    }

    /// The matrix with rows and columns exchanged. Takes two dimensions.
    #[getter(T)]
    fn transpose(&self, py: Python<'_>) -> PyResult<Data> {
        let data = self.data();
        if data.rank() != 2 {
            return Err(value_error(
                py,
                format!("T: takes two dimensions, not shape {}; see mT and permute_dims", data.shape()),
            ));
        }
        transposed(py, &data)
    }

    /// Matrices with rows and columns exchanged: the last two dimensions.
    #[getter(mT)]
    fn matrix_transpose(&self, py: Python<'_>) -> PyResult<Data> {
        transposed(py, &self.data())
    }

    /// Real parts.
    #[getter]
    fn real(&self) -> Data {
        match self.data() {
            Data::Complex(z) => z.re.into(),
            real => real,
        }
    }

    /// Imaginary parts; zeros for real arrays.
    #[getter]
    fn imag(&self, py: Python<'_>) -> PyResult<Data> {
        Ok(match self.data() {
            Data::Complex(z) => z.im.into(),
            Data::Real(x) => run(py, || x.zeros_like())?.into(),
        })
    }

    /// The only element as a Python bool, int, float or complex. Waits until it is computed.
    fn item(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        item(py, &self.data())
    }

    /// The elements as nested lists of Python scalars. Waits until they are computed.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        list_of(py, &self.data(), false)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let data = self.data();
        if data.numel() != 1 {
            let text = format!("the truth value of an array of shape {} is ambiguous; use any or all", data.shape());
            return Err(value_error(py, text));
        }
        run_fallible(py, || match &data {
            Data::Real(x) if x.dtype() == DType::Bool => x.item::<bool>(),
            Data::Real(x) => Ok(x.item_f64()? != 0.0),
            Data::Complex(z) => Ok(z.re.item_f64()? != 0.0 || z.im.item_f64()? != 0.0),
        })
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        let data = self.data();
        if data.dtype().is_complex() {
            return Err(type_error(py, "float() of a complex array; take its real part"));
        }
        item(py, &data)?.bind(py).call_method0("__float__")?.extract()
    }

    fn __int__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let data = self.data();
        if data.dtype().is_complex() {
            return Err(type_error(py, "int() of a complex array; take its real part"));
        }
        Ok(item(py, &data)?.bind(py).call_method0("__int__")?.unbind())
    }

    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyComplex>> {
        let number: (f64, f64) = match self.data() {
            data @ Data::Complex(_) => {
                let z = item(py, &data)?;
                (z.bind(py).getattr("real")?.extract()?, z.bind(py).getattr("imag")?.extract()?)
            }
            data => (item(py, &data)?.bind(py).call_method0("__float__")?.extract()?, 0.0),
        };
        Ok(PyComplex::from_doubles(py, number.0, number.1))
    }

    fn __index__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let data = self.data();
        if !data.dtype().is_int() || data.rank() != 0 {
            let text = format!(
                "only an integer array without dimensions is an index, not {}{}",
                data.dtype().name(),
                data.shape()
            );
            return Err(type_error(py, text));
        }
        item(py, &data)
    }

    /// The array with elements of another dtype. Without ``copy`` an array of that dtype is returned itself.
    #[pyo3(signature = (dtype, /, *, copy = true))]
    fn astype(slf: &Bound<'_, Self>, dtype: DTypeArg, copy: bool) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let data = slf.get().data();
        if data.dtype() == dtype.0 && !copy {
            return Ok(slf.clone().into_any().unbind());
        }
        let data = if data.dtype() == dtype.0 { data } else { run(py, || data.cast(dtype.0))? };
        Ok(Py::new(py, Array::new(data))?.into_any())
    }

    /// A copy: another handle of the same values, which assignments to either do not change.
    fn copy(&self) -> Data {
        self.data()
    }

    fn __copy__(&self) -> Data {
        self.data()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Data {
        self.data()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let data = self.data();
        let memory = host_memory(py, &data)?;
        let count = data.numel() * data.dtype().size();
        // SAFETY: dense memory of that many bytes.
        let bytes = if count == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(memory.address(), count) } };
        let state = (pyo3::types::PyBytes::new(py, bytes), PyTuple::new(py, data.dims())?, data.dtype().name());
        let make = py.import("thalweg")?.getattr("_from_bytes")?;
        PyTuple::new(py, [make, state.into_pyobject(py)?.into_any()])
    }

    /// The array with other sizes, in the same row-major order; one size may be -1.
    #[pyo3(signature = (*shape))]
    fn reshape(&self, py: Python<'_>, shape: &Bound<'_, PyTuple>) -> PyResult<Data> {
        let first = shape.get_item(0);
        let sizes: Vec<i64> = match &first {
            Ok(list) if shape.len() == 1 && !list.is_instance_of::<pyo3::types::PyInt>() => list.extract()?,
            _ => shape.extract()?,
        };
        reshape_to(py, &self.data(), &sizes)
    }

    /// All elements in one dimension, in row-major order.
    fn flatten(&self, py: Python<'_>) -> PyResult<Data> {
        reshape_to(py, &self.data(), &[-1])
    }

    /// The array on another device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``. Computes the value first.
    #[pyo3(signature = (device, /, *, stream = None))]
    fn to_device(
        &self,
        py: Python<'_>,
        device: &Bound<'_, PyAny>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Data> {
        if stream.is_some() {
            return Err(value_error(py, "to_device: takes no stream"));
        }
        let (data, device) = (self.data(), device_of_name(py, device)?);
        run_fallible(py, || {
            Ok(match data {
                Data::Real(x) => x.to_device(device)?.into(),
                Data::Complex(z) => z.to_device(device)?.into(),
            })
        })
    }

    #[pyo3(signature = (*, api_version = None))]
    fn __array_namespace__<'py>(&self, py: Python<'py>, api_version: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        match api_version {
            None | Some("2021.12" | "2022.12" | "2023.12" | "2024.12" | "2025.12") => {
                Ok(py.import("thalweg")?.into_any())
            }
            Some(other) => Err(value_error(py, format!("there is no version {other:?} of the array API"))),
        }
    }

    /// A DLPack capsule of the array. Real arrays share their memory, which the consumer must not write.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let mut data = self.data();
        if let Some(wanted) = dl_device
            && wanted != dlpack::device_of(data.device())
        {
            if copy == Some(false) {
                return Err(PyBufferError::new_err(
                    "__dlpack__: another device takes a copy, and copy=False forbids it",
                ));
            }
            let device = match wanted.0 {
                1 => thalweg::Device::cpu(),
                2 => run_fallible(py, || thalweg::Device::cuda(usize::try_from(wanted.1).unwrap_or(usize::MAX)))?,
                other => return Err(PyBufferError::new_err(format!("__dlpack__: no device is of type {other}"))),
            };
            data = run_fallible(py, || -> Result<Data, Error> {
                Ok(match data {
                    Data::Real(x) => x.to_device(device)?.into(),
                    Data::Complex(z) => z.to_device(device)?.into(),
                })
            })?;
        }
        dlpack::export(py, &data, max_version.is_some_and(|v| v.0 >= 1), copy, stream)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::device_of(self.with(Data::device))
    }

    /// The array as a NumPy array. It shares memory that is on the CPU, and is read-only then.
    #[pyo3(signature = (dtype = None, *, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let numpy = py.import("numpy")?;
        let data = slf.get().data();
        let own = data.dtype();
        // NumPy has no bfloat16.
        let shared = if own == Real(DType::BF16) {
            Bound::new(py, Array::new(run(py, || data.cast(Real(DType::F32)))?))?
        } else {
            slf.clone()
        };
        let view = py.import("builtins")?.getattr("memoryview")?.call1((shared,))?;
        let array = numpy.call_method1("asarray", (view,))?;
        match (dtype, copy) {
            (None, Some(true)) => array.call_method0("copy"),
            (None, _) => Ok(array),
            (Some(dtype), copy) => {
                let options = PyDict::new(py);
                options.set_item("copy", copy == Some(true))?;
                array.call_method("astype", (dtype,), Some(&options))
            }
        }
    }

    /// Priority over NumPy's arrays in mixed operators.
    #[classattr]
    fn __array_priority__() -> f64 {
        1000.0
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill in"));
        }
        let py = slf.py();
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("the memory of an array is read-only"));
        }
        let data = slf.get().data();
        let dtype = data.dtype();
        let Some(format) = format_of(dtype) else {
            return Err(PyBufferError::new_err(format!("the buffer protocol has no {}", dtype.name())));
        };
        let memory = host_memory(py, &data)?;
        let rank = data.rank();
        let mut exported = Box::new(ExportedBuffer {
            format: format.into(),
            shape: [0; MAX_RANK],
            strides: [0; MAX_RANK],
            _memory: memory.clone(),
        });
        let mut step = dtype.size() as isize;
        for i in (0..rank).rev() {
            exported.shape[i] = data.dims()[i] as isize;
            exported.strides[i] = step;
            step *= data.dims()[i].max(1) as isize;
        }
        let exported = Box::into_raw(exported);
        // SAFETY: `view` is a buffer to be filled in; `exported` lives until it is released.
        unsafe {
            (*view).buf = memory.address().cast_mut().cast::<c_void>();
            (*view).len = (data.numel() * dtype.size()) as isize;
            (*view).readonly = 1;
            (*view).itemsize = dtype.size() as isize;
            (*view).format = if flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT {
                (*exported).format.as_ptr().cast_mut()
            } else {
                std::ptr::null_mut()
            };
            (*view).ndim = rank as c_int;
            let nd = flags & ffi::PyBUF_ND == ffi::PyBUF_ND;
            (*view).shape = if nd { (&raw mut (*exported).shape).cast() } else { std::ptr::null_mut() };
            let strided = flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES;
            (*view).strides = if strided { (&raw mut (*exported).strides).cast() } else { std::ptr::null_mut() };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = exported.cast();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: filled in by `__getbuffer__`, and released once.
        drop(unsafe { Box::from_raw((*view).internal.cast::<ExportedBuffer>()) });
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        #[pymethods]
        impl Array {
            $(
                $(#[$doc])*
                #[pyo3(signature = (axis = None, *, keepdims = false))]
                fn $name(&self, py: Python<'_>, axis: Option<AxisArg>, keepdims: bool) -> PyResult<Data> {
                    reduce(py, Reduction::$op, self.data(), axis, keepdims)
                }
            )*
        }
    };
}

reductions! {
    /// Sum over axes; see ``thalweg.sum``.
    sum Sum;
    /// Product over axes; see ``thalweg.prod``.
    prod Prod;
    /// Mean over axes; see ``thalweg.mean``.
    mean Mean;
    /// Maximum over axes; see ``thalweg.max``.
    max Max;
    /// Minimum over axes; see ``thalweg.min``.
    min Min;
    /// Whether any element is true; see ``thalweg.any``.
    any Any;
    /// Whether all elements are true; see ``thalweg.all``.
    all All;
}
