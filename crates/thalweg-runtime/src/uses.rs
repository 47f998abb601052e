//! When memory was used last, on a device with several queues.
//!
//! In: uses of a buffer, each by its queue and a *ticket*: a number that grows with what is put in that queue. Out: what
//! whoever uses the buffer next has to be behind. Who reads is behind what wrote it; who writes is behind everything. A
//! device without queues never touches this.
//!
//! Always true: a buffer that was just handed out, or that somebody takes over to write over it, counts as not written, so
//! that its first use is behind all uses before.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Queues that a device may have. They go by number.
pub const QUEUES: usize = 8;

/// The last use in each queue, by ticket; 0 where there was none.
pub type Points = [u64; QUEUES];

/// When a buffer was used last.
#[derive(Debug, Default)]
pub struct Uses {
    /// Ticket and queue of what wrote it: ticket times [`QUEUES`] plus queue. 0 while nobody has.
    written: AtomicU64,
    last: [AtomicU64; QUEUES],
}

impl Uses {
    /// Of memory that was used at these points by whoever had it before.
    pub fn before(points: Points) -> Uses {
        Uses { written: AtomicU64::new(0), last: points.map(AtomicU64::new) }
    }

    /// The last use in each queue.
    pub fn points(&self) -> Points {
        self.last.each_ref().map(|ticket| ticket.load(Relaxed))
    }

    /// The queue and ticket of what wrote it.
    pub fn written(&self) -> Option<(usize, u64)> {
        let written = self.written.load(Relaxed);
        (written != 0).then_some((written as usize % QUEUES, written / QUEUES as u64))
    }

    /// Notes a use in a queue.
    pub fn used(&self, queue: usize, ticket: u64) {
        // Later ones have later tickets; several threads may use a queue.
        self.last[queue].fetch_max(ticket, Relaxed);
    }

    /// Notes that it is written in a queue.
    pub fn write(&self, queue: usize, ticket: u64) {
        self.used(queue, ticket);
        self.written.store(ticket * QUEUES as u64 + queue as u64, Relaxed);
    }

    /// Says that the next use writes over what is there: it has to be behind all uses.
    pub fn renew(&self) {
        self.written.store(0, Relaxed);
    }
}
