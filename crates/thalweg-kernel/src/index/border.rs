//! Bounded strides: index maps that are strides with bounds, as windows over a padded tensor are.
//!
//! In: an [`IndexMap`] of any number of levels. Out: a base position, strides over the domain, and the coordinates that
//! determine whether a point is masked out, each with steps of its own over the domain. Always true: an unmasked point
//! has the position of the map, and a point is masked out exactly if it violates a bound.

use super::IndexMap;
use super::compose::{places, valid_steps};
use super::levels::DividedLevels;
use super::separable::Separable;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use thalweg_ir::{MAX_RANK, Shape};

/// Bound on a coordinate that is affine in the domain's index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Coordinate of the domain's first point.
    pub start: i64,
    /// Step along each dimension of the domain.
    pub steps: [i64; MAX_RANK],
    /// Valid range `lo..hi` of the coordinate.
    pub valid: (i64, i64),
}

/// Index map as bounded strides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bordered {
    /// Position of the domain's first point; if that point is masked out, only an offset for the others.
    pub base: isize,
    /// Stride along each dimension of the domain.
    pub strides: [isize; MAX_RANK],
    /// Bounds; a point is inside if all hold. Bounds that hold everywhere are omitted.
    pub bounds: Vec<Bound>,
}

impl Bordered {
    /// Period and shift of the positions, as [`IndexMap::shift`]. The leading dimensions that no bound depends on form
    /// one strided dimension. The period is the number of points inside it, the shift is its stride.
    fn shift(&self, shape: Shape) -> Option<(usize, i64)> {
        let mut found: Option<(usize, isize)> = None;
        let mut points = shape.numel();
        for d in (0..shape.rank()).filter(|&d| shape[d] != 1) {
            let runs_on = found.is_none_or(|(_, outer)| outer == self.strides[d].wrapping_mul(shape[d] as isize));
            if !runs_on || self.bounds.iter().any(|b| b.steps[d] != 0) {
                break;
            }
            points /= shape[d];
            found = Some((points, self.strides[d]));
        }
        found.map(|(points, stride)| (points, stride as i64))
    }

    /// Writes the positions of the points `start..start + out.len()` of a domain of that shape, minus `origin`; -1 for
    /// masked-out ones.
    fn fill(&self, shape: Shape, start: usize, origin: i64, out: &mut [i32]) {
        let Some(last) = shape.rank().checked_sub(1) else {
            return out.fill(if self.bounds.is_empty() { (self.base as i64 - origin) as i32 } else { -1 });
        };
        // An odometer: position and coordinates are incremented per step.
        let mut index = [0usize; MAX_RANK];
        let mut number = start;
        for d in (0..=last).rev() {
            (index[d], number) = (number % shape[d], number / shape[d]);
        }
        let at =
            |first: i64, steps: &dyn Fn(usize) -> i64| (0..=last).fold(first, |at, d| at + index[d] as i64 * steps(d));
        let mut position = at(self.base as i64 - origin, &|d| self.strides[d] as i64);
        let mut coordinates: SmallVec<[i64; 4]> = self.bounds.iter().map(|b| at(b.start, &|d| b.steps[d])).collect();
        let mut done = 0;
        while done < out.len() {
            let run = (shape[last] - index[last]).min(out.len() - done);
            let inside = coordinates.iter().zip(&self.bounds).map(|(at, b)| b.within(*at, last, run));
            let inside = inside.fold(0..run, |a, b| a.start.max(b.start)..a.end.min(b.end));
            let row = &mut out[done..done + run];
            if inside.len() < run {
                row.fill(-1);
            }
            let step = self.strides[last] as i64;
            for i in inside {
                row[i] = (position + i as i64 * step) as i32;
            }
            done += run;
            // Advances along the last dimension, with carries into the dimensions before.
            let (mut d, mut by) = (last, run as i64);
            loop {
                index[d] = (index[d] as i64 + by) as usize;
                position += by * self.strides[d] as i64;
                coordinates.iter_mut().zip(&self.bounds).for_each(|(at, b)| *at += by * b.steps[d]);
                if index[d] < shape[d] {
                    break;
                }
                index[d] = 0;
                position -= (shape[d] as i64) * self.strides[d] as i64;
                coordinates.iter_mut().zip(&self.bounds).for_each(|(at, b)| *at -= shape[d] as i64 * b.steps[d]);
                if d == 0 {
                    break;
                }
                (d, by) = (d - 1, 1);
            }
        }
    }
}

