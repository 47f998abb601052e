//! Scans of rows in memory.

use thalweg_ir::{DType, ScanOp};

/// What decides the source of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScanClass {
    /// Which.
    pub op: ScanOp,
    /// From the end; of a sort: descending.
    pub reverse: bool,
    /// Of the elements.
    pub dtype: DType,
    /// How rows are shared.
    pub way: Way,
}

/// Who has a row, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// A thread.
    InOrder,
    /// A few threads of a warp.
    Short,
    /// A block of one to eight warps, or several of them.
    Long,
    /// A column of threads of a block, whose neighbours have neighbouring rows; or several.
    Across,
    /// Of a sort: a block has a stretch of a row, or rows that fit one.
    Stretch,
    /// Of a sort: a block has a stretch of two runs that are merged.
    Merge,
    /// Of a sort by digits: blocks share a row to count them.
    Count,
    /// Of a sort by digits: a block has a tile of a row, and moves it by one of them.
    Pass,
}

/// Words: from, to, rows, points, step from row to row, from point to point; threads of a row, or points of a chunk;
/// blocks of a row, chunks of a block, chunks of a row, whether chunks are only folded, partial results, rows of a
/// block.
pub const WORDS: usize = 13;

/// Threads of a block.
pub const BLOCK: usize = 256;

/// Points of a thread in a turn.
pub const POINTS: usize = 8;

/// Points of a warp in a turn.
pub const WARP: usize = 32 * POINTS;
