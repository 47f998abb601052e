//! Bodies that only copy: their source is strided within bounds, with one value outside.
//!
//! In: a map body and the geometry of its accesses. Out: a [`Copied`], for devices that read such elements in place
//! instead of running the body (the windows of a convolution), and for the cost model, which counts them accordingly.

use crate::{AccessGeometry, Body, Bordered, MapGeometry, Node, NodeId};
use thalweg_ir::{DType, ElementOp, MAX_RANK};

/// Copy performed by a body.
#[derive(Clone, PartialEq, Debug)]
pub struct Copied {
    /// Index of the access that the body reads.
    pub access: usize,
    /// Positions of the source elements, and the points that have one: at most [`MAX_RANK`] bounds.
    pub from: Bordered,
    /// Node of the constant or launch scalar at all other points. `None`: there are no other points.
    pub outside: Option<NodeId>,
}

/// Copy performed by a body that only converts bytes to i32 for its one store; `None` for other bodies. A device that
/// multiplies bytes reads them in place.
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

/// Positions of an access as bounded strides.
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

/// Copy performed by a body that does nothing else for its one store; `None` for other bodies.
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
            // Outside of another bound the load gives 0, not the outside value.
            if bounds.len() > MAX_RANK || from.bounds.iter().any(|b| !bounds.contains(b)) {
                return None;
            }
            from.bounds = bounds;
            Some(Copied { access: access as usize, from, outside: Some(outside) })
        }
        _ => None,
    }
}
