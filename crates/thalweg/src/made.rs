//! What a tensor was made from, while it is pending: for functions that are cheaper of that than of the tensor.
//!
//! In: a tensor. Out: the operation that its value was recorded by, with its arguments as tensors of the same graph of
//! gradients. Nothing is known of what was computed before, so whatever is recorded instead means the same: a function
//! that asks here promises that (and in strict mode the same bits).

use crate::node::{Inputs, What};
use crate::operand::Arg;
use crate::record::push;
use crate::{Shape, Tensor};
use thalweg_ir::{ElementOp, Op};
use thalweg_stream::{self as stream, MadeFrom};

/// An argument: a tensor, or a scalar for the dtype that it is computed in.
#[derive(Clone)]
pub(crate) enum Argument {
    Tensor(Tensor),
    Scalar(u64),
}

/// A recorded operation.
pub(crate) struct Made {
    pub op: Op,
    pub attr: u32,
    pub ints: Vec<i64>,
    pub args: Vec<Argument>,
}

impl Made {
    /// Its one tensor, where it has no other argument.
    pub fn operand(&self) -> Option<&Tensor> {
        match &self.args[..] {
            [Argument::Tensor(x)] => Some(x),
            _ => None,
        }
    }
}

/// The operation that made a tensor, where it is pending and, if tracked, was made by a recorded operation.
pub(crate) fn made(x: &Tensor) -> Option<Made> {
    let stream::Made { op, attr, ints, args } = stream::made(&x.value)?;
    let inputs: Option<Inputs> = match &x.node {
        None => None,
        Some(node) => match &node.what {
            What::Op { op: own, .. } if *own == op => Some(node.inputs(true)?),
            _ => return None,
        },
    };
    let of = |(i, arg): (usize, MadeFrom)| match arg {
        MadeFrom::Scalar(bits) => Argument::Scalar(bits),
        MadeFrom::Value(value) => {
            let node = inputs.as_ref().and_then(|inputs| inputs.args.get(i)?.node().cloned());
            Argument::Tensor(Tensor { value, node })
        }
    };
    Some(Made { op, attr, ints, args: args.into_iter().enumerate().map(of).collect() })
}

/// Whether sums may be added up in another order where that is cheaper: not where bits are promised, since what is
/// pending follows from what else was recorded and asked for.
pub(crate) fn may_reorder() -> bool {
    let mode = stream::mode();
    !(mode.strict || mode.reproducible)
}

/// Records an elementwise operation on other arguments than it was recorded on, of the same dtypes.
#[track_caller]
pub(crate) fn record_again(op: ElementOp, like: &Tensor, args: &[Argument]) -> Tensor {
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
