//! The nodes of a body as statements for one lane.

use super::elements::expression;
use super::types::{cast, constant, held, scalar};
use thalweg_ir::DType;
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
            Node::Element { op, .. } => {
                let args: Vec<String> = body.args(id).map(name).collect();
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                expression(op, body.operand_dtype(id), &args)
            }
            Node::Cast { dtype, arg } => cast(body.dtype(arg), dtype, &name(arg)),
            Node::Value { slot, .. } => (names.value)(slot),
            Node::Scanned { .. } => unreachable!("what is scanned is loaded from a buffer"),
            Node::Gather { access, offset, inside } => (names.gather)(access, &name(offset), &name(inside)),
        };
        out += &format!("{indent}const {} {} = {value};\n", held(dtype), name(id));
    }
    out
}
