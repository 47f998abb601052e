//! When a process measures its device by itself.
//!
//! Measuring takes 0.15 s: nothing for who computes for hours, much for who computes for milliseconds. So a process
//! does it when its kernels have run for a second, once, and leaves the result in the disk cache. All later processes
//! begin with it, so it happens once a machine. Where nothing could be kept nothing is measured.
//!
//! It is done by the thread whose kernels they were, between two segments. Beside them, on a thread of its own, what
//! memory gives is shared with the program: a byte read out of cache then took two to five times as long as by itself,
//! which every later process would have planned with.

use super::saved::save_costs;
use super::{calibrate, set_costs};
use crate::DeviceRef;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use thalweg_runtime::disk;
use thalweg_runtime::environment::{self, Value};

/// The device that waits to be measured, by its number and one; 0 for none.
static WAITS: AtomicU32 = AtomicU32::new(0);
/// Nanoseconds that its kernels have taken.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// How long kernels run before their device is measured: `THALWEG_CALIBRATE`, in milliseconds, or `off`.
fn patience() -> Option<Duration> {
    static PATIENCE: OnceLock<Option<Duration>> = OnceLock::new();
    *PATIENCE.get_or_init(|| match environment::CALIBRATE.get() {
        // The one word that it may be is `off`.
        Some(Value::Word(_)) => None,
        Some(Value::Number(ms)) => Some(Duration::from_millis(ms)),
        _ => Some(Duration::from_millis(1000)),
    })
}

/// A device for which nothing was kept: from now on its kernels are timed.
pub(super) fn begin(device: DeviceRef) {
    if disk::cache().is_some() && patience().is_some() {
        WAITS.store(device.0 as u32 + 1, Relaxed);
    }
}

/// Somebody knows better: the device is not measured. Whether it was going to be.
pub(super) fn end(device: DeviceRef) -> bool {
    WAITS.compare_exchange(device.0 as u32 + 1, 0, Relaxed, Relaxed).is_ok()
}

/// Whether the time of a device's kernels is asked for.
#[inline]
pub(crate) fn waits(device: DeviceRef) -> bool {
    WAITS.load(Relaxed) == device.0 as u32 + 1
}

/// Takes note that a device that [`waits`] has run kernels for so long.
pub(crate) fn spent(device: DeviceRef, time: Duration) {
    let ns = time.as_nanos() as u64;
    let enough = patience().is_some_and(|p| SPENT.fetch_add(ns, Relaxed) + ns >= p.as_nanos() as u64);
    if enough && end(device) {
        measure(device);
    }
}

#[cold]
fn measure(device: DeviceRef) {
    match calibrate(device) {
        Ok(costs) => {
            set_costs(device, costs);
            save_costs(device);
        }
        Err(error) => tracing::debug!(%error, "calibration failed"),
    }
}
