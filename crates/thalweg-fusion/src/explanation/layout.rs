//! Layout of a segment's operations on a page (Sugiyama, Tagawa, Toda 1981).
//!
//! In: each node's arguments, all before it. Out: a position for each node, and for each line the points that it goes
//! through. Layers are by depth. A line over several layers has a narrow slot in each, so that it passes beside boxes
//! and not behind them; lines from one source share their slots. Rows are ordered by barycentres and then moved as
//! close to their neighbours as the order allows.

/// Minimum distance between boxes, in units of the page.
const GAP: f64 = 18.0;
/// Half width of a line's slot in a row.
const LINE: f64 = 4.0;

/// Centre of a slot in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SlotCentre {
    pub x: f64,
    pub layer: usize,
}

/// Computed layout of a graph.
pub(super) struct Layout {
    /// Centre of each node.
    pub nodes: Vec<SlotCentre>,
    /// Points that the line between a node and an argument goes through, for each node and each of its arguments.
    pub ways: Vec<Vec<Vec<SlotCentre>>>,
    /// Width of the page.
    pub width: f64,
    /// Number of rows.
    pub layers: usize,
}

/// Items that are placed in rows: the nodes, then the slots of long lines.
struct Items {
    layer: Vec<usize>,
    /// Neighbours in the row above and in the row below.
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    nodes: usize,
}

/// Lays out a graph of boxes of width `box_width`.
pub(super) fn layout(arguments: &[Vec<usize>], box_width: f64) -> Layout {
    let n = arguments.len();
    let layer = layers(arguments);
    let layers = layer.iter().max().map_or(0, |d| d + 1);
    let mut items = Items { layer, above: vec![vec![]; n], below: vec![vec![]; n], nodes: n };
    let ways = items.lines(arguments);
    let mut rows: Vec<Vec<usize>> = vec![vec![]; layers];
    for i in 0..items.layer.len() {
        rows[items.layer[i]].push(i);
    }
    order(&mut rows, &items);
    let mut x = place(&rows, &items, box_width);
    let left = x.iter().take(n).fold(f64::INFINITY, |m, &v| m.min(v - box_width / 2.0));
    let left = x.iter().skip(n).fold(left, |m, &v| m.min(v - LINE)).min(f64::MAX);
    x.iter_mut().for_each(|v| *v -= left);
    let right = |(i, v): (usize, &f64)| v + if i < n { box_width / 2.0 } else { LINE };
    let width = x.iter().enumerate().map(right).fold(0.0, f64::max);
    let at = |i: usize| SlotCentre { x: x[i], layer: items.layer[i] };
    let places = |way: &Vec<usize>| way.iter().map(|&i| at(i)).collect();
    Layout {
        nodes: (0..n).map(at).collect(),
        ways: ways.iter().map(|w| w.iter().map(places).collect()).collect(),
        width,
        layers,
    }
}

/// Layer of each node: one below its lowest argument. A source is just above its first use rather than at the top.
fn layers(arguments: &[Vec<usize>]) -> Vec<usize> {
    let n = arguments.len();
    let mut layer = vec![0usize; n];
    let mut first_use = vec![usize::MAX; n];
    for i in 0..n {
        layer[i] = arguments[i].iter().map(|&a| layer[a] + 1).max().unwrap_or(0);
        for &a in &arguments[i] {
            first_use[a] = first_use[a].min(layer[i]);
        }
    }
    for i in 0..n {
        if arguments[i].is_empty() && first_use[i] != usize::MAX {
            layer[i] = first_use[i].saturating_sub(1);
        }
    }
    layer
}

impl Items {
    /// Adds the slots of long lines and all neighbours. Returns for each node and argument the slots between them.
    fn lines(&mut self, arguments: &[Vec<usize>]) -> Vec<Vec<Vec<usize>>> {
        // Slots of the lines from each node, from the row below it down.
        let mut held: Vec<Vec<usize>> = vec![vec![]; self.nodes];
        let mut ways = Vec::with_capacity(self.nodes);
        for (i, args) in arguments.iter().enumerate() {
            let mut own = Vec::with_capacity(args.len());
            for &a in args {
                let between = self.layer[i] - self.layer[a] - 1;
                while held[a].len() < between {
                    let new = self.layer.len();
                    self.layer.push(self.layer[a] + held[a].len() + 1);
                    self.above.push(vec![]);
                    self.below.push(vec![]);
                    self.link(held[a].last().copied().unwrap_or(a), new);
                    held[a].push(new);
                }
                self.link(if between == 0 { a } else { held[a][between - 1] }, i);
                own.push(held[a][..between].to_vec());
            }
            ways.push(own);
        }
        ways
    }

    fn link(&mut self, upper: usize, lower: usize) {
        self.above[lower].push(upper);
        self.below[upper].push(lower);
    }
}

