//! Counters: what was recorded, planned, compiled, launched and moved.
//!
//! Every thread counts for itself, without synchronisation; what a thread's streams do is on its account. Tests
//! assert on counters, because a fusion that silently never happens leaves all values right.

use std::cell::Cell;
use std::ops::Sub;

/// Sums since the thread started. Subtract two snapshots to count a stretch of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Operations recorded.
    pub operations: u64,
    /// Segments cut and run.
    pub segments: u64,
    /// Plans searched for and made.
    pub plans_made: u64,
    /// Segments whose plan was there already.
    pub plans_found: u64,
    /// Plans found in the disk cache, and so neither searched for nor there already.
    pub plans_loaded: u64,
    /// Times that what things take was measured.
    pub calibrations: u64,
    /// Plans instantiated for concrete sizes (addresses, strides, programs) for the first time.
    pub instances_made: u64,
    /// Plans that were measured against others, to the end.
    pub autotuned: u64,
    /// Of these, where another plan was faster.
    pub autotuned_replaced: u64,
    /// Live results that were not written, because nobody had read them before.
    pub values_deferred: u64,
    /// Values that were not written, those left for a backward pass with them, and were read after all: each was
    /// computed by a run of its own.
    pub values_recomputed: u64,
    /// Results written because a backward pass will read them or what follows from them, and nobody else.
    pub values_kept: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// Results that a backward pass will read and that were not written: it computes them again.
    pub values_left: u64,
    /// Operations recorded again for such results. They count as operations, too.
    pub operations_again: u64,
    /// Functions on the host that ran in the midst of a program (`HostOp`).
    pub host_calls: u64,
    /// Kernels compiled.
    pub programs_compiled: u64,
    /// Kernels whose machine code was found in the disk cache.
    pub programs_loaded: u64,
    /// Nanoseconds spent compiling.
    pub compile_ns: u64,
    /// Nanoseconds spent planning.
    pub plan_ns: u64,
    /// Kernels launched.
    pub kernels: u64,
    /// What a GPU was given to run for them: functions, or graphs of them. A kernel may take several.
    pub device_launches: u64,
    /// Graphs made of launches that come again and again.
    pub graphs_made: u64,
    /// Graphs run: each is one of the launches above.
    pub graph_runs: u64,
    /// Bytes of distinct elements that kernels read, each kernel for itself.
    pub bytes_read: u64,
    /// Bytes that kernels wrote.
    pub bytes_written: u64,
    /// Bytes of results and intermediates that took no other's place, each counted for itself: intermediates that share
    /// an arena, too.
    pub bytes_allocated: u64,
    /// Bytes of the arenas in which intermediates shared memory: what they took instead.
    pub arena_bytes: u64,
    /// Bytes of scratch memory that launches on a GPU were given beside their operands, a library's workspace included.
    pub scratch_bytes: u64,
    /// Outputs that took the place of a dying input.
    pub reused_in_place: u64,
    /// Launches that computed again what was not held, to stay below a memory limit. They count as kernels, too.
    pub recomputed_launches: u64,
}

impl Sub for Counters {
    type Output = Counters;
    fn sub(self, o: Counters) -> Counters {
        Counters {
            operations: self.operations - o.operations,
            segments: self.segments - o.segments,
            plans_made: self.plans_made - o.plans_made,
            plans_found: self.plans_found - o.plans_found,
            plans_loaded: self.plans_loaded - o.plans_loaded,
            calibrations: self.calibrations - o.calibrations,
            instances_made: self.instances_made - o.instances_made,
            autotuned: self.autotuned - o.autotuned,
            autotuned_replaced: self.autotuned_replaced - o.autotuned_replaced,
            values_deferred: self.values_deferred - o.values_deferred,
            values_recomputed: self.values_recomputed - o.values_recomputed,
            values_kept: self.values_kept - o.values_kept,
            kept_bytes: self.kept_bytes - o.kept_bytes,
            values_left: self.values_left - o.values_left,
            operations_again: self.operations_again - o.operations_again,
            host_calls: self.host_calls - o.host_calls,
            programs_compiled: self.programs_compiled - o.programs_compiled,
            programs_loaded: self.programs_loaded - o.programs_loaded,
            compile_ns: self.compile_ns - o.compile_ns,
            plan_ns: self.plan_ns - o.plan_ns,
            kernels: self.kernels - o.kernels,
            device_launches: self.device_launches - o.device_launches,
            graphs_made: self.graphs_made - o.graphs_made,
            graph_runs: self.graph_runs - o.graph_runs,
            bytes_read: self.bytes_read - o.bytes_read,
            bytes_written: self.bytes_written - o.bytes_written,
            bytes_allocated: self.bytes_allocated - o.bytes_allocated,
            arena_bytes: self.arena_bytes - o.arena_bytes,
            scratch_bytes: self.scratch_bytes - o.scratch_bytes,
            recomputed_launches: self.recomputed_launches - o.recomputed_launches,
            reused_in_place: self.reused_in_place - o.reused_in_place,
        }
    }
}

thread_local! {
    static COUNTERS: Cell<Counters> = const { Cell::new(Counters {
        operations: 0, segments: 0, plans_made: 0, plans_found: 0, plans_loaded: 0, calibrations: 0, instances_made: 0,
        autotuned: 0, autotuned_replaced: 0, values_deferred: 0, values_recomputed: 0, values_kept: 0, kept_bytes: 0, values_left: 0, operations_again: 0, host_calls: 0,
        programs_compiled: 0, programs_loaded: 0, compile_ns: 0, plan_ns: 0, kernels: 0, device_launches: 0, graphs_made: 0, graph_runs: 0, bytes_read: 0, bytes_written: 0, bytes_allocated: 0,
        arena_bytes: 0, scratch_bytes: 0, reused_in_place: 0, recomputed_launches: 0,
    }) };
}

/// The calling thread's counters.
pub fn counters() -> Counters {
    COUNTERS.get()
}

/// Adds to the calling thread's counters.
pub fn count(f: impl FnOnce(&mut Counters)) {
    let mut c = COUNTERS.get();
    f(&mut c);
    COUNTERS.set(c);
}
