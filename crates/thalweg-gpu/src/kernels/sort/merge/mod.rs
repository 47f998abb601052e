//! Merge sorts of rows in memory.

pub mod emit;
pub mod params;
pub(crate) mod select;

/// Elements per block.
pub const RUN: usize = 2048;

/// Threads per block, with eight elements each.
pub const BLOCK: u32 = (RUN / 8) as u32;
