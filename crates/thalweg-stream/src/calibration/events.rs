//! Timing samples by the device's clock, where launches are asynchronous.
//!
//! In: samples. Out: nanoseconds of one launch among others of the same sample. Always true: all timed launches were
//! queued before the first of them began ([`super::ahead`]), so the host does not influence the times.

use super::ahead::Ahead;
use super::clock::Clock;
use super::measure::filled;
use super::samples::{self, Sample, Sizes};
use crate::DeviceRef;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_kernel::Geometry;
use thalweg_runtime::{Buffer, Device, Error, Program, Timing};

/// Target for the nanoseconds of a timed batch (`BATCH`), long enough for a clock resolution of half a microsecond;
/// maximum number of launches in a batch (`MAX_BATCH_LAUNCHES`); number of batches (`TIMES`).
const BATCH: f64 = 60_000.0;
const MAX_BATCH_LAUNCHES: f64 = 24.0;
const TIMES: usize = 4;
/// Maximum number of launches that the host can queue while the device is busy with one launch of [`Ahead`].
const MAX_QUEUED_LAUNCHES: usize = 16;
/// Warm-up time: an idle chip takes that long to reach its clock frequency.
const WARM: Duration = Duration::from_millis(15);

/// Clock of a device with asynchronous launches.
pub struct DeviceClock {
    device: &'static Arc<dyn Device>,
    ahead: Ahead,
}

impl DeviceClock {
    /// Creates the clock, and launches a sample until the chip has warmed up ([`WARM`]).
    ///
    /// # Errors
    /// When the device fails.
    pub fn new(device: DeviceRef, sizes: &Sizes) -> Result<DeviceClock, Error> {
        let clock = DeviceClock { device: device.device(), ahead: Ahead::of(device)? };
        let begin = Instant::now();
        let ready = Ready::new(clock.device, &samples::simple(sizes))?;
        while begin.elapsed() < WARM {
            clock.launches(&ready, MAX_BATCH_LAUNCHES as usize)?;
        }
        Ok(clock)
    }

    /// Nanoseconds of one launch, averaged over `count` launches.
    fn launches(&self, ready: &Ready, count: usize) -> Result<f64, Error> {
        let operands: Vec<&Buffer> = ready.operands.iter().collect();
        let mut timing: Option<Arc<dyn Timing>> = None;
        let mut run = || {
            self.ahead.launch(count.div_ceil(MAX_QUEUED_LAUNCHES))?;
            let mut launches = || (0..count).try_for_each(|_| ready.program.launch(&ready.geometry, &operands, &[]));
            timing = self.device.clocked(&mut launches)?;
            Ok(())
        };
        self.device.batch(None, false, &mut run)?;
        self.device.synchronize()?;
        let elapsed = timing.map(|t| t.elapsed()).transpose()?.flatten();
        let none = || Error::Device { device: self.device.name().into(), message: "it has no clock".into() };
        Ok(elapsed.ok_or_else(none)? as f64 / count as f64)
    }
}

impl Clock for DeviceClock {
    fn time(&mut self, sample: &Sample, _: u64) -> Result<Option<f64>, Error> {
        let ready = Ready::new(self.device, sample)?;
        let once = self.launches(&ready, 2)?;
        let count = (BATCH / once.max(1.0)).clamp(1.0, MAX_BATCH_LAUNCHES) as usize;
        let mut all = (0..TIMES).map(|_| self.launches(&ready, count)).collect::<Result<Vec<f64>, Error>>()?;
        all.sort_by(f64::total_cmp);
        Ok(Some(all[TIMES / 4]))
    }
}

/// Compiled sample, with its operands.
struct Ready {
    program: Arc<dyn Program>,
    geometry: Geometry,
    operands: Vec<Buffer>,
}

impl Ready {
    fn new(device: &Arc<dyn Device>, sample: &Sample) -> Result<Ready, Error> {
        let program = device.prepare(&[(&sample.kernel, &sample.geometry)])?.remove(0);
        Ok(Ready { program, geometry: sample.geometry.clone(), operands: filled(device, sample)? })
    }
}
