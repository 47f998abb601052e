//! Cost features of a contraction: products, prologues and epilogue.
//!
//! In: a contraction with its geometry, and the bytes of each operand that are not counted yet. Out: its share of the
//! features. Tiles and panels that stay in a cache, and accumulators in registers, count no traffic.

use super::{CostFeatures, Product, contiguous, map, rectangle, rows};
use crate::cost::nodes::Work;
use thalweg_ir::{DType, ElementOp};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, Contraction, ContractionGeometry, Copied, Kernel, MapGeometry,
    MatmulGeometry, Node, NodeId, Precision, RowGeometry, Store, TileGeometry, Weights, bodies, copied, widened_bytes,
};

/// Number of points of a rectangle that an epilogue is launched on, or the prologues of several small products.
const RECTANGLE: u64 = 16 << 10;
/// Number of lines (rows of A, columns of B), and of terms, of a rectangle that a prologue is launched on.
const LINES: usize = 192;
const TERMS: usize = 256;
/// Number of rows, and of columns, of an output tile, the unit in which products are divided into chunks.
const PRODUCT_CHUNK: u64 = 96;

pub(super) fn contraction(
    c: &Contraction,
    g: &ContractionGeometry,
    left: &mut [u64],
    reads: usize,
    f: &mut CostFeatures,
) {
    let at = factors(c, g, left, f);
    f.leave_out_unseen(c, g);
    if c.takes_rows() {
        // Each block of rows repacks the right operands.
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

/// Adds the epilogue of a product; returns the number of operands it reads.
fn epilogue(c: &Contraction, g: &ContractionGeometry, left: &[u64], f: &mut CostFeatures) -> usize {
    let Some((epilogue, tiles)) = c.epilogue.as_deref().zip(g.epilogue.as_deref()) else { return 0 };
    // Accumulators are a tile that stays in cache, like the sources of a prologue.
    let mut own: Vec<u64> = left.to_vec();
    own.insert(epilogue.sums as usize, 0);
    own.resize((epilogue.reads + epilogue.writes) as usize, 0);
    let first = f.traffic.len();
    tiled(&epilogue.kernel, tiles, &mut own, epilogue.reads as usize, launches(c, g, (tiles, None)), f);
    f.forget_sums(first, epilogue.sums, bodies(&epilogue.kernel));
    epilogue.reads as usize - 1
}

/// Adds the features of the product and of the kernel operands that its matrix operands are read or computed from;
/// returns their number.
fn factors(c: &Contraction, g: &ContractionGeometry, left: &mut [u64], f: &mut CostFeatures) -> usize {
    product((c.dtype, c.precision), &g.product, f);
    let mut at = 0;
    for (n, (factor, tiles)) in c.factors.iter().zip(&g.factors).enumerate() {
        let Some((factor, tiles)) = factor.as_deref().zip(tiles.as_deref()) else {
            contiguous(&left[at..at + 1], 1, f);
            at += 1;
            continue;
        };
        // A prologue writes a panel that stays in cache; so do the accumulators it is computed from.
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
            // Packing calls no body.
            let (domain, work) = ((f.points, f.chunks, f.calls, f.setup), f.work);
            map(&loads, &g, &mut own, usize::MAX, f);
            ((f.points, f.chunks, f.calls, f.setup), f.work) = (domain, work);
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
        tiled(&factor.kernel, tiles, &mut own, usize::MAX, launches(c, g, (tiles, Some(n))), f);
    }
    at
}

/// Load-only body equivalent to a prologue that only copies a strided operand, such as windows; `None` for other
/// prologues. Tiles copy such an operand in place. With `borders` (a CPU), also if it is padded or converted from
/// bytes.
fn only_loads(kernel: &Kernel, tiles: &TileGeometry, borders: bool) -> Option<(Body, MapGeometry)> {
    let ([body], [tile]) = (bodies(kernel), &tiles.boxes[..]) else { return None };
    let g = &tile.geometry;
    let bytes = || widened_bytes(body, g).filter(|_| borders);
    let Copied { access, from, .. } = copied(body, g).filter(|c| borders || c.outside.is_none()).or_else(bytes)?;
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

/// Adds weights computed point by point: the work per point, and if they are exponentials (online softmax) the maximum,
/// the exponential, the sum, and the rounding.
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
    /// Scales the counts by the visible fraction of a causal mask: masked keys are not computed.
    fn leave_out_unseen(&mut self, c: &Contraction, g: &ContractionGeometry) {
        let Some((_, seen)) = thalweg_kernel::causal_mask(c, g) else { return };
        let (rows, keys) = (g.product.m as f64, g.product.k as f64);
        let of_row = |row: f64| (row + seen.ahead as f64).clamp(0.0, keys);
        let share = (of_row(0.0) + of_row(rows - 1.0)) / 2.0 / keys.max(1.0);
        let part = |n: &mut u64| *n = (*n as f64 * share) as u64;
        self.product.iter_mut().for_each(|p| part(&mut p.multiplications));
        let Work { simple, divide, special, special_wide, convert, slow, fold, scan, sort, once: _ } = &mut self.work;
        [simple, divide, special, special_wide, convert, slow, fold, scan, sort].into_iter().for_each(part);
        self.traffic.iter_mut().for_each(|t| part(&mut t.again));
    }

    /// Removes the rereads of accumulators, which are in registers, from the accesses from number `first` on.
    fn forget_sums(&mut self, first: usize, sums: u16, bodies: &[Body]) {
        if !self.passes_once {
            return;
        }
        let operands = bodies.iter().flat_map(|b| &b.accesses).filter_map(|a| a.operand);
        let own = self.traffic[first..].iter_mut().zip(operands);
        own.filter(|(_, o)| *o == sums).for_each(|(t, _)| t.again = 0);
    }
}

/// Adds the features of a map or row body that runs rectangle by rectangle, without changing the number of points and
/// chunks.
fn tiled(kernel: &Kernel, tiles: &TileGeometry, left: &mut [u64], reads: usize, launches: u64, f: &mut CostFeatures) {
    let points = (f.points, f.chunks);
    let setup = std::mem::take(&mut f.setup);
    bodies_of(kernel, tiles, left, reads, f);
    // The domain of a prologue or epilogue adds no points or chunks to those of the product.
    (f.points, f.chunks) = points;
    let boxes = bodies(kernel).len() as u64;
    f.inner_launches += launches * boxes.saturating_sub(1);
    f.inner_setup += launches * f.setup;
    f.setup = setup;
}

fn bodies_of(kernel: &Kernel, tiles: &TileGeometry, left: &mut [u64], reads: usize, f: &mut CostFeatures) {
    f.boxes = f.boxes.max(tiles.boxes.len() as u32);
    if let Kernel::Rows { body, orientation } = kernel {
        let MapGeometry { extents, accesses } = tiles.boxes[0].geometry.clone();
        let g = RowGeometry { kept: extents.len() - 1, extents, accesses };
        rows(body, *orientation, &g, left, reads, f);
        return;
    }
    for (body, part) in bodies(kernel).iter().zip(&tiles.boxes).filter(|(_, part)| part.geometry.points() > 0) {
        // Dimensions of a tile are not joined.
        let inner = *part.geometry.extents.last().expect("a tile has dimensions") as u64;
        rectangle(body, &part.geometry, inner, left, reads, f);
    }
}

/// Number of launches of the prologue of matrix operand `factor`, or of the epilogue, a rectangle each. Rectangles that
/// end inside of an outer dimension of their rows take two launches.
fn launches(c: &Contraction, g: &ContractionGeometry, (tiles, factor): (&TileGeometry, Option<usize>)) -> u64 {
    let (p, batches) = (&g.product, g.batches().max(1) as u64);
    let own = match factor {
        Some(n) => ([p.m, p.n][n].div_ceil(LINES) * p.k.div_ceil(TERMS)) as u64,
        None => (tiles.points() as u64 / batches).div_ceil(RECTANGLE),
    };
    let cut = if own > 1 && tiles.columns - tiles.rows > 1 { 2 } else { 1 };
    let groups = match factor {
        // Rows of several products, whose right operands are computed one by one.
        None | Some(0) if c.takes_rows() => batches.div_ceil(g.products_at_a_time(c) as u64),
        // Small products run in groups.
        _ if own == 1 && !c.takes_rows() => (tiles.points() as u64).div_ceil(RECTANGLE).min(batches),
        _ => batches,
    };
    own * cut * groups
}

fn product((dtype, precision): (DType, Precision), g: &MatmulGeometry, f: &mut CostFeatures) {
    let count = g.batch.iter().map(|d| d.0 as u64).product::<u64>();
    let (m, n, k) = (g.m as u64, g.n as u64, g.k as u64);
    f.points += count * m * n;
    f.chunks += count * m.max(n).div_ceil(PRODUCT_CHUNK);
    let vector = m == 1 || n == 1;
    let before = f.product.map_or((0, 0), |p| (p.multiplications, p.count));
    let (multiplications, count) = (before.0 + count * m * n * k, before.1 + count);
    let tf32 = precision == Precision::Tf32;
    f.product = Some(Product { dtype, multiplications, count, vector, tf32 });
}
