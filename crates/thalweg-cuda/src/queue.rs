//! The device's one queue, with what all launches share: the place where an index out of range is told, and counters.

use crate::driver::{Driver, Launch};
use std::sync::Arc;
use thalweg_runtime::{Error, count};

/// Counters that a launch may use: one for each group of blocks that ends in one of them finding itself the last.
pub const COUNTERS: usize = 1 << 16;

/// The queue of a device.
#[derive(Debug)]
pub struct Queue {
    driver: Arc<dyn Driver>,
    /// Device memory: one word for the fault, then the counters.
    shared: u64,
}

/// Bytes before the counters.
const HEAD: usize = 256;

impl Queue {
    /// The queue of that driver.
    ///
    /// # Errors
    /// When there is no memory for what launches share.
    pub fn new(driver: Arc<dyn Driver>, device: &str) -> Result<Queue, Error> {
        let bytes = HEAD + 4 * COUNTERS;
        let none = || Error::OutOfMemory { requested: bytes, in_use: 0, limit: None, device: device.into() };
        let shared = driver.obtain(bytes).ok_or_else(none)?;
        driver.fill(shared, 0, bytes)?;
        Ok(Queue { driver, shared })
    }

    /// The address of the fault.
    pub fn fault(&self) -> u64 {
        self.shared
    }

    /// The address of the counters, all 0 between launches.
    pub fn counters(&self) -> u64 {
        self.shared + HEAD as u64
    }

    /// Puts a launch in the queue.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn launch(&self, launch: &Launch) -> Result<(), Error> {
        count(|c| c.device_launches += 1);
        self.driver.launch(launch)
    }

    /// Whether an index was out of range in what was queued since the last time somebody asked; waits for it.
    ///
    /// # Errors
    /// When the device fails.
    pub fn faulted(&self) -> Result<bool, Error> {
        let mut word = [0; 4];
        self.driver.read(self.shared, &mut word)?;
        let faulted = word != [0; 4];
        if faulted {
            self.driver.fill(self.shared, 0, 4)?;
        }
        Ok(faulted)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.driver.release(self.shared);
    }
}
