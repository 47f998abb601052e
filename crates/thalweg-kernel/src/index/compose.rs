//! Composition of two levels of an index map, and of masks, without renumbering points.
//!
//! In: levels, each a view with the valid indices of its dimensions. Out: one equivalent level, or nothing if there is
//! none.

use super::Level;
use thalweg_ir::{MAX_RANK, Shape, View};

/// Row-major strides of a shape.
pub(super) fn places(shape: Shape) -> [i64; MAX_RANK] {
    let mut places = [1; MAX_RANK];
    for j in (0..shape.rank().saturating_sub(1)).rev() {
        places[j] = places[j + 1] * shape[j + 1] as i64;
    }
    places
}

/// Composition of two levels, if each dimension of the upper one goes along a single dimension of the lower one without
/// carrying into another, so that no points are renumbered.
pub(super) fn composed(below: &Level, top: &Level) -> Option<Level> {
    let (inner, outer) = (&below.view, &top.view);
    let (rank, over) = (inner.shape.rank(), outer.shape.rank());
    let valid = |i: usize| top.mask.map_or((0, outer.shape[i] as i64), |m| m[i]);
    if inner.shape.numel() == 0 || (0..over).any(|i| valid(i).0 >= valid(i).1) {
        return None;
    }
    let places = places(inner.shape);
    // First valid point, and the range of indices of the lower level that is reached from there.
    let mut first = outer.offset as i64 + (0..over).map(|i| valid(i).0 * outer.strides()[i] as i64).sum::<i64>();
    if first < 0 || first >= inner.shape.numel() as i64 {
        return None;
    }
    let mut start = [0; MAX_RANK];
    for j in 0..rank {
        (start[j], first) = (first / places[j], first % places[j]);
    }
    let (mut low, mut high) = (start, start);
    let mut along = [None; MAX_RANK];
    for (i, along) in along.iter_mut().enumerate().take(over) {
        let (stride, steps) = (outer.strides()[i] as i64, valid(i).1 - valid(i).0 - 1);
        if stride == 0 || outer.shape[i] == 1 {
            continue;
        }
        let j = (0..rank).find(|&j| stride % places[j] == 0 && inner.shape[j] != 1)?;
        let by = stride / places[j];
        *along = Some((j, by));
        low[j] += (by * steps).min(0);
        high[j] += (by * steps).max(0);
        // The view starts at index 0, which may be masked out.
        start[j] -= by * valid(i).0;
    }
    if (0..rank).any(|j| low[j] < 0 || high[j] >= inner.shape[j] as i64) {
        return None;
    }
    let mut mask = [(0, 0); MAX_RANK];
    (0..over).for_each(|i| mask[i] = valid(i));
    for j in 0..rank {
        let Some((lo, hi)) = below.mask.map(|m| m[j]).filter(|m| m.0 > low[j] || m.1 <= high[j]) else { continue };
        let mut ways = (0..over).filter_map(|i| along[i].filter(|a| a.0 == j).map(|a| (i, a.1)));
        let (Some((i, by)), None) = (ways.next(), ways.next()) else { return None };
        let (a, b) = valid_steps((lo, hi), start[j], by);
        let end = outer.shape[i] as i64;
        mask[i] = (mask[i].0.max(a.clamp(0, end)), mask[i].1.min(b.clamp(0, end)));
    }
    let strides: Vec<isize> =
        (0..over).map(|i| along[i].map_or(0, |(j, by)| by as isize * inner.strides()[j])).collect();
    let offset = inner.offset + (0..rank).map(|j| start[j] as isize * inner.strides()[j]).sum::<isize>();
    let full = (0..over).all(|i| mask[i] == (0, outer.shape[i] as i64));
    Some(Level { view: View::new(outer.shape, &strides, offset), mask: (!full).then_some(mask) })
}

/// Range of steps `i` for which `start + i·by` is in `lo..hi`.
pub(super) fn valid_steps((lo, hi): (i64, i64), start: i64, by: i64) -> (i64, i64) {
    if by > 0 {
        (ceil_div(lo - start, by), ceil_div(hi - start, by))
    } else {
        (ceil_div(start - (hi - 1), -by), (start - lo).div_euclid(-by) + 1)
    }
}

fn ceil_div(a: i64, b: i64) -> i64 {
    -((-a).div_euclid(b))
}

/// Mask under another shape, if it is again a box: masked dimensions stay, or are the outermost of merged ones;
/// unmasked ones may be split and merged.
pub(super) fn reshape_mask(from: Shape, mask: &[(i64, i64); MAX_RANK], to: Shape) -> Option<[(i64, i64); MAX_RANK]> {
    // A dropped dimension of size 1 cannot carry a mask that excludes everything.
    if (0..from.rank()).any(|i| from[i] == 1 && mask[i] != (0, 1)) {
        return None;
    }
    let mut out = [(0, 1); MAX_RANK];
    let mut source = (0..from.rank()).filter(|&i| from[i] != 1).peekable();
    let mut target = (0..to.rank()).filter(|&i| to[i] != 1).peekable();
    // Groups of the fewest dimensions on both sides with equal numbers of points.
    while let (Some(first), Some(at)) = (source.next(), target.next()) {
        let (mut points, mut inner, mut wanted) = (from[first], 1, to[at]);
        let (mut sources, mut targets) = (vec![first], vec![at]);
        while points != wanted {
            if points < wanted {
                sources.push(source.next()?);
                inner *= from[*sources.last()?];
                points = from[first] * inner;
            } else {
                targets.push(target.next()?);
                wanted *= to[*targets.last()?];
            }
        }
        let is_full = |i: &usize| mask[*i] == (0, from[*i] as i64);
        let (lo, hi) = mask[first];
        match targets.as_slice() {
            [target] if sources[1..].iter().all(is_full) => out[*target] = (lo * inner as i64, hi * inner as i64),
            _ if sources.iter().all(is_full) => targets.iter().for_each(|&t| out[t] = (0, to[t] as i64)),
            _ => return None,
        }
    }
    (source.next().is_none() && target.next().is_none()).then_some(out)
}
