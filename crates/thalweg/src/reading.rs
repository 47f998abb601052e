//! Asynchronous reads of values.
//!
//! In: a tensor. Out: a [`Reading`] to poll, wait for or await. Pending operations run at once, as for any read. On a
//! GPU this returns as soon as the work is in its queue; one thread of the process waits for the results and copies
//! them, in the order of the requests. Where the host sees the memory (on the CPU) the elements are available at once.

use crate::{Element, Error, Tensor};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// Pending read of a tensor's elements, from [`Tensor::to_vec_async`]. It is a future with the output of
/// [`Tensor::to_vec`]. Without an executor, poll it with [`is_ready`](Reading::is_ready) and wait with
/// [`wait`](Reading::wait). Dropping it does not cancel the read; the result is discarded.
#[must_use = "a reading does nothing for the program until it is waited for or awaited"]
pub struct Reading<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
}

enum State<T> {
    /// Pending, with the task to wake.
    Coming(Option<Waker>),
    There(Result<Vec<T>, Error>),
    /// Moved out to the caller.
    Taken,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrives(&self, outcome: Result<Vec<T>, Error>) {
        let before = std::mem::replace(&mut *self.state(), State::There(outcome));
        self.arrived.notify_all();
        if let State::Coming(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// # Reading without waiting
impl Tensor {
    /// The elements in row-major order, without waiting: starts pending operations and returns a [`Reading`] that says
    /// when they are done. The program goes on meanwhile.
    ///
    /// On a GPU this returns once the work is in its queue. On the CPU the work is done here, so the reading is ready
    /// when this returns.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::new([1.0f32, 2.0, 3.0]);
    /// let squares = (&x * &x).to_vec_async::<f32>();
    /// let cubes = (&x * &x * &x).to_vec_async::<f32>();
    /// assert_eq!(squares.wait()?, [1.0, 4.0, 9.0]);
    /// assert_eq!(cubes.wait()?, [1.0, 8.0, 27.0]);           // or `cubes.await?`
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of the reading, those of [`to_vec`](Tensor::to_vec): `T` is not the tensor's dtype, or the value cannot be
    /// computed.
    pub fn to_vec_async<T: Element + Send + 'static>(&self) -> Reading<T> {
        // The calling thread cuts and starts: operations that it records next are not part of it.
        let device = self.value.device().device();
        let seen = self.value.unchecked().map(|s| {
            device.will_read(&s.buffer);
            device.host_bytes(&s.buffer).is_some()
        });
        let shared = Arc::new(Shared { state: Mutex::new(State::Coming(None)), arrived: Condvar::new() });
        match seen {
            Ok(false) => {
                let (tensor, shared) = (self.detach(), Arc::clone(&shared));
                later(Box::new(move || shared.arrives(read(&tensor))));
            }
            Ok(true) => shared.arrives(self.to_vec()),
            Err(error) => shared.arrives(Err(error)),
        }
        Reading { shared }
    }
}

/// Reads on the reader thread. A caller waits for the result, so a panic becomes an error.
fn read<T: Element>(tensor: &Tensor) -> Result<Vec<T>, Error> {
    let outcome = catch_unwind(AssertUnwindSafe(|| tensor.to_vec()));
    let panicked =
        || Error::Internal { message: "to_vec_async: the thread that reads has panicked".into(), report: None };
    outcome.unwrap_or_else(|_| Err(panicked()))
}

type Job = Box<dyn FnOnce() + Send>;

/// Runs a job on the reader thread; at once if that thread cannot be started.
fn later(job: Job) {
    static QUEUE: OnceLock<Option<Mutex<Sender<Job>>>> = OnceLock::new();
    let queue = QUEUE.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        let run = move || jobs.iter().for_each(|job| job());
        std::thread::Builder::new().name("thalweg-read".into()).spawn(run).ok().map(|_| Mutex::new(sender))
    });
    let sent = match queue {
        Some(queue) => queue.lock().unwrap_or_else(PoisonError::into_inner).send(job).map_err(|e| e.0),
        None => Err(job),
    };
    if let Err(job) = sent {
        job();
    }
}

impl<T> Reading<T> {
    /// Whether the elements or the error are available, so that [`wait`](Reading::wait) returns at once.
    pub fn is_ready(&self) -> bool {
        !matches!(*self.shared.state(), State::Coming(_))
    }

    /// Waits for the elements.
    ///
    /// # Errors
    /// Those of [`Tensor::to_vec`].
    pub fn wait(self) -> Result<Vec<T>, Error> {
        let mut state = self.shared.state();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::There(outcome) => return outcome,
                coming => *state = coming,
            }
            state = self.shared.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Future for Reading<T> {
    type Output = Result<Vec<T>, Error>;

    /// Takes the output if it has arrived; else stores the waker of the task, to be woken when it arrives.
    ///
    /// # Panics
    /// When it has returned its output before.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.state();
        match std::mem::replace(&mut *state, State::Taken) {
            State::There(outcome) => Poll::Ready(outcome),
            State::Coming(_) => {
                *state = State::Coming(Some(context.waker().clone()));
                Poll::Pending
            }
            State::Taken => panic!("to_vec_async: polled after its elements were handed over"),
        }
    }
}

impl<T> fmt::Debug for Reading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("ready", &self.is_ready()).finish()
    }
}
