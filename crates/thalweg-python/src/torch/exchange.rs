//! Tensors of PyTorch in and out by DLPack's C table of functions, without capsules and without a copy.
//!
//! In: `torch.Tensor` objects, and memory of computed tensors. Out: descriptions of their memory, and `torch.Tensor`
//! objects. Always true: a description is used only while its object is alive.

use crate::dlpack::{CPU, CUDA, RawTensor, Versioned, dtype_of, managed};
use crate::dtype::ArrayDType;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use thalweg::{DType, MAX_RANK, Shape, TensorMemory};

/// `DLPackExchangeAPI`.
#[repr(C)]
struct Functions {
    major: u32,
    minor: u32,
    previous: *const c_void,
    allocate: *const c_void,
    to_managed: *const c_void,
    from_managed: Option<unsafe extern "C" fn(*mut Versioned, *mut *mut ffi::PyObject) -> c_int>,
    describe: Option<unsafe extern "C" fn(*mut ffi::PyObject, *mut RawTensor) -> c_int>,
    current_stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

/// PyTorch's table of functions, which lives as long as the process.
#[derive(Clone, Copy)]
pub struct Exchange(&'static Functions);

// SAFETY: the table is constant.
unsafe impl Send for Exchange {}
// SAFETY: as above.
unsafe impl Sync for Exchange {}

/// Memory of a tensor of PyTorch, valid while the tensor is.
pub struct Described {
    /// Address of the element at index 0 of every dimension.
    pub address: *mut u8,
    /// GPU that the memory is on; `None` for the host.
    pub gpu: Option<i32>,
    /// Dtype of the elements.
    pub dtype: DType,
    /// Sizes of the dimensions.
    pub shape: Shape,
    /// Distance of neighbours in each dimension, in elements.
    pub strides: [isize; MAX_RANK],
}

// SAFETY: the address is used under the contract of `Described`.
unsafe impl Send for Described {}

impl Exchange {
    /// Handle of PyTorch's current stream on a GPU, on the calling thread.
    pub fn current_stream(self, gpu: i32) -> usize {
        let mut stream = std::ptr::null_mut();
        if let Some(current) = self.0.current_stream {
            // SAFETY: the function of the table, which fills the handle or leaves it null: the default stream.
            unsafe { current(CUDA, gpu, &mut stream) };
        }
        stream.addr()
    }

    /// The table of the installed PyTorch.
    ///
    /// # Errors
    /// When PyTorch is older than 2.10 and has none.
    pub fn get(py: Python<'_>) -> PyResult<Exchange> {
        static TABLE: PyOnceLock<Exchange> = PyOnceLock::new();
        let find = || -> PyResult<Exchange> {
            let missing = || PyRuntimeError::new_err("thalweg.torch: needs PyTorch 2.11 or newer");
            let class = py.import("torch")?.getattr("Tensor")?;
            let capsule = class.getattr("__dlpack_c_exchange_api__").map_err(|_| missing())?;
            let capsule = capsule.cast_into::<PyCapsule>().map_err(|_| missing())?;
            // SAFETY: the object is a capsule; the name is the standard's.
            let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dlpack_exchange_api".as_ptr()) };
            if table.is_null() {
                return Err(PyErr::fetch(py));
            }
            // SAFETY: the standard's layout, and it is never freed.
            let functions = unsafe { &*table.cast::<Functions>() };
            if functions.major != 1 || functions.from_managed.is_none() || functions.describe.is_none() {
                return Err(missing());
            }
            Ok(Exchange(functions))
        };
        TABLE.get_or_try_init(py, find).copied()
    }

    /// Memory of a tensor of PyTorch on the CPU or on a GPU by CUDA; `None` if no tensor of Thalweg describes it.
    pub fn describe(self, object: &Bound<'_, PyAny>) -> Option<Described> {
        let mut raw = std::mem::MaybeUninit::<RawTensor>::zeroed();
        let describe = self.0.describe?;
        // SAFETY: the object is alive; the function fills the description or fails with an exception.
        let status = unsafe { describe(object.as_ptr(), raw.as_mut_ptr()) };
        if status != 0 {
            drop(PyErr::take(object.py()));
            return None;
        }
        // SAFETY: the function has filled it.
        let raw = unsafe { raw.assume_init() };
        let Some(ArrayDType::Real(dtype)) = dtype_of(raw.dtype) else { return None };
        let rank = usize::try_from(raw.rank).ok()?;
        let gpu = match raw.device.kind {
            CPU => None,
            CUDA => Some(raw.device.number),
            _ => return None,
        };
        if rank > MAX_RANK {
            return None;
        }
        let (mut sizes, mut strides) = ([0; MAX_RANK], [0; MAX_RANK]);
        for i in 0..rank {
            // SAFETY: both lists have `rank` numbers; PyTorch always writes strides.
            unsafe {
                sizes[i] = usize::try_from(*raw.shape.add(i)).ok()?;
                strides[i] = *raw.strides.add(i) as isize;
            }
        }
        let address = raw.data.cast::<u8>().wrapping_add(raw.byte_offset as usize);
        Some(Described { address, gpu, dtype, shape: Shape::new(&sizes[..rank]), strides })
    }

    /// A tensor of PyTorch over the memory of a computed tensor, with its dimensions reordered: dimension `i` of the
    /// result is dimension `order[i]` of the memory.
    ///
    /// # Errors
    /// What PyTorch raises.
    pub fn export<'py>(self, py: Python<'py>, memory: TensorMemory, order: &[usize]) -> PyResult<Bound<'py, PyAny>> {
        let dims: Vec<_> = order.iter().map(|&i| (memory.shape().dims()[i], memory.strides()[i])).collect();
        let managed = managed(memory, dims.into_iter());
        let from_managed = self.0.from_managed.expect("checked when the table was found");
        let mut object = std::ptr::null_mut();
        // SAFETY: the description is complete; PyTorch takes it over, and calls the deleter.
        let status = unsafe { from_managed(managed, &mut object) };
        match NonNull::new(object) {
            // SAFETY: a new reference.
            Some(object) if status == 0 => Ok(unsafe { Bound::from_owned_ptr(py, object.as_ptr()) }),
            _ => Err(PyErr::fetch(py)),
        }
    }
}
