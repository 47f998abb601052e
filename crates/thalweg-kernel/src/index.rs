//! Index maps: from a point of a kernel's domain to a position in a source, through any chain of movement.
//!
//! A map is a stack of strided views. The top one has the domain's shape. Each turns an index into a row-major index of
//! the one below, the bottom one into a position in the buffer. Movement that a strided view can express changes the
//! top; only a reshape that it cannot express pushes a new view (the idea of tinygrad's ShapeTracker). Padding is a
//! range of valid indices kept beside a view.

mod border;
mod compose;
mod levels;
mod repeat;
mod separable;
mod shift;
mod steps;
#[cfg(test)]
mod tests;

use crate::dims;
pub use border::{Bordered, Bound, Positions};
use compose::{composed, places, reshape_mask, valid_steps};
use smallvec::{SmallVec, smallvec};
use steps::SteppedPoints;
use thalweg_ir::{MAX_RANK, Shape, View};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Level {
    view: View,
    /// Valid indices `lo..hi` of each dimension; outside, the point is masked out.
    mask: Option<[(i64, i64); MAX_RANK]>,
}

/// Map from a domain's points to positions in a source, or to nothing for points in padding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexMap {
    /// Levels, bottom (buffer side) first; never empty.
    levels: SmallVec<[Level; 1]>,
}

impl IndexMap {
    /// Map of a view of a buffer.
    pub fn new(view: View) -> IndexMap {
        IndexMap { levels: smallvec![Level { view, mask: None }] }
    }

    /// Shape of the domain.
    pub fn shape(&self) -> Shape {
        self.top().view.shape
    }

    fn top(&self) -> &Level {
        self.levels.last().expect("a map has a level")
    }

    /// The whole map as one strided view; `None` if it has several levels or masks points.
    pub fn as_view(&self) -> Option<&View> {
        match self.levels.as_slice() {
            [Level { view, mask: None }] => Some(view),
            _ => None,
        }
    }

    /// Whether some points may be masked out.
    pub fn is_masked(&self) -> bool {
        self.levels.iter().any(|l| l.mask.is_some())
    }

    fn with_top(mut self, f: impl FnOnce(&mut Level)) -> IndexMap {
        let top = self.levels.last_mut().expect("a map has a level");
        f(top);
        // A slice may leave no masked points: one part of a concatenation, for example.
        let whole = |(mask, &size): (&(i64, i64), &usize)| mask.0 <= 0 && mask.1 >= size as i64;
        top.mask = top.mask.filter(|mask| !mask.iter().zip(top.view.shape.iter()).all(whole));
        while let [.., below, top] = self.levels.as_slice()
            && let Some(both) = composed(below, top)
        {
            self.levels.pop();
            *self.levels.last_mut().expect("there were two") = both;
        }
        self
    }

