//! Timing sample kernels, and the constants that explain the times.

use super::SANE;
use super::samples::{self, Sample};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_fusion::{Costs, figures};
use thalweg_runtime::{Buffer, Device, Error};

/// Time for a sample, compiling not counted, and the least number of batches.
const BUDGET: Duration = Duration::from_micros(2500);
const BATCHES: usize = 5;
/// A batch is so many launches that it takes at least this.
const BATCH: Duration = Duration::from_micros(20);
/// Bytes of a launch where many go through large buffers one after another: too few to be worth a second thread.
const SLICE: u64 = 1 << 20;

/// A device being measured, with the constants so far.
pub struct Bench {
    device: Arc<dyn Device>,
    pub costs: Costs,
}

impl Bench {
    pub fn new(device: Arc<dyn Device>) -> Bench {
        Bench { device, costs: Costs::typical() }
    }

    /// Sets constants, which `scale` multiplies, to what makes the model right about the sample. Returns the factor.
    pub fn fit(&mut self, sample: &Sample, scale: impl Fn(&mut Costs, f64)) -> Result<f64, Error> {
        let ns = self.time(sample)?;
        Ok(self.explain(sample, sample.footprint(), ns, scale))
    }

    /// The same with buffers of so many bytes in use, small launches going through them: what one thread does.
    pub fn fit_slices(&mut self, footprint: u64, scale: impl Fn(&mut Costs, f64)) -> Result<f64, Error> {
        let whole = samples::copy(footprint);
        let operands = self.operands(&whole)?;
        let operands: Vec<&Buffer> = operands.iter().collect();
        let slices = footprint / SLICE;
        let parts: Vec<Sample> = (0..slices).map(|i| samples::copy_from(SLICE, i * SLICE / 8)).collect();
        let program = self.device.program(&whole.kernel)?;
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let begin = Instant::now();
            for part in &parts {
                program.launch(&part.geometry, &operands, &[])?;
            }
            self.device.synchronize()?;
            best = best.min(begin.elapsed().as_nanos() as f64 / slices as f64);
        }
        Ok(self.explain(&parts[0], footprint, best, scale))
    }

    /// What the model says of a sample, in nanoseconds.
    pub fn predicted(&self, sample: &Sample) -> f64 {
        model(&self.costs, sample, sample.footprint())
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

    /// Nanoseconds of a launch: the lower quartile of batches.
    pub fn time(&self, sample: &Sample) -> Result<f64, Error> {
        let program = self.device.program(&sample.kernel)?;
        let operands = self.operands(sample)?;
        let operands: Vec<&Buffer> = operands.iter().collect();
        let written = *sample.bytes.last().expect("a sample writes something");
        let launch = || -> Result<(), Error> {
            // A stream takes memory for every result.
            let _result = if written < BUFFER_IS_FREE { Some(self.device.allocate(written)?) } else { None };
            program.launch(&sample.geometry, &operands, &[])
        };
        let batch = |n: usize| -> Result<Duration, Error> {
            let begin = Instant::now();
            for _ in 0..n {
                launch()?;
            }
            self.device.synchronize()?;
            Ok(begin.elapsed())
        };
        batch(1)?;
        let once = batch(2)? / 2;
        let n = (BATCH.as_nanos() / once.as_nanos().max(1)).clamp(1, 1000) as usize;
        let begin = Instant::now();
        let mut times = vec![];
        while times.len() < BATCHES || begin.elapsed() < BUDGET {
            times.push(batch(n)?.as_nanos() as f64 / n as f64);
            if times.len() >= 2 && begin.elapsed() > 4 * BUDGET {
                break;
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 4])
    }

    fn operands(&self, sample: &Sample) -> Result<Vec<Buffer>, Error> {
        let fill = |(i, &bytes): (usize, &usize)| {
            let buffer = self.device.allocate(bytes)?;
            match &sample.contents[i] {
                Some(contents) => self.device.write(&buffer, contents)?,
                // The first launch touches what it writes.
                None if i + 1 == sample.bytes.len() => {}
                None => {
                    let zeros = samples::zeros(bytes);
                    self.device.program(&zeros.kernel)?.launch(&zeros.geometry, &[&buffer], &[])?;
                }
            }
            Ok(buffer)
        };
        sample.bytes.iter().enumerate().map(fill).collect()
    }
}

/// Bytes from which taking memory for a result is nothing beside filling it.
const BUFFER_IS_FREE: usize = 1 << 20;

fn model(costs: &Costs, sample: &Sample, footprint: u64) -> f64 {
    let (touched, written) = sample.bytes.split_at(sample.bytes.len() - 1);
    costs.time(&figures(&sample.kernel, &sample.geometry, touched, written), footprint) as f64 / 1e3
}
