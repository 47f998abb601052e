//! Prelude: CUDA C++ definitions at the beginning of every generated source.

/// Prelude text: types, vectors and device functions. g++ compiles it too, for the emulator.
pub const PRELUDE: &str = include_str!("render/prelude.cuh");
