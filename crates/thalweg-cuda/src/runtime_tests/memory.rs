//! Tests of device memory.

use crate::driver::{Driver, Emulated};
use std::sync::Arc;
use thalweg_gpu::runtime::{DeviceMemory, Queues};

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
