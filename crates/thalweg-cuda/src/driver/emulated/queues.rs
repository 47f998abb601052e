//! Queues of the emulated GPU: pending work, and its order.
//!
//! In: work, and events of other queues that later work must follow. Out: the work, run on the thread that waits for
//! it, as late as possible: a queue runs up to the event that somebody waits for, and another one as far as that
//! requires. From time to time another queue, drawn at random, advances too. So work that lacks a wait for other work
//! mostly runs before it.
//!
//! Always true: the work of a queue runs in order, and after the events that it waits for.

use super::{EmulatedState, failed};
use crate::driver::Event;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use thalweg_runtime::{Error, QUEUES};

/// Maximum number of pending items in all queues; beyond that a queue runs. A GPU holds no more either.
const MAX_PENDING: usize = 1024;
/// Number of items that run each time an event is polled.
const STEPS: u64 = 2;

/// Event: a point in a queue after a number of its items.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    parts: Weak<EmulatedState>,
    queue: usize,
    /// Number of items in the queue before it.
    position: u64,
    /// Time at which the queue reached it, in nanoseconds; 0 before.
    at: Arc<AtomicUsize>,
}

type Do = Box<dyn FnOnce(&EmulatedState) -> Result<(), Error> + Send>;

/// Item of a queue.
pub(super) enum Item {
    /// Work: a function that runs when the queue reaches it.
    Do(Do),
    /// Wait: later items run after this event.
    After(Moment),
    /// Wait: later items run after this has returned true once, for reasons outside of all emulated GPUs.
    Until(Box<dyn FnMut() -> bool + Send>),
    /// Event record: stores the time when the queue reaches this item.
    Here(Arc<AtomicUsize>),
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Do(_) => write!(f, "work"),
            Item::After(moment) => write!(f, "after {} of queue {}", moment.position, moment.queue),
            Item::Until(_) => write!(f, "until another rank"),
            Item::Here(_) => write!(f, "an event"),
        }
    }
}

/// Condition that a queue waits for.
enum Missing {
    /// An event of another GPU.
    Event(Moment),
    /// Something outside of all GPUs ([`Item::Until`]).
    Outside,
}

/// Pending work of all queues.
#[derive(Debug, Default)]
pub(super) struct Work {
    queues: [VecDeque<Item>; QUEUES],
    /// Number of items that were submitted to each queue, and number of those that have run.
    put: [u64; QUEUES],
    run: [u64; QUEUES],
    /// First failure, reported at the next call.
    failed: Option<Error>,
    /// State of the random generator.
    drawn: u64,
}

impl Work {
    fn draw(&mut self, below: u64) -> u64 {
        self.drawn = self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.drawn >> 33) % below
    }

    /// Runs the next item of a queue. Returns `false` if there is none, or if it must wait.
    fn step(&mut self, parts: &EmulatedState, queue: usize) -> bool {
        match self.queues[queue].pop_front() {
            None => return false,
            Some(Item::After(moment)) if !self.is_past(parts, &moment) => {
                self.queues[queue].push_front(Item::After(moment));
                return false;
            }
            Some(Item::After(_)) => {}
            Some(Item::Until(mut is_reached)) => {
                if !is_reached() {
                    self.queues[queue].push_front(Item::Until(is_reached));
                    return false;
                }
            }
            Some(Item::Here(at)) => at.store(nanoseconds(), Relaxed),
            Some(Item::Do(work)) => {
                // A real GPU runs nothing after a failure. Here all other work runs, so that one test's failure does
                // not affect others.
                if let Err(error) = work(parts) {
                    self.failed.get_or_insert(error);
                }
            }
        }
        self.run[queue] += 1;
        true
    }

    fn is_past(&self, parts: &EmulatedState, moment: &Moment) -> bool {
        match moment.parts.upgrade() {
            // An event of another GPU, whose queues are not locked now.
            Some(other) if !std::ptr::eq(&*other, parts) => moment.at.load(Relaxed) != 0,
            Some(_) => self.run[moment.queue] > moment.position,
            None => true,
        }
    }

    /// Runs a queue up to `items` items, and others as far as that requires. Returns what must happen elsewhere first.
    fn run_to(&mut self, parts: &EmulatedState, queue: usize, items: u64) -> Option<Missing> {
        while self.run[queue] < items {
            if self.draw(4) == 0 {
                let other = self.draw(QUEUES as u64) as usize;
                self.step(parts, other);
            }
            if self.run[queue] >= items || self.step(parts, queue) {
                continue;
            }
            let moment = match self.queues[queue].front() {
                Some(Item::After(moment)) => moment.clone(),
                Some(Item::Until(_)) => return Some(Missing::Outside),
                _ => return None,
            };
            if moment.parts.upgrade().is_some_and(|other| !std::ptr::eq(&*other, parts)) {
                return Some(Missing::Event(moment));
            }
            let needed = self.run_to(parts, moment.queue, moment.position + 1);
            if needed.is_some() {
                return needed;
            }
        }
        None
    }

    fn put(&mut self, queue: usize, item: Item) -> Result<(), Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.put_quietly(queue, item);
        Ok(())
    }

    fn put_quietly(&mut self, queue: usize, item: Item) {
        self.queues[queue].push_back(item);
        self.put[queue] += 1;
    }
}

