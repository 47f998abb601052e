//! Who waits for whom: the order between a device's queues.
//!
//! In: uses of memory, each by queue and ticket, and what wants to come behind them. Out: events and waits in the driver's
//! queues, no more than are needed. What is put in a queue in one go has one ticket; tickets of a queue grow. A point of a
//! queue becomes an event when another queue first has to wait for it.
//!
//! Always true: an event that stands for a ticket comes behind everything that has this ticket or an earlier one; what a
//! thread is still putting in the queue has a later one.

use crate::driver::{Driver, Event};
use crate::tunable::TUNABLES;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_runtime::{Error, Points, QUEUES, Uses, When, count, environment};

/// Queues for kernels. A thread has one of them; from the fifth thread on they are shared.
pub const COMPUTE: usize = 4;
/// The queue of large copies to the device.
pub const TO_DEVICE: usize = 4;
/// That of large copies to the host.
pub const TO_HOST: usize = 5;
/// Where memory is taken from the driver and given back, and where a library's products are checked.
pub const MEMORY: usize = 6;
/// Copies to other GPUs, as far as memory here is concerned: it waits for their ends.
pub const PEERS: usize = 7;

/// The order between the queues of a device.
#[derive(Debug)]
pub struct Order {
    drivers: [Arc<dyn Driver>; QUEUES],
    known: [Known; QUEUES],
    /// Whether everything goes into the first queue.
    one: bool,
}

/// What is known of one queue.
#[derive(Debug, Default)]
struct Known {
    put: Mutex<Put>,
    /// Everything up to this ticket has run.
    done: AtomicU64,
    /// For each queue the ticket that this one is behind.
    behind: [AtomicU64; QUEUES],
}

/// An event, and the ticket that it stands for.
type Marked = (u64, Arc<dyn Event>);

#[derive(Debug, Default)]
struct Put {
    /// The last ticket.
    now: u64,
    /// Whether a thread is still putting work of that ticket in the queue.
    open: bool,
    /// In order.
    events: VecDeque<Marked>,
}

impl Put {
    /// The last ticket all of whose work is in the queue.
    fn whole(&self) -> u64 {
        self.now - u64::from(self.open)
    }
}

impl Order {
    /// Between the queues of that driver's GPU.
    pub fn new(driver: &Arc<dyn Driver>) -> Order {
        let one = environment::CUDA_QUEUES.is("off");
        let drivers = std::array::from_fn(|queue| driver.on(if one { 0 } else { queue }));
        Order { drivers, known: Default::default(), one }
    }

    /// The queue that work for that one goes into.
    pub fn queue(&self, queue: usize) -> usize {
        if self.one { 0 } else { queue }
    }

    /// Whether everything goes into one queue.
    pub fn is_one(&self) -> bool {
        self.one
    }

    /// The driver with that queue.
    pub fn driver(&self, queue: usize) -> &Arc<dyn Driver> {
        &self.drivers[queue]
    }

    fn put(&self, queue: usize) -> MutexGuard<'_, Put> {
        self.known[queue].put.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ticket of what is put in the queue from now on, until [`Order::end`]. One thread at a time does so: it has the
    /// queue's turn.
    pub fn begin(&self, queue: usize) -> u64 {
        let mut put = self.put(queue);
        put.now += 1;
        put.open = true;
        put.now
    }

    /// Says that everything up to the last ticket is in the queue.
    pub fn end(&self, queue: usize) {
        self.put(queue).open = false;
    }

    /// A ticket for what was just put in a queue where nobody has turns, and an event for it alone.
    ///
    /// # Errors
    /// When the device fails. The ticket holds all the same.
    pub fn stamp(&self, queue: usize) -> (u64, Result<(), Error>) {
        let mut put = self.put(queue);
        put.now += 1;
        let ticket = put.now;
        (ticket, self.record(queue, &mut put).map(|_| ()))
    }

