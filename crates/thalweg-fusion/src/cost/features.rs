//! What the time of a kernel follows from, read from the kernel as it would be launched.

use super::costs::Costs;
use super::nodes::{self, NodeCounts, Work};
use serde::Serialize;
use thalweg_ir::{DType, ElementOp, ScatterOp};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, Computed, Contraction, ContractionGeometry, Copied, Geometry, Kernel,
    MapGeometry, MatmulGeometry, Node, NodeId, Orientation, RowGeometry, ScatterGeometry, Store, TileGeometry, Weights,
    bodies, copied, narrow, order,
};

/// Bytes of a cache line.
const LINE: u64 = 64;
/// Points of a stretch that is brought together for a row again and again at next to no cost.
const SHORT_PERIOD: usize = 256;
/// Columns so many bytes apart fall into few sets of the caches, where there are more than so many of them.
const CONFLICT: u64 = 1024;
const LEAST_CONFLICT: usize = 32;
/// Points of a chunk that one thread takes; what has fewer is not shared.
const CHUNK: u64 = 32 << 10;
/// Points of a call through tables of positions.
const TABLE: u64 = 2048;
/// Calls that take as long as a table for a short run of a row.
const TABLE_CALLS: u64 = 4;
/// Bytes that the strips of a kernel across rows are cut to, and the columns they have.
const STRIP_BYTES: u64 = 512 << 10;
const STRIP_COLUMNS: (u64, u64) = (64, 2048);
/// Rows side by side that may run as one stretch.
const JOINED: u64 = 128;
/// Rows and columns of a chunk of a product.
const PRODUCT_CHUNK: u64 = 96;
/// A row longer than this is passed over block by block where rescaling identities tie its folds.
const ONLINE_BYTES: u64 = 512 << 10;

/// How an access goes through its operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
pub enum Way {
    /// Neighbours after one another.
    Contiguous,
    /// One element for a whole stretch.
    Uniform,
    /// Elements apart, where those between them are used by neighbouring stretches: a transposed view.
    Transposed,
    /// The same, so many bytes apart that cache lines drive each other out before they are used up.
    Conflicting,
    /// Elements apart, those between them not used, or backwards.
    Strided,
    /// Through a table of positions that the launch fills.
    Mapped,
    /// At places that are computed.
    Gathered,
}

/// What one access moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Traffic {
    /// How it goes.
    pub way: Way,
    /// Whether it is written.
    pub write: bool,
    /// Bytes from or to memory: of the distinct elements, and of what lies on their cache lines beside them.
    pub bytes: u64,
    /// Bytes that it reads again because several points need an element.
    pub again: u64,
    /// Elements moved, over all points and passes; 0 for a uniform access.
    pub elements: u64,
    /// Whether elements have fewer than 4 bytes: apart, they are cut out of words.
    pub narrow: bool,
}

/// The rows of a row kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct RowFeatures {
    /// Whether vectors hold neighbours of a row; else of neighbouring rows.
    pub along: bool,
    /// Number of rows.
    pub rows: u64,
    /// Points of a row.
    pub row: u64,
    /// How often each row is passed over.
    pub passes: u32,
    /// Folds.
    pub folds: u32,
    /// Bytes that later passes read again, and that go through buffers between passes.
    pub again: u64,
    /// Bytes of what is passed over again before the next row or strip: they decide which cache `again` comes from.
    pub near: u64,
    /// Chunks that run by themselves: strips across rows, rows or stretches of them along.
    pub chunks: u64,
    /// Calls of the code.
    pub calls: u64,
    /// Whether points across narrow rows run as one stretch.
    pub joined: bool,
}

/// A matrix product.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Product {
    /// Its dtype.
    #[serde(serialize_with = "name")]
    pub dtype: DType,
    /// Multiplications with their additions.
    pub multiplications: u64,
    /// Single products.
    pub count: u64,
    /// Whether one side is a vector: bound by the bytes of the other.
    pub vector: bool,
}

