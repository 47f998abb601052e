//! Collectives on GPUs: enqueued by the device's library, and watched until they have completed.
//!
//! In: a transfer with its signature. Out: work in the device's queue, without a wait, and a wait for its end. Always
//! true: ranks enqueue in the order of recording; a signature goes to the next rank of the group with each transfer, and
//! that of the previous rank is compared before anybody gets bytes of the result; after the first failure all
//! communicators are aborted, so that no queue waits for a rank that is gone.

use crate::engine::{Absence, Message, Signature};
use crate::member::{Exchange, Failure, Group, Member};
use crate::traffic::Traffic;
use crate::watch::{EnqueuedTransfer, Watch, locked};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use thalweg::communication::{Communication, Communicator, Span, Transfer};
use thalweg::{DType, trace};

/// Time between two looks of the watch thread. Each asks the driver, which delays threads that launch kernels.
const PAUSE: Duration = Duration::from_millis(1);
/// Time between two looks of a reader, whose transfer has completed and whose signature is under way.
const READER_PAUSE: Duration = Duration::from_micros(20);

impl Member {
    /// Runs a collective as a transfer, after those that were recorded before it. The result is a wait for its end.
    pub fn enqueue(
        self: &Arc<Member>,
        number: u64,
        group: &Group,
        signature: &Arc<Signature>,
        (transfer, dtype, is_ragged): (&Transfer, DType, bool),
        (x, y): (Span<'_>, Span<'_>),
    ) -> Result<impl Fn() -> Result<(), Failure> + Send + Sync + use<>, Failure> {
        self.run_before(number);
        let enqueue = || self.submit(group, signature, (transfer, dtype, is_ragged), (x, y));
        let reported = || self.engine().inbox().failure().map(Failure::reported);
        let enqueued = match self.refusal().or_else(reported) {
            Some(failure) => Err(failure),
            None => trace::span("collective", || signature.to_string(), enqueue),
        };
        self.count(&signature.operation, moved(transfer, group, x.count * dtype.size()));
        self.remove(number);
        let enqueued = enqueued.inspect_err(|failure| self.failed_in(signature, failure))?;
        let member = self.clone();
        Ok(move || member.wait_for(&enqueued))
    }

    fn submit(
        self: &Arc<Member>,
        group: &Group,
        signature: &Arc<Signature>,
        (transfer, dtype, is_ragged): (&Transfer, DType, bool),
        (x, y): (Span<'_>, Span<'_>),
    ) -> Result<Arc<EnqueuedTransfer>, Failure> {
        let communicator = self.communicator(group, signature)?;
        if let (Transfer::AllToAll { sent, received }, true) = (transfer, is_ragged) {
            self.compare_counts(group, signature, [sent, received], dtype.size())?;
        }
        let size = group.ranks.len();
        let [next, previous] = [1, size - 1].map(|distance| group.ranks[(group.rank + distance) % size]);
        let enqueued = Arc::new(EnqueuedTransfer {
            signature: signature.clone(),
            previous,
            start: Instant::now(),
            is_agreed: AtomicBool::new(false),
            end: OnceLock::new(),
            is_complete: AtomicBool::new(false),
        });
        // Watched first: the call may wait for ranks that are gone.
        self.watch(&enqueued);
        self.engine().send(next, Message::Announced(signature.clone())).map_err(|lost| self.lost(next, lost))?;
        let end = communicator.enqueue(transfer, dtype, x, y).map_err(|error| {
            // An abort makes the call fail; its cause says more.
            self.failure().cloned().unwrap_or_else(|| Failure::new(error.to_string()))
        })?;
        let _ = enqueued.end.set(end);
        Ok(enqueued)
    }

    /// Library of the device; `None` if there is none.
    pub fn library(&self) -> Option<&Arc<dyn Communication>> {
        self.watch.library.get_or_init(|| self.device.communication().ok()).as_ref()
    }

