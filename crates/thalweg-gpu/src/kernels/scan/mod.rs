//! Scans of rows in memory.

pub mod emit;
pub mod params;
pub(crate) mod select;

use thalweg_ir::{DType, ScanOp};

/// Class key of a scan: the properties that decide its source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScanClass {
    /// Operation of the scan.
    pub op: ScanOp,
    /// Whether the scan is reversed: from the last element to the first.
    pub reverse: bool,
    /// Dtype of the elements.
    pub dtype: DType,
    /// Division of rows among threads.
    pub strategy: ScanStrategy,
}

/// Strategy by which rows are divided among threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScanStrategy {
    /// One thread per row, terms in order.
    InOrder,
    /// Several threads of a warp per row.
    WithinWarp,
    /// One or several blocks per row. A block has one to eight warps.
    Blocks,
    /// One or several columns of a block's threads per row, for outer-axis scans: neighbouring columns have
    /// neighbouring rows.
    Columns,
}

/// Threads per block.
pub const BLOCK: usize = 256;

/// Number of points per thread and iteration.
pub const POINTS: usize = 8;

/// Number of points per warp and iteration.
pub const WARP: usize = 32 * POINTS;

/// A scan or sort of rows of scratch memory, before its strategy is selected.
#[derive(Clone, Copy, Debug)]
pub struct RowScan {
    /// Operation of the scan or sort.
    pub op: ScanOp,
    /// Direction: whether a scan is reversed (from the last element to the first), or a sort descending.
    pub reverse: bool,
    /// Dtype of the elements.
    pub dtype: DType,
    /// Number of rows.
    pub rows: usize,
    /// Number of points of a row.
    pub points: usize,
    /// Stride from row to row, in elements.
    pub row_step: usize,
    /// Stride from point to point, in elements.
    pub point_step: usize,
    /// Scratch region of the elements.
    pub from: u16,
    /// Scratch region of the result; may be that of the elements.
    pub to: u16,
}
