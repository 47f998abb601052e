//! A queue for kernels, the memory that its launches share, and the gate by which threads take turns.
//!
//! In: launches, in a batch: the launches of a run. Out: the same launches in the queue, in order. A frequent batch is
//! deferred until it is complete, and becomes a graph ([`super::batch`]).
//!
//! Always true: while a thread's batch is open, no other thread submits launches to the queue. All work of a batch has
//! one ticket ([`super::order`]), which marks the memory that it uses. So no other user gets that memory before the
//! launches that use it are submitted.

use super::batch::{EventSpan, Patch, Run};
use super::driver::{Driver, Event, Launch};
use super::faults::{Faulted, Faults};
use super::order::Order;
use crate::target::COUNTERS;
use crate::tunable::TUNABLES;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_runtime::{Batch, Buffer, Check, Error, Timing};

/// Queue of a device. One thread at a time submits launches to it (the holder of its gate).
#[derive(Debug)]
pub struct Queue {
    order: Arc<Order>,
    /// Index of the queue among those of the device.
    number: usize,
    /// Driver handle bound to this queue.
    driver: Arc<dyn Driver>,
    /// Name of the device, for errors.
    device: String,
    /// Address of the queue's counters in device memory.
    counters: u64,
    /// Exchange buffers for blocks of a launch, with their sizes; the last one is the largest. A graph may still refer
    /// to an earlier one, which was too small for a later launch.
    told: Mutex<Vec<(u64, usize)>>,
    faults: Arc<Faults>,
    gate: Mutex<Gate>,
    graphs: bool,
}

/// Schedules of a queue's launches, which only the holder of the gate uses.
#[derive(Debug, Default)]
struct Gate {
    /// Schedules of repeated launches, by the key of their batch.
    runs: FxHashMap<u64, Run>,
    /// Schedule of launches without a key.
    single: Run,
    batches: u64,
}

/// Open batch of the calling thread.
struct Open {
    queue: usize,
    run: Run,
    /// First ticket of the batch's work, and current ticket.
    first: u64,
    ticket: u64,
    /// Timing of the next launches, if requested: the event before the first of them, once it is recorded.
    clock: Option<Option<Box<dyn Event>>>,
    /// Number of programs that the batch has launched so far.
    programs: u32,
    /// Fault slots for out-of-range indices, each with the program that reports to it.
    words: Vec<(u32, u32)>,
}

thread_local! {
    static OPEN: RefCell<Option<Open>> = const { RefCell::new(None) };
}

/// Guard that closes the thread's batch when dropped, also on panics.
struct Close<'a>(&'a Queue);

impl Close<'_> {
    fn take() -> Option<Open> {
        OPEN.with_borrow_mut(Option::take)
    }
}

impl Drop for Close<'_> {
    fn drop(&mut self) {
        // A batch that panicked: its fault slots are released.
        if let Some(open) = Close::take().filter(|open| !open.words.is_empty()) {
            drop(Faulted::new(&self.0.faults, open.words));
        }
        self.0.order.end(self.0.number);
    }
}

impl Queue {
    /// Creates queue `number`, with the buffers that its launches share.
    ///
    /// # Errors
    /// When there is no memory for the buffers that launches share.
    pub fn new(order: Arc<Order>, number: usize, device: &str) -> Result<Queue, Error> {
        let driver = order.driver(number).clone();
        let bytes = 4 * COUNTERS;
        let none = || Error::OutOfMemory { requested: bytes, in_use: 0, limit: None, device: device.into() };
        let counters = driver.obtain(bytes).ok_or_else(none)?;
        driver.fill(counters, 0, bytes)?;
        let faults = Faults::new(driver.clone()).ok_or_else(none)?;
        let graphs = driver.has_graphs();
        Ok(Queue {
            order,
            number,
            driver,
            device: device.into(),
            counters,
            told: Mutex::default(),
            faults,
            gate: Mutex::default(),
            graphs,
        })
    }

    /// Driver bound to this queue, for work that needs no gate.
    pub fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// Address of the counters, all 0 between launches.
    pub fn counters(&self) -> u64 {
        self.counters
    }

