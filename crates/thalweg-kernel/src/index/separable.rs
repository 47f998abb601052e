//! Separable positions: a sum of one term for each coordinate of the domain, whatever the terms are.
//!
//! In: an [`IndexMap`] of any number of levels. Out: a table of terms for each dimension of the domain, with the indices
//! that are masked out. Always true: a point has the sum of its terms as position, and is masked out exactly if one of its
//! indices is.
//!
//! Example: two tensors `[64, 16]` are interleaved to `[64, 32]` and padded to `[66, 34]`. The first one's position is
//! `16·(y - 1) + (x - 1) / 2`, for odd `x` inside the border: not strided, but 66 terms and 34.

use super::IndexMap;
use super::compose::places;
use thalweg_ir::{MAX_RANK, Shape};

/// Maximum number of terms.
const MAX_TERMS: usize = 4096;
/// Minimum number of points for each term: with fewer, the terms take as long as the points.
const MIN_POINTS: usize = 4;
/// Term of an index that is masked out.
const MASKED: i32 = i32::MIN;

/// Positions as sums of terms.
#[derive(Clone, Debug)]
pub(super) struct Separable {
    /// Position of a point whose terms are 0.
    start: i64,
    /// Term of each index, by dimension; [`MASKED`] for one that is masked out.
    terms: Vec<Vec<i32>>,
}

/// Sum over the dimensions of the domain of one number for each index.
#[derive(Clone)]
struct Sum {
    start: i64,
    /// Numbers by dimension and index.
    terms: Vec<Vec<i64>>,
}

impl Sum {
    fn zero(sizes: &[usize]) -> Sum {
        Sum { start: 0, terms: sizes.iter().map(|&n| vec![0; n]).collect() }
    }

    /// Least and greatest value of each dimension's terms over its valid indices.
    fn ranges<'a>(&'a self, valid: &'a [Vec<bool>]) -> impl Iterator<Item = (i64, i64)> + 'a {
        self.terms.iter().zip(valid).map(|(terms, valid)| {
            let inside = || terms.iter().zip(valid).filter(|(_, valid)| **valid).map(|(t, _)| *t);
            (inside().min().unwrap_or(0), inside().max().unwrap_or(0))
        })
    }
}

impl IndexMap {
    /// Positions of the map as sums of terms; `None` if they are none, or if there would be few points for a term.
    pub(super) fn separable(&self) -> Option<Separable> {
        let domain = self.shape();
        let sizes = domain.dims();
        let count: usize = sizes.iter().sum();
        if domain.numel() == 0 || count > MAX_TERMS || domain.numel() < MIN_POINTS * count {
            return None;
        }
        let mut valid: Vec<Vec<bool>> = sizes.iter().map(|&n| vec![true; n]).collect();
        let mut index: Option<Sum> = None;
        for level in self.levels.iter().rev() {
            let coordinates: Vec<Sum> = match index {
                Some(index) => digits(index, level.view.shape, &valid)?,
                None => (0..sizes.len())
                    .map(|d| {
                        let mut own = Sum::zero(sizes);
                        own.terms[d] = (0..sizes[d] as i64).collect();
                        own
                    })
                    .collect(),
            };
            for (c, &(low, high)) in coordinates.iter().zip(level.mask.iter().flatten()) {
                bound(c, (low, high), &mut valid)?;
            }
            let mut sum = Sum { start: level.view.offset as i64, ..Sum::zero(sizes) };
            for (c, &stride) in coordinates.iter().zip(level.view.strides()) {
                sum.start += c.start * stride as i64;
                let all = sum.terms.iter_mut().flatten().zip(c.terms.iter().flatten());
                all.for_each(|(to, term)| *to += term * stride as i64);
            }
            index = Some(sum);
        }
        let Sum { start, terms } = index?;
        let entry = |(&term, &valid): (&i64, &bool)| match i32::try_from(term) {
            _ if !valid => Some(MASKED),
            Ok(term) if term != MASKED => Some(term),
            _ => None,
        };
        let table = |(terms, valid): (&Vec<i64>, &Vec<bool>)| terms.iter().zip(valid).map(entry).collect();
        Some(Separable { start, terms: terms.iter().zip(&valid).map(table).collect::<Option<_>>()? })
    }
}

