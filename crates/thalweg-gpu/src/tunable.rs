//! Thresholds of kernel selection and of the runtime: which strategy a row kernel takes, what is split among blocks,
//! which scatter, which GEMM tiles.
//!
//! Selection reads its thresholds while a kernel is lowered. The chosen variant is part of the kernel's class key and of
//! the arguments of its launch, and code is cached by class key. So a plan made with other thresholds stays valid, and
//! shares no code that differs.

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-gpu`. Results are right for all values, and of strict kernels the same to the bit.
    pub struct GpuTunables of "thalweg-gpu" {
        /// Maximum 32-bit registers per thread for the elements of a row that are held between passes; half as many in
        /// blocks of more than 512 threads, and where several blocks hold a row.
        max_held_registers: 64, in 0..=16,
        /// Maximum number of operations of a thread in the unrolled loop over the elements of a row that it holds. Long
        /// bodies with all elements unrolled are compiled for seconds.
        max_unrolled_operations: 6144, in 64..=1024,
        /// Maximum number of values for an element of a scatter, on average, at which atomic additions of floats are used
        /// where their order is free.
        max_atomic_values: 512, in 0..=16,
        /// Minimum row length, in points, at which a source may be specialized for a group of threads that covers the
        /// row exactly.
        min_exact_row: 512, in 1..=64,
        /// Binary logarithm of the number of threads per row where each pass reads the row from memory: a block of 64
        /// to 512 threads.
        reread_threads_log: 9, in 6..=9,
        /// Minimum number of rows, in vectors, of an outer-axis reduction at which a block covers 32 vectors of
        /// neighbouring rows. With fewer rows, a block covers one cache line of neighbouring rows.
        min_wide_rows: 512, in 1..=64,
        /// Minimum row length, in points, of a row of several dimensions at which a thread takes vectors of two points,
        /// where vectors of four are not possible. Vectors of two need a source of their own; for shorter rows, whose
        /// lengths often change, compiling it does not pay.
        min_two_lane_row: 1 << 20, in 2..=256,
        /// Maximum number of elements of a launch whose rows are never split among blocks, even if it has few rows.
        max_unsplit_elements: 1 << 15, in 0..=256,
        /// Maximum row length, in vectors, at which rows of an inner-axis reduction are never split among blocks, even
        /// if there are fewer rows than multiprocessors.
        max_unsplit_row: 1024, in 0..=32,
        /// Minimum number of points per thread at which a row of an outer-axis reduction may be split among blocks.
        min_split_points: 8, in 0..=8,
        /// Minimum length, in vectors, of a block's chunk of a split row.
        min_chunk_vectors: 512, in 1..=16,
        /// Minimum number of points per thread in a block's chunk of a split row, for outer-axis reductions.
        min_chunk_points: 4, in 1..=4,
        /// Fraction of the second-level cache (its size divided by this) that a tensor must exceed for co-resident
        /// blocks to hold its rows in registers.
        cache_divisor: 2, in 2..=1 << 24,
        /// Number of consecutive tiles of an online reduction that are shifted by the mean of the first of these tiles.
        /// Combining the states of two shifts costs as much as some tens of elements. The part of a sum that cancels is
        /// at most this many times as large as the remainder.
        shifted_tiles: 8, in 1..=2,
        /// Minimum row length, in vectors, at which a chained scan doubles its tile (8 vectors a thread instead of 4).
        min_long_scan: 1 << 16, in 1..=64,
        /// Maximum row length, in points, for the pairwise strategy. The longer rows of a block's neighbouring threads
        /// would exceed the first-level cache.
        max_pair_points: 512, in 0..=16,
        /// Minimum number of threads per multiprocessor for the pairwise strategy.
        min_pair_threads: 64, in 0..=1,
        /// Minimum number of threads per multiprocessor for each vector of a row, for the pairwise strategy: a thread
        /// loads the vectors one after the other, so long rows need more threads to hide the latency.
        min_pair_threads_of_vector: 8, in 0..=1,
        /// Minimum extent of the second row dimension for the pairwise strategy: the number of neighbouring threads
        /// that read different rows of one operand and the same row of the other.
        min_pair_side: 16, in 1..=16,
        /// Minimum extent of both dimensions of a fold that is traversed in tiles. In smaller ones, cache lines stay in
        /// the first-level cache anyway.
        min_tiled_fold: 64, in 1..=16,

        /// Maximum number of body nodes at which a thread of a map takes eight points; larger bodies need the registers
        /// and take two.
        max_eight_lane_nodes: 400, in 0..=8,
        /// Maximum number of body nodes at which a thread of a tiled map takes four vectors: the body is emitted four
        /// times then.
        max_repeated_nodes: 100, in 0..=8,
        /// Divisor of the chip's number of threads; the quotient is the minimum number of threads of a vectorized map.
        /// Threads of smaller maps take one point each: the latency of one point bounds such maps.
        vector_divisor: 16, in 16..=1 << 20,
        /// Maximum percentage of accesses without aligned vectors at which a thread of a map takes neighbouring
        /// points.
        max_scattered_percent: 16, in 0..=100,
        /// Minimum number of vectors for each thread of the chip at which a thread of a map takes several.
        min_two_vectors: 4, in 0..=4,
        /// Maximum number of nodes of a body that computes several boxes of a map at each point.
        max_merged_nodes: thalweg_kernel::MERGED_NODES, in 0..=8,
        /// Minimum number of points per multiprocessor at which the blocks of a map cover tiles.
        min_tiled_map: 128, in 0..=1,
        /// Minimum extent of both dimensions of a tiled map (of the innermost one in vectors).
        min_tile_side: 8, in 1..=8,

        /// Maximum number of chunks of a scanned row: each block combines the partial results of the chunks before its
        /// own.
        max_scan_chunks: 512, in 1..=8,
        /// Maximum number of iterations over a row for which one block scans the whole row.
        max_unsplit_scan: 4, in 0..=1,
        /// Maximum row length, in points, for a scan by threads of a single warp.
        max_warp_scan: 256, in 0..=64,
        /// Minimum number of rows for an outer-axis scan, in which neighbouring threads scan neighbouring rows.
        min_across_scan: 8, in 1..=8,
        /// Maximum row length, in points, at which 1-byte elements are sorted by merges: longer rows take fewer
        /// launches as a radix sort.
        max_merged_1: 4 << 10, in 0..=16,
        /// Maximum row length, in points, at which 2-byte elements are sorted by merges.
        max_merged_2: 8 << 10, in 0..=16,
        /// Maximum row length, in points, at which 4-byte elements are sorted by merges.
        max_merged_4: 32 << 10, in 0..=16,
        /// Maximum row length, in points, at which 8-byte elements are sorted by merges.
        max_merged_8: 128 << 10, in 0..=16,

        /// Maximum number of values along a scatter's axis that one thread scatters serially. Each takes half a
        /// microsecond; 64 of them take as long as the launches of a sort.
        max_serial_values: 64, in 0..=4,
        /// Minimum number of lines (slices along the scatter's axis) per multiprocessor at which one thread scatters
        /// all values of a line serially, instead of atomic operations or a sort.
        min_busy_lines: 512, in 0..=1,
        /// Minimum number of vectors of lines per multiprocessor at which each vector of a scatter's lines gets one
        /// thread.
        min_busy_vectors: 512, in 0..=1,
        /// Time to sort a tile of a scatter's indices on one multiprocessor, in number of values that a thread scatters
        /// serially meanwhile. 16 values were measured for one tile; this is a quarter, since several tiles are sorted
        /// at once.
        sort_cost: 4, in 0..=1 << 12,
        /// Minimum average number of values per element of a scatter at which runs of equal indices are cut into
        /// chunks.
        min_run_values: 128, in 1..=8,
        /// Minimum number of values along a scatter's axis at which runs of equal indices are cut into chunks even if
        /// elements have few values on average. Without chunks, an element that gets all values takes one thread 0.14
        /// us per value.
        min_skewed_values: 1 << 20, in 1..=64,
        /// Number of sorted indices per chunk of a run. With 128, partial results are few, yet an element with 10 M
        /// values keeps 78,125 threads busy.
        run_chunk: 128, in 2..=8,
        /// Minimum number of values that are counted in shared-memory tables (histogram). Adding a block's table to the
        /// result costs more than counting fewer values.
        min_counted_values: 256, in 1..=16,
        /// Minimum average number of values per bin for counting in shared-memory tables.
        min_values_of_place: 4, in 0..=4,
        /// Maximum bytes of a block's tables of a histogram: shared memory that a block gets without opting in to more,
        /// a quarter of a multiprocessor's.
        max_table_bytes: 48 << 10, in 8..=256,
        /// Maximum number of tables per block of a histogram. Of 4, 8 and 16, measured on an H200, eight are the
        /// fastest for 100 bins, and as fast as any for 1,000.
        max_tables: 8, in 1..=8,
        /// Maximum number of nodes of an index's body at which a thread of a histogram takes vectors of eight points;
        /// else of four.
        max_counted_nodes: 100, in 0..=2,

        /// Maximum number of class keys of a grouped launch. With more, its source takes long to compile, and other
        /// work waits meanwhile.
        max_joined_classes: 16, in 1..=4,
        /// Maximum number of operations of a source for several grouped launches, unrolled. Compiling takes
        /// longer than in proportion beyond, and fewer processors take part.
        max_merged_operations: 2048, in 1..=256,
        /// Maximum number of blocks per multiprocessor at which kernels of different families are grouped into one
        /// launch. With more blocks, only kernels of one family are grouped: the launch gets no more registers than the
        /// family needs.
        max_joined_blocks: 8, in 0..=1,

        /// Minimum number of multiplications of a GEMM for the library (cuBLASLt). CUDA cores compute a smaller GEMM in
        /// less than the half millisecond that choosing and checking an algorithm takes for each new size. Overridden
        /// by `THALWEG_CUBLASLT_MIN_MULTIPLICATIONS`.
        min_library_product: 1 << 18, in 1..=4096,
        /// Maximum number of launches for one batched GEMM by the library: batch dimensions beyond the first are looped
        /// over.
        max_library_launches: 64, in 0..=2,
        /// Maximum estimated time of a kernel of our own, in percent of the time of the library's GEMM with its
        /// prologue and epilogue launches.
        library_percent: 100, in 10..=1000,
        /// Minimum number of multiplications of a GEMM at which misaligned rows of 2-byte operands matter: such
        /// operands are copied to aligned memory, or the cost model assumes that the library is slow.
        min_odd_product: 1 << 28, in 1..=4096,
        /// Minimum number of rows and of columns of a GEMM whose misaligned operands are copied to aligned memory. In
        /// smaller GEMMs the copy takes longer than the misaligned reads.
        min_copied_side: 64, in 1..=8,
        /// Maximum length of the short side (rows or columns) of a GEMM that is computed as a row reduction (GEMV): a
        /// thread has an accumulator for each line.
        max_folded_lines: 8, in 0..=8,
        /// Minimum number of multiplications per line of the short side at which an unfused GEMM is computed as a row
        /// reduction (GEMV).
        min_folded_product: 1 << 16, in 1..=256,
        /// Minimum number of blocks that keep the chip busy, in percent of its multiprocessors. With so many blocks,
        /// GEMM tiles are large and attention blocks persistent.
        busy_percent: 100, in 0..=50,
        /// Maximum number of rows of a GEMM for flat tiles (64 rows by 128 or 256 columns), as in a convolution of few
        /// channels.
        max_flat_rows: 64, in 0..=16,
        /// Minimum number of terms per block for split-K.
        min_split_terms: 128, in 1..=64,
        /// Minimum number of steps over terms per block for split-K.
        min_split_steps: 2, in 1..=2,
        /// Maximum number of blocks that share the terms of a tile (split-K). The last block to finish reads the
        /// partial sums of all of them.
        max_splits: 64, in 1..=4,
        /// Maximum number of tile shapes of TMA GEMMs whose estimated times are compared, the largest first.
        max_fed_tiles: 4, in 1..=4,
        /// Maximum number of bytes that an epilogue loads per element of the result, held in registers, at which two
        /// warpgroups compute one tile together: 1 to 3 % faster than one warpgroup, on an H200.
        max_team_bytes: 8, in 0..=8,
        /// Maximum number of accumulators per thread at which the epilogue runs on accumulators in registers
        /// (interleaved columns): its source is unrolled over them.
        max_dealt_sums: 64, in 0..=64,
        /// Time of a round of three warpgroups of flash attention, in percent of that of two. Measured on an H200.
        three_warpgroups_percent: 130, in 50..=130,
        /// Minimum number of executions of a batch of launches at which the batch is deferred and becomes a CUDA graph.
        min_graph_runs: 4, in 1..=4,
        /// Minimum number of launches of a batch that becomes a CUDA graph. Shorter graphs gain nothing.
        min_graph_launches: 3, in 1..=3,
        /// Maximum number of CUDA graphs per batch schedule.
        max_graphs: 4, in 1..=4,
        /// Maximum number of batch schedules that a queue caches. At this limit, it drops the schedules that none of
        /// its last `max_runs / 2` batches used.
        max_runs: 512, in 1..=8,
        /// Maximum number of events that a queue keeps. A wait for a ticket older than the kept events waits for a
        /// later event.
        max_events: 64, in 1..=4,
        /// Minimum bytes of the exchange buffer, through which the blocks of a launch exchange values.
        min_exchange_bytes: 1 << 20, in 64..=1024,
        /// Minimum bytes of a copy that goes into a queue for copies instead of the thread's own queue.
        min_queued_copy: 64 << 10, in 1..=4096,
        /// Maximum number of sources in the compiler's cache, by class key and by text. A full cache is cleared; bound
        /// kernels keep their functions.
        max_sources: 1 << 14, in 16..=64,
    }
}
