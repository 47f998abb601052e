//! Convolutions by cuDNN: choice of the engine, and launches.
//!
//! In: a [`Convolution`]. Out: a function that computes it by one engine, always the same: the library's first choice that
//! computes as required or, where the clock may decide, the fastest of its first few. Choices are cached in memory.

use super::Cuda;
use super::code::{LibraryCall, library_function};
use crate::driver::cudnn::{ALIGNMENT, ConvolutionPlan, Cudnn};
use crate::driver::{Driver, Function};
use crate::tunable::TUNABLES;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thalweg_ir::Convolution;

/// Maximum number of engines that are measured for a convolution.
const CANDIDATES: usize = 4;
/// Number of launches that a measurement times together.
const LAUNCHES: usize = 3;

/// Convolutions of a device: the library, and the functions chosen so far.
#[derive(Debug, Default)]
pub(super) struct Convolutions {
    library: OnceLock<Option<Arc<Cudnn>>>,
    /// Chosen functions; `None` for convolutions that the library does not compute as required. Locked while an engine is
    /// chosen.
    known: Mutex<FxHashMap<Convolution, Option<Function>>>,
}

/// Convolution with its execution plan.
#[derive(Debug)]
struct PlannedConvolution {
    library: Arc<Cudnn>,
    plan: ConvolutionPlan,
    convolution: Convolution,
}

impl LibraryCall for PlannedConvolution {
    fn launch(&self, words: &[u64], stream: usize) -> Result<(), String> {
        let &[first, second, result, workspace] = words else {
            return Err(format!("a convolution has 4 words, not {}", words.len()));
        };
        let addresses = [first, second, result];
        if let Some(address) = addresses.iter().find(|a| !a.is_multiple_of(ALIGNMENT as u64)) {
            return Err(format!("a tensor at {address:#x} is not aligned to {ALIGNMENT} bytes, as its engine needs"));
        }
        let planned = (&self.plan, &self.convolution);
        // SAFETY: the words are addresses of the tensors and of a workspace of that size, as the caller has bound them.
        unsafe { self.library.convolve(planned, [first, second, result, workspace], stream) }
    }
}

impl Cuda {
    /// Returns the function of a convolution, choosing it at the first call: see
    /// [`Driver::convolution`](crate::driver::Driver::convolution).
    pub(super) fn chosen_convolution(&self, c: &Convolution) -> Option<Function> {
        let open = || {
            let made = self.gpu.enter().map_err(|e| e.to_string()).and_then(|()| Cudnn::new(self.major));
            made.map(Arc::new).inspect_err(|why| tracing::debug!(why, "convolutions are products")).ok()
        };
        let library = self.convolutions.library.get_or_init(open).as_ref()?;
        let mut known = self.convolutions.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(c) {
            return found.clone();
        }
        self.gpu.enter().ok()?;
        let most = if c.routine.timed { CANDIDATES } else { 1 };
        let plans = library.plans(c, most).inspect_err(|why| tracing::debug!(why, ?c, "no convolution"));
        let call = |plan| PlannedConvolution { library: library.clone(), plan, convolution: *c };
        let mut calls: Vec<PlannedConvolution> = plans.unwrap_or_default().into_iter().map(call).collect();
        let fastest = if calls.len() > 1 { self.fastest(c, &calls).unwrap_or(0) } else { 0 };
        let found = (!calls.is_empty()).then(|| {
            let call = calls.swap_remove(fastest);
            let workspace = call.plan.workspace;
            library_function("a convolution", Box::new(call), workspace)
        });
        if TUNABLES.max_products.reached_by(known.len()) {
            known.clear();
        }
        known.insert(*c, found.clone());
        found
    }

    /// Index of the plan that takes the least time; `None` if there is no memory for measuring, or the device fails.
    fn fastest(&self, c: &Convolution, calls: &[PlannedConvolution]) -> Option<usize> {
        let bytes = c.routine.pass.tensors().map(|t| c.shape(t).iter().product::<usize>() * c.dtype.size());
        let workspace = calls.iter().map(|call| call.plan.workspace).max()?;
        let memory = Memory::new(self, &[bytes[0], bytes[1], bytes[2], workspace])?;
        let mut best: Option<(Duration, usize)> = None;
        for (i, call) in calls.iter().enumerate() {
            let run = |count: usize| -> Option<Duration> {
                self.gpu.drain(self.queue).ok()?;
                let begin = Instant::now();
                for _ in 0..count {
                    let turn = self.gpu.turn(self.queue).ok()?;
                    call.launch(&memory.addresses, turn.handle as usize).ok()?;
                }
                self.gpu.drain(self.queue).ok()?;
                Some(begin.elapsed())
            };
            // The first launch loads the engine's code.
            let Some(time) = run(1).and_then(|_| run(LAUNCHES)) else { continue };
            if best.is_none_or(|(least, _)| time < least) {
                best = Some((time, i));
            }
        }
        best.map(|(_, i)| i)
    }
}

/// Memory for measuring, all zero; freed when dropped.
struct Memory<'a> {
    cuda: &'a Cuda,
    addresses: Vec<u64>,
}

impl<'a> Memory<'a> {
    fn new(cuda: &'a Cuda, sizes: &[usize]) -> Option<Memory<'a>> {
        let mut memory = Memory { cuda, addresses: vec![] };
        for &bytes in sizes {
            let address = cuda.obtain(bytes)?;
            memory.addresses.push(address);
            cuda.fill(address, 0, bytes).ok()?;
        }
        Some(memory)
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        self.addresses.iter().for_each(|&address| self.cuda.release(address));
    }
}
