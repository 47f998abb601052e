//! Size thresholds that choose between compositions of a function.

thalweg_ir::tunables! {
    /// Thresholds of `thalweg`. Every value gives the same results.
    pub struct FrontTunables of "thalweg" {
        /// Maximum `k` for which [`Tensor::topk`](crate::Tensor::topk) selects elements one by one. On one thread,
        /// selecting 1 takes 0.1 ns per element of the row, 8 take 1.2 ns, 16 take 2.5 ns, an argsort 14 ns.
        max_selected: 16, in 0..=6,
        /// Minimum ratio of row length to `k` for which selection is faster than an argsort.
        min_selected_ratio: 16, in 1..=4,
        /// Minimum row length for which `topk` works by blocks.
        min_blocked_row: 2048, in 1..=24,
        /// Minimum ratio of row length to `k` for which `topk` works by blocks.
        min_blocked_ratio: 32, in 1..=4,
        /// Divisor of the block lengths of `topk`.
        block_multiple: 8, in 1..=8,
        /// Maximum `k` for which one fold pass per result is faster than sorting blocks.
        max_folded: 2, in 0..=2,
        /// Minimum number of elements for which `unique` checks the range of integers before it sorts.
        min_counted: 1 << 16, in 1..=32,
        /// Maximum range of integers that `unique` counts: a table of that length fits the nearest memory of every
        /// device.
        max_counted_range: 1 << 13, in 1..=64,
        /// Maximum number of equal-width bins: their indices, and the neighbouring ones, are exact in every float dtype
        /// of computation.
        max_even_bins: 1 << 22, in 1..=8,
        /// Maximum window size of pooling along an axis that becomes a chain of shifted views.
        max_shifted_pool: 16, in 1..=4,
        /// Maximum number of uneven windows of an adaptive pooling that are slices instead of a selection by an index.
        max_window_slices: 8, in 0..=3,
        /// Maximum number of elements of a window that a fold takes one by one.
        max_folded_window: 16, in 1..=4,
        /// Maximum number of elementwise functions between windows and a fold over them, for the windows to be
        /// recognized.
        max_window_functions: 4, in 0..=4,
        /// Minimum ratio of elements to gathered elements for which a function is computed on the gathered elements
        /// only.
        min_gather_ratio: 2, in 1..=4,
        /// Maximum length of a chain of functions computed on gathered elements.
        max_gathered_functions: 8, in 0..=8,
        /// Maximum number of gathers that one gather of a computed tensor becomes.
        max_gathers: 4, in 1..=4,
        /// Maximum number of elements of a window at which a depthwise convolution is a sum of shifted inputs; with
        /// more, it is a product.
        max_depthwise_taps: 64, in 1..=3,
        /// Minimum number of multiplications at which a convolution is a library's. A smaller one takes less than a launch,
        /// and fuses with what is around it.
        min_library_convolution: 1 << 18, in 1..=4096,
        /// Maximum number of rows, with each residue class of the stride, at which a transposed convolution is one product
        /// for all classes whose result is sliced, instead of a product for each class: one of few rows takes as long as
        /// one of several times as many.
        max_joint_rows: 15, in 1..=4,
        /// Minimum number of windows of a sample at which each sample is a product of its own. With fewer, all samples
        /// are one product: weights are packed once for all of them.
        min_windows_of_sample: 128, in 1..=8,
        /// Maximum number of shifted terms at which the gradient of a window is a written-out sum; more are one
        /// reduction.
        max_shifted_terms: 4, in 0..=1,
        /// Maximum number of operands of an einsum for which every order is tried: a table of 3ⁿ steps.
        max_exact_operands: 8, in 2..=8,
    }
}
