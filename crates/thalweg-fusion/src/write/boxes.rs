//! Domain of a kernel: reshaped so that movement becomes strides, and cut into boxes in which padding and concatenation
//! are decided.
//!
//! A kernel's output is row-major, so its points may be numbered by any shape of equal size. A permuted tensor under a
//! merging reshape has no strides over the merged dimension, but has them over the shape before. A map that masks
//! points out (one side of a `cat`, a `pad`) has strides on each box where its mask is constant. There the select
//! disappears, and with it the side not taken.

use crate::segment::Mode;
use crate::tunable::TUNABLES;
use rustc_hash::FxHashMap;
use std::collections::HashSet;
use thalweg_ir::{MAX_RANK, Shape};
use thalweg_kernel::{Body, IndexMap, Node, resolve};

/// Reshapes the domain so that the most maps are strided; returns the shape and the maps over it. One reshape may
/// enable another: dimensions that were merged, moved and merged again are split one after the other.
pub(crate) fn renumbered(domain: Shape, maps: &[IndexMap]) -> (Shape, Vec<IndexMap>) {
    let tables = |maps: &[IndexMap]| {
        let levels = maps.iter().map(|m| m.levels().len());
        (maps.iter().filter(|m| m.as_view().is_none()).count(), levels.sum::<usize>())
    };
    let mut best = (domain, maps.to_vec());
    loop {
        let before = tables(&best.1);
        // Each shape once: the parts of a long concatenation have the same.
        let mut others: Vec<Shape> = vec![];
        let mut seen = HashSet::new();
        others.extend(best.1.iter().flat_map(IndexMap::renumberings).filter(|shape| seen.insert(*shape)));
        for shape in others {
            let Some(refined) = refine(best.0, shape).filter(|refined| *refined != best.0) else { continue };
            let over: Vec<IndexMap> = best.1.iter().map(|m| m.clone().reshape(refined)).collect();
            if tables(&over) < tables(&best.1) {
                best = (refined, over);
            }
        }
        if tables(&best.1) == before {
            return best;
        }
    }
}

/// Coarsest common refinement of two shapes: both arise from it by merging neighbouring dimensions. `[6, 4]` and `[2,
/// 12]` give `[2, 3, 4]`. `None` if it has more than eight dimensions or does not exist.
fn refine(a: Shape, b: Shape) -> Option<Shape> {
    let mut cuts: Vec<usize> = vec![];
    for shape in [a, b] {
        let mut product = 1;
        for &d in shape.iter().rev() {
            product *= d;
            cuts.push(product);
        }
    }
    cuts.push(1);
    cuts.sort_unstable();
    cuts.dedup();
    let mut dims: Vec<usize> = vec![];
    for pair in cuts.windows(2) {
        if pair[0] == 0 || pair[1] % pair[0] != 0 {
            return None;
        }
        dims.push(pair[1] / pair[0]);
    }
    dims.reverse();
    (dims.len() <= MAX_RANK).then(|| Shape::new(&dims))
}

/// Boxes of a domain for a device: those of [`boxes`], or the whole domain, whose masked accesses then go through tables
/// of positions, where the device calls a body for each run and the runs are short.
pub(crate) fn cut(domain: Shape, maps: &[IndexMap], mode: Mode) -> Vec<Vec<(usize, usize)>> {
    let boxes = boxes(domain, maps);
    let by_table = mode.parts_rows() && are_short(domain, &boxes);
    if by_table { vec![domain.iter().map(|&d| (0, d)).collect()] } else { boxes }
}

/// Body whose loads have no masks of dimensions along which one index is valid (a part of a `stack`), and its maps. What
/// they give at other points is not selected there; so parts that read one element share its load.
pub(crate) fn join_loads(body: &Body, maps: &[IndexMap]) -> (Body, Vec<IndexMap>) {
    let wide = |(map, is_loaded): (&IndexMap, bool)| if is_loaded { map.without_single_masks() } else { map.clone() };
    let wide: Vec<IndexMap> = maps.iter().zip(body.loaded()).map(wide).collect();
    let mut first = FxHashMap::default();
    let mut body = body.clone();
    for node in &mut body.nodes {
        if let Node::Load { access } = node {
            let a = *access as usize;
            *access = *first.entry((body.accesses[a], &wide[a])).or_insert(*access);
        }
    }
    let (body, kept) = resolve(&body, &vec![None; maps.len()]);
    (body, kept.iter().map(|&a| wide[a].clone()).collect())
}

