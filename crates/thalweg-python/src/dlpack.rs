//! DLPack: arrays shared with other libraries without a copy.
//!
//! In: capsules `dltensor` and `dltensor_versioned`, or objects that make them. Out: arrays over the same memory, and
//! capsules of arrays. Always true: a capsule is consumed at most once; its deleter is called once, when the last array
//! that reads its memory is gone; a capsule that cannot be taken is an error and stays usable.

use crate::dtype::{ArrayDType, ArrayDType::Real};
use crate::error::{run, run_fallible, type_error, value_error};
use crate::handle::Data;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use thalweg::{Complex, DType, Device, MAX_RANK, Shape, Tensor, TensorMemory};

/// Version of DLPack that capsules are written in.
const VERSION: (u32, u32) = (1, 1);
const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;
/// Device types of the standard.
pub const CPU: i32 = 1;
pub const CUDA: i32 = 2;
/// CUDA's handle of the legacy default stream, and its number in the standard.
const LEGACY_STREAM: usize = 1;
const CUDA_HOST: i32 = 3;
const CUDA_MANAGED: i32 = 13;

const PLAIN: &CStr = c"dltensor";
const PLAIN_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// `DLDevice`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawDevice {
    /// Type of the device, such as [`CPU`].
    pub kind: i32,
    /// Number among the devices of the type.
    pub number: i32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawDType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
pub struct RawTensor {
    /// Address that `byte_offset` counts from.
    pub data: *mut c_void,
    /// Device that the memory is on.
    pub device: RawDevice,
    /// Number of dimensions.
    pub rank: i32,
    /// Dtype of the elements.
    pub dtype: RawDType,
    /// Sizes of the dimensions.
    pub shape: *mut i64,
    /// Strides in elements; null for row-major.
    pub strides: *mut i64,
    /// Bytes from `data` to the element at index 0 of every dimension.
    pub byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Plain {
    tensor: RawTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Plain)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
pub struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: RawTensor,
}

/// State of an exported capsule: the memory of the array, and the lists that the capsule points to.
struct Exported {
    shape: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
    _memory: TensorMemory,
    plain: Plain,
    versioned: Versioned,
}

fn raw_dtype(dtype: ArrayDType) -> RawDType {
    let (code, bits) = match dtype {
        Real(DType::Bool) => (6, 8),
        Real(DType::BF16) => (4, 16),
        Real(d) if d.is_float() => (2, d.size() * 8),
        Real(d) => (u8::from(!d.is_signed()), d.size() * 8),
        _ => (5, dtype.size() * 8),
    };
    RawDType { code, bits: bits as u8, lanes: 1 }
}

/// Dtype of a description; `None` if no array has it.
pub fn dtype_of(raw: RawDType) -> Option<ArrayDType> {
    ArrayDType::ALL.into_iter().find(|&d| raw_dtype(d) == raw)
}

/// Device type and number of a device, as `__dlpack_device__` returns them.
pub fn device_of(device: Device) -> (i32, i32) {
    match device.name().split_once(':') {
        Some(("cuda", number)) => (CUDA, number.parse().unwrap_or(0)),
        _ => (CPU, 0),
    }
}