/// Masks out the indices at which a coordinate is outside its bounds; `None` if that depends on several indices.
fn bound(c: &Sum, (low, high): (i64, i64), valid: &mut [Vec<bool>]) -> Option<()> {
    let ranges: Vec<(i64, i64)> = c.ranges(valid).collect();
    let (least, greatest) = ranges.iter().fold((c.start, c.start), |at, r| (at.0 + r.0, at.1 + r.1));
    if least >= low && greatest < high {
        return Some(());
    }
    let mut moving = (0..ranges.len()).filter(|&d| ranges[d].0 < ranges[d].1);
    let (d, None) = (moving.next()?, moving.next()) else { return None };
    // The others are the same at all valid indices.
    let others: i64 = (0..ranges.len()).filter(|&o| o != d).map(|o| ranges[o].0).sum();
    for (valid, term) in valid[d].iter_mut().zip(&c.terms[d]) {
        *valid &= (low..high).contains(&(c.start + others + term));
    }
    valid[d].contains(&true).then_some(())
}

/// Coordinates of a row-major index in a shape, if none ever carries into the one before it.
fn digits(mut index: Sum, shape: Shape, valid: &[Vec<bool>]) -> Option<Vec<Sum>> {
    // Terms from 0 on; what is masked out has none.
    let ranges: Vec<(i64, i64)> = index.ranges(valid).collect();
    for ((terms, valid), &(least, _)) in index.terms.iter_mut().zip(valid).zip(&ranges) {
        index.start += least;
        terms.iter_mut().zip(valid).for_each(|(term, valid)| *term = if *valid { *term - least } else { 0 });
    }
    if index.start < 0 {
        return None;
    }
    let places: [i64; MAX_RANK] = places(shape);
    // The outermost coordinate takes all that is left.
    let digit = |number: i64, j: usize| match j {
        0 => number / places[0],
        _ => number / places[j] % shape[j] as i64,
    };
    // A coordinate of the start goes to the terms that move along it, so that both carry together.
    for (j, place) in places.into_iter().enumerate().take(shape.rank()) {
        let start = digit(index.start, j);
        let moving = |(terms, valid): &(&mut Vec<i64>, &Vec<bool>)| {
            terms.iter().zip(*valid).any(|(&t, &valid)| valid && digit(t, j) > 0)
        };
        if start > 0
            && let Some((terms, valid)) = index.terms.iter_mut().zip(valid).find(moving)
        {
            terms.iter_mut().zip(valid).filter(|(_, valid)| **valid).for_each(|(t, _)| *t += start * place);
            index.start -= start * place;
        }
    }
    let mut coordinates = Vec::with_capacity(shape.rank());
    for (j, &size) in shape.iter().enumerate() {
        let digit = |number: i64| digit(number, j);
        let terms: Vec<Vec<i64>> = index.terms.iter().map(|t| t.iter().map(|&t| digit(t)).collect()).collect();
        let most: i64 = terms.iter().map(|t| t.iter().copied().max().unwrap_or(0)).sum();
        let start = digit(index.start);
        if start + most >= size as i64 {
            return None;
        }
        coordinates.push(Sum { start, terms });
    }
    Some(coordinates)
}

impl Separable {
    /// Period and shift of the positions, as [`IndexMap::shift`]: the leading dimensions of equal steps form one.
    pub(super) fn shift(&self, shape: Shape) -> Option<(usize, i64)> {
        let mut found: Option<(usize, i64)> = None;
        let mut points = shape.numel();
        for (terms, &size) in self.terms.iter().zip(shape.iter()).filter(|(_, size)| **size != 1) {
            let step = terms[1] as i64 - terms[0] as i64;
            let even = !terms.contains(&MASKED) && terms.windows(2).all(|t| t[1] as i64 - t[0] as i64 == step);
            if !even || found.is_some_and(|(_, outer)| outer != step * size as i64) {
                break;
            }
            points /= size;
            found = Some((points, step));
        }
        found
    }

