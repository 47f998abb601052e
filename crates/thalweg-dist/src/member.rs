//! A rank's part in its worlds: its engine, the collectives that it has recorded and not run, and its failure.
//!
//! In: collectives, numbered in the order of recording. Out: their messages, in that order. Always true: a collective
//! runs after all that the rank recorded before it, in whichever order results are read; after the first failure
//! nothing is exchanged, and every collective returns that failure.

use crate::engine::{Absence, Engine, Message, Payload, Signature};
use crate::traffic::{Traffic, TrafficTable};
use crate::watch::{Watch, is_joinable, locked};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use thalweg::communication::Communicator;
use thalweg::{Device, Error, Tensor, trace};

/// State of a rank, shared by its worlds and the collectives that it has recorded.
pub(crate) struct Member {
    pub rank: usize,
    pub size: usize,
    pub device: Device,
    engine: Box<dyn Engine>,
    /// Identities of the ranks' devices, where a library moves data between them.
    identities: Vec<Option<String>>,
    pub watch: Arc<Watch>,
    timeout_ms: AtomicU64,
    pending: Mutex<Pending>,
    failure: OnceLock<Failure>,
    ended: AtomicBool,
    traffic: Mutex<TrafficTable>,
}

/// Collectives that have been recorded and have not run.
#[derive(Default)]
pub(crate) struct Pending {
    next: u64,
    /// The result of each collective, which runs it when computed, by number.
    results: VecDeque<(u64, Tensor)>,
}

impl Pending {
    /// Number of the collective that is recorded next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Adds the result of the next collective.
    pub fn add(&mut self, result: Tensor) {
        self.results.push_back((self.next, result));
        self.next += 1;
    }
}

/// Ranks of a world: the members of the whole world, by rank in this one.
pub(crate) struct Group {
    /// Id of the world, equal on its ranks; 0 for the whole world.
    pub id: u64,
    pub ranks: Vec<usize>,
    /// Rank of this member in the group.
    pub rank: usize,
    /// Number of collectives recorded in this world.
    pub recorded: AtomicU64,
    /// Whether each rank has a device of its own that a library moves data from and to.
    pub is_on_devices: bool,
    /// Joined at the first transfer.
    pub communicator: OnceLock<Arc<dyn Communicator>>,
}

/// First failure that a rank has noticed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    cause: Arc<str>,
    /// Whether another rank reported it.
    pub reported: bool,
}

impl Failure {
    pub(crate) fn new(cause: impl Into<Arc<str>>) -> Failure {
        Failure { cause: cause.into(), reported: false }
    }

    pub(crate) fn reported(cause: Arc<str>) -> Failure {
        Failure { cause, reported: true }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

impl std::error::Error for Failure {}

/// Messages of one collective, as its rank in the group sends and receives them.
pub(crate) struct Exchange<'a> {
    member: &'a Member,
    group: &'a Group,
    signature: &'a Arc<Signature>,
    traffic: Traffic,
}

impl<'a> Exchange<'a> {
    pub fn new(member: &'a Member, group: &'a Group, signature: &'a Arc<Signature>) -> Exchange<'a> {
        Exchange { member, group, signature, traffic: Traffic::default() }
    }
}

impl Exchange<'_> {
    pub fn rank(&self) -> usize {
        self.group.rank
    }

    pub fn size(&self) -> usize {
        self.group.ranks.len()
    }

    /// Ranks of the group without this one, from the next one on: so not all ranks send to rank 0 first.
    pub fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (own, size) = (self.rank(), self.size());
        (1..size).map(move |distance| (own + distance) % size)
    }

    /// Sends bytes to a rank of the group.
    pub fn send(&mut self, to: usize, payload: Payload) -> Result<(), Failure> {
        self.traffic.sent += payload.len() as u64;
        let message = Message::Data(self.signature.clone(), payload);
        let to = self.group.ranks[to];
        self.member.engine.send(to, message).map_err(|lost| self.member.lost(to, lost))
    }

