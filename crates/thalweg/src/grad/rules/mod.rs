//! Derivative rules of operations: from the gradient of a result to those of the arguments, in recorded operations.
//!
//! Rules do not know the graph. A rule takes tensors; for second derivatives these are tracked, and so are its results.

mod contract;
mod element;
mod index;
mod reduce;
mod scan;
mod views;

use crate::node::{Input, Inputs, Node, What};
use crate::tape::{self, JointRule, Rule};
use crate::{DType, Operand, Scalar, Shape, Tensor};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use thalweg_ir::{Op, ReduceOp, ScanOp, ScatterOp, unpack_order};

/// Gradients of the arguments of an operation; `None` if there is none. Inline, since a pass makes such a list for each
/// node.
pub(crate) type ArgumentGradients = SmallVec<[Option<Tensor>; 3]>;

/// Argument of an operation in a rule.
enum Argument {
    Tensor {
        shape: Shape,
        dtype: DType,
        /// Value of the argument, if `needs` says that the rule reads it.
        value: Option<Tensor>,
    },
    Scalar(u64),
}

impl Argument {
    fn shape(&self) -> &Shape {
        match self {
            Argument::Tensor { shape, .. } => shape,
            Argument::Scalar(_) => &Shape::SCALAR,
        }
    }

    /// Value of the argument, which the rule may read only if `needs::reads` says so.
    fn value(&self) -> &Tensor {
        match self {
            Argument::Tensor { value: Some(value), .. } => value,
            _ => unreachable!("a rule reads what was not kept for it"),
        }
    }

    fn operand(&self, dtype: DType) -> Option<Operand<'_>> {
        match self {
            Argument::Tensor { value, .. } => value.as_ref().map(Operand::Tensor),
            Argument::Scalar(bits) => Some(Operand::Scalar(Scalar::from_bits(*bits, dtype))),
        }
    }

    /// Converts the argument's value to f32 if it is bf16 or f16.
    fn widen(&mut self) {
        if let Argument::Tensor { value: Some(value), .. } = self
            && is_narrow(value.dtype())
        {
            *value = value.cast(DType::F32);
        }
    }
}

/// Whether the dtype is bf16 or f16, which rules of several steps convert to f32.
fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}

/// Operation that a rule differentiates, with its arguments and result.
struct Step<'a> {
    op: Op,
    attr: u32,
    ints: &'a [i64],
    args: SmallVec<[Argument; 3]>,
    /// The value of the result, if the rule reads it.
    result: Option<Tensor>,
    /// Bit mask of the arguments whose gradients are requested.
    wanted: u8,
    /// Bit mask of the arguments that are transposes: views with the last two dimensions swapped.
    transposes: u8,
}

impl Step<'_> {
    fn wants(&self, i: usize) -> bool {
        self.wanted >> i & 1 == 1
    }

    fn is_transpose(&self, i: usize) -> bool {
        self.transposes >> i & 1 == 1
    }

    fn result(&self) -> &Tensor {
        self.result.as_ref().expect("a rule reads the result that was kept for it")
    }

    fn axis(&self) -> usize {
        (self.attr & 0xFF) as usize
    }
}

/// The gradients of a node's arguments from that of its result, `dy`; those that are not `wanted` may be missing. With
/// `create` they can be differentiated again.
pub(crate) fn gradients(
    node: &Arc<Node>,
    inputs: &Inputs,
    dy: Tensor,
    wanted: impl Fn(usize) -> bool,
    create: bool,
) -> ArgumentGradients {
    let tensor = |value: &Arc<thalweg_stream::Value>, node: Option<&Arc<Node>>| Tensor {
        value: value.clone(),
        node: if create { node.cloned() } else { None },
    };
    match &node.what {
        What::Leaf | What::Cut(_) | What::Joint(..) | What::Part(..) => smallvec![],
        What::Own(_, rule) => {
            let rule = rule.downcast_ref::<Box<Rule>>().expect("a rule is of the one type of rules");
            let args: Vec<Option<Tensor>> = inputs
                .args
                .iter()
                .map(|arg| match arg {
                    Input::Tensor { value, node, .. } => value.as_ref().map(|v| tensor(v, node.as_ref())),
                    Input::Scalar(_) => None,
                })
                .collect();
            rule(inputs, &args, dy).into()
        }
        What::Op { op, attr, ints } => {
            let args = inputs.args.iter().map(|arg| match arg {
                Input::Tensor { shape, dtype, node, value } => Argument::Tensor {
                    shape: *shape,
                    dtype: *dtype,
                    value: value.as_ref().map(|v| tensor(v, node.as_ref())),
                },
                Input::Scalar(bits) => Argument::Scalar(*bits),
            });
            let step = Step {
                op: *op,
                attr: *attr,
                ints,
                args: args.collect(),
                result: inputs.results.first().map(|v| tensor(v, Some(node))),
                wanted: bits(inputs.args.len(), wanted),
                transposes: bits(inputs.args.len(), |i| is_transpose(&inputs.args[i])),
            };
            of_operation(step, dy)
        }
    }
}