    /// Writes the positions of the points `start..start + out.len()` of a domain of that shape, minus `origin`; -1 for
    /// masked-out ones.
    pub(super) fn fill(&self, shape: Shape, start: usize, origin: i64, mut out: &mut [i32]) {
        let Some((inner, outer)) = self.terms.split_last() else {
            return out.fill((self.start - origin) as i32);
        };
        let mut index = [0usize; MAX_RANK];
        let mut number = start / inner.len();
        for d in (0..outer.len()).rev() {
            (index[d], number) = (number % shape[d], number / shape[d]);
        }
        let mut from = start % inner.len();
        let inside = !inner.contains(&MASKED);
        while !out.is_empty() {
            let (row, rest) = out.split_at_mut((inner.len() - from).min(out.len()));
            let mut terms = outer.iter().zip(index).map(|(terms, i)| terms[i]);
            let first = terms.try_fold(self.start - origin, |sum, t| (t != MASKED).then(|| sum + t as i64));
            match first {
                None => row.fill(-1),
                // The sum of all terms fits an i32, as the caller's origin makes positions fit.
                Some(first) if inside => {
                    row.iter_mut().zip(&inner[from..]).for_each(|(to, &t)| *to = (first as i32).wrapping_add(t));
                }
                Some(first) => row.iter_mut().zip(&inner[from..]).for_each(|(to, &t)| {
                    *to = if t == MASKED { -1 } else { (first as i32).wrapping_add(t) };
                }),
            }
            (out, from) = (rest, 0);
            for d in (0..outer.len()).rev() {
                index[d] += 1;
                if index[d] < shape[d] {
                    break;
                }
                index[d] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_ir::View;

    /// Checks the separable positions of a map against it, at every point and from several start points.
    fn check(map: &IndexMap) {
        let found = map.separable().unwrap_or_else(|| panic!("{map:?} has a term for each coordinate"));
        let (shape, points) = (map.shape(), map.shape().numel());
        let all: Vec<i32> = (0..points).map(|p| map.position(p).map_or(-1, |p| p as i32 - 5)).collect();
        for start in [0, 1, points / 3, points - 2] {
            let mut table = vec![-7; points - start];
            found.fill(shape, start, 5, &mut table);
            assert_eq!(table, all[start..], "{map:?} from {start}");
        }
        if let Some((further, step)) = Arc::new(map.clone()).positions().shift() {
            let moved = |p: usize| map.position(p).map(|at| at as i64 + step);
            assert!((0..points - further).all(|p| map.position(p + further).map(|at| at as i64) == moved(p)));
        }
    }

    fn contiguous(dims: &[usize]) -> IndexMap {
        IndexMap::new(View::contiguous(Shape::new(dims)))
    }

    #[test]
    fn interleaved_tensors_inside_a_border() {
        for part in [0, 1] {
            let one = contiguous(&[2, 16, 20]).reshape(Shape::new(&[2, 16, 20, 1]));
            let columns = one.pad(&[(0, 0), (0, 0), (0, 0), (part, 1 - part)]).reshape(Shape::new(&[2, 16, 40]));
            check(&columns.clone().pad(&[(0, 0), (1, 2), (3, 1)]));
            let rows = columns.reshape(Shape::new(&[2, 16, 1, 40])).pad(&[(0, 0), (0, 0), (part, 1 - part), (0, 0)]);
            let both = rows.reshape(Shape::new(&[2, 32, 40]));
            check(&both.clone().pad(&[(0, 0), (1, 1), (1, 1)]));
            check(&both.clone().slice(&[(0, 1, 2), (31, -1, 32), (1, 3, 13)]).permute(&[2, 0, 1]));
            // Windows over a border depend on two indices.
            let windows = both.pad(&[(0, 0), (1, 1), (0, 0)]).window(1, 3, 1);
            assert!(windows.separable().is_none());
        }
    }

    #[test]
    fn shuffled_channels() {
        let x = contiguous(&[2, 24, 7, 9]);
        let mixed =
            x.reshape(Shape::new(&[2, 4, 6, 7, 9])).permute(&[0, 2, 1, 3, 4]).reshape(Shape::new(&[2, 24, 7, 9]));
        check(&mixed);
        check(&mixed.pad(&[(0, 0), (0, 0), (1, 1), (1, 1)]));
        // Points renumbered across dimensions have no terms of their own.
        assert!(contiguous(&[12, 30]).permute(&[1, 0]).reshape(Shape::new(&[9, 40])).separable().is_none());
        assert!(contiguous(&[3, 3]).separable().is_none(), "few points for a term");
    }
}
