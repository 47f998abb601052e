//! Cost constants in the disk cache, for later processes.
//!
//! In: a device's identity. Out: constants that a calibration of it could have given, or none. An entry also names its
//! device in plain text, for people; it is found by its key.

use super::{costs, sane};
use crate::DeviceRef;
use serde_json::{Value, json};
use thalweg_fusion::{Corrections, Costs, KernelClass, PLANNER};
use thalweg_runtime::disk::{self, Cache, Key, Kind};

/// Cache key of a device's constants: its identity, and the planner version that defines their meaning. `None` for a
/// device that cannot be measured.
pub(super) fn costs_key(device: DeviceRef) -> Option<Key> {
    Some(Key::of(&[PLANNER.as_bytes(), device.device().identity()?.as_bytes()]))
}

/// Saved constants of a device, if they are sane.
pub(crate) fn load_costs(device: DeviceRef) -> Option<Costs> {
    let bytes = disk::cache()?.get(Kind::Calibration, &costs_key(device)?)?;
    let mut entry: Value = serde_json::from_slice(&bytes).ok()?;
    sane(device, serde_json::from_value(entry.get_mut("costs")?.take()).ok()?)
}

/// Saves the constants in force for a device, for later processes. Returns whether there is a cache and the device can
/// be measured.
pub fn save_costs(device: DeviceRef) -> bool {
    let Some((cache, key)) = disk::cache().zip(costs_key(device)) else { return false };
    let entry = json!({ "device": device.device().identity(), "planner": PLANNER, "costs": &*costs(device) });
    cache.put(Kind::Calibration, &key, entry.to_string().as_bytes());
    true
}

/// Cache key of the corrections of a device's constants.
fn corrections_key(device: DeviceRef, costs: &Costs) -> Option<Key> {
    let constants = costs.id().to_le_bytes();
    Some(Key::of(&[PLANNER.as_bytes(), device.device().identity()?.as_bytes(), b"corrections", &constants]))
}

/// Saved corrections of a device's constants; `None` if there are none.
pub(super) fn load_corrections(device: DeviceRef, costs: &Costs) -> Option<Corrections> {
    let bytes = disk::cache()?.get(Kind::Calibration, &corrections_key(device, costs)?)?;
    let mut entry: Value = serde_json::from_slice(&bytes).ok()?;
    let factors: Vec<(KernelClass, f64)> = serde_json::from_value(entry.get_mut("corrections")?.take()).ok()?;
    Some(Corrections::default().with(factors)).filter(|c| !c.is_empty())
}

/// Saves the corrections of a device's constants, for later processes.
pub(super) fn save_corrections(device: DeviceRef, costs: &Costs) {
    let Some((cache, key)) = disk::cache().zip(corrections_key(device, costs)) else { return };
    let factors: Vec<(KernelClass, f64)> = costs.corrections.iter().collect();
    cache.put(Kind::Calibration, &key, json!({ "corrections": factors }).to_string().as_bytes());
}

/// Devices that a cache has constants of, each with whether they belong to this version's planner.
pub fn calibrated(cache: &Cache) -> Vec<(String, bool)> {
    let of = |bytes: Vec<u8>| {
        let entry: Value = serde_json::from_slice(&bytes).ok()?;
        Some((entry.get("device")?.as_str()?.to_string(), entry.get("planner")?.as_str()? == PLANNER))
    };
    let mut all: Vec<(String, bool)> = cache.all(Kind::Calibration).into_iter().filter_map(of).collect();
    all.sort();
    all
}
