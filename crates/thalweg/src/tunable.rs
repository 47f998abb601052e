//! Size thresholds by which functions of the front choose how they are composed.

thalweg_ir::tunables! {
    /// Thresholds of `thalweg`. Each value gives the same results.
    pub struct FrontTunables of "thalweg" {
        /// Elements that [`Tensor::topk`](crate::Tensor::topk) selects one by one. On one thread 1 takes 0.1 ns an element of the
        /// row, 8 take 1.2, 16 take 2.5, an argsort 14.
        max_selected: 16, in 0..=6,
        /// Row elements for each selected one, from which on selection beats an argsort.
        min_selected_ratio: 16, in 1..=4,
        /// Shortest row of which `topk` looks through blocks.
        min_blocked_row: 2048, in 1..=24,
        /// Row elements for each result, from which on `topk` looks through blocks.
        min_blocked_ratio: 32, in 1..=4,
        /// Multiple of which blocks of `topk` have their length.
        block_multiple: 8, in 1..=8,
        /// Results up to which the folds of a pass for each are faster than the sorts of blocks.
        max_folded: 2, in 0..=2,
        /// Elements from which on `unique` looks for the range of integers before it sorts them.
        min_counted: 1 << 16, in 1..=32,
        /// Range of integers that `unique` counts: tables of that length fit the nearest memory of every device.
        max_counted_range: 1 << 13, in 1..=64,
        /// Bins of one width whose numbers, and those of their neighbours, are exact in every float dtype that they are computed in.
        max_even_bins: 1 << 22, in 1..=8,
        /// Elements of a pooling window along an axis, up to which it is a chain of shifted views.
        max_shifted_pool: 16, in 1..=4,
        /// Elements of a window up to which a fold takes them one by one.
        max_folded_window: 16, in 1..=4,
        /// Functions between windows and their fold that are looked through.
        max_window_functions: 4, in 0..=4,
        /// Elements of a tensor for each gathered one, from which on functions of it are computed of the gathered elements alone.
        min_gather_ratio: 2, in 1..=4,
        /// Functions, one of the other, that are computed of gathered elements.
        max_gathered_functions: 8, in 0..=8,
        /// Gathers that take the place of one.
        max_gathers: 4, in 1..=4,
        /// Elements of a window up to which a depthwise convolution is a sum of shifted inputs; beyond, it is a product.
        max_depthwise_taps: 64, in 1..=3,
        /// Windows of a sample below which all samples are one product: weights are packed once for all of them.
        min_windows_of_sample: 128, in 1..=8,
        /// Shifted terms up to which the gradient of a window is written out; more are one reduction.
        max_shifted_terms: 4, in 1..=1,
        /// Operands of an einsum of which every order is looked at: a table of 3ⁿ steps.
        max_exact_operands: 8, in 2..=8,
    }
}
