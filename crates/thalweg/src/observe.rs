//! Seeing what was done, and what the machine and the math can do.
//!
//! What happens out of sight has to be easy to look at: a fusion that silently never happens leaves every value right.

use crate::{Accuracy, Bandwidth, Costs, Device, Error, Explanation};
use std::sync::Arc;
use thalweg_stream::{Mode, TierRun, mode, set_mode};

/// Runs `f`, then everything it recorded and left waiting, and tells which operations shared a kernel, what was moved,
/// and why the rest was not fused. The explanation prints as text; [`Explanation::json`] and [`Explanation::html`] give
/// the other forms.
///
/// ```
/// # use thalweg::prelude::*;
/// let x = Tensor::randn([16, 64]);
/// let (y, explanation) = thalweg::explain(|| (&x * 2.0).tanh() + 1.0);
/// assert_eq!((explanation.totals().kernels, explanation.unfused().kernels), (1, 3));
/// println!("{explanation}");
/// # drop(y);
/// ```
///
/// Only the calling thread's work is told of.
pub fn explain<R>(f: impl FnOnce() -> R) -> (R, Explanation) {
    thalweg_stream::explain(f)
}

/// Runs `f`, then everything it recorded and left waiting, and tells the nanoseconds of each kernel launch in the order
/// they ran. [`explain`] tells them too, but works on its report between the launches.
///
/// Only the calling thread's work is told of.
pub fn launch_times<R>(f: impl FnOnce() -> R) -> (R, Vec<u64>) {
    thalweg_stream::launch_times(f)
}

/// Runs `f`, then everything it recorded and left waiting, and tells by what each segment ran: at first sight, by a plan
/// that was searched for or lay on disk, or by one that was the fastest by measurement. [`explain`] asks for a plan at
/// once; this changes nothing of what runs.
///
/// ```
/// # use thalweg::prelude::*;
/// # thalweg::set_tiers(true);
/// let x = Tensor::from_slice(&[1.0f32; 60], [60]);
/// let (_, runs) = thalweg::tier_runs(|| x.softmax(-1).to_vec::<f32>());
/// assert_eq!((runs[0].tier.number(), runs[0].kernels), (0, 5));
/// println!("{}", runs[0].tier); // 0: new, one kernel an operation
/// ```
///
/// Only the calling thread's work is told of.
pub fn tier_runs<R>(f: impl FnOnce() -> R) -> (R, Vec<TierRun>) {
    thalweg_stream::tier_runs(f)
}

/// Restores the mode, also when a panic unwinds.
struct Restore(Mode);

impl Drop for Restore {
    fn drop(&mut self) {
        set_mode(self.0);
    }
}

/// Calls `f` with the reference interpreter in place of the device's kernels: one operation at a time, straight from
/// the meanings in the table of operations. Slow; to check values against.
pub fn with_reference<R>(f: impl FnOnce() -> R) -> R {
    let _restore = Restore(set_mode(Mode { reference: true, ..mode() }));
    f()
}

impl Device {
    /// Measures what things take on this device (some 0.15 s), for the planner to count with from now on: see
    /// [`Device::set_costs`].
    ///
    /// # Errors
    /// When the device fails.
    pub fn calibrate(self) -> Result<Costs, Error> {
        thalweg_stream::calibrate(self.0)
    }

    /// Compiles what [`Device::calibrate`] launches: a second or two on a GPU, no time on a CPU.
    ///
    /// # Errors
    /// When the device fails.
    pub fn compile_samples(self) -> Result<(), Error> {
        thalweg_stream::compile_samples(self.0)
    }

    /// What the planner takes things to take on this device: what an earlier process measured and kept in the disk
    /// cache, else typical figures.
    pub fn costs(self) -> Arc<Costs> {
        thalweg_stream::costs(self.0)
    }

    /// What the planner takes things to take on a device of which nothing was measured: typical figures of a processor, or what
    /// a GPU of that size should give.
    pub fn typical_costs(self) -> Arc<Costs> {
        thalweg_stream::typical_costs(self.0)
    }

    /// Sets what [`Device::costs`] tells. Plans that were made stay.
    pub fn set_costs(self, costs: Costs) {
        thalweg_stream::set_costs(self.0, costs);
    }

    /// Keeps what [`Device::costs`] tells in the disk cache, for later processes; `false` where there is no cache.
    pub fn save_costs(self) -> bool {
        thalweg_stream::save_costs(self.0)
    }

    /// Measures how fast its memory is copied (some 0.4 s), with one thread and with all that it uses.
    ///
    /// # Errors
    /// Where there is no memory for the buffers, or the environment asks for what there is not.
    pub fn bandwidth(self) -> Result<Bandwidth, Error> {
        thalweg_cpu::measure_bandwidth(thalweg_cpu::CpuOptions::from_environment()?.threads)
    }
}

/// Measures how far the f32 functions of the CPU device are from the exact values, over every `every`-th bit pattern
/// (1: all 2³² of them, which takes minutes a function). With each comes the bound in ulp that tests hold it to.
pub fn accuracy(every: u32) -> Vec<(Accuracy, f64)> {
    let bounds = thalweg_cpu::math::accuracy::BOUNDS_F32;
    thalweg_cpu::math::accuracy::accuracy_table(every).into_iter().zip(bounds.iter().map(|b| b.1)).collect()
}
