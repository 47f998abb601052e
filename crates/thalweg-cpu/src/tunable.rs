//! Thresholds by which the CPU chooses how kernels, scans, scatters and products run.

use crate::memory::PRIVATE;

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-cpu`. Each value gives the same results, strictly to the bit.
    pub struct CpuTunables of "thalweg-cpu" {
        /// Elements from which on a column is sorted by radix rather than by comparisons.
        min_radix: 512, in 2..=64,
        /// Columns whose scan states are carried side by side: 8 KiB of f64.
        max_scan_columns: 1024, in 1..=8,
        /// Bytes of a scatter's result that stay in a thread's own caches.
        max_cached_result: 1 << 20, in 0..=256,
        /// Values for one index that are worth looking at it on several threads.
        min_shared_values: 16, in 1..=16,
        /// Bytes of a result that tables of a scatter are worth being made for: a few stay in a core's second-level cache.
        max_table_bytes: 1 << 17, in 0..=4096,
        /// Values for each element of the result, times the tables of a thread, from which on tables pay.
        min_table_values: 4, in 1..=4,
        /// Bytes that the tables of a thread may have together where it has several.
        max_several_tables: 8 << 10, in 0..=1024,
        /// Values of a scatter that are computed at a time for each thread: index and values of f32 are 384 KiB.
        scatter_part: 32 << 10, in 1..=64,
        /// Columns that a chunk of a scatter takes at a time: some kilobytes, and whole cache lines.
        max_scatter_columns: 1024, in 1..=8,
        /// Points of a row from which on it is as good as any.
        min_row_points: 16, in 1..=16,
        /// Points of a call from which on it is as good as any.
        min_call_points: 64, in 1..=64,
        /// Points of a call through tables, which has one row.
        min_table_call_points: 256, in 1..=64,
        /// Times that a call has to become longer for rows to be joined.
        min_call_gain: 8, in 1..=8,
        /// Elements of a run from which on an online reduction puts blocks together one by one.
        min_online_run: 1024, in 1..=64,
        /// Bytes of a row beyond which it is read once, by an online reduction.
        max_private_row: PRIVATE, in 0..=1024,
        /// Points of a row beyond which nothing is kept in buffers: they would be memory traffic themselves.
        max_kept_points: 1 << 20, in 0..=256,
        /// Bytes of the buffers of a narrow strip beyond which nothing is kept in them.
        max_kept_strip: 32 << 20, in 0..=65536,
        /// Columns of a matrix up to which it runs as long rows: vectors would be cut short.
        max_joined_columns: 128, in 0..=128,
        /// Columns of a product below which blocks of terms are taken side by side.
        min_columns: 4, in 0..=4,
        /// Bytes of a factor that is read where it is: it has to stay in the near caches beside the sums.
        max_direct_factor: 96 << 10, in 0..=4096,
        /// Bytes of packed rows that a thread keeps.
        max_packed_rows: 2 << 20, in 0..=4096,
        /// Bytes of right factors that are packed at a time: they stay in the last-level cache.
        packed_group: 4 << 20, in 1..=8192,
        /// Bytes of the packed factors of one product; larger ones are packed block by block of rows.
        max_packed: 64 << 20, in 0..=16384,
        /// Taps up to which it is cheap to find out what is outside for all of them.
        max_masked_taps: 64, in 0..=64,
        /// Bytes from row to row of a left factor whose rows a thread reads where they are: a block of them is on few pages and
        /// stays in the second-level cache.
        max_direct_stride: 2 << 10, in 0..=256,
        /// Bytes of the right factor that are packed for all threads at a time.
        max_shared_bytes: 16 << 20, in 64..=4096,
        /// Columns that are packed for all, at least: packing the left factor again for the next ones costs no more than 4 %.
        min_shared_columns: 256, in 1..=16,
        /// Columns that a task packs rows of the left factor for, at least, where there are threads for more: it takes as long as
        /// multiplying an element with a dozen columns.
        min_packed_columns: 256, in 1..=16,
        /// Bytes of a strip that stay in a core's own caches while its phases run.
        strip_bytes: PRIVATE, in 0..=8192,
        /// Columns of a strip of bodies that pass once, where width alone matters.
        max_strip_columns: 2048, in 64..=128,
        /// Columns of a strip that are worth a chunk.
        min_strip_columns: 64, in 16..=64,
        /// Bytes of the rows that are passed over side by side: they stay in the smallest first-level caches.
        abreast_bytes: 24 << 10, in 0..=512,
        /// Columns from which on segments of a recurrence need not go side by side.
        min_wide_segments: 64, in 1..=8,
        /// Points of a chunk where something is brought into order chunk by chunk: 32 KiB of f32.
        ordered_chunk: 8 << 10, in 1..=64,
        /// Instructions of a loop over vectors up to which it is unrolled: beyond, compiling takes too long.
        max_unrolled_instructions: 12_000, in 0..=400,
        /// Kernels from which on they are compiled by several threads.
        min_compiled_together: 4, in 1..=4,
    }
}
