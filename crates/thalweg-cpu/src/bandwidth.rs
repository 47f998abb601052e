//! What the machine's memory can do: the yardstick for kernels that are bound by it.

use crate::memory::HostMemory;
use crate::simd::Shared;
use crate::threads::Threads;
use std::time::{Duration, Instant};
use thalweg_runtime::{Error, Pool};

/// Measured rates of copying buffers well out of cache, read and written bytes both counted, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// With one thread.
    pub one: f64,
    /// With as many as a launch may use.
    pub all: f64,
    /// How many those are.
    pub threads: usize,
}

/// Bytes of each of the two buffers: out of reach of the last-level caches that a core can fill.
const BYTES: usize = 128 << 20;
/// Time for all of it, the first touch of the buffers included.
const BUDGET: Duration = Duration::from_millis(400);

/// Measures for some 0.4 s: the best of several copies, with one thread and with `threads`.
///
/// # Errors
/// Where there is no memory for the buffers.
pub fn measure(threads: usize) -> Result<Bandwidth, Error> {
    let begin = Instant::now();
    let pool = Pool::new("cpu".into(), Box::new(HostMemory::default()));
    let (from, to) = (pool.allocate(BYTES)?, pool.allocate(BYTES)?);
    let all = Threads::new(threads, 0.0);
    let alone = Threads::new(1, 0.0);
    let (a, b) = (Shared(from.address()), Shared(to.address()));
    let chunks = BYTES / (1 << 20);
    let touch = |p: Shared<u8>| {
        all.run(chunks, 1, f64::INFINITY, |range| {
            // SAFETY: the chunks are parts of the buffer, and no two threads have the same.
            unsafe { p.get().add(range.start << 20).write_bytes(1, range.len() << 20) };
        });
    };
    touch(a);
    touch(b);
    let copy = |threads: &Threads| {
        let start = Instant::now();
        // Chunks so large that memcpy stores past the caches, which is the fastest copy there is.
        threads.run(chunks, chunks.div_ceil(2 * threads.count()), f64::INFINITY, |range| {
            let (at, bytes) = (range.start << 20, range.len() << 20);
            // SAFETY: as above, and the buffers are two.
            unsafe { std::ptr::copy_nonoverlapping(a.get().add(at), b.get().add(at), bytes) };
        });
        2.0 * BYTES as f64 / start.elapsed().as_secs_f64()
    };
    let (mut one, mut many) = (0f64, 0f64);
    while one == 0.0 || begin.elapsed() < BUDGET {
        one = one.max(copy(&alone));
        many = many.max(copy(&all));
    }
    Ok(Bandwidth { one, all: many.max(one), threads: all.count() })
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_some() {
        let measured = super::measure(2).unwrap();
        assert!(measured.one > 1e8 && measured.all >= measured.one && measured.threads == 2, "{measured:?}");
    }
}
