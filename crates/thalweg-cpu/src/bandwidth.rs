//! Memory bandwidth of the machine: the reference for memory-bound kernels.

use crate::memory::HostMemory;
use crate::simd::Shared;
use crate::threads::Threads;
use std::time::{Duration, Instant};
use thalweg_runtime::{Error, Pool};

/// Measured memory bandwidth in bytes a second: the rate of copying buffers far larger than the caches, where bytes
/// read and bytes written both count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// Bandwidth of one thread, in bytes a second.
    pub one: f64,
    /// Bandwidth of all threads that a launch may use, in bytes a second.
    pub all: f64,
    /// Number of threads that `all` was measured with.
    pub threads: usize,
}

/// Bytes of each of the two buffers: more than the last-level cache that a core can fill.
const BYTES: usize = 128 << 20;
/// Time budget of the measurement, including the first touch of the buffers.
const BUDGET: Duration = Duration::from_millis(400);

/// Copy loop: copies this many bytes, a multiple of 64, between addresses aligned to 64 bytes.
type Copy = unsafe fn(*const u8, *mut u8, usize);

/// Copy loops that this machine can run: the library's, and those with non-temporal stores, which do not read a line
/// before they write it.
fn ways() -> &'static [Copy] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        return &[plain, streaming_512, streaming_256];
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        return &[plain, streaming_256];
    }
    &[plain]
}

/// Copies with the library's copy loop.
///
/// # Safety
/// As [`Copy`] says, and the ranges do not overlap.
unsafe fn plain(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
}

/// Copies 64 bytes at a time, with non-temporal stores.
///
/// # Safety
/// As [`plain`], and the machine has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn streaming_512(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{_mm_sfence, _mm512_load_si512, _mm512_stream_si512};
    for at in (0..bytes).step_by(64) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_stream_si512(to.add(at).cast(), _mm512_load_si512(from.add(at).cast())) };
    }
    _mm_sfence();
}

/// Copies 32 bytes at a time, with non-temporal stores.
///
/// # Safety
/// As [`plain`], and the machine has AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn streaming_256(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{_mm_sfence, _mm256_load_si256, _mm256_stream_si256};
    for at in (0..bytes).step_by(32) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_stream_si256(to.add(at).cast(), _mm256_load_si256(from.add(at).cast())) };
    }
    _mm_sfence();
}

/// Measures the memory bandwidth with one thread and with `threads`: the best rate of any copy loop, in rounds over
/// some 0.4 s (at least one round).
///
/// # Errors
/// If there is no memory for the buffers.
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
            // SAFETY: chunks are parts of the buffer, and no two threads have the same one.
            unsafe { p.get().add(range.start << 20).write_bytes(1, range.len() << 20) };
        });
    };
    touch(a);
    touch(b);
    let copy = |threads: &Threads, (copy, grain): (Copy, usize)| {
        let start = Instant::now();
        threads.run(chunks, grain, f64::INFINITY, |range| {
            let (at, bytes) = (range.start << 20, range.len() << 20);
            // SAFETY: as above; the two buffers are distinct.
            unsafe { copy(a.get().add(at), b.get().add(at), bytes) };
        });
        2.0 * BYTES as f64 / start.elapsed().as_secs_f64()
    };
    let (mut one, mut many) = (0f64, 0f64);
    while one == 0.0 || begin.elapsed() < BUDGET {
        for &way in ways() {
            // Small chunks, as kernels take them, and chunks so large that memcpy uses non-temporal stores.
            one = one.max(copy(&alone, (way, chunks)));
            many = many.max(copy(&all, (way, 1)));
            many = many.max(copy(&all, (way, chunks.div_ceil(2 * all.count()))));
        }
    }
    Ok(Bandwidth { one, all: many.max(one), threads: all.count() })
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_way_copies() {
        #[repr(align(64))]
        struct Aligned([u8; 4096]);
        let mut from = Aligned([0; 4096]);
        from.0.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 31 % 251) as u8);
        for way in super::ways() {
            let mut to = Aligned([0; 4096]);
            // SAFETY: both are aligned and have that many bytes; the machine supports its own copy loops.
            unsafe { way(from.0.as_ptr(), to.0.as_mut_ptr(), 4096) };
            assert!(from.0 == to.0);
        }
    }

    #[test]
    fn there_is_some() {
        let measured = super::measure(2).unwrap();
        assert!(measured.one > 1e8 && measured.all >= measured.one && measured.threads == 2, "{measured:?}");
    }
}
