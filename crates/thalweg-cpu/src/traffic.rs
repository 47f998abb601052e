//! Memory traffic of launches: bytes between memory and the cores' private caches, and bytes that the loops load and
//! store. This module covers maps, and provides the functions that the traffic of other kernels uses too.
//!
//! In: the bodies, phases and traversal of a program, and a geometry. Out: [`Moved`]. A core is assumed to cache
//! [`PRIVATE_CACHE`] bytes, the size that the blocks of programs are chosen for: the rows of a call, the strips of
//! columns, and the blocks that two passes share stay below it where they can. Cached data is not read from memory
//! again. A row above that size is read again in every pass, and its buffers count as memory as well. Partial results
//! of blocks (8 bytes per 4,064 elements) are not counted.

use crate::hardware::PRIVATE_CACHE;
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, AccessPattern, Body, MapGeometry, Moved, Nest, Node, NodeId, Store, Stream,
};

/// Loads of a body from operands: the index of the access, and whether the load is a gather.
pub fn loads(body: &Body) -> Vec<(usize, bool)> {
    let of = |node: &Node| match *node {
        Node::Load { access } => Some((access as usize, false)),
        Node::Gather { access, .. } => Some((access as usize, true)),
        _ => None,
    };
    body.nodes.iter().filter_map(of).filter(|l| body.accesses[l.0].operand.is_some()).collect()
}

/// Whether the loops over points load or store an access at each point: a value that is uniform in a row stays in a
/// register.
pub fn each_point(access: &Access) -> bool {
    access.class != AccessClass::Uniform && !access.per_row
}

/// For each node of a body, whether its value varies from point to point of a row.
pub fn varying(body: &Body) -> Vec<bool> {
    let mut varies: Vec<bool> = Vec::with_capacity(body.nodes.len());
    for (i, node) in body.nodes.iter().enumerate() {
        // A loop's iterations are those of a whole tile, even if its arguments are uniform.
        let looped = matches!(node, Node::Loop { .. });
        let own = looped || node.access().is_some_and(|a| each_point(&body.accesses[a as usize]));
        let of_args = body.args(NodeId(i as u32)).any(|a| varies[a.index()]);
        varies.push(own || of_args);
    }
    varies
}

/// Bytes that the loops load, and bytes that they store, per point, through the first `lines` accesses. A store that
/// combines also loads. `counts` selects the accesses that count, `gathers` the gather nodes.
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

/// Address pattern of an access: any element (a gather), positions of its index map, or strides, which `steps` returns
/// together with the base offset.
pub fn way(gathered: bool, at: &AccessGeometry, steps: impl FnOnce() -> (isize, Vec<isize>)) -> AccessPattern {
    match &at.map {
        _ if gathered => AccessPattern::Anywhere,
        Some(map) => AccessPattern::Mapped { distinct: at.distinct, masked: map.is_masked() },
        None => {
            let (base, steps) = steps();
            AccessPattern::Steps { base, steps }
        }
    }
}

/// Traffic of a map of a prepared body, or of one pass over its rows. Operands in `near` stay in the cache and do not
/// count.
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
        read: nest.read(PRIVATE_CACHE as u64),
        written: body.stores.iter().map(bytes).sum(),
        loaded: points * loaded,
        stored: points * stored,
    }
}
