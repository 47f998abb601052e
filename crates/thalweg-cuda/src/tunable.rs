//! Thresholds of the interpreter (generic) kernels, of copies through pinned memory, and of libraries.

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-cuda`. Each value gives the same results, to the bit.
    pub struct CudaTunables of "thalweg-cuda" {
        /// Maximum length, in points, of a row of two or more passes for the interpreter kernels; a compiled kernel
        /// runs longer ones.
        max_generic_row: 1 << 21, in 1..=256,
        /// Maximum number of blocks per multiprocessor, at one point per thread, for which a map in the interpreter
        /// kernels gives each thread one point. Larger maps give each thread several points.
        max_generic_blocks: 16, in 0..=1,
        /// Maximum bytes of a write through its queue's ring of pinned memory.
        max_ring_write: 64 << 10, in 0..=256,
        /// Minimum bytes of a segment of a pipelined copy: the host copies one segment while the device copies another.
        min_copy_part: 256 << 10, in 4096..=16384,
        /// Minimum bytes of a copy that several threads share on the host.
        min_threaded_copy: 8 << 20, in 1..=4096,
        /// Maximum number of cuBLASLt products in memory. Beyond it, they are cleared and reloaded from disk; bound
        /// kernels keep theirs.
        max_products: 1 << 14, in 1..=4,
        /// Maximum bytes of workspace of a convolution by cuDNN.
        max_convolution_workspace: 1 << 30, in 0..=4096,
        /// Maximum number of cached cuFFT plans.
        max_fourier_plans: 128, in 1..=2,
    }
}
