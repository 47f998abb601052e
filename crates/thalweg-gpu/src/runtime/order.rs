//! Synchronization between a device's queues.
//!
//! In: uses of memory, each a queue and a ticket, and work that must follow them. Out: events and waits in the driver's
//! queues, as few as possible. Work that is submitted together has one ticket; tickets of a queue grow. An event is
//! recorded when another queue first has to wait for a ticket.
//!
//! Always true: an event for a ticket is after all work with this ticket or an earlier one. Work that a thread is still
//! submitting has a later ticket.

use super::driver::{Driver, Event};
use crate::tunable::TUNABLES;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_runtime::{Error, Points, QUEUES, Uses, When, count};

/// Number of queues for kernels. Each thread has one; from the fifth thread on they are shared.
pub const COMPUTE: usize = 4;
/// Queue of large copies to the device.
pub const TO_DEVICE: usize = 4;
/// Queue of large copies to the host.
pub const TO_HOST: usize = 5;
/// Queue in which memory is allocated and freed by the driver, and a library's products are checked.
pub const MEMORY: usize = 6;
/// Queue that stands for copies to other GPUs: it waits for their ends, and memory here is tracked by it.
pub const PEERS: usize = 7;
/// Queue of transfers between the ranks of a group.
pub const COLLECTIVES: usize = 8;

/// Order of the work in all queues of a device: issues tickets, and makes queues wait for one another.
#[derive(Debug)]
pub struct Order {
    drivers: [Arc<dyn Driver>; QUEUES],
    known: [QueueState; QUEUES],
    /// Whether all work goes into the first queue, because the driver does not support several.
    one: bool,
}

/// Submitted and completed tickets of one queue.
#[derive(Debug, Default)]
struct QueueState {
    put: Mutex<Put>,
    /// Highest ticket whose work has all run.
    done: AtomicU64,
    /// For each other queue, the highest ticket that this queue already waits for.
    behind: [AtomicU64; QUEUES],
}

/// Recorded event, with the ticket that it stands for.
type Marked = (u64, Arc<dyn Event>);

#[derive(Debug, Default)]
struct Put {
    /// Last ticket that was issued.
    now: u64,
    /// Whether a thread is still submitting work of the last ticket.
    open: bool,
    /// Recorded events, in order of their tickets.
    events: VecDeque<Marked>,
}

impl Put {
    /// Last ticket whose work has all been submitted.
    fn whole(&self) -> u64 {
        self.now - u64::from(self.open)
    }
}

impl Order {
    /// Creates the order of the queues of a driver's GPU.
    pub fn new(driver: &Arc<dyn Driver>) -> Order {
        let one = !driver.has_queues();
        let drivers = std::array::from_fn(|queue| driver.on(if one { 0 } else { queue }));
        Order { drivers, known: Default::default(), one }
    }

    /// Index of the queue that takes the work of queue `queue`.
    pub fn queue(&self, queue: usize) -> usize {
        if self.one { 0 } else { queue }
    }

    /// Whether all work goes into one queue.
    pub fn is_one(&self) -> bool {
        self.one
    }

    /// Driver bound to a queue.
    pub fn driver(&self, queue: usize) -> &Arc<dyn Driver> {
        &self.drivers[queue]
    }

    fn put(&self, queue: usize) -> MutexGuard<'_, Put> {
        self.known[queue].put.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all work that was submitted to a queue is known to have run.
    pub fn is_idle(&self, queue: usize) -> bool {
        self.put(queue).now <= self.known[queue].done.load(Relaxed)
    }

    /// Returns the ticket of work that is submitted from now on, until [`Order::end`]. One thread at a time calls it:
    /// the one that holds the queue's gate.
    pub fn begin(&self, queue: usize) -> u64 {
        let mut put = self.put(queue);
        put.now += 1;
        put.open = true;
        put.now
    }

    /// Marks all work with tickets up to the last one as submitted.
    pub fn end(&self, queue: usize) {
        self.put(queue).open = false;
    }

    /// Issues a ticket for work that was just submitted to a queue without a gate, and records an event for it alone.
    ///
    /// # Errors
    /// When the device fails. The ticket is valid nevertheless.
    pub fn stamp(&self, queue: usize) -> (u64, Result<(), Error>) {
        let mut put = self.put(queue);
        put.now += 1;
        let ticket = put.now;
        (ticket, self.record(queue, &mut put).map(|_| ()))
    }

    /// Records an event after all work that was submitted to a queue.
    fn record(&self, queue: usize, put: &mut Put) -> Result<Marked, Error> {
        let (whole, event) = (put.whole(), Arc::<dyn Event>::from(self.drivers[queue].point()?));
        if TUNABLES.max_events.reached_by(put.events.len()) {
            put.events.pop_front();
        }
        put.events.push_back((whole, event.clone()));
        Ok((whole, event))
    }

    /// Whether a queue need not wait for a ticket of another queue, which has run or is waited for already.
    fn is_past(&self, queue: usize, other: usize, ticket: u64) -> bool {
        let known = &self.known[other];
        other == queue || ticket <= self.known[queue].behind[other].load(Relaxed) || ticket <= known.done.load(Relaxed)
    }