impl Bound {
    /// Range of valid points among `count` consecutive points along dimension `d`; `at` is the coordinate of the first.
    fn within(&self, at: i64, d: usize, count: usize) -> Range<usize> {
        let (lo, hi, count) = (self.valid.0 - at, self.valid.1 - at, count as i64);
        let (first, end) = match self.steps[d] {
            0 if lo <= 0 && hi > 0 => (0, count),
            0 => (0, 0),
            1 => (lo, hi),
            step => valid_steps(self.valid, at, step),
        };
        first.clamp(0, count) as usize..end.clamp(0, count) as usize
    }
}

/// Positions of a map, prepared for filling many tables.
#[derive(Clone, Debug)]
pub struct Positions {
    map: Arc<IndexMap>,
    form: Arc<Form>,
}

/// Form of the positions over a shape, which may have dimensions of the domain split.
#[derive(Clone, Debug)]
enum Form {
    Strided(Shape, Bordered),
    Separable(Shape, Separable),
    /// Through the levels of the map, by multiplications.
    Divided(DividedLevels),
    /// Through the levels of the map, which has more than 2³¹ points or positions.
    Other,
}

impl Positions {
    /// Underlying map.
    pub fn map(&self) -> &IndexMap {
        &self.map
    }

    /// Period and shift of the positions, as [`IndexMap::shift`]. That one does not detect that the sizes of the domain
    /// keep an index from carrying; this one does.
    pub fn shift(&self) -> Option<(usize, i64)> {
        let own = match &*self.form {
            Form::Strided(shape, strided) => strided.shift(*shape),
            Form::Separable(shape, separable) => separable.shift(*shape),
            Form::Divided(_) | Form::Other => None,
        };
        own.into_iter().chain(self.map.shift()).min_by_key(|(points, _)| *points)
    }

    /// As [`IndexMap::fill`], without a division per dimension, level and point if the positions are strided or
    /// separable.
    pub fn fill(&self, start: usize, origin: i64, out: &mut [i32]) {
        match &*self.form {
            Form::Strided(shape, strided) if !self.map.fill_repeating(start, origin, out) => {
                strided.fill(*shape, start, origin, out);
            }
            Form::Strided(..) => {}
            Form::Separable(shape, separable) => separable.fill(*shape, start, origin, out),
            Form::Divided(levels) => levels.fill(start, origin, out),
            Form::Other => self.map.fill(start, origin, out),
        }
    }
}

/// Affine function of the domain's index.
#[derive(Clone, Copy)]
struct Affine {
    start: i64,
    steps: [i64; MAX_RANK],
}

impl Affine {
    /// Minimum and maximum over a domain of these sizes.
    fn range(&self, sizes: &[usize]) -> (i64, i64) {
        let mut range = (self.start, self.start);
        for (&size, step) in sizes.iter().zip(self.steps) {
            let far = step * (size as i64 - 1);
            range = (range.0 + far.min(0), range.1 + far.max(0));
        }
        range
    }
}

