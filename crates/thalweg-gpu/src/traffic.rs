//! Memory traffic of launches: bytes between memory and the multiprocessors.
//!
//! In: bodies with their geometries, as kernels pass over them. Out: [`Moved`], summed over a plan's launches as they
//! are added. A multiprocessor caches registers, shared memory and 64 KiB of its first-level cache; everything else is
//! memory, including the second-level cache. So a row that is held in registers is read once, one that is read by every
//! pass counts each time, and values between kernels go through scratch, written and read.

use std::ops::Range;
use thalweg_kernel::{
    AccessGeometry, AccessPattern, Body, MatmulGeometry, Moved, Nest, Node, Phase, RowGeometry, ScatterGeometry, Stream,
};

/// Bytes of the first-level cache that a block can rely on: several resident blocks share some 200 KiB.
const PRIVATE: u64 = 64 << 10;
/// Rows and columns of a block's tile of a matrix product.
const PRODUCT_TILE: usize = 64;

/// Iteration domain of a pass, with the accesses in it.
#[derive(Clone, Copy)]
pub struct Domain<'a> {
    /// Extents of the dimensions, rows first.
    pub extents: &'a [usize],
    /// Number of leading dimensions that enumerate rows.
    pub kept: usize,
    /// Geometry of each access: base and strides in the dimensions.
    pub at: &'a [AccessGeometry],
}

impl<'a> Domain<'a> {
    /// Iteration domain of a row kernel.
    pub fn of(g: &'a RowGeometry) -> Domain<'a> {
        Domain { extents: &g.extents, kept: g.kept, at: &g.accesses }
    }
}

/// Accesses that a body loads through, each with whether its indices are data-dependent (gathers).
fn loads(body: &Body) -> Vec<(usize, bool)> {
    let of = |node: &Node| match *node {
        Node::Load { access } => Some((access as usize, false)),
        Node::Gather { access, .. } => Some((access as usize, true)),
        _ => None,
    };
    body.nodes.iter().filter_map(of).filter(|l| body.accesses[l.0].operand.is_some()).collect()
}

/// Loop nests of a pass through these accesses: one over all points, and one over rows for accesses with one element a
/// row. Accesses beyond the geometry's are buffers, and are left out.
fn nests(body: &Body, domain: Domain<'_>, loads: &[(usize, bool)], written: bool) -> [Nest; 2] {
    [false, true].map(|per_row| {
        let dims = if per_row { domain.kept } else { domain.extents.len() };
        let stream = |&(a, gathered): &(usize, bool)| {
            let (access, at) = (&body.accesses[a], &domain.at[a]);
            let way = match &at.map {
                _ if gathered => AccessPattern::Anywhere,
                Some(map) => AccessPattern::Mapped { distinct: at.distinct, masked: map.is_masked() },
                None => AccessPattern::Steps { base: at.base, steps: at.strides[..dims].to_vec() },
            };
            Some(Stream { operand: access.operand?, size: access.dtype.size() as u64, way, written })
        };
        let own = loads.iter().filter(|l| l.0 < domain.at.len() && body.accesses[l.0].per_row == per_row);
        Nest { extents: domain.extents[..dims].to_vec(), streams: own.filter_map(stream).collect() }
    })
}

/// Bytes that fused passes read from memory. An element that stays cached counts once.
fn read(bodies: &[&Body], domain: Domain<'_>) -> u64 {
    let Some(first) = bodies.first() else { return 0 };
    let mut all: Vec<(usize, bool)> = bodies.iter().flat_map(|b| loads(b)).collect();
    all.sort_unstable();
    all.dedup();
    nests(first, domain, &all, false).iter().map(|n| n.read(PRIVATE)).sum()
}

/// Bytes that a body's stores write; elements that they combine with are loads of the body.
fn written(body: &Body, domain: Domain<'_>) -> u64 {
    let points = |per_row: bool| {
        let dims = if per_row { domain.kept } else { domain.extents.len() };
        domain.extents[..dims].iter().product::<usize>() as u64
    };
    let own = body.stores.iter().filter(|s| (s.access as usize) < domain.at.len());
    own.map(|s| &body.accesses[s.access as usize]).map(|a| points(a.per_row) * a.dtype.size() as u64).sum()
}

/// Memory traffic of a map.
pub fn map(body: &Body, extents: &[usize], at: &[AccessGeometry]) -> Moved {
    let domain = Domain { extents, kept: extents.len(), at };
    Moved { read: read(&[body], domain), written: written(body, domain), ..Moved::default() }
}

/// Traffic of a row kernel in one launch. With `held`, a row stays in registers from its first pass to its last. The
/// passes `together` run on a tile of the row while that is cached.
pub fn whole(phases: &[Phase], domain: Domain<'_>, held: bool, together: Option<Range<usize>>) -> Moved {
    let bodies: Vec<&Body> = phases.iter().map(|p| &p.body).collect();
    let near = together.unwrap_or(0..0);
    let (before, rest) = bodies.split_at(near.start);
    let (tile, behind) = rest.split_at(near.len());
    let each = |list: &[&Body]| list.iter().map(|b| read(&[b], domain)).sum::<u64>();
    let read = if held { read(&bodies, domain) } else { each(before) + read(tile, domain) + each(behind) };
    Moved { read, written: bodies.iter().map(|b| written(b, domain)).sum(), ..Moved::default() }
}

/// Traffic of a row kernel with a launch for each pass: buffers are in memory, and so are results of folds and the
/// partial results of `chunks` of a row. With `more`, other passes follow. The passes `together` are one launch.
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
        // The folds of the last fused pass store states instead of partial results.
        let states = near.contains(&number) && number + 1 == near.end;
        let parts = if chunks > 1 && !states { chunks as u64 } else { 0 };
        // Results are stored where a later pass reads them.
        let taken = (more || phases[number + 1..].iter().any(|p| !p.once)) as u64;
        moved += scratch(results * (parts + taken));
    }
    moved
}

/// Memory traffic of scratch memory: `bytes` that one launch writes and another one reads.
pub fn scratch(bytes: u64) -> Moved {
    Moved { read: bytes, written: bytes, ..Moved::default() }
}

/// Memory traffic of a matrix product: each tile of the result reads its rows of A and its columns of B.
pub fn product(g: &MatmulGeometry, size: usize) -> Moved {
    let batches: usize = g.batch.iter().map(|d| d.0).product();
    let read = g.m * g.k * g.n.div_ceil(PRODUCT_TILE) + g.k * g.n * g.m.div_ceil(PRODUCT_TILE);
    Moved { read: (batches * read * size) as u64, written: (batches * g.m * g.n * size) as u64, ..Moved::default() }
}

/// Traffic of a scatter: tensor, index and values are read, the result is written, and `bytes` of scratch pass between
/// its launches. Each value also reads and writes its target element.
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
