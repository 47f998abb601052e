//! Queries of bodies: scalars, divisors, and how accesses are used.

use thalweg_ir::{DType, ElementOp};
use thalweg_kernel::{Body, Node, NodeId};

/// Index and dtype of the scalar argument that a node is, or is a cast to f32 of; `None` for other nodes.
pub fn as_scalar(body: &Body, id: NodeId) -> Option<(u16, DType)> {
    match body.nodes[id.index()] {
        Node::Scalar { slot, dtype } if dtype.is_float() => Some((slot, dtype)),
        // Scalars of bf16 and f16 are passed as the bits of an f32.
        Node::Cast { dtype: DType::F32, arg } if matches!(body.dtype(arg), DType::BF16 | DType::F16) => {
            as_scalar(body, arg).map(|s| (s.0, DType::F32))
        }
        _ => None,
    }
}

/// Index and dtype of the scalar argument that a non-strict division divides by; `None` for other nodes.
pub fn divisor(body: &Body, node: &Node) -> Option<(u16, DType)> {
    match *node {
        Node::Element { op: ElementOp::Div, args, dtype: DType::F32 | DType::F64 } if !body.strict => {
            as_scalar(body, args[1])
        }
        _ => None,
    }
}

/// Scalars that a body divides by, with their dtype. The host passes their reciprocals: a multiplication takes a tenth
/// of a division's time. The result is off by one ulp at most, as in PyTorch and XLA. Strict bodies divide instead.
pub fn divisors(body: &Body) -> Vec<(u16, DType)> {
    let mut all: Vec<(u16, DType)> = vec![];
    for found in body.nodes.iter().filter_map(|n| divisor(body, n)) {
        if !all.contains(&found) {
            all.push(found);
        }
    }
    all
}

/// Uses of an access by a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Whether the body loads the element.
    pub load: bool,
    /// Whether the body uses the access's index, or tests whether that index is in bounds.
    pub position: bool,
    /// Whether the body gathers an element through the access.
    pub gather: bool,
}

/// Returns how a body uses each of its accesses.
pub fn wanted(body: &Body) -> Vec<Wanted> {
    let mut all = vec![Wanted::default(); body.accesses.len()];
    for node in &body.nodes {
        match *node {
            Node::Load { access } => all[access as usize].load = true,
            Node::Index { access, .. } | Node::Valid { access } => all[access as usize].position = true,
            Node::Gather { access, .. } => all[access as usize].gather = true,
            _ => {}
        }
    }
    all
}

/// Whether a body has a gather, whose index may be out of range.
pub fn gathers(body: &Body) -> bool {
    body.nodes.iter().any(|n| matches!(n, Node::Gather { .. }))
}

/// Whether a body may be computed at points that do not exist (lanes beyond the end): it has no data-dependent loops
/// and no gathers.
pub fn is_harmless(body: &Body) -> bool {
    !body.nodes.iter().any(|n| matches!(n, Node::Loop { .. } | Node::Gather { .. }))
}
