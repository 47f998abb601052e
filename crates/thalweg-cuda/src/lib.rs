//! Thalweg on NVIDIA GPUs: kernels become CUDA C++, compiled by NVRTC for the chip that is there, and run through the
//! driver. Both are found at run time, so one binary serves machines with and without a GPU.
//!
//! * [`driver`]: what is needed of a GPU, and two that give it: a real one, and the host.
//! * `render`: kernels as source text.
//! * `product`: matrix products as cuBLASLt takes them.
//! * `space`, `lower`: kernels bound to sizes. `plan`: the launches that this gives.
//! * `compiler`, `launch`: functions, and their launches. `ending`: a process that ends while a compiler works.
//! * `fourier`: Fourier transforms by cuFFT.
//! * `queue`, `batch`, `faults`: launches in order, those of a run as one, and what they leave to be asked.
//! * `queues`, `order`: which queue work goes into, and which waits for which.

mod batch;
mod compiler;
mod device;
pub mod driver;
mod ending;
mod faults;
pub mod find;
mod fourier;
#[cfg(test)]
mod golden;
mod launch;
#[cfg(test)]
mod lengths;
mod lower;
mod memory;
mod order;
mod plan;
mod prelude;
pub mod product;
mod queue;
mod queues;
mod render;
mod space;
mod traffic;

pub use device::CudaDevice;
