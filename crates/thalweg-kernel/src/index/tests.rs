//! Index maps beside a tensor of positions that is moved element by element.

use super::*;

#[test]
fn strided_runs_are_the_positions_from_any_point_on() {
    let whole = IndexMap::new(View::contiguous(Shape::new(&[5, 6, 3])));
    let maps = [
        whole.clone(),
        whole.clone().slice(&[(1, 1, 3), (2, 1, 4), (0, 1, 3)]),
        whole.clone().slice(&[(0, 2, 3), (5, -2, 3), (1, 1, 1)]),
        whole.clone().permute(&[2, 0, 1]),
        IndexMap::new(View::contiguous(Shape::new(&[4, 1]))).expand(Shape::new(&[4, 7])),
        IndexMap::new(View::contiguous(Shape::new(&[1, 1]))),
    ];
    for map in &maps {
        let points = map.shape().numel();
        for start in 0..points {
            let mut at = vec![];
            assert!(map.strided_runs(start, points - start, |first, p, step, run| {
                assert_eq!(first, at.len(), "one behind the other");
                at.extend((0..run as isize).map(|i| (p as isize + i * step) as usize));
            }));
            let positions: Vec<usize> = (start..points).filter_map(|p| map.position(p)).collect();
            assert_eq!(at, positions, "{map:?} from {start}");
        }
    }
}

#[test]
fn a_map_without_single_masks_reads_the_same_elements_and_no_others() {
    let of = |dims: &[usize]| IndexMap::new(View::contiguous(Shape::new(dims)));
    let maps = [
        of(&[5, 1]).pad(&[(0, 0), (2, 3)]),
        of(&[5, 2]).slice(&[(0, 1, 5), (1, 1, 1)]).pad(&[(0, 0), (0, 1)]).pad(&[(1, 0), (1, 0)]),
        of(&[3, 4]).pad(&[(1, 0), (0, 2)]),
        of(&[6, 1]).pad(&[(0, 0), (1, 1)]).reshape(Shape::new(&[2, 9])).pad(&[(0, 1), (0, 0)]),
        of(&[1]).pad(&[(0, 3)]),
        of(&[4, 3]),
    ];
    for map in maps {
        let wide = map.without_single_masks();
        let own: Vec<usize> = (0..map.shape().numel()).filter_map(|p| map.position(p)).collect();
        for point in 0..map.shape().numel() {
            let found = wide.position(point);
            assert!(map.position(point).is_none_or(|p| found == Some(p)), "{map:?} at {point}");
            assert!(found.is_none_or(|p| own.contains(&p)), "{map:?} at {point}: {found:?}");
        }
        assert!(map.shape().rank() > 1 || !wide.is_masked());
    }
}

/// Reference: a tensor of positions, moved element by element.
#[derive(Clone)]
struct Moved(Vec<Option<usize>>, Shape);

impl Moved {
    fn gather(&self, shape: Shape, f: impl Fn(&[i64]) -> Option<Vec<i64>>) -> Moved {
        let mut out = vec![];
        for p in 0..shape.numel() {
            let index = unravel(p, shape);
            out.push(f(&index).and_then(|i| {
                let mut at = 0;
                for (a, &d) in i.iter().zip(self.1.iter()) {
                    at = at * d + *a as usize;
                }
                self.0[at]
            }));
        }
        Moved(out, shape)
    }
}

fn unravel(mut p: usize, shape: Shape) -> Vec<i64> {
    let mut index = vec![0; shape.rank()];
    for i in (0..shape.rank()).rev() {
        index[i] = (p % shape[i]) as i64;
        p /= shape[i];
    }
    index
}

#[test]
fn a_number_for_each_row_is_a_view_of_the_unflattened_rows() {
    // A value per sample, for each of its tokens, in a matrix with a row per token.
    let samples = IndexMap::new(View::contiguous(Shape::new(&[16, 1]))).expand(Shape::new(&[16, 64]));
    let matrix = samples.reshape(Shape::new(&[1024, 1])).expand(Shape::new(&[1024, 96]));
    assert!(matrix.as_view().is_none());
    let apart: Vec<Shape> = matrix.renumberings().collect();
    assert_eq!(apart, [Shape::new(&[16, 64, 96])]);
    let view = *matrix.reshape(apart[0]).as_view().expect("a view");
    assert_eq!(view.strides(), [1, 0, 0]);
}

#[test]
fn a_mask_stays_on_top_where_other_dimensions_are_split_or_merged() {
    let x = IndexMap::new(View::contiguous(Shape::new(&[6, 5, 4]))).pad(&[(0, 0), (0, 0), (2, 2)]);
    for shape in [&[2, 3, 5, 8][..], &[30, 8], &[2, 1, 3, 5, 1, 8]] {
        assert!(x.clone().reshape(Shape::new(shape)).mask_bounds().is_some(), "{shape:?}");
    }
    let rows = IndexMap::new(View::contiguous(Shape::new(&[6, 4]))).pad(&[(1, 2), (0, 0)]);
    assert_eq!(rows.reshape(Shape::new(&[36])).mask_bounds(), Some(&[(4, 28)][..]));
    // The masked dimension itself is split.
    assert!(x.reshape(Shape::new(&[6, 5, 2, 4])).mask_bounds().is_none());
}