impl EmulatedState {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first failure of a work item, once. A real GPU would return it from every later call.
    pub(super) fn healthy(&self) -> Result<(), Error> {
        self.work().failed.take().map_or(Ok(()), Err)
    }

    /// Runs a queue until `items` of its items have run, and the work of this and of other GPUs that this requires.
    fn run_to(&self, queue: usize, items: u64) {
        while !self.try_run_to(queue, items) {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Like [`run_to`](Self::run_to), but does not wait for what is outside of all GPUs. Returns whether the items have
    /// run.
    fn try_run_to(&self, queue: usize, items: u64) -> bool {
        loop {
            let missing = self.work().run_to(self, queue, items);
            match missing {
                None => return true,
                Some(Missing::Outside) => return false,
                Some(Missing::Event(needed)) => {
                    if let Some(other) = needed.parts.upgrade()
                        && !other.try_run_to(needed.queue, needed.position + 1)
                    {
                        return false;
                    }
                }
            }
        }
    }

    /// Submits an item to a queue.
    pub(super) fn put(&self, queue: usize, item: Item) -> Result<(), Error> {
        let mut work = self.work();
        work.put(queue, item)?;
        let many = work.queues.iter().map(VecDeque::len).sum::<usize>() > MAX_PENDING;
        let to = work.put[queue];
        drop(work);
        if many {
            self.run_to(queue, to);
        }
        Ok(())
    }

    /// Submits an item to a queue, and leaves earlier failures to the next call.
    pub(super) fn put_quietly(&self, queue: usize, item: Item) {
        self.work().put_quietly(queue, item);
    }

    /// Runs all work in a queue.
    pub(super) fn finish(&self, queue: usize) -> Result<(), Error> {
        let to = self.work().put[queue];
        self.run_to(queue, to);
        self.healthy()
    }

    /// Runs all work in all queues.
    pub(super) fn run_all(&self) {
        let first = self.work().draw(QUEUES as u64) as usize;
        for n in 0..QUEUES {
            let queue = (first + n) % QUEUES;
            let to = self.work().put[queue];
            self.run_to(queue, to);
        }
    }

    /// Records an event at the end of a queue.
    pub(super) fn moment(self: &Arc<EmulatedState>, queue: usize) -> Result<Moment, Error> {
        let (at, mut work) = (Arc::new(AtomicUsize::new(0)), self.work());
        work.put(queue, Item::Here(at.clone()))?;
        Ok(Moment { parts: Arc::downgrade(self), queue, position: work.put[queue] - 1, at })
    }
}

/// Nanoseconds since the first call, from 1 on.
fn nanoseconds() -> usize {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as usize + 1
}

impl Moment {
    /// Converts an event, which must be of an emulated GPU.
    pub(super) fn of(event: &dyn Event) -> Moment {
        // SAFETY: an event of an emulated GPU has the address of its moment as handle, and the caller holds it.
        unsafe { (*(event.handle() as *const Moment)).clone() }
    }

    fn parts(&self) -> Result<Arc<EmulatedState>, Error> {
        self.parts.upgrade().ok_or_else(|| failed("the device of an event is gone"))
    }
}

impl Event for Moment {
    fn wait(&self) -> Result<(), Error> {
        let parts = self.parts()?;
        parts.run_to(self.queue, self.position + 1);
        parts.healthy()
    }

    fn has_happened(&self) -> Result<bool, Error> {
        let parts = self.parts()?;
        let to = (parts.work().run[self.queue] + STEPS).min(self.position + 1);
        parts.try_run_to(self.queue, to);
        Ok(self.at.load(Relaxed) != 0)
    }

    fn since(&self, earlier: &dyn Event) -> Result<f64, Error> {
        self.wait()?;
        let earlier = Moment::of(earlier);
        earlier.wait()?;
        Ok(self.at.load(Relaxed) as f64 - earlier.at.load(Relaxed) as f64)
    }

    fn handle(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

/// Number of the next emulated GPU.
pub(super) fn next_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// The emulated GPU with a number.
pub(super) fn numbered(number: usize) -> Option<Arc<EmulatedState>> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner).clone();
    all.iter().filter_map(Weak::upgrade).find(|parts| parts.number == number)
}

static ALL: Mutex<Vec<Weak<EmulatedState>>> = Mutex::new(vec![]);

/// Registers an emulated GPU for [`run_everything`].
pub(super) fn register(parts: &Arc<EmulatedState>) {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|p| p.strong_count() > 0);
    all.push(Arc::downgrade(parts));
}

/// Runs all work in all queues of all emulated GPUs.
pub(super) fn run_everything() {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner).clone();
    all.iter().filter_map(Weak::upgrade).for_each(|parts| parts.run_all());
}
