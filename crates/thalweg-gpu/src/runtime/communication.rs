//! Transfers between the GPUs of several ranks, by a library of their vendor.
//!
//! In: a [`RankLibrary`] of the driver, and the device's queues. Out: a [`Communication`] whose transfers are in a
//! queue of their own. Always true: a transfer follows the writer of its operand and precedes later uses of its result,
//! by tickets ([`super::order`]) like any other work.

use super::driver::Event;
use super::queues::Queues;
use super::ranks::{RankLibrary, Ranks};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use thalweg_ir::DType;
use thalweg_runtime::{Communication, Communicator, Completion, Error, Span, Transfer, count};

/// Time between two questions whether to give up.
const PAUSE: Duration = Duration::from_millis(10);

/// Communication of a device with these queues, which is called `device` in errors.
///
/// # Errors
/// When the driver has no such library, or all work is in one queue.
pub fn communication(queues: &Arc<Queues>, device: &str) -> Result<Arc<dyn Communication>, Error> {
    let failed = |message: String| Error::Device { device: device.into(), message };
    if queues.order().is_one() {
        return Err(failed("collectives need several queues, and THALWEG_CUDA_QUEUES is off".into()));
    }
    let library = queues.order().driver(super::order::COLLECTIVES).ranks().map_err(failed)?;
    Ok(Arc::new(OfDevice { queues: queues.clone(), device: device.into(), library }))
}

/// Library with the queues of its device.
#[derive(Clone, Debug)]
struct OfDevice {
    queues: Arc<Queues>,
    device: String,
    library: Arc<dyn RankLibrary>,
}

impl OfDevice {
    fn failed(&self, message: String) -> Error {
        Error::Device { device: self.device.clone(), message }
    }
}

impl Communication for OfDevice {
    fn identity(&self) -> Result<String, Error> {
        self.library.identity().map_err(|message| self.failed(message))
    }

    fn combines(&self, dtype: DType) -> bool {
        self.library.combines(dtype)
    }

    fn new_id(&self) -> Result<Vec<u8>, Error> {
        self.library.new_id().map_err(|message| self.failed(message))
    }

    fn join(
        &self,
        id: &[u8],
        rank: usize,
        size: usize,
        give_up: &dyn Fn() -> Option<String>,
    ) -> Result<Arc<dyn Communicator>, Error> {
        // The library's call has no timeout: a rank that never comes leaves this thread behind.
        let (library, id, (send, joined)) = (self.library.clone(), id.to_vec(), channel());
        let body = move || {
            let _ = send.send(library.join(&id, rank, size));
        };
        let thread = std::thread::Builder::new().name(format!("thalweg-join-{rank}"));
        thread.spawn(body).map_err(|e| self.failed(format!("no thread to join a group of ranks: {e}")))?;
        loop {
            match joined.recv_timeout(PAUSE) {
                Ok(Ok(ranks)) => return Ok(Arc::new(Joined { of: self.clone(), size, ranks })),
                Ok(Err(message)) => return Err(self.failed(message)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.failed("joining a group of ranks panicked".into()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(reason) = give_up() {
                        return Err(self.failed(format!("joining a group of ranks: {reason}")));
                    }
                }
            }
        }
    }
}

#[derive(Debug)]
struct Joined {
    of: OfDevice,
    size: usize,
    ranks: Arc<dyn Ranks>,
}

impl Joined {
    /// Returns an error unless a span lies within its buffer.
    fn check(&self, span: Span<'_>, dtype: DType) -> Result<(), Error> {
        let end = span.count.checked_mul(dtype.size()).and_then(|bytes| bytes.checked_add(span.offset));
        match end.is_some_and(|end| end <= span.buffer.bytes()) {
            true => Ok(()),
            false => Err(self.of.failed(format!("{} elements of {dtype} beyond {:?}", span.count, span.buffer))),
        }
    }

    /// Number of elements of the result of a transfer of `x` elements; `None` if there is no such transfer.
    fn result_of(&self, transfer: &Transfer, x: usize) -> Option<usize> {
        let all = |list: &[usize]| {
            if list.len() == self.size { list.iter().try_fold(0usize, |a, &b| a.checked_add(b)) } else { None }
        };
        match transfer {
            Transfer::AllReduce(_) | Transfer::Broadcast { .. } => Some(x),
            Transfer::AllGather => x.checked_mul(self.size),
            Transfer::ReduceScatter(_) => x.is_multiple_of(self.size).then(|| x / self.size),
            Transfer::AllToAll { sent, received } => all(received).filter(|_| all(sent) == Some(x)),
        }
    }
}

impl Communicator for Joined {
    fn enqueue(
        &self,
        transfer: &Transfer,
        dtype: DType,
        x: Span<'_>,
        y: Span<'_>,
    ) -> Result<Arc<dyn Completion>, Error> {
        [x, y].into_iter().try_for_each(|span| self.check(span, dtype))?;
        if self.result_of(transfer, x.count) != Some(y.count) {
            let message =
                format!("{transfer:?} of {} elements among {} ranks gives no {}", x.count, self.size, y.count);
            return Err(self.of.failed(message));
        }
        count(|c| c.library_calls += 1);
        let submit = &mut || self.ranks.submit(transfer, dtype, (x.address(), x.count), (y.address(), y.count));
        let event = self.of.queues.transfer(&[x.buffer], &[y.buffer], submit)?;
        Ok(Arc::new(Reached(event)))
    }

    fn failure(&self) -> Option<String> {
        self.ranks.failure()
    }

    fn abort(&self) {
        self.ranks.abort();
    }

    fn close(&self) {
        self.ranks.close();
    }
}

#[derive(Debug)]
struct Reached(Arc<dyn Event>);

impl Completion for Reached {
    fn is_reached(&self) -> Result<bool, Error> {
        self.0.has_happened()
    }

    fn wait(&self) -> Result<(), Error> {
        self.0.wait()
    }
}
