//! Process exit while one of our threads is in a compiler or a driver, which are not our code.
//!
//! In: threads that report when they are. Out: the exit waits for them. When `main` returns, libraries destroy their
//! state while our threads still run; a compiler in the midst of its work would crash.
//!
//! First the thread-local values of the exiting thread are dropped, then exit handlers run, the last one registered
//! first. So the main thread has such a value if it had something compiled in the background. For other threads that
//! end the process, a handler is registered again after each compilation, since a compiler may register more of its
//! own.
//!
//! Always true: once the exit has begun, [`work`] returns on no other thread, and threads at work are waited for. A
//! process that ends by `_exit` or a signal destroys nothing.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use thalweg_runtime::Error;

struct Working {
    /// Number of threads that hold a [`Work`] guard.
    count: usize,
    /// Thread that ends the process.
    ended_by: Option<ThreadId>,
}

static WORKING: Mutex<Working> = Mutex::new(Working { count: 0, ended_by: None });
static DONE: Condvar = Condvar::new();

fn working() -> MutexGuard<'static, Working> {
    WORKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Guard of a thread that works with a driver or compiler, for which the end of the process waits.
#[derive(Debug)]
pub struct Work(());

/// Marks the calling thread as at work. While the process exits it never returns, except on the thread that ends the
/// process.
///
/// # Errors
/// [`Error::Compile`] on the thread that ends the process.
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

/// Maximum number of registered handlers; by then a compiler has registered all of its own.
const MAX_HANDLERS: u32 = 64;

/// Makes the process' exit wait: creates the main thread's value, and registers the handler again.
pub fn register() {
    thread_local! {
        static END: RefCell<Option<End>> = const { RefCell::new(None) };
    }
    if thread::current().name() == Some("main") {
        // Fails on a thread that is ending. A value is created only where there is none: dropping one would mean that
        // the process exits.
        let _ = END.try_with(|end| end.borrow_mut().get_or_insert_with(|| End(thread::current().id())).0);
    }
    unsafe extern "C" {
        fn atexit(handler: extern "C" fn()) -> std::ffi::c_int;
    }
    static REGISTERED: AtomicU32 = AtomicU32::new(0);
    if REGISTERED.fetch_add(1, Relaxed) < MAX_HANDLERS {
        // SAFETY: C's own function, with its types there; the handler is a function of the program, lives as long as
        // it, and does not unwind.
        let registered = unsafe { atexit(handler) };
        if registered != 0 {
            tracing::warn!("no room for a handler of the process's end");
        }
    }
}

/// Value that is dropped when the main thread ends.
struct End(ThreadId);

impl Drop for End {
    fn drop(&mut self) {
        wait(self.0);
    }
}

extern "C" fn handler() {
    wait(thread::current().id());
}

/// Waits until no thread holds a [`Work`] guard, and lets no other thread begin.
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

    /// Behaviour of a main thread that has two things compiled in the background. It ends the process, so it must not
    /// run in the test process.
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
    fn registering_twice_does_not_end_the_process() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ending::tests::child", "--ignored"])
            .status()
            .unwrap();
        assert!(child.success(), "other threads may not work any more: {child}");
    }
}