/// What the time of a kernel follows from.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CostFeatures {
    /// Points of its domain.
    pub points: u64,
    /// Boxes of a [`Kernel::Boxes`]; else 1.
    pub boxes: u32,
    /// Stretches of neighbouring points over all calls: of a transposed or short domain there are many.
    pub runs: u64,
    /// Calls of the code.
    pub calls: u64,
    /// Chunks that threads can share.
    pub chunks: u64,
    /// One entry an access that has an operand.
    pub traffic: Vec<Traffic>,
    /// Arithmetic.
    pub work: Work,
    /// The most values alive at once.
    pub alive: u32,
    /// Of a row kernel.
    pub rows: Option<RowFeatures>,
    /// Of a matrix product.
    pub product: Option<Product>,
    /// Elements of right factors that are packed again for each block of rows.
    pub packed: u64,
    /// Bytes of factors that are computed.
    pub factors: u64,
    /// Values that are put in by a scatter.
    pub scattered: u64,
    /// Whether vector code cannot be emitted for it.
    pub portable: bool,
    /// Whether weights between two products are made in one pass, from scores in registers, where they can be: see
    /// [`Costs::one_pass`].
    #[serde(skip)]
    passes_once: bool,
    /// See [`Costs::borders`].
    #[serde(skip)]
    borders: bool,
}

fn name<S: serde::Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(dtype)
}

impl Costs {
    /// What the time of a kernel follows from. `touched` are the bytes of distinct elements of each operand that is read,
    /// `written` those of each that is written, in the order of the operands.
    pub fn features(&self, kernel: &Kernel, geometry: &Geometry, touched: &[usize], written: &[usize]) -> CostFeatures {
        let own = CostFeatures { passes_once: self.one_pass, borders: self.borders, ..CostFeatures::default() };
        let mut f = CostFeatures { boxes: 1, ..own };
        let mut left: Vec<u64> = touched.iter().chain(written).map(|&b| b as u64).collect();
        add(kernel, geometry, &mut left, touched.len(), &mut f);
        f.portable |= f.work.slow > 0;
        f
    }
}

fn add(kernel: &Kernel, geometry: &Geometry, left: &mut [u64], reads: usize, f: &mut CostFeatures) {
    match (kernel, geometry) {
        (Kernel::Map(body), Geometry::Map(g)) => map(body, g, left, reads, f),
        (Kernel::Boxes(bodies), Geometry::Boxes(all)) => {
            f.boxes = bodies.len() as u32;
            bodies.iter().zip(all).for_each(|(b, g)| map(b, g, left, reads, f));
        }
        (Kernel::Rows { body, orientation }, Geometry::Rows(g)) => rows(body, *orientation, g, left, reads, f),
        (Kernel::Contraction(c), Geometry::Contraction(g)) => contraction(c, g, left, reads, f),
        (Kernel::Scatter { op, inputs, .. }, Geometry::Scatter(g)) => scatter(*op, inputs, g, left, f),
        (Kernel::Group { kernels, parts }, Geometry::Group(all)) => {
            // All reads of all parts, then all writes.
            let (mut read, mut written) = (0, parts.iter().map(|p| p.reads as usize).sum::<usize>());
            for (part, geometry) in parts.iter().zip(all) {
                let (r, w) = (part.reads as usize, part.writes as usize);
                let mut own = [&left[read..read + r], &left[written..written + w]].concat();
                let boxes = f.boxes;
                add(&kernels[part.kernel as usize], geometry, &mut own, r, f);
                f.boxes = f.boxes.max(boxes + 1);
                (read, written) = (read + r, written + w);
            }
        }
        _ => panic!("kernel and geometry are of different kinds"),
    }
}

impl CostFeatures {
    /// Adds the arithmetic of a body.
    fn take(&mut self, counted: &NodeCounts) {
        self.work += counted.work;
        self.alive = self.alive.max(counted.alive);
    }
}

