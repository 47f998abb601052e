//! When a process measures its device by itself.
//!
//! Measuring takes 0.15 s: nothing for who computes for hours, much for who computes for milliseconds. So a process
//! does it when its kernels have run for a second, once, and leaves the result in the disk cache. All later processes
//! begin with it, so it happens once a machine. Where nothing could be kept nothing is measured.
//!
//! Where launches run on their own, as on a GPU, the host does not know how long they take. There what counts is the time from
//! one segment to the next, as long as they come soon after one another. What has to be compiled for the samples is compiled
//! on a thread of its own then, while the program goes on; what is timed is timed when that is done.
//!
//! It is timed by the thread whose kernels they were, between two segments. Beside them, on a thread of its own, what
//! memory gives is shared with the program: a byte read out of cache then took two to five times as long as by itself,
//! which every later process would have planned with.

use super::saved::save_costs;
use super::{calibrate, compile_samples, set_costs};
use crate::DeviceRef;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};
use thalweg_runtime::disk;
use thalweg_runtime::environment::{self, Value};

/// The device that waits to be measured, by its number and one; 0 for none.
static WAITS: AtomicU32 = AtomicU32::new(0);
/// Nanoseconds that its kernels have taken.
static SPENT: AtomicU64 = AtomicU64::new(0);
/// The device whose samples are being compiled, and the one for which that is done, by their numbers and one.
static COMPILES: AtomicU32 = AtomicU32::new(0);
static COMPILED: AtomicU32 = AtomicU32::new(0);

/// When a segment last ran on the device that waits, in nanoseconds since [`BEGIN`].
static LAST: AtomicU64 = AtomicU64::new(0);
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The longest time between two segments that counts as one of computing.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes of the stack of a thread that compiles.
const STACK: usize = 8 << 20;

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
    if disk::cache().is_some() && patience().is_some() && device.device().identity().is_some() {
        WAITS.store(number(device), Relaxed);
    }
}

fn number(device: DeviceRef) -> u32 {
    device.0 as u32 + 1
}

/// Whether a place holds the device, which is taken out of it.
fn take(place: &AtomicU32, device: DeviceRef) -> bool {
    place.compare_exchange(number(device), 0, Relaxed, Relaxed).is_ok()
}

/// Somebody knows better: the device is not measured. Whether it was going to be.
pub(super) fn end(device: DeviceRef) -> bool {
    let compiled = take(&COMPILES, device) | take(&COMPILED, device);
    take(&WAITS, device) || compiled
}

/// Whether the time of a device's kernels is asked for.
#[inline]
pub(crate) fn waits(device: DeviceRef) -> bool {
    WAITS.load(Relaxed) == number(device) || COMPILED.load(Relaxed) == number(device)
}

/// Takes note that a device that [`waits`] has run kernels for so long, as the host sees it.
pub(crate) fn spent(device: DeviceRef, time: Duration) {
    if take(&COMPILED, device) {
        return measure(device);
    }
    let on_its_own = device.device().throughput().is_some();
    let ns = if on_its_own { since_last() } else { time.as_nanos() as u64 };
    let enough = patience().is_some_and(|p| SPENT.fetch_add(ns, Relaxed) + ns >= p.as_nanos() as u64);
    if !enough || !take(&WAITS, device) {
        return;
    }
    if on_its_own { compile(device) } else { measure(device) }
}

/// Nanoseconds since a segment ran before this one, if that is not long ago.
fn since_last() -> u64 {
    let now = BEGIN.elapsed().as_nanos() as u64;
    let last = LAST.swap(now, Relaxed);
    if last == 0 { 0 } else { now.saturating_sub(last).min(PAUSE.as_nanos() as u64) }
}

/// Compiles the samples beside the program.
#[cold]
fn compile(device: DeviceRef) {
    device.device().compile_in_background();
    COMPILES.store(number(device), Relaxed);
    let work = move || match compile_samples(device) {
        // Unless somebody has said meanwhile what things take.
        Ok(()) => {
            if take(&COMPILES, device) {
                COMPILED.store(number(device), Relaxed);
            }
        }
        Err(error) => tracing::debug!(%error, "calibration failed"),
    };
    let thread = std::thread::Builder::new().name("thalweg-calibration".into()).stack_size(STACK).spawn(work);
    if let Err(error) = thread {
        tracing::debug!(%error, "no thread to compile samples on");
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
