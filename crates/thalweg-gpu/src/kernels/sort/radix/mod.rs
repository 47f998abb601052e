//! Radix sorts of rows in memory.

pub mod emit;
pub(crate) mod select;

use thalweg_ir::DType;

/// Number of digit values, and threads per block.
pub const DIGITS: usize = 256;

/// Number of argument words: from, to, rows, points, strides from row to row and from point to point; tiles of a row;
/// the number of the pass, or blocks of a row that count; offsets of digits; elements and indices of two buffers; the
/// exchange buffer of blocks, or counters.
pub const WORDS: usize = 14;

/// Number of passes of a sort.
pub fn passes(dtype: DType) -> usize {
    dtype.size().max(2)
}

/// Elements per tile.
pub fn tile(dtype: DType) -> usize {
    DIGITS * if dtype.size() == 8 { 8 } else { 16 }
}