/// Capsule of an array. Complex arrays are copied into interleaved form, since they are stored as two parts; the others
/// share their memory. `versioned`: whether the consumer knows versions (`max_version` of 1 or more).
///
/// # Errors
/// When the value cannot be computed, or `copy` forbids the copy of a complex array.
pub fn export<'py>(
    py: Python<'py>,
    data: &Data,
    versioned: bool,
    copy: Option<bool>,
    stream: Option<i64>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let dtype = data.dtype();
    let mut copied = copy == Some(true);
    let tensor = match data {
        Data::Real(x) => x.clone(),
        Data::Complex(_) if copy == Some(false) => {
            let message = "__dlpack__: complex arrays are stored as two parts, so they are always copied";
            return Err(PyBufferError::new_err(message));
        }
        Data::Complex(z) => {
            copied = true;
            run(py, || z.view_as_real())?
        }
    };
    let memory = run_fallible(py, || {
        let memory = if copied { tensor.deep_copy()?.memory()? } else { tensor.memory()? };
        if let Ok(stream) = usize::try_from(stream.unwrap_or(LEGACY_STREAM as i64)) {
            // SAFETY: the consumer's stream, on the device that `__dlpack_device__` names; -1 is none.
            unsafe { memory.device().before_stream(stream)? };
        }
        Ok(memory)
    })?;
    let pair = if dtype.is_complex() { 2 } else { 1 };
    let dims = data.dims().iter().zip(memory.strides()).map(|(&n, &stride)| (n, stride / pair));
    let exported = Exported::leaked(memory.clone(), dtype, dims);
    // SAFETY: `exported` was just leaked; the consumer's call of the deleter, or the capsule's destructor, frees it once.
    unsafe {
        if versioned {
            let managed = &raw mut (*exported).versioned;
            (*managed).flags = if copied { COPIED } else { READ_ONLY };
            let pointer = NonNull::new_unchecked(managed.cast::<c_void>());
            PyCapsule::new_with_pointer_and_destructor(py, pointer, VERSIONED, Some(destroy))
        } else {
            let managed = &raw mut (*exported).plain;
            let pointer = NonNull::new_unchecked(managed.cast::<c_void>());
            PyCapsule::new_with_pointer_and_destructor(py, pointer, PLAIN, Some(destroy))
        }
    }
}

impl Exported {
    /// State that frees itself when the deleter of one of its two forms is called. `dims` are sizes and strides in
    /// elements of `dtype`.
    fn leaked(memory: TensorMemory, dtype: ArrayDType, dims: impl Iterator<Item = (usize, isize)>) -> *mut Exported {
        let (mut shape, mut strides, mut rank) = ([0; MAX_RANK], [0; MAX_RANK], 0);
        for (n, stride) in dims {
            (shape[rank], strides[rank]) = (n as i64, stride as i64);
            rank += 1;
        }
        let (kind, number) = device_of(memory.device());
        let data = memory.address().cast_mut().cast();
        let tensor = || RawTensor {
            data,
            device: RawDevice { kind, number },
            rank: rank as i32,
            dtype: raw_dtype(dtype),
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let context = std::ptr::null_mut();
        let plain = Plain { tensor: tensor(), context, deleter: Some(delete_plain) };
        let (major, minor) = VERSION;
        let versioned =
            Versioned { major, minor, context, deleter: Some(delete_versioned), flags: 0, tensor: tensor() };
        let exported = Box::into_raw(Box::new(Exported { shape, strides, _memory: memory, plain, versioned }));
        // SAFETY: the box was just leaked and does not move.
        let state = unsafe { &mut *exported };
        let (shape, strides) = (state.shape.as_mut_ptr(), state.strides.as_mut_ptr());
        for tensor in [&mut state.plain.tensor, &mut state.versioned.tensor] {
            (tensor.shape, tensor.strides) = (shape, strides);
        }
        (state.plain.context, state.versioned.context) = (exported.cast(), exported.cast());
        exported
    }
}

/// Description of a computed tensor's memory, which its consumer frees by the deleter. `dims` are sizes and strides in
/// elements.
pub fn managed(memory: TensorMemory, dims: impl Iterator<Item = (usize, isize)>) -> *mut Versioned {
    let dtype = Real(memory.dtype());
    let exported = Exported::leaked(memory, dtype, dims);
    // SAFETY: the box was just leaked.
    unsafe { &raw mut (*exported).versioned }
}

unsafe extern "C" fn delete_plain(managed: *mut Plain) {
    // SAFETY: the context is the leaked box, and a consumer calls the deleter once.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Exported>()) });
}

unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: as above.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Exported>()) });
}