fn map(body: &Body, g: &MapGeometry, left: &mut [u64], reads: usize, f: &mut CostFeatures) {
    let points = g.points() as u64;
    let counted = nodes::nodes(body, points, 0);
    f.take(&counted);
    f.points += points;
    let inner = *g.extents.last().expect("a domain has a dimension") as u64;
    let outer = g.extents.iter().rev().nth(1).map_or(1, |&n| n as u64);
    let mapped = body.accesses.iter().any(|a| a.class == AccessClass::Mapped);
    let (run, call) = if mapped {
        (inner.min(TABLE), inner.min(TABLE))
    } else if is_narrow(body, g) {
        // Rows one after the other, as many as a table holds.
        ((narrow::call(inner as usize) as u64).min(inner * outer), (inner * outer).min(CHUNK))
    } else {
        (inner, (inner * outer).min(CHUNK))
    };
    f.runs += points / run.max(1);
    f.calls += points.div_ceil(call.max(1));
    f.chunks += points.div_ceil(CHUNK.max(call));
    let evaluations = |i: usize| points * counted.loads[i] as u64;
    traffic(body, &g.accesses, (&g.extents, g.extents.len() - 1), evaluations, left, reads, f);
}

/// Whether narrow rows are passed over as one line.
fn is_narrow(body: &Body, g: &MapGeometry) -> bool {
    narrow::narrow(body, &g.extents, |a| &g.accesses[a].strides).is_some()
}

fn rows(body: &Body, orientation: Orientation, g: &RowGeometry, left: &mut [u64], reads: usize, f: &mut CostFeatures) {
    let (rows, row) = (g.rows() as u64, g.row() as u64);
    let points = rows * row;
    let counted = nodes::nodes(body, points, rows);
    f.take(&counted);
    f.points += points;
    let along = orientation == Orientation::Along;
    let lane = if along { g.extents.len() - 1 } else { g.kept - 1 };
    let evaluations = |i: usize| {
        let loads = counted.loads[i] as u64;
        if body.accesses[i].per_row { rows * loads.min(1) } else { points * loads }
    };
    let first = f.traffic.len();
    traffic(body, &g.accesses, (&g.extents, lane), evaluations, left, reads, f);
    let mut r = row_features(body, along, g, &counted);
    if along {
        // A table is filled for each run, or elements are brought together for it.
        r.calls += r.calls * TABLE_CALLS * f.traffic[first..].iter().filter(|t| t.way == Way::Mapped).count() as u64;
    }
    let lanes = order::LANES as u64;
    let passes = counted.passes as u64;
    let stretches = passes * points / (g.extents[lane] as u64).max(1);
    if along {
        f.runs += stretches;
        // A store of elements apart has no vector form.
        f.portable |= body.stores.iter().any(|s| {
            let access = body.accesses[s.access as usize];
            !access.per_row && access.class != AccessClass::Contiguous
        });
    } else {
        // Where 32 points of a strip lie together they run as one.
        f.runs += if r.joined { stretches.div_ceil(lanes) } else { stretches };
        // The lanes of each fold start from the identity, and are put together.
        f.work.fold += rows * row.div_ceil(order::BLOCK as u64) * row.min(lanes) * counted.folds as u64;
    }
    let long = along && row > order::BLOCK as u64;
    f.chunks += if long { points.div_ceil(CHUNK) } else { rows.min(points.div_ceil(CHUNK)) };
    f.rows = Some(r);
}

