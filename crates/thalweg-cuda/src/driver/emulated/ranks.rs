//! An emulated GPU as the target of NCCL's calls, which a stand-in computes.
//!
//! A stream's handle is the number of the GPU and of the queue ([`super::transfers`]).

use super::{Emulated, nccl, transfers};
use crate::driver::nccl::{Nccl, Target};
use std::ffi::c_void;
use std::sync::Arc;
use thalweg_gpu::runtime::RankLibrary;
use thalweg_runtime::Error;

/// The stand-in for NCCL on a GPU and a queue.
pub(super) fn library(gpu: &Emulated) -> Result<Arc<dyn RankLibrary>, String> {
    let target = OfEmulated(Emulated { parts: gpu.parts.clone(), queue: gpu.queue });
    Ok(Arc::new(Nccl::with(&nccl::API, Arc::new(target))?))
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
        f(transfers::stream(self.0.parts.number, self.0.queue) as *mut c_void)
    }

    fn device(&self) -> String {
        super::NAME.into()
    }
}
