//! Helpers of tests that assert on counters.
#![allow(dead_code, reason = "each test program uses a part of it")]

use thalweg::prelude::*;
use thalweg::{Costs, Counters, CpuEngine, CpuOptions, Effort, counters, set_default_device};
use thalweg_stream::Mode;

/// Guard of a test that asserts a plan, kernels or bytes: an own device as this thread's default, settings independent
/// of the environment, and fixed random numbers. So plans depend on nothing of the machine but AVX2, and tests of one
/// process do not affect each other.
pub struct Pinned {
    before: (Option<Device>, Mode, Effort, Option<f64>, bool, bool, bool),
}

/// A guard with a device that has the costs of [`Costs::typical`].
pub fn pinned() -> Pinned {
    pinned_with(Costs::typical())
}

/// A guard with a device that has these costs.
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
        atomic_sums: false,
    });
    let effort = thalweg::set_search_effort(Effort::default());
    let (measuring, deferring) = (thalweg::set_measuring(None), thalweg::set_deferring(true));
    let (recomputing, tiers) = (thalweg::set_recomputing(true), thalweg::set_tiers(false));
    Pinned { before: (set_default_device(Some(own)), mode, effort, measuring, deferring, recomputing, tiers) }
}

/// An exclusive device: two threads, and AVX2 if available.
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

/// The counters of the calling thread while `f` ran and all pending work was done.
pub fn counted<T>(f: impl FnOnce() -> T) -> (T, Counters) {
    thalweg::synchronize().unwrap();
    counted_alone(|| {
        let out = f();
        thalweg::synchronize().unwrap();
        out
    })
}

/// The counters while `f` ran, without synchronization, which would compute everything.
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
