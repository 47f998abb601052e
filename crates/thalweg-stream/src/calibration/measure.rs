//! Timing sample kernels, and the constants that explain the times.
//!
//! A processor changes its clock, and a shared one its neighbours, within milliseconds. So beside every batch a
//! *reference* kernel is timed: what counts is the ratio of the two, times the shortest that the reference ever took.
//! All constants so belong to one speed of the machine.

use super::SANE;
use super::samples::{self, Sample};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_fusion::Costs;
use thalweg_kernel::Geometry;
use thalweg_runtime::{Buffer, Device, Error, Program};

/// Time for a sample, compiling not counted, and the least number of batches.
const BUDGET: Duration = Duration::from_micros(1500);
const BATCHES: usize = 5;
/// A batch is so many launches that it takes at least this.
const BATCH: Duration = Duration::from_micros(20);
/// Bytes of a launch where many go through large buffers one after another: too few to be worth a second thread.
const SLICE: u64 = 1 << 20;

/// A device being measured, with the constants so far.
pub struct Bench {
    device: Arc<dyn Device>,
    pub costs: Costs,
    /// What the model counts for a launch that is not in the measured times.
    pub offset: f64,
    /// The shortest time of the reference kernel, in nanoseconds, and the parts to launch it.
    fastest: Cell<f64>,
    reference: Ready,
}

/// A sample that can be launched.
struct Ready {
    program: Arc<dyn Program>,
    geometry: Geometry,
    operands: Vec<Buffer>,
    /// Bytes of memory taken for each launch, as a stream does.
    result: usize,
}

impl Bench {
    pub fn new(device: Arc<dyn Device>) -> Result<Bench, Error> {
        let reference = ready(&device, samples::simple())?;
        let bench =
            Bench { device, costs: Costs::typical(), offset: 0.0, fastest: Cell::new(f64::INFINITY), reference };
        // The clock goes up when there is work.
        let begin = Instant::now();
        while begin.elapsed() < 2 * BUDGET {
            bench.speed()?;
        }
        Ok(bench)
    }

    /// Times the reference now.
    fn speed(&self) -> Result<f64, Error> {
        let ns = batch(&self.device, &self.reference, 3)?;
        self.fastest.set(self.fastest.get().min(ns));
        Ok(ns)
    }

    /// Scales constants to what makes the model right about the sample; returns the factor.
    pub fn fit(&mut self, sample: fn() -> Sample, scale: impl Fn(&mut Costs, f64)) -> Result<f64, Error> {
        self.fit_with(&sample, scale)
    }

    /// The same of a sample with parameters.
    pub fn fit_with(&mut self, sample: &dyn Fn() -> Sample, scale: impl Fn(&mut Costs, f64)) -> Result<f64, Error> {
        let ns = self.time(sample())?;
        let sample = sample();
        Ok(self.explain(&sample, sample.footprint(), ns + self.offset, scale))
    }

    /// The same with buffers of so many bytes in use, small launches going through them: what one thread does.
    pub fn fit_slices(&mut self, footprint: u64, scale: impl Fn(&mut Costs, f64)) -> Result<f64, Error> {
        let whole = ready(&self.device, samples::copy(footprint))?;
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
        Ok(self.explain(&parts[0], footprint, best + self.offset, scale))
    }

    /// The constants, scaled so that the model says `ns`.
    fn explain(&mut self, sample: &Sample, footprint: u64, ns: f64, scale: impl Fn(&mut Costs, f64)) -> f64 {
        let scaled = |f: f64| {
            let mut costs = self.costs.clone();
            scale(&mut costs, f);
            costs
        };
        let (mut low, mut high) = (1.0 / SANE, SANE);
        for _ in 0..24 {
            let middle = f64::sqrt(low * high);
            *(if model(&scaled(middle), sample, footprint) < ns { &mut low } else { &mut high }) = middle;
        }
        let factor = f64::sqrt(low * high);
        self.costs = scaled(factor);
        factor
    }

    /// Nanoseconds of a launch: the lower quartile of batches, each by the reference beside it.
    pub fn time(&self, sample: Sample) -> Result<f64, Error> {
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

/// Nanoseconds of a launch, of so many.
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
fn ready(device: &Arc<dyn Device>, sample: Sample) -> Result<Ready, Error> {
    let fill = |(i, &bytes): (usize, &usize)| {
        let buffer = device.allocate(bytes)?;
        match &sample.contents[i] {
            Some(contents) => device.write(&buffer, contents)?,
            // The first launch touches what it writes.
            None if i + 1 == sample.bytes.len() => {}
            None => {
                let filled = samples::filled(sample.dtype, bytes);
                device.program(&filled.kernel)?.launch(&filled.geometry, &[&buffer], &[])?;
            }
        }
        Ok(buffer)
    };
    let operands = sample.bytes.iter().enumerate().map(fill).collect::<Result<_, Error>>()?;
    let program = device.program(&sample.kernel)?;
    let result = *sample.bytes.last().expect("a sample writes something");
    let ready = Ready { program, geometry: sample.geometry, operands, result };
    batch(device, &ready, 1)?;
    Ok(ready)
}

/// Bytes from which taking memory for a result is nothing beside filling it.
const BUFFER_IS_FREE: usize = 1 << 20;

fn model(costs: &Costs, sample: &Sample, footprint: u64) -> f64 {
    let (touched, written) = sample.bytes.split_at(sample.bytes.len() - 1);
    costs.time(&costs.features(&sample.kernel, &sample.geometry, touched, written), footprint) as f64 / 1e3
}
