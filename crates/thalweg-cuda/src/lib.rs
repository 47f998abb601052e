//! NVIDIA backend: kernels are printed as CUDA C++, compiled by NVRTC for the present chip, and launched through the
//! driver. Both are found at run time, so one binary serves machines with and without a GPU. Queues, memory, faults and
//! compilation are [`thalweg_gpu::runtime`]'s.
//!
//! * [`driver`]: drivers of a real GPU, and of an emulated one on the host.
//! * `render`: kernels as source text.
//! * `generic`: launches of the generic kernels, interpreters that run operations before a kernel is compiled for them.
//! * `fourier`: Fourier transforms by cuFFT. `decompose`: decompositions of matrices by cuSOLVER. `around`: helper
//!   kernels before and after a call of either.
//! * `tunable`: thresholds of all of these.

mod around;
#[cfg(all(test, feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
mod contraction_tests;
mod decompose;
mod device;
pub mod driver;
pub mod find;
mod fourier;
mod generic;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod lengths;
mod prelude;
mod render;
#[cfg(all(test, feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
mod runtime_tests;
pub mod tunable;

pub use device::{BACKEND, CudaDevice};
