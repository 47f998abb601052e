//! Cost constants in the disk cache, for later processes.
//!
//! In: a device's identity. Out: constants that a calibration of it could have given, or none. An entry also names its
//! device in plain text, for people; it is found by its key.

use super::{costs, sane};
use crate::DeviceRef;
use serde_json::{Value, json};
use thalweg_fusion::{Costs, PLANNER};
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
