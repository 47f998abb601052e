//! An emulated GPU as the target of NCCL's calls, which a stand-in computes ([`super::super::nccl::stand_in`]).
//!
//! In: a call in the form of three items. Out: the items in a queue. A stream's handle is the number of the GPU and of
//! the queue.

use super::queues::{self, Item};
use super::{Emulated, EmulatedState, failed};
use crate::driver::nccl::{Nccl, Target};
use std::ffi::c_void;
use std::sync::Arc;
use thalweg_gpu::runtime::RankLibrary;
use thalweg_runtime::{Error, QUEUES};

/// Memory of the GPU that an item runs on.
pub(in crate::driver) struct Memory<'a>(&'a EmulatedState);

impl Memory<'_> {
    /// Returns an error unless the range is within one allocation.
    pub(in crate::driver) fn check(&self, address: u64, bytes: usize) -> Result<(), Error> {
        self.0.check(address, bytes)
    }
}

/// Work of an item.
pub(in crate::driver) type Step = Box<dyn FnOnce(&Memory<'_>) -> Result<(), Error> + Send>;

/// Submits work to a stream, and work that follows once `is_ready` returns true.
pub(in crate::driver) fn submit(
    stream: usize,
    [first, second]: [Step; 2],
    is_ready: Box<dyn FnMut() -> bool + Send>,
) -> Result<(), Error> {
    let gone = || failed("no such stream");
    let (number, queue) = (stream / QUEUES, stream % QUEUES);
    let parts = queues::numbered(number.checked_sub(1).ok_or_else(gone)?).ok_or_else(gone)?;
    parts.put(queue, Item::Do(Box::new(move |parts| first(&Memory(parts)))))?;
    parts.put(queue, Item::Until(is_ready))?;
    parts.put(queue, Item::Do(Box::new(move |parts| second(&Memory(parts)))))
}

/// The stand-in for NCCL on a GPU and a queue.
pub(super) fn library(gpu: &Emulated) -> Result<Arc<dyn RankLibrary>, String> {
    let target = OfEmulated(Emulated { parts: gpu.parts.clone(), queue: gpu.queue });
    Ok(Arc::new(Nccl::stand_in(Arc::new(target))?))
}

#[derive(Debug)]
struct OfEmulated(Emulated);

impl Target for OfEmulated {
    fn identity(&self) -> Result<String, String> {
        Ok(format!("emulated {}", self.0.parts.number))
    }

    fn prepare(&self) -> Result<(), Error> {
        Ok(())
    }

    fn with_stream(&self, f: &mut dyn FnMut(*mut c_void) -> Result<(), Error>) -> Result<(), Error> {
        f(((self.0.parts.number + 1) * QUEUES + self.0.queue) as *mut c_void)
    }

    fn device(&self) -> String {
        super::NAME.into()
    }
}
