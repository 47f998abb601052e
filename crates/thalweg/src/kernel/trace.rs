//! What a kernel does, noted down: a list of operations on operands and constants, each made of those before it.
//!
//! A call on tensors opens a trace on its thread, calls the kernel once on [`Traced`] numbers, which push what is done
//! with them, and closes it. Always true: a number is only used in the trace that it was made in.

use super::Repr;
use std::cell::RefCell;
use thalweg_ir::{ElementOp, Scalar};

/// Operations that one call may note down: beyond, a loop has been unrolled that should not be.
const MOST: usize = 1 << 14;

/// What stands for the elements of a tensor while a kernel is called on tensors: its place in the list of what was
/// done.
#[derive(Clone, Copy, Debug)]
pub struct Traced {
    trace: u32,
    node: u32,
}

/// What kind of values a node has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Of the kernel's float dtype.
    Float,
    /// i32.
    Int,
    /// bool.
    Mask,
}

/// Something that a kernel does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    /// Reads the operand of that number.
    Operand(usize),
    /// A number.
    Constant(Scalar),
    /// An operation on arguments of `of`; [`ElementOp::Where`] has a truth value before them.
    Op { op: ElementOp, of: Kind, args: [u32; 3] },
    /// A conversion.
    Cast(u32),
}

/// A list of what was done.
pub(super) struct Trace {
    name: &'static str,
    number: u32,
    /// What each is, and what its values are.
    pub nodes: Vec<(Node, Kind)>,
}

thread_local! {
    /// The traces that are open on this thread: a kernel may call another one on tensors.
    static OPEN: RefCell<(u32, Vec<Trace>)> = const { RefCell::new((0, Vec::new())) };
}

/// An open trace; closes it also when a panic unwinds.
pub(super) struct Open(u32);

impl Open {
    /// Opens a trace.
    pub fn new(name: &'static str) -> Open {
        OPEN.with_borrow_mut(|(next, open)| {
            *next = next.wrapping_add(1);
            open.push(Trace { name, number: *next, nodes: Vec::with_capacity(64) });
            Open(*next)
        })
    }

    /// Reads an operand.
    pub fn operand(&self, i: usize, kind: Kind) -> Traced {
        push(Node::Operand(i), kind)
    }

    /// What was noted down.
    pub fn close(self) -> Trace {
        let trace = OPEN.with_borrow_mut(|(_, open)| open.pop());
        let trace = trace.filter(|t| t.number == self.0).expect("traces close in the order in which they open");
        std::mem::forget(self);
        trace
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.with_borrow_mut(|(_, open)| open.retain(|t| t.number < self.0));
    }
}

impl Trace {
    /// The place of a number.
    #[track_caller]
    pub fn place(&self, x: Traced) -> usize {
        assert!(x.trace == self.number, "{}: a result is a number of another call", self.name);
        x.node as usize
    }

    /// The arguments of a node.
    pub fn args(&self, i: usize) -> impl Iterator<Item = usize> {
        let (args, n) = match self.nodes[i].0 {
            Node::Operand(_) | Node::Constant(_) => ([0; 3], 0),
            Node::Op { op, args, .. } => (args, op.row().arity),
            Node::Cast(x) => ([x, 0, 0], 1),
        };
        args.into_iter().take(n).map(|a| a as usize)
    }
}

fn push(node: Node, kind: Kind) -> Traced {
    let pushed = OPEN.with_borrow_mut(|(_, open)| {
        let trace = open.last_mut().expect("a kernel's numbers are used while it is called");
        trace.nodes.push((node, kind));
        (Traced { trace: trace.number, node: trace.nodes.len() as u32 - 1 }, trace.name)
    });
    assert!(
        pushed.0.node < MOST as u32,
        "{}: more than {MOST} operations; a `for` over so many turns is unrolled",
        pushed.1
    );
    pushed.0
}

/// Notes an operation down.
fn note(op: ElementOp, of: Kind, args: &[Traced], kind: Kind) -> Traced {
    let number = OPEN.with_borrow(|(_, open)| open.last().map_or(0, |t| t.number));
    assert!(args.iter().all(|a| a.trace == number), "{}: a number of another call of a kernel", op.name());
    let mut nodes = [0; 3];
    nodes.iter_mut().zip(args).for_each(|(to, a)| *to = a.node);
    push(Node::Op { op, of, args: nodes }, kind)
}

impl Repr for Traced {
    type RawInt = Traced;
    type RawMask = Traced;

    fn constant(value: f64) -> Traced {
        push(Node::Constant(Scalar::Float(value)), Kind::Float)
    }
    fn int(value: i32) -> Traced {
        push(Node::Constant(Scalar::Int(value as i64)), Kind::Int)
    }
    fn mask(value: bool) -> Traced {
        push(Node::Constant(Scalar::Bool(value)), Kind::Mask)
    }
    fn apply(op: ElementOp, args: &[Traced]) -> Traced {
        note(op, Kind::Float, args, Kind::Float)
    }
    fn test(op: ElementOp, args: &[Traced]) -> Traced {
        note(op, Kind::Float, args, Kind::Mask)
    }
    fn apply_int(op: ElementOp, args: &[Traced]) -> Traced {
        note(op, Kind::Int, args, Kind::Int)
    }
    fn test_int(op: ElementOp, args: &[Traced]) -> Traced {
        note(op, Kind::Int, args, Kind::Mask)
    }
    fn logic(op: ElementOp, args: &[Traced]) -> Traced {
        note(op, Kind::Mask, args, Kind::Mask)
    }
    fn pick(c: Traced, a: Traced, b: Traced) -> Traced {
        note(ElementOp::Where, Kind::Float, &[c, a, b], Kind::Float)
    }
    fn pick_int(c: Traced, a: Traced, b: Traced) -> Traced {
        note(ElementOp::Where, Kind::Int, &[c, a, b], Kind::Int)
    }
    fn into_int(self) -> Traced {
        push(Node::Cast(self.node), Kind::Int)
    }
    fn from_int(i: Traced) -> Traced {
        push(Node::Cast(i.node), Kind::Float)
    }
    fn known(_: Traced) -> Option<bool> {
        None
    }
}
