//! Thresholds that choose the algorithms of kernels, scans, scatters and matrix products on CPUs.

use crate::hardware::{JOINED_TABLES, MAX_JOINED_COLUMNS, PRIVATE_CACHE, REPACKED, STRIP_COLUMNS};

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-cpu`. Every value gives the same results, in strict mode to the bit.
    pub struct CpuTunables of "thalweg-cpu" {
        /// Minimum number of elements of a sorted row or column at which radix sort replaces comparison sort.
        min_radix: 512, in 2..=64,
        /// Maximum number of columns that a cumulative scan processes side by side: their states are 8 KiB of f64.
        max_scan_columns: 1024, in 1..=8,
        /// Maximum bytes of a scatter's result that stays in a thread's private caches. A larger result may be divided
        /// into ranges, one per thread, each of which scans the whole index.
        max_cached_result: 1 << 20, in 0..=256,
        /// Minimum number of values per index entry of a scatter at which several threads each scan the whole index and
        /// write their own range of the result: the values then take longer than the scans.
        min_shared_values: 16, in 1..=16,
        /// Maximum bytes of a result for which a scatter uses tables (copies of the result, private to a thread, that
        /// are combined at the end): a few tables fit a core's second-level cache.
        max_table_bytes: 1 << 17, in 0..=4096,
        /// Minimum ratio of a scatter's values to a thread's table elements (result elements times 4 tables) at which
        /// tables are used.
        min_table_values: 4, in 1..=4,
        /// Maximum total bytes of 4 tables of a thread of a scatter. If they exceed it, a thread uses one table.
        max_several_tables: 8 << 10, in 0..=1024,
        /// Number of index and value elements that each thread computes at a time, for a scatter with a fused prologue.
        /// With i64 indices and f32 values they take 384 KiB.
        scatter_part: 32 << 10, in 1..=64,
        /// Maximum number of columns of a chunk of a scatter: a few KiB, in whole cache lines.
        max_scatter_columns: 1024, in 1..=8,
        /// Minimum number of points of a row at which a map's innermost dimensions are not joined: longer rows are not
        /// faster.
        min_row_points: 16, in 1..=16,
        /// Minimum number of points of a call (all its rows) at which a map's innermost dimensions are not joined:
        /// longer calls are not faster.
        min_call_points: 64, in 1..=64,
        /// Like `min_call_points`, for a call that reads through position tables, which has one row.
        min_table_call_points: JOINED_TABLES.0, in 1..=64,
        /// Minimum factor by which joining dimensions must lengthen the calls of a map.
        min_call_gain: JOINED_TABLES.1, in 1..=8,
        /// Maximum bytes of the elements of a strided access that are packed before a launch if rows read them again.
        max_repacked: REPACKED.1, in 0..=256,
        /// Minimum number of points of a row at which that pays.
        min_repacked_points: REPACKED.0, in 1..=16,
        /// Minimum number of points of a contiguous run of a row at which the row may be reduced online (one pass that
        /// combines rescaled partial results block by block).
        min_online_run: 1024, in 1..=64,
        /// Maximum bytes of a row that a multi-pass reduction rereads from the private caches; an online reduction
        /// reads longer rows once.
        max_private_row: PRIVATE_CACHE, in 0..=1024,
        /// Maximum number of points of a row whose intermediate values are saved in buffers between passes: longer
        /// buffers would be memory traffic themselves.
        max_kept_points: 1 << 20, in 0..=256,
        /// Maximum bytes of the buffers of a strip of minimum width in an outer-axis reduction. If they exceed it,
        /// intermediate values are recomputed in each pass instead of saved.
        max_kept_strip: 32 << 20, in 0..=65536,
        /// Maximum number of columns of a matrix that runs as joined long rows: its short rows would leave vectors
        /// partly empty.
        max_joined_columns: MAX_JOINED_COLUMNS, in 0..=128,
        /// Minimum number of columns of a GEMV that is vectorised over its columns. With fewer columns and a long K
        /// dimension, blocks of K are computed side by side in the lanes instead.
        min_columns: 4, in 0..=4,
        /// Maximum bytes of a GEMM operand that is read in place instead of packed: it must stay in the near caches
        /// beside the accumulators.
        max_direct_factor: 96 << 10, in 0..=4096,
        /// Maximum number of tiles of rows of a GEMM at which a row-major B is read in place whatever its size: packing it
        /// would take as long as the product.
        max_direct_tiles: 3, in 0..=1,
        /// Maximum bytes of a packed block of rows of A, over all of K, that a GEMM task retains for all its column
        /// blocks. Larger ones are packed again for each.
        max_packed_rows: 2 << 20, in 0..=4096,
        /// Bytes of B operands that are packed at a time for consecutive products of a batch: they stay in the
        /// last-level cache.
        packed_group: 4 << 20, in 1..=8192,
        /// Maximum bytes of the B operands of one fused GEMM (two, if its operand A is a GEMM too) that are packed once
        /// for all blocks of rows; larger ones are packed for one block of rows at a time.
        max_packed: 64 << 20, in 0..=16384,
        /// Bytes of computed factors, and of accumulators, of small products whose bodies are launched once for a group:
        /// they stay in the second-level cache.
        matrices_bytes: 128 << 10, in 1..=4096,
        /// Minimum number of products of such a group: of fewer, each is large enough to be run alone.
        min_matrices: 8, in 1..=8,
        /// Maximum number of taps of a convolution (9 for a 3×3 window) for which packing computes, in advance for each
        /// tap, the lane masks of elements outside the input.
        max_masked_taps: 64, in 0..=64,
        /// Minimum length of runs of lines (the windows of a row of an image) from which panels are copied line by line
        /// even if runs of terms are longer. Panels of shorter runs are gathered from runs of terms and transposed.
        min_line_run: 16, in 1..=8,
        /// Maximum row stride, in bytes, of a GEMM operand A that is read in place instead of packed: a block of its
        /// rows is on few pages and stays in the second-level cache.
        max_direct_stride: 2 << 10, in 0..=256,
        /// Maximum bytes of a packed GEMM operand B that all threads share at a time.
        max_shared_bytes: 16 << 20, in 64..=4096,
        /// Minimum number of columns of B that are packed for all threads at a time: packing A again for the next ones
        /// then costs at most 4 %.
        min_shared_columns: 256, in 1..=16,
        /// Minimum number of columns of a GEMM task that packs its rows of A, unless threads would lack tasks. Packing
        /// an element takes as long as multiplying it with a dozen columns.
        min_packed_columns: 256, in 1..=16,
        /// Maximum bytes of a strip, the columns that a reduction over an outer axis processes at a time: they stay in
        /// a core's private caches during all passes.
        strip_bytes: PRIVATE_CACHE, in 0..=8192,
        /// Maximum number of columns of a strip. Bodies with a single pass, which reread nothing from the caches, use
        /// this width.
        max_strip_columns: STRIP_COLUMNS.1, in 64..=128,
        /// Minimum number of columns of a strip: narrower ones are not worth a chunk of their own.
        min_strip_columns: STRIP_COLUMNS.0, in 16..=64,
        /// Maximum total bytes of the rows (at most 4) that an inner-axis reduction interleaves: they stay in the
        /// smallest first-level caches.
        abreast_bytes: 24 << 10, in 0..=512,
        /// Minimum number of columns at which the segments of a user-defined scan are processed one after the other
        /// instead of side by side: the columns alone make the calls long enough.
        min_wide_segments: 64, in 1..=8,
        /// Number of points of a chunk of a map over narrow rows if an operand is packed (into the order of the points)
        /// chunk by chunk: 32 KiB of f32.
        ordered_chunk: 8 << 10, in 1..=64,
        /// Maximum number of instructions of a loop over vectors that is unrolled: a longer one takes too long to
        /// compile.
        max_unrolled_instructions: 12_000, in 0..=400,
        /// Minimum number of kernels in a request at which several threads compile them.
        min_compiled_together: 4, in 1..=4,
    }
}
