//! Context and streams of a GPU, and error handling of all driver calls.
//!
//! In: calls. Out: their results as [`Error`]s. A queue is a stream, created when work is first submitted to it. Always
//! true: the context is current on the calling thread; after an error that ends the context (such as an illegal
//! address) every call returns it; and one thread at a time submits work to a queue.

use super::api::{Api, NOT_READY, SUCCESS};
use cudarc::driver::sys::{CUcontext, CUevent, CUevent_flags_enum, CUstream};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thalweg_gpu::runtime::COLLECTIVES;
use thalweg_runtime::{Error, QUEUES};

/// Time that a wait polls without yielding: the result of a small kernel arrives within it.
const SPIN: Duration = Duration::from_micros(50);
/// Time that a wait then polls while yielding to other threads. Waking a thread takes longer than this costs.
const YIELD: Duration = Duration::from_millis(2);

/// Context of a GPU, its streams, and its events.
pub(super) struct Gpu {
    pub(super) api: &'static Api,
    /// Device name as in `THALWEG_DEVICE`: "cuda:0".
    pub(super) name: String,
    pub(super) context: CUcontext,
    /// Streams by index of the queue.
    streams: [Mutex<Stream>; QUEUES],
    /// Whether programmatic dependent launch is enabled: launches may start while the previous one ends.
    pub(super) overlaps: AtomicBool,
    /// Error that ended the context.
    failed: OnceLock<Error>,
    /// Free events: those with timestamps, and those without, which are cheaper to wait for.
    events: [Mutex<Vec<Handle>>; 2],
    /// Stream for captures of library calls, in which nothing runs; created at the first capture.
    capturing: Mutex<Option<Capturing>>,
}

/// A queue of the GPU: a CUDA stream with its state.
#[derive(Debug)]
struct Stream {
    /// Handle of the stream; null until work is submitted.
    handle: CUstream,
    /// Whether the last submitted work is a launch of one of our kernels. Only after such a launch may the next one
    /// start early (programmatic dependent launch): it would overtake a copy, and a library's kernels may not wait for
    /// earlier ones.
    after_launch: bool,
    /// Number of turns (exclusive uses by a thread) so far, and the last turn after which the stream is known to be
    /// empty.
    turns: u64,
    drained: u64,
}

// SAFETY: a stream may be used on any thread.
unsafe impl Send for Stream {}

/// A thread's exclusive turn at a queue: no other thread's work comes between the work that it submits.
pub(super) struct QueueGuard<'a> {
    pub(super) handle: CUstream,
    /// Whether the last work submitted before this turn is a launch.
    pub(super) after_launch: bool,
    stream: MutexGuard<'a, Stream>,
}

impl QueueGuard<'_> {
    /// Records that the work just submitted is a launch.
    pub(super) fn launched(&mut self) {
        self.stream.after_launch = true;
    }

    /// Submits an event record to the queue.
    pub(super) fn record(&self, gpu: &Gpu, event: CUevent) -> Result<(), Error> {
        // SAFETY: an event and a stream of this context.
        gpu.check("cuEventRecord", unsafe { (gpu.api.event_record)(event, self.handle) })
    }
}

/// Stream in which library calls are captured ([`Gpu::capturing`]).
pub(super) struct Capturing(CUstream);

// SAFETY: a stream may be used on any thread.
unsafe impl Send for Capturing {}

/// Exclusive access to the stream for captures.
pub(super) struct Held<'a>(MutexGuard<'a, Option<Capturing>>);

impl Held<'_> {
    pub(super) fn handle(&self) -> CUstream {
        self.0.as_ref().map_or(null_mut(), |s| s.0)
    }
}

struct Handle(CUevent);

// SAFETY: an event may be used on any thread.
unsafe impl Send for Handle {}
// SAFETY: the driver's handles may be used on any thread, several at once.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gpu({})", self.name)
    }
}

/// Whether an error ends the context: no later call in it succeeds.
fn ends_context(error: i32) -> bool {
    // ECC, contained and other hardware errors; illegal address, timeout, assert, stack, instruction, alignment,
    // address space, program counter, launch failed.
    matches!(error, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=720)
}

