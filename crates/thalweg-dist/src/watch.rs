//! Transfers of a rank that have been enqueued on its device, and the devices that take part.

use crate::engine::Signature;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use thalweg::Device;
use thalweg::communication::{Communication, Communicator, Completion};

/// Identity of a device whose transfers a library enqueues; `None` if there is none.
pub(crate) fn identity(device: Device) -> Option<String> {
    let found = device.communication().and_then(|library| library.identity());
    found.inspect_err(|error| tracing::debug!(%error, "collectives run on the host")).ok()
}

/// Whether ranks with these devices exchange data by the library: each has a device of its own.
pub(crate) fn is_joinable(identities: &[Option<String>]) -> bool {
    let distinct = |(at, own): (usize, &Option<String>)| own.is_some() && !identities[..at].contains(own);
    identities.len() > 1 && identities.iter().enumerate().all(distinct)
}

/// Transfer that was enqueued.
pub(crate) struct EnqueuedTransfer {
    pub signature: Arc<Signature>,
    /// Rank of the whole world whose signature is compared.
    pub previous: usize,
    pub start: Instant,
    pub is_agreed: AtomicBool,
    /// Event at its end, once it was submitted.
    pub end: OnceLock<Arc<dyn Completion>>,
    /// Whether it has completed, and no failure was known by then.
    pub is_complete: AtomicBool,
}

impl EnqueuedTransfer {
    pub fn is_over(&self) -> bool {
        self.is_agreed.load(Relaxed) && self.is_complete.load(Relaxed)
    }
}

/// Transfers of a rank, and the thread that watches them.
#[derive(Default)]
pub(crate) struct Watch {
    pub state: Mutex<State>,
    pub changed: Condvar,
    /// Held by the thread that compares signatures, which come in order.
    pub looking: Mutex<()>,
    pub library: OnceLock<Option<Arc<dyn Communication>>>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Transfers that are not over, in order.
    pub transfers: VecDeque<Arc<EnqueuedTransfer>>,
    pub communicators: Vec<Arc<dyn Communicator>>,
    pub has_thread: bool,
}

impl Watch {
    /// Communicators of the rank.
    pub fn communicators(&self) -> Vec<Arc<dyn Communicator>> {
        locked(&self.state).communicators.clone()
    }

    /// Leaves all groups at once.
    pub fn abort(&self) {
        self.communicators().iter().for_each(|c| c.abort());
    }

    /// Leaves all groups, when all transfers are over.
    pub fn close(&self) {
        self.communicators().iter().for_each(|c| c.close());
    }

    /// The oldest transfer that is not over.
    pub fn first(&self) -> Option<Arc<EnqueuedTransfer>> {
        locked(&self.state).transfers.front().cloned()
    }
}

/// Locks a mutex. A panic while it was held leaves at most a result that nobody waits for.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_need_a_device_each() {
        let of = |list: &[&str]| -> Vec<Option<String>> {
            list.iter().map(|s| (!s.is_empty()).then(|| s.to_string())).collect()
        };
        assert!(is_joinable(&of(&["a", "b", "c"])));
        for not in [&["a"][..], &["a", "a"], &["a", ""], &["", ""], &["a", "b", "a"]] {
            assert!(!is_joinable(&of(not)), "{not:?}");
        }
    }
}