/// Bit mask of the numbers below `n` for which `holds` is true.
fn bits(n: usize, holds: impl Fn(usize) -> bool) -> u8 {
    (0..n).fold(0, |mask, i| mask | (holds(i) as u8) << i)
}

/// Whether an argument is another tensor with its last two dimensions swapped.
fn is_transpose(arg: &Input) -> bool {
    let Input::Tensor { shape, node: Some(node), .. } = arg else { return false };
    let What::Op { op: Op::Permute, attr, .. } = node.what else { return false };
    let order = unpack_order(attr, shape.rank());
    let lead = shape.rank().saturating_sub(2);
    order[..lead].iter().enumerate().all(|(i, &o)| i == o) && order[lead..] == [lead + 1, lead]
}

/// The gradients of the arguments of a [`What::Joint`] from the available gradients of its results, by number.
pub(crate) fn of_joint(
    node: &Arc<Node>,
    inputs: &Inputs,
    dys: Vec<(usize, Tensor)>,
    create: bool,
) -> ArgumentGradients {
    let What::Joint(name, rule) = &node.what else { unreachable!("only such a node has parts") };
    let rule = rule.downcast_ref::<Box<JointRule>>().expect("a rule is of the one type of rules");
    let arg = |arg: &Input| match arg {
        Input::Tensor { value: Some(value), node, .. } => {
            Tensor { value: Arc::clone(value), node: if create { node.clone() } else { None } }
        }
        _ => unreachable!("such a node keeps its arguments"),
    };
    let args: Vec<Tensor> = inputs.args.iter().map(arg).collect();
    let mut all: Vec<Option<Tensor>> = vec![None; inputs.results.len()];
    for (i, dy) in dys {
        // A result has several nodes if a rule that reads it was differentiated.
        all[i] = Some(match all[i].take() {
            Some(sum) => sum + dy,
            None => dy,
        });
    }
    // New nodes for the results: the old ones hold this one, and may have been dropped.
    let result = |(i, value): (usize, &thalweg_stream::TapeHandle)| Tensor {
        value: Arc::clone(value),
        node: (create && value.dtype().is_float()).then(|| tape::part(node, name, i, value)),
    };
    let results: Vec<Tensor> = inputs.results.iter().enumerate().map(result).collect();
    rule(&args, &results, all).into()
}

fn of_operation(mut step: Step<'_>, dy: Tensor) -> ArgumentGradients {
    let narrow = is_narrow(dy.dtype()).then(|| dy.dtype());
    let steps = match step.op {
        Op::Reduce(op) => op != ReduceOp::Sum,
        Op::Scan(op) => matches!(op, ScanOp::Prod | ScanOp::LogSumExp),
        Op::Scatter(op) => matches!(op, ScatterOp::Prod | ScatterOp::Max | ScatterOp::Min),
        _ => false,
    };
    if let Some(narrow) = narrow
        && steps
    {
        step.args.iter_mut().for_each(Argument::widen);
        step.result = step.result.map(|y| y.cast(DType::F32));
        let wide = structural(&step, dy.cast(DType::F32));
        return wide.into_iter().map(|g| g.map(|g| g.cast(narrow))).collect();
    }
    structural(&step, dy)
}

fn structural(step: &Step<'_>, dy: Tensor) -> ArgumentGradients {
    let one = |dx: Tensor| smallvec![Some(dx)];
    let shape = step.args[0].shape();
    match step.op {
        Op::Element(op) => element::rule(step, op, &dy),
        Op::Cast => match step.args[0] {
            Argument::Tensor { dtype, .. } => one(dy.cast(dtype)),
            Argument::Scalar(_) => unreachable!("a cast is of a tensor"),
        },
        Op::Reshape => one(dy.reshaped(*shape)),
        Op::Permute => one(views::unpermuted(&dy, step.attr)),
        Op::Expand => one(dy.sum_to(*shape)),
        Op::Slice => one(views::unsliced(&dy, shape, step.ints)),
        Op::Window => one(views::unwindowed(&dy, shape, step.axis(), step.ints)),
        Op::Pad => one(views::unpadded(&dy, shape, step.ints)),
        Op::Cat => views::parted(step, &dy),
        Op::Put => views::put(step, &dy),
        Op::Reduce(op) => one(reduce::rule(step, op, &dy)),
        Op::Matmul => contract::matmul(step, &dy),
        Op::Scan(op) => one(scan::rule(step, op, &dy)),
        Op::Gather => one(index::gather(step, &dy)),
        Op::Scatter(op) => index::scatter(step, op, &dy),
        Op::Full | Op::Iota | Op::Random(_) => unreachable!("{} has no arguments", step.op.name()),
        Op::Bitcast => unreachable!("nothing flows through bits"),
        Op::Loop(_) | Op::FoldBy(_) | Op::ScanBy(_) | Op::Foreign(_) => {
            unreachable!("nothing flows through what users write but by a rule of its own")
        }
    }
}

/// Zeros of a tensor's dtype and device.
fn zeros(shape: Shape, like: &Tensor) -> Tensor {
    Tensor::zeros_with(shape, (like.dtype(), like.device()))
}