fn row_features(body: &Body, along: bool, g: &RowGeometry, counted: &NodeCounts) -> RowFeatures {
    let (rows, row) = (g.rows() as u64, g.row() as u64);
    let loaded = |i: &usize| counted.loads[*i] > 0 && !body.accesses[*i].per_row && body.accesses[*i].operand.is_some();
    let (mut again, mut point) = (counted.kept, counted.held);
    for i in (0..body.accesses.len()).filter(loaded) {
        let size = body.accesses[i].dtype.size() as u64;
        again += size * (counted.loads[i] as u64 - 1);
        point += size;
    }
    let again = again * rows * row;
    let mut r = RowFeatures {
        along,
        rows,
        row,
        passes: counted.passes,
        folds: counted.folds,
        again,
        near: 0,
        chunks: 0,
        calls: 0,
        joined: false,
    };
    let block = order::BLOCK as u64;
    let passes = counted.passes as u64;
    if along {
        let online = !body.strict && passes > 1 && point * row > ONLINE_BYTES && row >= block;
        r.near = point * if online { block } else { row };
        let run = (*g.extents.last().expect("a row has a dimension") as u64).max(1);
        let inner = if g.kept == 0 { 1 } else { g.extents[g.kept - 1] as u64 };
        if run == row && row <= block {
            // As many rows a call as lie one step apart.
            r.chunks = rows / inner.max(1) * (inner * row).div_ceil(CHUNK);
            r.calls = r.chunks;
        } else {
            r.chunks = rows;
            r.calls = rows * (row / run) * run.div_ceil(block) * passes;
        }
        return r;
    }
    let columns = g.extents[g.kept - 1] as u64;
    let (narrow, wide) = STRIP_COLUMNS;
    let fits = (STRIP_BYTES / (point * row).max(1)).clamp(narrow, wide);
    let strip = (if passes > 1 { fits } else { wide }).min(columns).max(1);
    let even = |a: &thalweg_kernel::Access| matches!(a.class, AccessClass::Contiguous | AccessClass::Uniform);
    r.joined = columns <= JOINED && strip == columns && body.accesses.iter().all(even);
    r.near = point * row * strip;
    r.chunks = rows / columns * columns.div_ceil(strip);
    r.calls = r.chunks * row.div_ceil(block) * passes * if r.joined { 1 } else { row.min(order::LANES as u64) };
    r
}

/// What each access moves, read or written `evaluations` times; `left` is what has not been counted yet of each
/// operand.
fn traffic(
    body: &Body,
    all: &[AccessGeometry],
    (extents, lane): (&[usize], usize),
    evaluations: impl Fn(usize) -> u64,
    left: &mut [u64],
    reads: usize,
    f: &mut CostFeatures,
) {
    let gathers =
        |i: usize| body.nodes.iter().any(|n| matches!(n, Node::Gather { access, .. } if *access as usize == i));
    let any_gather = body.nodes.iter().any(|n| matches!(n, Node::Gather { .. }));
    for (i, (access, at)) in body.accesses.iter().zip(all).enumerate() {
        let size = access.dtype.size() as u64;
        let Some(operand) = access.operand else {
            if access.class == AccessClass::Mapped {
                let elements = evaluations(i);
                f.traffic.push(Traffic { way: Way::Mapped, write: false, bytes: 0, again: 0, elements, narrow: false });
            }
            continue;
        };
        let write = operand as usize >= reads;
        let gathered = any_gather && gathers(i);
        let (way, spread) = if gathered { (Way::Gathered, 1) } else { way(access.class, at, extents, lane, size) };
        let points: u64 = extents.iter().map(|&n| n as u64).product();
        let elements = match (write, way) {
            (true, _) if access.per_row => at.distinct as u64,
            (true, _) => points,
            (false, Way::Uniform) => 0,
            (false, _) => evaluations(i),
        };
        // Of what is gathered no more is moved than is asked for.
        let distinct =
            if gathered { elements.min(at.distinct.max(1) as u64 * LINE).max(1) } else { at.distinct as u64 };
        let counted = left.get_mut(operand as usize);
        let bytes = match counted {
            Some(left) if !gathered => {
                let bytes = (distinct * size).min(*left);
                *left -= bytes;
                bytes
            }
            Some(left) => (elements * size).min(*left),
            None => distinct * size,
        };
        let again = (elements.min(points) * size).saturating_sub(bytes);
        f.traffic.push(Traffic { way, write, bytes: bytes * spread, again, elements, narrow: size < 4 });
    }
}

