//! Copies between host and device through pinned memory.
//!
//! In: bytes of any host memory. Out: the same on the other side. The device copies from and to pinned memory by itself
//! while the host continues: a small write costs a copy on the host and an entry in the queue, and of a large one the
//! host copies one chunk while the device copies another. Several threads serve one large copy, since one thread is
//! slower than the bus.
//!
//! Always true: a chunk of pinned memory is not written while the device may still read it, or the reverse, and a
//! thread that holds a chunk does not wait for another one.

use super::gpu::Gpu;
use crate::tunable::TUNABLES;
use cudarc::driver::sys::CUevent;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use thalweg_runtime::{Error, QUEUES};

/// Number of segments of a ring, and bytes of a segment.
const RING_SEGMENTS: usize = 4;
const RING_SEGMENT_BYTES: usize = 256 << 10;

/// Bytes of a chunk, long enough for the device to copy at full speed; and maximum number of chunks per device.
const CHUNK: usize = 4 << 20;
const CHUNKS: usize = 32;
/// Number of parts that a copy is divided into, unless parts would be shorter than `min_copy_part` or longer than a
/// chunk.
const PARTS: usize = 4;
/// Maximum number of threads that copy for one call.
const THREADS: usize = 8;
/// Maximum number of chunks that a reading thread has in flight.
const FLYING: usize = 2;

/// Pinned memory, allocated when it is first used.
#[derive(Debug)]
pub(super) struct Staging {
    gpu: Arc<Gpu>,
    /// Rings for small writes, by queue.
    rings: [Mutex<Option<Ring>>; QUEUES],
    /// Chunks for all other copies.
    chunks: Mutex<Chunks>,
    given_back: Condvar,
}

#[derive(Debug)]
struct Ring {
    base: *mut u8,
    segments: [RingSegment; RING_SEGMENTS],
    /// Index of the segment that writes currently go to.
    now: usize,
}

#[derive(Clone, Copy, Debug)]
struct RingSegment {
    event: CUevent,
    /// Whether the event has been recorded after the segment's copies.
    recorded: bool,
    /// Number of bytes of the segment in use.
    used: usize,
}

/// Free chunks, in the order in which they were freed.
#[derive(Debug, Default)]
struct Chunks {
    free: VecDeque<Chunk>,
    made: usize,
}

#[derive(Debug)]
struct Chunk {
    base: *mut u8,
    /// Event after the last copy from or to the chunk.
    event: CUevent,
    recorded: bool,
}

// SAFETY: pinned memory and events may be used on any thread.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Send for Chunk {}

fn pinned(gpu: &Gpu, bytes: usize) -> Result<*mut u8, Error> {
    let mut base = null_mut();
    gpu.enter()?;
    // SAFETY: an out-pointer to an address.
    let made = unsafe { (gpu.api.host_allocate)(&mut base, bytes, 0) };
    gpu.check("cuMemHostAlloc", made)?;
    Ok(base.cast())
}

impl Ring {
    fn new(gpu: &Gpu) -> Result<Ring, Error> {
        let base = pinned(gpu, RING_SEGMENTS * RING_SEGMENT_BYTES)?;
        let mut ring = Ring {
            base,
            segments: [RingSegment { event: null_mut(), recorded: false, used: 0 }; RING_SEGMENTS],
            now: 0,
        };
        for segment in &mut ring.segments {
            segment.event = gpu.obtain_event(false)?;
        }
        Ok(ring)
    }
}

impl Staging {
    pub(super) fn new(gpu: Arc<Gpu>) -> Staging {
        Staging {
            gpu,
            rings: std::array::from_fn(|_| Mutex::default()),
            chunks: Mutex::default(),
            given_back: Condvar::new(),
        }
    }

