//! Tests of the device as the rest of Thalweg uses it.

mod maps;
mod measure;
mod products;
mod reductions;

use crate::{CpuDevice, CpuOptions};
use std::sync::Arc;
use thalweg_runtime::{Buffer, Device};

pub struct Lcg(pub u64);

impl Lcg {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    /// A multiple of 1/64 in ±8: sums and products of few are exact.
    pub fn value(&mut self) -> f64 {
        (self.below(1025) as f64 - 512.0) / 64.0
    }
}

/// A device that uses so many threads for everything, however little.
pub fn device(threads: usize) -> Arc<CpuDevice> {
    CpuDevice::with(CpuOptions { threads, parallel_ns: 0.0, ..CpuOptions::default() })
}

pub fn upload<T: Copy>(device: &dyn Device, values: &[T]) -> Buffer {
    let buffer = device.allocate(size_of_val(values)).unwrap();
    // SAFETY: the values are of primitive types without padding.
    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
    device.write(&buffer, bytes).unwrap();
    buffer
}

pub fn download<T: Copy + Default>(device: &dyn Device, buffer: &Buffer, n: usize) -> Vec<T> {
    let mut values = vec![T::default(); n];
    // SAFETY: as above.
    let bytes = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), n * size_of::<T>()) };
    device.read(buffer, bytes).unwrap();
    values
}
