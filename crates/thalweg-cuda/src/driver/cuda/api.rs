//! Table of the driver's functions (cuda.h) that are used.
//!
//! In: the driver's library. Out: a table of its functions. Types and constants are cudarc's. Its functions are not
//! called: they panic where a driver is too old to have one, and return an enum, which a value that only a newer driver
//! knows must not become.
//!
//! Always true: all functions of the table exist, or there is no table.

use crate::find::{self, Opened, Sought};
use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode,
    CUlaunchConfig, CUmemAccessDesc, CUmemPoolProps, CUmemoryPool, CUmodule, CUstream, CUtensorMap,
};
use std::ffi::{CStr, c_char, c_uint, c_void};
use std::sync::OnceLock;
use thalweg_runtime::Error;

/// Result codes of the driver that are compared with.
pub(super) const SUCCESS: i32 = 0;
pub(super) const NO_DEVICE: i32 = 100;
pub(super) const NOT_READY: i32 = 600;

macro_rules! functions {
    ($($name:ident: $symbol:literal ($($type:ty),*);)*) => {
        /// Table of functions. They all return [`SUCCESS`] or an error code.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($type),*) -> i32,)*
        }

        impl Api {
            fn new(opened: &Opened) -> Result<Api, String> {
                $(
                    // SAFETY: the types are those of cuda.h, and the library is never closed.
                    let $name = unsafe { opened.library.get::<unsafe extern "C" fn($($type),*) -> i32>($symbol.as_bytes()) };
                    let $name = *$name.map_err(|_| format!("{} has no {}", opened.path.display(), $symbol))?;
                )*
                Ok(Api { $($name),* })
            }
        }
    };
}

