//! The nodes of a body as statements for one lane.

use crate::body::{as_scalar, divisor};
use crate::emit::loops::{self, Native, arguments};
use crate::ir::{Expr, Name, Slot, Statement, Type};
use thalweg_ir::{DType, ElementOp};
use thalweg_kernel::{Body, Node, NodeId};

/// Environment of a body: callbacks that return expressions for its leaves.
pub struct Names<'a> {
    /// Element loaded through an access.
    pub load: &'a dyn Fn(u16) -> Expr,
    /// Index of the point in an access, as a value of a dtype.
    pub index: &'a dyn Fn(u16, DType) -> Expr,
    /// Condition that the index of an access is in bounds.
    pub valid: &'a dyn Fn(u16) -> Expr,
    /// Element gathered through an access. Arguments: access, offset, condition that the index is in bounds.
    pub gather: &'a dyn Fn(u16, Expr, Expr) -> Expr,
    /// Value of the row (the result of a fold or of a once-a-row phase).
    pub value: &'a dyn Fn(u16, DType) -> Expr,
    /// Kernel argument with a scalar.
    pub scalar: &'a dyn Fn(u16) -> Slot,
    /// Kernel argument of a scalar's reciprocal, if the scalar is one of [`crate::body::divisors`].
    pub reciprocal: &'a dyn Fn(u16) -> Option<Slot>,
    /// Operations on dtypes that the device has natively.
    pub native: Native<'a>,
}

/// Name of a node's variable.
pub fn name(id: NodeId) -> Name {
    format!("n{}", id.0)
}

/// Expression that reads a node's variable.
pub fn value(body: &Body, id: NodeId) -> Expr {
    Expr::name(name(id), Type::Held(body.dtype(id)))
}

/// Emits the computation of every node of the body, each in a variable of its [`name`].
pub fn statements(body: &Body, names: &Names) -> Vec<Statement> {
    let own = |id: NodeId| value(body, id);
    // Nodes whose quotients are rounded like a division; quotients by a constant are products in every kernel.
    let mut exact = vec![false; body.nodes.len()];
    for node in &body.nodes {
        if let Node::Round { arg } = *node {
            exact[arg.index()] = true;
        }
    }
    let mut out = vec![];
    for (i, node) in body.nodes.iter().enumerate() {
        let id = NodeId(i as u32);
        let value = match *node {
            Node::Load { access } => (names.load)(access),
            Node::Index { access, dtype } => (names.index)(access, dtype),
            Node::Valid { access } => (names.valid)(access),
            Node::Scalar { slot, dtype } => Expr::Scalar(dtype, (names.scalar)(slot)),
            Node::Const { bits, dtype } => Expr::Constant(dtype, bits),
            Node::Element { op, args, dtype } => match (op, reciprocal(body, node, names)) {
                (_, Some(of)) => own(args[0]) * of,
                // A scalar divided by a tensor is a multiplication by the approximate reciprocal, as in PyTorch.
                (ElementOp::Div, _)
                    if !exact[i] && dtype == DType::F32 && !body.strict && as_scalar(body, args[0]).is_some() =>
                {
                    // Not contracted with a sum: equal quotients are equal products.
                    Expr::Product(Box::new([own(args[0]), Expr::Inverse(Box::new(own(args[1])))]))
                }
                _ => Expr::Operation(op, body.operand_dtype(id), arguments(body, id, own)),
            },
            // Narrow floats have been widened before. A node that is no product is rounded as it is.
            Node::Round { arg } => rounded(body, arg, names),
            Node::Cast { dtype, arg } => Expr::Cast(body.dtype(arg), dtype, Box::new(own(arg))),
            Node::Bitcast { dtype, arg } => Expr::Bitcast(body.dtype(arg), dtype, Box::new(own(arg))),
            Node::Value { slot, dtype } => (names.value)(slot, dtype),
            Node::Loop { of, .. } => {
                let args: Vec<Expr> = body.args(id).map(own).collect();
                out.extend(loops::statements(of, &name(id), &args, names.native));
                continue;
            }
            Node::Looped { of, number, dtype } => Expr::name(loops::result(&name(of), number), Type::Held(dtype)),
            Node::Scanned { .. } | Node::Combined { .. } => unreachable!("what is scanned is loaded from a buffer"),
            Node::Gather { access, offset, inside, .. } => (names.gather)(access, own(offset), own(inside)),
        };
        out.push(Statement::Let(name(id), value));
    }
    out
}

/// Value of a node. A product is emitted in a form that no compiler contracts with a sum to FMA.
fn rounded(body: &Body, id: NodeId, names: &Names) -> Expr {
    let own = |id: NodeId| value(body, id);
    let node = &body.nodes[id.index()];
    let factors = match *node {
        Node::Element { op: ElementOp::Mul, args, .. } => [own(args[0]), own(args[1])],
        Node::Element { op: ElementOp::Square, args, .. } => [own(args[0]), own(args[0])],
        Node::Element { args, .. } => match reciprocal(body, node, names) {
            Some(of) => [own(args[0]), of],
            None => return own(id),
        },
        _ => return own(id),
    };
    Expr::Product(Box::new(factors))
}

/// Kernel argument with the reciprocal of the scalar that a node divides by, if it has one.
fn reciprocal(body: &Body, node: &Node, names: &Names) -> Option<Expr> {
    let (slot, dtype) = divisor(body, node)?;
    Some(Expr::Scalar(dtype, (names.reciprocal)(slot)?))
}
