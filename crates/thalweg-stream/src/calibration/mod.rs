//! What things take on a device: which constants are in force, and measuring them.
//!
//! In: a device. Out: its [`Costs`]. [`calibrate`] launches small kernels through the `Device` and `Program` traits
//! alone, so that it serves every device. Each constant is the one with which the model is right about one such kernel,
//! given the constants before it; so what a constant means is said in one place, [`Costs::time`], and nowhere again here.
//!
//! * `samples`: the kernels, as large as a kind of device needs them. `clock`: who says how long they take.
//! * `fits`: which constant follows from which of them, in order.
//! * `measure`: the host's clock. `events`: the device's own, behind what keeps its queue busy (`ahead`).
//! * `saved`: constants on disk. `watch`: when a process measures by itself.
//!
//! Always true: a constant lies within a factor of [`SANE`] of the typical one ([`typical_costs`]), whatever a busy machine
//! measures.

pub(crate) mod ahead;
mod clock;
mod events;
mod fits;
mod measure;
mod samples;
mod saved;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

pub use saved::{calibrated, save_costs};

use crate::DeviceRef;
use crate::mode::Mode;
use clock::{Bench, Clock, List, Model};
use events::DeviceClock;
use measure::HostClock;
use samples::Sizes;
use saved::load_costs;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};
use thalweg_fusion::Costs;
use thalweg_kernel::{Geometry, Kernel};
use thalweg_runtime::{Error, Throughput, count};

/// How far a measured constant may be from the typical one, as a factor.
const SANE: f64 = 8.0;
static TYPICAL: LazyLock<Arc<Costs>> = LazyLock::new(|| Arc::new(Costs::typical()));
static COSTS: RwLock<Option<HashMap<DeviceRef, Arc<Costs>>>> = RwLock::new(None);

/// The constants in force for a device: those that an earlier process measured and kept on disk, else
/// [`typical_costs`], until others are set.
pub fn costs(device: DeviceRef) -> Arc<Costs> {
    let known = COSTS.read().unwrap_or_else(|e| e.into_inner());
    if let Some(set) = known.as_ref().and_then(|c| c.get(&device)) {
        return set.clone();
    }
    drop(known);
    let kept = load_costs(device);
    if kept.is_none() {
        watch::begin(device);
    }
    // Not with the device's own number of threads: until something was measured, a plan, and with it the last bits of a
    // result, is the same on any number.
    let costs = kept.map_or_else(|| typical_costs(device), Arc::new);
    let mut known = COSTS.write().unwrap_or_else(|e| e.into_inner());
    known.get_or_insert_default().entry(device).or_insert(costs).clone()
}

/// The constants that plans of a mode are made with. A reproducible one plans with the typical constants of a device of
/// that kind, whatever was measured or set.
pub(crate) fn planning_costs(device: DeviceRef, mode: Mode) -> Arc<Costs> {
    if !mode.reproducible {
        return costs(device);
    }
    typical_costs(device)
}

/// The constants of a device of which nothing was measured: [`Costs::typical`], or what a GPU of that size should give.
pub fn typical_costs(device: DeviceRef) -> Arc<Costs> {
    device.device().throughput().map_or_else(|| TYPICAL.clone(), |t| Arc::new(of_throughput(&t)))
}

fn of_throughput(t: &Throughput) -> Costs {
    Costs::of_throughput(t.memory, (t.cache, t.cache_bytes), t.additions, t.launch).rounded()
}

/// Constants that somebody else wrote down, if a measurement on this device could have given them.
pub(crate) fn sane(device: DeviceRef, costs: Costs) -> Option<Costs> {
    let typical = &*typical_costs(device);
    let (one_pass, borders) = (typical.one_pass, typical.borders);
    let like = Costs { registers: typical.registers, threads: threads(device), one_pass, borders, ..costs.clone() };
    let footprints = costs.levels.iter().map(|l| l.footprint).eq(typical.levels.iter().map(|l| l.footprint));
    // A little more than what is measured may be: it was rounded after it was bounded.
    let near = like.near(typical, SANE * 1.01);
    (footprints && near == costs).then_some(costs)
}

/// Puts constants in force, in all threads.
pub fn set_costs(device: DeviceRef, costs: Costs) {
    watch::end(device);
    let mut known = COSTS.write().unwrap_or_else(|e| e.into_inner());
    known.get_or_insert_default().insert(device, Arc::new(costs));
}

/// Threads that the constants of a device are about: a device that runs launches on its own counts as one.
fn threads(device: DeviceRef) -> u32 {
    if device.device().throughput().is_some() { 1 } else { device.device().threads() as u32 }
}

/// Measures the constants of a device, in some 0.15 s; of a GPU in less, once the samples are compiled. They are not put in
/// force: see [`set_costs`]; nor kept: see [`crate::save_costs`].
///
/// # Errors
/// When the device fails, or is none that anything can be measured of.
pub fn calibrate(device: DeviceRef) -> Result<Costs, Error> {
    let name = || device.device().name().to_string();
    if device.device().identity().is_none() {
        return Err(Error::Device { device: name(), message: "nothing can be measured of it".into() });
    }
    count(|c| c.calibrations += 1);
    let throughput = device.device().throughput();
    let sizes = Sizes::of(throughput.as_ref());
    if throughput.is_none() {
        return fitted(device, &sizes, &mut HostClock::new(device.device().clone(), &sizes)?);
    }
    compile_samples(device)?;
    fitted(device, &sizes, &mut DeviceClock::new(device, &sizes)?)
}

/// What [`calibrate`] gives where things take what these constants say: for tests, which have no clock to rely on.
///
/// # Panics
/// Never: such a clock does not fail.
pub fn calibrate_as_if(device: DeviceRef, truth: &Costs) -> Costs {
    let sizes = Sizes::of(device.device().throughput().as_ref());
    fitted(device, &sizes, &mut Model(truth, fits::unseen(&sizes))).expect("a model does not fail")
}

fn fitted(device: DeviceRef, sizes: &Sizes, clock: &mut dyn Clock) -> Result<Costs, Error> {
    let typical = typical_costs(device);
    let mut bench = Bench::new(&typical, *sizes, clock);
    fits::all(&mut bench, threads(device))?;
    Ok(bench.costs.near(&typical, SANE).rounded())
}

/// Compiles what calibrating a device launches, all at once, so that [`calibrate`] has but to run it.
///
/// # Errors
/// When the device fails.
pub fn compile_samples(device: DeviceRef) -> Result<(), Error> {
    let mut list = List::default();
    fitted(device, &Sizes::of(device.device().throughput().as_ref()), &mut list)?;
    list.0.push(ahead::kernel());
    let launches: Vec<(&Kernel, &Geometry)> = list.0.iter().map(|(k, g)| (k, g)).collect();
    device.device().prepare(&launches).map(|_| ())
}
