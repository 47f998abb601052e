//! Work that is offered to helpers.
//!
//! In: chunks, and what to do with a range of them. Out: all of it is done, by the caller and whoever came. Always true:
//! nobody runs the caller's closure once the caller has closed the offer and those inside have left; so the closure may
//! borrow from the caller's stack, and a helper that comes too late finds nothing to do and keeps nobody waiting.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// What is done with a range of chunks.
pub type Work<'a> = dyn Fn(Range<usize>) + Sync + 'a;

/// In the state: the caller takes no more helpers. The other bits count the helpers inside.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Looks at the state before a waiting caller gives its processor up for a moment, and before it sleeps.
const SPINS: usize = 64;
const YIELDS: usize = 256;

/// Some chunks that several threads may work on.
pub struct Offer {
    /// The caller's closure. What it borrows lives until [`Offer::close`] has returned.
    work: *const Work<'static>,
    chunks: usize,
    grain: usize,
    /// The first chunk that nobody has taken.
    next: AtomicUsize,
    state: AtomicUsize,
    /// Where a caller sleeps that has waited for a while, until the last helper has left. Not by parking: a token that
    /// somebody else has left for this thread, an executor's waker, would be used up.
    sleep: Mutex<()>,
    left: Condvar,
    /// What a helper panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the closure behind the pointer is `Sync`, and is called by whoever is inside alone (see `work`).
unsafe impl Send for Offer {}
// SAFETY: as above; everything else in it is `Sync`.
unsafe impl Sync for Offer {}

/// Calls `work` with ranges that cover `0..chunks` once, at most `grain` chunks each, on this thread and on those that
/// `invite` hands the offer to, now or later. Returns when all are done.
pub fn run(chunks: usize, grain: usize, work: &Work<'_>, invite: impl FnOnce(&Arc<Offer>)) {
    // SAFETY: the two types differ in a lifetime alone. The pointer is followed by this thread and by helpers that
    // `enter` has let in; `close` waits for these on every way out of this function.
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

/// Closes the offer, also where the caller's own part panics.
struct Closing<'a>(&'a Offer);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Offer {
    /// Works along, on a thread other than the caller's, until no chunk is left.
    pub fn help(&self) {
        if !self.enter() {
            return;
        }
        // A chunk that panics is the caller's to report; others stop taking more.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take())) {
            self.next.store(self.chunks, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
        self.leave();
    }

    /// Whether this thread may work along: then it is inside until it leaves.
    fn enter(&self) -> bool {
        let inside = |state: usize| (state & CLOSED == 0).then_some(state + 1);
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, inside).is_ok()
    }

    /// The last thing that a helper does with what is the caller's.
    fn leave(&self) {
        if self.state.fetch_sub(1, Ordering::Release) == CLOSED + 1 {
            // The caller looks under the lock before it sleeps, so it has seen this, or is told.
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
            // SAFETY: whoever is here is the caller, or inside (see `run`).
            unsafe { (*self.work)(start..self.chunks.min(start + self.grain)) };
        }
    }

    /// Lets nobody in any more and waits until those inside have left. They end within a chunk of each other, so it looks
    /// again for a while before it sleeps: to be woken takes tens of microseconds.
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
