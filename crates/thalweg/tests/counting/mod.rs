//! What tests that count share.
#![allow(dead_code, reason = "each test program uses a part of it")]

use thalweg::prelude::*;
use thalweg::{Costs, Counters, CpuEngine, CpuOptions, Effort, counters, set_default_device};
use thalweg_stream::Mode;

/// What a test that asserts a plan, kernels or bytes holds while it runs: a device of its own, which is this thread's
/// default one, settings that no environment changes, and random numbers that are the same each time. So nothing of the
/// machine shows in plans but whether it has AVX2, and tests of one process know nothing of each other.
pub struct Pinned {
    before: (Option<Device>, Mode, Effort, Option<f64>, bool, bool, bool),
}

/// A device of its own, on which things take what [`Costs::typical`] says.
pub fn pinned() -> Pinned {
    pinned_with(Costs::typical())
}

/// A device of its own, on which things take that.
pub fn pinned_with(costs: Costs) -> Pinned {
    let own = device();
    own.set_costs(costs);
    manual_seed(1);
    let mode = thalweg_stream::set_mode(Mode {
        fused: true,
        strict: false,
        reproducible: false,
        reference: false,
        matmul: thalweg_stream::MatmulPrecision::Highest,
    });
    let effort = thalweg::set_search_effort(Effort::default());
    let (measuring, deferring) = (thalweg::set_measuring(None), thalweg::set_deferring(true));
    let (recomputing, tiers) = (thalweg::set_recomputing(true), thalweg::set_tiers(false));
    Pinned { before: (set_default_device(Some(own)), mode, effort, measuring, deferring, recomputing, tiers) }
}

/// A device that nobody else has: two threads, and AVX2 where there is.
pub fn device() -> Device {
    let isa = if CpuEngine::Avx2.available() { CpuEngine::Avx2 } else { CpuEngine::Tile };
    Device::new_cpu(CpuOptions { threads: 2, parallel_ns: 30_000.0, isa })
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let (device, mode, effort, measuring, deferring, recomputing, tiers) = self.before;
        set_default_device(device);
        thalweg_stream::set_mode(mode);
        thalweg::set_search_effort(effort);
        thalweg::set_measuring(measuring);
        thalweg::set_deferring(deferring);
        thalweg::set_recomputing(recomputing);
        thalweg::set_tiers(tiers);
    }
}

/// What the calling thread counted while `f` ran, everything waiting included.
pub fn counted<T>(f: impl FnOnce() -> T) -> (T, Counters) {
    thalweg::synchronize().unwrap();
    counted_alone(|| {
        let out = f();
        thalweg::synchronize().unwrap();
        out
    })
}

/// What it counted while `f` ran, and no more: to synchronise is to ask for everything.
pub fn counted_alone<T>(f: impl FnOnce() -> T) -> (T, Counters) {
    let before = counters();
    let out = f();
    (out, counters() - before)
}

/// Normal numbers, in memory.
pub fn randn(shape: impl Into<thalweg::Shape>) -> Tensor {
    let x = Tensor::randn(shape.into());
    thalweg::synchronize().unwrap();
    x
}