    /// Makes an event for everything that is in a queue.
    fn record(&self, queue: usize, put: &mut Put) -> Result<Marked, Error> {
        let (whole, event) = (put.whole(), Arc::<dyn Event>::from(self.drivers[queue].point()?));
        if TUNABLES.max_events.reached_by(put.events.len()) {
            put.events.pop_front();
        }
        put.events.push_back((whole, event.clone()));
        Ok((whole, event))
    }

    /// Whether a queue need not wait for a ticket of another one any more.
    fn is_past(&self, queue: usize, other: usize, ticket: u64) -> bool {
        let known = &self.known[other];
        other == queue || ticket <= self.known[queue].behind[other].load(Relaxed) || ticket <= known.done.load(Relaxed)
    }

    /// An event for a ticket, and the ticket that it stands for; `None` while not everything of it is in the queue.
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

    /// Looks how far the device has come with a queue.
    fn look(&self, queue: usize, ticket: u64) {
        let Ok(Some(_)) = self.event(queue, ticket) else { return };
        let mut put = self.put(queue);
        while let Some((ticket, event)) = put.events.front() {
            // Who waits for what failed is told.
            if !matches!(event.has_happened(), Ok(true)) {
                break;
            }
            self.known[queue].done.fetch_max(*ticket, Relaxed);
            put.events.pop_front();
        }
    }

    /// Has what is put in a queue from now on run behind a ticket of another one. `missing` is called while not all of
    /// that is in its queue, and returns when more of it is.
    ///
    /// # Errors
    /// When the device fails.
    pub fn behind(&self, queue: usize, other: usize, ticket: u64, missing: &dyn Fn(usize)) -> Result<(), Error> {
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

    /// Has what is put in a queue here run behind what wrote a buffer of another GPU.
    ///
    /// # Errors
    /// When a device fails.
    pub fn behind_other(&self, queue: usize, other: &Order, uses: &Uses, missing: &dyn Fn(usize)) -> Result<(), Error> {
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

    /// Makes the event that who reads a buffer later comes behind, at the end of the queue as it is now.
    pub fn mark(&self, uses: &Uses) {
        if let Some((queue, ticket)) = uses.written()
            && ticket > self.known[queue].done.load(Relaxed)
            && let Err(error) = self.event(queue, ticket)
        {
            tracing::debug!(%error, "a device that has failed tells whoever reads");
        }
    }

    /// The event of a ticket that [`Order::stamp`] gave, or of a later one.
    ///
    /// # Errors
    /// When the device fails.
    pub fn stamped(&self, queue: usize, ticket: u64) -> Result<Arc<dyn Event>, Error> {
        Ok(self.event(queue, ticket)?.expect("a stamp is made when everything is in the queue").1)
    }

    /// Has what is put in a queue from now on run behind an event.
    ///
    /// # Errors
    /// When the device fails.
    pub fn after(&self, queue: usize, event: &dyn Event) -> Result<(), Error> {
        self.drivers[queue].after(event)?;
        count(|c| c.queue_waits += 1);
        Ok(())
    }

    /// [`Order::behind`] what wrote a buffer, or behind all uses where it is to be written: one that nobody has written since
    /// it was handed out, always.
    ///
    /// # Errors
    /// When the device fails.
    pub fn behind_uses(&self, queue: usize, uses: &Uses, write: bool, missing: &dyn Fn(usize)) -> Result<(), Error> {
        match uses.written() {
            Some((other, ticket)) if !write => self.behind(queue, other, ticket, missing),
            _ => self.behind_all(queue, &uses.points(), missing),
        }
    }

    /// [`Order::behind`] all of these.
    ///
    /// # Errors
    /// When the device fails.
    pub fn behind_all(&self, queue: usize, points: &Points, missing: &dyn Fn(usize)) -> Result<(), Error> {
        let mut all = points.iter().enumerate().filter(|p| *p.1 > 0);
        all.try_for_each(|(other, &ticket)| self.behind(queue, other, ticket, missing))
    }

    /// Who would wait if that queue used memory of these points.
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
