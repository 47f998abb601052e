//! Backend for GPUs of any vendor: kernels are printed as WGSL and run through the crate `wgpu`, on Vulkan, Metal or
//! DX12. The APIs are found at run time, so one binary serves machines with and without them. Queues, memory, faults
//! and compilation are [`thalweg_gpu::runtime`]'s.
//!
//! * `adapters`: the adapters of the machine, and their properties as a [`thalweg_gpu::Chip`].
//! * `driver`: memory, shaders and submissions of one adapter.
//! * `render`: kernels as source text.
//! * `device`: the device over these.

mod adapters;
mod device;
mod driver;
#[cfg(test)]
mod math_tests;
mod render;

pub use adapters::{AdapterReport, adapters, advice};
pub use device::{BACKEND, WgpuDevice};
