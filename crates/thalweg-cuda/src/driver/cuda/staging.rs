//! Copies between host and device by way of pinned memory.
//!
//! In: bytes of anybody's memory. Out: the same on the other side. Pinned memory is what the device copies from and to
//! by itself, while the host does something else: a small write costs a copy on the host and a word in the queue, and
//! of a large one the host copies one chunk while the device copies another.
//!
//! Always true: a chunk of pinned memory is not written while the device may still read it, or the other way round.

use super::gpu::Gpu;
use cudarc::driver::sys::CUevent;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_runtime::Error;

/// Chunks of a direction, and their bytes: long enough for the device to copy at full speed, and several, so that
/// neither side waits long.
const CHUNKS: usize = 4;
const CHUNK: usize = 2 << 20;

/// Pinned memory of both directions, each made when it is first used.
#[derive(Debug)]
pub(super) struct Staging {
    gpu: Arc<Gpu>,
    to_device: Mutex<Option<Ring>>,
    to_host: Mutex<Option<Ring>>,
}

#[derive(Debug)]
struct Ring {
    base: *mut u8,
    chunks: [Chunk; CHUNKS],
    /// The chunk that is being filled.
    now: usize,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    event: CUevent,
    /// Whether the event is in the queue, or has been.
    recorded: bool,
    /// Bytes that are used.
    used: usize,
}

// SAFETY: pinned memory and events may be used on any thread.
unsafe impl Send for Ring {}

impl Ring {
    fn new(gpu: &Gpu) -> Result<Ring, Error> {
        let mut base = null_mut();
        // SAFETY: a place for an address.
        let made = unsafe { (gpu.api.host_allocate)(&mut base, CHUNKS * CHUNK, 0) };
        gpu.check("cuMemHostAlloc", made)?;
        let mut ring =
            Ring { base: base.cast(), chunks: [Chunk { event: null_mut(), recorded: false, used: 0 }; CHUNKS], now: 0 };
        for chunk in &mut ring.chunks {
            chunk.event = gpu.obtain_event()?;
        }
        Ok(ring)
    }

    fn at(&self, chunk: usize) -> *mut u8 {
        // SAFETY: callers name one of the chunks.
        unsafe { self.base.add(chunk * CHUNK) }
    }
}

/// The ring of a direction, made if there is none.
fn ring<'a>(gpu: &Gpu, place: &'a Mutex<Option<Ring>>) -> Result<MutexGuard<'a, Option<Ring>>, Error> {
    let mut ring = place.lock().unwrap_or_else(|e| e.into_inner());
    if ring.is_none() {
        *ring = Some(Ring::new(gpu)?);
    }
    Ok(ring)
}

impl Staging {
    pub(super) fn new(gpu: Arc<Gpu>) -> Staging {
        Staging { gpu, to_device: Mutex::default(), to_host: Mutex::default() }
    }

    /// Copies to the device, in the queue's order.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let gpu = &*self.gpu;
        let mut guard = ring(gpu, &self.to_device)?;
        let ring = guard.as_mut().expect("just made");
        for (i, part) in bytes.chunks(CHUNK).enumerate() {
            if ring.chunks[ring.now].used + part.len() > CHUNK {
                self.turn(ring)?;
            }
            let chunk = &mut ring.chunks[ring.now];
            // SAFETY: the chunk is this ring's, which is locked, and has room; the device has copied what was there
            // before.
            let from = unsafe {
                let from = ring.base.add(ring.now * CHUNK + chunk.used);
                from.copy_from_nonoverlapping(part.as_ptr(), part.len());
                from
            };
            // Copies of the next write begin at a line of their own.
            chunk.used += part.len().next_multiple_of(64);
            let to = address + (i * CHUNK) as u64;
            // SAFETY: pinned memory that stays as it is until the event behind it has happened; the address is the
            // caller's.
            let put = unsafe { (gpu.api.to_device)(to, from.cast::<c_void>(), part.len(), gpu.stream) };
            gpu.check("cuMemcpyHtoDAsync", put)?;
        }
        Ok(())
    }

    /// Goes on to the next chunk, when the device has done with it.
    fn turn(&self, ring: &mut Ring) -> Result<(), Error> {
        let full = &mut ring.chunks[ring.now];
        self.gpu.record(full.event)?;
        full.recorded = true;
        let next = (ring.now + 1) % CHUNKS;
        let chunk = &mut ring.chunks[next];
        if chunk.recorded {
            self.gpu.wait(chunk.event)?;
        }
        (chunk.recorded, chunk.used) = (false, 0);
        ring.now = next;
        Ok(())
    }

    /// Copies from the device, after everything in the queue. Of more bytes than the chunks have together, what others
    /// put in the queue meanwhile may come between.
    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let gpu = &*self.gpu;
        let guard = ring(gpu, &self.to_host)?;
        let ring = guard.as_ref().expect("just made");
        let total = bytes.len();
        let put = |i: usize| -> Result<(), Error> {
            let (at, n) = (i * CHUNK, (total - i * CHUNK).min(CHUNK));
            // SAFETY: a chunk that the host has copied from, of this ring, which is locked; the address is the
            // caller's.
            let put =
                unsafe { (gpu.api.to_host)(ring.at(i % CHUNKS).cast::<c_void>(), address + at as u64, n, gpu.stream) };
            gpu.check("cuMemcpyDtoHAsync", put)?;
            gpu.record(ring.chunks[i % CHUNKS].event)
        };
        let parts = total.div_ceil(CHUNK);
        let mut result = (0..parts.min(CHUNKS)).try_for_each(put);
        for (i, part) in bytes.chunks_mut(CHUNK).enumerate() {
            if result.is_err() {
                break;
            }
            result = gpu.wait(ring.chunks[i % CHUNKS].event).and_then(|()| {
                // SAFETY: the device has written the chunk, and writes it again only when told below.
                unsafe { part.as_mut_ptr().copy_from_nonoverlapping(ring.at(i % CHUNKS), part.len()) };
                if i + CHUNKS < parts { put(i + CHUNKS) } else { Ok(()) }
            });
        }
        if result.is_err() {
            // What is still in the queue writes chunks that the next read would take for its own.
            let _ = gpu.drain();
        }
        result
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.gpu.drain().is_err() {
            return;
        }
        for place in [&mut self.to_device, &mut self.to_host] {
            let Some(ring) = place.get_mut().unwrap_or_else(|e| e.into_inner()).take() else { continue };
            ring.chunks.iter().for_each(|p| self.gpu.release_event(p.event));
            // SAFETY: the queue is empty, so the device has done with it.
            unsafe { (self.gpu.api.host_free)(ring.base.cast()) };
        }
    }
}
