//! Counters: what was recorded, planned, compiled, launched and moved.
//!
//! Every thread counts for itself, without synchronisation; what a thread's streams do is on its account. Tests
//! assert on counters, because a fusion that silently never happens leaves all values right.

use std::cell::Cell;
use std::ops::{Add, Sub};

/// Declares the counters, their sums and their differences.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Sums since the thread started. Subtract two snapshots to count a stretch of code.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            const NONE: Counters = Counters { $($name: 0,)* };
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
    /// Operations recorded.
    operations,
    /// Segments cut and run.
    segments,
    /// Segments whose run failed. Their live results hold the error, or were computed by another run (`segments_rerun`).
    failed_segments,
    /// Segments of these that were run again: without what failed, or one kernel an operation where only the plan did.
    segments_rerun,
    /// Plans searched for and made.
    plans_made,
    /// Operations written into candidates for kernels by searches: what searches took.
    plan_visits,
    /// Parts of segments that took the plan that they had in another one, without a search.
    parts_taken,
    /// Parts of segments whose search began from what was known of others.
    parts_grown,
    /// Plans that a search which went on in the background found a better one for.
    plans_improved,
    /// Segments whose plan was there already.
    plans_found,
    /// Plans found in the disk cache, and so neither searched for nor there already.
    plans_loaded,
    /// Segments that ran before a plan had been searched for (tier 0).
    first_sight,
    /// Segments that ran by a plan that was the fastest of several, measured (tier 2); all others ran by a plan that was
    /// searched for (tier 1).
    runs_of_measured,
    /// Times that what things take was measured.
    calibrations,
    /// Plans instantiated for concrete sizes (addresses, strides, programs) for the first time.
    instances_made,
    /// Plans that were measured against others, to the end.
    autotuned,
    /// Of these, where another plan was faster.
    autotuned_replaced,
    /// Live results that were not written, because nobody had read them before.
    values_deferred,
    /// Values that were not written, those left for a backward pass with them, and were read after all: each was
    /// computed by a run of its own.
    values_recomputed,
    /// Results written because a backward pass will read them or what follows from them, and nobody else.
    values_kept,
    /// Their bytes.
    kept_bytes,
    /// Results that a backward pass will read and that were not written: it computes them again.
    values_left,
    /// Operations recorded again for such results. They count as operations, too.
    operations_again,
    /// Functions on the host that ran in the midst of a program (`HostOp`).
    host_calls,
    /// Functions of a device's own libraries that ran in the place of such (Fourier transforms by cuFFT, decompositions by cuSOLVER).
    library_calls,
    /// Kernels compiled.
    programs_compiled,
    /// Kernels whose machine code was found in the disk cache.
    programs_loaded,
    /// Nanoseconds spent compiling.
    compile_ns,
    /// Nanoseconds spent planning.
    plan_ns,
    /// Kernels launched.
    kernels,
    /// What a GPU was given to run for them: functions, or graphs of them. A kernel may take several.
    device_launches,
    /// Kernels that ran by the generic ones of a GPU, since nobody had compiled them. They count as kernels, too.
    generic_kernels,
    /// Graphs made of launches that come again and again.
    graphs_made,
    /// Graphs run: each is one of the launches above.
    graph_runs,
    /// Bytes of distinct elements that kernels read, each kernel for itself.
    bytes_read,
    /// Bytes that kernels wrote.
    bytes_written,
    /// Bytes of results and intermediates that took no other's place, each counted for itself: intermediates that share
    /// an arena, too.
    bytes_allocated,
    /// Bytes of the arenas in which intermediates shared memory: what they took instead.
    arena_bytes,
    /// Bytes of scratch memory that launches on a GPU were given beside their operands, a library's workspace included.
    scratch_bytes,
    /// Bytes that were copied from the host to a GPU.
    bytes_to_device,
    /// Bytes that were copied from a GPU to the host.
    bytes_to_host,
    /// Bytes that were copied from one GPU to another without the program's memory in between.
    bytes_between_devices,
    /// Times that a queue of a GPU was made to wait for another one of its queues.
    queue_waits,
    /// Outputs that took the place of a dying input.
    reused_in_place,
    /// Launches that computed again what was not held, to stay below a memory limit. They count as kernels, too.
    recomputed_launches,
}

thread_local! {
    static COUNTERS: Cell<Counters> = const { Cell::new(Counters::NONE) };
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
