//! Device memory for the pool of buffers.
//!
//! In: sizes. Out: addresses on the device, in the form of pointers that the host must not dereference.
//!
//! Always true: memory is allocated and freed in a queue of its own, after its earlier uses and before its later ones.
//! So a buffer may be dropped while its uses have not run yet, and the host does not wait.

use crate::driver::Driver;
use crate::order::MEMORY;
use crate::queues::Queues;
use std::ptr::NonNull;
use std::sync::Arc;
use thalweg_runtime::{Block, Memory, Points, Pool, When};

/// Implementation of [`Memory`] for a device.
#[derive(Debug)]
pub struct DeviceMemory {
    queues: Arc<Queues>,
}

impl DeviceMemory {
    /// Pool of buffers in the memory of the device with these queues; `name` is its name in errors.
    pub fn pool(queues: Arc<Queues>, name: String) -> Arc<Pool> {
        Pool::new(name, Box::new(DeviceMemory { queues }))
    }

    fn driver(&self) -> &dyn Driver {
        &**self.queues.order().driver(MEMORY)
    }
}

impl Memory for DeviceMemory {
    fn obtain(&self, bytes: usize) -> Option<Block> {
        let address = self.driver().obtain(bytes)?;
        let start = NonNull::new(std::ptr::without_provenance_mut(usize::try_from(address).ok()?))?;
        let mut block = Block::unused(start);
        let queue = self.queues.order().queue(MEMORY);
        block.last[queue] = self.queues.order().stamp(queue).0;
        Some(block)
    }

    unsafe fn release(&self, block: Block, _bytes: usize) {
        let (order, address) = (self.queues.order(), block.start.as_ptr() as u64);
        if let (true, Ok(own)) = (order.is_one(), self.queues.mine()) {
            let given_back = own.after_deferred(&mut || {
                self.driver().release(address);
                Ok(())
            });
            if let Err(error) = given_back {
                tracing::debug!(%error, "memory is given back in a queue that fails");
            }
            return;
        }
        let behind = order.wait_for_points(order.queue(MEMORY), &block.last, &|other| self.queues.make_whole(other));
        if let Err(error) = behind {
            // The device has failed.
            tracing::debug!(%error, "memory is not given back");
            return;
        }
        self.driver().release(address);
    }

    fn when(&self, points: &Points, queue: Option<usize>) -> When {
        self.queues.order().when(queue.unwrap_or_else(|| self.queues.number()), points)
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
        let queues = Queues::new(&(driver.clone() as Arc<dyn Driver>), "cuda:emulated").unwrap();
        let pool = DeviceMemory::pool(queues, "cuda:emulated".into());
        let a = pool.allocate(1000).unwrap();
        let address = a.address() as u64;
        driver.write(address, &[7; 1000]).unwrap();
        drop(a);
        assert_eq!(pool.allocate(1000).unwrap().address() as u64, address);
        // 8 GiB in all: 5 cached ones must be freed for 6.
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