    /// Address of an exchange buffer of at least this many bytes for the blocks of a launch. It begins as zeros, and
    /// only launches of this queue write there: a value without this launch's tag is of an earlier one.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn exchange_buffer(&self, bytes: usize) -> Result<u64, Error> {
        let mut all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&(address, _)) = all.last().filter(|l| l.1 >= bytes) {
            return Ok(address);
        }
        let bytes = bytes.next_power_of_two().max(TUNABLES.min_exchange_bytes.size());
        let device = self.device.clone();
        let address =
            self.driver.obtain(bytes).ok_or(Error::OutOfMemory { requested: bytes, in_use: 0, limit: None, device })?;
        self.driver.fill(address, 0, bytes)?;
        all.push((address, bytes));
        Ok(address)
    }

    fn id(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Locks the gate, so that only this thread submits launches to the queue.
    fn gate(&self) -> MutexGuard<'_, Gate> {
        // A panic while the gate is locked leaves the queue consistent; at most a schedule is lost.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` with the calling thread's open batch of this queue, if there is one.
    fn open<R>(&self, f: impl FnOnce(&mut Open) -> R) -> Option<R> {
        // A thread that exits drops values after its batch is gone.
        let done = OPEN.try_with(|o| o.borrow_mut().as_mut().filter(|o| o.queue == self.id()).map(f));
        done.ok().flatten()
    }

    /// Whether the calling thread has an open batch of this queue.
    pub fn is_open(&self) -> bool {
        self.open(|_| ()).is_some()
    }

    /// Begins the next program of the open batch. Returns the address of its fault slot if it may meet an out-of-range
    /// index, else 0.
    ///
    /// # Errors
    /// When the device fails.
    pub fn begin(&self, checked: bool) -> Result<u64, Error> {
        let begun = self.open(|open| {
            let program = open.programs;
            open.programs += 1;
            if !checked {
                return Ok(0);
            }
            let word = self.faults.take()?;
            open.words.push((word, program));
            Ok(self.faults.address(word))
        });
        begun.unwrap_or(Ok(0))
    }

    /// Records that the open batch uses a buffer: a write if the buffer is unwritten or was written by this batch, else
    /// a read. Later work of the batch waits for other queues' uses of the buffer. `missing` is as for
    /// [`Order::wait_for`].
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When the calling thread has no batch open here.
    pub fn uses(&self, buffer: &Buffer, missing: &dyn Fn(usize)) -> Result<(), Error> {
        let (first, ticket) = self.tickets();
        let uses = buffer.uses();
        match uses.written() {
            // A buffer that this batch has written may be written by it again.
            Some((queue, written)) if queue == self.number && written >= first => uses.write(self.number, ticket),
            Some((queue, _)) if queue == self.number => uses.used(self.number, ticket),
            Some((queue, written)) => {
                self.order.wait_for(self.number, queue, written, missing)?;
                uses.used(self.number, ticket);
            }
            None => self.writes(buffer, missing)?,
        }
        Ok(())
    }

    /// Records that the open batch writes a buffer, whatever its earlier uses.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// As [`Queue::uses`].
    pub fn writes(&self, buffer: &Buffer, missing: &dyn Fn(usize)) -> Result<(), Error> {
        self.order.wait_for_points(self.number, &buffer.uses().points(), missing)?;
        // The ticket is read again: if work was missing, the batch has a later one now.
        buffer.uses().write(self.number, self.tickets().1);
        Ok(())
    }

    /// First and current ticket of the open batch.
    fn tickets(&self) -> (u64, u64) {
        self.open(|open| (open.first, open.ticket)).expect("memory is used in a batch")
    }

    /// Adds a launch to the open batch. `patch` sets the argument words that change from run to run, and returns a hash
    /// of those that are addresses.
    ///
    /// # Errors
    /// When the device refuses.
    ///
    /// # Panics
    /// When the calling thread has no batch open here.
    pub fn launch(&self, launch: &Launch, patch: Patch<'_>) -> Result<(), Error> {
        let put = self.open(|open| {
            if let Some(begin @ None) = &mut open.clock {
                *begin = Some(self.driver.event()?);
            }
            open.run.launch(&*self.driver, launch, &mut *patch)
        });
        put.expect("launches are put in a batch")
    }

    /// Implements [`thalweg_runtime::Device::clocked`]. Waits of the first launch for other queues are not included.
    ///
    /// # Errors
    /// Errors of `run`, and of the device.
    pub fn clocked(&self, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Arc<dyn Timing>, Error> {
        if self.open(|open| open.clock = Some(None)).is_none() {
            return Ok(Arc::new(EventSpan::of(&*self.driver, run)?));
        }
        let done = run();
        let begun = self.open(|open| open.clock.take().flatten()).flatten();
        done?;
        let begin = begun.map_or_else(|| self.driver.event(), Ok)?;
        Ok(Arc::new(EventSpan::from(begin, &*self.driver)?))
    }

    /// Implements [`thalweg_runtime::Device::batch`].
    ///
    /// # Errors
    /// Errors of `run`, and of the device.
    pub fn batch(
        &self,
        key: Option<u64>,
        timed: bool,
        run: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Batch, Error> {
        if OPEN.with_borrow(Option::is_some) {
            return run().map(|()| Batch::default());
        }
        let mut gate = self.gate();
        let key = key.filter(|_| self.graphs);
        let mut known = match key {
            Some(key) => gate.runs.remove(&key).unwrap_or_default(),
            None => std::mem::take(&mut gate.single),
        };
        known.begin(key.is_some(), timed);
        let ticket = self.order.begin(self.number);
        OPEN.set(Some(Open {
            queue: self.id(),
            run: known,
            first: ticket,
            ticket,
            clock: None,
            programs: 0,
            words: vec![],
        }));
        let close = Close(self);
        let done = run();
        let Open { run: mut known, words, .. } = Close::take().expect("it is open until here");
        // Deferred launches of a failed run are dropped.
        let done = done.and_then(|()| known.submit(&*self.driver)).and_then(|()| known.timing(&*self.driver));
        drop(close);
        match key {
            Some(key) => gate.remember(key, known),
            None => gate.single = known,
        }
        drop(gate);
        let check = (!words.is_empty()).then(|| Faulted::new(&self.faults, words));
        done.map(|timing| Batch { check: check.map(|c| c as Arc<dyn Check>), timing })
    }

    /// Submits the deferred launches, since other work must follow them, then calls `f` in the thread's batch, or in
    /// one of its own where none is open.
    ///
    /// # Errors
    /// Errors of `f`.
    pub fn after_deferred(&self, f: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
        match self.open(|open| open.run.flush(&*self.driver)) {
            Some(flushed) => {
                if let Err(error) = flushed {
                    tracing::debug!(%error, "a batch could not be put in the queue");
                }
                f()
            }
            None => self.batch(None, false, f).map(|_| ()),
        }
    }

    /// Makes sure that all work with a ticket is submitted: the deferred launches of the thread's own batch, or by
    /// waiting for another thread's batch to end.
    pub fn make_whole(&self) {
        let own = self.open(|open| {
            if let Err(error) = open.run.flush(&*self.driver) {
                tracing::debug!(%error, "a batch could not be put in the queue");
            }
            open.ticket = self.order.begin(self.number);
        });
        if own.is_none() {
            drop(self.gate());
        }
    }
}

impl Gate {
    fn remember(&mut self, key: u64, mut run: Run) {
        self.batches += 1;
        run.last = self.batches;
        if TUNABLES.max_runs.reached_by(self.runs.len()) {
            let long_ago = self.batches.saturating_sub(TUNABLES.max_runs.get() as u64 / 2);
            self.runs.retain(|_, r| r.last > long_ago);
        }
        self.runs.insert(key, run);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.driver.release(self.counters);
        let told = self.told.get_mut().unwrap_or_else(PoisonError::into_inner);
        told.iter().for_each(|&(address, _)| self.driver.release(address));
    }
}
