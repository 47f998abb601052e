//! Observation: explanations of what ran, launch times, costs, bandwidth and accuracy.
//!
//! A missed fusion leaves every value right, so fusion has to be easy to inspect.

use crate::{Accuracy, Bandwidth, Costs, Device, Error, Explanation};
use std::sync::Arc;
use thalweg_stream::{Mode, TierRun, mode, set_mode};

/// Runs `f`, then everything recorded and pending, and reports which operations shared a kernel, how many bytes were
/// moved, and why the rest was not fused. The explanation prints as text; [`Explanation::json`] and
/// [`Explanation::html`] give the other forms.
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
/// Times are those of this one run, with first-time compilation and first-touch of memory; [`explain_steady`] has those
/// of later runs. Only the calling thread's work is reported.
pub fn explain<R>(f: impl FnOnce() -> R) -> (R, Explanation) {
    thalweg_stream::explain(f)
}

/// Calls `f` for about half a second, until its segments have been searched for and their plans have competed, then
/// explains a call like [`explain`], with each kernel's median time over several calls. Kernels whose time is far from
/// the prediction are listed ([`Explanation::mispredicted`]).
///
/// ```
/// # use thalweg::prelude::*;
/// let x = Tensor::randn([16, 64]);
/// let (y, explanation) = thalweg::explain_steady(|| x.softmax(-1));
/// assert_eq!(explanation.totals().kernels, 1);
/// assert!(explanation.runs >= 3);
/// # drop(y);
/// ```
///
/// Only the calling thread's work is reported.
pub fn explain_steady<R>(f: impl FnMut() -> R) -> (R, Explanation) {
    thalweg_stream::explain_steady(f)
}

/// Runs `f`, then everything recorded and pending, and returns the nanoseconds of each kernel launch in order of
/// execution. [`explain`] reports them too, but works on its report between the launches.
///
/// Only the calling thread's work is reported.
pub fn launch_times<R>(f: impl FnOnce() -> R) -> (R, Vec<u64>) {
    thalweg_stream::launch_times(f)
}

/// Runs `f`, then everything recorded and pending, and returns the tier that each segment ran in: unfused at a cold
/// start, by a plan from a search or from disk, or by a plan that was the fastest by measurement. Unlike [`explain`],
/// which requires a plan at once, this does not change what runs.
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
/// Only the calling thread's work is reported.
pub fn tier_runs<R>(f: impl FnOnce() -> R) -> (R, Vec<TierRun>) {
    thalweg_stream::tier_runs(f)
}

/// Guard that restores the mode, also when a panic unwinds.
struct Restore(Mode);

impl Drop for Restore {
    fn drop(&mut self) {
        set_mode(self.0);
    }
}

/// Calls `f` with the reference interpreter in place of the device's kernels: one operation at a time, as the operation
/// table defines them. Slow; for checking values.
pub fn with_reference<R>(f: impl FnOnce() -> R) -> R {
    let _restore = Restore(set_mode(Mode { reference: true, ..mode() }));
    f()
}

impl Device {
    /// Measures the costs of this device (takes about 0.15 s), for the planner to use from now on: see
    /// [`Device::set_costs`].
    ///
    /// # Errors
    /// When the device fails.
    pub fn calibrate(self) -> Result<Costs, Error> {
        thalweg_stream::calibrate(self.0)
    }

    /// Compiles the kernels that [`Device::calibrate`] launches: a second or two on a GPU, no time on a CPU.
    ///
    /// # Errors
    /// When the device fails.
    pub fn compile_samples(self) -> Result<(), Error> {
        thalweg_stream::compile_samples(self.0)
    }

    /// The costs that the planner assumes for this device: those that an earlier process measured and saved in the disk
    /// cache, else typical figures.
    pub fn costs(self) -> Arc<Costs> {
        thalweg_stream::costs(self.0)
    }

    /// The costs that the planner assumes for a device without measurements: typical figures of a processor, or
    /// estimates for a GPU of that size.
    pub fn typical_costs(self) -> Arc<Costs> {
        thalweg_stream::typical_costs(self.0)
    }

    /// Sets the costs that [`Device::costs`] returns. Existing plans stay.
    pub fn set_costs(self, costs: Costs) {
        thalweg_stream::set_costs(self.0, costs);
    }

    /// Saves the costs of [`Device::costs`] in the disk cache, for later processes; `false` if there is no cache.
    pub fn save_costs(self) -> bool {
        thalweg_stream::save_costs(self.0)
    }

    /// Measures the copy bandwidth of the host's memory (takes about 0.4 s), with one thread and with all threads in
    /// use.
    ///
    /// # Errors
    /// If there is no memory for the buffers, or an environment variable has an invalid value.
    pub fn bandwidth(self) -> Result<Bandwidth, Error> {
        thalweg_cpu::measure_bandwidth(thalweg_cpu::CpuOptions::from_environment()?.threads)
    }
}

/// Measures the error of the CPU device's f32 functions against exact values, over every `every`-th bit pattern (1: all
/// 2³², which takes minutes per function). Each result comes with the bound in ulp that tests enforce.
pub fn accuracy(every: u32) -> Vec<(Accuracy, f64)> {
    let bounds = thalweg_cpu::math::accuracy::BOUNDS_F32;
    thalweg_cpu::math::accuracy::accuracy_table(every).into_iter().zip(bounds.iter().map(|b| b.1)).collect()
}
