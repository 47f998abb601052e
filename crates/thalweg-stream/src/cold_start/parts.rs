//! Known partial plans ([`PartitionCache`]) by device and search effort: what a segment has in common with earlier ones is not
//! searched for again.

use crate::DeviceRef;
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_fusion::{Effort, PartitionCache};

type OfDevice = ((DeviceRef, Effort), Arc<PartitionCache>);

static PARTS: Mutex<Vec<OfDevice>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<OfDevice>> {
    // A panic leaves a valid list.
    PARTS.lock().unwrap_or_else(|e| e.into_inner())
}

/// Returns the cache of partial plans known for a device, as searches with that effort found them; creates it at first
/// use.
pub(crate) fn parts_of(device: DeviceRef, effort: Effort) -> Arc<PartitionCache> {
    let mut all = all();
    if let Some((_, parts)) = all.iter().find(|p| p.0 == (device, effort)) {
        return parts.clone();
    }
    let parts = Arc::new(PartitionCache::new());
    all.push(((device, effort), parts.clone()));
    parts
}

/// Forgets all partial plans.
pub(crate) fn forget_parts() {
    all().clear();
}
