//! Prelude of all sources.

/// Types, vectors, functions, in CUDA C++ that g++ accepts, too, for the emulator.
pub const PRELUDE: &str = include_str!("render/prelude.cuh");
