//! Tensors of PyTorch in and out by DLPack's C table of functions, without capsules and without a copy.
//!
//! In: `torch.Tensor` objects, and memory of computed tensors. Out: descriptions of their memory, and `torch.Tensor`
//! objects. Always true: a description is used only while its object is alive.

use crate::dlpack::{CPU, CUDA, device_of};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use thalweg::{DType, MAX_RANK, Shape, TensorMemory};

/// `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawTensor {
    data: *mut c_void,
    device_kind: i32,
    device_number: i32,
    rank: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Managed {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: RawTensor,
}

/// `DLPackExchangeAPI`.
#[repr(C)]
struct Functions {
    major: u32,
    minor: u32,
    previous: *const c_void,
    allocate: *const c_void,
    to_managed: *const c_void,
    from_managed: Option<unsafe extern "C" fn(*mut Managed, *mut *mut ffi::PyObject) -> c_int>,
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

/// Memory of an exported tensor, and the lists that its description points to.
struct Exported {
    shape: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
    _memory: TensorMemory,
    managed: Managed,
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: the context is the leaked box, and PyTorch calls the deleter once.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Exported>()) });
}

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
        let dtype = match (raw.code, raw.bits, raw.lanes) {
            (2, 32, 1) => DType::F32,
            (2, 64, 1) => DType::F64,
            (2, 16, 1) => DType::F16,
            (4, 16, 1) => DType::BF16,
            (0, 8, 1) => DType::I8,
            (0, 16, 1) => DType::I16,
            (0, 32, 1) => DType::I32,
            (0, 64, 1) => DType::I64,
            (1, 8, 1) => DType::U8,
            (1, 16, 1) => DType::U16,
            (1, 32, 1) => DType::U32,
            (1, 64, 1) => DType::U64,
            (6, 8, 1) => DType::Bool,
            _ => return None,
        };
        let rank = usize::try_from(raw.rank).ok()?;
        let gpu = match raw.device_kind {
            CPU => None,
            CUDA => Some(raw.device_number),
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
        let rank = order.len();
        let (code, bits) = match memory.dtype() {
            DType::Bool => (6, 8),
            DType::BF16 => (4, 16),
            d if d.is_float() => (2, d.size() * 8),
            d => (u8::from(!d.is_signed()), d.size() * 8),
        };
        let (device_kind, device_number) = device_of(memory.device());
        let raw = RawTensor {
            data: memory.address().cast_mut().cast(),
            device_kind,
            device_number,
            rank: rank as i32,
            code,
            bits: bits as u8,
            lanes: 1,
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let (mut shape, mut strides) = ([0; MAX_RANK], [0; MAX_RANK]);
        for (i, &from) in order.iter().enumerate() {
            shape[i] = memory.shape().dims()[from] as i64;
            strides[i] = memory.strides()[from] as i64;
        }
        let managed =
            Managed { major: 1, minor: 1, context: std::ptr::null_mut(), deleter: Some(delete), flags: 0, tensor: raw };
        let exported = Box::into_raw(Box::new(Exported { shape, strides, _memory: memory, managed }));
        let from_managed = self.0.from_managed.expect("checked when the table was found");
        let mut object = std::ptr::null_mut();
        // SAFETY: the box is alive and not moved; PyTorch takes it over, and calls the deleter.
        let status = unsafe {
            let managed = &raw mut (*exported).managed;
            (*managed).context = exported.cast();
            (*managed).tensor.shape = (&raw mut (*exported).shape).cast();
            (*managed).tensor.strides = (&raw mut (*exported).strides).cast();
            from_managed(managed, &mut object)
        };
        match NonNull::new(object) {
            // SAFETY: a new reference.
            Some(object) if status == 0 => Ok(unsafe { Bound::from_owned_ptr(py, object.as_ptr()) }),
            _ => Err(PyErr::fetch(py)),
        }
    }
}