struct Lcg(u64);
impl Lcg {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

fn factor(rng: &mut Lcg, mut n: usize) -> Vec<usize> {
    let mut dims = vec![];
    while n > 1 && dims.len() < 5 {
        let divisors: Vec<usize> = (1..=n).filter(|d| n.is_multiple_of(*d)).collect();
        let d = divisors[rng.below(divisors.len())];
        dims.push(d);
        n /= d;
    }
    dims.push(n);
    dims
}

/// Random movement, applied to the map and to the elements.
fn step(rng: &mut Lcg, mut map: IndexMap, mut moved: Moved) -> (IndexMap, Moved) {
    let shape = moved.1;
    let rank = shape.rank();
    match rng.below(6) {
        0 => {
            let mut order: Vec<usize> = (0..rank).collect();
            for i in (1..rank).rev() {
                order.swap(i, rng.below(i + 1));
            }
            let dims: Vec<usize> = order.iter().map(|&o| shape[o]).collect();
            moved = moved.gather(Shape::new(&dims), |i| {
                let mut source = vec![0; rank];
                for (k, &o) in order.iter().enumerate() {
                    source[o] = i[k];
                }
                Some(source)
            });
            map = map.permute(&order);
        }
        1 => {
            let parts: Vec<(i64, i64, usize)> = shape
                .iter()
                .map(|&d| match rng.below(3) {
                    0 => (0, 1, d),
                    1 => (d as i64 - 1, -1, d),
                    _ => {
                        let (start, step) = (rng.below(d), 1 + rng.below(2));
                        (start as i64, step as i64, (d - start).div_ceil(step))
                    }
                })
                .collect();
            let dims: Vec<usize> = parts.iter().map(|p| p.2).collect();
            moved =
                moved.gather(Shape::new(&dims), |i| Some(i.iter().zip(&parts).map(|(&i, p)| p.0 + i * p.1).collect()));
            map = map.slice(&parts);
        }
        2 => {
            let parts: Vec<(usize, usize)> = (0..rank).map(|_| (rng.below(2), rng.below(3))).collect();
            let dims: Vec<usize> = shape.iter().zip(&parts).map(|(d, p)| d + p.0 + p.1).collect();
            if dims.iter().product::<usize>() > 2000 {
                return (map, moved);
            }
            moved = moved.gather(Shape::new(&dims), |i| {
                let s: Vec<i64> = i.iter().zip(&parts).map(|(&i, p)| i - p.0 as i64).collect();
                s.iter().zip(shape.iter()).all(|(&i, &d)| i >= 0 && i < d as i64).then_some(s)
            });
            map = map.pad(&parts);
        }
        3 => {
            let to = Shape::new(&factor(rng, shape.numel()));
            moved.1 = to;
            map = map.reshape(to);
        }
        4 => {
            let mut dims = shape.dims().to_vec();
            for d in dims.iter_mut().filter(|d| **d == 1) {
                *d = 1 + rng.below(3);
            }
            if rank < 5 {
                dims.insert(0, 1 + rng.below(2));
            }
            let to = Shape::new(&dims);
            let lead = to.rank() - rank;
            moved = moved.gather(to, |i| {
                Some(i[lead..].iter().zip(shape.iter()).map(|(&i, &d)| if d == 1 { 0 } else { i }).collect())
            });
            map = map.expand(to);
        }
        _ => {
            let axis = rng.below(rank);
            let (size, step) = (1 + rng.below(shape[axis]), 1 + rng.below(2));
            if rank > 5 {
                return (map, moved);
            }
            let mut dims = shape.dims().to_vec();
            dims[axis] = (shape[axis] - size) / step + 1;
            dims.push(size);
            moved = moved.gather(Shape::new(&dims), |i| {
                let mut s = i[..rank].to_vec();
                s[axis] = i[axis] * step as i64 + i[rank];
                Some(s)
            });
            map = map.window(axis, size, step);
        }
    }
    (map, moved)
}

/// Asserts that a map of a source of that many elements gives the positions of the moved elements.
fn agrees(rng: &mut Lcg, map: &IndexMap, moved: &Moved, source: usize) {
    assert_eq!(map.shape(), moved.1);
    let n = moved.0.len();
    let mut table = vec![0; n];
    map.fill(0, 0, &mut table);
    let cut = rng.below(n + 1);
    let mut tail = vec![0; n - cut];
    map.fill(cut, 0, &mut tail);
    assert_eq!(tail, table[cut..]);
    let mut reached = std::collections::HashSet::new();
    for (p, &want) in moved.0.iter().enumerate() {
        assert_eq!(map.position(p), want, "{map:?} at {p}");
        assert_eq!(table[p], want.map_or(-1, |w| w as i32));
        reached.extend(want);
    }
    if let (Some(lo), Some(hi)) = (reached.iter().min(), reached.iter().max()) {
        let (a, b) = map.reach().unwrap();
        assert!(a <= *lo && *hi <= b && b < source);
    }
    assert!(map.distinct() >= reached.len());
    if let Some((points, step)) = map.shift() {
        for p in 0..n.saturating_sub(points) {
            let moved = map.position(p).map(|at| at as i64 + step);
            assert_eq!(map.position(p + points).map(|at| at as i64), moved, "{map:?} {points} points behind {p}");
        }
    }
    // A renumbered domain has the same positions in the same order.
    for shape in map.renumberings().collect::<Vec<_>>() {
        let again = map.clone().reshape(shape);
        assert!((0..n).all(|p| again.position(p) == map.position(p)), "{map:?} over {shape}");
    }
}

#[test]
fn random_chains_agree_with_moving_elements() {
    let mut rng = Lcg(7);
    for _ in 0..3000 {
        let dims: Vec<usize> = (0..1 + rng.below(3)).map(|_| 1 + rng.below(4)).collect();
        let shape = Shape::new(&dims);
        let mut map = IndexMap::new(View::contiguous(shape));
        let mut moved = Moved((0..shape.numel()).map(Some).collect(), shape);
        for _ in 0..1 + rng.below(5) {
            (map, moved) = step(&mut rng, map, moved);
            if moved.1.numel() > 4000 {
                break;
            }
        }
        agrees(&mut rng, &map, &moved, shape.numel());
    }
}
