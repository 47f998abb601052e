//! The constants of devices in the disk cache, for later processes.
//!
//! In: what a device is. Out: constants that a calibration of it can have given, or none. An entry says which device it is of, for
//! people; what it is found by is its key.

use super::{costs, sane};
use crate::DeviceRef;
use serde_json::{Value, json};
use thalweg_fusion::{Costs, PLANNER};
use thalweg_runtime::disk::{self, Cache, Key, Kind};

/// What the constants of a device are kept by: what it is, and what the constants mean. `None` for one that nothing is measured
/// of.
pub(super) fn costs_key(device: DeviceRef) -> Option<Key> {
    Some(Key::of(&[PLANNER.as_bytes(), device.device().identity()?.as_bytes()]))
}

/// The constants that were kept for a device, if they are sane.
pub(crate) fn load_costs(device: DeviceRef) -> Option<Costs> {
    let bytes = disk::cache()?.get(Kind::Calibration, &costs_key(device)?)?;
    let mut entry: Value = serde_json::from_slice(&bytes).ok()?;
    sane(device, serde_json::from_value(entry.get_mut("costs")?.take()).ok()?)
}

/// Keeps the constants in force for a device, for later processes; whether there is a cache to keep them in, and the device is
/// one that something can be measured of.
pub fn save_costs(device: DeviceRef) -> bool {
    let Some((cache, key)) = disk::cache().zip(costs_key(device)) else { return false };
    let entry = json!({ "device": device.device().identity(), "planner": PLANNER, "costs": &*costs(device) });
    cache.put(Kind::Calibration, &key, entry.to_string().as_bytes());
    true
}

/// The devices that a cache has constants of, each with whether this version's planner counts with them.
pub fn calibrated(cache: &Cache) -> Vec<(String, bool)> {
    let of = |bytes: Vec<u8>| {
        let entry: Value = serde_json::from_slice(&bytes).ok()?;
        Some((entry.get("device")?.as_str()?.to_string(), entry.get("planner")?.as_str()? == PLANNER))
    };
    let mut all: Vec<(String, bool)> = cache.all(Kind::Calibration).into_iter().filter_map(of).collect();
    all.sort();
    all
}