    /// Waits for `bytes` bytes from a rank of the group.
    pub fn receive(&mut self, from: usize, bytes: usize) -> Result<Payload, Failure> {
        let payload = self.receive_any(from)?;
        if payload.len() != bytes {
            let (sender, sent, at) = (self.group.ranks[from], payload.len(), &self.signature.at);
            return Err(Failure::new(format!("rank {sender} sent {sent} bytes at {at}, and {bytes} were expected")));
        }
        Ok(payload)
    }

    /// Waits for any number of bytes from a rank of the group.
    pub fn receive_any(&mut self, from: usize) -> Result<Payload, Failure> {
        let (sender, own) = (self.group.ranks[from], self.signature);
        let received = self.member.engine.inbox().receive(sender, Some(own), self.member.timeout());
        let (theirs, payload) = received.map_err(|absence| self.member.absent(sender, absence))?;
        if !theirs.agrees(own) {
            return Err(self.member.disagreement(sender, &theirs, own));
        }
        self.traffic.received += payload.len() as u64;
        Ok(payload)
    }
}

impl Member {
    /// `identities` are those of the devices of all ranks ([`crate::watch::identity`]).
    pub fn new(
        (rank, size): (usize, usize),
        device: Device,
        engine: Box<dyn Engine>,
        identities: Vec<Option<String>>,
        timeout: Duration,
    ) -> Arc<Member> {
        let member = Member {
            rank,
            size,
            device,
            engine,
            identities,
            watch: Arc::default(),
            timeout_ms: AtomicU64::new(0),
            pending: Mutex::default(),
            failure: OnceLock::new(),
            ended: AtomicBool::new(false),
            traffic: Mutex::default(),
        };
        member.set_timeout(timeout);
        Arc::new(member)
    }

    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Group of ranks of the whole world.
    pub fn group(&self, id: u64, ranks: Vec<usize>) -> Group {
        let rank = ranks.iter().position(|&rank| rank == self.rank).expect("the rank is in its own group");
        let identities: Vec<Option<String>> =
            ranks.iter().map(|&r| self.identities.get(r).cloned().flatten()).collect();
        let is_on_devices = is_joinable(&identities);
        Group { id, ranks, rank, recorded: AtomicU64::new(0), is_on_devices, communicator: OnceLock::new() }
    }

    /// Failure for a rank that a message could not be sent to. If it has failed or ended, its message says more.
    pub fn lost(&self, to: usize, lost: String) -> Failure {
        match self.engine.inbox().receive(to, None, Duration::ZERO) {
            Err(Absence::TimedOut) | Ok(_) => Failure::new(lost),
            Err(absence) => self.absent(to, absence),
        }
    }

    /// Failure for want of a message of a rank.
    pub fn absent(&self, sender: usize, absence: Absence) -> Failure {
        match absence {
            Absence::Failed(cause) => Failure::reported(cause),
            Absence::Ended => Failure::new(format!("rank {sender} has ended and does not take part")),
            Absence::TimedOut => {
                let seconds = self.timeout().as_secs_f64();
                Failure::new(format!("rank {sender} has not taken part within {seconds} s"))
            }
        }
    }

