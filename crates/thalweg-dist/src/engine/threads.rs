//! Engine between threads of one process: a message is put into the receiver's inbox.

use super::{Engine, Inbox, Message};
use std::sync::Arc;

struct Threads {
    rank: usize,
    inboxes: Arc<Vec<Inbox>>,
}

/// Engines of the ranks of a world whose ranks are threads.
pub(crate) fn threads(size: usize) -> Vec<Box<dyn Engine>> {
    let inboxes: Arc<Vec<Inbox>> = Arc::new((0..size).map(|_| Inbox::new(size)).collect());
    (0..size).map(|rank| Box::new(Threads { rank, inboxes: inboxes.clone() }) as Box<dyn Engine>).collect()
}

impl Engine for Threads {
    fn send(&self, to: usize, message: Message) -> Result<(), String> {
        self.inboxes[to].put(self.rank, message);
        Ok(())
    }

    fn inbox(&self) -> &Inbox {
        &self.inboxes[self.rank]
    }
}