    fn chunks(&self) -> MutexGuard<'_, Chunks> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a chunk that is free or newly allocated. `None` where all are busy and `wait` is false.
    fn chunk(&self, wait: bool) -> Result<Option<Chunk>, Error> {
        let mut chunks = self.chunks();
        loop {
            let idle = match chunks.free.front() {
                Some(chunk) => !chunk.recorded || self.gpu.has_happened(chunk.event)?,
                None => false,
            };
            if idle {
                return Ok(chunks.free.pop_front());
            }
            if chunks.made < CHUNKS {
                chunks.made += 1;
                drop(chunks);
                let made = pinned(&self.gpu, CHUNK).and_then(|base| {
                    let event = self.gpu.obtain_event(false)?;
                    Ok(Chunk { base, event, recorded: false })
                });
                return match made {
                    Ok(chunk) => Ok(Some(chunk)),
                    Err(error) => {
                        self.chunks().made -= 1;
                        Err(error)
                    }
                };
            }
            if !wait {
                return Ok(None);
            }
            match chunks.free.pop_front() {
                Some(chunk) => {
                    drop(chunks);
                    let waited = self.gpu.wait(chunk.event);
                    return match waited {
                        Ok(()) => Ok(Some(chunk)),
                        Err(error) => {
                            self.give_back(chunk);
                            Err(error)
                        }
                    };
                }
                None => chunks = self.given_back.wait(chunks).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn give_back(&self, chunk: Chunk) {
        self.chunks().free.push_back(chunk);
        self.given_back.notify_one();
    }

    /// Copies spans to the device, one after the other, in the queue's order.
    pub(super) fn write(&self, queue: usize, address: u64, spans: &[&[u8]]) -> Result<(), Error> {
        self.gpu.enter()?;
        let all = HostSpans::new(spans);
        if TUNABLES.max_ring_write.admits(all.bytes) {
            return if all.bytes == 0 { Ok(()) } else { self.write_small(queue, address, &all) };
        }
        let (threads, size) = (threads(all.bytes), part(all.bytes));
        let parts = all.bytes.div_ceil(size);
        // Parts are interleaved over threads, so that the device gets them about in order.
        let share = |first: usize| {
            (first..parts).step_by(threads).try_for_each(|i| {
                let (at, bytes) = (i * size, (all.bytes - i * size).min(size));
                self.put(queue, address + at as u64, &all, (at, bytes))
            })
        };
        std::thread::scope(|scope| {
            let share = &share;
            let others: Vec<_> = (1..threads).map(|t| scope.spawn(move || share(t))).collect();
            let own = share(0);
            others.into_iter().map(|t| t.join().expect("copying does not panic")).fold(own, Result::and)
        })
    }

    /// Copies one part to the device through a chunk. The part begins at offset `at` of the spans' concatenation and
    /// has `bytes` bytes.
    fn put(&self, queue: usize, address: u64, all: &HostSpans<'_>, (at, bytes): (usize, usize)) -> Result<(), Error> {
        let gpu = &*self.gpu;
        let mut chunk = self.chunk(true)?.expect("it was waited for");
        // SAFETY: the chunk is ours and large enough, and the device has copied its previous contents.
        unsafe { all.copy(at, bytes, chunk.base) };
        let done = gpu.turn(queue).and_then(|turn| {
            let from = chunk.base.cast::<c_void>();
            // SAFETY: pinned memory that does not change until the event after it has happened; the address is the
            // caller's.
            let put = unsafe { (gpu.api.to_device)(address, from, bytes, turn.handle) };
            gpu.check("cuMemcpyHtoDAsync", put)?;
            chunk.recorded = true;
            turn.record(gpu, chunk.event)
        });
        self.give_back(chunk);
        done
    }

    fn write_small(&self, queue: usize, address: u64, all: &HostSpans<'_>) -> Result<(), Error> {
        let gpu = &*self.gpu;
        let mut ring = self.rings[queue].lock().unwrap_or_else(PoisonError::into_inner);
        if ring.is_none() {
            *ring = Some(Ring::new(gpu)?);
        }
        let ring = ring.as_mut().expect("just made");
        let bytes = all.bytes;
        if ring.segments[ring.now].used + bytes > RING_SEGMENT_BYTES {
            self.next_segment(queue, ring)?;
        }
        let segment = &mut ring.segments[ring.now];
        // SAFETY: the segment is this ring's, which is locked, and has space; the device has copied its previous
        // contents.
        let from = unsafe {
            let from = ring.base.add(ring.now * RING_SEGMENT_BYTES + segment.used);
            all.copy(0, bytes, from);
            from
        };
        // The next write begins at a cache line of its own.
        segment.used += bytes.next_multiple_of(64);
        let turn = gpu.turn(queue)?;
        // SAFETY: as in `put`; the event is submitted when the segment is full.
        let put = unsafe { (gpu.api.to_device)(address, from.cast::<c_void>(), bytes, turn.handle) };
        gpu.check("cuMemcpyHtoDAsync", put)
    }

    /// Advances to the next segment, once the device has copied it.
    fn next_segment(&self, queue: usize, ring: &mut Ring) -> Result<(), Error> {
        let full = &mut ring.segments[ring.now];
        self.gpu.turn(queue)?.record(&self.gpu, full.event)?;
        full.recorded = true;
        let next = (ring.now + 1) % RING_SEGMENTS;
        let segment = &mut ring.segments[next];
        if segment.recorded {
            self.gpu.wait(segment.event)?;
        }
        (segment.recorded, segment.used) = (false, 0);
        ring.now = next;
        Ok(())
    }

    /// Copies from the device, after all work in the queue. If it takes more than a few chunks, work that others submit
    /// meanwhile may be interleaved.
    pub(super) fn read(&self, queue: usize, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.gpu.enter()?;
        let (threads, size) = (threads(bytes.len()), part(bytes.len()));
        let parts = bytes.chunks_mut(size).enumerate().map(|(i, part)| (address + (i * size) as u64, part));
        if threads == 1 {
            return self.read_parts(queue, &mut { parts });
        }
        let mut shares: Vec<Vec<(u64, &mut [u8])>> = (0..threads).map(|_| vec![]).collect();
        parts.enumerate().for_each(|(i, part)| shares[i % threads].push(part));
        let own = shares.pop().expect("there are several");
        std::thread::scope(|scope| {
            let mut others = vec![];
            for share in shares {
                others.push(scope.spawn(move || self.read_parts(queue, &mut share.into_iter())));
            }
            let own = self.read_parts(queue, &mut own.into_iter());
            others.into_iter().map(|t| t.join().expect("copying does not panic")).fold(own, Result::and)
        })
    }

    fn read_parts(&self, queue: usize, parts: &mut dyn Iterator<Item = (u64, &mut [u8])>) -> Result<(), Error> {
        let gpu = &*self.gpu;
        let mut flying: VecDeque<(Chunk, &mut [u8])> = VecDeque::with_capacity(FLYING);
        let land = |(mut chunk, part): (Chunk, &mut [u8])| {
            let landed = gpu.wait(chunk.event).map(|()| {
                chunk.recorded = false;
                // SAFETY: the device has written the chunk, which is ours.
                unsafe { part.as_mut_ptr().copy_from_nonoverlapping(chunk.base, part.len()) };
            });
            (landed, chunk)
        };
        let mut put = || -> Result<(), Error> {
            for (address, part) in &mut *parts {
                let none = flying.len() >= FLYING;
                let chunk = if none { None } else { self.chunk(flying.is_empty())? };
                let mut chunk = match chunk {
                    Some(chunk) => chunk,
                    None => {
                        let (landed, chunk) = land(flying.pop_front().expect("there is one where none was had"));
                        if let Err(error) = landed {
                            self.give_back(chunk);
                            return Err(error);
                        }
                        chunk
                    }
                };
                let done = gpu.turn(queue).and_then(|turn| {
                    let to = chunk.base.cast::<c_void>();
                    // SAFETY: the chunk is ours until the event has happened; the address is the caller's.
                    let put = unsafe { (gpu.api.to_host)(to, address, part.len(), turn.handle) };
                    gpu.check("cuMemcpyDtoHAsync", put)?;
                    chunk.recorded = true;
                    turn.record(gpu, chunk.event)
                });
                flying.push_back((chunk, part));
                done?;
            }
            Ok(())
        };
        let mut result = put();
        for one in flying {
            if result.is_err() {
                // Copies still in the queue write to the chunk, and its event may not cover them.
                let _ = gpu.drain(queue);
                self.give_back(one.0);
                continue;
            }
            let (landed, chunk) = land(one);
            self.give_back(chunk);
            result = landed;
        }
        result
    }
}

/// Host source of a copy: spans of bytes that are copied as if they were contiguous.
struct HostSpans<'a> {
    all: &'a [&'a [u8]],
    /// Offset of each span in the concatenation.
    starts: Vec<usize>,
    bytes: usize,
}

impl<'a> HostSpans<'a> {
    fn new(all: &'a [&'a [u8]]) -> HostSpans<'a> {
        let mut bytes = 0;
        let mut start = |span: &&[u8]| {
            let start = bytes;
            bytes += span.len();
            start
        };
        let starts = all.iter().map(&mut start).collect();
        HostSpans { all, starts, bytes }
    }

    /// Copies `bytes` bytes of the concatenation, from offset `at` on, to `to`.
    ///
    /// # Safety
    /// `to` has space for `bytes` bytes.
    unsafe fn copy(&self, at: usize, bytes: usize, to: *mut u8) {
        let (mut at, mut left, mut to) = (at, bytes, to);
        let first = self.starts.partition_point(|&s| s <= at).saturating_sub(1);
        for (span, start) in self.all.iter().zip(&self.starts).skip(first) {
            let rest = &span[(at - start).min(span.len())..];
            let n = rest.len().min(left);
            // SAFETY: the caller's promise; no more than `bytes` are copied in all.
            unsafe {
                to.copy_from_nonoverlapping(rest.as_ptr(), n);
                to = to.add(n);
            }
            (at, left) = (at + n, left - n);
            if left == 0 {
                return;
            }
        }
    }
}

