//! Work between emulated GPUs, in queues of several of them.
//!
//! In: two steps, and a condition between them that other GPUs fulfil. Out: three items in a queue.

use super::queues::{self, Item};
use super::{EmulatedState, failed};
use thalweg_runtime::{Error, QUEUES};

/// Memory of the GPU that an item runs on.
pub(super) struct Memory<'a>(&'a EmulatedState);

impl Memory<'_> {
    /// Returns an error unless the range is within one allocation.
    pub(super) fn check(&self, address: u64, bytes: usize) -> Result<(), Error> {
        self.0.check(address, bytes)
    }
}

/// Work of an item.
pub(super) type Step = Box<dyn FnOnce(&Memory<'_>) -> Result<(), Error> + Send>;

/// Submits work to a stream, and work that follows once `is_ready` returns true.
pub(super) fn submit(
    stream: usize,
    [first, second]: [Step; 2],
    is_ready: Box<dyn FnMut() -> bool + Send>,
) -> Result<(), Error> {
    let gone = || failed("no such stream");
    let (number, queue) = (stream / QUEUES, stream % QUEUES);
    let parts = queues::numbered(number.checked_sub(1).ok_or_else(gone)?).ok_or_else(gone)?;
    parts.put(queue, Item::Do(Box::new(move |parts| first(&Memory(parts)))))?;
    parts.put(queue, Item::Until(is_ready))?;
    parts.put(queue, Item::Do(Box::new(move |parts| second(&Memory(parts)))))
}

/// Handle of a stream, by the numbers of a GPU and a queue; not 0.
pub(super) fn stream(gpu: usize, queue: usize) -> usize {
    (gpu + 1) * QUEUES + queue
}
