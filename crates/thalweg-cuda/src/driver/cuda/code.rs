//! Loaded code, and its launches.
//!
//! In: machine code, or a library's call. Out: functions, whose handles point to entries, and launches in a queue.
//!
//! Always true: an entry lives as long as any function of it, since functions keep its module.

use super::api::SUCCESS;
use super::gpu::{Gpu, QueueGuard};
use crate::driver::{Function, FunctionInfo, Launch, Module};
use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute_enum as FunctionAttribute, CUlaunchAttribute, CUlaunchAttributeID,
    CUlaunchAttributeValue, CUlaunchConfig, CUmodule,
};
use std::ffi::{CString, c_void};
use std::ptr::{from_ref, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use thalweg_runtime::Error;

/// Bytes of dynamic shared memory that a block may have without raising the function's limit.
const SHARED_BY_DEFAULT: u32 = 48 << 10;

/// Loaded CUDA module with its functions.
struct Code {
    gpu: Arc<Gpu>,
    module: CUmodule,
    entries: Box<[Entry]>,
}

/// Function of a module, or of a library. The handle of a [`Function`] is its address.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) what: What,
}

/// Code that an entry runs.
#[derive(Debug)]
pub(super) enum What {
    /// Kernel of a module, and the current limit of its dynamic shared memory in bytes.
    Kernel { function: CUfunction, allowed: AtomicU32 },
    /// Function of a library.
    Library(Box<dyn LibraryCall>),
}

/// Function of a library with all but its addresses: the entry of a function that is not a kernel.
pub(super) trait LibraryCall: std::fmt::Debug + Send + Sync {
    /// Submits the call, with its argument words, to a stream; the context must be current.
    ///
    /// # Errors
    /// The library's message.
    fn launch(&self, words: &[u64], stream: usize) -> Result<(), String>;
}

/// Module of a library's function: owns the entry that the function's handle points to.
#[derive(Debug)]
struct LibraryEntry(Entry);

impl Module for LibraryEntry {}

/// Function that runs a library's call with a workspace of that many bytes.
pub(super) fn library_function(name: &str, call: Box<dyn LibraryCall>, workspace: usize) -> Function {
    let module = Arc::new(LibraryEntry(Entry { name: name.into(), what: What::Library(call) }));
    let info = FunctionInfo { workspace: Some(workspace), ..FunctionInfo::default() };
    Function { handle: from_ref(&module.0) as usize, module, info }
}

// SAFETY: the driver's handles may be used on any thread, several at once.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

// SAFETY: the driver's handles may be used on any thread, several at once.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Module for Code {}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|e| &e.name)).finish()
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // A launch of one of its functions may still be in a queue.
        if !self.module.is_null() && self.gpu.drain_all().is_ok() {
            // SAFETY: loaded in `load`; no function of it exists any more.
            unsafe { (self.gpu.api.module_unload)(self.module) };
        }
    }
}

/// Returns the entry of a function's handle.
pub(super) fn entry(function: &Function) -> &Entry {
    // SAFETY: handles are created in `load`, from entries of the code that `function.module` keeps.
    unsafe { &*(function.handle as *const Entry) }
}

impl Entry {
    /// Returns the kernel, and its current limit of dynamic shared memory in bytes; an error for a library GEMM.
    fn kernel(&self, gpu: &Gpu) -> Result<(CUfunction, &AtomicU32), Error> {
        match &self.what {
            What::Kernel { function, allowed } => Ok((*function, allowed)),
            What::Library(_) => {
                let message = format!("{} is no kernel", self.name);
                Err(Error::Device { device: gpu.name.clone(), message })
            }
        }
    }

    fn ask(&self, gpu: &Gpu, attribute: FunctionAttribute) -> Result<u32, Error> {
        let (function, mut value) = (self.kernel(gpu)?.0, 0);
        // SAFETY: an out-pointer to a number, and a loaded function.
        let asked = unsafe { (gpu.api.function_get)(&mut value, attribute as u32, function) };
        gpu.check("cuFuncGetAttribute", asked)?;
        Ok(value.max(0) as u32)
    }