/// Number of threads for a copy of `bytes` bytes. At most half of the cores, since other threads need them, too.
fn threads(bytes: usize) -> usize {
    if !TUNABLES.min_threaded_copy.reached_by(bytes) {
        return 1;
    }
    std::thread::available_parallelism().map_or(1, |n| (n.get() / 2).clamp(1, THREADS))
}

/// Bytes of each part of a copy of `bytes` bytes.
fn part(bytes: usize) -> usize {
    (bytes / PARTS).next_multiple_of(4096).clamp(TUNABLES.min_copy_part.size(), CHUNK)
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.gpu.drain_all().is_err() {
            return;
        }
        let free = |base: *mut u8| {
            // SAFETY: the queues are empty, so the device no longer uses it.
            unsafe { (self.gpu.api.host_free)(base.cast()) };
        };
        for ring in &mut self.rings {
            let Some(ring) = ring.get_mut().unwrap_or_else(PoisonError::into_inner).take() else { continue };
            ring.segments.iter().for_each(|s| self.gpu.release_event(s.event, false));
            free(ring.base);
        }
        for chunk in self.chunks.get_mut().unwrap_or_else(PoisonError::into_inner).free.drain(..) {
            self.gpu.release_event(chunk.event, false);
            free(chunk.base);
        }
    }
}