/// Destructor of a capsule: frees the array unless a consumer renamed the capsule and so took it over.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this with the capsule, attached; the names say what it points to.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) == 1 {
            let managed = ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast::<Plain>();
            if let Some(deleter) = (*managed).deleter {
                deleter(managed);
            }
        } else if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            let managed = ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast::<Versioned>();
            if let Some(deleter) = (*managed).deleter {
                deleter(managed);
            }
        }
    }
}

/// Another library's memory, freed by its deleter.
enum Imported {
    Plain(*mut Plain),
    Versioned(*mut Versioned),
}

// SAFETY: the standard requires that a deleter may be called from any thread.
unsafe impl Send for Imported {}
// SAFETY: the pointer is only used by `drop`.
unsafe impl Sync for Imported {}

impl Drop for Imported {
    fn drop(&mut self) {
        // SAFETY: the capsule was taken over, so this is the only call of the deleter.
        unsafe {
            match *self {
                Imported::Plain(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
                Imported::Versioned(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
            }
        }
    }
}

/// Permission of an import to copy memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    /// Copy always.
    Always,
    /// Copy if needed.
    IfNeeded,
    /// Raise instead.
    Never,
}

impl Copy {
    /// The standard's `copy` argument.
    pub fn of(copy: Option<bool>) -> Copy {
        match copy {
            Some(true) => Copy::Always,
            Some(false) => Copy::Never,
            None => Copy::IfNeeded,
        }
    }
}

/// Array over the memory of an object with `__dlpack__`.
///
/// # Errors
/// As [`import`], and whatever the object raises.
pub fn import_object(object: &Bound<'_, PyAny>, copy: Copy) -> PyResult<Data> {
    let py = object.py();
    if !object.hasattr("__dlpack__")? || !object.hasattr("__dlpack_device__")? {
        let kind = object.get_type().name()?;
        return Err(type_error(py, format!("from_dlpack: {kind} has no __dlpack__ and __dlpack_device__")));
    }
    let (kind, _): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    let options = PyDict::new(py);
    if kind == CUDA || kind == CUDA_MANAGED {
        options.set_item("stream", LEGACY_STREAM)?;
    }
    let plain = options.copy()?;
    options.set_item("max_version", VERSION)?;
    let capsule = match object.call_method("__dlpack__", (), Some(&options)) {
        // A producer that does not know `max_version`.
        Err(e) if e.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            object.call_method("__dlpack__", (), Some(&plain))?
        }
        other => other?,
    };
    import(&capsule, copy)
}

/// Array over the memory of a capsule, which is consumed. Memory that is not aligned to its elements, and complex
/// numbers, are copied.
///
/// # Errors
/// `TypeError` if it is no capsule of DLPack; `ValueError` if it was consumed before, or its device, dtype or strides
/// are none that Thalweg has; `BufferError` if it would have to be copied and `copy` forbids that.
pub fn import(capsule: &Bound<'_, PyAny>, copy: Copy) -> PyResult<Data> {
    let py = capsule.py();
    let is = |name: &CStr| {
        // SAFETY: the object is alive; the function checks whether it is a capsule.
        unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 1 }
    };
    let pointer = |name: &CStr| {
        // SAFETY: a capsule with this name.
        unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) }
    };
    let take = |name: &'static CStr| {
        // SAFETY: a valid capsule; the name is static.
        unsafe {
            ffi::PyCapsule_SetName(capsule.as_ptr(), name.as_ptr());
            // Its destructor must not run the deleter, which is ours now; most destructors look at the name as well.
        }
    };
    if is(VERSIONED) {
        let managed = pointer(VERSIONED).cast::<Versioned>();
        // SAFETY: the standard's layout of a capsule with this name; the version comes first in every version.
        let (major, minor) = unsafe { ((*managed).major, (*managed).minor) };
        if major != VERSION.0 {
            return Err(PyBufferError::new_err(format!("from_dlpack: version {major}.{minor} is not supported")));
        }
        // SAFETY: as above.
        let layout = unsafe { Layout::check(py, &(*managed).tensor)? };
        take(VERSIONED_USED);
        layout.array(py, Imported::Versioned(managed), copy)
    } else if is(PLAIN) {
        let managed = pointer(PLAIN).cast::<Plain>();
        // SAFETY: the standard's layout of a capsule with this name.
        let layout = unsafe { Layout::check(py, &(*managed).tensor)? };
        take(PLAIN_USED);
        layout.array(py, Imported::Plain(managed), copy)
    } else if is(PLAIN_USED) || is(VERSIONED_USED) {
        Err(value_error(py, "from_dlpack: the capsule was consumed before"))
    } else {
        Err(type_error(py, format!("from_dlpack: {} is no capsule of DLPack", capsule.get_type().name()?)))
    }
}

