//! Timing samples by the host's clock, on a device with synchronous launches.
//!
//! The clock frequency of a processor, and the load of a shared one, change within milliseconds. So a *reference*
//! kernel is timed beside every batch: the result is the ratio of the two, times the shortest time that the reference
//! ever took. All constants thus belong to one speed of the machine.

use super::clock::Clock;
use super::samples::{self, Sample, Sizes};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_kernel::Geometry;
use thalweg_runtime::{Buffer, Device, Error, Program};

/// Time budget of a sample, without compiling (`BUDGET`), and minimum number of batches (`BATCHES`).
const BUDGET: Duration = Duration::from_micros(1500);
const BATCHES: usize = 5;
/// Minimum time of a batch, which determines its number of launches.
const BATCH: Duration = Duration::from_micros(20);
/// Bytes moved by one launch where many launches go through large buffers one after another: too few to use a second
/// thread.
pub const SLICE: u64 = 1 << 20;

/// Clock that measures launches by the host's time.
pub struct HostClock {
    device: Arc<dyn Device>,
    /// Minimum time of the reference kernel so far, in nanoseconds; `reference` launches it.
    fastest: Cell<f64>,
    reference: Ready,
}

/// Compiled sample with its operands.
struct Ready {
    program: Arc<dyn Program>,
    geometry: Geometry,
    operands: Vec<Buffer>,
    /// Bytes of result memory that each launch allocates, as a stream does.
    result: usize,
}

impl Clock for HostClock {
    fn time(&mut self, sample: &Sample, footprint: u64) -> Result<Option<f64>, Error> {
        match footprint > sample.footprint() {
            true => self.slices(footprint).map(Some),
            false => self.whole(sample).map(Some),
        }
    }
}

impl HostClock {
    pub fn new(device: Arc<dyn Device>, sizes: &Sizes) -> Result<HostClock, Error> {
        let reference = ready(&device, &samples::simple(sizes))?;
        let clock = HostClock { device, fastest: Cell::new(f64::INFINITY), reference };
        // The clock frequency rises under load.
        let begin = Instant::now();
        while begin.elapsed() < 2 * BUDGET {
            clock.speed()?;
        }
        Ok(clock)
    }

    /// Times the reference kernel now.
    fn speed(&self) -> Result<f64, Error> {
        let ns = batch(&self.device, &self.reference, 3)?;
        self.fastest.set(self.fastest.get().min(ns));
        Ok(ns)
    }

    /// Nanoseconds of copying [`SLICE`] bytes on one thread, where successive copies go through buffers of `footprint`
    /// bytes.
    fn slices(&self, footprint: u64) -> Result<f64, Error> {
        let whole = ready(&self.device, &samples::copy(footprint))?;
        let operands: Vec<&Buffer> = whole.operands.iter().collect();
        let slices = footprint / SLICE;
        let parts: Vec<Sample> = (0..slices).map(|i| samples::copy_from(SLICE, i * SLICE / 8)).collect();
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let begin = Instant::now();
            for part in &parts {
                whole.program.launch(&part.geometry, &operands, &[])?;
            }
            self.device.synchronize()?;
            best = best.min(begin.elapsed().as_nanos() as f64 / slices as f64);
        }
        Ok(best)
    }

    /// Nanoseconds of a launch: the lower quartile over batches, each relative to the reference kernel timed beside it.
    fn whole(&self, sample: &Sample) -> Result<f64, Error> {
        let ready = ready(&self.device, sample)?;
        let once = batch(&self.device, &ready, 2)?;
        let n = (BATCH.as_nanos() as f64 / once).clamp(1.0, 1000.0) as usize;
        let begin = Instant::now();
        let mut ratios = vec![];
        while ratios.len() < BATCHES || begin.elapsed() < BUDGET {
            let before = self.speed()?;
            let ns = batch(&self.device, &ready, n)?;
            ratios.push(ns / before.midpoint(self.speed()?));
            if ratios.len() >= 2 && begin.elapsed() > 4 * BUDGET {
                break;
            }
        }
        ratios.sort_by(f64::total_cmp);
        Ok(ratios[ratios.len() / 4] * self.fastest.get())
    }
}

/// Nanoseconds of a launch, averaged over `n`.
fn batch(device: &Arc<dyn Device>, ready: &Ready, n: usize) -> Result<f64, Error> {
    let operands: Vec<&Buffer> = ready.operands.iter().collect();
    let begin = Instant::now();
    for _ in 0..n {
        let _result = if ready.result < BUFFER_IS_FREE { Some(device.allocate(ready.result)?) } else { None };
        ready.program.launch(&ready.geometry, &operands, &[])?;
    }
    device.synchronize()?;
    Ok(begin.elapsed().as_nanos() as f64 / n as f64)
}

/// Compiles a sample, fills its operands, and launches it once.
fn ready(device: &Arc<dyn Device>, sample: &Sample) -> Result<Ready, Error> {
    let operands = filled(device, sample)?;
    let program = device.program(&sample.kernel)?;
    let result = *sample.bytes.last().expect("a sample writes something");
    let ready = Ready { program, geometry: sample.geometry.clone(), operands, result };
    batch(device, &ready, 1)?;
    Ok(ready)
}

/// Minimum bytes of a result at which allocating it costs nothing compared with filling it.
const BUFFER_IS_FREE: usize = 1 << 20;

/// Operands of a sample, filled with their contents.
pub fn filled(device: &Arc<dyn Device>, sample: &Sample) -> Result<Vec<Buffer>, Error> {
    let fill = |(i, &bytes): (usize, &usize)| {
        let buffer = device.allocate(bytes)?;
        match &sample.contents[i] {
            Some(contents) => device.write(&buffer, contents)?,
            // The first launch touches the output.
            None if i + 1 == sample.bytes.len() => {}
            None => {
                let filled = samples::filled(sample.dtype, bytes);
                let program = device.prepare(&[(&filled.kernel, &filled.geometry)])?.remove(0);
                program.launch(&filled.geometry, &[&buffer], &[])?;
            }
        }
        Ok(buffer)
    };
    sample.bytes.iter().enumerate().map(fill).collect()
}
