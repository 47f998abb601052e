//! A GPU as the target of NCCL's calls.
//!
//! In: a GPU and a queue. Out: its identity and stream. Always true: before a group is joined, the memory of this GPU is
//! accessible to all other GPUs that the process has opened, since NCCL reads operands of ranks in the same process
//! directly.

use super::api::SUCCESS;
use super::{Cuda, GpuState, balance};
use crate::driver::nccl::Target;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use thalweg_runtime::Error;

static OPENED: Mutex<Vec<Weak<GpuState>>> = Mutex::new(vec![]);

/// Registers a GPU that was opened.
pub(super) fn register(gpu: &Arc<GpuState>) {
    let mut all = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|gpu| gpu.strong_count() > 0);
    all.push(Arc::downgrade(gpu));
}

/// A GPU and a queue.
#[derive(Debug)]
pub(super) struct OfGpu(Cuda);

impl OfGpu {
    pub(super) fn new(of: Cuda) -> OfGpu {
        OfGpu(of)
    }
}

impl Target for OfGpu {
    fn identity(&self) -> Result<String, String> {
        let gpu = &self.0.gpu;
        let device = gpu.device().map_err(|e| e.to_string())?;
        let mut id = [0; 16];
        // SAFETY: an out-pointer to 16 bytes, and a device.
        match unsafe { (gpu.api.device_uuid)(&mut id, device) } {
            SUCCESS => Ok(id.iter().map(|byte| format!("{byte:02x}")).collect()),
            error => Err(format!("cuDeviceGetUuid: {}", gpu.api.describe(error))),
        }
    }

    fn prepare(&self) -> Result<(), Error> {
        let all = OPENED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for other in all.iter().filter_map(Weak::upgrade) {
            if other.gpu.context != self.0.gpu.context {
                self.0.open_to(&other.gpu)?;
            }
        }
        self.0.gpu.enter()
    }

    fn with_stream(&self, f: &mut dyn FnMut(*mut c_void) -> Result<(), Error>) -> Result<(), Error> {
        let turn = self.0.gpu.turn(self.0.queue)?;
        f(turn.handle.cast())
    }

    fn join(&self, group: &[u8]) {
        balance::join(group, self.0.gpu.context as usize);
    }

    fn leave(&self, group: &[u8]) {
        balance::leave(group, self.0.gpu.context as usize);
    }

    fn enqueue(&self, group: &[u8], f: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
        balance::enqueue(group, self.0.gpu.context as usize, f)
    }

    fn device(&self) -> String {
        self.0.gpu.name.clone()
    }
}
