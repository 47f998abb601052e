//! What a map in boxes may leave as it is: elements that it would copy to where they are already.
//!
//! In: the body and geometry of each box of a [`Kernel::Boxes`](crate::Kernel::Boxes). A part of a tensor that is
//! replaced is such a kernel: a box computes the new elements, the boxes around it copy the old ones. Where the
//! result takes the place of the tensor, the boxes around it have nothing to do.
//!
//! The planner (which operand may be written over), the CPU (which boxes run) and its counters (what that moves) ask
//! here, so that they agree.

use super::MapGeometry;
use crate::{Body, Node};

/// Whether each point reads of an operand nothing but the element that it writes, in every box: what is written may lie
/// over it.
pub fn reads_in_place(boxes: &[(&Body, &MapGeometry)], operand: u16) -> bool {
    boxes.iter().all(|(body, g)| {
        let written = || body.stores.iter().map(|s| s.access as usize);
        let own = |a: &usize| body.accesses[*a].operand == Some(operand) && !written().any(|w| w == *a);
        (0..body.accesses.len()).filter(own).all(|a| written().all(|w| same_place(g, a, w)))
    })
}

/// The operand that the result is best written over: the one of which most elements stay as they are; the first of
/// equals. `None` where nothing stays, or more than one operand is written.
pub fn kept_in_place(boxes: &[(&Body, &MapGeometry)]) -> Option<u16> {
    let mut kept: Vec<(u16, usize)> = vec![];
    for (body, g) in boxes {
        let [store] = &body.stores[..] else { return None };
        let Node::Load { access } = body.nodes[store.node.index()] else { continue };
        let Some(operand) = body.accesses[access as usize].operand else { continue };
        if copies(body, g, operand) {
            match kept.iter_mut().find(|k| k.0 == operand) {
                Some(k) => k.1 += g.points(),
                None => kept.push((operand, g.points())),
            }
        }
    }
    kept.sort_by_key(|&(operand, points)| (std::cmp::Reverse(points), operand));
    kept.into_iter().map(|k| k.0).find(|&o| reads_in_place(boxes, o))
}

/// Whether a box does nothing but copy an operand's elements to the same places of the one that it writes.
pub fn copies(body: &Body, g: &MapGeometry, operand: u16) -> bool {
    let [store] = &body.stores[..] else { return false };
    let Node::Load { access } = body.nodes[store.node.index()] else { return false };
    let (from, to) = (&body.accesses[access as usize], &body.accesses[store.access as usize]);
    from.operand == Some(operand)
        && from.dtype == to.dtype
        && store.combine.is_none()
        && same_place(g, access as usize, store.access as usize)
}

/// Whether two accesses point at the same element number at every point.
fn same_place(g: &MapGeometry, a: usize, b: usize) -> bool {
    let (a, b) = (&g.accesses[a], &g.accesses[b]);
    let strides = |n: usize| g.extents[n] == 1 || a.strides[n] == b.strides[n];
    a.map.is_none() && b.map.is_none() && a.base == b.base && (0..g.extents.len()).all(strides)
}
