//! Transfers between devices of several ranks, for crates of collectives such as `thalweg-dist`.
//!
//! In: the library of a device ([`Device::communication`]) and an id that the ranks of a group share. Out: a
//! [`Communicator`], whose transfers are recorded by [`HostOp::transfer`](crate::HostOp::transfer).

pub use thalweg_runtime::{Combine, Communication, Communicator, Completion, Span, Transfer};

use crate::{Device, Error};
use std::sync::Arc;

impl Device {
    /// Library that moves data between this device and those of other ranks: NCCL, on a GPU by CUDA.
    ///
    /// # Errors
    /// When there is none, with what to install.
    pub fn communication(self) -> Result<Arc<dyn Communication>, Error> {
        self.0.device().communication()
    }
}