    /// Returns an event for a ticket, and the ticket that it stands for; `None` while some of that ticket's work is not
    /// submitted.
    fn event(&self, queue: usize, ticket: u64) -> Result<Option<Marked>, Error> {
        let mut put = self.put(queue);
        if let Some(found) = put.events.iter().find(|e| e.0 >= ticket) {
            return Ok(Some(found.clone()));
        }
        let whole = put.whole();
        if whole < ticket {
            return Ok(None);
        }
        self.record(queue, &mut put).map(Some)
    }

    /// Polls which tickets of a queue the device has completed.
    fn look(&self, queue: usize, ticket: u64) {
        let Ok(Some(_)) = self.event(queue, ticket) else { return };
        let mut put = self.put(queue);
        while let Some((ticket, event)) = put.events.front() {
            // A failure is reported by the call that waits for the work.
            if !matches!(event.has_happened(), Ok(true)) {
                break;
            }
            self.known[queue].done.fetch_max(*ticket, Relaxed);
            put.events.pop_front();
        }
    }

    /// Makes later work of a queue wait for a ticket of another one. `missing` is called while some of that ticket's
    /// work is not submitted, and returns when more of it is.
    ///
    /// # Errors
    /// When the device fails.
    pub fn wait_for(&self, queue: usize, other: usize, ticket: u64, missing: &dyn Fn(usize)) -> Result<(), Error> {
        while !self.is_past(queue, other, ticket) {
            let Some((stands_for, event)) = self.event(other, ticket)? else {
                missing(other);
                continue;
            };
            self.after(queue, &*event)?;
            self.known[queue].behind[other].fetch_max(stands_for, Relaxed);
        }
        Ok(())
    }

    /// Makes later work of a queue here wait for the writer of a buffer of another GPU.
    ///
    /// # Errors
    /// When a device fails.
    pub fn wait_for_peer(
        &self,
        queue: usize,
        other: &Order,
        uses: &Uses,
        missing: &dyn Fn(usize),
    ) -> Result<(), Error> {
        let Some((writer, ticket)) = uses.written() else { return Ok(()) };
        loop {
            if ticket <= other.known[writer].done.load(Relaxed) {
                return Ok(());
            }
            match other.event(writer, ticket)? {
                Some((_, event)) => return self.after(queue, &*event),
                None => missing(writer),
            }
        }
    }

    /// Records the event that a later read of a buffer will wait for, at the current end of the queue.
    pub fn mark(&self, uses: &Uses) {
        if let Some((queue, ticket)) = uses.written()
            && ticket > self.known[queue].done.load(Relaxed)
            && let Err(error) = self.event(queue, ticket)
        {
            tracing::debug!(%error, "a device that has failed tells whoever reads");
        }
    }

    /// Returns the event of a ticket from [`Order::stamp`], or a later one.
    ///
    /// # Errors
    /// When the device fails.
    pub fn stamped(&self, queue: usize, ticket: u64) -> Result<Arc<dyn Event>, Error> {
        Ok(self.event(queue, ticket)?.expect("a stamp is made when everything is in the queue").1)
    }

    /// Makes later work of a queue wait for an event.
    ///
    /// # Errors
    /// When the device fails.
    pub fn after(&self, queue: usize, event: &dyn Event) -> Result<(), Error> {
        self.drivers[queue].after(event)?;
        count(|c| c.queue_waits += 1);
        Ok(())
    }

    /// Makes later work of a queue wait for the writer of a buffer, or (`write`) for all of its uses. Where nobody
    /// has written the buffer since it was allocated, it waits for all uses, too.
    ///
    /// # Errors
    /// When the device fails.
    pub fn wait_for_uses(&self, queue: usize, uses: &Uses, write: bool, missing: &dyn Fn(usize)) -> Result<(), Error> {
        match uses.written() {
            Some((other, ticket)) if !write => self.wait_for(queue, other, ticket, missing),
            _ => self.wait_for_points(queue, &uses.points(), missing),
        }
    }

    /// Like [`Order::wait_for`], for all of these points.
    ///
    /// # Errors
    /// When the device fails.
    pub fn wait_for_points(&self, queue: usize, points: &Points, missing: &dyn Fn(usize)) -> Result<(), Error> {
        let mut all = points.iter().enumerate().filter(|p| *p.1 > 0);
        all.try_for_each(|(other, &ticket)| self.wait_for(queue, other, ticket, missing))
    }

    /// Whether a queue that uses memory with these points would have to wait.
    pub fn when(&self, queue: usize, points: &Points) -> When {
        let mut when = When::Now;
        for (other, &ticket) in points.iter().enumerate() {
            if self.is_past(queue, other, ticket) {
                continue;
            }
            if self.put(other).whole() < ticket {
                return When::NotYet;
            }
            self.look(other, ticket);
            if !self.is_past(queue, other, ticket) {
                when = When::Behind;
            }
        }
        when
    }
}
