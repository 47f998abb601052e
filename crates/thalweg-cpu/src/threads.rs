//! Who takes part in a launch.
//!
//! In: a number of chunks, an estimate of the work, and what to do with a range of chunks. The calling thread always
//! takes part; helpers join only where the estimate pays for waking them. Chunks are taken by an atomic counter, so a
//! helper that comes late (or never, on a busy machine) costs nothing but its share; waiting threads park. The helpers
//! are made when first needed: a process that launches nothing large has one thread. On a worker of a rayon pool nobody
//! helps.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The threads of a device.
#[derive(Debug)]
pub struct Threads {
    count: usize,
    parallel_ns: f64,
    helpers: OnceLock<Option<rayon::ThreadPool>>,
}

impl Threads {
    /// At most `count` threads, the caller's included, from `parallel_ns` of estimated work on.
    pub fn new(count: usize, parallel_ns: f64) -> Threads {
        Threads { count: count.max(1), parallel_ns, helpers: OnceLock::new() }
    }

    /// The most threads that take part.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many threads work of that estimate is worth.
    pub fn for_work(&self, estimate_ns: f64) -> usize {
        if self.count == 1 || estimate_ns < self.parallel_ns {
            return 1;
        }
        // Each thread is to have at least half the threshold to do.
        let worth = if self.parallel_ns > 0.0 { estimate_ns / (self.parallel_ns / 2.0) } else { f64::INFINITY };
        self.count.min(worth as usize).max(1)
    }

    /// Calls `work` with ranges that cover `0..chunks` once, at most `grain` chunks each, on as many threads as the
    /// estimate is worth. Returns when all are done.
    pub fn run(&self, chunks: usize, grain: usize, estimate_ns: f64, work: impl Fn(Range<usize>) + Sync) {
        let grain = grain.max(1);
        let threads = self.for_work(estimate_ns).min(chunks.div_ceil(grain));
        // A worker of some rayon pool, the program's own for one, takes up other jobs while it waits for helpers. Such
        // a job may come back here on the same stack, below locks that the launch is made under, so there the caller
        // works alone; its siblings are at work.
        let helped = threads > 1 && rayon::current_thread_index().is_none();
        let helpers = if helped { self.helpers() } else { None };
        let Some(helpers) = helpers else {
            if chunks > 0 {
                work(0..chunks);
            }
            return;
        };
        let next = AtomicUsize::new(0);
        let take = || {
            loop {
                let start = next.fetch_add(grain, Relaxed);
                if start >= chunks {
                    return;
                }
                work(start..chunks.min(start + grain));
            }
        };
        helpers.in_place_scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|_| take());
            }
            take();
        });
    }

    fn helpers(&self) -> Option<&rayon::ThreadPool> {
        let build = || {
            // Where threads cannot be made, the caller works alone.
            rayon::ThreadPoolBuilder::new()
                .num_threads(self.count - 1)
                .thread_name(|i| format!("thalweg-cpu-{i}"))
                .build()
                .ok()
        };
        self.helpers.get_or_init(build).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

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
}
