//! Definitions common to all launches of maps, whatever order they visit points in: chunk size, time estimates, store
//! modes, and the scratch memory of a thread.

use crate::engine::STREAM_ALIGN;
use std::cell::Cell;

/// Number of points of a chunk, the unit of work of a thread: 128 KiB of f32, some 10 µs of light work, and a whole
/// number of cache lines.
pub const CHUNK: usize = 32 << 10;
/// Cost model of a launch: nanoseconds per unit of cost (one addition; `NS_PER_COST`), per point (`NS_PER_POINT`) and
/// per byte (`NS_PER_BYTE`), on one thread. Measured on Zen 5 with AVX-512 (`tests/measure.rs`): erf, of cost 20, takes
/// 0.43 ns a point; a product with a scalar, 8 bytes a point, takes 0.03 to 0.07 ns in the second and third-level
/// caches.
const NS_PER_COST: f64 = 0.02;
const NS_PER_POINT: f64 = 0.01;
const NS_PER_BYTE: f64 = 0.01;

/// Store mode of a launch.
#[derive(Clone, Copy)]
pub struct Stores<'a> {
    /// Whether outputs overlap inputs that a second run of a rectangle would read. Emitted code, which may require a
    /// second run, is then not used.
    pub in_place: bool,
    /// Indices of the accesses that are written by non-temporal stores; empty for ordinary stores.
    pub streams: &'a [u16],
}

impl Stores<'_> {
    /// Whether a rectangle, whose argument words are `args`, is written by non-temporal stores: there are such
    /// accesses, and all their rows are aligned.
    pub fn may_stream(&self, args: &[u64], rows: usize) -> bool {
        let aligned = |word: usize| args[word].is_multiple_of(STREAM_ALIGN as u64);
        let fits = |&a: &u16| aligned(4 * a as usize) && (rows == 1 || aligned(4 * a as usize + 1));
        !self.streams.is_empty() && self.streams.iter().all(fits)
    }
}

/// Estimated nanoseconds that one thread takes for `points` points of arithmetic of this cost, if every element is
/// addressed by a stride.
pub fn straight_ns(points: f64, cost: u64, bytes: f64) -> f64 {
    (points * (NS_PER_POINT + NS_PER_COST * cost as f64)).max(bytes * NS_PER_BYTE)
}

/// Scratch memory of one thread.
#[derive(Default)]
pub struct Scratch {
    /// Argument words of a call, in the layout of [`RowArgs`](crate::row_call::RowArgs).
    pub args: Vec<u64>,
    /// Position tables of mapped accesses.
    pub tables: Vec<i32>,
    /// Packed copies of operand blocks that a call reads instead of the operands.
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
