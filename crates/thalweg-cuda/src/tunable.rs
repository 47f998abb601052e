//! Thresholds of generic kernels, copies through pinned memory, and libraries.

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-cuda`. Each value gives the same results, to the bit.
    pub struct CudaTunables of "thalweg-cuda" {
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
