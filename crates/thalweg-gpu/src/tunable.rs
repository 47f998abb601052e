//! Thresholds by which kernels are spread over a GPU: who holds a row, what is split, which scatter, which tiles.
//!
//! All of them are read while a kernel is lowered. What they choose is part of the kernel's class and of the words of its
//! launch, by which code is cached: a plan of other thresholds stays right, and shares no code that it may not.

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-gpu`. Each value gives right results, strict kernels the same bits.
    pub struct GpuTunables of "thalweg-gpu" {
        /// Registers of 4 bytes of a thread that what is held of a row may take; half as many in blocks of 1,024 threads.
        max_held_registers: 64, in 0..=16,
        /// Points of a row from which on a group of threads may be chosen that covers it exactly.
        min_exact_row: 512, in 1..=64,
        /// Binary logarithm of the threads of a row that each pass reads from memory: a whole block, of two warps at least.
        reread_threads_log: 9, in 6..=9,
        /// Vectors of rows across memory below which blocks are as narrow as a line of memory.
        min_wide_rows: 512, in 1..=64,
        /// Points of a row of several dimensions from which on a thread takes two side by side where it cannot take four: each is
        /// a source, and lengths change.
        min_two_lane_row: 1 << 20, in 2..=256,
        /// Elements of a launch up to which one block a row does, however few rows.
        max_unsplit_elements: 1 << 15, in 0..=256,
        /// Vectors of a row up to which one block does.
        max_unsplit_row: 1024, in 0..=32,
        /// Points of a row across memory for each thread of a block from which on blocks may share it.
        min_split_points: 8, in 0..=8,
        /// Vectors of a block's chunk of a row.
        min_chunk_vectors: 512, in 1..=16,
        /// Points of a thread in a block's chunk of a row across memory.
        min_chunk_points: 4, in 1..=4,
        /// Share of the second-level cache (one over so many) that a tensor must exceed for blocks to hold rows together.
        cache_divisor: 2, in 2..=1 << 24,
        /// Tiles of an online reduction that are shifted by the mean of the first of them. To put a state together with another
        /// costs as much as some tens of elements; what cancels is at most as many times as large as what is left.
        shifted_tiles: 8, in 1..=2,
        /// Vectors of a row from which on the tiles of its scan are twice as large.
        min_long_scan: 1 << 16, in 1..=64,
        /// Points of a row above which the rows of the threads of a block, which lie side by side, are more than the first-level
        /// cache: pairs of rows.
        max_pair_points: 512, in 0..=16,
        /// Threads of a multiprocessor below which there are too few for pairs of rows.
        min_pair_threads: 64, in 0..=1,
        /// Threads of a multiprocessor for each vector of a row below which there are too few for pairs of rows: a thread waits for
        /// one after the other.
        min_pair_threads_of_vector: 8, in 0..=1,
        /// Neighbouring threads that read different rows of the operand that stays.
        min_pair_side: 16, in 1..=16,
        /// Points along either dimension of a fold from which on it goes by tiles: lines of memory stay near below.
        min_tiled_fold: 64, in 1..=16,

        /// Nodes of a map's body up to which a thread takes eight points: fewer where the arithmetic of each needs the registers.
        max_eight_lane_nodes: 400, in 0..=8,
        /// Nodes of a body that is written down four times over for a tile, lanes apart.
        max_repeated_nodes: 100, in 0..=8,
        /// Share of the chip's threads (one over so many) that a map by vectors must have: what is small is bound by the time that
        /// one point takes.
        vector_divisor: 16, in 16..=1 << 20,
        /// Vectors of a map for each thread of the chip from which on a thread takes two.
        min_two_vectors: 4, in 0..=4,
        /// Points of a domain for each multiprocessor from which on blocks cover tiles.
        min_tiled_map: 128, in 0..=1,
        /// Points, or vectors, of either side of a domain from which on blocks cover tiles.
        min_tile_side: 8, in 1..=8,

        /// Chunks of a row that is scanned, at most: each block folds the partial results of those before its own.
        max_scan_chunks: 512, in 1..=8,
        /// Iterations of a block over a row up to which no other block shares its scan.
        max_unsplit_scan: 4, in 0..=1,
        /// Points of a row up to which threads of one warp scan it.
        max_warp_scan: 256, in 0..=64,
        /// Rows from which on neighbouring threads scan neighbouring rows.
        min_across_scan: 8, in 1..=8,
        /// Points of a row of 1-byte elements up to which merges are not more launches than passes of a radix sort.
        max_merged_1: 4 << 10, in 0..=16,
        /// Points of a row of 2-byte elements up to which it is sorted by merges.
        max_merged_2: 8 << 10, in 0..=16,
        /// Points of a row of 4-byte elements up to which it is sorted by merges.
        max_merged_4: 32 << 10, in 0..=16,
        /// Points of a row of 8-byte elements up to which it is sorted by merges.
        max_merged_8: 128 << 10, in 0..=16,

        /// Values along a scatter's axis that one thread puts in: they take half a microsecond each, as many launches as a sort
        /// takes are no faster than 64 of them.
        max_serial_values: 64, in 0..=4,
        /// Lines of a scatter for each multiprocessor from which on a thread has one.
        min_busy_lines: 512, in 0..=1,
        /// Vectors of lines for each multiprocessor from which on a thread has one.
        min_busy_vectors: 512, in 0..=1,
        /// Values of a line that one thread puts in while a multiprocessor sorts a tile, at a quarter of what was measured: a tile
        /// takes 16 times as long, and several are sorted at once.
        sort_cost: 4, in 0..=1 << 12,
        /// Values per element of a scatter from which on runs are cut into chunks.
        min_run_values: 128, in 1..=8,
        /// Values along a scatter's axis from which on runs are cut into chunks even if there are few per element on average:
        /// one element with all values takes one thread 0.14 us per value.
        min_skewed_values: 1 << 20, in 1..=64,
        /// Sorted indices per chunk of a run: partial results are few, and one element with 10 M values keeps 78,125 threads
        /// busy.
        run_chunk: 128, in 2..=8,
        /// Values from which on they are counted in tables: a block each for so few would add more than it counts.
        min_counted_values: 256, in 1..=16,
        /// Values for each place of the result from which on they are counted in tables.
        min_values_of_place: 4, in 0..=4,
        /// Bytes of a block's tables: a multiprocessor has four times that, and without being asked a block gets no more.
        max_table_bytes: 48 << 10, in 8..=256,
        /// Tables of a block (of 4, 8 and 16 measured on an H200 eight are the best for 100 places, and none is worse for 1,000).
        max_tables: 8, in 1..=8,
        /// Nodes of an index's body up to which a thread takes vectors of eight.
        max_counted_nodes: 100, in 0..=2,

        /// Classes of a grouped launch: more, and the compiler takes long over one source while others wait for work.
        max_joined_classes: 16, in 1..=4,
        /// Blocks for each multiprocessor above which row kernels are not grouped with maps: what runs long is to have the registers
        /// that it needs, and no more.
        max_joined_blocks: 8, in 0..=1,

        /// Multiplications below which plain cores are as fast as choosing and checking an algorithm of the library is slow: half
        /// a millisecond for each new size. `THALWEG_CUBLASLT_MIN_MULTIPLICATIONS` comes first.
        min_library_product: 1 << 18, in 1..=4096,
        /// Launches of one product by the library: more batch dimensions than one are taken in turns.
        max_library_launches: 64, in 0..=2,
        /// Time of a library's product with its launches, in percent of the estimate, that a kernel of our own must stay below.
        library_percent: 100, in 10..=1000,
        /// Multiplications below which odd rows of narrow factors do not matter.
        min_odd_product: 1 << 28, in 1..=4096,
        /// Rows and columns from which on a product reads its factors for longer than a copy of odd ones takes.
        min_copied_side: 64, in 1..=8,
        /// Lines of the short side of a product that is folded: each is a fold in the registers of a thread.
        max_folded_lines: 8, in 0..=8,
        /// Multiplications of a line of the short side from which on a bare product is folded.
        min_folded_product: 1 << 16, in 1..=256,
        /// Blocks for each multiprocessor, in percent, from which on tiles are large, or blocks stay.
        busy_percent: 100, in 0..=50,
        /// Rows up to which tiles are flat, as a convolution of few channels wants them.
        max_flat_rows: 64, in 0..=16,
        /// Terms that a block has at least of a tile that it shares with others: split-K.
        min_split_terms: 128, in 1..=64,
        /// Steps over terms that a block has at least of a tile that it shares with others.
        min_split_steps: 2, in 1..=2,
        /// Blocks that share the terms of a tile: the last one reads the sums of all.
        max_splits: 16, in 1..=4,
        /// Tiles of TMA GEMMs that are compared, the largest first.
        max_fed_tiles: 4, in 1..=4,
        /// Bytes that an element of the result reads, waiting in registers, up to which two warpgroups compute a tile together: 1
        /// to 3 % faster than one, on an H200.
        max_team_bytes: 8, in 0..=8,
        /// Accumulators of a thread up to which its epilogue runs on them where they are: all of that is written out.
        max_dealt_sums: 64, in 0..=64,
        /// Time of a round of three warpgroups of flash attention, in percent of that of two. Measured on an H200.
        three_warpgroups_percent: 130, in 50..=130,
        /// Runs of the same launches from which on they are kept back for a graph.
        min_graph_runs: 4, in 1..=4,
        /// Launches from which on a graph gains anything.
        min_graph_launches: 3, in 1..=3,
        /// Graphs of one run.
        max_graphs: 4, in 1..=4,
        /// Schedules of a queue that are remembered; beyond, those that did not come for long are forgotten.
        max_runs: 512, in 1..=8,
        /// Events of a queue that are remembered. Who asks for an older point gets a later event.
        max_events: 64, in 1..=4,
        /// Bytes of the memory in which blocks exchange values, at least.
        min_exchange_bytes: 1 << 20, in 64..=1024,
        /// Bytes from which on a copy has a queue of its own.
        min_queued_copy: 64 << 10, in 1..=4096,
        /// Sources kept, by what decides them and by their text; beyond, the memory of them starts over. Bound kernels hold those
        /// that they run.
        max_sources: 1 << 14, in 16..=64,
    }
}
