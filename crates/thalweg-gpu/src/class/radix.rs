//! Sorts of rows in memory by digits.

use thalweg_ir::DType;

/// Values of a digit, and threads of a block.
pub const DIGITS: usize = 256;

/// Words of a launch: from, to, rows, points, step from row to row, from point to point; tiles of a row; the number of
/// the pass, or blocks of a row that count; where digits begin; elements and places of two buffers; what blocks tell
/// each other, or counters.
pub const WORDS: usize = 14;

/// Passes of a sort of such elements.
pub fn passes(dtype: DType) -> usize {
    dtype.size().max(2)
}

/// Elements of a tile.
pub fn tile(dtype: DType) -> usize {
    DIGITS * if dtype.size() == 8 { 8 } else { 16 }
}
