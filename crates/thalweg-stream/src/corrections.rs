//! Corrections of the cost model from launch times.
//!
//! In: the minimum time of each launch of a plan that runs often. A launch that took more than twice its prediction
//! gives its class of kernels a factor ([`Corrections`]), which every later search on the device reads, in this process
//! and, through the disk cache, in later ones. Out: whether anything was learned.
//!
//! Always true: what all kernels of a device have in common is no correction. A machine that is three times as slow as
//! the constants say needs other constants; so errors count relative to the median error of the kernels before.

use crate::DeviceRef;
use crate::calibration::{correct, costs};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{LazyLock, Mutex};
use thalweg_fusion::{Corrections, Instance, KernelClass};
use thalweg_runtime::count;

/// Minimum fraction of a run's time at which a launch's excess over its prediction matters.
const FRACTION: f64 = 0.05;
/// Minimum excess in nanoseconds.
const EXCESS_NS: f64 = 5_000.0;
/// Minimum factor by which a correction changes.
const CHANGE: f64 = 1.25;
/// Number of launches whose median error stands for the device.
const WINDOW: usize = 64;
/// Number of launches without an error that a new device starts with.
const PRIOR: usize = 4;

/// Recent ratios of measured to predicted times, by device.
static RATIOS: LazyLock<Mutex<HashMap<DeviceRef, VecDeque<f64>>>> = LazyLock::new(Mutex::default);

/// Adds ratios to those of the device; returns their median, at least 1.
fn common_error(device: DeviceRef, ratios: Vec<f64>) -> f64 {
    let mut all = RATIOS.lock().unwrap_or_else(|e| e.into_inner());
    let recent = all.entry(device).or_insert_with(|| VecDeque::from(vec![1.0; PRIOR]));
    recent.extend(ratios);
    recent.drain(..recent.len().saturating_sub(WINDOW));
    let mut sorted: Vec<f64> = recent.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2].max(1.0)
}

/// Learns from the launches of a plan: `ns` are the minimum nanoseconds of each, in the order of the instance's steps;
/// `footprint` is that of the segment. Returns whether corrections have changed.
pub(crate) fn learn(device: DeviceRef, instance: &Instance, footprint: u64, ns: &[u64]) -> bool {
    if ns.len() != instance.steps.len() {
        return false;
    }
    let in_force = costs(device);
    let plain = in_force.uncorrected();
    let total = ns.iter().sum::<u64>() as f64;
    // Launches of one class count by their total time.
    let mut classes: BTreeMap<KernelClass, (f64, f64)> = BTreeMap::new();
    let mut ratios = vec![];
    for (step, &ns) in instance.steps.iter().zip(ns) {
        let features = instance.features(step, &plain);
        let predicted = plain.time(&features, footprint) as f64 / 1e3;
        ratios.push(ns as f64 / predicted);
        let of_class = classes.entry(KernelClass::of(&features)).or_default();
        *of_class = (of_class.0 + predicted, of_class.1 + ns as f64);
    }
    let common = common_error(device, ratios);
    let known: BTreeMap<KernelClass, f64> = in_force.corrections.iter().collect();
    let mut factors = vec![];
    for (class, (predicted, ns)) in classes {
        let before = known.get(&class).copied();
        let excess = ns - predicted * common;
        if before.is_none() && excess < EXCESS_NS.max(total * FRACTION) {
            continue;
        }
        // Kernels of a class differ; the factor moves half of the way from those before.
        let now = (ns / (predicted * common)).clamp(1.0, Corrections::MAX_FACTOR);
        let factor = before.map_or(now, |before| (before * now).sqrt());
        let shown = |factor: f64| if factor < Corrections::MIN_FACTOR { 1.0 } else { factor };
        if (shown(factor) / before.unwrap_or(1.0)).ln().abs() > CHANGE.ln() {
            factors.push((class, factor));
        }
    }
    let learned = factors.len() as u64;
    let changed = learned > 0 && correct(device, &in_force, in_force.corrections.with(factors));
    if changed {
        count(|c| c.corrections += learned);
    }
    changed
}
