//! The parts of plans that the process knows, by device and by the search's effort: what a segment has in common with
//! those before it is not searched for again.

use crate::DeviceRef;
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_fusion::{Effort, Parts};

type OfDevice = ((DeviceRef, Effort), Arc<Parts>);

static PARTS: Mutex<Vec<OfDevice>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<OfDevice>> {
    // What a panic leaves is a list of what is known.
    PARTS.lock().unwrap_or_else(|e| e.into_inner())
}

/// What is known of a device's plans, as searches with that effort have found them.
pub(crate) fn parts_of(device: DeviceRef, effort: Effort) -> Arc<Parts> {
    let mut all = all();
    if let Some((_, parts)) = all.iter().find(|p| p.0 == (device, effort)) {
        return parts.clone();
    }
    let parts = Arc::new(Parts::new());
    all.push(((device, effort), parts.clone()));
    parts
}

/// Forgets all of them.
pub(crate) fn forget_parts() {
    all().clear();
}
