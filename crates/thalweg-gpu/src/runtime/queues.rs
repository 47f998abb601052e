//! Assignment of work to a device's queues: a thread's kernels, and large copies.
//!
//! In: buffers, and bytes to copy to or from them. Out: copies in a queue, after the work that they depend on. A thread
//! has a queue for its kernels; up to [`COMPUTE`] threads share none. Large copies have a queue for each direction, so
//! that they overlap with kernels. Small ones are not worth an event, and go into the thread's own queue.
//!
//! Always true: a copy to the device is after all uses of the memory, and a copy from it after its writer.

use super::driver::{Driver, Event};
use super::order::{COLLECTIVES, COMPUTE, MEMORY, Order, PEERS, TO_DEVICE, TO_HOST};
use super::queue::Queue;
use crate::tunable::TUNABLES;
use std::cell::OnceCell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use thalweg_runtime::{Buffer, Error, count};

/// All queues of a device: those for kernels, for copies and for memory.
#[derive(Debug)]
pub struct Queues {
    order: Arc<Order>,
    device: String,
    /// Queues for kernels, each created when a thread first needs it.
    compute: [OnceLock<Queue>; COMPUTE],
    making: Mutex<()>,
}

/// Thread numbers in use, by number; a thread that ends frees its own.
static TAKEN: Mutex<Vec<bool>> = Mutex::new(vec![]);

struct Number(usize);

impl Number {
    fn take() -> Number {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let free = taken.iter().position(|t| !t).unwrap_or(taken.len());
        if free == taken.len() {
            taken.push(true);
        }
        taken[free] = true;
        Number(free)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner)[self.0] = false;
    }
}

/// Number of the calling thread, the lowest that was free when it first asked.
fn number() -> usize {
    thread_local! {
        static NUMBER: OnceCell<Number> = const { OnceCell::new() };
    }
    // A thread that is ending has no number any more: it uses the first queue, which it may share with other threads.
    NUMBER.try_with(|n| n.get_or_init(Number::take).0).unwrap_or(0)
}

impl Queues {
    /// Creates the queues of a driver's GPU; of those for kernels, only the calling thread's.
    ///
    /// # Errors
    /// When there is no memory for the buffers that launches share.
    pub fn new(driver: &Arc<dyn Driver>, device: &str) -> Result<Arc<Queues>, Error> {
        let order = Arc::new(Order::new(driver));
        let queues = Queues { order, device: device.into(), compute: Default::default(), making: Mutex::default() };
        queues.mine()?;
        Ok(Arc::new(queues))
    }

    /// Order of work between the queues.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Index of the queue for the calling thread's kernels.
    pub fn number(&self) -> usize {
        self.order.queue(number() % COMPUTE)
    }

    /// Queue of the calling thread.
    ///
    /// # Errors
    /// When it is created now, and there is no memory for the buffers that launches share.
    pub fn mine(&self) -> Result<&Queue, Error> {
        let number = self.number();
        if let Some(queue) = self.compute[number].get() {
            return Ok(queue);
        }
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.compute[number].get().is_none() {
            let made = Queue::new(self.order.clone(), number, &self.device)?;
            let _ = self.compute[number].set(made);
        }
        Ok(self.compute[number].get().expect("just made"))
    }

    /// [`Queue::make_whole`] of a queue by number. In queues that are not for kernels, all work with a ticket is
    /// submitted.
    pub fn make_whole(&self, queue: usize) {
        if let Some(queue) = self.compute.get(queue).and_then(|q| q.get()) {
            queue.make_whole();
        }
    }

    /// Queue for a copy of this many bytes to the device, if it is not the calling thread's.
    pub fn to_device(&self, bytes: usize) -> Option<usize> {
        (!self.order.is_one() && TUNABLES.min_queued_copy.reached_by(bytes)).then_some(TO_DEVICE)
    }

    /// Copies spans, one after the other, to the start of a buffer.
    ///
    /// # Errors
    /// When the device fails.
    pub fn write(&self, buffer: &Buffer, spans: &[&[u8]]) -> Result<(), Error> {
        let bytes = spans.iter().map(|s| s.len()).sum();
        count(|c| c.bytes_to_device += bytes as u64);
        let (missing, address) = (&|other| self.make_whole(other), buffer.address() as u64);
        let Some(queue) = self.to_device(bytes) else {
            let own = self.mine()?;
            return own.after_deferred(&mut || {
                own.writes(buffer, missing)?;
                own.driver().write_all(address, spans)
            });
        };
        self.order.wait_for_uses(queue, buffer.uses(), true, missing)?;
        let done = self.order.driver(queue).write_all(address, spans);
        // A failed copy may have written some bytes.
        let (ticket, stamped) = self.order.stamp(queue);
        buffer.uses().write(queue, ticket);
        done.and(stamped)
    }

