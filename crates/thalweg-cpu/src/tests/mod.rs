//! Tests of the device through its public interface.

mod axes;
mod gathers;
mod groups;
mod maps;
mod measure;
mod narrow;
mod products;
mod reductions;
mod rows;
mod scans;

use crate::{CpuDevice, CpuOptions};
use half::{bf16, f16};
use std::sync::Arc;
use thalweg_ir::{DType, Scalar};
use thalweg_runtime::{Buffer, Device};

pub struct Lcg(pub u64);

impl Lcg {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    /// Returns a random multiple of 1/64 in ±8: sums and products of a few such numbers are exact.
    pub fn value(&mut self) -> f64 {
        (self.below(1025) as f64 - 512.0) / 64.0
    }
}

/// Opens a device that uses `threads` threads for every launch, however small.
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

/// Reads one element of a dtype from memory.
///
/// # Safety
/// The address is readable and holds an element.
pub unsafe fn read(address: *const u8, dtype: DType) -> Scalar {
    // SAFETY: the caller's promise, for the type of the dtype.
    unsafe {
        match dtype {
            DType::F32 => Scalar::Float(*address.cast::<f32>() as f64),
            DType::F64 => Scalar::Float(*address.cast::<f64>()),
            DType::BF16 => Scalar::Float(address.cast::<bf16>().read().to_f64()),
            DType::F16 => Scalar::Float(address.cast::<f16>().read().to_f64()),
            DType::I8 => Scalar::Int(*address.cast::<i8>() as i64),
            DType::I16 => Scalar::Int(*address.cast::<i16>() as i64),
            DType::I32 => Scalar::Int(*address.cast::<i32>() as i64),
            DType::I64 => Scalar::Int(*address.cast::<i64>()),
            DType::U8 => Scalar::Int(*address as i64),
            DType::U16 => Scalar::Int(*address.cast::<u16>() as i64),
            DType::U32 => Scalar::Int(*address.cast::<u32>() as i64),
            DType::U64 => Scalar::from(*address.cast::<u64>()),
            DType::Bool => Scalar::Bool(*address != 0),
        }
    }
}

/// Writes one element of a dtype to memory.
///
/// # Safety
/// The address is writable and has space for an element.
pub unsafe fn write(address: *mut u8, dtype: DType, value: Scalar) {
    let (v, i) = (value.to_f64(), value.to_i64());
    // SAFETY: the caller's promise, for the type of the dtype.
    unsafe {
        match dtype {
            DType::F32 => *address.cast::<f32>() = v as f32,
            DType::F64 => *address.cast::<f64>() = v,
            DType::BF16 => address.cast::<bf16>().write(bf16::from_f64(v)),
            DType::F16 => address.cast::<f16>().write(f16::from_f64(v)),
            DType::I8 => *address.cast::<i8>() = i as i8,
            DType::I16 => *address.cast::<i16>() = i as i16,
            DType::I32 => *address.cast::<i32>() = i as i32,
            DType::I64 => *address.cast::<i64>() = i,
            DType::U8 => *address = i as u8,
            DType::U16 => *address.cast::<u16>() = i as u16,
            DType::U32 => *address.cast::<u32>() = i as u32,
            DType::U64 => *address.cast::<u64>() = i as u64,
            DType::Bool => *address = (v != 0.0) as u8,
        }
    }
}
