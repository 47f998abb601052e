//! Events: points in the queue.

use super::WgpuDriver;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;
use thalweg_gpu::runtime::Event;
use thalweg_runtime::Error;
use wgpu::SubmissionIndex;

/// Point after a submission.
#[derive(Debug)]
pub struct SubmissionEvent {
    pub driver: WgpuDriver,
    pub submission: Option<SubmissionIndex>,
    pub happened: Arc<AtomicBool>,
    /// Host time at which the queue was found empty, for a timed event.
    pub time: Option<Instant>,
}

impl Event for SubmissionEvent {
    fn wait(&self) -> Result<(), Error> {
        if !self.happened.load(Relaxed) {
            self.driver.wait(self.submission.clone())?;
            self.happened.store(true, Relaxed);
        }
        self.driver.healthy()
    }

    fn has_happened(&self) -> Result<bool, Error> {
        if !self.happened.load(Relaxed) {
            self.driver.poll()?;
        }
        Ok(self.happened.load(Relaxed))
    }

    fn since(&self, earlier: &dyn Event) -> Result<f64, Error> {
        self.wait()?;
        // The handle of an event is its time in nanoseconds since the driver was opened.
        Ok(self.handle() as f64 - earlier.handle() as f64)
    }

    fn handle(&self) -> usize {
        self.time.map_or(0, |time| self.driver.nanoseconds(time))
    }
}
