//! Kernel arguments of scans.

use crate::params::{Address, Flag, I64, OptionalAddress, U32, params};

params! {
    /// Kernel arguments of a scan of rows in memory.
    pub struct ScanParams() filled by ScanArguments {
        /// Address of the elements.
        from: Address,
        /// Address of the result; may be that of the elements.
        to: Address,
        /// Number of rows.
        rows: I64,
        /// Number of points of a row.
        points: I64,
        /// Stride from row to row, in elements.
        row_stride: I64,
        /// Stride from point to point, in elements.
        point_stride: I64,
        /// Number of threads per row, if a warp scans several rows; number of points per chunk, if blocks scan chunks
        /// of rows.
        row_threads_or_chunk: I64,
        /// Number of blocks per row.
        row_blocks: U32,
        /// Number of chunks per block.
        block_chunks: I64,
        /// Number of chunks per row.
        row_chunks: I64,
        /// Whether the launch only reduces chunks to partial results.
        only_reduce: Flag,
        /// Address of the partial results of chunks, where several blocks divide a row.
        partials: OptionalAddress,
        /// Number of rows per block.
        block_rows: U32,
    }
}
