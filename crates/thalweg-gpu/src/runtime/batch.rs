//! Batches: the launches of a run, collected and submitted by one call.
//!
//! In: launches in order, under a key that identifies the sequence of functions. Out: work in the queue. A run that is
//! frequent and long enough is deferred until it is complete, and becomes a CUDA graph. There are several graphs a run,
//! since the memory of a loop usually repeats after two or three iterations, and a graph that has the right addresses
//! already needs no updates but of scalars.
//!
//! Always true: the device runs what was launched, as a graph or one by one.

use super::driver::{Driver, Event, Graph, Launch};
use crate::tunable::TUNABLES;
use std::sync::Arc;
use thalweg_runtime::{Error, Timing, count};

/// Growable list of launches, whose memory is reused from run to run.
#[derive(Debug, Default)]
pub struct Collected {
    launches: Vec<Launch>,
    /// Number of valid launches at the beginning of the list.
    count: usize,
}

/// Callback that patches the argument words that change from run to run. Returns a hash of those that are addresses.
pub type Patch<'a> = &'a mut dyn FnMut(&mut [u64]) -> u64;

impl Collected {
    /// Appends a launch, and returns the hash of its addresses.
    fn add(&mut self, launch: &Launch, patch: Patch<'_>) -> u64 {
        let at = self.count;
        self.count += 1;
        let Some(known) = self.launches.get_mut(at) else {
            self.launches.push(launch.clone());
            return patch(&mut self.launches[at].arguments);
        };
        if known.function.handle != launch.function.handle {
            known.function = launch.function.clone();
        }
        (known.grid, known.block, known.shared) = (launch.grid, launch.block, launch.shared);
        known.arguments.clone_from(&launch.arguments);
        patch(&mut known.arguments)
    }

    fn all(&self) -> &[Launch] {
        &self.launches[..self.count]
    }

    /// Submits a launch immediately, using the list as scratch memory.
    pub fn launch(&mut self, driver: &dyn Driver, launch: &Launch, patch: Patch<'_>) -> Result<(), Error> {
        self.count = 0;
        self.add(launch, patch);
        plain(driver, self.all())
    }
}

/// Submits launches one by one.
fn plain(driver: &dyn Driver, launches: &[Launch]) -> Result<(), Error> {
    count(|c| c.device_launches += launches.len() as u64);
    launches.iter().try_for_each(|launch| driver.launch(launch))
}

/// Schedule of the launches of a batch key: whether they run one by one or as a CUDA graph, and their timing.
#[derive(Debug, Default)]
pub struct Run {
    collected: Collected,
    /// Number of runs so far, and number of launches of the last one.
    seen: u32,
    length: usize,
    /// Whether the launches of the current run are deferred, to be submitted as a graph.
    kept_back: bool,
    /// Whether the current run is timed, and the event at its beginning.
    timed: bool,
    begun: Option<Box<dyn Event>>,
    /// Hash of the current run's functions, and hash of its addresses.
    shape: u64,
    addresses: u64,
    graphs: Vec<CachedGraph>,
    /// Whether the driver refused to create a graph.
    refused: bool,
    /// Time of the last run, in batches of the queue so far.
    pub last: u64,
}

#[derive(Debug)]
struct CachedGraph {
    graph: Box<dyn Graph>,
    length: usize,
    shape: u64,
    addresses: u64,
    /// Number of the run that used the graph last.
    last: u32,
}

/// Time span between two events.
#[derive(Debug)]
pub struct EventSpan {
    begin: Box<dyn Event>,
    end: Box<dyn Event>,
}

impl EventSpan {
    /// Span of the work that `run` submits.
    ///
    /// # Errors
    /// Errors of `run`, and of the device.
    pub fn of(driver: &dyn Driver, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<EventSpan, Error> {
        let begin = driver.event()?;
        run()?;
        EventSpan::from(begin, driver)
    }

    /// Span from an event to the current end of the queue.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn from(begin: Box<dyn Event>, driver: &dyn Driver) -> Result<EventSpan, Error> {
        Ok(EventSpan { begin, end: driver.event()? })
    }
}

impl Timing for EventSpan {
    fn elapsed(&self) -> Result<Option<u64>, Error> {
        if !self.end.has_happened()? {
            return Ok(None);
        }
        self.end.since(&*self.begin).map(|ns| Some(ns.max(0.0) as u64))
    }
}

