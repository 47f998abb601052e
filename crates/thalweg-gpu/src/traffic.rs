//! What launches move: bytes between memory and the multiprocessors.
//!
//! In: bodies with their geometries, as the kernels pass over them. Out: [`Moved`], summed over a plan's launches as
//! they are added. A multiprocessor keeps registers, shared memory and 64 KiB of its first-level cache;
//! everything else is memory, the second-level cache included. So a row that is held in registers is read once, one
//! that is passed over again is read again, and what kernels hand to each other goes through scratch, written and read.

use std::ops::Range;
use thalweg_kernel::{
    AccessGeometry, Body, MatmulGeometry, Moved, Nest, Node, Phase, RowGeometry, ScatterGeometry, Stream, Way,
};

/// Bytes of the first-level cache that a block counts on: a few run side by side in some 200 KiB.
const PRIVATE: u64 = 64 << 10;
/// Rows and columns of the result that a block of a matrix product has.
const PRODUCT_TILE: usize = 64;

/// Where a pass goes.
#[derive(Clone, Copy)]
pub struct Domain<'a> {
    /// Sizes.
    pub extents: &'a [usize],
    /// How many of them number rows.
    pub kept: usize,
    /// Where each access goes.
    pub at: &'a [AccessGeometry],
}

impl<'a> Domain<'a> {
    /// Of a row kernel.
    pub fn of(g: &'a RowGeometry) -> Domain<'a> {
        Domain { extents: &g.extents, kept: g.kept, at: &g.accesses }
    }
}

/// Accesses that a body loads through, and whether by places that are data.
fn loads(body: &Body) -> Vec<(usize, bool)> {
    let of = |node: &Node| match *node {
        Node::Load { access } => Some((access as usize, false)),
        Node::Gather { access, .. } => Some((access as usize, true)),
        _ => None,
    };
    body.nodes.iter().filter_map(of).filter(|l| body.accesses[l.0].operand.is_some()).collect()
}

/// A pass through these accesses, of a body whose accesses of that number on are no operands; what rows have one
/// element of apart.
fn nests(body: &Body, domain: Domain<'_>, loads: &[(usize, bool)], written: bool) -> [Nest; 2] {
    [false, true].map(|per_row| {
        let dims = if per_row { domain.kept } else { domain.extents.len() };
        let stream = |&(a, gathered): &(usize, bool)| {
            let (access, at) = (&body.accesses[a], &domain.at[a]);
            let way = match &at.map {
                _ if gathered => Way::Anywhere,
                Some(map) => Way::Mapped { distinct: at.distinct, masked: map.is_masked() },
                None => Way::Steps { base: at.base, steps: at.strides[..dims].to_vec() },
            };
            Some(Stream { operand: access.operand?, size: access.dtype.size() as u64, way, written })
        };
        let own = loads.iter().filter(|l| l.0 < domain.at.len() && body.accesses[l.0].per_row == per_row);
        Nest { extents: domain.extents[..dims].to_vec(), streams: own.filter_map(stream).collect() }
    })
}

/// What is read by passes that run together, each element once where it stays.
fn read(bodies: &[&Body], domain: Domain<'_>) -> u64 {
    let Some(first) = bodies.first() else { return 0 };
    let mut all: Vec<(usize, bool)> = bodies.iter().flat_map(|b| loads(b)).collect();
    all.sort_unstable();
    all.dedup();
    nests(first, domain, &all, false).iter().map(|n| n.read(PRIVATE)).sum()
}

/// What a body's stores write; what they combine with comes from memory as well.
fn written(body: &Body, domain: Domain<'_>) -> u64 {
    let points = |per_row: bool| {
        let dims = if per_row { domain.kept } else { domain.extents.len() };
        domain.extents[..dims].iter().product::<usize>() as u64
    };
    let own = body.stores.iter().filter(|s| (s.access as usize) < domain.at.len());
    own.map(|s| &body.accesses[s.access as usize]).map(|a| points(a.per_row) * a.dtype.size() as u64).sum()
}

/// A map.
pub fn map(body: &Body, extents: &[usize], at: &[AccessGeometry]) -> Moved {
    let domain = Domain { extents, kept: extents.len(), at };
    Moved { read: read(&[body], domain), written: written(body, domain), ..Moved::default() }
}

/// A row kernel of one launch; `held`: a row stays in registers from its first pass to its last; `together` run on a
/// tile of it while that is near.
pub fn whole(phases: &[Phase], domain: Domain<'_>, held: bool, together: Option<Range<usize>>) -> Moved {
    let bodies: Vec<&Body> = phases.iter().map(|p| &p.body).collect();
    let near = together.unwrap_or(0..0);
    let (before, rest) = bodies.split_at(near.start);
    let (tile, behind) = rest.split_at(near.len());
    let each = |list: &[&Body]| list.iter().map(|b| read(&[b], domain)).sum::<u64>();
    let read = if held { read(&bodies, domain) } else { each(before) + read(tile, domain) + each(behind) };
    Moved { read, written: bodies.iter().map(|b| written(b, domain)).sum(), ..Moved::default() }
}

/// A row kernel of a launch for each pass: buffers are memory, and so are the folds' results and the partial results of
/// `chunks` of a row. `more`: other passes come behind. `together` is one of the launches.
pub fn staged(
    phases: &[Phase],
    more: bool,
    domain: Domain<'_>,
    chunks: usize,
    together: Option<Range<usize>>,
) -> Moved {
    let near = together.clone().unwrap_or(0..0);
    let mut moved = whole(phases, domain, false, together);
    let rows = domain.extents[..domain.kept].iter().product::<usize>() as u64;
    let points = domain.extents.iter().product::<usize>() as u64;
    let lines = domain.at.len();
    for (number, body) in phases.iter().map(|p| &p.body).enumerate() {
        let buffer = |a: usize| (a >= lines).then(|| points * body.accesses[a].dtype.size() as u64);
        moved.read += loads(body).iter().filter_map(|l| buffer(l.0)).sum::<u64>();
        moved.written += body.stores.iter().filter_map(|s| buffer(s.access as usize)).sum::<u64>();
        let results: u64 = body.folds.iter().map(|f| rows * body.dtype(f.node).size() as u64).sum();
        // What the last of these folds, blocks leave as states.
        let states = near.contains(&number) && number + 1 == near.end;
        let parts = if chunks > 1 && !states { chunks as u64 } else { 0 };
        // Results are left where a later pass takes them.
        let taken = (more || phases[number + 1..].iter().any(|p| !p.once)) as u64;
        moved += scratch(results * (parts + taken));
    }
    moved
}

/// Bytes that one launch leaves and another one takes.
pub fn scratch(bytes: u64) -> Moved {
    Moved { read: bytes, written: bytes, ..Moved::default() }
}

/// A matrix product: each block of the result reads its rows and columns.
pub fn product(g: &MatmulGeometry, size: usize) -> Moved {
    let batches: usize = g.batch.iter().map(|d| d.0).product();
    let read = g.m * g.k * g.n.div_ceil(PRODUCT_TILE) + g.k * g.n * g.m.div_ceil(PRODUCT_TILE);
    Moved { read: (batches * read * size) as u64, written: (batches * g.m * g.n * size) as u64, ..Moved::default() }
}

/// A scatter: tensor, index and values are read and the result is written, and its launches hand so many bytes of
/// scratch to each other. What its values find in memory where they are put in is theirs to read and write.
pub fn scatter(g: &ScatterGeometry, size: usize, bytes: usize) -> Moved {
    let beside: usize = g.outer.iter().chain(&g.inner).map(|d| d.0).product();
    let distinct = |which: usize| {
        let along = (g.n, g.steps);
        let dims = g.outer.iter().chain(&g.inner).chain([&along]);
        dims.filter(|d| d.1[which] != 0).map(|d| d.0).product::<usize>()
    };
    let (result, values) = (beside * g.size * size, beside * g.n * size);
    Moved {
        read: (result + 8 * distinct(1) + distinct(2) * size + values) as u64,
        written: (result + values) as u64,
        ..Moved::default()
    } + scratch(bytes as u64)
}