/// How an access goes while the lanes of a vector run along dimension `lane`, and how many bytes are moved for one that
/// is used.
fn way(class: AccessClass, at: &AccessGeometry, extents: &[usize], lane: usize, size: u64) -> (Way, u64) {
    match class {
        AccessClass::Mapped => return (Way::Mapped, 1),
        AccessClass::Uniform => return (Way::Uniform, 1),
        // What begins anew again and again is brought together once and then doubled.
        AccessClass::Contiguous if at.map.as_ref().is_some_and(|m| m.period() > SHORT_PERIOD) => {
            return (Way::Mapped, 1);
        }
        // Reversed on the way into the lanes, which no memory waits for.
        AccessClass::Contiguous | AccessClass::Reversed => return (Way::Contiguous, 1),
        AccessClass::Strided => {}
    }
    let bytes = |d: usize| at.strides[d].unsigned_abs() as u64 * size;
    let moves = |&d: &usize| extents[d] > 1 && at.strides[d] != 0;
    let least = (0..extents.len()).filter(moves).map(bytes).min().unwrap_or(size);
    let spread = (least.min(LINE) / size).max(1);
    let transposed = bytes(lane) >= LINE && least < LINE;
    // In few rows the lines stay all the same.
    let conflicts = bytes(lane).is_multiple_of(CONFLICT) && extents[lane] > LEAST_CONFLICT;
    let way = match (transposed, conflicts) {
        (true, true) => Way::Conflicting,
        (true, false) => Way::Transposed,
        _ => Way::Strided,
    };
    (way, spread)
}

fn contraction(c: &Contraction, g: &ContractionGeometry, left: &mut [u64], reads: usize, f: &mut CostFeatures) {
    let at = factors(c, g, left, f);
    f.leave_out_unseen(c, g);
    if c.takes_rows() {
        // Each block of rows packs the right factors again.
        let blocks = g.row_blocks(c) as u64;
        let packed = |g: &ContractionGeometry| (g.product.k * g.product.n) as u64;
        let elements = packed(g) + g.inner.as_deref().map_or(0, packed);
        f.packed = blocks * elements;
        f.chunks = blocks;
    }
    match c.epilogue {
        Some(_) => {
            epilogue(c, g, &left[at..], f);
        }
        None => contiguous(&left[reads..], 0, f),
    }
}

/// What is made of the sums of a product; how many operands it reads.
fn epilogue(c: &Contraction, g: &ContractionGeometry, left: &[u64], f: &mut CostFeatures) -> usize {
    let Some((epilogue, tiles)) = c.epilogue.as_deref().zip(g.epilogue.as_deref()) else { return 0 };
    // The sums are a tile that stays in cache, and so is what a factor is computed from.
    let mut own: Vec<u64> = left.to_vec();
    own.insert(epilogue.sums as usize, 0);
    own.resize((epilogue.reads + epilogue.writes) as usize, 0);
    let first = f.traffic.len();
    tiled(&epilogue.kernel, tiles, &mut own, epilogue.reads as usize, f);
    f.forget_sums(first, epilogue.sums, bodies(&epilogue.kernel));
    epilogue.reads as usize - 1
}

