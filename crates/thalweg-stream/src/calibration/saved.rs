//! The constants of devices in the disk cache, for later processes.

use super::{costs, sane};
use crate::DeviceRef;
use thalweg_fusion::{Costs, PLANNER};
use thalweg_runtime::disk::{self, Key, Kind};

/// What the constants of a device are kept by: the chip, its instruction set, how many threads, and what the constants
/// mean.
fn costs_key(device: DeviceRef) -> Key {
    let device = device.device();
    Key::of(&[PLANNER.as_bytes(), device.name().as_bytes(), device.describe().as_bytes()])
}

/// The constants that were kept for a device, if they are sane.
pub(crate) fn load_costs(device: DeviceRef) -> Option<Costs> {
    let bytes = disk::cache()?.get(Kind::Calibration, &costs_key(device))?;
    sane(device, serde_json::from_slice(&bytes).ok()?)
}

/// Keeps the constants in force for a device, for later processes; whether there is a cache to keep them in.
pub fn save_costs(device: DeviceRef) -> bool {
    let Some(cache) = disk::cache() else { return false };
    let bytes = serde_json::to_vec(&*costs(device)).expect("plain numbers become JSON");
    cache.put(Kind::Calibration, &costs_key(device), &bytes);
    true
}
