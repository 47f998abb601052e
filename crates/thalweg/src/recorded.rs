//! Recorded operations of pending tensors, for functions that are cheaper on the arguments than on the result.
//!
//! In: a tensor. Out: the operation that recorded its value, with its arguments as tensors of the same autograd graph.
//! Tensors that are already computed have none, so a replacement must mean the same: the caller guarantees that (and in
//! strict mode the same bits).

use crate::node::{Inputs, What};
use crate::operand::Arg;
use crate::record::push;
use crate::{Shape, Tensor};
use thalweg_ir::{ElementOp, Op};
use thalweg_stream::{self as stream, RecordedArg};

/// Argument of a recorded operation: a tensor, or the bits of a scalar in the dtype of computation.
#[derive(Clone)]
pub(crate) enum Argument {
    Tensor(Tensor),
    Scalar(u64),
}

/// Recorded operation of a tensor, with its arguments.
pub(crate) struct RecordedOp {
    pub op: Op,
    pub attr: u32,
    pub ints: Vec<i64>,
    pub args: Vec<Argument>,
}

impl RecordedOp {
    /// The tensor argument, if it is the only argument.
    pub fn operand(&self) -> Option<&Tensor> {
        match &self.args[..] {
            [Argument::Tensor(x)] => Some(x),
            _ => None,
        }
    }
}

/// The operation that recorded a tensor; `None` unless it is pending and, if tracked, its node is of that operation.
pub(crate) fn recorded_op(x: &Tensor) -> Option<RecordedOp> {
    let stream::RecordedOp { op, attr, ints, args } = stream::made(&x.value)?;
    let inputs: Option<Inputs> = match &x.node {
        None => None,
        Some(node) => match &node.what {
            What::Op { op: own, .. } if *own == op => Some(node.inputs(true)?),
            _ => return None,
        },
    };
    let of = |(i, arg): (usize, RecordedArg)| match arg {
        RecordedArg::Scalar(bits) => Argument::Scalar(bits),
        RecordedArg::Value(value) => {
            let node = inputs.as_ref().and_then(|inputs| inputs.args.get(i)?.node().cloned());
            Argument::Tensor(Tensor { value, node })
        }
    };
    Some(RecordedOp { op, attr, ints, args: args.into_iter().enumerate().map(of).collect() })
}

/// Whether sums may be reordered if that is cheaper. Not in modes that guarantee bits, since what is pending depends on
/// what else was recorded and read.
pub(crate) fn may_reorder() -> bool {
    let mode = stream::mode();
    !(mode.strict || mode.reproducible)
}

/// Records an elementwise operation on other arguments than its original ones, of the same dtypes.
#[track_caller]
pub(crate) fn rerecord(op: ElementOp, like: &Tensor, args: &[Argument]) -> Tensor {
    let tensors = || {
        args.iter().filter_map(|a| match a {
            Argument::Tensor(t) => Some(t),
            Argument::Scalar(_) => None,
        })
    };
    let broadcast = |shape: Shape, t: &Tensor| shape.broadcast(t.shape()).expect("shapes that went together");
    let shape = tensors().fold(Shape::SCALAR, broadcast);
    let mut attr = 0;
    for (i, arg) in args.iter().enumerate() {
        if let Argument::Tensor(t) = arg {
            attr |= (t.shape().broadcast_mask(&shape) as u32) << (8 * i);
        }
    }
    let arg = |i: usize| match &args[i] {
        Argument::Tensor(t) => Arg::Tensor(t),
        Argument::Scalar(bits) => Arg::Scalar(*bits),
    };
    let (op, dtype) = (Op::Element(op), like.dtype());
    match args.len() {
        1 => push(op, dtype, shape, attr, [arg(0)], &[]),
        2 => push(op, dtype, shape, attr, [arg(0), arg(1)], &[]),
        _ => push(op, dtype, shape, attr, [arg(0), arg(1), arg(2)], &[]),
    }
}
