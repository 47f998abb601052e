//! Thresholds that choose the algorithms of kernels, scans, scatters and products on CPUs.

use crate::hardware::{MAX_JOINED_COLUMNS, PRIVATE_CACHE, STRIP_COLUMNS};

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-cpu`. Every value gives the same results, in strict mode to the bit.
    pub struct CpuTunables of "thalweg-cpu" {
        /// Minimum number of elements of a column that is sorted by radix instead of by comparisons.
        min_radix: 512, in 2..=64,
        /// Maximum number of columns scanned side by side: their states are 8 KiB of f64.
        max_scan_columns: 1024, in 1..=8,
        /// Maximum bytes of a scatter's result that stays in a thread's private caches.
        max_cached_result: 1 << 20, in 0..=256,
        /// Minimum number of values per index entry for which it pays that several threads scan the index.
        min_shared_values: 16, in 1..=16,
        /// Maximum bytes of a result for which a scatter uses tables: a few of them fit a core's second-level cache.
        max_table_bytes: 1 << 17, in 0..=4096,
        /// Minimum ratio of values to a thread's table elements (result elements times tables) for which tables pay off.
        min_table_values: 4, in 1..=4,
        /// Maximum total bytes of a thread's tables if it has more than one.
        max_several_tables: 8 << 10, in 0..=1024,
        /// Number of a scatter's index and value elements that each thread computes at a time: for f32 they take 384
        /// KiB.
        scatter_part: 32 << 10, in 1..=64,
        /// Maximum columns of a scatter's chunk: some kilobytes, and whole cache lines.
        max_scatter_columns: 1024, in 1..=8,
        /// Minimum points of a row at which longer rows are not faster, so that short rows need not be joined.
        min_row_points: 16, in 1..=16,
        /// Minimum points of a call at which longer calls are not faster.
        min_call_points: 64, in 1..=64,
        /// Minimum points of a call through position tables, which has one row, at which longer calls are not faster.
        min_table_call_points: 256, in 1..=64,
        /// Minimum factor by which calls must become longer for rows to be joined.
        min_call_gain: 8, in 1..=8,
        /// Minimum elements of a run for which an online reduction combines blocks one by one.
        min_online_run: 1024, in 1..=64,
        /// Maximum bytes of a row that is read several times; an online reduction reads longer rows once.
        max_private_row: PRIVATE_CACHE, in 0..=1024,
        /// Maximum points of a row whose values are saved in buffers: longer buffers would be memory traffic
        /// themselves.
        max_kept_points: 1 << 20, in 0..=256,
        /// Maximum bytes of the buffers of a narrow strip; values of wider strips are not saved in buffers.
        max_kept_strip: 32 << 20, in 0..=65536,
        /// Maximum columns of a matrix that runs as joined long rows: its short rows would leave vectors partly empty.
        max_joined_columns: MAX_JOINED_COLUMNS, in 0..=128,
        /// Minimum columns of a product that is not computed by blocks of terms side by side.
        min_columns: 4, in 0..=4,
        /// Maximum bytes of a factor that is read in place: it must stay in the near caches beside the sums.
        max_direct_factor: 96 << 10, in 0..=4096,
        /// Maximum bytes of packed rows that a thread retains.
        max_packed_rows: 2 << 20, in 0..=4096,
        /// Bytes of B operands that are packed at a time for a group of products: they stay in the last-level cache.
        packed_group: 4 << 20, in 1..=8192,
        /// Maximum bytes of the packed B of one product; a larger one is packed for one block of rows at a time.
        max_packed: 64 << 20, in 0..=16384,
        /// Maximum number of taps for which it is cheap to compute the masks of elements outside the input for all of
        /// them.
        max_masked_taps: 64, in 0..=64,
        /// Maximum row stride, in bytes, of a GEMM operand A that is read in place instead of packed: a block of its
        /// rows is on few pages and stays in the second-level cache.
        max_direct_stride: 2 << 10, in 0..=256,
        /// Maximum bytes of a GEMM operand B that are packed for all threads at a time.
        max_shared_bytes: 16 << 20, in 64..=4096,
        /// Minimum number of columns of B that are packed for all threads at a time: packing A again for the next ones
        /// then costs at most 4 %.
        min_shared_columns: 256, in 1..=16,
        /// Minimum number of columns of a task that packs its rows of A, where there are threads for more tasks.
        /// Packing an element takes as long as multiplying it with a dozen columns.
        min_packed_columns: 256, in 1..=16,
        /// Maximum bytes of a strip: they stay in a core's own caches while its phases run.
        strip_bytes: PRIVATE_CACHE, in 0..=8192,
        /// Maximum columns of a strip, reached by bodies with one pass, where width alone matters.
        max_strip_columns: STRIP_COLUMNS.1, in 64..=128,
        /// Minimum columns of a strip that are worth a chunk.
        min_strip_columns: STRIP_COLUMNS.0, in 16..=64,
        /// Maximum bytes of the rows that an inner-axis kernel processes side by side: they stay in the smallest
        /// first-level caches.
        abreast_bytes: 24 << 10, in 0..=512,
        /// Minimum number of columns at which the segments of a recurrence need not be computed side by side.
        min_wide_segments: 64, in 1..=8,
        /// Points of a chunk of narrow rows whose operands are staged in order chunk by chunk: 32 KiB of f32.
        ordered_chunk: 8 << 10, in 1..=64,
        /// Maximum number of instructions of an unrolled loop over vectors. Compiling a longer one takes too long.
        max_unrolled_instructions: 12_000, in 0..=400,
        /// Minimum number of kernels that are compiled by several threads.
        min_compiled_together: 4, in 1..=4,
    }
}
