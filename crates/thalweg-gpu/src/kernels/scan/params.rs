//! Kernel arguments of scans.

use crate::params::{Address, Flag, I64, OptionalAddress, U32, params};

params! {
    /// Kernel arguments of a scan of rows in memory.
    pub struct ScanParams() filled by ScanArguments {
        /// Elements.
        from: Address,
        /// Result; may be the elements.
        to: Address,
        /// Number of rows.
        rows: I64,
        /// Points of a row.
        points: I64,
        /// Elements from row to row.
        row_stride: I64,
        /// Elements from point to point.
        point_stride: I64,
        /// Threads of a row where a warp has several rows; points of a chunk where blocks have chunks of rows.
        row_threads_or_chunk: I64,
        /// Blocks of a row.
        row_blocks: U32,
        /// Chunks of a block.
        block_chunks: I64,
        /// Chunks of a row.
        row_chunks: I64,
        /// Whether chunks are only reduced, to partial results.
        only_reduce: Flag,
        /// Partial results of chunks, where several blocks have a row.
        partials: OptionalAddress,
        /// Rows of a block.
        block_rows: U32,
    }
}
