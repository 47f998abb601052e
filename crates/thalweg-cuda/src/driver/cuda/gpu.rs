//! A GPU's context and streams, and what every call of the driver goes through.
//!
//! In: calls. Out: their results as [`Error`]s. A queue is a stream, made when something is first put there. Always true:
//! the context is current on the thread that calls, after an error that ends a context (an illegal address, say) every
//! call says so, and one thread at a time puts something in a queue.

use super::api::{Api, NOT_READY, SUCCESS};
use cudarc::driver::sys::{CUcontext, CUevent, CUevent_flags_enum, CUstream};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thalweg_runtime::{Error, QUEUES};

/// How long a wait asks again and again: a read of what a small kernel computes ends within.
const SPIN: Duration = Duration::from_micros(50);
/// How long it then asks between letting others run. Being woken takes longer than this costs.
const YIELD: Duration = Duration::from_millis(2);

/// Context and streams of a GPU.
pub(super) struct Gpu {
    pub(super) api: &'static Api,
    /// As in `THALWEG_DEVICE`: "cuda:0".
    pub(super) name: String,
    pub(super) context: CUcontext,
    /// By number of the queue.
    streams: [Mutex<Stream>; QUEUES],
    /// Whether launches may come to the chip while the one before ends.
    pub(super) overlaps: AtomicBool,
    /// The error that ended the context.
    failed: OnceLock<Error>,
    /// Events that nobody has: those that tell the time, and those that do not and are cheaper to wait for.
    events: [Mutex<Vec<Handle>>; 2],
    /// A stream in which nothing runs: what is put there is captured.
    capturing: Mutex<Option<Capturing>>,
}

/// A queue.
#[derive(Debug)]
struct Stream {
    /// Null until something is put there.
    handle: CUstream,
    /// Whether what was put there last is a launch: a copy before a launch that comes early may be overtaken.
    after_launch: bool,
    /// Turns that threads had, and the last one up to which the stream is known to be empty.
    turns: u64,
    drained: u64,
}

// SAFETY: a stream may be used on any thread.
unsafe impl Send for Stream {}

/// A thread's turn at a queue: what it puts there stays together.
pub(super) struct Turn<'a> {
    pub(super) handle: CUstream,
    /// Whether a launch is what is there last.
    pub(super) after_launch: bool,
    stream: MutexGuard<'a, Stream>,
}

impl Turn<'_> {
    /// Says that a launch is what was put there last.
    pub(super) fn launched(&mut self) {
        self.stream.after_launch = true;
    }

    /// Puts an event there.
    pub(super) fn record(&self, gpu: &Gpu, event: CUevent) -> Result<(), Error> {
        // SAFETY: an event and a stream of this context.
        gpu.check("cuEventRecord", unsafe { (gpu.api.event_record)(event, self.handle) })
    }
}

/// A stream for [`Gpu::capturing`].
pub(super) struct Capturing(CUstream);

// SAFETY: a stream may be used on any thread.
unsafe impl Send for Capturing {}

/// The stream for captures, for as long as it is held.
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

/// Whether an error leaves a context with which nothing can be done any more.
fn ends_context(error: i32) -> bool {
    // ECC, contained and other hardware errors; illegal address, timeout, assert, stack, instruction, alignment,
    // address space, program counter, launch failed.
    matches!(error, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=720)
}

impl Gpu {
    /// The primary context of a device.
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

    /// The calling thread's turn at a queue.
    ///
    /// # Errors
    /// The error that ended the context, if one did; when the driver has no stream more.
    pub(super) fn turn(&self, queue: usize) -> Result<Turn<'_>, Error> {
        self.enter()?;
        let mut stream = self.stream(queue);
        if stream.handle.is_null() {
            stream.handle = self.new_stream()?;
        }
        stream.turns += 1;
        let after_launch = std::mem::take(&mut stream.after_launch);
        Ok(Turn { handle: stream.handle, after_launch, stream })
    }

    fn stream(&self, queue: usize) -> MutexGuard<'_, Stream> {
        self.streams[queue].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the context current on this thread.
    ///
    /// # Errors
    /// The error that ended the context, if one did.
    pub(super) fn enter(&self) -> Result<(), Error> {
        thread_local! {
            /// The context that was made current here last. Others who change it set it back, as whoever shares a
            /// primary context has to.
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

    /// The result of a call as an error.
    ///
    /// # Errors
    /// When it is no success.
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

    /// An event, new or used before; whether it is to tell the time.
    pub(super) fn obtain_event(&self, timed: bool) -> Result<CUevent, Error> {
        if let Some(event) = self.events[usize::from(timed)].lock().unwrap_or_else(|e| e.into_inner()).pop() {
            return Ok(event.0);
        }
        let mut event = null_mut();
        let untimed = if timed { 0 } else { CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32 };
        let flags = CUevent_flags_enum::CU_EVENT_BLOCKING_SYNC as u32 | untimed;
        // SAFETY: a place for a handle.
        self.check("cuEventCreate", unsafe { (self.api.event)(&mut event, flags) })?;
        Ok(event)
    }

    /// Gives an event back; the driver minds neither that it has not happened yet, nor that it is recorded again.
    pub(super) fn release_event(&self, event: CUevent, timed: bool) {
        self.events[usize::from(timed)].lock().unwrap_or_else(|e| e.into_inner()).push(Handle(event));
    }

    /// The stream in which launches are captured, made at the first call; nobody else has it meanwhile.
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
        // SAFETY: a place for a handle.
        self.check("cuStreamCreate", unsafe { (self.api.stream)(&mut stream, NON_BLOCKING) })?;
        Ok(stream)
    }

    /// Puts a fill in a queue: so many elements of 2 or 4 bytes in each of so many rows, whose beginnings are `pitch`
    /// bytes apart.
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

    /// Whether the device has come to an event.
    pub(super) fn has_happened(&self, event: CUevent) -> Result<bool, Error> {
        // SAFETY: an event of this context.
        match unsafe { (self.api.event_query)(event) } {
            NOT_READY => Ok(false),
            result => self.check("cuEventQuery", result).map(|()| true),
        }
    }

    /// Returns when the device has come to an event.
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

    /// Returns when a queue is empty: at once where nobody has put anything there since that was so.
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

    /// Returns when all queues are empty.
    pub(super) fn drain_all(&self) -> Result<(), Error> {
        (0..QUEUES).try_for_each(|queue| self.drain(queue))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.drain_all().is_err() {
            // Of a context that has ended, nothing can be destroyed.
            return;
        }
        for events in &mut self.events {
            for event in events.get_mut().unwrap_or_else(|e| e.into_inner()).drain(..) {
                // SAFETY: nobody has it, and the queues are empty.
                unsafe { (self.api.event_destroy)(event.0) };
            }
        }
        let capturing = self.capturing.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let streams = self.streams.iter_mut().map(|s| s.get_mut().unwrap_or_else(PoisonError::into_inner).handle);
        for stream in streams.filter(|s| !s.is_null()).chain(capturing.map(|c| c.0)) {
            // SAFETY: whoever used the stream held this.
            unsafe { (self.api.stream_destroy)(stream) };
        }
    }
}
