//! Interface to a vendor's library of transfers between GPUs.

use std::fmt::Debug;
use std::sync::Arc;
use thalweg_ir::DType;
use thalweg_runtime::{Error, Transfer};

/// Library of transfers, bound to a GPU and a queue. Methods may be called on any thread.
pub trait RankLibrary: Send + Sync + Debug {
    /// Identity of the GPU, different from those of all other GPUs of all hosts.
    ///
    /// # Errors
    /// The driver's message.
    fn identity(&self) -> Result<String, String>;

    /// Whether the library combines elements of a dtype.
    fn combines(&self, dtype: DType) -> bool;

    /// Id of a new group.
    ///
    /// # Errors
    /// The library's message.
    fn new_id(&self) -> Result<Vec<u8>, String>;

    /// Joins a group; waits until all ranks have.
    ///
    /// # Errors
    /// The library's message.
    fn join(&self, id: &[u8], rank: usize, size: usize) -> Result<Arc<dyn Ranks>, String>;
}

/// Membership in a group.
pub trait Ranks: Send + Sync + Debug {
    /// Submits a transfer to the queue, from and to these addresses with these numbers of elements.
    ///
    /// # Errors
    /// When the device or the library refuses, or the group was left.
    fn submit(&self, transfer: &Transfer, dtype: DType, x: (u64, usize), y: (u64, usize)) -> Result<(), Error>;

    /// Failure that the library has noticed.
    fn failure(&self) -> Option<String>;

    /// Ends transfers that wait for other ranks, and leaves the group.
    fn abort(&self);

    /// Leaves the group; all transfers have completed.
    fn close(&self);
}