impl IndexMap {
    /// Positions of the map, for tables: strided if possible, else separable, over the domain or over a shape with merged
    /// dimensions split.
    pub fn positions(self: &Arc<IndexMap>) -> Positions {
        let own = self.bordered().map(|b| Form::Strided(self.shape(), b));
        let form = own.unwrap_or_else(|| {
            let shapes: SmallVec<[Shape; 4]> = self.renumberings().collect();
            let others: SmallVec<[IndexMap; 4]> =
                shapes.into_iter().map(|shape| IndexMap::clone(self).reshape(shape)).collect();
            let strided = others.iter().find_map(|map| Some(Form::Strided(map.shape(), map.bordered()?)));
            let all = || std::iter::once(&**self).chain(&others);
            let separable = || all().find_map(|map| Some(Form::Separable(map.shape(), map.separable()?)));
            let divided = || Some(Form::Divided(self.divided()?));
            strided.or_else(separable).or_else(divided).unwrap_or(Form::Other)
        });
        Positions { map: self.clone(), form: Arc::new(form) }
    }

    /// Map as bounded strides, if possible: at each level, every coordinate has to be affine in the domain's index
    /// without carrying into another one.
    pub fn bordered(&self) -> Option<Bordered> {
        let domain = self.shape();
        let (sizes, rank) = (domain.dims(), domain.rank());
        if domain.numel() == 0 {
            return None;
        }
        let unit = |d: usize| std::array::from_fn(|i| (i == d) as i64);
        let mut coordinates: Vec<Affine> = (0..rank).map(|d| Affine { start: 0, steps: unit(d) }).collect();
        let mut bounds = vec![];
        let mut position = None;
        for level in self.levels.iter().rev() {
            if let Some(index) = position {
                coordinates = unflattened(index, level.view.shape, sizes)?;
            }
            for (c, &valid) in coordinates.iter().zip(level.mask.iter().flatten()) {
                let (least, greatest) = c.range(sizes);
                if least < valid.0 || greatest >= valid.1 {
                    bounds.push(Bound { start: c.start, steps: c.steps, valid });
                }
            }
            let mut sum = Affine { start: level.view.offset as i64, steps: [0; MAX_RANK] };
            for (c, &stride) in coordinates.iter().zip(level.view.strides()) {
                sum.start += c.start * stride as i64;
                sum.steps.iter_mut().zip(c.steps).for_each(|(s, step)| *s += step * stride as i64);
            }
            position = Some(sum);
        }
        let Affine { start, steps } = position?;
        Some(Bordered { base: start as isize, strides: steps.map(|s| s as isize), bounds })
    }
}

