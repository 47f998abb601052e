//! Unchecked recording of operations in the stream's form, for the fuzzer.

use crate::operand::Arg;
use crate::record::{push_all, record0};
use crate::{DType, Shape, Tensor};
use std::sync::Arc;
use thalweg_ir::Op;
use thalweg_stream::Value;

/// Argument of an operation that [`record`] records.
pub enum RawArg<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A scalar in the form of [`thalweg_ir::Scalar::to_bits`].
    Scalar(u64),
}

/// Wraps a value as an untracked tensor.
pub fn tensor(value: Arc<Value>) -> Tensor {
    Tensor::of(value)
}

/// Records an operation as [`Op`] defines it; an operation without tensors is on the default device.
///
/// # Panics
/// When there are more arguments than the operation has.
pub fn record(op: Op, dtype: DType, shape: Shape, attr: u32, args: &[RawArg<'_>], ints: &[i64]) -> Tensor {
    let arg = |i: usize| match args[i] {
        RawArg::Tensor(t) => Arg::Tensor(t),
        RawArg::Scalar(bits) => Arg::Scalar(bits),
    };
    match args {
        [] => record0(crate::Device::default().0, op, dtype, shape, None),
        [RawArg::Scalar(bits)] => record0(crate::Device::default().0, op, dtype, shape, Some(*bits)),
        _ => push_all(op, dtype, shape, attr, &(0..args.len()).map(arg).collect::<Vec<_>>(), ints),
    }
}
