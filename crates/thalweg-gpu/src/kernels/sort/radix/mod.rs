//! Radix sorts of rows in memory.

pub mod emit;
pub mod params;
pub(crate) mod select;

use thalweg_ir::DType;

/// Number of digit values, and threads per block.
pub const DIGITS: usize = 256;

/// Number of passes of a sort.
pub fn passes(dtype: DType) -> usize {
    dtype.size().max(2)
}

/// Elements per tile.
pub fn tile(dtype: DType) -> usize {
    DIGITS * if dtype.size() == 8 { 8 } else { 16 }
}
