//! In-place boxes: boxes of a map that would copy elements to where they are already.
//!
//! In: the body and geometry of each box of a [`Kernel::Boxes`](crate::Kernel::Boxes). Replacing part of a tensor is
//! such a kernel: one box computes the new elements, the boxes around it copy the old ones. If the result reuses the
//! tensor's memory, the boxes around it have nothing to do.
//!
//! The planner (which operand may be overwritten), the CPU (which boxes run) and its counters (the traffic) all use
//! these functions, so that they agree.

use super::MapGeometry;
use crate::{Body, Node};

/// Whether every box reads, at each point, only the element of `operand` that it writes there. The result may then
/// reuse the operand's memory.
pub fn reads_in_place(boxes: &[(&Body, &MapGeometry)], operand: u16) -> bool {
    boxes.iter().all(|(body, g)| {
        let written = || body.stores.iter().map(|s| s.access as usize);
        let own = |a: &usize| body.accesses[*a].operand == Some(operand) && !written().any(|w| w == *a);
        (0..body.accesses.len()).filter(own).all(|a| written().all(|w| same_place(g, a, w)))
    })
}

/// Operand whose memory the result should reuse: the one most of whose elements stay unchanged, the first among equals.
/// `None` if no element stays unchanged, or if there is more than one store.
pub fn in_place_operand(boxes: &[(&Body, &MapGeometry)]) -> Option<u16> {
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

/// Whether a box only copies an operand's elements to the same positions of its output.
pub fn copies(body: &Body, g: &MapGeometry, operand: u16) -> bool {
    let [store] = &body.stores[..] else { return false };
    let Node::Load { access } = body.nodes[store.node.index()] else { return false };
    let (from, to) = (&body.accesses[access as usize], &body.accesses[store.access as usize]);
    from.operand == Some(operand)
        && from.dtype == to.dtype
        && store.combine.is_none()
        && same_place(g, access as usize, store.access as usize)
}

/// Whether two accesses have the same element position at every point.
fn same_place(g: &MapGeometry, a: usize, b: usize) -> bool {
    let (a, b) = (&g.accesses[a], &g.accesses[b]);
    let strides = |n: usize| g.extents[n] == 1 || a.strides[n] == b.strides[n];
    a.map.is_none() && b.map.is_none() && a.base == b.base && (0..g.extents.len()).all(strides)
}
