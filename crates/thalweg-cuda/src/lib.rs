//! NVIDIA backend: kernels are printed as CUDA C++, compiled by NVRTC for the present chip, and launched through the
//! driver. Both are found at run time, so one binary serves machines with and without a GPU.
//!
//! * [`driver`]: what is needed of a GPU, and two that give it: a real one, and the host.
//! * `render`: kernels as source text.
//! * `generic`: launches of the generic kernels, which nobody has to compile.
//! * `compiler`, `launch`: functions, and their launches. `ending`: a process that ends while a compiler works.
//! * `fourier`: Fourier transforms by cuFFT. `decompose`: decompositions of matrices by cuSOLVER. `around`: kernels around a call of either.
//! * `queue`, `batch`, `faults`: launches in order, those of a run as one, and what they leave to be asked.
//! * `queues`, `order`: which queue work goes into, and which waits for which.
//! * `tunable`: thresholds of all of these.

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
pub mod tunable;

pub use device::CudaDevice;
