//! The CPU device of Thalweg.
//!
//! Map kernels are compiled by the crate's own vector emitter (`emitter`, `vector`, `isa`) on x86-64, for AVX-512, or
//! AVX2 with FMA, chosen at run time. The portable tile engine (`tile`) runs them elsewhere, and wherever the emitter
//! has no instruction for an operation. Row kernels are split into phases, which the same two engines run block by
//! block (`reduction`). Many small kernels run in one dispatch (`group`). Matrix products have micro-kernels of their
//! own (`gemm`; with fused prologues and epilogues: `fused_gemm`). [`CpuDevice`] is the entry point for the rest of
//! Thalweg.

mod bandwidth;
mod check;
mod combine;
mod device;
#[cfg(unix)]
pub mod emitter;
mod engine;
mod flat;
mod fused_gemm;
mod gemm;
mod gemm_call;
mod group;
mod hardware;
#[cfg(unix)]
mod isa;
mod launch;
mod launch_common;
pub mod machine;
mod map;
pub mod math;
mod memory;
mod narrow;
mod narrow_floats;
mod number;
mod prepare;
mod reduction;
mod repack;
pub mod row_call;
mod scan;
mod scatter;
mod short;
mod simd;
mod tables;
mod threads;
pub mod tile;
mod traffic;
#[doc(hidden)]
pub mod tunable;
#[cfg(unix)]
mod vector;

#[cfg(test)]
mod tests;

pub use bandwidth::{Bandwidth, measure as measure_bandwidth};
pub use device::{CpuDevice, CpuOptions};
pub use engine::Choice;
