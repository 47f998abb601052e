//! Communication between devices by a library, such as NCCL between GPUs.
//!
//! In: an operation that all ranks of a group take part in, and buffers. Out: work in a queue of the device, ordered
//! with all other work by the uses of the buffers. Always true: the host does not wait for other ranks, except when a
//! group is joined; after [`Communicator::abort`] no work of it waits for other ranks.

use crate::{Buffer, Error};
use std::fmt::Debug;
use std::sync::Arc;
use thalweg_ir::DType;

/// Operation that combines the elements of all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combine {
    /// Sum.
    Sum,
    /// Sum divided by the number of ranks.
    Mean,
    /// Maximum; which operand a NaN yields is not specified.
    Max,
    /// Minimum, as [`Combine::Max`].
    Min,
    /// Product.
    Product,
}

/// Communication that the ranks of a group enqueue, each once and all in the same order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Combines the operands of all ranks; each gets the result.
    AllReduce(Combine),
    /// Concatenates the operands of all ranks, in rank order.
    AllGather,
    /// Combines the operands of all ranks; rank `i` gets part `i` of the result.
    ReduceScatter(Combine),
    /// The operand of one rank, for all.
    Broadcast {
        /// Rank whose operand it is.
        root: usize,
    },
    /// Sends the next elements of the operand to each rank, and concatenates what comes from each.
    AllToAll {
        /// Number of elements for each rank.
        sent: Vec<usize>,
        /// Number of elements from each rank.
        received: Vec<usize>,
    },
}

/// Range of a buffer: an operand or result, row-major.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Buffer that contains the elements.
    pub buffer: &'a Buffer,
    /// Bytes before the first element.
    pub offset: usize,
    /// Number of elements.
    pub count: usize,
}

impl Span<'_> {
    /// Address of the first element on the device.
    pub fn address(&self) -> u64 {
        self.buffer.address() as u64 + self.offset as u64
    }
}

/// Library that moves data between a device and those of other ranks.
pub trait Communication: Send + Sync + Debug {
    /// Identity of the device: different for each device that can take part in a group.
    ///
    /// # Errors
    /// When there is no such library, with what to install.
    fn identity(&self) -> Result<String, Error>;

    /// Whether the library combines elements of a dtype.
    fn combines(&self, dtype: DType) -> bool;

    /// Id of a new group, for [`Communication::join`] on all of its ranks.
    ///
    /// # Errors
    /// The library's.
    fn new_id(&self) -> Result<Vec<u8>, Error>;

    /// Joins a group as one of its ranks. Waits for the others, as long as `give_up` returns no reason not to.
    ///
    /// # Errors
    /// The library's, and the reason of `give_up`.
    fn join(
        &self,
        id: &[u8],
        rank: usize,
        size: usize,
        give_up: &dyn Fn() -> Option<String>,
    ) -> Result<Arc<dyn Communicator>, Error>;
}

/// Membership of a device in a group of ranks.
pub trait Communicator: Send + Sync + Debug {
    /// Enqueues a transfer of elements of a dtype. It starts after the writer of `x` and after all uses of `y`; later
    /// work with these buffers follows it. Other work goes on meanwhile.
    ///
    /// # Errors
    /// When a span is outside of its buffer or of another size than the transfer's, the device or the library refuses,
    /// or the group was left.
    fn enqueue(
        &self,
        transfer: &Transfer,
        dtype: DType,
        x: Span<'_>,
        y: Span<'_>,
    ) -> Result<Arc<dyn Completion>, Error>;

    /// Failure that the library has noticed since, of this rank or of a connection.
    fn failure(&self) -> Option<String>;

    /// Leaves the group at once. Transfers that have been enqueued end, with any contents of their results.
    fn abort(&self);

    /// Leaves the group after its transfers, which have completed.
    fn close(&self);
}

/// End of enqueued work.
pub trait Completion: Send + Sync + Debug {
    /// Whether the device has reached it.
    ///
    /// # Errors
    /// When the device fails.
    fn is_reached(&self) -> Result<bool, Error>;

    /// Waits until the device has reached it.
    ///
    /// # Errors
    /// When the device fails.
    fn wait(&self) -> Result<(), Error>;
}