/// Mixes a word into a hash.
pub fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95)
}

impl Run {
    /// Begins a run. Without a key nothing is deferred. A timed run is deferred whole, since the device's time would
    /// include the host's otherwise.
    pub fn begin(&mut self, keyed: bool, timed: bool) {
        self.seen = self.seen.saturating_add(1);
        (self.timed, self.begun) = (timed, None);
        self.kept_back = keyed && (timed || self.is_worth_a_graph());
        (self.collected.count, self.length, self.shape, self.addresses) = (0, 0, 0, 0);
    }

    fn is_worth_a_graph(&self) -> bool {
        let often = TUNABLES.min_graph_runs.reached_by(self.seen as usize);
        often && TUNABLES.min_graph_launches.reached_by(self.length) && !self.refused
    }

    /// Records the event at the run's beginning, if it is timed.
    fn mark(&mut self, driver: &dyn Driver) -> Result<(), Error> {
        if self.timed && self.begun.is_none() {
            self.begun = Some(driver.event()?);
        }
        Ok(())
    }

    /// Timing of a run that has ended, without the work after it in the queue. `None` where it is not timed.
    ///
    /// # Errors
    /// When the device fails.
    pub fn timing(&mut self, driver: &dyn Driver) -> Result<Option<Arc<dyn Timing>>, Error> {
        let Some(begin) = self.begun.take() else { return Ok(None) };
        Ok(Some(Arc::new(EventSpan { begin, end: driver.event()? })))
    }

    /// Submits a launch, or defers it.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn launch(&mut self, driver: &dyn Driver, launch: &Launch, patch: Patch<'_>) -> Result<(), Error> {
        self.length += 1;
        if !self.kept_back {
            self.mark(driver)?;
            return self.collected.launch(driver, launch, patch);
        }
        let addresses = self.collected.add(launch, patch);
        self.shape = mix(self.shape, (launch.function.handle as u64) << 11 | u64::from(launch.block));
        self.addresses = mix(self.addresses, addresses);
        Ok(())
    }

    /// Submits the deferred launches, since other work must follow them; the rest of the run follows one by one.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn flush(&mut self, driver: &dyn Driver) -> Result<(), Error> {
        if !std::mem::take(&mut self.kept_back) {
            return Ok(());
        }
        self.mark(driver)?;
        let done = plain(driver, self.collected.all());
        self.collected.count = 0;
        done
    }

    /// Ends the run: all of it is submitted.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn submit(&mut self, driver: &dyn Driver) -> Result<(), Error> {
        if !self.kept_back {
            return Ok(());
        }
        let Some(made) = self.is_worth_a_graph().then(|| self.graph(driver)).flatten() else {
            self.mark(driver)?;
            return plain(driver, self.collected.all());
        };
        self.mark(driver)?;
        let made = &mut self.graphs[made];
        (made.last, made.addresses) = (self.seen, self.addresses);
        count(|c| {
            c.device_launches += 1;
            c.graph_runs += 1;
        });
        made.graph.run(self.collected.all())
    }

    /// Index of the graph to run: one with these addresses, a new one, or the least recently used one.
    fn graph(&mut self, driver: &dyn Driver) -> Option<usize> {
        let launches = self.collected.all();
        let same = |m: &CachedGraph| m.length == launches.len() && m.shape == self.shape;
        if let Some(found) = self.graphs.iter().position(|m| same(m) && m.addresses == self.addresses) {
            return Some(found);
        }
        if TUNABLES.max_graphs.reached_by(self.graphs.len()) {
            let oldest = |(_, m): &(usize, &CachedGraph)| m.last;
            if let Some((found, _)) = self.graphs.iter().enumerate().filter(|(_, m)| same(m)).min_by_key(oldest) {
                return Some(found);
            }
            // Graphs of other launches: the key's meaning has changed.
            self.graphs.clear();
        }
        match driver.graph(launches) {
            Ok(graph) => {
                count(|c| c.graphs_made += 1);
                let (length, shape, addresses) = (launches.len(), self.shape, self.addresses);
                self.graphs.push(CachedGraph { graph, length, shape, addresses, last: 0 });
                Some(self.graphs.len() - 1)
            }
            Err(error) => {
                tracing::debug!(%error, launches = launches.len(), "no graph is made");
                self.refused = true;
                None
            }
        }
    }
}
