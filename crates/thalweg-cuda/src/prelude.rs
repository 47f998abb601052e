//! What every source starts with.

/// Types, vectors, functions: CUDA C++ that g++ takes, too, where the host plays a GPU.
pub const PRELUDE: &str = include_str!("render/prelude.cuh");
