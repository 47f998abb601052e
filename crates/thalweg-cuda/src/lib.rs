//! Thalweg on NVIDIA GPUs: kernels become CUDA C++, compiled by NVRTC for the chip that is there, and run through the driver. Both are found at run
//! time, so one binary serves machines with and without a GPU.

pub mod driver;
pub mod find;
pub mod memory;
