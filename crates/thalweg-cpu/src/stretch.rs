//! What a launch of a map is made of, whichever way it goes over its points: chunks that threads take, how long they
//! take, how results are stored, and what a thread works with.

use crate::engine::STREAM_ALIGN;
use std::cell::Cell;

/// Points that a thread takes at a time: 128 KiB of f32, some 10 µs of light work, and a whole number of cache lines.
pub const CHUNK: usize = 32 << 10;
/// What the estimate of a launch's time knows of the machine: nanoseconds an addition, a point and a byte on one
/// thread. Measured on Zen 5 with AVX-512 (`tests/measure.rs`): erf, of cost 20, takes 0.43 ns a point; a product with
/// a scalar 0.03 to 0.07 ns, 8 bytes, in the second and third-level caches.
const NS_PER_COST: f64 = 0.02;
const NS_PER_POINT: f64 = 0.01;
const NS_PER_BYTE: f64 = 0.01;

/// How a launch writes.
#[derive(Clone, Copy)]
pub struct Stores<'a> {
    /// Outputs lie over inputs that may be read again.
    pub in_place: bool,
    /// The accesses that are written, if they go past the caches; else empty.
    pub streams: &'a [u16],
}

impl Stores<'_> {
    /// Whether the rectangle's rows begin where vectors may be stored past the caches.
    pub fn may_stream(&self, args: &[u64], rows: usize) -> bool {
        let aligned = |word: usize| args[word].is_multiple_of(STREAM_ALIGN as u64);
        let fits = |&a: &u16| aligned(4 * a as usize) && (rows == 1 || aligned(4 * a as usize + 1));
        !self.streams.is_empty() && self.streams.iter().all(fits)
    }
}

/// The time that one thread will take for so many points of an arithmetic of that cost, every element being found by
/// its stride.
pub fn straight_ns(points: f64, cost: u64, bytes: f64) -> f64 {
    (points * (NS_PER_POINT + NS_PER_COST * cost as f64)).max(bytes * NS_PER_BYTE)
}

/// What one thread works with.
#[derive(Default)]
pub struct Scratch {
    /// The words of a call.
    pub args: Vec<u64>,
    /// Positions of mapped accesses.
    pub tables: Vec<i32>,
    /// Elements that are brought together before a call.
    pub blocks: Vec<u64>,
}

thread_local! {
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch { args: Vec::new(), tables: Vec::new(), blocks: Vec::new() }) };
}

/// Calls `work` with this thread's scratch memory.
pub fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SCRATCH.take();
    let done = work(&mut scratch);
    SCRATCH.set(scratch);
    done
}
