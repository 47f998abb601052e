//! Maps whose innermost dimensions have a few points each, such as 2×2 windows and operands broadcast over them.
//!
//! In: a checked launch whose calls would have a few points, since some operand is not contiguous from any of the
//! innermost dimensions to the next. Out: the same launch with these dimensions joined into one, in which results are
//! contiguous. Operands that are not contiguous there are read through tables of positions. A table is filled once for
//! many calls if positions repeat with an outer dimension ([`crate::tables`]), as they do here. Rows of a few points whose
//! operands would have to be staged ([`crate::narrow`]) are joined, too, if what is read through tables is close together.
//!
//! **Example.** The gradient of 2×2 max pooling over `[2048, 4, 4]` has the dimensions `[2048, 2, 2, 2, 2]`. The image
//! and the result are contiguous; the largest element is shared by 2×2 points that are not adjacent. In rectangles
//! these are 8,192 calls of 4 points; in one dimension 32 calls of 1,024 points with a table.

use crate::flat::Facts;
use crate::tables::Mapped;
use crate::tunable::TUNABLES;
use std::sync::Arc;
use thalweg_ir::{MAX_RANK, Shape, View};
use thalweg_kernel::{Body, IndexMap, MapGeometry, dims};
use thalweg_runtime::Buffer;

/// Number of points whose elements are looked at: a vector's.
const VECTOR: usize = 8;

/// A domain with merged dimensions: their sizes, and the strides of each access over them.
pub type Merged = (Vec<usize>, Vec<[isize; MAX_RANK]>);

/// A launch whose innermost dimensions are joined into one.
pub struct Short {
    pub merged: Merged,
    /// Position tables by access, including those that had a table before.
    pub maps: Vec<Option<Mapped>>,
    /// Accesses that change from strided to mapped, because they are not contiguous over the joined dimension.
    pub others: Vec<u16>,
}

/// Joins the innermost dimensions of a launch; `None` if its calls are long enough, or joining would not make them
/// longer by `TUNABLES.min_call_gain`. With `close_bytes`, the length of calls does not matter; it is `None` if some
/// operand's elements for the points of a vector are that far apart.
pub fn short(
    (body, facts): (&Body, &Facts),
    geometry: &MapGeometry,
    (extents, strides): &Merged,
    operands: &[&Buffer],
    mapped: &[Option<Mapped>],
    close_bytes: Option<usize>,
) -> Option<Short> {
    let last = extents.len() - 1;
    let has_tables = mapped.iter().any(Option::is_some);
    let rows = if last > 0 && !has_tables { extents[last - 1] } else { 1 };
    let call = rows.saturating_mul(extents[last]);
    let tune = &TUNABLES;
    let long = match has_tables {
        true => tune.min_table_call_points.reached_by(call),
        false => tune.min_row_points.reached_by(extents[last]) || tune.min_call_points.reached_by(call),
    };
    if long && close_bytes.is_none() {
        return None;
    }
    let runs_on = |a: usize, d: usize| mapped[a].is_some() || dims::runs_on(&strides[a], d, d + 1, extents[d + 1]);
    let written = |d: &usize| body.stores.iter().all(|s| runs_on(s.access as usize, *d));
    let first = (0..last).rev().take_while(written).last()?;
    let points: usize = extents[first..].iter().product();
    if close_bytes.is_none() && tune.min_call_gain.side(points < tune.min_call_gain.get() * call) {
        return None;
    }
    let others = |a: &usize| mapped[*a].is_none() && !(first..last).all(|d| runs_on(*a, d));
    let others: Vec<usize> = (0..body.accesses.len()).filter(others).collect();
    if others.iter().any(|&a| facts.uses[a].gathered) {
        return None;
    }
    let shape = Shape::new(extents);
    let mut maps: Vec<Option<Mapped>> = mapped.to_vec();
    let mut made: Vec<(usize, Arc<IndexMap>)> = vec![];
    for &a in &others {
        let access = &body.accesses[a];
        let (strides, base) = (&strides[a][..=last], geometry.accesses[a].base);
        // Positions of a table are not negative. Where they are values, they are the access's own.
        let backwards = |(&n, &step): (&usize, &isize)| (n as isize - 1) * step.min(0);
        let least: isize = extents.iter().zip(strides).map(backwards).sum();
        let start = if facts.uses[a].numbers { 0 } else { base + least };
        let map = IndexMap::new(View::new(shape, strides, base - start));
        // Accesses with equal maps share a table, if both or neither read positions as values.
        let same = made.iter().find(|(b, m)| **m == map && facts.uses[*b].numbers == facts.uses[a].numbers);
        let (map, like) = match same {
            Some((b, map)) => (map.clone(), Some(*b)),
            None => (Arc::new(map), None),
        };
        let unit = if access.operand.is_some() { access.dtype.size() } else { 1 };
        let len = access.operand.map(|o| operands[o as usize].bytes() / unit);
        if close_bytes.is_some_and(|bytes| like.is_none() && !map.is_close(VECTOR, (bytes / unit) as u64)) {
            return None;
        }
        made.push((a, map.clone()));
        let table = Mapped::new(&map, (unit, len), facts.uses[a].numbers, like).from(start as i64);
        maps[a] = Some(table).filter(|m| !m.is_too_wide())?.into();
    }
    let one = |of: &[isize; MAX_RANK]| {
        let mut strides = [0; MAX_RANK];
        strides[..first].copy_from_slice(&of[..first]);
        strides[first] = of[last];
        strides
    };
    let extents = extents[..first].iter().copied().chain([points]).collect();
    let merged = (extents, strides.iter().map(one).collect());
    Some(Short { merged, maps, others: others.into_iter().map(|a| a as u16).collect() })
}