    /// Failure for a rank that runs another collective.
    pub fn disagreement(&self, sender: usize, theirs: &Signature, own: &Signature) -> Failure {
        Failure::new(format!("rank {sender} runs {theirs}, where rank {} runs {own}", self.rank))
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.load(Relaxed))
    }

    pub fn set_timeout(&self, timeout: Duration) {
        self.timeout_ms.store(timeout.as_millis().min(u64::MAX as u128) as u64, Relaxed);
    }

    pub fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }

    pub fn traffic(&self) -> TrafficTable {
        locked(&self.traffic).clone()
    }

    /// Collectives that wait. While they are locked, the next one is recorded and added.
    pub fn pending(&self) -> MutexGuard<'_, Pending> {
        locked(&self.pending)
    }

    /// Runs the waiting collectives with numbers below `number`, in order; those on a device are only enqueued. Their
    /// results hold their errors.
    pub fn run_before(&self, number: u64) {
        loop {
            let first = self.pending().results.front().filter(|(first, _)| *first < number).cloned();
            let Some((first, result)) = first else { return };
            // If another thread is running it, this waits for that.
            let _ = result.start();
            self.remove(first);
        }
    }

    /// Runs all waiting collectives, and waits for those on a device.
    ///
    /// # Errors
    /// The rank's failure.
    pub fn run_all(&self) -> Result<(), Failure> {
        self.run_before(u64::MAX);
        self.wait_for_transfers();
        self.failure().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// Removes a collective that has run.
    pub fn remove(&self, number: u64) {
        let mut pending = self.pending();
        let at = pending.results.iter().position(|(waiting, _)| *waiting == number);
        let removed = at.and_then(|at| pending.results.remove(at));
        // A dropped tensor may drop others: not under the lock.
        drop(pending);
        drop(removed);
    }

    /// Runs a collective, after those that were recorded before it.
    pub fn execute(
        &self,
        number: u64,
        group: &Group,
        signature: &Arc<Signature>,
        work: impl FnOnce(&mut Exchange<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.run_before(number);
        let mut exchange = Exchange::new(self, group, signature);
        let outcome = match self.refusal() {
            Some(failure) => Err(failure),
            None => trace::span("collective", || signature.to_string(), || work(&mut exchange)),
        };
        self.count(&signature.operation, Traffic { calls: 1, ..exchange.traffic });
        self.remove(number);
        outcome.inspect_err(|failure| self.failed_in(signature, failure))
    }

    /// Reason why the rank takes part in nothing any more.
    pub fn refusal(&self) -> Option<Failure> {
        let left = || self.ended.load(Relaxed).then(|| Failure::new("this rank has left its world"));
        self.failure().cloned().or_else(left)
    }

    /// Counts the traffic of an operation.
    pub fn count(&self, operation: &str, traffic: Traffic) {
        locked(&self.traffic).add(operation, traffic);
    }

    /// Notes a failure in a collective, and reports it to all ranks.
    pub fn failed_in(&self, signature: &Signature, failure: &Failure) {
        let Signature { operation, at, .. } = signature;
        self.fail(failure.clone(), |rank| format!("rank {rank} failed in {operation} at {at}: {failure}"));
    }

    /// Reports that an operand of a collective could not be computed.
    pub fn operand_failed(&self, number: u64, signature: &Signature, error: &Error) {
        self.run_before(number);
        self.remove(number);
        let Signature { operation, at, .. } = signature;
        let text = |rank| format!("rank {rank} has no operand for {operation} at {at}: {error}");
        self.fail(Failure::new(text(self.rank)), text);
    }

    /// Notes the first failure and reports it to all ranks: one that was reported to this rank in its own words, any
    /// other in the words of `text`, which is given the rank.
    pub fn fail(&self, failure: Failure, text: impl FnOnce(usize) -> String) {
        if self.failure.set(failure.clone()).is_err() {
            return;
        }
        if self.ended.swap(true, Relaxed) {
            return self.watch.abort();
        }
        let cause = if failure.reported { failure.cause } else { text(self.rank).into() };
        tracing::warn!(rank = self.rank, %cause, "a world has failed");
        self.send_all(&Message::Failed(cause));
        self.watch.abort();
    }

    /// Runs what waits and leaves: the others get an error if they wait for more. Only the first call has an effect.
    ///
    /// # Errors
    /// The rank's failure.
    pub fn finish(&self) -> Result<(), Failure> {
        let outcome = self.run_all();
        if !self.ended.swap(true, Relaxed) {
            self.send_all(&Message::Ended);
            if outcome.is_ok() {
                self.watch.close();
            }
        }
        outcome
    }

    /// Drops the collectives that wait, which hold this member. Those whose results are read later return a failure.
    pub fn abandon(&self) {
        let left = std::mem::take(&mut self.pending().results);
        drop(left);
    }

    fn send_all(&self, message: &Message) {
        for rank in (0..self.size).filter(|&rank| rank != self.rank) {
            // A rank that cannot be reached is gone, which the others notice themselves.
            let _ = self.engine.send(rank, message.clone());
        }
    }
}