/// Boxes that cover the domain, `(start, length)` per dimension, in each of which no map's mask changes. One box if
/// nothing is masked or there would be too many.
fn boxes(domain: Shape, maps: &[IndexMap]) -> Vec<Vec<(usize, usize)>> {
    let whole = vec![domain.iter().map(|&d| (0, d)).collect()];
    let mut cuts: Vec<Vec<usize>> = domain.iter().map(|&d| vec![0, d]).collect();
    for bounds in maps.iter().filter_map(IndexMap::mask_bounds) {
        for (cuts, &(lo, hi)) in cuts.iter_mut().zip(bounds) {
            let end = cuts[1] as i64;
            cuts.extend([lo, hi].map(|c| c.clamp(0, end) as usize));
        }
    }
    let mut count = 1usize;
    for cuts in &mut cuts {
        cuts.sort_unstable();
        cuts.dedup();
        count = count.saturating_mul(cuts.len() - 1);
    }
    if count <= 1 || !TUNABLES.max_boxes.admits(count) {
        return whole;
    }
    let mut boxes: Vec<Vec<(usize, usize)>> = vec![vec![]];
    for cuts in &cuts {
        boxes = boxes
            .iter()
            .flat_map(|b| cuts.windows(2).map(move |c| [b.as_slice(), &[(c[0], c[1] - c[0])]].concat()))
            .collect();
    }
    boxes
}

/// Whether these boxes split the domain into many short runs, as borders around small images do; a table of positions
/// is then faster.
fn are_short(domain: Shape, boxes: &[Vec<(usize, usize)>]) -> bool {
    let whole = |d: &usize| boxes.iter().all(|b| b[*d].1 == domain[*d]);
    let uncut = (0..domain.rank()).rev().take_while(whole).count();
    let Some(cut) = domain.rank().checked_sub(uncut + 1) else { return false };
    let inner: usize = domain.dims()[cut + 1..].iter().product();
    let longest = boxes.iter().map(|b| b[cut].1).max().unwrap_or(0) * inner;
    !TUNABLES.min_box_run.reached_by(longest)
        && !TUNABLES.min_short_runs.side(domain.numel() < TUNABLES.min_short_runs.get() * longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::View;

    #[test]
    fn merged_dimensions_are_split() {
        let x = IndexMap::new(View::contiguous(Shape::new(&[20, 12])));
        let moved = x.reshape(Shape::new(&[20, 3, 4])).permute(&[1, 0, 2]).reshape(Shape::new(&[60, 4]));
        assert!(moved.as_view().is_none());
        let (shape, maps) = renumbered(Shape::new(&[60, 4]), &[moved]);
        assert_eq!(shape.dims(), [3, 20, 4]);
        assert!(maps[0].as_view().is_some());
        assert_eq!(refine(Shape::new(&[6]), Shape::new(&[2, 3])).unwrap().dims(), [2, 3]);
        assert_eq!(refine(Shape::new(&[3, 2]), Shape::new(&[2, 3])), None);
    }

    #[test]
    fn dimensions_that_were_merged_twice_are_split() {
        // Table for halves of heads, used in a matrix with one row per token: rotary position embeddings.
        let table = IndexMap::new(View::contiguous(Shape::new(&[64, 1, 12]))).expand(Shape::new(&[16, 4, 64, 2, 12]));
        let heads = table.reshape(Shape::new(&[16, 4, 64, 24])).permute(&[0, 2, 1, 3]);
        let (shape, maps) = renumbered(Shape::new(&[1024, 96]), &[heads.reshape(Shape::new(&[1024, 96]))]);
        assert_eq!(shape.dims(), [16, 64, 4, 2, 12]);
        assert!(maps[0].as_view().is_some());
    }

    #[test]
    fn a_padded_matrix_is_nine_boxes() {
        let x = IndexMap::new(View::contiguous(Shape::new(&[4, 5]))).pad(&[(1, 2), (3, 1)]);
        let all = boxes(x.shape(), std::slice::from_ref(&x));
        assert_eq!(all.len(), 9);
        assert_eq!(all.iter().map(|b| b.iter().map(|p| p.1).product::<usize>()).sum::<usize>(), 7 * 9);
        assert_eq!(all.iter().filter(|b| x.on_box(b).is_some()).count(), 1);
        assert!(!are_short(x.shape(), &all), "there are few runs");
        let images = IndexMap::new(View::contiguous(Shape::new(&[64, 32, 4, 4])));
        for (pad, short) in [([(1, 1), (1, 1)], true), ([(1, 1), (0, 0)], false), ([(0, 0), (1, 30)], false)] {
            let x = images.clone().pad(&[(0, 0), (0, 0), pad[0], pad[1]]);
            assert_eq!(are_short(x.shape(), &boxes(x.shape(), std::slice::from_ref(&x))), short, "{pad:?}");
        }
    }
}