/// The product and what its factors are read or computed from; how many operands that are.
fn factors(c: &Contraction, g: &ContractionGeometry, left: &mut [u64], f: &mut CostFeatures) -> usize {
    product(c.dtype, &g.product, f);
    let mut at = 0;
    for (factor, tiles) in c.factors.iter().zip(&g.factors) {
        let Some((factor, tiles)) = factor.as_deref().zip(tiles.as_deref()) else {
            contiguous(&left[at..at + 1], 1, f);
            at += 1;
            continue;
        };
        // What it writes is a panel that stays in cache, and so are the sums that it is computed from.
        let mut own = vec![];
        if let Some((inner, g)) = factor.inner.as_deref().zip(g.inner.as_deref()) {
            at += factors(&inner.product, g, &mut left[at..], f);
            let reads = inner.product.reads() - inner.product.factor_operands();
            at += epilogue(&inner.product, g, &left[at..at + reads], f);
            own.extend_from_slice(&left[at..at + factor.operands]);
            own.insert(inner.sums as usize, 0);
        } else {
            own.extend_from_slice(&left[at..at + factor.operands]);
        }
        at += factor.operands;
        if let Some((loads, g)) = only_loads(&factor.kernel, tiles, f.borders) {
            let domain = (f.points, f.chunks);
            map(&loads, &g, &mut own, usize::MAX, f);
            (f.points, f.chunks) = domain;
            continue;
        }
        if factor.inner.is_none() {
            f.factors += (tiles.points() * c.dtype.size()) as u64;
        }
        if let Some(sums) = factor.inner.as_deref().map(|i| i.sums).filter(|_| f.passes_once)
            && let Some(weights) = bodies(&factor.kernel).first().and_then(thalweg_kernel::weights)
        {
            one_pass(&weights, tiles, &mut own, sums, f);
            continue;
        }
        tiled(&factor.kernel, tiles, &mut own, usize::MAX, f);
    }
    at
}

/// A factor that lies in memory by strides, as windows do, as a body that loads it: tiles copy it from there, and where
/// the device says so, with what it is padded by.
fn only_loads(kernel: &Kernel, tiles: &TileGeometry, borders: bool) -> Option<(Body, MapGeometry)> {
    let ([body], [tile]) = (bodies(kernel), &tiles.boxes[..]) else { return None };
    let g = &tile.geometry;
    let Copied { access, from, .. } = copied(body, g).filter(|c| borders || c.outside.is_none())?;
    let store = Store { node: NodeId(0), access: 1, combine: None };
    let to = body.stores[0].access as usize;
    let class = AccessClass::of_step(from.strides[g.extents.len() - 1]);
    let loads = Body {
        nodes: vec![Node::Load { access: 0 }],
        accesses: vec![Access { class, ..body.accesses[access] }, body.accesses[to]],
        stores: vec![store],
        operands: body.operands,
        ..Body::default()
    };
    let at = AccessGeometry { base: from.base, strides: from.strides, map: None, ..g.accesses[access].clone() };
    let accesses = vec![at, g.accesses[to].clone()];
    Some((loads, MapGeometry { extents: g.extents.clone(), accesses }))
}

/// Weights that are made point by point: what a point takes, and where they are exponentials the maximum, the
/// exponential, the sum, and their rounding.
fn one_pass(weights: &Weights, tiles: &TileGeometry, left: &mut [u64], sums: u16, f: &mut CostFeatures) {
    let domain = (f.points, f.chunks, f.traffic.len());
    let geometry = &tiles.boxes[0].geometry;
    map(&weights.point, geometry, left, usize::MAX, f);
    f.forget_sums(domain.2, sums, std::slice::from_ref(&weights.point));
    (f.points, f.chunks) = (domain.0, domain.1);
    let points = geometry.points() as u64;
    f.work.convert += points;
    if weights.once.is_some() {
        f.work.special += points * u64::from(ElementOp::Exp.row().cost);
        f.work.fold += 2 * points;
    }
}

impl CostFeatures {
    /// What rows do not see is not computed.
    fn leave_out_unseen(&mut self, c: &Contraction, g: &ContractionGeometry) {
        let Some((_, seen)) = thalweg_kernel::seen(c, g) else { return };
        let (rows, keys) = (g.product.m as f64, g.product.k as f64);
        let of_row = |row: f64| (row + seen.ahead as f64).clamp(0.0, keys);
        let share = (of_row(0.0) + of_row(rows - 1.0)) / 2.0 / keys.max(1.0);
        let part = |n: &mut u64| *n = (*n as f64 * share) as u64;
        self.product.iter_mut().for_each(|p| part(&mut p.multiplications));
        let Work { simple, divide, special, special_wide, convert, slow, fold, scan, sort, once: _ } = &mut self.work;
        [simple, divide, special, special_wide, convert, slow, fold, scan, sort].into_iter().for_each(part);
        self.traffic.iter_mut().for_each(|t| part(&mut t.again));
    }

