//! Thread pool that runs the chunks of a launch.
//!
//! In: a number of chunks, an estimate of the work, and a closure that processes a range of chunks. The calling thread
//! always takes part; helpers join only if the work is worth waking them. Threads take chunks by an atomic counter, so
//! a helper that arrives late (or never, on a busy machine) costs nothing but its share (`offer.rs`). Helpers are
//! workers of a rayon pool, started when first needed: a process without large launches has one thread. On a worker of
//! a rayon pool, the caller works alone.
//!
//! Waking a sleeping thread takes 20 to 50 µs, as long as many a launch. So a helper that has worked *lingers*: it
//! polls for the next launch for a while before it sleeps. Meanwhile it yields its processor to any other thread, and
//! it does not linger if there are more threads than processors.

mod offer;

use offer::{Offer, Work};
use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Time that a helper polls for more work before it sleeps: longer than a host program needs between two launches of a
/// loop.
const LINGER: Duration = Duration::from_micros(200);

/// Thread pool of a device: the calling thread and lazily started helpers.
#[derive(Debug)]
pub struct Threads {
    count: usize,
    parallel_ns: f64,
    helpers: OnceLock<Option<rayon::ThreadPool>>,
}

impl Threads {
    /// Creates a pool of at most `count` threads, including the caller's, which launches of at least `parallel_ns`
    /// nanoseconds of estimated work use.
    pub fn new(count: usize, parallel_ns: f64) -> Threads {
        Threads { count: count.max(1), parallel_ns, helpers: OnceLock::new() }
    }

    /// Maximum number of threads of a launch.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of threads to use for an estimated amount of work, in nanoseconds on one thread.
    pub fn for_work(&self, estimate_ns: f64) -> usize {
        if self.count == 1 || estimate_ns < self.parallel_ns {
            return 1;
        }
        // Each thread gets at least half the threshold of work.
        let worth = if self.parallel_ns > 0.0 { estimate_ns / (self.parallel_ns / 2.0) } else { f64::INFINITY };
        self.count.min(worth as usize).max(1)
    }

    /// Calls `work` with disjoint ranges that cover `0..chunks`, at most `grain` chunks each, on
    /// [`Threads::for_work`]`(estimate_ns)` threads. Returns when all chunks are done.
    pub fn run(&self, chunks: usize, grain: usize, estimate_ns: f64, work: impl Fn(Range<usize>) + Sync) {
        self.run_dyn(chunks, grain.max(1), estimate_ns, &work);
    }

    /// Non-generic body of `run`, compiled once instead of for each of some hundred closures.
    fn run_dyn(&self, chunks: usize, grain: usize, estimate_ns: f64, work: &Work<'_>) {
        let threads = self.for_work(estimate_ns).min(chunks.div_ceil(grain));
        // On a worker of any rayon pool, the caller works alone: its siblings are busy.
        let helped = threads > 1 && rayon::current_thread_index().is_none();
        let helpers = if helped { self.helpers() } else { None };
        let Some(helpers) = helpers else {
            if chunks > 0 {
                work(0..chunks);
            }
            return;
        };
        let lingers = self.count <= processors();
        offer::run(chunks, grain, work, |offer| {
            for _ in 1..threads {
                let offer = Arc::clone(offer);
                helpers.spawn(move || help(&offer, lingers));
            }
        });
    }

    fn helpers(&self) -> Option<&rayon::ThreadPool> {
        let build = || {
            // If threads cannot be created, the caller works alone.
            rayon::ThreadPoolBuilder::new()
                .num_threads(self.count - 1)
                .thread_name(|i| format!("thalweg-cpu-{i}"))
                .build()
                .ok()
        };
        self.helpers.get_or_init(build).as_ref()
    }
}

/// Number of processors that this process may run on.
fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

thread_local! {
    /// Whether this worker already lingers in a frame further up its stack.
    static LINGERS: Cell<bool> = const { Cell::new(false) };
}

/// Task of a pool worker: works on the chunks of an offer, then polls for the next offer for a while (`lingers`).
fn help(offer: &Arc<Offer>, lingers: bool) {
    offer.help();
    if !lingers || LINGERS.replace(true) {
        return;
    }
    let mut since = Instant::now();
    let mut looked = 0_u32;
    while since.elapsed() < LINGER {
        // Runs the next offer, if there is one.
        if rayon::yield_now() == Some(rayon::Yield::Executed) {
            since = Instant::now();
        } else if looked.is_multiple_of(8) {
            std::thread::yield_now();
        } else {
            (0..8).for_each(|_| std::hint::spin_loop());
        }
        looked = looked.wrapping_add(1);
    }
    LINGERS.set(false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn every_chunk_is_done_once() {
        for count in [1, 2, 8] {
            let threads = Threads::new(count, 0.0);
            for (chunks, grain) in [(0, 1), (1, 1), (7, 3), (1000, 1), (1000, 64)] {
                let done: Vec<AtomicU32> = (0..chunks).map(|_| AtomicU32::new(0)).collect();
                threads.run(chunks, grain, 1e9, |range| {
                    for i in range {
                        done[i].fetch_add(1, Relaxed);
                    }
                });
                assert!(done.iter().all(|d| d.load(Relaxed) == 1));
            }
        }
    }

    #[test]
    fn little_work_wakes_nobody() {
        let threads = Threads::new(8, 30_000.0);
        threads.run(1000, 1, 20_000.0, |_| {});
        assert!(threads.helpers.get().is_none());
        assert_eq!(threads.for_work(45_000.0), 3);
        assert_eq!(threads.for_work(1e9), 8);
    }

    #[test]
    fn helpers_return_repeatedly() {
        // As many threads as processors, which linger, and more, which do not; several callers at a time.
        for count in [processors(), 2 * processors() + 1] {
            let threads = Threads::new(count, 0.0);
            std::thread::scope(|scope| {
                for caller in 0..3_usize {
                    let threads = &threads;
                    scope.spawn(move || {
                        for turn in 0..300_usize {
                            let chunks = (turn * 7 + caller) % 50;
                            let done: Vec<AtomicU32> = (0..chunks).map(|_| AtomicU32::new(0)).collect();
                            threads.run(chunks, 1 + turn % 3, 1e9, |range| {
                                range.for_each(|i| {
                                    done[i].fetch_add(1, Relaxed);
                                });
                            });
                            assert!(done.iter().all(|d| d.load(Relaxed) == 1));
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn a_panic_in_any_chunk_is_the_callers() {
        let threads = Threads::new(4, 0.0);
        for bad in 0..64_usize {
            let fails = || threads.run(64, 1, 1e9, |range| assert!(!range.contains(&bad), "chunk {bad}"));
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(fails));
            let panic = outcome.expect_err("a chunk panics");
            assert_eq!(*panic.downcast::<String>().expect("a message"), format!("chunk {bad}"));
        }
        let done = AtomicU32::new(0);
        threads.run(64, 1, 1e9, |range| {
            done.fetch_add(range.len() as u32, Relaxed);
        });
        assert_eq!(done.into_inner(), 64, "the helpers are there after a panic");
    }
}
