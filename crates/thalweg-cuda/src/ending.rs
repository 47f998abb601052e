//! The end of a process while a thread of ours is in a compiler or a driver that is not.
//!
//! In: threads that say when they are. Out: the process's end waits for them. When `main` returns, libraries take down
//! what they have while our threads still run; a compiler in the midst of its work would crash then.
//!
//! What ends first are the values of the thread that ends the process, then handlers, the last one registered first. So the
//! main thread has such a value where it asks for something to be compiled beside it; and for other threads that end the
//! process a handler is registered again when a compiler has compiled something, since that may register more of its own.
//!
//! Always true: once the end has begun no other thread comes back from asking whether it may work, and those that were at
//! work are waited for. A process that ends by `_exit` or a signal takes nothing down.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use thalweg_runtime::Error;

struct Working {
    /// Threads at work.
    count: usize,
    /// The thread that ends the process.
    ended_by: Option<ThreadId>,
}

static WORKING: Mutex<Working> = Mutex::new(Working { count: 0, ended_by: None });
static DONE: Condvar = Condvar::new();

fn working() -> MutexGuard<'static, Working> {
    WORKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread at work, until it is dropped.
#[derive(Debug)]
pub struct Work(());

/// Says that the calling thread goes to work. Where the process ends it does not return, but on the thread that ends it.
///
/// # Errors
/// [`Error::Compile`] on that thread.
pub fn work(device: &str) -> Result<Work, Error> {
    let mut working = working();
    if let Some(ended_by) = working.ended_by {
        if ended_by == thread::current().id() {
            return Err(Error::Compile { device: device.into(), message: "the process ends".into() });
        }
        drop(working);
        loop {
            thread::park();
        }
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

/// Handlers that are registered; beyond, a compiler has all of its own.
const MOST: u32 = 64;

/// Sees to it that the end waits: the value of the main thread, and the handler once more.
pub fn register() {
    thread_local! {
        static END: RefCell<Option<End>> = const { RefCell::new(None) };
    }
    if thread::current().name() == Some("main") {
        // Too late on a thread that is ending. One is made only where there is none: one that is let go of says that the
        // process ends.
        let _ = END.try_with(|end| end.borrow_mut().get_or_insert_with(|| End(thread::current().id())).0);
    }
    unsafe extern "C" {
        fn atexit(handler: extern "C" fn()) -> std::ffi::c_int;
    }
    static REGISTERED: AtomicU32 = AtomicU32::new(0);
    if REGISTERED.fetch_add(1, Relaxed) < MOST {
        // SAFETY: C's own function, with the types that it has there; the handler is a function of the program, lives as
        // long as that, and does not unwind.
        let registered = unsafe { atexit(handler) };
        if registered != 0 {
            tracing::warn!("no room for a handler of the process's end");
        }
    }
}

/// What ends with the main thread.
struct End(ThreadId);

impl Drop for End {
    fn drop(&mut self) {
        wait(self.0);
    }
}

extern "C" fn handler() {
    wait(thread::current().id());
}

/// Waits for those at work, and lets no other thread begin.
fn wait(on: ThreadId) {
    let mut working = working();
    working.ended_by.get_or_insert(on);
    while working.count > 0 {
        working = DONE.wait(working).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, exit};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// What the main thread of a process does that has two things compiled beside it. It ends the process, so that it is not
    /// for the one that the tests run in.
    #[test]
    #[ignore = "run as a process of its own by the test below"]
    fn child() {
        let main = || {
            register();
            register();
            let (done, works) = channel();
            thread::spawn(move || done.send(work("test").is_ok()));
            let works = works.recv_timeout(Duration::from_secs(20));
            exit(if works == Ok(true) { 0 } else { 1 })
        };
        let _: Result<(), _> = thread::Builder::new().name("main".into()).spawn(main).unwrap().join();
    }

    #[test]
    fn to_register_again_does_not_end_the_process() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ending::tests::child", "--ignored"])
            .status()
            .unwrap();
        assert!(child.success(), "other threads may not work any more: {child}");
    }
}