    /// Compares the numbers of elements that this rank expects with those that the others send. Waits for them: a library
    /// waits forever for elements that do not come.
    fn compare_counts(
        &self,
        group: &Group,
        signature: &Arc<Signature>,
        [sent, received]: [&[usize]; 2],
        size: usize,
    ) -> Result<(), Failure> {
        let mut exchange = Exchange::new(self, group, signature);
        for rank in exchange.others() {
            exchange.send(rank, Arc::new(((sent[rank] * size) as u64).to_ne_bytes().to_vec()))?;
        }
        let at = &signature.at;
        for rank in std::iter::once(group.rank).chain(exchange.others()) {
            let bytes = match rank == group.rank {
                true => (sent[rank] * size) as u64,
                false => {
                    let bytes: Option<[u8; 8]> = exchange.receive(rank, 8)?.as_slice().try_into().ok();
                    u64::from_ne_bytes(bytes.expect("8 bytes"))
                }
            };
            let expected = (received[rank] * size) as u64;
            if bytes != expected {
                let sender = group.ranks[rank];
                let cause = format!("rank {sender} sent {bytes} bytes at {at}, and {expected} were expected");
                return Err(Failure::new(cause));
            }
        }
        Ok(())
    }

    /// Communicator of a group. Joined at the first transfer, for which all ranks are there.
    fn communicator(&self, group: &Group, signature: &Arc<Signature>) -> Result<Arc<dyn Communicator>, Failure> {
        if let Some(known) = group.communicator.get() {
            return Ok(known.clone());
        }
        let library = self.library().ok_or_else(|| Failure::new("the device has no library of collectives"))?;
        let mut exchange = Exchange::new(self, group, signature);
        // Joining has no end if a rank is missing, so all say first that they are there.
        let id = if group.rank == 0 {
            exchange.others().try_for_each(|rank| exchange.receive(rank, 0).map(drop))?;
            let id = library.new_id().map_err(|e| Failure::new(e.to_string()))?;
            let message = Arc::new(id.clone());
            exchange.others().try_for_each(|rank| exchange.send(rank, message.clone()))?;
            id
        } else {
            exchange.send(0, Arc::default())?;
            exchange.receive_any(0)?.to_vec()
        };
        let start = Instant::now();
        let give_up = || match self.engine().inbox().failure() {
            Some(cause) => Some(cause.to_string()),
            None if start.elapsed() > self.timeout() => {
                Some(format!("not all ranks have joined within {} s", self.timeout().as_secs_f64()))
            }
            None => None,
        };
        let joined = library.join(&id, group.rank, group.ranks.len(), &give_up);
        let joined = joined.map_err(|error| match self.engine().inbox().failure() {
            Some(cause) => Failure::reported(cause),
            None => Failure::new(error.to_string()),
        })?;
        locked(&self.watch.state).communicators.push(joined.clone());
        let _ = group.communicator.set(joined.clone());
        tracing::debug!(rank = self.rank, ranks = group.ranks.len(), "a group of GPUs was joined");
        Ok(joined)
    }

    /// Adds a transfer to those that are watched; starts the thread at the first.
    fn watch(self: &Arc<Member>, enqueued: &Arc<EnqueuedTransfer>) {
        let mut state = locked(&self.watch.state);
        state.transfers.push_back(enqueued.clone());
        if !state.has_thread {
            let (watch, member) = (self.watch.clone(), Arc::downgrade(self));
            let thread = std::thread::Builder::new().name(format!("thalweg-watch-{}", self.rank));
            state.has_thread = thread.spawn(move || watch_all(&watch, &member)).is_ok();
        }
        drop(state);
        self.watch.changed.notify_all();
    }

    /// Compares signatures that have arrived, asks which transfers have completed, and notices failures.
    fn look(&self) {
        let Ok(_one) = self.watch.looking.try_lock() else { return };
        let transfers: Vec<Arc<EnqueuedTransfer>> = locked(&self.watch.state).transfers.iter().cloned().collect();
        let mut found = None;
        // Ranks whose next signature has not arrived, so that none of a later transfer has either.
        let mut silent = vec![];
        let mut is_behind = false;
        for enqueued in &transfers {
            if !enqueued.is_agreed.load(Relaxed) && !silent.contains(&enqueued.previous) {
                match self.compare(enqueued) {
                    Ok(true) => enqueued.is_agreed.store(true, Relaxed),
                    Ok(false) => silent.push(enqueued.previous),
                    Err(failure) => {
                        found.get_or_insert((failure, enqueued.clone()));
                        break;
                    }
                }
            }
            let Some(end) = enqueued.end.get().filter(|_| !is_behind && !enqueued.is_complete.load(Relaxed)) else {
                continue;
            };
            match end.is_reached() {
                // After a failure it may have ended by the abort.
                Ok(true) if self.failure().is_none() => enqueued.is_complete.store(true, Relaxed),
                Ok(_) => is_behind = true,
                Err(error) => {
                    found.get_or_insert((Failure::new(error.to_string()), enqueued.clone()));
                    break;
                }
            }
        }
        let mut state = locked(&self.watch.state);
        while state.transfers.front().is_some_and(|first| first.is_over()) {
            state.transfers.pop_front();
        }
        let first = state.transfers.front().cloned();
        drop(state);
        let found = found.or_else(|| first.and_then(|first| Some((self.overdue(&first)?, first))));
        if let Some((failure, enqueued)) = found {
            self.failed_in(&enqueued.signature, &failure);
        }
    }

