//! Corrections of the cost model from launch times.
//!
//! In: the minimum time of each launch of a plan that runs often. A launch that took more than twice its prediction
//! gives its class of kernels a factor ([`Corrections`]), which every later search on the device reads, in this process
//! and, through the disk cache, in later ones. Out: whether anything was learned.
//!
//! Always true: what all kernels of a device have in common is no correction. A machine that is three times as slow as
//! the constants say needs other constants; so errors count relative to the median error of the kernels before. Nor is
//! what each timed launch takes beyond its prediction, however short it is: the events on a GPU's queue, and the latency
//! of a kernel that follows no other, are some 4 µs, several times what a short launch takes among others, and the
//! median error would be theirs. So the median excess of short launches is subtracted first.

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
/// Number of launches whose median error is the device's.
const WINDOW: usize = 64;
/// Number of launches without an error that a new device starts with.
const PRIOR: usize = 4;

/// Common properties of the recent launches of each device.
static RECENT: LazyLock<Mutex<HashMap<DeviceRef, Recent>>> = LazyLock::new(Mutex::default);

/// Common properties of recent launches.
struct Recent {
    /// Nanoseconds by which launches that were predicted to be shorter than [`EXCESS_NS`] took longer.
    excesses: VecDeque<f64>,
    /// Ratios of measured to predicted times.
    ratios: VecDeque<f64>,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { excesses: VecDeque::new(), ratios: VecDeque::from(vec![1.0; PRIOR]) }
    }
}

impl Recent {
    /// Adds launches, each with its predicted and measured nanoseconds. Returns the nanoseconds that a timed launch
    /// takes beyond its prediction, at most [`EXCESS_NS`], and the median ratio of times without them, at least 1.
    fn common_error(&mut self, launches: &[(f64, f64)]) -> (f64, f64) {
        let short = launches.iter().filter(|(predicted, _)| *predicted < EXCESS_NS);
        let overhead = median(&mut self.excesses, short.map(|(predicted, ns)| ns - predicted));
        let overhead = overhead.unwrap_or(0.0).clamp(0.0, EXCESS_NS);
        let ratio = |&(predicted, ns): &(f64, f64)| (ns - overhead).max(0.0) / predicted;
        (overhead, median(&mut self.ratios, launches.iter().map(ratio)).unwrap_or(1.0).max(1.0))
    }
}

/// Adds numbers to the recent ones, of which [`WINDOW`] stay; returns the median of these.
fn median(recent: &mut VecDeque<f64>, new: impl Iterator<Item = f64>) -> Option<f64> {
    recent.extend(new);
    recent.drain(..recent.len().saturating_sub(WINDOW));
    let mut sorted: Vec<f64> = recent.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Learns from the launches of a plan: `ns` are the minimum nanoseconds of each, in the order of the instance's steps;
/// `footprint` is that of the segment. Returns whether corrections have changed.
pub(crate) fn learn(device: DeviceRef, instance: &Instance, footprint: u64, ns: &[u64]) -> bool {
    if ns.len() != instance.steps.len() {
        return false;
    }
    let in_force = costs(device);
    let plain = in_force.uncorrected();
    let predicted = |step| {
        let features = instance.features(step, &plain);
        (KernelClass::of(&features), plain.time(&features, footprint) as f64 / 1e3)
    };
    let (kernels, predicted): (Vec<KernelClass>, Vec<f64>) = instance.steps.iter().map(predicted).unzip();
    let launches: Vec<(f64, f64)> = predicted.into_iter().zip(ns.iter().map(|&ns| ns as f64)).collect();
    let (overhead, common) = {
        let mut all = RECENT.lock().unwrap_or_else(|e| e.into_inner());
        all.entry(device).or_default().common_error(&launches)
    };
    // Launches of one class count by their total time.
    let mut classes: BTreeMap<KernelClass, (f64, f64)> = BTreeMap::new();
    let mut total = 0.0;
    for (class, (predicted, ns)) in kernels.into_iter().zip(launches) {
        let ns = (ns - overhead).max(0.0);
        let of_class = classes.entry(class).or_default();
        *of_class = (of_class.0 + predicted, of_class.1 + ns);
        total += ns;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_short_launches_add_is_no_error_of_long_ones() {
        let short = (0..100).map(|k| (1_000.0, 4_800.0 + 10.0 * (k % 40) as f64));
        let launches: Vec<(f64, f64)> = short.chain([(26_000.0, 128_000.0), (50_000.0, 54_000.0)]).collect();
        let (overhead, common) = Recent::default().common_error(&launches);
        assert!((overhead - 4_000.0).abs() < 100.0, "{overhead}");
        assert!(common < 1.1, "{common}");
    }

    #[test]
    fn a_slow_device_is_a_common_error() {
        let launches: Vec<(f64, f64)> = (10..100).map(|k| (1e3 * k as f64, 3e3 * k as f64)).collect();
        let (overhead, common) = Recent::default().common_error(&launches);
        assert_eq!((overhead, common), (0.0, 3.0));
    }
}