    /// Raises the kernel's limit of dynamic shared memory to `shared` bytes where it is lower; returns the kernel.
    pub(super) fn allow(&self, gpu: &Gpu, shared: u32) -> Result<CUfunction, Error> {
        let (function, allowed) = self.kernel(gpu)?;
        if shared <= allowed.load(Relaxed) {
            return Ok(function);
        }
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32;
        // SAFETY: a loaded function.
        let set = unsafe { (gpu.api.function_set)(function, attribute, shared as i32) };
        gpu.check("cuFuncSetAttribute", set)?;
        allowed.fetch_max(shared, Relaxed);
        Ok(function)
    }
}

/// Loads machine code, and looks up functions in it.
pub(super) fn load(gpu: &Arc<Gpu>, image: &[u8], functions: &[&str]) -> Result<Vec<Function>, Error> {
    gpu.enter()?;
    let mut code = Code { gpu: gpu.clone(), module: null_mut(), entries: Box::default() };
    // SAFETY: an out-pointer to a handle, and an image as `compile` returns it; PTX is zero-terminated.
    gpu.check("cuModuleLoadData", unsafe { (gpu.api.module_load)(&mut code.module, image.as_ptr().cast()) })?;
    let find = |&name: &&str| -> Result<Entry, Error> {
        let mut function = null_mut();
        let text = CString::new(name).map_err(|_| Error::Value(format!("{name:?} is no name of a function")))?;
        // SAFETY: an out-pointer to a handle, the module just loaded, and a zero-terminated text.
        let found = unsafe { (gpu.api.module_function)(&mut function, code.module, text.as_ptr()) };
        gpu.check(&format!("cuModuleGetFunction({name})"), found)?;
        let what = What::Kernel { function, allowed: AtomicU32::new(SHARED_BY_DEFAULT) };
        Ok(Entry { name: name.into(), what })
    };
    code.entries = functions.iter().map(find).collect::<Result<_, _>>()?;
    let code = Arc::new(code);
    let function = |entry: &Entry| -> Result<Function, Error> {
        let info = FunctionInfo {
            registers: entry.ask(gpu, FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local: entry.ask(gpu, FunctionAttribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            shared: entry.ask(gpu, FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            workspace: None,
        };
        Ok(Function { handle: from_ref(entry) as usize, module: code.clone(), info })
    };
    code.entries.iter().map(function).collect()
}

/// Submits a launch to a queue.
pub(super) fn launch(gpu: &Gpu, turn: &mut QueueGuard<'_>, launch: &Launch) -> Result<(), Error> {
    let entry = entry(&launch.function);
    if let What::Library(call) = &entry.what {
        // No launch after it may start early: the library does not document whether its kernels wait for earlier ones
        // to end.
        let failed = |message| Error::Device { device: gpu.name.clone(), message };
        return call.launch(&launch.arguments, turn.handle as usize).map_err(failed);
    }
    let function = entry.allow(gpu, launch.shared)?;
    let ([x, y, z], mut words) = (launch.grid, [launch.arguments.as_ptr().cast_mut().cast::<c_void>()]);
    let after_launch = turn.after_launch;
    turn.launched();
    turn.after_launch = true;
    if launch.early && after_launch && gpu.overlaps.load(Relaxed) {
        let mut value = CUlaunchAttributeValue { pad: [0; 64] };
        value.programmaticStreamSerializationAllowed = 1;
        let id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        let mut attribute = CUlaunchAttribute { id, pad: [0; 4], value };
        let config = CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: launch.block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.shared,
            hStream: turn.handle,
            attrs: &raw mut attribute,
            numAttrs: 1,
        };
        // SAFETY: as below; the attribute outlives the call.
        let put = unsafe { (gpu.api.launch_with)(&config, function, words.as_mut_ptr(), null_mut()) };
        if put == SUCCESS {
            return Ok(());
        }
        return gpu.check(&format!("launch of {} ({x}×{y}×{z} blocks of {} threads)", entry.name, launch.block), put);
    }
    // SAFETY: a loaded function of one parameter as long as the words, which are copied in the call.
    let put = unsafe {
        (gpu.api.launch)(
            function,
            x,
            y,
            z,
            launch.block,
            1,
            1,
            launch.shared,
            turn.handle,
            words.as_mut_ptr(),
            null_mut(),
        )
    };
    if put == SUCCESS {
        return Ok(());
    }
    let what = format!("launch of {} ({x}×{y}×{z} blocks of {} threads)", entry.name, launch.block);
    gpu.check(&what, put)
}
