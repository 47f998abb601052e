//! Bodies that only copy: what they write lies in memory, by strides inside of bounds, with one value around.
//!
//! In: a map body and where its accesses go. Out: a [`Copied`], for devices that read such elements from where they lie
//! instead of running the body (the windows of a convolution), and for the cost model, which counts them so.

use crate::{AccessGeometry, Body, Bordered, MapGeometry, Node, NodeId};
use thalweg_ir::{DType, ElementOp, MAX_RANK};

/// What a body copies.
#[derive(Clone, PartialEq, Debug)]
pub struct Copied {
    /// The number of the access that reads it.
    pub access: usize,
    /// Where its elements lie, and which points have one: at most [`MAX_RANK`] bounds.
    pub from: Bordered,
    /// A constant or a scalar of the launch: what the other points have. `None`: there are no others.
    pub outside: Option<NodeId>,
}

/// What the body converts from bytes to i32 for its one store, if that is all it does: a device that multiplies bytes
/// reads them where they lie.
pub fn widened_bytes(body: &Body, g: &MapGeometry) -> Option<Copied> {
    let [store] = &body.stores[..] else { return None };
    let Node::Cast { dtype: DType::I32, arg } = body.nodes[store.node.index()] else { return None };
    let Node::Load { access } = body.nodes[arg.index()] else { return None };
    let bytes = matches!(body.accesses[access as usize].dtype, DType::I8 | DType::U8);
    if !bytes || store.combine.is_some() {
        return None;
    }
    let from = bordered(g, access).filter(|from| from.bounds.is_empty())?;
    Some(Copied { access: access as usize, from, outside: None })
}

/// Where an access goes by steps, inside of bounds.
fn bordered(g: &MapGeometry, access: u16) -> Option<Bordered> {
    match &g.accesses[access as usize] {
        AccessGeometry { map: Some(map), .. } => map.bordered().filter(|_| map.shape().dims() == g.extents),
        AccessGeometry { base, strides, .. } => {
            let mut own = [0; MAX_RANK];
            own[..g.extents.len()].copy_from_slice(&strides[..g.extents.len()]);
            Some(Bordered { base: *base, strides: own, bounds: vec![] })
        }
    }
}

/// What the body copies to its one store, if that is all it does.
pub fn copied(body: &Body, g: &MapGeometry) -> Option<Copied> {
    let [store] = &body.stores[..] else { return None };
    if store.combine.is_some() {
        return None;
    }
    let value = body.nodes[store.node.index()];
    match value {
        Node::Load { access } => {
            let from = bordered(g, access)?;
            from.bounds.is_empty().then_some(Copied { access: access as usize, from, outside: None })
        }
        Node::Element { op: ElementOp::Where, args: [valid, inside, outside], .. } => {
            let [valid, inside, other] = [valid, inside, outside].map(|id| body.nodes[id.index()]);
            let (Node::Valid { access: asked }, Node::Load { access }) = (valid, inside) else { return None };
            if !matches!(other, Node::Const { .. } | Node::Scalar { .. }) {
                return None;
            }
            let (mut from, bounds) = (bordered(g, access)?, bordered(g, asked)?.bounds);
            // What is outside of another bound is 0, and not the value around.
            if bounds.len() > MAX_RANK || from.bounds.iter().any(|b| !bounds.contains(b)) {
                return None;
            }
            from.bounds = bounds;
            Some(Copied { access: access as usize, from, outside: Some(outside) })
        }
        _ => None,
    }
}
