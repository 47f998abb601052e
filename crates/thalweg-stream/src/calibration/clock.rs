//! Who says how long a sample takes, and the constants that explain it.
//!
//! In: samples, and a [`Clock`]. Out: constants, scaled to what makes the model right about each. A clock may say nothing:
//! then constants stay as they are.

use super::SANE;
use super::samples::{self, Sample, Sizes};
use thalweg_fusion::Costs;
use thalweg_kernel::{Geometry, Kernel};
use thalweg_runtime::Error;

/// Says how long a sample takes.
pub trait Clock {
    /// Nanoseconds of a launch with so many bytes in use: those of its operands, or more where launches go through larger
    /// buffers one after another. `None` where nobody knows.
    ///
    /// # Errors
    /// When the device fails.
    fn time(&mut self, sample: &Sample, footprint: u64) -> Result<Option<f64>, Error>;
}

/// Takes a list of what has to be compiled for the samples, and times none.
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

/// Says what the model says with these constants, less what is in no measured time: see [`Bench::offset`].
pub struct Model<'a>(pub &'a Costs, pub f64);

impl Clock for Model<'_> {
    fn time(&mut self, sample: &Sample, footprint: u64) -> Result<Option<f64>, Error> {
        Ok(Some(sample.model(self.0, footprint) - self.1))
    }
}

/// Constants that are being fitted.
pub struct Bench<'a> {
    pub costs: Costs,
    /// What a device of that kind gives.
    pub typical: Costs,
    pub sizes: Sizes,
    /// What the model counts for a launch that is not in the measured times.
    pub offset: f64,
    clock: &'a mut dyn Clock,
}

impl<'a> Bench<'a> {
    /// Begins with the typical constants.
    pub fn new(typical: &Costs, sizes: Sizes, clock: &'a mut dyn Clock) -> Bench<'a> {
        Bench { costs: typical.clone(), typical: typical.clone(), sizes, offset: 0.0, clock }
    }

    /// Scales constants to what makes the model right about a sample; returns the factor.
    pub fn fit(
        &mut self,
        sample: impl FnOnce(&Sizes) -> Sample,
        scale: impl Fn(&mut Costs, f64),
    ) -> Result<f64, Error> {
        let sample = sample(&self.sizes);
        let footprint = sample.footprint();
        self.fit_within(&sample, footprint, scale)
    }

    /// The same with so many bytes in use.
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
        // What the model has no such term for need not be timed.
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
