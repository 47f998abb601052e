//! Clocks that time samples, and fitting constants to their times.
//!
//! In: samples, and a [`Clock`]. Out: constants, scaled so that the model is right about each sample. A clock may give
//! no time: then constants keep their values.

use super::SANE;
use super::samples::{self, Sample, Sizes};
use thalweg_fusion::Costs;
use thalweg_kernel::{Geometry, Kernel};
use thalweg_runtime::Error;

/// Source of the times of calibration samples.
pub trait Clock {
    /// Nanoseconds of a launch with `footprint` bytes in use: its operands' bytes, or more if launches go through
    /// larger buffers one after another. `None` if there is no time.
    ///
    /// # Errors
    /// When the device fails.
    fn time(&mut self, sample: &Sample, footprint: u64) -> Result<Option<f64>, Error>;
}

/// Clock that measures nothing, but lists the kernels that have to be compiled for the samples.
#[derive(Default)]
pub struct List(pub Vec<(Kernel, Geometry)>);

impl Clock for List {
    fn time(&mut self, sample: &Sample, _: u64) -> Result<Option<f64>, Error> {
        self.0.push((sample.kernel.clone(), sample.geometry.clone()));
        let (_, read) = sample.bytes.split_last().expect("a sample writes something");
        for (&bytes, _) in read.iter().zip(&sample.contents).filter(|(_, contents)| contents.is_none()) {
            let filled = samples::filled(sample.dtype, bytes);
            self.0.push((filled.kernel, filled.geometry));
        }
        Ok(None)
    }
}

/// Clock that returns the model's prediction with these constants, minus the offset that no clock measures: see
/// [`Bench::offset`].
pub struct Model<'a>(pub &'a Costs, pub f64);

impl Clock for Model<'_> {
    fn time(&mut self, sample: &Sample, footprint: u64) -> Result<Option<f64>, Error> {
        Ok(Some(sample.model(self.0, footprint) - self.1))
    }
}

/// Calibration in progress: cost constants that are being fitted, and the clock that they are fitted to.
pub struct Bench<'a> {
    pub costs: Costs,
    /// Typical constants of the kind of device.
    pub typical: Costs,
    pub sizes: Sizes,
    /// Nanoseconds that the model counts per launch and that measured times do not include.
    pub offset: f64,
    clock: &'a mut dyn Clock,
}

impl<'a> Bench<'a> {
    /// Starts a calibration from the typical constants.
    pub fn new(typical: &Costs, sizes: Sizes, clock: &'a mut dyn Clock) -> Bench<'a> {
        Bench { costs: typical.clone(), typical: typical.clone(), sizes, offset: 0.0, clock }
    }

    /// Scales constants until the model is right about a sample; returns the factor.
    pub fn fit(
        &mut self,
        sample: impl FnOnce(&Sizes) -> Sample,
        scale: impl Fn(&mut Costs, f64),
    ) -> Result<f64, Error> {
        let sample = sample(&self.sizes);
        let footprint = sample.footprint();
        self.fit_within(&sample, footprint, scale)
    }

    /// Like [`fit`](Self::fit), with `footprint` bytes in use.
    pub fn fit_within(
        &mut self,
        sample: &Sample,
        footprint: u64,
        scale: impl Fn(&mut Costs, f64),
    ) -> Result<f64, Error> {
        let scaled = |f: f64| {
            let mut costs = self.costs.clone();
            scale(&mut costs, f);
            costs
        };
        // A sample whose prediction does not depend on the constant need not be timed.
        if sample.model(&scaled(1.0 / SANE), footprint) == sample.model(&scaled(SANE), footprint) {
            return Ok(1.0);
        }
        let Some(ns) = self.clock.time(sample, footprint)? else { return Ok(1.0) };
        let ns = ns + self.offset;
        let (mut low, mut high) = (1.0 / SANE, SANE);
        for _ in 0..24 {
            let middle = f64::sqrt(low * high);
            *(if sample.model(&scaled(middle), footprint) < ns { &mut low } else { &mut high }) = middle;
        }
        let factor = f64::sqrt(low * high);
        self.costs = scaled(factor);
        Ok(factor)
    }
}
