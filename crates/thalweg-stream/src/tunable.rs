//! Thresholds for cuts, plan caches, deferred results and cold starts.

thalweg_ir::tunables! {
    /// Thresholds of `thalweg-stream`. Each value gives the same results.
    pub struct StreamTunables of "thalweg-stream" {
        /// Waiting operations from which a repetition is searched for: enough that a loop of small operations still
        /// becomes one kernel of many iterations.
        min_period_operations: 512, in 4..=64,
        /// Waiting operations at which a stream is cut unconditionally.
        max_operations: 8192, in 6..=128,
        /// Bytes of inputs that a segment alone keeps alive before it is cut.
        max_input_bytes: 512 << 20, in 64..=65536,
        /// Values kept for reuse by the next segment, a quarter of a kilobyte each.
        max_spare_values: 2048, in 0..=8,
        /// Nodes of a recognizer before it starts over: a program that never repeats itself must not grow without bound.
        max_nodes: 1 << 20, in 16..=512,
        /// Plans at the nodes of a recognizer before it starts over: each keeps its instances alive.
        max_known_plans: 1 << 14, in 2..=64,
        /// Instances cached for one pattern; beyond, they are made again in microseconds.
        max_instances: 1024, in 1..=4,
        /// Classes of a pattern that are planned for. A class beyond takes the plan with the least predicted time for
        /// it.
        max_classes: 16, in 1..=4,
        /// Patterns in the plan store before it starts over.
        max_patterns: 1 << 14, in 4..=64,
        /// Plans cached for one class: sizes that break the assumptions of all of them are planned for again.
        max_class_plans: 16, in 1..=3,
        /// Schedules cached for one instance; beyond, they are made for each run.
        max_schedules: 16, in 1..=3,
        /// Number of unread drops of a result before it is deferred.
        min_unread_runs: 2, in 1..=3,
        /// Bytes of inputs that recipes of deferred results alone keep alive.
        max_recipe_bytes: 256 << 20, in 0..=65536,
        /// Bytes of a result without history from which deferring it by a guess is worthwhile.
        min_guessed_bytes: 256 << 10, in 1..=4096,
        /// Deferred checks that one value carries; beyond, the oldest are waited for.
        max_checks: 256, in 2..=8,
        /// Decisions about values of a tape kept for one pattern.
        max_decisions: 32, in 1..=1,
        /// Single operations known on one device; beyond, they are found again in ten microseconds each.
        max_singles: 1 << 14, in 1..=64,
        /// Bytes that an operation moves on average above which a new segment gets a quick plan: unfused kernels then
        /// take longer than emitting code, about 25 µs.
        max_unfused_bytes: 512 << 10, in 16..=65536,
        /// Number of meetings of a class before it is searched for.
        min_meetings: 2, in 1..=3,
    }
}
