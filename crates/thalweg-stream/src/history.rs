//! Read history of a pattern's live results: read, or dropped unread. Results that are never read need not be written
//! (`deferred.rs`).
//!
//! In: a [`Watch`] at each value, which reports a read or an unread drop. Out: for each operation of the pattern,
//! whether its result was dropped unread every time.

use crate::tunable::TUNABLES;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Read history of one pattern's live results, indexed by operation.
#[derive(Debug)]
pub(crate) struct History(Vec<Fate>);

#[derive(Default, Debug)]
struct Fate {
    unread: AtomicU32,
    read: AtomicBool,
}

impl History {
    /// Empty history of a pattern with that many operations.
    pub fn new(operations: usize) -> Arc<History> {
        Arc::new(History((0..operations).map(|_| Fate::default()).collect()))
    }

    /// Whether a result was never read.
    pub fn is_never_read(&self, i: usize) -> bool {
        !self.0[i].read.load(Relaxed)
    }

    /// Whether a result was never read and was dropped unread often enough (`min_unread_runs`).
    pub fn is_unread(&self, i: usize) -> bool {
        !self.0[i].read.load(Relaxed) && TUNABLES.min_unread_runs.reached_by(self.0[i].unread.load(Relaxed) as usize)
    }
}

/// Watch of one value, which reports the value's read or unread drop to its pattern's history.
#[derive(Debug)]
pub(crate) struct Watch {
    history: Arc<History>,
    operation: u32,
    read: AtomicBool,
}

impl Watch {
    pub fn new(history: &Arc<History>, operation: usize) -> Watch {
        Watch { history: history.clone(), operation: operation as u32, read: AtomicBool::new(false) }
    }

    /// Records that the value was read, or used as an argument.
    pub fn read(&self) {
        if !self.read.swap(true, Relaxed) {
            self.history.0[self.operation as usize].read.store(true, Relaxed);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !*self.read.get_mut() {
            self.history.0[self.operation as usize].unread.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_unread_twice_is_deferred_until_somebody_reads_it() {
        let history = History::new(2);
        assert!(!history.is_unread(0));
        drop(Watch::new(&history, 0));
        assert!(!history.is_unread(0), "once may be chance");
        drop(Watch::new(&history, 0));
        assert!(history.is_unread(0) && !history.is_unread(1));
        Watch::new(&history, 0).read();
        assert!(!history.is_unread(0), "written from then on");
        drop(Watch::new(&history, 0));
        drop(Watch::new(&history, 0));
        assert!(!history.is_unread(0));
    }
}
