//! A device's memory as the pool of buffers takes it.
//!
//! In: sizes. Out: addresses on the device, in the form of pointers that the host must not follow.
//!
//! Always true: memory is given back in the order of the device's queue, behind what a batch keeps back, so a buffer
//! may go while what uses it has not run yet.

use crate::driver::Driver;
use crate::queue::Queue;
use std::ptr::NonNull;
use std::sync::Arc;
use thalweg_runtime::{Memory, Pool};

/// Memory of a device behind [`Memory`].
#[derive(Debug)]
pub struct DeviceMemory {
    queue: Arc<Queue>,
}

impl DeviceMemory {
    /// A pool of buffers in the memory of the device that has this queue; errors call it by that name.
    pub fn pool(queue: Arc<Queue>, name: String) -> Arc<Pool> {
        Pool::new(name, Box::new(DeviceMemory { queue }))
    }

    fn driver(&self) -> &dyn Driver {
        self.queue.driver()
    }
}

impl Memory for DeviceMemory {
    fn obtain(&self, bytes: usize) -> Option<NonNull<u8>> {
        let address = self.driver().obtain(bytes)?;
        NonNull::new(std::ptr::without_provenance_mut(usize::try_from(address).ok()?))
    }

    unsafe fn release(&self, block: NonNull<u8>, _bytes: usize) {
        self.queue.release(block.as_ptr() as u64);
    }

    fn total(&self) -> Option<usize> {
        Some(self.driver().chip().memory)
    }
}

#[cfg(all(test, feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::driver::Emulated;

    #[test]
    fn blocks_are_recycled_and_given_back_when_memory_runs_out() {
        let driver = Arc::new(Emulated::new().unwrap());
        let queue = Arc::new(Queue::new(driver.clone(), "cuda:emulated").unwrap());
        let pool = DeviceMemory::pool(queue, "cuda:emulated".into());
        let a = pool.allocate(1000).unwrap();
        let address = a.address() as u64;
        driver.write(address, &[7; 1000]).unwrap();
        drop(a);
        assert_eq!(pool.allocate(1000).unwrap().address() as u64, address);
        // 8 GiB in all: 5 that are kept have to go for 6.
        drop(pool.allocate(5 << 30).unwrap());
        assert_eq!(pool.stats().reserved, (5 << 30) + 1024);
        let all = pool.allocate(6 << 30).unwrap();
        assert_eq!(pool.stats().reserved, 6 << 30);
        let error = pool.allocate(3 << 30).unwrap_err().to_string();
        assert_eq!(error, "out of memory on cuda:emulated: 3.0 GiB asked for, 6.0 GiB in use");
        drop(all);
        driver.synchronize().unwrap();
    }
}
