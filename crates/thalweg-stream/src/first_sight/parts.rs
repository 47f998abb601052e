//! Known partial plans ([`Parts`]) by device and search effort: what a segment has in common with earlier ones is not
//! searched for again.

use crate::DeviceRef;
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_fusion::{Effort, Parts};

type OfDevice = ((DeviceRef, Effort), Arc<Parts>);

static PARTS: Mutex<Vec<OfDevice>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<OfDevice>> {
    // A panic leaves a valid list.
    PARTS.lock().unwrap_or_else(|e| e.into_inner())
}

/// Partial plans known for a device, as searches with that effort found them.
pub(crate) fn parts_of(device: DeviceRef, effort: Effort) -> Arc<Parts> {
    let mut all = all();
    if let Some((_, parts)) = all.iter().find(|p| p.0 == (device, effort)) {
        return parts.clone();
    }
    let parts = Arc::new(Parts::new());
    all.push(((device, effort), parts.clone()));
    parts
}

/// Forgets all partial plans.
pub(crate) fn forget_parts() {
    all().clear();
}
