//! Scans of rows in memory.

pub mod emit;
pub(crate) mod row_scan;
pub(crate) mod select;

use thalweg_ir::{DType, ScanOp};

/// Class key of a scan: the properties that decide its source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScanClass {
    /// The operation.
    pub op: ScanOp,
    /// Scans from the end; of a sort: descending.
    pub reverse: bool,
    /// Dtype of the elements.
    pub dtype: DType,
    /// How rows are divided among threads.
    pub way: Way,
}

/// Threads that share a row or a segment of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// A thread per row.
    InOrder,
    /// Several threads of a warp per row.
    Short,
    /// One or several blocks per row, of one to eight warps.
    Long,
    /// One or several columns of a block's threads per row. Neighbouring columns have neighbouring rows.
    Across,
    /// First launch of a merge sort: a block sorts a run of 2,048 keys, or several rows that fit one.
    Stretch,
    /// Merge of a merge sort: a block has a segment of the merge of two runs.
    Merge,
    /// Histogram of a radix sort: blocks divide a row and count its digits.
    Count,
    /// Pass of a radix sort: a block moves the elements of a tile by one digit.
    Pass,
}

/// Number of argument words: from, to, rows, points, strides from row to row and from point to point; threads of a row,
/// or points of a chunk; blocks of a row, chunks of a block, chunks of a row, whether chunks are only folded, partial
/// results, rows of a block.
pub const WORDS: usize = 13;

/// Threads per block.
pub const BLOCK: usize = 256;

/// Points per thread and iteration.
pub const POINTS: usize = 8;

/// Points per warp and iteration.
pub const WARP: usize = 32 * POINTS;