functions! {
    init: "cuInit" (c_uint);
    version: "cuDriverGetVersion" (*mut i32);
    error_name: "cuGetErrorName" (i32, *mut *const c_char);
    error_text: "cuGetErrorString" (i32, *mut *const c_char);
    device_count: "cuDeviceGetCount" (*mut i32);
    device: "cuDeviceGet" (*mut CUdevice, i32);
    device_name: "cuDeviceGetName" (*mut c_char, i32, CUdevice);
    device_attribute: "cuDeviceGetAttribute" (*mut i32, u32, CUdevice);
    device_memory: "cuDeviceTotalMem_v2" (*mut usize, CUdevice);
    device_uuid: "cuDeviceGetUuid" (*mut [u8; 16], CUdevice);
    context: "cuDevicePrimaryCtxRetain" (*mut CUcontext, CUdevice);
    make_current: "cuCtxSetCurrent" (CUcontext);
    stream: "cuStreamCreate" (*mut CUstream, c_uint);
    stream_priority: "cuStreamCreateWithPriority" (*mut CUstream, c_uint, i32);
    stream_destroy: "cuStreamDestroy_v2" (CUstream);
    pool: "cuMemPoolCreate" (*mut CUmemoryPool, *const CUmemPoolProps);
    pool_set: "cuMemPoolSetAttribute" (CUmemoryPool, u32, *mut c_void);
    pool_trim: "cuMemPoolTrimTo" (CUmemoryPool, usize);
    pool_destroy: "cuMemPoolDestroy" (CUmemoryPool);
    pool_allocate: "cuMemAllocFromPoolAsync" (*mut CUdeviceptr, usize, CUmemoryPool, CUstream);
    pool_free: "cuMemFreeAsync" (CUdeviceptr, CUstream);
    allocate: "cuMemAlloc_v2" (*mut CUdeviceptr, usize);
    free: "cuMemFree_v2" (CUdeviceptr);
    host_allocate: "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    host_free: "cuMemFreeHost" (*mut c_void);
    to_device: "cuMemcpyHtoDAsync_v2" (CUdeviceptr, *const c_void, usize, CUstream);
    to_host: "cuMemcpyDtoHAsync_v2" (*mut c_void, CUdeviceptr, usize, CUstream);
    within: "cuMemcpyDtoDAsync_v2" (CUdeviceptr, CUdeviceptr, usize, CUstream);
    from_peer: "cuMemcpyPeerAsync" (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
    can_access: "cuDeviceCanAccessPeer" (*mut i32, CUdevice, CUdevice);
    current_device: "cuCtxGetDevice" (*mut CUdevice);
    pool_access: "cuMemPoolSetAccess" (CUmemoryPool, *const CUmemAccessDesc, usize);
    fill: "cuMemsetD8Async" (CUdeviceptr, u8, usize, CUstream);
    fill_rows_16: "cuMemsetD2D16Async" (CUdeviceptr, usize, u16, usize, usize, CUstream);
    fill_rows_32: "cuMemsetD2D32Async" (CUdeviceptr, usize, c_uint, usize, usize, CUstream);
    event: "cuEventCreate" (*mut CUevent, c_uint);
    event_record: "cuEventRecord" (CUevent, CUstream);
    stream_wait: "cuStreamWaitEvent" (CUstream, CUevent, c_uint);
    event_query: "cuEventQuery" (CUevent);
    event_wait: "cuEventSynchronize" (CUevent);
    event_elapsed: "cuEventElapsedTime" (*mut f32, CUevent, CUevent);
    event_destroy: "cuEventDestroy_v2" (CUevent);
    module_load: "cuModuleLoadData" (*mut CUmodule, *const c_void);
    module_unload: "cuModuleUnload" (CUmodule);
    module_function: "cuModuleGetFunction" (*mut CUfunction, CUmodule, *const c_char);
    function_get: "cuFuncGetAttribute" (*mut i32, u32, CUfunction);
    function_set: "cuFuncSetAttribute" (CUfunction, u32, i32);
    occupancy: "cuOccupancyMaxActiveBlocksPerMultiprocessor" (*mut i32, CUfunction, i32, usize);
    launch: "cuLaunchKernel" (
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void
    );
    launch_with: "cuLaunchKernelEx" (*const CUlaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
    map: "cuTensorMapEncodeTiled" (
        *mut CUtensorMap, u32, c_uint, *mut c_void, *const u64, *const u64, *const c_uint, *const c_uint, u32, u32, u32, u32
    );
    map_place: "cuTensorMapReplaceAddress" (*mut CUtensorMap, *mut c_void);
    graph: "cuGraphCreate" (*mut CUgraph, c_uint);
    graph_kernel: "cuGraphAddKernelNode_v2" (*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_KERNEL_NODE_PARAMS);
    graph_child: "cuGraphAddChildGraphNode" (*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, CUgraph);
    graph_update_child: "cuGraphExecChildGraphNodeSetParams" (CUgraphExec, CUgraphNode, CUgraph);
    capture: "cuStreamBeginCapture_v2" (CUstream, u32);
    capture_end: "cuStreamEndCapture" (CUstream, *mut CUgraph);
    graph_instantiate: "cuGraphInstantiateWithFlags" (*mut CUgraphExec, CUgraph, u64);
    graph_update: "cuGraphExecKernelNodeSetParams_v2" (CUgraphExec, CUgraphNode, *const CUDA_KERNEL_NODE_PARAMS);
    graph_launch: "cuGraphLaunch" (CUgraphExec, CUstream);
    graph_destroy: "cuGraphDestroy" (CUgraph);
    graph_exec_destroy: "cuGraphExecDestroy" (CUgraphExec);
}

impl Api {
    /// Returns the initialised table; opens the library at the first call.
    ///
    /// # Errors
    /// [`Error::Device`] with what to install, or the driver's message.
    pub(super) fn get() -> Result<&'static Api, Error> {
        static API: OnceLock<Result<Api, String>> = OnceLock::new();
        let open = || {
            let opened = find::open(Sought::Driver, None)?;
            let too_old = |why| format!("{why}: Thalweg needs the driver of CUDA 12.0 or newer (525)");
            let api = Api::new(opened).map_err(too_old)?;
            // SAFETY: may be called at any time, any number of times.
            match unsafe { (api.init)(0) } {
                SUCCESS | NO_DEVICE => Ok(api),
                error => Err(format!("cuInit: {}", api.describe(error))),
            }
        };
        let failed = |why: &String| Error::Device { device: "cuda".into(), message: why.clone() };
        API.get_or_init(open).as_ref().map_err(failed)
    }

    /// Describes an error code: its name and the driver's description.
    pub(super) fn describe(&self, error: i32) -> String {
        let text = |ask: unsafe extern "C" fn(i32, *mut *const c_char) -> i32| {
            let mut text = std::ptr::null();
            // SAFETY: an out-pointer to an address.
            let known = unsafe { ask(error, &mut text) } == SUCCESS && !text.is_null();
            // SAFETY: the driver's texts are zero-terminated and static.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
        };
        match (text(self.error_name), text(self.error_text)) {
            (Some(name), Some(text)) => format!("{name} ({text})"),
            (Some(name), None) => name.into_owned(),
            _ => format!("error {error}"),
        }
    }
}
