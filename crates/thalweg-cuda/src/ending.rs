//! The end of a process while a thread of ours is in a compiler or a driver that is not.
//!
//! In: threads that say when they are. Out: the process's end waits for them. When `main` returns, libraries take down
//! what they have while our threads still run; a compiler in the midst of its work would crash then.
//!
//! A handler that was registered last runs first. So this one is registered when the compiler is open and has compiled
//! something, which is when all of its own handlers are.
//!
//! Always true: once the handler runs nothing is begun any more, and what was begun is waited for. A process that ends
//! by `_exit` or a signal runs no handlers, neither ours nor those that it is about.

use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use thalweg_runtime::Error;

struct Working {
    /// Threads at work.
    count: usize,
    /// Whether the process ends.
    ending: bool,
}

static WORKING: Mutex<Working> = Mutex::new(Working { count: 0, ending: false });
static DONE: Condvar = Condvar::new();

fn working() -> MutexGuard<'static, Working> {
    WORKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread at work, until it is dropped.
#[derive(Debug)]
pub struct Work(());

/// Says that the calling thread goes to work.
///
/// # Errors
/// [`Error::Compile`] when the process ends.
pub fn work(device: &str) -> Result<Work, Error> {
    let mut working = working();
    if working.ending {
        return Err(Error::Compile { device: device.into(), message: "the process ends".into() });
    }
    working.count += 1;
    Ok(Work(()))
}

impl Drop for Work {
    fn drop(&mut self) {
        working().count -= 1;
        DONE.notify_all();
    }
}

/// Registers the handler, the first time that it is called.
pub fn register() {
    unsafe extern "C" {
        fn atexit(handler: extern "C" fn()) -> std::ffi::c_int;
    }
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: C's own function, with the types that it has there; the handler is a function of the program, lives as
        // long as that, and does not unwind.
        let registered = unsafe { atexit(wait) };
        if registered != 0 {
            tracing::warn!("no room for a handler of the process's end");
        }
    });
}

/// Waits for those at work, and lets nobody begin.
extern "C" fn wait() {
    let mut working = working();
    working.ending = true;
    while working.count > 0 {
        working = DONE.wait(working).unwrap_or_else(PoisonError::into_inner);
    }
}
