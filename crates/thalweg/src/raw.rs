//! Operations as a stream takes them, for the fuzzer: its programs are such. Nothing is checked.

use crate::operand::Arg;
use crate::record::{push, record0};
use crate::{DType, Shape, Tensor};
use std::sync::Arc;
use thalweg_ir::Op;
use thalweg_stream::Value;

/// An argument of an operation.
pub enum RawArg<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A scalar in the form of [`thalweg_ir::Scalar::to_bits`].
    Scalar(u64),
}

/// A tensor of this value.
pub fn tensor(value: Arc<Value>) -> Tensor {
    Tensor::of(value)
}

/// Records an operation that is as [`Op`] says; one without tensors on the default device.
///
/// # Panics
/// With more than three arguments.
pub fn record(op: Op, dtype: DType, shape: Shape, attr: u32, args: &[RawArg<'_>], ints: &[i64]) -> Tensor {
    let arg = |i: usize| match args[i] {
        RawArg::Tensor(t) => Arg::Tensor(t),
        RawArg::Scalar(bits) => Arg::Scalar(bits),
    };
    match args {
        [] => record0(crate::Device::default().0, op, dtype, shape, None),
        [RawArg::Scalar(bits)] => record0(crate::Device::default().0, op, dtype, shape, Some(*bits)),
        [_] => push(op, dtype, shape, attr, [arg(0)], ints),
        [_, _] => push(op, dtype, shape, attr, [arg(0), arg(1)], ints),
        [_, _, _] => push(op, dtype, shape, attr, [arg(0), arg(1), arg(2)], ints),
        _ => panic!("{}: {} arguments", op.name(), args.len()),
    }
}
