//! Thalweg on CPUs.
//!
//! A map kernel is compiled by our own vector emitter on x86-64 (`x64`: AVX-512, or AVX2 with FMA, chosen at run time),
//! and run by the portable tile engine (`tile`) elsewhere and wherever the emitter has no instruction for an operation.

pub mod machine;
pub mod math;
pub mod rows;
pub mod tile;
#[cfg(all(unix, target_arch = "x86_64"))]
pub mod x64;
