//! Cost constants of devices: which ones are in force, and how they are measured (calibration).
//!
//! In: a device. Out: its [`Costs`]. [`calibrate`] launches small kernels through the `Device` and `Program` traits
//! only, so it serves every device. Each constant is the value with which the cost model predicts one such kernel
//! correctly, given the constants before it. So the meaning of a constant is defined in one place, [`Costs::time`], and
//! not repeated here.
//!
//! * `samples`: the kernels, sized for a kind of device. `clock`: the interface that times them.
//! * `fits`: which constant follows from which sample, in order.
//! * `measure`: timing by the host's clock. `events`: timing by the device's clock, behind work that keeps its queue
//!   busy (`ahead`).
//! * `saved`: constants on disk. `watch`: when a process calibrates by itself.
//!
//! Always true: a constant is within a factor of [`SANE`] of the typical one ([`typical_costs`]), whatever a busy
//! machine measures.

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
use saved::{load_corrections, load_costs, save_corrections};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};
use thalweg_fusion::{Corrections, Costs};
use thalweg_kernel::{Geometry, Kernel};
use thalweg_runtime::{Error, Throughput, count};

/// Maximum factor between a measured constant and the typical one.
const SANE: f64 = 8.0;
static TYPICAL: LazyLock<Arc<Costs>> = LazyLock::new(|| Arc::new(Costs::typical()));
static COSTS: RwLock<Option<HashMap<DeviceRef, Arc<Costs>>>> = RwLock::new(None);

/// Constants in force for a device: those that an earlier process measured and saved to disk, else [`typical_costs`],
/// until others are set.
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
    // Without the device's number of threads: until something was measured, plans, and with them the last bits of
    // results, are the same for any number of threads.
    let costs = kept.map_or_else(|| typical_costs(device), |costs| Arc::new(of_machine(device, costs)));
    let costs = match load_corrections(device, &costs) {
        Some(corrections) => Arc::new(Costs { corrections, ..(*costs).clone() }),
        None => costs,
    };
    let mut known = COSTS.write().unwrap_or_else(|e| e.into_inner());
    known.get_or_insert_default().entry(device).or_insert(costs).clone()
}

/// Constants that plans of a mode use. A reproducible mode uses the typical constants of that kind of device, whatever
/// was measured or set.
pub(crate) fn planning_costs(device: DeviceRef, mode: Mode) -> Arc<Costs> {
    if !mode.reproducible {
        return costs(device);
    }
    typical_costs(device)
}

/// Constants of a device before any measurement: [`Costs::typical`], or estimates from the throughput of a GPU.
pub fn typical_costs(device: DeviceRef) -> Arc<Costs> {
    match device.device().throughput() {
        Some(t) => Arc::new(of_machine(device, of_throughput(&t))),
        None if device.device().machine() == TYPICAL.machine => TYPICAL.clone(),
        None => Arc::new(of_machine(device, Costs::typical())),
    }
}

/// Returns the constants with the facts of the device's machine.
fn of_machine(device: DeviceRef, costs: Costs) -> Costs {
    Costs { machine: device.device().machine(), ..costs }
}

fn of_throughput(t: &Throughput) -> Costs {
    Costs::of_throughput(t.memory, (t.cache, t.cache_bytes), t.additions, t.launch).rounded()
}

/// Checks constants from elsewhere (disk): returns them if a measurement on this device could have given them.
pub(crate) fn sane(device: DeviceRef, costs: Costs) -> Option<Costs> {
    let typical = &*typical_costs(device);
    let (one_pass, borders) = (typical.one_pass, typical.borders);
    let like = Costs { registers: typical.registers, threads: threads(device), one_pass, borders, ..costs.clone() };
    let footprints = costs.levels.iter().map(|l| l.footprint).eq(typical.levels.iter().map(|l| l.footprint));
    // Slightly wider than the bound of a measurement, which was rounded after it was bounded.
    let near = like.near(typical, SANE * 1.01);
    (footprints && near == costs).then_some(costs)
}

/// Activates constants in all threads, without corrections: these were relative to the constants before.
pub fn set_costs(device: DeviceRef, costs: Costs) {
    watch::end(device);
    let mut known = COSTS.write().unwrap_or_else(|e| e.into_inner());
    known.get_or_insert_default().insert(device, Arc::new(of_machine(device, costs.uncorrected())));
}

/// Activates corrections of the constants `costs` in all threads, and saves them for later processes. Returns false,
/// with nothing changed, if other constants are in force by now.
pub(crate) fn correct(device: DeviceRef, costs: &Arc<Costs>, corrections: Corrections) -> bool {
    let corrected = Arc::new(Costs { corrections, ..(**costs).clone() });
    {
        let mut known = COSTS.write().unwrap_or_else(|e| e.into_inner());
        match known.get_or_insert_default().get_mut(&device) {
            Some(set) if Arc::ptr_eq(set, costs) => *set = corrected.clone(),
            _ => return false,
        }
    }
    save_corrections(device, &corrected);
    true
}

/// Number of threads that the constants describe: 1 for a device with asynchronous launches.
fn threads(device: DeviceRef) -> u32 {
    if device.device().throughput().is_some() { 1 } else { device.device().threads() as u32 }
}

/// Measures the constants of a device, in about 0.15 s; on a GPU in less, once the samples are compiled. It does not
/// put them in force ([`set_costs`]) or save them ([`crate::save_costs`]).
///
/// # Errors
/// When the device fails, or is one that cannot be measured.
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

/// Result of [`calibrate`] on a device that these constants describe exactly: for tests, which have no reliable clock.
///
/// # Panics
/// Never: this clock does not fail.
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

/// Compiles all kernels that calibrating a device launches, so that [`calibrate`] only has to run them.
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