    /// Whether the previous rank has announced the same transfer; `false` if it has announced none yet.
    fn compare(&self, enqueued: &EnqueuedTransfer) -> Result<bool, Failure> {
        let (own, from) = (&enqueued.signature, enqueued.previous);
        match self.engine().inbox().announcement(from, own) {
            Ok(Some(theirs)) if theirs.agrees(own) => Ok(true),
            Ok(Some(theirs)) => Err(self.disagreement(from, &theirs, own)),
            Ok(None) => Ok(false),
            Err(absence) => Err(self.absent(from, absence)),
        }
    }

    /// Failure of a transfer that is not over, if one is known.
    fn overdue(&self, enqueued: &EnqueuedTransfer) -> Option<Failure> {
        if let Some(cause) = self.engine().inbox().failure() {
            return Some(Failure::reported(cause));
        }
        if let Some(cause) = self.watch.communicators().iter().find_map(|c| c.failure()) {
            return Some(Failure::new(cause));
        }
        if enqueued.start.elapsed() <= self.timeout() {
            return None;
        }
        Some(match enqueued.is_agreed.load(Relaxed) {
            false => self.absent(enqueued.previous, Absence::TimedOut),
            true => Failure::new(format!(
                "not all ranks have taken part, or the device has not finished, within {} s",
                self.timeout().as_secs_f64()
            )),
        })
    }

    /// Waits until a transfer is over.
    fn wait_for(&self, enqueued: &EnqueuedTransfer) -> Result<(), Failure> {
        if let Some(end) = enqueued.end.get()
            && !enqueued.is_complete.load(Relaxed)
        {
            end.wait().map_err(|error| self.failure().cloned().unwrap_or_else(|| Failure::new(error.to_string())))?;
        }
        loop {
            self.look();
            if enqueued.is_over() {
                return Ok(());
            }
            if let Some(failure) = self.failure() {
                return Err(failure.clone());
            }
            std::thread::sleep(READER_PAUSE);
        }
    }

    /// Waits until all transfers are over, or the rank has failed.
    pub fn wait_for_transfers(&self) {
        while let Some(first) = self.watch.first().filter(|_| self.failure().is_none()) {
            // The failure is that of the rank.
            let _ = self.wait_for(&first);
        }
    }
}

/// Watches the transfers of a rank until it is gone.
fn watch_all(watch: &Watch, member: &Weak<Member>) {
    loop {
        let Some(member) = member.upgrade() else { return };
        // Once the rank has failed there is nothing to notice.
        let is_idle = member.failure().is_some() || watch.first().is_none();
        if !is_idle {
            member.look();
        }
        drop(member);
        if is_idle {
            let state = locked(&watch.state);
            let _ = watch.changed.wait_timeout(state, Duration::from_millis(200));
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Traffic of a transfer of an operand, as a ring of ranks moves it.
fn moved(transfer: &Transfer, group: &Group, bytes: usize) -> Traffic {
    let (own, size) = (group.rank, group.ranks.len());
    let of_others = |list: &[usize]| list.iter().sum::<usize>() - list[own];
    let [sent, received] = match transfer {
        Transfer::AllReduce(_) => [2 * bytes / size * (size - 1); 2],
        Transfer::AllGather => [bytes * (size - 1); 2],
        Transfer::ReduceScatter(_) => [bytes / size * (size - 1); 2],
        Transfer::Broadcast { root } => {
            let is_last = (own + 1) % size == *root;
            [if is_last { 0 } else { bytes }, if own == *root { 0 } else { bytes }]
        }
        Transfer::AllToAll { sent, received } => {
            let each = bytes.checked_div(sent.iter().sum()).unwrap_or(0);
            [of_others(sent) * each, of_others(received) * each]
        }
    };
    Traffic { calls: 1, sent: sent as u64, received: received as u64 }
}
