//! NVIDIA backend: kernels are printed as CUDA C++, compiled by NVRTC for the present chip, and launched through the
//! driver. Both are found at run time, so one binary serves machines with and without a GPU.
//!
//! * [`driver`]: the interface to a GPU, and its two implementations: a real GPU, and an emulator on the host.
//! * `render`: kernels as CUDA C++.
//! * `generic`: launches of the generic kernels, which need no compilation (unfused fallback while kernels compile).
//! * `compiler`, `launch`: functions, and their launches. `ending`: process exit while a compiler works.
//! * `fourier`: Fourier transforms by cuFFT. `decompose`: matrix decompositions by cuSOLVER. `around`: kernels before
//!   and after such a call.
//! * `queue`, `batch`, `faults`: launches in order, batches as graphs, and fault slots.
//! * `queues`, `order`: assignment of work to queues, and synchronization between queues.

mod around;
mod batch;
mod compiler;
#[cfg(all(test, feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
mod contraction_tests;
mod decompose;
mod device;
pub mod driver;
mod ending;
mod faults;
pub mod find;
mod fourier;
mod generic;
#[cfg(test)]
mod golden;
mod launch;
#[cfg(test)]
mod lengths;
mod memory;
mod order;
mod prelude;
mod queue;
mod queues;
mod render;

pub use device::CudaDevice;
