//! Automatic calibration: when a process measures its device by itself.
//!
//! Measuring takes 0.15 s: negligible for a program that runs for hours, much for one that runs for milliseconds. So a
//! process measures once, after its kernels have run for a second, and saves the result to the disk cache. All later
//! processes start with it, so it happens once per machine. Where nothing can be saved, nothing is measured.
//!
//! With asynchronous launches, as on a GPU, the host does not know how long kernels run. There the time between
//! successive segments counts, if they come soon after one another. Samples are then compiled on a separate thread,
//! while the program goes on, and timed when that is done.
//!
//! Timing runs on the thread whose kernels they were, between two segments. On a separate thread beside them, memory
//! bandwidth was shared with the program: a byte read out of cache then took two to five times as long as alone, and
//! every later process would have planned with that.

use super::saved::save_costs;
use super::{calibrate, compile_samples, set_costs};
use crate::DeviceRef;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};
use thalweg_runtime::disk;
use thalweg_runtime::environment::{self, Value};

/// Index plus one of the device that is to be measured; 0 for none.
static WAITS: AtomicU32 = AtomicU32::new(0);
/// Nanoseconds that kernels of the device in [`WAITS`] have run.
static SPENT: AtomicU64 = AtomicU64::new(0);
/// Index plus one of the device whose samples are being compiled (`COMPILES`), and of the device whose samples are
/// compiled (`COMPILED`); 0 for none.
static COMPILES: AtomicU32 = AtomicU32::new(0);
static COMPILED: AtomicU32 = AtomicU32::new(0);

/// Time of the last segment on the waiting device, in nanoseconds since [`BEGIN`].
static LAST: AtomicU64 = AtomicU64::new(0);
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Maximum time between two segments that counts as run time of kernels.
const PAUSE: Duration = Duration::from_millis(20);
/// Stack size in bytes of the compiling thread.
const STACK: usize = 8 << 20;

/// Minimum run time of kernels before their device is measured: `THALWEG_CALIBRATE`, in milliseconds, or `off`.
fn patience() -> Option<Duration> {
    static PATIENCE: OnceLock<Option<Duration>> = OnceLock::new();
    *PATIENCE.get_or_init(|| match environment::CALIBRATE.get() {
        // The only word that the variable accepts is `off`.
        Some(Value::Word(_)) => None,
        Some(Value::Number(ms)) => Some(Duration::from_millis(ms)),
        _ => Some(Duration::from_millis(1000)),
    })
}

/// Starts watching a device without saved constants: its kernels are timed from now on. Does nothing without a disk
/// cache, if devices are not to be measured, or if the device has no identity.
pub(super) fn begin(device: DeviceRef) {
    if disk::cache().is_some() && patience().is_some() && device.device().identity().is_some() {
        WAITS.store(number(device), Relaxed);
    }
}

fn number(device: DeviceRef) -> u32 {
    device.0 as u32 + 1
}

/// Clears a slot if it holds the device; returns whether it did.
fn take(place: &AtomicU32, device: DeviceRef) -> bool {
    place.compare_exchange(number(device), 0, Relaxed, Relaxed).is_ok()
}

/// Cancels the measurement of a device whose constants were set. Returns whether it was pending.
pub(super) fn end(device: DeviceRef) -> bool {
    let compiled = take(&COMPILES, device) | take(&COMPILED, device);
    take(&WAITS, device) || compiled
}

/// Whether the device waits to be measured, so that run times of its kernels are needed.
#[inline]
pub(crate) fn waits(device: DeviceRef) -> bool {
    WAITS.load(Relaxed) == number(device) || COMPILED.load(Relaxed) == number(device)
}

/// Adds a run time, as the host measures it, of a device that [`waits`]; measures the device when it is due.
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

/// Nanoseconds since the previous segment ran, at most [`PAUSE`]; 0 for the first.
fn since_last() -> u64 {
    let now = BEGIN.elapsed().as_nanos() as u64;
    let last = LAST.swap(now, Relaxed);
    if last == 0 { 0 } else { now.saturating_sub(last).min(PAUSE.as_nanos() as u64) }
}

/// Compiles the samples on a separate thread.
#[cold]
fn compile(device: DeviceRef) {
    device.device().compile_in_background();
    COMPILES.store(number(device), Relaxed);
    let work = move || match compile_samples(device) {
        // Ready, unless constants were set meanwhile.
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
