//! Memory traffic of fused contractions: matrix operands and results in memory, and the operands of prologues and
//! epilogues. Panels, tiles and blocks of rows are assumed to stay in private caches.

use super::inner_of;
use crate::hardware::PRIVATE_CACHE;
use crate::prepare::prepare;
use crate::traffic;
use thalweg_kernel::{Contraction, ContractionGeometry, Kernel, MatmulGeometry, Moved, TileGeometry, bodies};

/// Memory traffic of a launch of a contraction.
pub(super) fn moves(c: &Contraction, g: &ContractionGeometry) -> Moved {
    let mut moved = product_moves(c, g);
    let mut add = |c: &'_ Contraction, g: &'_ ContractionGeometry| {
        for (f, tiles) in c.factors.iter().zip(&g.factors) {
            let Some((f, tiles)) = f.as_deref().zip(tiles.as_deref()) else { continue };
            let sums = f.inner.as_ref().map(|i| i.sums);
            let last = f.operands as u16 + sums.is_some() as u16;
            moved += part_moves(&f.kernel, tiles, &sums.into_iter().chain([last]).collect::<Vec<_>>());
        }
    };
    add(c, g);
    if let Some((of, inner)) = inner_of(c).zip(g.inner.as_deref()) {
        add(&of.product, inner);
    }
    if let Some((e, tiles)) = c.epilogue.as_deref().zip(g.epilogue.as_deref()) {
        moved += part_moves(&e.kernel, tiles, &[e.sums]);
    }
    let of_inner = inner_of(c).and_then(|i| i.product.epilogue.as_deref());
    if let Some((e, tiles)) = of_inner.zip(g.inner.as_deref().and_then(|g| g.epilogue.as_deref())) {
        moved += part_moves(&e.kernel, tiles, &[e.sums, e.reads]);
    }
    moved
}

/// Traffic of the GEMMs without their bodies: operands A and B in memory, and the result if there is no epilogue. Each
/// block of rows reads B again, unless B stays cached.
fn product_moves(c: &Contraction, g: &ContractionGeometry) -> Moved {
    let (p, size) = (&g.product, c.dtype.size());
    let again = if c.takes_rows() { p.m.div_ceil(g.rows_at_a_time(c)) } else { 1 };
    let written = if c.epilogue.is_none() { g.batches() * p.m * p.n * size } else { 0 };
    let inner = inner_of(c).zip(g.inner.as_deref()).map_or(0, |(i, g)| factors_read(&i.product, &g.product, again));
    let read = factors_read(c, p, again) + inner;
    Moved { read: read as u64, written: written as u64, ..Moved::default() }
}

/// Number of bytes of A and B that are read from memory; B is read `again` times if it does not stay cached.
fn factors_read(c: &Contraction, p: &MatmulGeometry, again: usize) -> usize {
    let size = c.dtype.size();
    let factor = |n: usize| {
        let (at, dims) = [(p.a, [p.m, p.k]), (p.b, [p.k, p.n])][n];
        let stride = |d: &(usize, isize, isize)| if n == 0 { d.1 } else { d.2 };
        let all = p.batch.iter().map(|d| (d.0, stride(d))).chain([(dims[0], at.1), (dims[1], at.2)]);
        let bytes = all.filter(|d| d.1 != 0).map(|d| d.0).product::<usize>() * size;
        if n == 1 && p.k * p.n * size > PRIVATE_CACHE { bytes * again } else { bytes }
    };
    (0..2).filter(|&n| c.factors[n].is_none()).map(factor).sum()
}

/// Traffic of a prologue or epilogue body; operands in `near` stay cached and do not count.
fn part_moves(kernel: &Kernel, tiles: &TileGeometry, near: &[u16]) -> Moved {
    let boxes = bodies(kernel).iter().zip(&tiles.boxes).filter(|(_, part)| part.geometry.points() > 0);
    boxes.map(|(b, part)| traffic::map(&prepare(b), &part.geometry, near)).sum()
}
