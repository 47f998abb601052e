//! Programs: compiled traces of maps.
//!
//! In: the trace of a first call. Out: a [`Program`], the operations that the results need, with literals computed. A
//! later call with operands of the same dtypes, and numbers at the same positions, records them at the cost of method
//! calls. Always true: it records what the trace would. If that depends on more (indices, rows, loops, a branch by a
//! number) there is no program.

use super::replay::{Given, Recording, broadcast, spread, taken};
use super::trace::{Node, Trace};
use crate::operand::Arg;
use crate::record::push;
use crate::{DType, Device, Operand, Scalar, Shape, Tensor};
use thalweg_ir::{ElementOp, Op};
use thalweg_stream::Template;

/// Key of a kernel's program: float dtype of the call, and bit mask of the operands that are numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Signature {
    float: DType,
    numbers: u64,
}

/// Program of a kernel: the operations that a call records.
#[derive(Debug)]
pub(super) struct Program {
    steps: Vec<Step>,
    /// Results of the call, with their dtypes.
    results: Vec<(Slot, DType)>,
}

/// Value in a program.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// Operand of the call, by index.
    Given(u32),
    /// Result of a step, by index.
    Made(u32),
    /// Number, and its bits in the dtype that the step takes.
    Number(Scalar, u64),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// An operation on arguments of dtype `of`.
    Element {
        op: ElementOp,
        of: DType,
        out: DType,
        args: [Slot; 3],
    },
    Cast {
        to: DType,
        arg: Slot,
    },
}

impl Signature {
    /// Signature of a call's operands; `None` for more than 64.
    pub fn of<'a>(float: DType, operands: impl ExactSizeIterator<Item = Operand<'a>>) -> Option<Signature> {
        let count = operands.len();
        let number = |(i, o): (usize, Operand<'_>)| u64::from(matches!(o, Operand::Scalar(_))) << (i % 64);
        (count <= 64).then(|| Signature { float, numbers: operands.enumerate().map(number).sum() })
    }
}

impl Program {
    /// The scalars of a template of its call that are operands: index of the scalar, of the operand, and the dtype
    /// taken there. `None` if the template has operations other than its steps.
    pub(super) fn numbers<'a>(
        &self,
        template: &Template,
        operand: impl Fn(usize) -> Operand<'a>,
    ) -> Option<Vec<(u32, u32, DType)>> {
        let (mut scalars, mut numbers) = (template.scalars().iter().enumerate(), vec![]);
        for step in &self.steps {
            let Step::Element { op, of, args, .. } = *step else { continue };
            for (n, arg) in args[..op.row().arity].iter().enumerate() {
                match *arg {
                    Slot::Number(_, bits) => {
                        scalars.next().filter(|s| *s.1 == bits)?;
                    }
                    Slot::Given(o) if matches!(operand(o as usize), Operand::Scalar(_)) => {
                        numbers.push((scalars.next()?.0 as u32, o, taken(op, of, n)));
                    }
                    _ => {}
                }
            }
        }
        scalars.next().is_none().then_some(numbers)
    }

    /// Records the operations of the program; `over` is the shape of the results.
    #[track_caller]
    pub fn record<'a>(&self, operand: impl Fn(usize) -> Operand<'a>, over: Shape, device: Device) -> Vec<Tensor> {
        let mut made: Vec<Tensor> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let next = match *step {
                Step::Element { op, of, out, args } => {
                    let arg = |n: usize| match args[n] {
                        Slot::Made(m) => Arg::Tensor(&made[m as usize]),
                        Slot::Number(_, bits) => Arg::Scalar(bits),
                        Slot::Given(o) => match operand(o as usize) {
                            Operand::Tensor(t) => Arg::Tensor(t),
                            Operand::Scalar(s) => Arg::Scalar(s.to_bits(taken(op, of, n))),
                        },
                    };
                    match op.row().arity {
                        1 => alike(op, out, [arg(0)]),
                        2 => alike(op, out, [arg(0), arg(1)]),
                        _ => alike(op, out, [arg(0), arg(1), arg(2)]),
                    }
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

/// Records an elementwise operation, with a fast path for tensors of one shape.
#[inline]
#[track_caller]
fn alike<const N: usize>(op: ElementOp, out: DType, args: [Arg<'_>; N]) -> Tensor {
    let mut shapes = args.iter().filter_map(|arg| match arg {
        Arg::Tensor(t) => Some(t.shape()),
        Arg::Scalar(_) => None,
    });
    let first = shapes.next().expect("what follows from numbers alone is known");
    match shapes.all(|shape| shape == first) {
        true => push(Op::Element(op), out, *first, 0, args, &[]),
        false => broadcast(op, out, args),
    }
}

/// The value of a slot.
fn given<'b, 'a: 'b>(slot: Slot, operand: &impl Fn(usize) -> Operand<'a>, made: &'b [Tensor]) -> Given<'b> {
    match slot {
        Slot::Made(n) => Given::Tensor(&made[n as usize]),
        Slot::Number(s, _) => Given::Scalar(s),
        Slot::Given(n) => match operand(n as usize) {
            Operand::Tensor(t) => Given::Tensor(t),
            Operand::Scalar(s) => Given::Scalar(s),
        },
    }
}

impl Recording<'_> {
    /// Program that records these results for other operands of the same signature.
    pub(super) fn program(&self, results: &[usize]) -> Option<Program> {
        let Trace { nodes, reads, loops, combined, axis, .. } = &self.trace;
        let more = !reads.is_empty() || !loops.is_empty() || !combined.is_empty() || axis.is_some();
        if more || nodes.iter().any(|n| matches!(n.0, Node::Place(_))) {
            return None;
        }
        let (mut steps, mut slots, mut by_operands) = (vec![], Vec::with_capacity(nodes.len()), vec![]);
        for (i, &(node, kind)) in nodes.iter().enumerate() {
            // Constants that are computed from operands, which are numbers in this call.
            let follows = self.known[i].is_some()
                && (matches!(node, Node::Operand(_)) || self.trace.args(i).any(|a| by_operands[a]));
            by_operands.push(follows);
            let slot = match (node, self.known[i]) {
                _ if !self.is_recorded(i) => None,
                (Node::Operand(o), _) => Some(Slot::Given(o as u32)),
                (_, Some(_)) if follows => return None,
                (_, Some(s)) => Some(Slot::Number(s, 0)),
                (Node::Op { op, of, args }, None) => match self.chosen(i) {
                    Some(_) if by_operands[args[0] as usize] => return None,
                    Some(chosen) => slots[chosen],
                    None => {
                        let of = self.dtype(of);
                        let arg = |k: usize| match slots[args[if k < op.row().arity { k } else { 0 }] as usize] {
                            Some(Slot::Number(s, _)) => Some(Slot::Number(s, s.to_bits(taken(op, of, k)))),
                            other => other,
                        };
                        let args = [arg(0)?, arg(1)?, arg(2)?];
                        steps.push(Step::Element { op, of, out: op.output(of), args });
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