/// First and last byte of a tensor's memory; `None` if they are no addresses. Reaches of axes are below 2⁴⁷ bytes.
fn span(raw: &RawTensor, sizes: &[usize], strides: &[isize], size: usize) -> Option<(usize, usize)> {
    let (mut low, mut high) = (0isize, size as isize - 1);
    for (&count, &stride) in sizes.iter().zip(strides) {
        let reach = (count as isize - 1) * stride * size as isize;
        if reach < 0 { low += reach } else { high += reach }
    }
    let start = raw.data.addr().checked_add(usize::try_from(raw.byte_offset).ok()?)?;
    let (first, last) = (start.checked_add_signed(low)?, start.checked_add_signed(high)?);
    (last <= isize::MAX as usize).then_some((first, last))
}

/// Whether the page of an address is mapped: two calls of the kernel tell wrong strides, offsets and unmapped memory
/// before anything reads there. Memory that was freed but not unmapped cannot be told.
#[cfg(target_os = "linux")]
fn is_mapped(address: usize) -> bool {
    // SAFETY: a query of a constant.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
    let mut resident = 0u8;
    // SAFETY: `mincore` reads no memory at the address; it writes one byte, of the one page.
    let status = unsafe { libc::mincore(std::ptr::without_provenance_mut(address / page * page), 1, &mut resident) };
    status == 0
}

#[cfg(not(target_os = "linux"))]
fn is_mapped(_: usize) -> bool {
    true
}

/// Checked description of imported memory.
struct Layout {
    address: *mut u8,
    dtype: ArrayDType,
    shape: Shape,
    strides: [isize; MAX_RANK],
    device: Device,
}

