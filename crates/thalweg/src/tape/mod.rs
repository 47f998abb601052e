//! From recorded operations to autograd nodes. Called only if an argument is tracked, or depends on a tensor that was.

pub(crate) mod needs;

use crate::node::{Cut, Input, Inputs, Node, What};
use crate::operand::Arg;
use crate::{Shape, Tensor};
use needs::{RESULT, carried, reads};
use smallvec::{SmallVec, smallvec};
use std::cell::Cell;
use std::panic::Location;
use std::sync::Arc;
use thalweg_ir::Op;
use thalweg_stream::{TapeHandle, Value};

thread_local! {
    /// Whether results of tracked tensors are tracked.
    static TRACKING: Cell<bool> = const { Cell::new(true) };
}

/// Guard that restores the previous setting, also when a panic unwinds.
pub(crate) struct Tracking(bool);

impl Tracking {
    /// Turns tracking on or off until the guard is dropped.
    pub(crate) fn set(on: bool) -> Tracking {
        Tracking(TRACKING.replace(on))
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        TRACKING.set(self.0);
    }
}

/// Whether results of tracked tensors are tracked on this thread.
pub(crate) fn is_tracking() -> bool {
    TRACKING.get()
}

/// Derivative rule of a node: from its inputs, the arguments' values and the gradient of the result, to one gradient
/// per argument.
pub(crate) type Rule = dyn Fn(&Inputs, &[Option<Tensor>], Tensor) -> Vec<Option<Tensor>> + Send + Sync;

/// Derivative rule that several results share: from the arguments, the results and their gradients (`None` if there is
/// none) to one gradient per argument.
pub(crate) type JointRule = dyn Fn(&[Tensor], &[Tensor], Vec<Option<Tensor>>) -> Vec<Option<Tensor>> + Send + Sync;

/// The node of an operation that was recorded as `value`. `None` if no gradient flows through it; a [`What::Cut`] if
/// one would flow, but the operation has no derivative.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn node(op: Op, attr: u32, args: &[Arg<'_>], ints: &[i64], value: &Arc<Value>) -> Option<Arc<Node>> {
    if !is_tracking() {
        return None;
    }
    let of = |arg: &Arg<'_>| match arg {
        Arg::Tensor(t) => t.node.clone(),
        Arg::Scalar(_) => None,
    };
    let from_floats = matches!(args[0], Arg::Tensor(t) if t.dtype().is_float()) || op != Op::Cast;
    let can = if value.dtype().is_float() && from_floats { carried(op) } else { 0 };
    let mut wanted = 0;
    for (i, arg) in args.iter().enumerate() {
        let carries = matches!(arg, Arg::Tensor(t) if t.node.as_ref().is_some_and(|n| n.carries()));
        wanted |= ((carries && can >> i & 1 == 1) as u8) << i;
    }
    if wanted == 0 {
        let nodes = || args.iter().filter_map(of);
        if nodes().any(|n| n.carries()) {
            let cut = Cut { name: op.name(), at: Location::caller() };
            return Some(Node::new(What::Cut(cut), Inputs::default()));
        }
        return nodes().next();
    }
    let read = reads(op, wanted);
    Some(Node::with(What::Op { op, attr, ints: ints.into() }, |inputs| {
        for (i, arg) in args.iter().enumerate() {
            inputs.args.push(match arg {
                Arg::Tensor(t) => Input::Tensor {
                    shape: *t.shape(),
                    dtype: t.dtype(),
                    // Cut arguments keep their node, so that messages can name it.
                    node: if can >> i & 1 == 1 { t.node.clone() } else { None },
                    value: (read >> i & 1 == 1).then(|| TapeHandle::new(&t.value)),
                },
                Arg::Scalar(bits) => Input::Scalar(*bits),
            });
        }
        if read & RESULT != 0 {
            inputs.results.push(TapeHandle::new(value));
        }
    }))
}

/// A tensor with this value and its own rule, which depends on `from` and on the nodes `others`; an untracked tensor if
/// none of these is tracked. `reads` says whether the rule reads the values of `from`, which are then saved.
pub(crate) fn own(
    value: &Arc<Value>,
    name: &'static str,
    (from, reads): (&[Tensor], bool),
    others: Vec<Arc<Node>>,
    rule: Box<Rule>,
) -> Tensor {
    let carries = |t: &Tensor| t.node.as_ref().is_some_and(|n| n.carries());
    if !is_tracking() || others.is_empty() && !from.iter().any(carries) {
        return Tensor::of(value.clone());
    }
    let args = from.iter().map(|t| Input::Tensor {
        shape: *t.shape(),
        dtype: t.dtype(),
        node: t.node.clone(),
        value: reads.then(|| TapeHandle::new(&t.value)),
    });
    // Only the nodes of `others` are known; such a rule needs no more.
    let others = others.into_iter().map(|n| Input::Tensor {
        shape: Shape::SCALAR,
        dtype: value.dtype(),
        node: Some(n),
        value: None,
    });
    let inputs = Inputs { args: args.chain(others).collect(), results: SmallVec::new() };
    Tensor { value: value.clone(), node: Some(Node::new(What::Own(name, Box::new(rule)), inputs)) }
}

/// Tensors with these values that share a rule and depend on `from`; untracked tensors if none of these is tracked. The
/// values and those of `from` are saved for the rule.
#[track_caller]
pub(crate) fn joint(values: &[Arc<Value>], name: &'static str, from: &[Tensor], rule: Box<JointRule>) -> Vec<Tensor> {
    if !is_tracking() || !from.iter().any(Tensor::is_tracked) {
        return values.iter().map(|v| Tensor::of(v.clone())).collect();
    }
    let arg = |t: &Tensor| Input::Tensor {
        shape: *t.shape(),
        dtype: t.dtype(),
        node: t.node.clone(),
        value: Some(TapeHandle::new(&t.value)),
    };
    let inputs = Inputs { args: from.iter().map(arg).collect(), results: values.iter().map(TapeHandle::new).collect() };
    let whole = Node::new(What::Joint(name, Box::new(rule)), inputs);
    let cut = Cut { name, at: Location::caller() };
    let node = |(i, v): (usize, &Arc<Value>)| match v.dtype().is_float() {
        true => part(&whole, name, i, v),
        false => Node::new(What::Cut(cut), Inputs::default()),
    };
    values.iter().enumerate().map(|(i, v)| Tensor { value: v.clone(), node: Some(node((i, v))) }).collect()
}

/// Node of result `i` of the joint rule [`What::Joint`].
pub(crate) fn part(whole: &Arc<Node>, name: &'static str, i: usize, value: &Value) -> Arc<Node> {
    let (shape, dtype) = (*value.shape(), value.dtype());
    let arg = Input::Tensor { shape, dtype, node: Some(whole.clone()), value: None };
    Node::new(What::Part(name, i), Inputs { args: smallvec![arg], results: SmallVec::new() })
}

/// Tracked tensor (a leaf) with this value.
pub(crate) fn leaf(value: &Arc<Value>) -> Tensor {
    Tensor { value: value.clone(), node: Some(Node::new(What::Leaf, Inputs::default())) }
}
