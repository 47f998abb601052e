//! What launches move: bytes between memory and the cores' private caches, and what the loops load and store. Here are
//! maps, and what all bodies share.
//!
//! In: what a program runs - bodies, phases, how it passes over its domain - and a geometry. Out: [`Moved`]. A core
//! keeps [`PRIVATE`] bytes for itself, the figure that the programs are cut for: the rows that a call passes over, the
//! strips of columns, the blocks that two passes take together stay below it where they can. What stays is not read
//! again; rows beyond it are, in every pass, and the buffers of such rows are memory as well. Partial results of blocks
//! (8 bytes for 4,064 elements) stay out of account.

use crate::memory::PRIVATE;
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, MapGeometry, Moved, Nest, Node, NodeId, Store, Stream, Way,
};

/// What a body loads: numbers of accesses, each once, and whether by places that are data.
pub fn loads(body: &Body) -> Vec<(usize, bool)> {
    let of = |node: &Node| match *node {
        Node::Load { access } => Some((access as usize, false)),
        Node::Gather { access, .. } => Some((access as usize, true)),
        _ => None,
    };
    body.nodes.iter().filter_map(of).filter(|l| body.accesses[l.0].operand.is_some()).collect()
}

/// Whether the loops over points load or store it for each of them: what is the same for a row stays in a register.
pub fn each_point(access: &Access) -> bool {
    access.class != AccessClass::Uniform && !access.per_row
}

/// Which nodes differ from point to point of a row.
pub fn varying(body: &Body) -> Vec<bool> {
    let mut varies: Vec<bool> = Vec::with_capacity(body.nodes.len());
    for (i, node) in body.nodes.iter().enumerate() {
        // The turns of a loop are those of a tile, also where all its points have the same.
        let looped = matches!(node, Node::Loop { .. });
        let own = looped || node.access().is_some_and(|a| each_point(&body.accesses[a as usize]));
        let of_args = body.args(NodeId(i as u32)).any(|a| varies[a.index()]);
        varies.push(own || of_args);
    }
    varies
}

/// Bytes of a point that the loops load and store of the first `lines` accesses; what is put together with what is
/// there is loaded, too. `gathers` says of each node that loads by places that are data whether it does so for each
/// point.
pub fn issued(
    body: &Body,
    lines: usize,
    counts: impl Fn(&Access) -> bool,
    gathers: impl Fn(usize) -> bool,
) -> (u64, u64) {
    let size = |a: usize| body.accesses[a].dtype.size() as u64;
    let own = |a: usize| a < lines && counts(&body.accesses[a]);
    let of = |(i, node): (usize, &Node)| match *node {
        Node::Load { access } if body.accesses[access as usize].operand.is_some() && own(access as usize) => {
            size(access as usize)
        }
        Node::Gather { access, .. } if (access as usize) < lines && gathers(i) => size(access as usize),
        _ => 0,
    };
    let loaded: u64 = body.nodes.iter().enumerate().map(of).sum();
    let stores = || body.stores.iter().filter(|s| own(s.access as usize));
    let combined: u64 = stores().filter(|s| s.combine.is_some()).map(|s| size(s.access as usize)).sum();
    (loaded + combined, stores().map(|s| size(s.access as usize)).sum())
}

/// How an access goes: by its map, or by steps.
pub fn way(gathered: bool, at: &AccessGeometry, steps: impl FnOnce() -> (isize, Vec<isize>)) -> Way {
    match &at.map {
        _ if gathered => Way::Anywhere,
        Some(map) => Way::Mapped { distinct: at.distinct, masked: map.is_masked() },
        None => {
            let (base, steps) = steps();
            Way::Steps { base, steps }
        }
    }
}

/// A map of a prepared body, or one pass along its rows. What goes to the operands in `near` stays there.
pub fn map(body: &Body, g: &MapGeometry, near: &[u16]) -> Moved {
    let stream = |a: usize, gathered: bool, written: bool| {
        let (access, at) = (&body.accesses[a], &g.accesses[a]);
        Some(Stream {
            operand: access.operand?,
            size: access.dtype.size() as u64,
            way: way(gathered, at, || (at.base, at.strides[..g.extents.len()].to_vec())),
            written,
        })
        .filter(|s| !near.contains(&s.operand))
    };
    let read = loads(body).into_iter().filter_map(|(a, gathered)| stream(a, gathered, false));
    let streams = read.chain(body.stores.iter().filter_map(|s| stream(s.access as usize, false, true))).collect();
    let nest = Nest { extents: g.extents.clone(), streams };
    let points = nest.points();
    let (loaded, stored) = issued(body, body.accesses.len(), each_point, |_| true);
    let row = g.extents.last().map_or(1, |&n| n as u64);
    let bytes = |s: &Store| {
        let access = &body.accesses[s.access as usize];
        let far = access.operand.is_none_or(|o| !near.contains(&o));
        far as u64 * access.dtype.size() as u64 * if access.per_row { points / row.max(1) } else { points }
    };
    Moved {
        read: nest.read(PRIVATE as u64),
        written: body.stores.iter().map(bytes).sum(),
        loaded: points * loaded,
        stored: points * stored,
    }
}