    /// Copies the first bytes of another GPU's buffer to the start of one here. `None` where the drivers do not support
    /// it.
    pub fn copy_from(&self, to: &Buffer, other: &Queues, from: &Buffer, bytes: usize) -> Option<Result<(), Error>> {
        if self.order.is_one() || other.order.is_one() {
            return None;
        }
        let here = || -> Result<Option<()>, Error> {
            let queue = self.order.queue(TO_DEVICE);
            self.order.wait_for_uses(queue, to.uses(), true, &|q| self.make_whole(q))?;
            self.order.wait_for_peer(queue, &other.order, from.uses(), &|q| other.make_whole(q))?;
            let (driver, source) = (self.order.driver(queue), other.order.driver(other.order.queue(PEERS)));
            let [from_at, to_at] = [from, to].map(|b| b.address() as u64);
            let Some(copied) = driver.copy_from(&**source, from_at, to_at, bytes) else { return Ok(None) };
            let (ticket, stamped) = self.order.stamp(queue);
            to.uses().write(queue, ticket);
            copied.and(stamped)?;
            // The next user of the source memory waits for this copy.
            let there = other.order.queue(PEERS);
            other.order.after(there, &*self.order.stamped(queue, ticket)?)?;
            let (ticket, stamped) = other.order.stamp(there);
            from.uses().used(there, ticket);
            stamped?;
            count(|c| c.bytes_between_devices += bytes as u64);
            Ok(Some(()))
        };
        here().transpose()
    }

    /// Submits a transfer between ranks to its queue, after the writers of `read` and all uses of `written`, by a call
    /// of `submit`. Returns the event at its end.
    ///
    /// # Errors
    /// Errors of `submit`, and when the device fails.
    pub fn transfer(
        &self,
        read: &[&Buffer],
        written: &[&Buffer],
        submit: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Arc<dyn Event>, Error> {
        let missing = &|other| self.make_whole(other);
        read.iter().try_for_each(|b| self.order.wait_for_uses(COLLECTIVES, b.uses(), false, missing))?;
        written.iter().try_for_each(|b| self.order.wait_for_uses(COLLECTIVES, b.uses(), true, missing))?;
        let done = submit();
        // A failed call may have submitted some work.
        let (ticket, stamped) = self.order.stamp(COLLECTIVES);
        read.iter().for_each(|b| b.uses().used(COLLECTIVES, ticket));
        written.iter().for_each(|b| b.uses().write(COLLECTIVES, ticket));
        done.and(stamped)?;
        self.order.stamped(COLLECTIVES, ticket)
    }

    /// Makes later kernels of the calling thread, and later copies and allocations of all threads, wait for all work
    /// in a stream of another library.
    ///
    /// # Errors
    /// When the device fails.
    pub fn after_stream(&self, stream: usize) -> Result<(), Error> {
        let Some(event) = self.order.driver(self.number()).stream_event(stream)? else { return Ok(()) };
        self.own_and(&[TO_DEVICE, TO_HOST, MEMORY]).try_for_each(|queue| self.order.driver(queue).after(&*event))
    }

    /// Makes later work of another library's stream wait for all kernels of the calling thread and all copies to the
    /// device that were submitted so far.
    ///
    /// # Errors
    /// When the device fails.
    pub fn before_stream(&self, stream: usize) -> Result<(), Error> {
        self.make_whole(self.number());
        let own = self.number();
        let busy = |queue: &usize| *queue == own || !self.order.is_idle(*queue);
        self.own_and(&[TO_DEVICE]).filter(busy).try_for_each(|queue| self.order.driver(queue).before_stream(stream))
    }

    /// Index of the calling thread's queue, followed by others unless all work goes into one.
    fn own_and<'a>(&self, others: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
        let others = if self.order.is_one() { &[] } else { others };
        std::iter::once(self.number()).chain(others.iter().copied())
    }

    /// Copies from the start of a buffer, which stays alive meanwhile, and waits for the copy.
    ///
    /// # Errors
    /// When the device fails, now or in an earlier launch.
    pub fn read(&self, buffer: &Buffer, bytes: &mut [u8]) -> Result<(), Error> {
        count(|c| c.bytes_to_host += bytes.len() as u64);
        let large = !self.order.is_one() && TUNABLES.min_queued_copy.reached_by(bytes.len());
        let queue = if large { TO_HOST } else { self.number() };
        self.order.wait_for_uses(queue, buffer.uses(), false, &|other| self.make_whole(other))?;
        // A readable buffer was computed by a batch that has ended, so this does not wait for other threads' gates.
        self.order.driver(queue).read(buffer.address() as u64, bytes)
    }
}