impl Gpu {
    /// Wraps the primary context of a device.
    pub(super) fn new(api: &'static Api, name: String, context: CUcontext) -> Result<Gpu, Error> {
        let gpu = Gpu {
            api,
            name,
            context,
            streams: std::array::from_fn(|_| {
                Mutex::new(Stream { handle: null_mut(), after_launch: false, turns: 0, drained: 0 })
            }),
            overlaps: AtomicBool::new(false),
            failed: OnceLock::new(),
            events: std::array::from_fn(|_| Mutex::default()),
            capturing: Mutex::default(),
        };
        gpu.enter()?;
        Ok(gpu)
    }

    /// Waits for the calling thread's turn at a queue, and returns it.
    ///
    /// # Errors
    /// The error that ended the context, if any; errors of creating a stream.
    pub(super) fn turn(&self, queue: usize) -> Result<QueueGuard<'_>, Error> {
        self.enter()?;
        let mut stream = self.stream(queue);
        if stream.handle.is_null() {
            stream.handle = if queue == COLLECTIVES { self.new_urgent_stream()? } else { self.new_stream()? };
        }
        stream.turns += 1;
        let after_launch = std::mem::take(&mut stream.after_launch);
        Ok(QueueGuard { handle: stream.handle, after_launch, stream })
    }

    fn stream(&self, queue: usize) -> MutexGuard<'_, Stream> {
        self.streams[queue].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the context current on this thread.
    ///
    /// # Errors
    /// The error that ended the context, if any.
    pub(super) fn enter(&self) -> Result<(), Error> {
        thread_local! {
            /// The context that was last made current here. Others who change it restore it, as every user of a shared
            /// primary context must.
            static CURRENT: Cell<usize> = const { Cell::new(0) };
        }
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        if CURRENT.get() != self.context as usize {
            // SAFETY: the context was retained and is never released.
            self.check("cuCtxSetCurrent", unsafe { (self.api.make_current)(self.context) })?;
            CURRENT.set(self.context as usize);
        }
        Ok(())
    }

    /// Converts the result code of the driver function `call`. An error that ends the context is kept for all later
    /// calls.
    ///
    /// # Errors
    /// When it is not success.
    pub(super) fn check(&self, call: &str, result: i32) -> Result<(), Error> {
        if result == SUCCESS { Ok(()) } else { Err(self.error(call, result)) }
    }

    #[cold]
    fn error(&self, call: &str, result: i32) -> Error {
        let what = self.api.describe(result);
        let device = self.name.clone();
        if !ends_context(result) {
            return Error::Device { device, message: format!("{call}: {what}") };
        }
        let message = format!(
            "{what}, noticed by {call}; a launch before it caused this (CUDA_LAUNCH_BLOCKING=1 in the environment names it), \
             and the GPU can compute nothing more in this process"
        );
        self.failed.get_or_init(|| Error::Device { device, message }).clone()
    }

    /// Whether the context has ended.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// Returns an event, new or reused, with or without a timestamp.
    pub(super) fn obtain_event(&self, timed: bool) -> Result<CUevent, Error> {
        if let Some(event) = self.events[usize::from(timed)].lock().unwrap_or_else(|e| e.into_inner()).pop() {
            return Ok(event.0);
        }
        let mut event = null_mut();
        let untimed = if timed { 0 } else { CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32 };
        let flags = CUevent_flags_enum::CU_EVENT_BLOCKING_SYNC as u32 | untimed;
        // SAFETY: an out-pointer to a handle.
        self.check("cuEventCreate", unsafe { (self.api.event)(&mut event, flags) })?;
        Ok(event)
    }

    /// Frees an event for reuse; the driver allows that it has not happened yet, or is recorded again.
    pub(super) fn release_event(&self, event: CUevent, timed: bool) {
        self.events[usize::from(timed)].lock().unwrap_or_else(|e| e.into_inner()).push(Handle(event));
    }

    /// Locks the stream for captures, which is created at the first call.
    pub(super) fn capturing(&self) -> Result<Held<'_>, Error> {
        let mut held = self.capturing.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = Some(Capturing(self.new_stream()?));
        }
        Ok(Held(held))
    }

    fn new_stream(&self) -> Result<CUstream, Error> {
        const NON_BLOCKING: u32 = 1;
        let mut stream = null_mut();
        // SAFETY: an out-pointer to a handle.
        self.check("cuStreamCreate", unsafe { (self.api.stream)(&mut stream, NON_BLOCKING) })?;
        Ok(stream)
    }

    /// Stream whose kernels get multiprocessors before those of other streams.
    fn new_urgent_stream(&self) -> Result<CUstream, Error> {
        const NON_BLOCKING: u32 = 1;
        // The driver limits it to the highest priority of the device.
        const PRIORITY: i32 = -5;
        let mut stream = null_mut();
        // SAFETY: an out-pointer to a handle.
        let made = unsafe { (self.api.stream_priority)(&mut stream, NON_BLOCKING, PRIORITY) };
        self.check("cuStreamCreateWithPriority", made)?;
        Ok(stream)
    }

    /// Submits a fill of `height` rows, each of `width` elements of 2 or 4 bytes, with starts `pitch` bytes apart.
    pub(super) fn fill_rows(
        &self,
        queue: usize,
        (address, pitch): (u64, usize),
        (size, bits): (usize, u32),
        [width, height]: [usize; 2],
    ) -> Result<(), Error> {
        let turn = self.turn(queue)?;
        // SAFETY: the range is the caller's.
        let filled = unsafe {
            match size {
                2 => (self.api.fill_rows_16)(address, pitch, bits as u16, width, height, turn.handle),
                _ => (self.api.fill_rows_32)(address, pitch, bits, width, height, turn.handle),
            }
        };
        self.check("cuMemsetD2DAsync", filled)
    }

    /// Whether the device has reached an event.
    pub(super) fn has_happened(&self, event: CUevent) -> Result<bool, Error> {
        // SAFETY: an event of this context.
        match unsafe { (self.api.event_query)(event) } {
            NOT_READY => Ok(false),
            result => self.check("cuEventQuery", result).map(|()| true),
        }
    }

    /// Waits until the device has reached an event.
    pub(super) fn wait(&self, event: CUevent) -> Result<(), Error> {
        let mut begun = None;
        loop {
            // SAFETY: an event of this context.
            let result = unsafe { (self.api.event_query)(event) };
            if result != NOT_READY {
                return self.check("cuEventQuery", result);
            }
            match begun.get_or_insert_with(Instant::now).elapsed() {
                time if time < SPIN => std::hint::spin_loop(),
                time if time < YIELD => std::thread::yield_now(),
                // SAFETY: as above.
                _ => return self.check("cuEventSynchronize", unsafe { (self.api.event_wait)(event) }),
            }
        }
    }

    /// Waits until a queue is empty; returns at once where no work was submitted since it was last empty.
    pub(super) fn drain(&self, queue: usize) -> Result<(), Error> {
        let stream = self.stream(queue);
        if stream.turns == stream.drained {
            return self.enter();
        }
        drop(stream);
        let event = self.obtain_event(false)?;
        let put = self.turn(queue).and_then(|turn| turn.record(self, event).map(|()| turn.stream.turns));
        let waited = put.and_then(|turns| self.wait(event).map(|()| turns));
        self.release_event(event, false);
        let mut stream = self.stream(queue);
        stream.drained = stream.drained.max(waited?);
        Ok(())
    }

    /// Waits until all queues are empty.
    pub(super) fn drain_all(&self) -> Result<(), Error> {
        (0..QUEUES).try_for_each(|queue| self.drain(queue))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.drain_all().is_err() {
            // In a context that has ended nothing can be destroyed.
            return;
        }
        for events in &mut self.events {
            for event in events.get_mut().unwrap_or_else(|e| e.into_inner()).drain(..) {
                // SAFETY: nobody uses it, and the queues are empty.
                unsafe { (self.api.event_destroy)(event.0) };
            }
        }
        let capturing = self.capturing.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let streams = self.streams.iter_mut().map(|s| s.get_mut().unwrap_or_else(PoisonError::into_inner).handle);
        for stream in streams.filter(|s| !s.is_null()).chain(capturing.map(|c| c.0)) {
            // SAFETY: all users of the stream held this.
            unsafe { (self.api.stream_destroy)(stream) };
        }
    }
}
