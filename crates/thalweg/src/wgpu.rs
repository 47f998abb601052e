//! Adapters of this machine that the crate `wgpu` finds (Vulkan, Metal, DX12), for people and installers.
//!
//! To use one, open it by its name: `Device::from_name("wgpu:0")`.

pub use thalweg_wgpu::{AdapterReport, adapters, advice};
