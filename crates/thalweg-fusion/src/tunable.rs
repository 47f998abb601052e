//! Planner thresholds: kernel size, search effort and memory layout.

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-fusion`. Each value gives legal plans.
    pub struct PlannerTunables of "thalweg-fusion" {
        /// Maximum number of operations of one kernel, without views and constants. Keeps compile time linear in
        /// practice and code within the instruction cache.
        max_kernel_ops: 2048, in 12..=64,
        /// Maximum number of `Put` operations in one kernel. Each may cut the domain once more in each dimension, and a
        /// domain of more than `max_boxes` boxes is processed element by element.
        max_puts: 8, in 1..=8,
        /// Maximum number of index maps under which one kernel may compute the same operation.
        max_maps: 16, in 2..=16,
        /// Maximum number of values that a kernel with folds stores, where the compiler is slow. The gradients of all
        /// norms of a network, with their moments, are 220 stores over one domain and keep NVRTC busy for minutes.
        max_fold_stores: 24, in 2..=8,
        /// Maximum number of accesses of a body where launches have arguments of bounded size: a GPU's 32,764 bytes
        /// hold three bodies of so many accesses in eight dimensions.
        max_accesses: 128, in 16..=64,
        /// Maximum number of nodes of the bodies of all boxes of a domain, where the compiler is slow. NVRTC takes 0.1 ms
        /// a node on one processor, and some 10 s for the 10,000 nodes of a recurrence's steps in 15 boxes.
        /// A single operation has fewer than a thousand. Dimensions of index maps count as nodes.
        max_compiled_nodes: 4096, in 1024..=2048,
        /// Maximum number of boxes that a domain is cut into. Beyond, masked accesses go through tables of positions.
        max_boxes: 64, in 1..=8,
        /// Minimum number of points of the longest run of boxes at which boxes are always kept. With shorter runs a
        /// table may be faster.
        min_box_run: 16, in 1..=16,
        /// Minimum number of short runs of a domain at which a table of positions is faster than boxes.
        min_short_runs: 256, in 1..=16,
        /// Minimum number of points of a row for an inner-axis reduction. Shorter rows, if there are many, may be
        /// reduced along the outer axis, regardless of their accesses.
        min_row: 16, in 1..=16,
        /// Maximum work, in points, of a small matrix whose columns are folded row by row instead of as an outer-axis strip,
        /// whose setup takes as long. Each column counts as fifty points more, since the lanes of its sum are added up.
        max_narrow_matrix: 1000, in 52..=160,
        /// Minimum number of points of a run of a row. A shorter one is merged with others if the order of a row's
        /// elements is free, since each run costs a call.
        min_run: 512, in 1..=16,
        /// Maximum number of values that may be stored for a component to be searched exhaustively, instead of by
        /// moves.
        max_exact_values: 10, in 0..=10,
        /// Maximum number of elements that a reduction combines for it to be unrolled, if they are computed.
        max_unrolled_terms: 4, in 1..=16,
        /// Maximum number of rows that a reduction combines for it to be unrolled.
        max_unrolled_rows: 8, in 1..=16,
        /// Maximum number of elements of each of the three matrices of a product that is computed element by element.
        max_small_matrix: 64, in 1..=64,
        /// Maximum number of operations of a rewritten segment that is also planned as it was recorded.
        max_planned_twice: 128, in 0..=128,
        /// Minimum bytes of an input whose second read is worth searching its readers as one component.
        min_joining_input: 256, in 0..=256,
        /// Maximum number of cached plans of components with the same operations.
        max_part_variants: 4, in 1..=4,
        /// Maximum number of operations at a component's end that need not belong to the known component.
        max_new_operations: 4, in 1..=4,
        /// Minimum number of operations of a segment that is planned as a loop; shorter ones are searched as a whole.
        min_periodic_operations: 64, in 4..=64,
        /// Minimum number of a loop's iterations that are searched.
        min_searched_iterations: 8, in 4..=8,
        /// Maximum number of sibling products in a grouped launch.
        max_siblings: 4, in 1..=4,
        /// Minimum bytes of a tensor at which saving one of two reads is worth a second stage.
        min_shared_pass_bytes: 1 << 16, in 1..=256,
        /// Maximum bytes that are assumed to stay in cache from one kernel to the next.
        group_cache_bytes: 1 << 20, in 64..=4096,
        /// Minimum bytes of a value at which in-place reuse by an output matters.
        min_replaced_bytes: 1 << 20, in 1..=4096,
        /// Maximum number of grouped launches that a kernel is tried in, the newest first.
        max_tried_groups: 4, in 1..=4,
        /// Maximum number of kernels at which all pairs are considered for merging.
        max_paired_kernels: 128, in 1..=16,
        /// Maximum number of operands of a chain of matrix products at which all orders are tried.
        max_chain_factors: 24, in 3..=8,
        /// Maximum number of blocks of an arena at which several placement orders are tried.
        max_ordered_blocks: 1024, in 1..=8,
        /// Maximum number of launches repeated for one result under a memory limit.
        max_repeated_launches: 64, in 1..=64,
        /// Maximum number of candidates tried per round under a memory limit.
        max_tried_candidates: 12, in 1..=12,
        /// Minimum number of launches at which a memory limit drops several results at once.
        min_batched_launches: 256, in 4..=64,
    }
}
