//! Sorts of rows in memory by merges.

use thalweg_ir::DType;

/// Elements of a block.
pub const STRETCH: usize = 2048;

/// Threads of a block: eight elements each.
pub const BLOCK: u32 = (STRETCH / 8) as u32;

/// Words of a launch: from, to, rows, points, step from row to row, from point to point, the logarithm of what a row
/// has of a stretch, stretches of a row, the length of runs, whether the result is given out, keys, places, next keys,
/// next places, and the elements to give out with their steps.
pub const WORDS: usize = 17;

/// Whether keys take 64 bits.
pub fn is_wide(dtype: DType) -> bool {
    dtype.size() == 8
}
