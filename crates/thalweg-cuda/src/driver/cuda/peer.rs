//! Copies from one GPU to another.
//!
//! In: addresses on two GPUs. Out: a copy in a queue of the destination. Where the chips have peer access the driver
//! copies directly: the source's pool is made accessible to the other chip first. Otherwise the driver copies through
//! host memory.

use super::Cuda;
use super::gpu::Gpu;
use cudarc::driver::sys::{CUdevice, CUmemAccess_flags_enum, CUmemAccessDesc, CUmemLocationType_enum};
use std::mem::MaybeUninit;
use std::sync::PoisonError;
use thalweg_runtime::Error;

impl Gpu {
    /// Driver handle of the GPU.
    pub(super) fn device(&self) -> Result<CUdevice, Error> {
        self.enter()?;
        let mut device = 0;
        // SAFETY: an out-pointer to a handle.
        self.check("cuCtxGetDevice", unsafe { (self.api.current_device)(&mut device) })?;
        Ok(device)
    }
}

impl Cuda {
    /// Gives another GPU access to this one's pool, where the chips support it.
    pub(super) fn open_to(&self, other: &Gpu) -> Result<(), Error> {
        let (this, reader) = (self.gpu.device()?, other.device()?);
        let mut known = self.open_to.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&reader) || self.pool.is_null() {
            return Ok(());
        }
        known.push(reader);
        let mut can = 0;
        // SAFETY: an out-pointer to a number.
        let asked = unsafe { (self.gpu.api.can_access)(&mut can, reader, this) };
        self.gpu.check("cuDeviceCanAccessPeer", asked)?;
        if can == 0 {
            tracing::debug!(from = self.gpu.name, to = other.name, "copied by way of the host");
            return Ok(());
        }
        // SAFETY: plain data, all of which may be zero.
        let mut access: CUmemAccessDesc = unsafe { MaybeUninit::zeroed().assume_init() };
        access.location.type_ = CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE;
        access.location.id = reader;
        access.flags = CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        // SAFETY: our pool, and one description.
        let set = unsafe { (self.gpu.api.pool_access)(self.pool, &access, 1) };
        if let Err(error) = self.gpu.check("cuMemPoolSetAccess", set) {
            tracing::debug!(%error, "copied by way of the host");
        }
        Ok(())
    }

    pub(super) fn copy_from_peer(&self, other: &Cuda, (from, to): (u64, u64), bytes: usize) -> Result<(), Error> {
        other.open_to(&self.gpu)?;
        let turn = self.gpu.turn(self.queue)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both ranges are the caller's, each on the GPU of its context.
        let put =
            unsafe { (self.gpu.api.from_peer)(to, self.gpu.context, from, other.gpu.context, bytes, turn.handle) };
        self.gpu.check("cuMemcpyPeerAsync", put)
    }
}
