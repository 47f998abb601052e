//! Thresholds by which launches become graphs, copies get queues of their own, and what was made is kept.

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-cuda`. Each value gives the same results, to the bit.
    pub struct CudaTunables of "thalweg-cuda" {
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
        /// Points of a row of two passes or more beyond which the generic kernels leave it to a compiled one.
        max_generic_row: 1 << 21, in 1..=256,
        /// Blocks of a map by the generic kernels for each multiprocessor up to which a thread has one point.
        max_generic_blocks: 16, in 0..=1,
        /// Bytes up to which a write goes through the ring of pinned memory of its queue.
        max_ring_write: 64 << 10, in 0..=256,
        /// Bytes of a part of a copy, at least: the host copies one while the device copies another.
        min_copy_part: 256 << 10, in 4096..=16384,
        /// Bytes from which on several threads copy.
        min_threaded_copy: 8 << 20, in 1..=4096,
        /// Products of cuBLASLt remembered; beyond, they start over from disk. Bound kernels hold those that they run.
        max_products: 1 << 14, in 1..=4,
        /// Plans of cuFFT that are kept.
        max_fourier_plans: 128, in 1..=2,
    }
}
