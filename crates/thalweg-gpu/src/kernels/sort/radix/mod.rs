//! Radix sorts of rows in memory.

pub mod emit;
pub mod params;
pub(crate) mod select;

use thalweg_ir::DType;

/// Number of digit values, and threads per block.
pub const DIGITS: usize = 256;

/// Number of passes of a radix sort of this dtype.
pub fn passes(dtype: DType) -> usize {
    dtype.size().max(2)
}

/// Number of elements per tile.
pub fn tile(dtype: DType) -> usize {
    DIGITS * if dtype.size() == 8 { 8 } else { 16 }
}
