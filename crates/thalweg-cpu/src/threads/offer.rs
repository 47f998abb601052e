//! Offers: chunks of work that a caller shares with helper threads.
//!
//! In: chunks, and a closure that processes a range of them. Out: all chunks are done, by the caller and the helpers
//! that joined. A helper is *inside* the offer while it may call the closure. Always true: no thread runs the closure
//! after the caller has closed the offer and the helpers inside have left. So the closure may borrow from the caller's
//! stack, and a helper that comes too late finds nothing to do and delays nobody.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// Closure that processes a range of chunks.
pub type Work<'a> = dyn Fn(Range<usize>) + Sync + 'a;

/// Bit of the offer's state that says that no more helpers are admitted. The other bits count the helpers inside.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Number of polls of the state after which a waiting caller yields its processor between polls (`SPINS`), and after
/// which it sleeps (`YIELDS`).
const SPINS: usize = 64;
const YIELDS: usize = 256;

/// Chunks of one launch that several threads may work on.
pub struct Offer {
    /// The caller's closure. Its borrows live until [`Offer::close`] has returned.
    work: *const Work<'static>,
    chunks: usize,
    grain: usize,
    /// Index of the first chunk that no thread has taken.
    next: AtomicUsize,
    state: AtomicUsize,
    /// A caller that has waited for a while sleeps on `left` until the last helper has left. It does not park: that
    /// would consume an unpark token that another component, such as an executor's waker, left for this thread.
    sleep: Mutex<()>,
    left: Condvar,
    /// Payload of the first helper's panic.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the closure behind the pointer is `Sync`, and only threads inside the offer call it (see `work`).
unsafe impl Send for Offer {}
// SAFETY: as above; everything else in it is `Sync`.
unsafe impl Sync for Offer {}

/// Calls `work` with disjoint ranges that cover `0..chunks`, at most `grain` chunks each, on this thread and on the
/// threads to which `invite` passes the offer. Returns when all chunks are done.
pub fn run(chunks: usize, grain: usize, work: &Work<'_>, invite: impl FnOnce(&Arc<Offer>)) {
    // SAFETY: the two types differ only in a lifetime. This thread and helpers admitted by `enter` dereference the
    // pointer; `close` waits for the helpers on every exit from this function.
    let work = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
    let offer = Arc::new(Offer {
        work,
        chunks,
        grain,
        next: AtomicUsize::new(0),
        state: AtomicUsize::new(0),
        sleep: Mutex::new(()),
        left: Condvar::new(),
        panic: Mutex::new(None),
    });
    let closing = Closing(&offer);
    invite(&offer);
    offer.take();
    drop(closing);
    if let Some(panic) = offer.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
        resume_unwind(panic);
    }
}

/// Guard that closes the offer on drop, also if the caller's own work panics.
struct Closing<'a>(&'a Offer);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Offer {
    /// Works on chunks from a thread other than the caller's, until none is left.
    pub fn help(&self) {
        if !self.enter() {
            return;
        }
        // The caller reports a panic in a chunk; other threads stop taking chunks.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take())) {
            self.next.store(self.chunks, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
        self.leave();
    }

    /// Registers this thread as inside the offer; returns false if the offer is closed.
    fn enter(&self) -> bool {
        let inside = |state: usize| (state & CLOSED == 0).then_some(state + 1);
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, inside).is_ok()
    }

    /// Deregisters a helper, which must not access the caller's data afterwards.
    fn leave(&self) {
        if self.state.fetch_sub(1, Ordering::Release) == CLOSED + 1 {
            // The caller checks under the lock before it sleeps, so it has seen this, or is notified.
            drop(self.sleep.lock().unwrap_or_else(PoisonError::into_inner));
            self.left.notify_one();
        }
    }

    fn take(&self) {
        loop {
            let start = self.next.fetch_add(self.grain, Ordering::Relaxed);
            if start >= self.chunks {
                return;
            }
            // SAFETY: this thread is the caller, or inside (see `run`).
            unsafe { (*self.work)(start..self.chunks.min(start + self.grain)) };
        }
    }

    /// Closes the offer and waits until the helpers inside have left. They finish within a chunk of each other, so it
    /// polls for a while before it sleeps: a wake-up takes tens of microseconds.
    fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::Relaxed);
        let left = || self.state.load(Ordering::Acquire) == CLOSED;
        for looked in 0..YIELDS {
            match looked {
                _ if left() => return,
                ..SPINS => std::hint::spin_loop(),
                _ => thread::yield_now(),
            }
        }
        let mut guard = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        while !left() {
            guard = self.left.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