impl Layout {
    /// Checks a capsule's tensor.
    ///
    /// # Safety
    /// Shape and strides point to lists of as many numbers as it says.
    unsafe fn check(py: Python<'_>, raw: &RawTensor) -> PyResult<Layout> {
        let refuse = |text: String| value_error(py, format!("from_dlpack: {text}"));
        let Some(dtype) = dtype_of(raw.dtype) else {
            let RawDType { code, bits, lanes } = raw.dtype;
            return Err(type_error(
                py,
                format!("from_dlpack: no dtype has code {code}, {bits} bits and {lanes} lanes"),
            ));
        };
        let rank = usize::try_from(raw.rank).map_err(|_| refuse(format!("rank {}", raw.rank)))?;
        if rank > MAX_RANK {
            return Err(refuse(format!("rank {rank} is over the limit of {MAX_RANK}")));
        }
        if rank > 0 && raw.shape.is_null() {
            return Err(refuse("there is no shape".into()));
        }
        let (mut sizes, mut strides) = ([0usize; MAX_RANK], [0isize; MAX_RANK]);
        for (i, size) in sizes[..rank].iter_mut().enumerate() {
            // SAFETY: the list has `rank` numbers.
            let given = unsafe { *raw.shape.add(i) };
            *size = usize::try_from(given).map_err(|_| refuse(format!("axis {i} has {given} elements")))?;
        }
        let shape = Shape::new(&sizes[..rank]);
        let total = sizes[..rank].iter().try_fold(dtype.size(), |n, &d| n.checked_mul(d.max(1)));
        if total.is_none_or(|n| n > isize::MAX as usize) {
            return Err(refuse(format!("shape {shape} is beyond any memory")));
        }
        let mut step = 1isize;
        for i in (0..rank).rev() {
            strides[i] = if raw.strides.is_null() {
                step
            } else {
                // SAFETY: the list has `rank` numbers.
                (unsafe { *raw.strides.add(i) }) as isize
            };
            step = step.saturating_mul(sizes[i].max(1) as isize);
            let reach = (sizes[i].max(1) as isize - 1).checked_mul(strides[i]);
            if reach.and_then(|r| r.checked_mul(dtype.size() as isize)).is_none_or(|r| r.unsigned_abs() > 1 << 47) {
                return Err(refuse(format!("stride {} of axis {i} is beyond any memory", strides[i])));
            }
        }
        let device = match raw.device.kind {
            CPU | CUDA_HOST => Device::cpu(),
            CUDA | CUDA_MANAGED => {
                let number = usize::try_from(raw.device.number).unwrap_or(usize::MAX);
                run_fallible(py, || Device::cuda(number))?
            }
            other => return Err(PyBufferError::new_err(format!("from_dlpack: no device is of type {other}"))),
        };
        if shape.numel() > 0 && raw.data.is_null() {
            return Err(refuse("there is no data".into()));
        }
        let address = raw.data.cast::<u8>().wrapping_add(raw.byte_offset as usize);
        if shape.numel() > 0 {
            let (first, last) = span(raw, &sizes[..rank], &strides, dtype.size())
                .ok_or_else(|| refuse("offset and strides are beyond any memory".into()))?;
            if raw.device.kind == CPU && !(is_mapped(first) && is_mapped(last)) {
                return Err(refuse("the process has no memory there".into()));
            }
        }
        Ok(Layout { address, dtype, shape, strides, device })
    }

    /// Array over the memory, which `owner` frees.
    fn array(self, py: Python<'_>, owner: Imported, copy: Copy) -> PyResult<Data> {
        let strides = &self.strides[..self.shape.rank()];
        let size = self.dtype.part().size();
        if self.shape.numel() == 0 {
            let (shape, dtype) = (self.shape, self.dtype);
            let x = run(py, || Tensor::zeros_with(shape, (dtype.part(), self.device)))?;
            return Ok(Data::Real(x).cast(dtype));
        }
        let device = self.device;
        // SAFETY: the legacy stream is of every context. Producers made their memory ready on it.
        run_fallible(py, || unsafe { device.after_stream(LEGACY_STREAM) })?;
        let aligned = self.address.addr().is_multiple_of(size);
        if !aligned && device_of(self.device).0 == CUDA {
            return Err(PyBufferError::new_err("from_dlpack: device memory is not aligned to its elements"));
        }
        if copy == Copy::Never && (!aligned || self.dtype.is_complex()) {
            return Err(PyBufferError::new_err("from_dlpack: this array has to be copied, and copy=False forbids it"));
        }
        if !aligned {
            // SAFETY: every index maps into the memory, by the contract of DLPack.
            let bytes = unsafe { packed(self.address, &self.shape, strides, self.dtype.size()) };
            return from_bytes(py, &bytes, self.shape, self.dtype, self.device);
        }
        let address = NonNull::new(self.address).ok_or_else(|| value_error(py, "from_dlpack: there is no data"))?;
        if self.dtype == Real(DType::Bool) && device_of(self.device).0 == CPU {
            // Bytes other than 0 and 1 would be no bool.
            // SAFETY: as above.
            let bytes = unsafe { packed(self.address, &self.shape, strides, 1) };
            if bytes.iter().any(|&b| b > 1) {
                let bytes: Vec<u8> = bytes.iter().map(|&b| u8::from(b != 0)).collect();
                return from_bytes(py, &bytes, self.shape, self.dtype, self.device);
            }
        }
        if self.dtype.is_complex() {
            // Numbers are pairs of parts: a last axis of two.
            let mut dims = self.shape.dims().to_vec();
            let mut pairs: Vec<isize> = strides.iter().map(|s| s * 2).collect();
            if dims.len() == MAX_RANK {
                return Err(value_error(py, format!("from_dlpack: a complex array of rank {MAX_RANK}")));
            }
            dims.push(2);
            pairs.push(1);
            let (dtype, device) = (self.dtype.part(), self.device);
            // SAFETY: as above; the owner frees the memory.
            let parts = unsafe { Tensor::from_memory(address, &dims[..], &pairs, dtype, device, owner) };
            return Ok(Data::Complex(run_fallible(py, || {
                // Two dense parts of their own, so that the memory can be freed.
                let z = Complex::view_as_complex(&parts);
                Ok(Complex { re: z.re.deep_copy()?, im: z.im.deep_copy()? })
            })?));
        }
        // SAFETY: the contract of DLPack: memory of such a layout until the deleter is called.
        let x = unsafe { Tensor::from_memory(address, self.shape, strides, self.dtype.part(), self.device, owner) };
        Ok(Data::Real(if copy == Copy::Always { run_fallible(py, || x.deep_copy())? } else { x }))
    }
}

