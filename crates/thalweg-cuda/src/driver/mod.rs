//! Drivers of NVIDIA GPUs ([`thalweg_gpu::runtime::Driver`]).
//!
//! In: CUDA C++ and argument words. Out: work in the device's queues. Two implementations: the driver of a real GPU
//! ([`Cuda`]), and an emulator that runs the same sources on the host, thread by thread, so that everything above can
//! be tested without a GPU (`Emulated`). A third one only collects sources ([`Absent`]).
//!
//! * `absent`: no GPU; records the sources that a GPU would have compiled.
//! * `cublaslt`: NVIDIA's library of matrix products.
//! * `cuda`: NVIDIA's driver.
//! * `cudnn`: NVIDIA's library of convolutions.
//! * `cufft`: NVIDIA's library of Fourier transforms.
//! * `cusolver`: NVIDIA's library of decompositions.
//! * `emulated` (feature `emulate`): sources compiled by g++ and run on the host.
//! * `functions`: libraries that are loaded at run time, as tables of functions.
//! * `nccl`: NVIDIA's library of collectives.
//! * `nvrtc`: compilation of sources to machine code, for a GPU that need not be present.

mod absent;
mod cublaslt;
mod cuda;
mod cudnn;
mod cufft;
mod cusolver;
#[cfg(all(feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
mod emulated;
mod functions;
mod nccl;
pub mod nvrtc;

#[cfg(all(feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
pub use emulated::{Emulated, moved};

pub use absent::{Absent, joined, readable};
pub use cuda::Cuda;

pub use thalweg_gpu::Chip;
pub use thalweg_gpu::maps::{MAP_WORDS, TensorMap};
pub use thalweg_gpu::runtime::{
    BatchBuffer, Driver, Event, Function, FunctionInfo, Graph, Launch, Libraries, Lines, Matrices, Module, Routine,
    RoutineBuffers,
};

use thalweg_gpu::Capabilities;

/// Returns the capabilities of a chip of compute capability `sm` (90 for 9.0).
pub(crate) fn capabilities(sm: u32) -> Capabilities {
    // Only sm_90 has wgmma.
    Capabilities {
        warp_matrix: sm >= 80,
        warpgroup_matrix: sm == 90,
        tensor_maps: sm >= 90,
        exchange: true,
        warps: true,
        held_scans: true,
        async_copies: true,
        dynamic_shared: true,
        groups: true,
        wide_atomics: true,
    }
}
