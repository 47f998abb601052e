//! Calls of kernels that were traced before.
//!
//! In: what a first call's trace came to. Out: a [`Program`], the operations that the results need with literals computed, which
//! a later call with operands of the same dtypes, numbers in the same places, records at the price of methods. Always true:
//! it records what the trace would; where that depends on more (places, rows, loops, a branch by a number) there is none.

use super::replay::{Given, Recording, operation, spread};
use super::trace::{Node, Trace};
use crate::{DType, Device, Operand, Scalar, Shape, Tensor};
use std::sync::{Arc, PoisonError, RwLock};
use thalweg_ir::ElementOp;

/// What is known of a kernel whose trace follows from its operands' dtypes, and from which of them are numbers: what
/// `#[kernel]` keeps for each.
#[derive(Debug)]
pub struct Prepared(RwLock<Vec<(Signature, Option<Arc<Program>>)>>);

/// The float dtype of a call, and which operands are numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Signature {
    float: DType,
    numbers: u64,
}

/// What a call records.
#[derive(Debug)]
pub(super) struct Program {
    steps: Vec<Step>,
    /// The results with their dtypes.
    results: Vec<(Slot, DType)>,
}

/// A value of a program.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// An operand.
    Given(u32),
    /// What a step gives.
    Made(u32),
    Number(Scalar),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// On arguments of a dtype.
    Element { op: ElementOp, of: DType, args: [Slot; 3] },
    Cast { to: DType, arg: Slot },
}

impl Prepared {
    /// Nothing is known.
    #[allow(clippy::new_without_default, reason = "of statics, which #[kernel] writes")]
    pub const fn new() -> Prepared {
        Prepared(RwLock::new(Vec::new()))
    }

    /// What was found for a signature: a program, or that there is none.
    pub(super) fn find(&self, signature: Signature) -> Option<Option<Arc<Program>>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|k| k.0 == signature).map(|k| k.1.clone())
    }

    /// Keeps what was found.
    pub(super) fn keep(&self, signature: Signature, program: Option<Program>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.iter().all(|k| k.0 != signature) {
            known.push((signature, program.map(Arc::new)));
        }
    }
}

impl Signature {
    /// Of operands; `None` where there are more than it tells apart.
    pub fn of<'a>(float: DType, operands: impl ExactSizeIterator<Item = Operand<'a>>) -> Option<Signature> {
        let count = operands.len();
        let number = |(i, o): (usize, Operand<'_>)| u64::from(matches!(o, Operand::Scalar(_))) << (i % 64);
        (count <= 64).then(|| Signature { float, numbers: operands.enumerate().map(number).sum() })
    }
}

impl Program {
    /// Records it. The shape is that of the results.
    #[track_caller]
    pub fn record<'a>(&self, operand: impl Fn(usize) -> Operand<'a>, over: Shape, device: Device) -> Vec<Tensor> {
        let mut made: Vec<Tensor> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let next = match *step {
                Step::Element { op, of, args } => {
                    let args = args.map(|a| given(a, &operand, &made));
                    operation(op, of, &args[..op.row().arity])
                }
                Step::Cast { to, arg } => match given(arg, &operand, &made) {
                    Given::Tensor(t) => t.cast(to),
                    Given::Scalar(_) => unreachable!("a number is known"),
                },
            };
            made.push(next);
        }
        self.results.iter().map(|&(slot, dtype)| spread(given(slot, &operand, &made), dtype, over, device)).collect()
    }
}

/// What a slot stands for.
fn given<'b, 'a: 'b>(slot: Slot, operand: &impl Fn(usize) -> Operand<'a>, made: &'b [Tensor]) -> Given<'b> {
    match slot {
        Slot::Made(n) => Given::Tensor(&made[n as usize]),
        Slot::Number(s) => Given::Scalar(s),
        Slot::Given(n) => match operand(n as usize) {
            Operand::Tensor(t) => Given::Tensor(t),
            Operand::Scalar(s) => Given::Scalar(s),
        },
    }
}

impl Recording<'_> {
    /// What these results, which were recorded, take on other operands of the same signature.
    pub(super) fn program(&self, results: &[usize]) -> Option<Program> {
        let Trace { nodes, reads, loops, combined, axis, .. } = &self.trace;
        let more = !reads.is_empty() || !loops.is_empty() || !combined.is_empty() || axis.is_some();
        if more || nodes.iter().any(|n| matches!(n.0, Node::Place(_))) {
            return None;
        }
        let (mut steps, mut slots, mut by_operands) = (vec![], Vec::with_capacity(nodes.len()), vec![]);
        for (i, &(node, kind)) in nodes.iter().enumerate() {
            // Numbers that follow from operands that are numbers.
            let follows = self.known[i].is_some()
                && (matches!(node, Node::Operand(_)) || self.trace.args(i).any(|a| by_operands[a]));
            by_operands.push(follows);
            let slot = match (node, self.known[i]) {
                _ if !self.is_recorded(i) => None,
                (Node::Operand(o), _) => Some(Slot::Given(o as u32)),
                (_, Some(_)) if follows => return None,
                (_, Some(s)) => Some(Slot::Number(s)),
                (Node::Op { op, of, args }, None) => match self.chosen(i) {
                    Some(_) if by_operands[args[0] as usize] => return None,
                    Some(chosen) => slots[chosen],
                    None => {
                        let arg = |k: usize| slots[args[if k < op.row().arity { k } else { 0 }] as usize];
                        let args = [arg(0)?, arg(1)?, arg(2)?];
                        steps.push(Step::Element { op, of: self.dtype(of), args });
                        Some(Slot::Made(steps.len() as u32 - 1))
                    }
                },
                (Node::Cast(x), None) => {
                    steps.push(Step::Cast { to: self.dtype(kind), arg: slots[x as usize]? });
                    Some(Slot::Made(steps.len() as u32 - 1))
                }
                _ => return None,
            };
            slots.push(slot);
        }
        let result = |&i: &usize| slots[i].map(|slot| (slot, self.dtype(nodes[i].1)));
        Some(Program { steps, results: results.iter().map(result).collect::<Option<_>>()? })
    }
}