    /// Views of all levels, the domain's first. Each has the valid indices `lo..hi` of its dimensions if some points
    /// are masked out. The row-major position in one view is the point of the next; in the last it is the position in
    /// the source.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = (&View, Option<&[(i64, i64)]>)> {
        self.levels.iter().rev().map(|l| (&l.view, l.mask.as_ref().map(|m| &m[..l.view.shape.rank()])))
    }

    /// Reorders the domain's dimensions: dimension `i` of the result is dimension `order[i]`.
    pub fn permute(self, order: &[usize]) -> IndexMap {
        self.with_top(|l| {
            l.view = l.view.permute(order);
            if let Some(mask) = &mut l.mask {
                let old = *mask;
                for (i, &o) in order.iter().enumerate() {
                    mask[i] = old[o];
                }
            }
        })
    }

    /// Broadcasts the domain to a shape.
    pub fn expand(self, shape: Shape) -> IndexMap {
        self.with_top(|l| {
            let old = l.view.shape;
            l.view = l.view.expand(shape);
            if let Some(mask) = &mut l.mask {
                let lead = shape.rank() - old.rank();
                let from = *mask;
                for i in 0..shape.rank() {
                    let full = (0, shape[i] as i64);
                    mask[i] = match i.checked_sub(lead) {
                        Some(j) if old[j] == shape[i] => from[j],
                        // A single masked-out element stays masked out when it is repeated.
                        Some(j) if from[j].0 >= from[j].1 || from[j].0 > 0 => (0, 0),
                        _ => full,
                    };
                }
            }
        })
    }

    /// Slices each dimension of the domain; `parts` are the start, step and length of each.
    pub fn slice(self, parts: &[(i64, i64, usize)]) -> IndexMap {
        self.with_top(|l| {
            l.view = l.view.slice(parts);
            if let Some(mask) = &mut l.mask {
                for (m, &(start, step, len)) in mask.iter_mut().zip(parts) {
                    // Index i of the result is start + i·step of the source.
                    let (a, b) = valid_steps(*m, start, step);
                    *m = (a.clamp(0, len as i64), b.clamp(0, len as i64));
                }
            }
        })
    }

    /// Replaces dimension `axis` of the domain by sliding windows of `size` elements every `step` elements: it counts
    /// the windows, and a new last dimension is the index inside a window.
    pub fn window(self, axis: usize, size: usize, step: usize) -> IndexMap {
        // A masked dimension split in two is not a box of valid indices: keep it at a level below.
        let map = if self.top().mask.is_some() { self.level_up() } else { self };
        map.with_top(|l| l.view = l.view.window(axis, size, step))
    }

    /// Pads each dimension of the domain with masked-out elements: their numbers before and after are `parts`.
    pub fn pad(self, parts: &[(usize, usize)]) -> IndexMap {
        self.with_top(|l| {
            let mut mask = l.mask.unwrap_or([(0, 0); MAX_RANK]);
            let fresh = l.mask.is_none();
            let mut view = l.view;
            for (i, &(before, after)) in parts.iter().enumerate() {
                let d = view.shape[i];
                let (lo, hi) = if fresh { (0, d as i64) } else { mask[i] };
                mask[i] = (lo + before as i64, hi + before as i64);
                view.offset -= before as isize * view.strides()[i];
                view.shape.dims_mut()[i] = d + before + after;
            }
            l.view = view;
            if parts.iter().any(|&(b, a)| b + a > 0) || !fresh {
                l.mask = Some(mask);
            }
        })
    }

    /// Map without the masks of dimensions along which one index is valid: the other indices then read its elements.
    pub fn without_single_masks(&self) -> IndexMap {
        self.clone().with_top(|l| {
            let Some(mask) = &mut l.mask else { return };
            let rank = l.view.shape.rank();
            for (i, bounds) in mask[..rank].iter_mut().enumerate() {
                let (low, high) = *bounds;
                if high - low == 1 {
                    l.view.offset += low as isize * l.view.strides()[i];
                    let mut strides = [0; MAX_RANK];
                    strides[..rank].copy_from_slice(l.view.strides());
                    strides[i] = 0;
                    l.view = View::new(l.view.shape, &strides[..rank], l.view.offset);
                    *bounds = (0, l.view.shape[i] as i64);
                }
            }
            if (0..rank).all(|i| mask[i] == (0, l.view.shape[i] as i64)) {
                l.mask = None;
            }
        })
    }

    /// Gives the domain another shape of the same points in the same row-major order.
    pub fn reshape(mut self, shape: Shape) -> IndexMap {
        // A level that only renumbers the points adds nothing to a further reshape.
        while let [.., below, top] = self.levels.as_slice()
            && top.mask.is_none()
            && top.view.is_contiguous()
            && top.view.shape.numel() == below.view.shape.numel()
        {
            self.levels.pop();
        }
        let top = self.top();
        match (top.view.reshape(shape), &top.mask) {
            (Some(view), None) => self.with_top(|l| l.view = view),
            (Some(view), Some(mask)) => match reshape_mask(top.view.shape, mask, shape) {
                Some(mask) => self.with_top(|l| {
                    l.view = view;
                    l.mask = Some(mask);
                }),
                None => self.stack(shape),
            },
            (None, _) => self.stack(shape),
        }
    }

    fn level_up(self) -> IndexMap {
        let shape = self.shape();
        self.stack(shape)
    }

    fn stack(mut self, shape: Shape) -> IndexMap {
        self.levels.push(Level { view: View::contiguous(shape), mask: None });
        self
    }

    /// Equivalent shapes of the domain: shapes of lower levels, as long as the map only renumbers points.
    pub fn renumberings(&self) -> impl Iterator<Item = Shape> + '_ {
        let points = self.shape().numel();
        let plain = |l: &&Level| l.mask.is_none() && l.view.is_contiguous() && l.view.shape.numel() == points;
        let above = self.levels.iter().rev().take_while(plain).count();
        let whole = self.levels.iter().rev().skip(1).take(above).map(|l| l.view.shape);
        whole.filter(move |s| s.numel() == points).chain(self.split())
    }

    /// Domain in which each dimension that merges several dimensions of the level below is split into these. Other
    /// dimensions, including broadcast ones, are unchanged.
    fn split(&self) -> Option<Shape> {
        let [.., below, Level { view, mask: None }] = self.levels.as_slice() else { return None };
        let (inner, places) = (below.view.shape, places(below.view.shape));
        let mut dims = vec![];
        for (&size, &stride) in view.shape.iter().zip(view.strides()) {
            let last = (0..inner.rank()).find(|&j| inner[j] != 1 && places[j] == stride as i64);
            let Some(last) = last.filter(|_| size != 1) else {
                dims.push(size);
                continue;
            };
            let (mut first, mut points) = (last, inner[last]);
            while points < size && first > 0 {
                first -= 1;
                points *= inner[first];
            }
            match points == size {
                true => dims.extend((first..=last).map(|j| inner[j]).filter(|d| *d != 1)),
                false => dims.push(size),
            }
        }
        (dims.len() <= MAX_RANK && dims != view.shape.dims()).then(|| Shape::new(&dims))
    }

    /// Index range of each domain dimension that is valid, if the domain's own index determines validity.
    pub fn mask_bounds(&self) -> Option<&[(i64, i64)]> {
        let top = self.top();
        top.mask.as_ref().map(|m| &m[..top.view.shape.rank()])
    }

    /// Map on a box of the domain, `(start, length)` per dimension, on which no mask of the domain's own index changes;
    /// `None` if the box is masked out. (A mask at a level below may become a mask of the box.)
    pub fn on_box(&self, parts: &[(usize, usize)]) -> Option<IndexMap> {
        if let Some(mask) = &self.top().mask {
            let inside = |(lo, hi): (i64, i64), (start, len): (usize, usize)| {
                [lo, hi].map(|m| (m - start as i64).clamp(0, len as i64))
            };
            let valid: Vec<[i64; 2]> = mask.iter().zip(parts).map(|(m, p)| inside(*m, *p)).collect();
            if valid.iter().any(|[lo, hi]| lo >= hi) {
                return None;
            }
            debug_assert!(valid.iter().zip(parts).all(|(v, p)| *v == [0, p.1 as i64]), "validity changes in the box");
        }
        let parts: Vec<(i64, i64, usize)> = parts.iter().map(|&(start, len)| (start as i64, 1, len)).collect();
        Some(self.clone().with_top(|l| (l.view, l.mask) = (l.view.slice(&parts), None)))
    }

    /// Position of the domain's point with that row-major index; `None` if it is masked out.
    pub fn position(&self, point: usize) -> Option<usize> {
        let mut at = point as i64;
        for level in self.levels.iter().rev() {
            let shape = level.view.shape;
            let mut position = level.view.offset as i64;
            for i in (0..shape.rank()).rev() {
                let d = shape[i] as i64;
                let index = at % d;
                at /= d;
                if let Some(mask) = &level.mask
                    && (index < mask[i].0 || index >= mask[i].1)
                {
                    return None;
                }
                position += index * level.view.strides()[i] as i64;
            }
            at = position;
        }
        Some(at as usize)
    }

    /// Whether a vector's points, `points` neighbouring ones in the middle of the domain, read elements that are less
    /// than `elements` apart.
    pub fn is_close(&self, points: usize, elements: u64) -> bool {
        let all = self.shape().numel();
        let first = (all / 2).min(all.saturating_sub(points));
        let positions = (first..all.min(first + points)).filter_map(|p| self.position(p));
        let (low, high) = positions.fold((usize::MAX, 0), |(low, high), p| (low.min(p), high.max(p)));
        (high.saturating_sub(low) as u64) < elements
    }

    /// Writes the positions of the points `start..start + out.len()`, -1 for masked-out ones.
    ///
    /// Positions are relative to `origin`, for sources of more than 2³¹ elements.
    pub fn fill(&self, start: usize, origin: i64, out: &mut [i32]) {
        if self.fill_repeating(start, origin, out) {
            return;
        }
        let (top, below) = self.levels.split_last().expect("a map has a level");
        let below = IndexMap { levels: below.iter().cloned().collect() };
        let shape = top.view.shape;
        let rank = shape.rank();
        if rank == 0 {
            let p = self.position(0).map_or(-1, |p| (p as i64 - origin) as i32);
            out.fill(p);
            return;
        }
        // An odometer over the top view: one addition per point, and more only on a carry.
        let mut index = [0usize; MAX_RANK];
        let mut at = start;
        for i in (0..rank).rev() {
            index[i] = at % shape[i];
            at /= shape[i];
        }
        let inside = |index: &[usize; MAX_RANK], i: usize| match &top.mask {
            Some(m) => (index[i] as i64) >= m[i].0 && (index[i] as i64) < m[i].1,
            None => true,
        };
        let mut done = 0;
        while done < out.len() {
            let run = (shape[rank - 1] - index[rank - 1]).min(out.len() - done);
            let outer_valid = (0..rank - 1).all(|i| inside(&index, i));
            let stride = top.view.strides()[rank - 1] as i64;
            let row = top.view.position(&index[..rank]) as i64;
            let row_out = &mut out[done..done + run];
            // Valid range of this row.
            let first = index[rank - 1] as i64;
            let (lo, hi) = match &top.mask {
                _ if !outer_valid => (0, 0),
                Some(m) => ((m[rank - 1].0 - first).clamp(0, run as i64), (m[rank - 1].1 - first).clamp(0, run as i64)),
                None => (0, run as i64),
            };
            let valid = lo as usize..hi.max(lo) as usize;
            row_out[..valid.start].fill(-1);
            row_out[valid.end..].fill(-1);
            let mut p = row + lo * stride;
            let row_out = &mut row_out[valid];
            match below.levels.split_last() {
                _ if row_out.is_empty() => {}
                None => row_out.iter_mut().for_each(|slot| {
                    *slot = (p - origin) as i32;
                    p += stride;
                }),
                Some((next, rest)) => {
                    let mut points = SteppedPoints::new(next, p, stride);
                    let rest = (!rest.is_empty()).then(|| IndexMap { levels: rest.iter().cloned().collect() });
                    for slot in row_out {
                        let at = points.step().and_then(|p| match &rest {
                            Some(rest) => rest.position(p as usize).map(|p| p as i64),
                            None => Some(p),
                        });
                        *slot = at.map_or(-1, |p| (p - origin) as i32);
                    }
                }
            }
            done += run;
            index[rank - 1] += run;
            for i in (1..rank).rev() {
                if index[i] == shape[i] {
                    index[i] = 0;
                    index[i - 1] += 1;
                }
            }
        }
    }

    /// Reports the positions of the points `start..start + len` to `found` as runs `(first point, position, step,
    /// points)`, with points counted from `start`. Returns `false`, with nothing reported, if the map is not a strided
    /// view.
    pub fn strided_runs(&self, start: usize, len: usize, mut found: impl FnMut(usize, usize, isize, usize)) -> bool {
        let Some(view) = self.as_view() else { return false };
        let (extents, strides) = (view.shape.dims(), view.strides());
        let merged = dims::merge(extents, 0..extents.len(), false, |o, i, n| dims::runs_on(strides, o, i, n));
        let (mut index, mut at, mut number) = ([0; MAX_RANK], view.offset, start);
        for (i, m) in merged.iter().enumerate().rev() {
            index[i] = number % m.extent;
            at += index[i] as isize * strides[m.inner];
            number /= m.extent;
        }
        let Some((last, outer)) = merged.split_last() else {
            (0..len).for_each(|i| found(i, view.offset as usize, 0, 1));
            return true;
        };
        let (place, step) = (outer.len(), strides[last.inner]);
        let mut done = 0;
        while done < len {
            let run = (last.extent - index[place]).min(len - done);
            found(done, at as usize, step, run);
            done += run;
            // Back to the beginning of the line; the loop below moves on to the next one.
            at -= index[place] as isize * step;
            index[place] = 0;
            for (i, m) in outer.iter().enumerate().rev() {
                index[i] += 1;
                at += strides[m.inner];
                if index[i] < m.extent {
                    break;
                }
                at -= m.extent as isize * strides[m.inner];
                index[i] = 0;
            }
        }
        true
    }

    /// Number of points, along inner dimensions, after which positions repeat: the size of the dimensions inside the
    /// leading ones that the map is broadcast along. All points if there are none, or if the map is not a strided view.
    pub fn period(&self) -> usize {
        let points = self.shape().numel();
        let Some(view) = self.as_view() else { return points };
        let moves = |i: &usize| view.shape[*i] != 1 && view.strides()[*i] != 0;
        let first = (0..view.shape.rank()).find(moves).unwrap_or(view.shape.rank());
        view.shape.dims()[first..].iter().product()
    }

    /// Lowest and highest position of the bottom view's valid points; every position reached is between these.
    pub fn reach(&self) -> Option<(usize, usize)> {
        let level = &self.levels[0];
        let shape = level.view.shape;
        let (mut lo, mut hi) = (level.view.offset, level.view.offset);
        for i in 0..shape.rank() {
            let (a, b) = level.mask.map_or((0, shape[i] as i64), |m| m[i]);
            if a >= b || shape[i] == 0 {
                return None;
            }
            let s = level.view.strides()[i];
            let (first, last) = (a as isize * s, (b as isize - 1) * s);
            lo += first.min(last);
            hi += first.max(last);
        }
        Some((lo as usize, hi as usize))
    }

    /// Upper bound of distinct positions reached: exact for a single strided view without overlap.
    pub fn distinct(&self) -> usize {
        self.levels
            .iter()
            .map(|l| {
                // Windows overlap: there are no more positions than between the lowest and the highest.
                let (mut n, mut span) = (1, 1);
                for (i, (&d, &s)) in l.view.shape.iter().zip(l.view.strides()).enumerate() {
                    let valid = l.mask.map_or(d, |m| (m[i].1 - m[i].0).max(0) as usize);
                    n *= if s == 0 { valid.min(1) } else { valid };
                    span += valid.saturating_sub(1) * s.unsigned_abs();
                }
                n.min(span)
            })
            .min()
            .unwrap_or(0)
    }
}
