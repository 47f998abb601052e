//! A GPU's context and stream, and what every call of the driver goes through.
//!
//! In: calls. Out: their results as [`Error`]s. Always true: the context is current on the thread that calls, and after
//! an error that ends a context (an illegal address, say) every call says so.

use super::api::{Api, NOT_READY, SUCCESS};
use cudarc::driver::sys::{CUcontext, CUevent, CUevent_flags_enum, CUstream};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thalweg_runtime::Error;

/// How long a wait asks again and again: a read of what a small kernel computes ends within.
const SPIN: Duration = Duration::from_micros(50);
/// How long it then asks between letting others run. Being woken takes longer than this costs.
const YIELD: Duration = Duration::from_millis(2);

/// Context and stream of a GPU.
pub(super) struct Gpu {
    pub(super) api: &'static Api,
    /// As in `THALWEG_DEVICE`: "cuda:0".
    pub(super) name: String,
    pub(super) context: CUcontext,
    pub(super) stream: CUstream,
    /// Whether launches may come to the chip while the one before ends.
    pub(super) overlaps: AtomicBool,
    /// Whether what was put in the queue last is a launch: a copy before a launch that comes early may be overtaken.
    pub(super) after_launch: AtomicBool,
    /// The error that ended the context.
    failed: OnceLock<Error>,
    /// Events that nobody has.
    events: Mutex<Vec<Handle>>,
    /// A stream in which nothing runs: what is put there is captured.
    capturing: Mutex<Option<Capturing>>,
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
    /// The primary context of a device, which must be current, and a new stream.
    pub(super) fn new(api: &'static Api, name: String, context: CUcontext) -> Result<Gpu, Error> {
        let (failed, events) = (OnceLock::new(), Mutex::default());
        let mut gpu = Gpu {
            api,
            name,
            context,
            stream: null_mut(),
            overlaps: AtomicBool::new(false),
            after_launch: AtomicBool::new(false),
            failed,
            events,
            capturing: Mutex::default(),
        };
        gpu.enter()?;
        gpu.stream = gpu.new_stream()?;
        Ok(gpu)
    }

    /// Makes the context current on this thread. To be called before anything else is that may put something in the
    /// queue.
    ///
    /// # Errors
    /// The error that ended the context, if one did.
    pub(super) fn enter(&self) -> Result<(), Error> {
        // Every call but a launch, which sets it again.
        self.after_launch.store(false, Relaxed);
        self.attach()
    }

    /// [`Gpu::enter`] for what only asks.
    ///
    /// # Errors
    /// As there.
    pub(super) fn attach(&self) -> Result<(), Error> {
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

    /// An event, new or used before.
    pub(super) fn obtain_event(&self) -> Result<CUevent, Error> {
        if let Some(event) = self.events.lock().unwrap_or_else(|e| e.into_inner()).pop() {
            return Ok(event.0);
        }
        let mut event = null_mut();
        let flags = CUevent_flags_enum::CU_EVENT_BLOCKING_SYNC as u32;
        // SAFETY: a place for a handle.
        self.check("cuEventCreate", unsafe { (self.api.event)(&mut event, flags) })?;
        Ok(event)
    }

    /// Gives an event back; the driver minds neither that it has not happened yet, nor that it is recorded again.
    pub(super) fn release_event(&self, event: CUevent) {
        self.events.lock().unwrap_or_else(|e| e.into_inner()).push(Handle(event));
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

    /// Puts a fill in the queue: so many elements of 2 or 4 bytes in each of so many rows, whose beginnings are `pitch`
    /// bytes apart.
    pub(super) fn fill_rows(
        &self,
        address: u64,
        pitch: usize,
        size: usize,
        bits: u32,
        [width, height]: [usize; 2],
    ) -> Result<(), Error> {
        self.enter()?;
        // SAFETY: the range is the caller's.
        let filled = unsafe {
            match size {
                2 => (self.api.fill_rows_16)(address, pitch, bits as u16, width, height, self.stream),
                _ => (self.api.fill_rows_32)(address, pitch, bits, width, height, self.stream),
            }
        };
        self.check("cuMemsetD2DAsync", filled)
    }

    /// Puts an event at the queue's end.
    pub(super) fn record(&self, event: CUevent) -> Result<(), Error> {
        // SAFETY: an event of this context.
        self.check("cuEventRecord", unsafe { (self.api.event_record)(event, self.stream) })
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

    /// Returns when the queue is empty.
    pub(super) fn drain(&self) -> Result<(), Error> {
        self.enter()?;
        let event = self.obtain_event()?;
        let waited = self.record(event).and_then(|()| self.wait(event));
        self.release_event(event);
        waited
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.stream.is_null() || self.drain().is_err() {
            // Of a context that has ended, nothing can be destroyed.
            return;
        }
        for event in self.events.get_mut().unwrap_or_else(|e| e.into_inner()).drain(..) {
            // SAFETY: nobody has it, and the queue is empty.
            unsafe { (self.api.event_destroy)(event.0) };
        }
        if let Some(Capturing(stream)) = self.capturing.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // SAFETY: nobody captures any more.
            unsafe { (self.api.stream_destroy)(stream) };
        }
        // SAFETY: whoever used the stream held this.
        unsafe { (self.api.stream_destroy)(self.stream) };
    }
}