    /// Sums that are in registers are not read again, those of accesses from `first` on.
    fn forget_sums(&mut self, first: usize, sums: u16, bodies: &[Body]) {
        if !self.passes_once {
            return;
        }
        let operands = bodies.iter().flat_map(|b| &b.accesses).filter_map(|a| a.operand);
        let own = self.traffic[first..].iter_mut().zip(operands);
        own.filter(|(_, o)| *o == sums).for_each(|(t, _)| t.again = 0);
    }
}

/// A map that is run rectangle by rectangle, or rows that are.
fn tiled(kernel: &Kernel, tiles: &TileGeometry, left: &mut [u64], reads: usize, f: &mut CostFeatures) {
    let points = (f.points, f.chunks);
    f.boxes = f.boxes.max(tiles.boxes.len() as u32);
    if let Kernel::Rows { body, orientation } = kernel {
        let MapGeometry { extents, accesses } = tiles.boxes[0].geometry.clone();
        let g = RowGeometry { kept: extents.len() - 1, extents, accesses };
        rows(body, *orientation, &g, left, reads, f);
        (f.points, f.chunks) = points;
        return;
    }
    for (body, part) in bodies(kernel).iter().zip(&tiles.boxes).filter(|(_, part)| part.geometry.points() > 0) {
        map(body, &part.geometry, left, reads, f);
    }
    // It runs as the product does.
    (f.points, f.chunks) = points;
}

fn product(dtype: DType, g: &MatmulGeometry, f: &mut CostFeatures) {
    let count = g.batch.iter().map(|d| d.0 as u64).product::<u64>();
    let (m, n, k) = (g.m as u64, g.n as u64, g.k as u64);
    f.points += count * m * n;
    f.chunks += count * m.max(n).div_ceil(PRODUCT_CHUNK);
    let vector = m == 1 || n == 1;
    let before = f.product.map_or((0, 0), |p| (p.multiplications, p.count));
    let (multiplications, count) = (before.0 + count * m * n * k, before.1 + count);
    f.product = Some(Product { dtype, multiplications, count, vector });
}

/// Operands that are gone through once.
fn contiguous(left: &[u64], reads: usize, f: &mut CostFeatures) {
    f.traffic.extend(left.iter().enumerate().map(|(i, &bytes)| Traffic {
        way: Way::Contiguous,
        write: i >= reads,
        bytes,
        again: 0,
        elements: 0,
        narrow: false,
    }));
}

fn scatter(
    _: ScatterOp,
    inputs: &[Option<Box<Computed>>; 2],
    g: &ScatterGeometry,
    left: &mut [u64],
    f: &mut CostFeatures,
) {
    let around: u64 = g.outer.iter().chain(&g.inner).map(|d| d.0 as u64).product();
    f.scattered += around * g.n as u64;
    f.points += around * g.n as u64;
    f.chunks += around.max(1);
    // Tensor, then what index and values are computed from or lie in, then the result.
    let last = left.len() - 1;
    contiguous(&[left[0], left[last]], 1, f);
    let mut at = 1;
    for (input, geometry) in inputs.iter().zip(&g.inputs) {
        let Some((input, geometry)) = input.as_deref().zip(geometry.as_deref()) else {
            contiguous(&left[at..at + 1], 1, f);
            at += 1;
            continue;
        };
        let reads = input.operands;
        // What it writes stays in cache and is none of the launch's operands.
        let mut own: Vec<u64> = left[at..at + reads].to_vec();
        add(&input.kernel, geometry, &mut own, usize::MAX, f);
        at += reads;
    }
}
