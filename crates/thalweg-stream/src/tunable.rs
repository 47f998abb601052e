//! Thresholds for cuts, plan caches, deferred results and cold starts.

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-stream`. Each value gives the same results.
    pub struct StreamTunables of "thalweg-stream" {
        /// Minimum number of waiting operations at which a repetition is searched for: enough that a loop of small
        /// operations still becomes one kernel of many iterations.
        min_period_operations: 512, in 4..=64,
        /// Maximum number of waiting operations, at which a stream is cut unconditionally.
        max_operations: 8192, in 6..=128,
        /// Maximum bytes of inputs that a segment alone keeps alive before it is cut.
        max_input_bytes: 512 << 20, in 64..=65536,
        /// Maximum number of values kept for reuse by the next segment, a quarter of a kilobyte each.
        max_spare_values: 8192, in 0..=8,
        /// Maximum number of nodes of a recognizer before it starts over: a program that never repeats itself must not
        /// grow without bound.
        max_nodes: 1 << 20, in 16..=512,
        /// Maximum number of plans at the nodes of a recognizer before it starts over: each keeps its instances alive.
        max_known_plans: 1 << 14, in 2..=64,
        /// Maximum number of instances cached for one pattern. Beyond, they are made again in microseconds.
        max_instances: 1024, in 1..=4,
        /// Maximum number of classes of a pattern that are planned for. A class beyond takes the known plan with the
        /// least predicted time.
        max_classes: 16, in 1..=4,
        /// Maximum number of patterns in the plan store before it starts over.
        max_patterns: 1 << 14, in 4..=64,
        /// Maximum number of plans cached for one class. Sizes that break the assumptions of all of them are planned
        /// for again.
        max_class_plans: 16, in 1..=3,
        /// Maximum number of schedules cached for one instance. Beyond, they are made for each run.
        max_schedules: 16, in 1..=3,
        /// Minimum number of times that a result is dropped unread before it is deferred.
        min_unread_runs: 2, in 1..=3,
        /// Maximum bytes of inputs that only recipes of deferred results keep alive.
        max_recipe_bytes: 256 << 20, in 0..=65536,
        /// Minimum bytes of a result without history at which deferring it by a guess is worthwhile.
        min_guessed_bytes: 256 << 10, in 1..=4096,
        /// Maximum number of deferred checks that one value carries. Beyond, the oldest are waited for.
        max_checks: 256, in 2..=8,
        /// Maximum number of decisions about values of a tape that are kept for one pattern.
        max_decisions: 32, in 1..=1,
        /// Maximum number of single operations cached for one device. Beyond, they are found again in ten microseconds
        /// each.
        max_singles: 1 << 14, in 1..=64,
        /// Maximum average bytes moved per operation at which a new segment runs unfused instead of by a quick plan.
        /// Above, unfused kernels take longer than emitting code, about 25 µs.
        max_unfused_bytes: 512 << 10, in 16..=65536,
        /// Minimum number of occurrences of a class at which a plan for it is searched for.
        min_meetings: 2, in 1..=3,
        /// Minimum number of operations of a segment at which a quick plan is made before its search, which may take
        /// seconds.
        min_quick_operations: 64, in 2..=24,
        /// Minimum number of operations of a segment at which its plan is loaded from disk on another thread, while the
        /// segment runs unfused. Writing and loading the kernels of a plan takes 50 to 120 µs an operation, an unfused
        /// run up to 25.
        min_background_load_operations: 256, in 2..=24,
    }
}
