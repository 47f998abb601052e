//! The nodes of a body as statements for one lane.

use super::elements::expression;
use super::looped;
use super::types::{bitcast, cast, constant, held, scalar};
use thalweg_gpu::class::body::{as_scalar, divisor};
use thalweg_ir::{DType, ElementOp};
use thalweg_kernel::{Body, Node, NodeId};

/// What a body cannot say by itself.
pub struct Names<'a> {
    /// The element of an access.
    pub load: &'a dyn Fn(u16) -> String,
    /// Its position.
    pub index: &'a dyn Fn(u16, DType) -> String,
    /// Whether it is inside.
    pub valid: &'a dyn Fn(u16) -> String,
    /// A gathered element: access, offset, inside.
    pub gather: &'a dyn Fn(u16, &str, &str) -> String,
    /// A value of the row.
    pub value: &'a dyn Fn(u16) -> String,
    /// The word of a scalar.
    pub scalar: &'a dyn Fn(u16) -> String,
    /// The word of its reciprocal, if it is one of [`divisors`].
    pub reciprocal: &'a dyn Fn(u16) -> Option<String>,
}

/// The variable of a node.
pub fn name(id: NodeId) -> String {
    format!("n{}", id.0)
}

/// Statements that compute every node of the body, each in a variable of its [`name`].
pub fn statements(body: &Body, names: &Names, indent: &str) -> String {
    let mut out = String::new();
    for (i, node) in body.nodes.iter().enumerate() {
        let id = NodeId(i as u32);
        let dtype = body.dtype(id);
        let value = match *node {
            Node::Load { access } => (names.load)(access),
            Node::Index { access, dtype } => (names.index)(access, dtype),
            Node::Valid { access } => (names.valid)(access),
            Node::Scalar { slot, dtype } => scalar(dtype, &(names.scalar)(slot)),
            Node::Const { bits, dtype } => constant(dtype, bits),
            Node::Element { args, .. } if reciprocal(body, node, names).is_some() => {
                format!("{} * {}", name(args[0]), reciprocal(body, node, names).unwrap_or_default())
            }
            Node::Element { op: ElementOp::Div, args, dtype: DType::F32 }
                if !body.strict && as_scalar(body, args[0]).is_some() =>
            {
                // As PyTorch divides a scalar by a tensor.
                format!("{} * inverse({})", name(args[0]), name(args[1]))
            }
            Node::Element { op, .. } => {
                let args = looped::arguments(body, id, name);
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                expression(op, body.operand_dtype(id), &args)
            }
            Node::Cast { dtype, arg } => cast(body.dtype(arg), dtype, &name(arg)),
            Node::Bitcast { dtype, arg } => bitcast(body.dtype(arg), dtype, &name(arg)),
            Node::Value { slot, .. } => (names.value)(slot),
            Node::Loop { of, .. } => {
                let args: Vec<String> = body.args(id).map(name).collect();
                out += &looped::statements(of, &name(id), &args, indent);
                continue;
            }
            Node::Looped { of, number, .. } => looped::result(&name(of), number),
            Node::Scanned { .. } | Node::Combined { .. } => unreachable!("what is scanned is loaded from a buffer"),
            Node::Gather { access, offset, inside } => (names.gather)(access, &name(offset), &name(inside)),
        };
        out += &format!("{indent}const {} {} = {value};\n", held(dtype), name(id));
    }
    out
}

/// The reciprocal of the scalar that a node divides by.
fn reciprocal(body: &Body, node: &Node, names: &Names) -> Option<String> {
    let (slot, dtype) = divisor(body, node)?;
    Some(scalar(dtype, &(names.reciprocal)(slot)?))
}