/// Orders each row by the mean position of its neighbours, alternating between downward and upward sweeps.
fn order(rows: &mut [Vec<usize>], items: &Items) {
    let mut slot = vec![0.0; items.layer.len()];
    let number = |row: &[usize], slot: &mut [f64]| {
        for (s, &i) in row.iter().enumerate() {
            slot[i] = s as f64 - row.len() as f64 / 2.0;
        }
    };
    rows.iter().for_each(|row| number(row, &mut slot));
    let count = rows.len();
    for round in 0..10 {
        let down = round % 2 == 0;
        for r in 0..count {
            let row = &mut rows[if down { r } else { count - 1 - r }];
            let near = if down { &items.above } else { &items.below };
            let centre = |&i: &usize| match near[i].len() {
                0 => slot[i],
                len => near[i].iter().map(|&a| slot[a]).sum::<f64>() / len as f64,
            };
            let mut keyed: Vec<(f64, usize)> = row.iter().map(|i| (centre(i), *i)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            *row = keyed.into_iter().map(|k| k.1).collect();
            number(row, &mut slot);
        }
    }
}

/// Horizontal positions along the rows: close to the neighbours, as far as order and widths allow.
fn place(rows: &[Vec<usize>], items: &Items, box_width: f64) -> Vec<f64> {
    let half = |i: usize| if i >= items.nodes { LINE } else { box_width / 2.0 };
    let apart = |a: usize, b: usize| half(a) + half(b) + GAP;
    let mut x = vec![0.0; items.layer.len()];
    for row in rows {
        relax(row, &mut x, &vec![(0.0, 1.0); row.len()], apart);
    }
    // Moves travel one row per round, back and forth; long lines should become straight.
    for round in 0..60 {
        for r in 0..rows.len() {
            let row = &rows[if round % 2 == 0 { r } else { rows.len() - 1 - r }];
            let wishes: Vec<(f64, f64)> = row.iter().map(|&i| wish(i, items, &x)).collect();
            relax(row, &mut x, &wishes, apart);
        }
    }
    x
}

/// Preferred position of an item and its weight: the mean of its neighbours.
fn wish(i: usize, items: &Items, x: &[f64]) -> (f64, f64) {
    let (mut sum, mut weight) = (0.0, 1e-6);
    for &other in items.above[i].iter().chain(&items.below[i]) {
        let w = if i.min(other) >= items.nodes { 8.0 } else { 1.0 };
        sum += w * x[other];
        weight += w;
    }
    (sum / weight, weight)
}

/// Places a row as near to its preferred positions (position, weight) as order and distances allow: least squares, by
/// pooling items that would overlap (isotonic regression).
fn relax(row: &[usize], x: &mut [f64], wishes: &[(f64, f64)], apart: impl Fn(usize, usize) -> f64) {
    // Positions minus the minimum distance from the first item must not decrease along the row.
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(row.len());
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for (k, (&i, &(at, weight))) in row.iter().zip(wishes).enumerate() {
        if k > 0 {
            offset += apart(row[k - 1], i);
        }
        offsets.push(offset);
        let mut pool = (at - offset, weight, 1);
        while let Some(&(mean, w, count)) = pools.last().filter(|p| p.0 > pool.0) {
            pools.pop();
            pool = ((mean * w + pool.0 * pool.1) / (w + pool.1), w + pool.1, count + pool.2);
        }
        pools.push(pool);
    }
    let means = pools.iter().flat_map(|&(mean, _, count)| std::iter::repeat_n(mean, count));
    for ((&i, offset), mean) in row.iter().zip(offsets).zip(means) {
        x[i] = mean + offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_above_and_nothing_overlaps() {
        let arguments = vec![vec![], vec![], vec![0, 1], vec![0], vec![2, 3], vec![], vec![0, 4, 4]];
        let l = layout(&arguments, 100.0);
        for (i, args) in arguments.iter().enumerate() {
            assert!(args.iter().all(|&a| l.nodes[a].layer < l.nodes[i].layer));
            assert!(l.nodes[i].x >= 50.0 - 1e-9 && l.nodes[i].x <= l.width - 50.0 + 1e-9);
            for j in 0..i {
                let (a, b) = (l.nodes[i], l.nodes[j]);
                assert!(a.layer != b.layer || (a.x - b.x).abs() > 99.0, "{i} and {j} overlap");
            }
        }
        // The line from 0 to 6 goes through every row between, beside the boxes there.
        let way = &l.ways[6][0];
        assert_eq!(way.len(), l.nodes[6].layer - l.nodes[0].layer - 1);
        for p in way {
            assert!(l.nodes.iter().all(|n| n.layer != p.layer || (n.x - p.x).abs() > 50.0));
        }
    }

    #[test]
    fn nothing_is_laid_out_as_nothing() {
        let l = layout(&[], 100.0);
        assert_eq!((l.layers, l.width), (0, 0.0));
    }
}
