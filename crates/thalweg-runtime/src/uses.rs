//! Last uses of memory on devices with several queues.
//!
//! In: uses of a buffer, each by queue and *ticket*: a number that grows with each item of work enqueued there. Out:
//! uses after which the buffer's next use must be ordered. Reads are ordered after the last write, writes after all
//! uses. Devices without queues never use this.
//!
//! Always true: a newly allocated buffer, or one taken over to be overwritten, counts as unwritten, so that its first
//! use is ordered after all previous uses.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum number of queues of a device, which are numbered from 0.
pub const QUEUES: usize = 9;

/// Ticket of the last use in each queue; 0 if there is none.
pub type Points = [u64; QUEUES];

/// Tickets of the last uses of a buffer in the queues of its device.
#[derive(Debug, Default)]
pub struct Uses {
    /// Ticket and queue of the last write: ticket times [`QUEUES`] plus queue. 0 if unwritten.
    written: AtomicU64,
    last: [AtomicU64; QUEUES],
}

impl Uses {
    /// Uses of new memory whose previous owner used it last at `points`.
    pub fn before(points: Points) -> Uses {
        Uses { written: AtomicU64::new(0), last: points.map(AtomicU64::new) }
    }

    /// Last use in each queue.
    pub fn points(&self) -> Points {
        self.last.each_ref().map(|ticket| ticket.load(Relaxed))
    }

    /// Queue and ticket of the last write; `None` if unwritten.
    pub fn written(&self) -> Option<(usize, u64)> {
        let written = self.written.load(Relaxed);
        (written != 0).then_some((written as usize % QUEUES, written / QUEUES as u64))
    }

    /// Records a use in a queue.
    pub fn used(&self, queue: usize, ticket: u64) {
        // Later uses have larger tickets; several threads may use a queue.
        self.last[queue].fetch_max(ticket, Relaxed);
    }

    /// Records a write in a queue, by its ticket.
    pub fn write(&self, queue: usize, ticket: u64) {
        self.used(queue, ticket);
        self.written.store(ticket * QUEUES as u64 + queue as u64, Relaxed);
    }

    /// Marks the contents as overwritten by the next use, which is ordered after all uses.
    pub fn renew(&self) {
        self.written.store(0, Relaxed);
    }
}
