//! Planner thresholds: kernel size, search effort and memory layout.

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-fusion`. Each value gives legal plans.
    pub struct PlannerTunables of "thalweg-fusion" {
        /// Operations of one kernel, without views and constants: keeps compile time linear in practice and code within
        /// the instruction cache.
        max_kernel_ops: 2048, in 12..=64,
        /// `Put` operations in one kernel: each may cut the domain once more in each dimension, and a domain of more
        /// than `max_boxes` boxes is processed element by element.
        max_puts: 8, in 1..=8,
        /// Index maps under which one kernel may compute the same operation.
        max_maps: 16, in 2..=16,
        /// Values that a kernel with folds stores, where the compiler is slow: the gradients of all norms of a network,
        /// with their moments, are 220 stores over one domain and keep NVRTC busy for minutes.
        max_fold_stores: 24, in 2..=8,
        /// Accesses of a body where launches have arguments of bounded size: a GPU's 32,764 bytes hold three bodies of
        /// so many accesses in eight dimensions.
        max_accesses: 128, in 16..=64,
        /// Boxes that a domain is cut into; beyond, masked accesses go through tables of positions.
        max_boxes: 64, in 1..=8,
        /// Points of a box's longest run below which a table may be faster.
        min_box_run: 16, in 1..=16,
        /// Runs of a box from which on short ones take longer than a table.
        min_short_runs: 256, in 1..=16,
        /// Points of a row below which a kernel may reduce along the outer axis, regardless of its accesses.
        min_row: 16, in 1..=16,
        /// Points of a run below which it is merged with others if the order of a row's elements is free: each run
        /// costs a call.
        min_run: 512, in 1..=16,
        /// Values from which on a component is searched by moves instead of exhaustively.
        max_exact_values: 10, in 0..=10,
        /// Operations up to which a rewritten segment is also planned as it was recorded.
        max_planned_twice: 128, in 0..=128,
        /// Bytes of an input below which a second read of it does not connect components.
        min_joining_input: 256, in 0..=256,
        /// Cached plans of components with the same operations.
        max_part_variants: 4, in 1..=4,
        /// Operations at a component's end that need not belong to the known component.
        max_new_operations: 4, in 1..=4,
        /// Operations below which a loop is searched as a whole.
        min_periodic_operations: 64, in 4..=64,
        /// Minimum number of a loop's iterations that are searched.
        min_searched_iterations: 8, in 4..=8,
        /// Kernels of one shape in a grouped launch.
        max_siblings: 4, in 1..=4,
        /// Bytes of a tensor from which on saving one of two reads is worth a second stage.
        min_shared_pass_bytes: 1 << 16, in 1..=256,
        /// Bytes that stay in cache from one kernel to the next.
        group_cache_bytes: 1 << 20, in 64..=4096,
        /// Bytes of a value from which on in-place reuse by an output matters.
        min_replaced_bytes: 1 << 20, in 1..=4096,
        /// Grouped launches that a kernel is tried in, the newest first.
        max_tried_groups: 4, in 1..=4,
        /// Kernels up to which all pairs are considered.
        max_paired_kernels: 128, in 1..=16,
        /// Operands of a chain of matrix products up to which all orders are tried.
        max_chain_factors: 24, in 3..=8,
        /// Blocks of an arena up to which several placement orders are tried.
        max_ordered_blocks: 1024, in 1..=8,
        /// Launches repeated for one result under a memory limit.
        max_repeated_launches: 64, in 1..=64,
        /// Candidates tried per round under a memory limit.
        max_tried_candidates: 12, in 1..=12,
        /// Launches from which on a memory limit drops several results at once.
        min_batched_launches: 256, in 4..=64,
    }
}