/// Elements in row-major order, copied from strided memory on the host.
///
/// # Safety
/// Every index maps to readable memory.
pub unsafe fn packed(address: *const u8, shape: &Shape, strides: &[isize], size: usize) -> Vec<u8> {
    let (dims, rank) = (shape.dims(), shape.rank());
    let mut bytes = Vec::with_capacity(shape.numel() * size);
    let mut index = [0usize; MAX_RANK];
    for _ in 0..shape.numel() {
        let offset: isize = (0..rank).map(|i| index[i] as isize * strides[i]).sum();
        // SAFETY: the caller's contract.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(address.wrapping_offset(offset * size as isize), size)
        });
        for i in (0..rank).rev() {
            index[i] += 1;
            if index[i] < dims[i] {
                break;
            }
            index[i] = 0;
        }
    }
    bytes
}

/// Array of bytes in row-major order.
///
/// # Errors
/// When the device has no memory for them.
pub fn from_bytes(py: Python<'_>, bytes: &[u8], shape: Shape, dtype: ArrayDType, device: Device) -> PyResult<Data> {
    fn of<T: thalweg::Element>(bytes: &[u8], shape: Shape, device: Device) -> Result<Tensor, thalweg::Error> {
        Tensor::try_from_slice(&T::from_bytes(bytes), shape, device)
    }
    run_fallible(py, || {
        if dtype.is_complex() {
            let pairs = Shape::new(&[shape.numel(), 2]);
            let parts = match dtype.part() {
                DType::F64 => of::<f64>(bytes, pairs, device)?,
                _ => of::<f32>(bytes, pairs, device)?,
            };
            let z = Complex::view_as_complex(&parts);
            return Ok(Data::Complex(Complex { re: z.re.reshape(shape), im: z.im.reshape(shape) }));
        }
        Ok(Data::Real(match dtype.part() {
            DType::F32 => of::<f32>(bytes, shape, device)?,
            DType::F64 => of::<f64>(bytes, shape, device)?,
            DType::BF16 => of::<half::bf16>(bytes, shape, device)?,
            DType::F16 => of::<half::f16>(bytes, shape, device)?,
            DType::I8 => of::<i8>(bytes, shape, device)?,
            DType::I16 => of::<i16>(bytes, shape, device)?,
            DType::I32 => of::<i32>(bytes, shape, device)?,
            DType::I64 => of::<i64>(bytes, shape, device)?,
            DType::U8 => of::<u8>(bytes, shape, device)?,
            DType::U16 => of::<u16>(bytes, shape, device)?,
            DType::U32 => of::<u32>(bytes, shape, device)?,
            DType::U64 => of::<u64>(bytes, shape, device)?,
            DType::Bool => of::<bool>(bytes, shape, device)?,
        }))
    })
}
