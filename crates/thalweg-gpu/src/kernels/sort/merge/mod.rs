//! Merge sorts of rows in memory.

pub mod emit;
pub mod params;
pub(crate) mod select;

/// Number of elements that a block sorts or merges.
pub const RUN: usize = 2048;

/// Threads per block; each has eight elements.
pub const BLOCK: u32 = (RUN / 8) as u32;
