//! Device memory for the pool of buffers.
//!
//! In: sizes. Out: addresses on the device, in the form of pointers that the host must not dereference.
//!
//! Always true: memory is allocated and freed in a queue of its own, after its earlier uses and before its later ones.
//! So a buffer may be dropped while its uses have not run yet, and the host does not wait.

use super::driver::Driver;
use super::order::MEMORY;
use super::queues::Queues;
use std::ptr::NonNull;
use std::sync::Arc;
use thalweg_runtime::{Block, Memory, Points, Pool, When};

/// Memory source ([`Memory`]) of a device's pool: it allocates by the driver.
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
