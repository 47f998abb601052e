//! Monoids in CUDA C++, from the expressions of their rows ([`thalweg_ir::monoid`]).

use super::elements::{expression, is_native};
use super::types::{constant, held};
use thalweg_ir::{DType, Monoid};
use thalweg_kernel::monoid::combination;
use thalweg_kernel::{Node, NodeId, expand};

/// Two partial results put together: an expression of `before` and `after`, which are names.
pub fn combined(op: Monoid, dtype: DType, before: &str, after: &str) -> String {
    // The extremes of the prelude give one NaN by themselves.
    let body = expand(&combination(op, dtype, false), &is_native);
    let mut text: Vec<String> = Vec::with_capacity(body.nodes.len());
    let last = body.nodes.len() - 1;
    for (i, node) in body.nodes.iter().enumerate() {
        text.push(match *node {
            Node::Value { slot: 0, .. } => before.into(),
            Node::Value { .. } => after.into(),
            Node::Const { bits, dtype } => constant(dtype, bits),
            Node::Element { op, .. } => {
                let id = NodeId(i as u32);
                let args: Vec<&str> = body.args(id).map(|a| text[a.index()].as_str()).collect();
                let value = expression(op, body.operand_dtype(id), &args);
                if i == last { value } else { format!("({value})") }
            }
            ref other => unreachable!("{other:?} is no operation on two partial results"),
        });
    }
    text.swap_remove(body.sets[0].node.index())
}

/// The name of the struct that folds of the dtype are written with.
pub fn name(op: Monoid, dtype: DType) -> String {
    format!("{}_{}", op.row().name, held(dtype))
}

/// The struct of a fold.
pub fn definition(op: Monoid, dtype: DType) -> String {
    let (name, h, of) = (name(op, dtype), held(dtype), combined(op, dtype, "x", "y"));
    format!("struct {name} {{ FN static {h} of({h} x, {h} y) {{ return {of}; }} }};\n")
}
