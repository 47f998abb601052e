//! Merge sorts of rows in memory.

use thalweg_ir::DType;

/// Elements per block.
pub const STRETCH: usize = 2048;

/// Threads per block, with eight elements each.
pub const BLOCK: u32 = (STRETCH / 8) as u32;

/// Number of argument words: from, to, rows, points, strides from row to row and from point to point, the logarithm of
/// a row's share of a block's elements, blocks of a row, the length of runs, whether the result is written, keys,
/// indices, next keys, next indices, and the elements to write with their strides.
pub const WORDS: usize = 17;

/// Whether keys take 64 bits.
pub fn is_wide(dtype: DType) -> bool {
    dtype.size() == 8
}
