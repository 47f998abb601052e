//! Counters of recorded operations, plans, compilations, launches and transfers.
//!
//! Each thread has its own counters, without synchronisation; they count what the thread's streams do. Tests assert on
//! counters, because a missing fusion changes no values.

use std::cell::Cell;
use std::ops::{Add, Sub};

/// Declares the counters with their addition and subtraction.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Totals since the thread started. Subtract two snapshots to measure a section of code.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            const NONE: Counters = Counters { $($name: 0,)* };

            /// Name and value of each counter, in declaration order.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        impl Add for Counters {
            type Output = Counters;
            fn add(self, o: Counters) -> Counters {
                Counters { $($name: self.$name + o.$name,)* }
            }
        }

        impl Sub for Counters {
            type Output = Counters;
            fn sub(self, o: Counters) -> Counters {
                Counters { $($name: self.$name - o.$name,)* }
            }
        }
    };
}

counters! {
    /// Number of operations recorded.
    operations,
    /// Number of segments cut and executed.
    segments,
    /// Number of segments that were submitted as a whole, as they were captured before. They count as `segments`, too.
    captured_runs,
    /// Number of segments that failed. Their live results hold the error, or were computed by another run
    /// (`segments_rerun`).
    failed_segments,
    /// Number of failed segments that were run again: without the failed operations, or with one kernel per operation
    /// if only the plan failed.
    segments_rerun,
    /// Number of plans found by a search.
    plans_made,
    /// Effort of searches: number of candidate kernels looked up, plus number of operations of each new candidate.
    plan_visits,
    /// Number of components of segments that reused the plan of an equal component, without a search.
    components_reused,
    /// Number of components of segments whose search started from known plans of others.
    components_seeded,
    /// Number of plans replaced by a better one from a background search.
    plans_improved,
    /// Number of segments whose plan was already in memory.
    plans_found,
    /// Number of plans loaded from the disk cache.
    plans_loaded,
    /// Number of segments executed before a plan had been searched for (tier 0).
    cold_starts,
    /// Number of segments executed with the fastest of several measured plans (tier 2); the other planned ones used a
    /// plan from a search (tier 1).
    autotuned_runs,
    /// Number of calibrations of devices.
    calibrations,
    /// Number of plans instantiated for concrete sizes (addresses, strides, programs) for the first time.
    instances_made,
    /// Number of plans whose measurement against others was completed.
    autotuned,
    /// Number of completed measurements in which another plan was faster.
    autotuned_replaced,
    /// Number of corrections of the cost model learned from launch times.
    corrections,
    /// Number of live results that were not written, because nobody had read them yet.
    values_deferred,
    /// Number of values that were not written, including those dropped for a backward pass, and were read after all:
    /// each was computed by a separate run.
    values_recomputed,
    /// Number of results written only because a backward pass will read them or values computed from them.
    values_saved,
    /// Bytes of the results that `values_saved` counts.
    saved_bytes,
    /// Number of results that a backward pass needs and that were not written: it recomputes them.
    values_dropped,
    /// Number of operations recorded again to recompute dropped results. They count as `operations`, too.
    operations_recomputed,
    /// Number of calls of host functions within a program (`HostOp`).
    host_calls,
    /// Number of calls of a device's library functions instead of host functions (Fourier transforms by cuFFT,
    /// decompositions by cuSOLVER).
    library_calls,
    /// Number of kernels compiled.
    programs_compiled,
    /// Number of kernels whose machine code was loaded from the disk cache.
    programs_loaded,
    /// Nanoseconds spent compiling.
    compile_ns,
    /// Nanoseconds spent planning.
    plan_ns,
    /// Number of kernels launched.
    kernels,
    /// Number of launches issued to a GPU: functions, or graphs of them. A kernel may take several.
    device_launches,
    /// Number of kernels that a GPU's generic kernels (interpreters) executed, because they had not been compiled. They
    /// count as `kernels`, too.
    generic_kernels,
    /// Number of graphs created from repeated launches.
    graphs_made,
    /// Number of graphs launched. Each counts as one of `device_launches`.
    graph_runs,
    /// Bytes of distinct elements read by kernels, counted per kernel.
    bytes_read,
    /// Bytes written by kernels.
    bytes_written,
    /// Bytes of results and intermediates that did not reuse another one's memory, counted individually, even if
    /// intermediates share an arena.
    bytes_allocated,
    /// Bytes of the arenas in which intermediates share memory: the memory actually allocated for them.
    arena_bytes,
    /// Bytes of scratch memory for launches on a GPU, in addition to operands; includes library workspaces.
    scratch_bytes,
    /// Bytes copied from the host to a GPU.
    bytes_to_device,
    /// Bytes copied from a GPU to the host.
    bytes_to_host,
    /// Bytes copied from one GPU to another without passing through the program's memory.
    bytes_between_devices,
    /// Number of waits inserted in a GPU queue for another one.
    queue_waits,
    /// Number of outputs that reused the memory of an input after its last use.
    reused_in_place,
    /// Number of launches that recomputed values to stay below a memory limit. They count as `kernels`, too.
    recomputed_launches,
}

/// Declares the former names of counters as deprecated methods, so that the compiler names the new one.
macro_rules! former_names {
    ($($former:ident => $name:ident, $note:literal;)*) => {
        impl Counters {
            $(
                #[doc = concat!("Former name of [`", stringify!($name), "`](Counters::", stringify!($name), ").")]
                #[deprecated(note = $note)]
                #[must_use]
                pub fn $former(&self) -> u64 {
                    self.$name
                }
            )*
        }
    };
}

former_names! {
    first_sight => cold_starts, "renamed to the field `cold_starts`";
    runs_of_measured => autotuned_runs, "renamed to the field `autotuned_runs`";
    parts_taken => components_reused, "renamed to the field `components_reused`";
    parts_grown => components_seeded, "renamed to the field `components_seeded`";
    values_kept => values_saved, "renamed to the field `values_saved`";
    kept_bytes => saved_bytes, "renamed to the field `saved_bytes`";
    values_left => values_dropped, "renamed to the field `values_dropped`";
    operations_again => operations_recomputed, "renamed to the field `operations_recomputed`";
}

thread_local! {
    static COUNTERS: Cell<Counters> = const { Cell::new(Counters::NONE) };
}

/// Counters of the calling thread.
pub fn counters() -> Counters {
    COUNTERS.get()
}

/// Updates the counters of the calling thread.
pub fn count(f: impl FnOnce(&mut Counters)) {
    let mut c = COUNTERS.get();
    f(&mut c);
    COUNTERS.set(c);
}
