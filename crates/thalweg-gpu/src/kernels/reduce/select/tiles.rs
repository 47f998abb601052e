//! Tiled order of row elements, where operands are contiguous along different dimensions: `(x * x.t()).sum(..)`.
//!
//! In: a geometry. Out: the same points in another order, which a fold allows: tiles of the two dimensions, one after
//! the other, so that a warp reads whole sectors of 32 bytes of both operands. Only strides and sizes change; the
//! kernel is the same.

use crate::tunable::TUNABLES;
use thalweg_ir::MAX_RANK;
use thalweg_kernel::{Access, AccessGeometry, Body, RowGeometry};

/// Bytes of a sector, and bytes that a warp reads as neighbours along the innermost dimension.
const SECTOR: usize = 32;
const SIDE: usize = 64;

/// Geometry with two-dimensional tiles as rows; `None` where that does not help, or the order of points matters.
pub(super) fn tiled(body: &Body, g: &RowGeometry) -> Option<RowGeometry> {
    let in_order = body.strict || !body.scans.is_empty() || !body.combined.is_empty();
    let rank = g.extents.len();
    if in_order || rank < g.kept + 2 || rank + 2 > MAX_RANK || g.accesses.iter().any(|a| a.map.is_some()) {
        return None;
    }
    let innermost = rank - 1;
    let with = || body.accesses.iter().zip(&g.accesses).filter(|(a, _)| a.operand.is_some());
    let along = with().find(|(_, at)| at.strides[innermost] == 1)?.0;
    let fits =
        |d: usize, tile: usize| g.extents[d].is_multiple_of(tile) && TUNABLES.min_tiled_fold.reached_by(g.extents[d]);
    let other = |(access, at): (&Access, &AccessGeometry)| {
        let deep = (SECTOR / access.dtype.size()).min(16);
        let distant = at.strides[innermost].unsigned_abs() > 1;
        let dim = (g.kept..innermost).find(|&d| distant && at.strides[d] == 1 && fits(d, deep))?;
        Some((dim, deep))
    };
    let (dim, deep) = with().find_map(other)?;
    let wide = SIDE / along.dtype.size();
    if !fits(innermost, wide) {
        return None;
    }
    // Number of points of dimension `d` that a tile covers.
    let step = |d: usize| match d {
        _ if d == dim => deep,
        _ if d == innermost => wide,
        _ => 1,
    };
    let mut extents: Vec<usize> = g.extents.iter().enumerate().map(|(d, n)| n / step(d)).collect();
    extents.extend([deep, wide]);
    let turned = |at: &AccessGeometry| {
        let mut strides = at.strides;
        (0..rank).for_each(|d| strides[d] *= step(d) as isize);
        strides[rank..rank + 2].copy_from_slice(&[at.strides[dim], at.strides[innermost]]);
        AccessGeometry { strides, ..at.clone() }
    };
    Some(RowGeometry { extents, kept: g.kept, accesses: g.accesses.iter().map(turned).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::{DType, Monoid};
    use thalweg_kernel::{AccessClass, BodyBuilder, Node};

    fn both_ways(n: usize, strict: bool) -> (Body, RowGeometry) {
        let mut b = BodyBuilder::new(strict);
        let mut load = |operand, class| {
            let access = b.access(Access { operand: Some(operand), dtype: DType::F32, class, per_row: false });
            b.node(Node::Load { access })
        };
        let (x, _) = (load(0, AccessClass::Contiguous), load(1, AccessClass::Strided));
        b.fold(Monoid::Sum, x);
        let at = |own: [isize; 2]| {
            let mut strides = [0; MAX_RANK];
            strides[..2].copy_from_slice(&own);
            AccessGeometry { base: 0, strides, map: None, reach: None, distinct: n * n }
        };
        let accesses = vec![at([n as isize, 1]), at([1, n as isize])];
        (b.finish(), RowGeometry { extents: vec![n, n], kept: 0, accesses })
    }

    #[test]
    fn tiles_hold_every_point_once() {
        let (body, g) = both_ways(64, false);
        let tiled = tiled(&body, &g).unwrap();
        assert_eq!(tiled.extents, [8, 4, 8, 16]);
        let mut seen: Vec<[isize; 2]> = vec![];
        for i in 0..64 * 64usize {
            let place = [i / 512, i / 128 % 4, i / 16 % 8, i % 16];
            let of = |a: usize| (0..4).map(|d| place[d] as isize * tiled.accesses[a].strides[d]).sum::<isize>();
            seen.push([of(0), of(1)]);
        }
        seen.sort_unstable();
        let all: Vec<[isize; 2]> = (0..64 * 64).map(|i| [i, i % 64 * 64 + i / 64]).collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn what_has_an_order_or_is_small_stays_as_it_is() {
        assert!(tiled(&both_ways(64, true).0, &both_ways(64, true).1).is_none());
        assert!(tiled(&both_ways(72, false).0, &both_ways(72, false).1).is_none(), "72 is no multiple of 16");
        assert!(tiled(&both_ways(32, false).0, &both_ways(32, false).1).is_none());
    }
}
