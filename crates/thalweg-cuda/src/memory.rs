//! The pool's memory: the driver's.

use crate::driver::Driver;
use std::ptr::NonNull;
use std::sync::Arc;
use thalweg_runtime::Memory;

/// Device memory, addresses as pointers that the host does not follow.
#[derive(Debug)]
pub struct DriverMemory(Arc<dyn Driver>);

impl DriverMemory {
    /// Of that driver.
    pub fn new(driver: Arc<dyn Driver>) -> DriverMemory {
        DriverMemory(driver)
    }
}

impl Memory for DriverMemory {
    fn obtain(&self, bytes: usize) -> Option<NonNull<u8>> {
        NonNull::new(self.0.obtain(bytes)? as *mut u8)
    }

    unsafe fn release(&self, block: NonNull<u8>, _: usize) {
        self.0.release(block.as_ptr() as u64);
    }

    fn total(&self) -> Option<usize> {
        Some(self.0.chip().memory)
    }
}
