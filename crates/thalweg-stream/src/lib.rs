//! Streams: eager operations recorded, recognised, cut into segments and run.
#![allow(unused, missing_docs)]

use std::sync::Arc;
use thalweg_ir::{DType, Op, Scalar, Shape, View};
use thalweg_runtime::{Buffer, Device, Error};

/// A device that streams can run on, registered once a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeviceRef(pub(crate) u16);

impl DeviceRef {
    /// Registers a device (for the life of the process).
    pub fn register(device: Arc<dyn Device>) -> DeviceRef {
        unimplemented!()
    }
    /// The device.
    pub fn device(self) -> &'static Arc<dyn Device> {
        unimplemented!()
    }
}

/// The result of a recorded operation, or data that was there before: what a tensor handle holds.
#[derive(Debug)]
pub struct Value {
    shape: Shape,
    dtype: DType,
    device: DeviceRef,
}

/// Where a computed value lies. A view of the buffer; several values may share one buffer.
#[derive(Clone, Debug)]
pub struct Storage {
    pub buffer: Buffer,
    pub view: View,
}

impl Value {
    /// Its shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    /// Its dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Its device.
    pub fn device(&self) -> DeviceRef {
        self.device
    }
    /// A value that is there already, row-major in `buffer`.
    pub fn ready(device: DeviceRef, buffer: Buffer, shape: Shape, dtype: DType) -> Arc<Value> {
        unimplemented!()
    }
    /// Where the value lies; cuts the stream and runs what is needed if it has not been computed yet.
    pub fn storage(self: &Arc<Value>) -> Result<Storage, Error> {
        unimplemented!()
    }
    /// The value's elements, row-major, as bytes of its dtype; cuts the stream if need be.
    pub fn read(self: &Arc<Value>) -> Result<Vec<u8>, Error> {
        unimplemented!()
    }
}

/// An argument of an operation.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// A tensor's value.
    Value(&'a Arc<Value>),
    /// A scalar in the form of [`Scalar::to_bits`] for the dtype it is computed in.
    Scalar(u64),
}

/// Records an operation on the calling thread's stream of `device`; runs nothing. The caller has checked shapes and dtypes,
/// `shape` and `dtype` are those of the result; `attr`, `args` and `ints` are as [`Op`]'s variants say.
pub fn record(device: DeviceRef, op: Op, dtype: DType, shape: Shape, attr: u32, args: &[Operand<'_>], ints: &[i64]) -> Arc<Value> {
    unimplemented!()
}

/// Cuts the calling thread's streams and runs what was recorded. Returns when all has run.
pub fn synchronize() -> Result<(), Error> {
    unimplemented!()
}

/// How segments are planned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode {
    /// Operations share kernels; otherwise each is a kernel of its own.
    pub fused: bool,
    /// Fused and unfused agree to the bit.
    pub strict: bool,
}

/// The calling thread's mode: from `THALWEG_FUSION` and `THALWEG_STRICT` until set.
pub fn mode() -> Mode {
    unimplemented!()
}

/// Sets the calling thread's mode for what is recorded from now on, and returns the old one.
pub fn set_mode(mode: Mode) -> Mode {
    unimplemented!()
}
