//! Values that are on their way to the program.
//!
//! In: a tensor. Out: a [`Reading`], which is asked, waited for or awaited. What is pending runs at once, as for any read.
//! A GPU returns as soon as that is in its queue: one thread of the process then waits for it and copies, read by read, in
//! the order in which they were asked for. Where the host sees the memory (on the CPU) the elements are there at once.

use crate::{Element, Error, Tensor};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// The elements of a tensor, on their way: what [`Tensor::to_vec_async`] gives. A future whose output is that of
/// [`Tensor::to_vec`]; without an executor it is asked by [`is_ready`](Reading::is_ready) and waited for by
/// [`wait`](Reading::wait). One that is dropped is read all the same, and nobody gets the result.
#[must_use = "a reading does nothing for the program until it is waited for or awaited"]
pub struct Reading<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
}

enum State<T> {
    /// Not there yet, and who is to be told.
    Coming(Option<Waker>),
    There(Result<Vec<T>, Error>),
    /// Handed over.
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

impl Tensor {
    /// The elements, row-major, without waiting for them: what is pending is started, and the [`Reading`] says when it is
    /// done. The program goes on meanwhile, with other tensors or with something else.
    ///
    /// On a GPU this returns once everything is in its queue. On the CPU the work is done where it is asked for, so the
    /// reading is ready when this returns.
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
    /// The reading's, those of [`to_vec`](Tensor::to_vec): `T` is not the tensor's dtype, or the value cannot be computed.
    pub fn to_vec_async<T: Element + Send + 'static>(&self) -> Reading<T> {
        // Cut and started by this thread: what it records next is not part of it.
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

/// Reads on the thread of all readings: somebody waits, so a panic has to become an error.
fn read<T: Element>(tensor: &Tensor) -> Result<Vec<T>, Error> {
    let outcome = catch_unwind(AssertUnwindSafe(|| tensor.to_vec()));
    let panicked =
        || Error::Internal { message: "to_vec_async: the thread that reads has panicked".into(), report: None };
    outcome.unwrap_or_else(|_| Err(panicked()))
}

type Job = Box<dyn FnOnce() + Send>;

/// Has the thread of all readings do it; where there can be none, it is done at once.
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
    /// Whether the elements, or the error, are there: then nothing waits.
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

    /// # Panics
    /// When it has given its output before.
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