/// Coordinates of a row-major index in a shape, if none ever carries into the one before it.
fn unflattened(index: Affine, shape: Shape, sizes: &[usize]) -> Option<Vec<Affine>> {
    let places = places(shape);
    let mut coordinates = vec![Affine { start: 0, steps: [0; MAX_RANK] }; shape.rank()];
    let mut put = |mut number: i64, at: &dyn Fn(&mut Affine) -> &mut i64| {
        // A negative step is a negative step of all coordinates.
        let sign = number.signum();
        number = number.abs();
        for (j, c) in coordinates.iter_mut().enumerate() {
            *at(c) = sign * (number / places[j]);
            number %= places[j];
        }
    };
    put(index.start, &|c| &mut c.start);
    for (d, &step) in index.steps.iter().enumerate().take(sizes.len()).filter(|&(d, _)| sizes[d] > 1) {
        put(step, &|c| &mut c.steps[d]);
    }
    let fits = |(c, &size): (&Affine, &usize)| {
        let (least, greatest) = c.range(sizes);
        least >= 0 && greatest < size as i64
    };
    coordinates.iter().zip(shape.iter()).all(fits).then_some(coordinates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::View;

    /// Checks the bounded strides against the map, at every point.
    fn check(map: &IndexMap) -> Bordered {
        let b = map.bordered().unwrap_or_else(|| panic!("{map:?} goes by strides inside of bounds"));
        let shape = map.shape();
        for point in 0..shape.numel() {
            let (mut rest, mut at, mut inside) = (point, b.base, vec![]);
            let mut coordinates: Vec<i64> = b.bounds.iter().map(|b| b.start).collect();
            for d in (0..shape.rank()).rev() {
                let i = rest % shape[d];
                rest /= shape[d];
                at += i as isize * b.strides[d];
                coordinates.iter_mut().zip(&b.bounds).for_each(|(c, b)| *c += i as i64 * b.steps[d]);
            }
            inside.extend(coordinates.iter().zip(&b.bounds).map(|(c, b)| (b.valid.0..b.valid.1).contains(c)));
            let want = inside.iter().all(|i| *i).then_some(at as usize);
            assert_eq!(map.position(point), want, "point {point} of {map:?}");
        }
        filled(map);
        b
    }

    /// Checks filled tables against the map, from several start points.
    fn filled(map: &IndexMap) {
        let points = map.shape().numel();
        let all: Vec<i32> = (0..points).map(|p| map.position(p).map_or(-1, |p| p as i32 - 3)).collect();
        let positions = Arc::new(map.clone()).positions();
        assert!(matches!(*positions.form, Form::Strided(..)), "{map:?} goes by strides inside of bounds");
        if let Some((further, step)) = positions.shift() {
            let moved = |p: usize| map.position(p).map(|at| at as i64 + step);
            let anew = |p: usize| map.position(p + further).map(|at| at as i64) == moved(p);
            assert!((0..points.saturating_sub(further)).all(anew), "{map:?}: {further} points, {step}");
        }
        for start in [0, 1, 7, points / 2, points - 1] {
            let mut table = vec![-7; points - start.min(points)];
            positions.fill(start.min(points), 3, &mut table);
            assert_eq!(table, all[start.min(points)..], "{map:?} from {start}");
        }
    }

    #[test]
    fn windows_over_a_padded_image() {
        let image = IndexMap::new(View::contiguous(Shape::new(&[2, 3, 5, 6])));
        for (step, pads) in [(1, [(1, 1), (1, 1)]), (2, [(1, 1), (0, 2)]), (3, [(0, 0), (2, 1)])] {
            let padded = image.clone().pad(&[(0, 0), (0, 0), pads[0], pads[1]]);
            let windows = padded.window(2, 3, step).window(3, 3, step).permute(&[0, 1, 4, 5, 2, 3]);
            assert_eq!(check(&windows).bounds.len(), pads.iter().filter(|p| **p != (0, 0)).count());
            // Reversed along one axis, every second element of two.
            let turned = windows.clone().permute(&[2, 4, 0, 5, 3, 1]);
            let d = turned.shape();
            check(&turned.slice(&[
                (2, -1, 3),
                (0, 1, d[1]),
                (0, 1, 2),
                (0, 2, d[3].div_ceil(2)),
                (0, 2, 2),
                (1, 1, 2),
            ]));
            // With renumbered points, a table is used.
            let shape = windows.shape();
            let merged = windows.reshape(Shape::new(&[2, 27, shape[4] * shape[5]]));
            assert_eq!(merged.bordered(), None);
            filled(&merged);
        }
    }

    #[test]
    fn pads_of_pads_and_of_views() {
        let x = IndexMap::new(View::contiguous(Shape::new(&[4, 7]))).slice(&[(3, -1, 4), (1, 2, 3)]);
        let padded = x.pad(&[(1, 0), (2, 2)]).pad(&[(0, 2), (1, 0)]);
        assert_eq!(check(&padded).bounds.len(), 2);
        check(&padded.clone().window(0, 2, 2).window(1, 3, 1));
        // Padding of windows: a position outside has no meaning.
        assert_eq!(padded.window(1, 3, 1).pad(&[(0, 1), (1, 0), (0, 0)]).bordered(), None);
        // Elements of small windows, each twice along an axis.
        let twice = IndexMap::new(View::contiguous(Shape::new(&[4, 3, 1]))).expand(Shape::new(&[4, 3, 2]));
        filled(&twice.reshape(Shape::new(&[4, 6])));
        let plain = check(&IndexMap::new(View::contiguous(Shape::new(&[3, 4]))));
        assert_eq!((plain.base, &plain.strides[..2], plain.bounds.len()), (0, &[4, 1][..], 0));
    }
}
