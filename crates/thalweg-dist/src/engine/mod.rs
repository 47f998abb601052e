//! Messages between the ranks of a world, and the engines that carry them.
//!
//! In: bytes for a rank, with the signature of the collective that they belong to. Out: an [`Inbox`] of messages at
//! that rank. Always true: the messages of one rank arrive in the order in which it sent them, and sending does not
//! wait for the receiver.

mod inbox;
mod tcp;
mod threads;

pub(crate) use inbox::{Absence, Inbox};
pub(crate) use tcp::Connections;
pub(crate) use threads::threads;

use std::sync::Arc;

/// Carrier of messages from one rank to the others.
pub(crate) trait Engine: Send + Sync {
    /// Sends a message to a rank.
    ///
    /// # Errors
    /// The cause, if the rank cannot be reached.
    fn send(&self, to: usize, message: Message) -> Result<(), String>;

    /// Messages that have arrived.
    fn inbox(&self) -> &Inbox;
}

/// Bytes of a message; a message to several ranks is one allocation.
pub(crate) type Payload = Arc<Vec<u8>>;

/// Message from one rank to another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// Contribution to a collective.
    Data(Arc<Signature>, Payload),
    /// Collective that the sender has enqueued on its device.
    Announced(Arc<Signature>),
    /// The sender has left its world and sends nothing more.
    Ended,
    /// The sender has failed, or received a failure, and sends nothing more.
    Failed(Arc<str>),
}

/// Description of a collective, compared between the ranks that take part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signature {
    /// Id of the world, 0 for the one that all ranks belong to.
    pub world: u64,
    /// Number of the collective in its world, from 1; 0 for a message between two ranks.
    pub number: u64,
    /// Operation with its options: `all_reduce(sum)`. A `receive` is `send(0 to 1)`, too.
    pub operation: String,
    /// Dtype and shape of the operand, as far as they must agree: `f32[2, 3]`.
    pub operand: String,
    /// Call site, which may differ between ranks.
    pub at: String,
}

impl Signature {
    /// Whether two ranks run the same collective.
    pub fn agrees(&self, other: &Signature) -> bool {
        let key = |s: &Signature| (s.world, s.number);
        key(self) == key(other) && self.operation == other.operation && self.operand == other.operand
    }
}

impl Signature {
    /// Whether a signature of another rank shows that this one will not come: that rank has gone beyond it in this world.
    pub fn is_passed_by(&self, theirs: &Signature) -> bool {
        self.number != 0 && theirs.world == self.world && theirs.number >= self.number
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Signature { world, number, operation, operand, at } = self;
        write!(f, "{operation}")?;
        if !operand.is_empty() {
            write!(f, " of {operand}")?;
        }
        write!(f, " at {at}")?;
        if *number != 0 {
            write!(f, ", collective {number}")?;
        }
        if *world != 0 {
            write!(f, " of sub-world {world:x}")?;
        }
        Ok(())
    }
}
