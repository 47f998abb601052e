//! Rewrites of a body that both engines apply before they compile it.
//!
//! Both apply the same rewrites, so that a kernel gives the same bits on either engine: the emitter may refuse a fused
//! kernel although it accepts its operations one by one.

use crate::math;
use thalweg_ir::{Compute, DType, ElementOp};
use thalweg_kernel::{Body, Node, NodeId, expand, reciprocals, widen};

/// Rewrites a body without arithmetic in narrow floats, and with only operations that the engines have code for.
pub(crate) fn prepare(body: &Body) -> Body {
    expand(&reciprocals(&widen(body)), &native)
}

/// Whether the engines have code for an operation of this dtype. An operation that is not native is expanded into
/// simpler ones.
fn native(op: ElementOp, dtype: DType) -> bool {
    op.row().expand.is_none()
        || match dtype.compute() {
            Compute::F32 => math::has_f32(op),
            Compute::F64 => math::has_f64(op),
            _ => false,
        }
}

/// Kind of a fused multiply-add: a product contracted into a sum, rounded once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fused {
    /// Product plus addend: `x·y + z`.
    Add,
    /// Minuend less product: `z - x·y`.
    From,
    /// Product less subtrahend: `x·y - z`.
    Less,
}

/// Table of fused multiply-adds, by node: an addition or subtraction absorbs a float product that has no other use, and
/// is listed with the operands `[x, y, z]` of the fused operation; other nodes are `None`, as all are in strict and
/// repeatable bodies. Both engines follow this table, so a rectangle that emitted code leaves to the tile engine keeps
/// its bits.
pub(crate) fn contractions(body: &Body) -> Vec<Option<(Fused, [NodeId; 3])>> {
    let n = body.nodes.len();
    let ids = || (0..n as u32).map(NodeId);
    let mut uses = vec![0u32; n];
    ids().for_each(|id| body.args(id).for_each(|a| uses[a.index()] += 1));
    body.roots().for_each(|id| uses[id.index()] += 1);
    let product = |id: NodeId| match body.nodes[id.index()] {
        Node::Element { op: ElementOp::Mul, args, .. } if uses[id.index()] == 1 => Some([args[0], args[1]]),
        _ => None,
    };
    ids()
        .map(|id| {
            let Node::Element { op: op @ (ElementOp::Add | ElementOp::Sub), args, .. } = body.nodes[id.index()] else {
                return None;
            };
            let float = matches!(body.operand_dtype(id).compute(), Compute::F32 | Compute::F64);
            if body.strict || body.repeatable || !float {
                return None;
            }
            if let Some([x, y]) = product(args[1]) {
                let how = if op == ElementOp::Add { Fused::Add } else { Fused::From };
                return Some((how, [x, y, args[0]]));
            }
            let [x, y] = product(args[0])?;
            Some((if op == ElementOp::Add { Fused::Add } else { Fused::Less }, [x, y, args[1]]))
        })
        .collect()
}
