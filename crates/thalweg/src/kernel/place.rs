//! Places of an index kernel that follow from the place of the result alone, and the reads at them.
//!
//! In: the integers of a trace. Out: for those that are `scale·p + shift`, with `p` the place along one axis of the
//! result, these two numbers; and views of a tensor that have at each place of the result what is read there: slices
//! with steps, padding, parts joined. All of these are index maps, so what is read may itself be computed inside of the
//! kernel, and the gradient is the inverse map. What is computed otherwise is gathered.

use super::repr::Edge;
use super::trace::{Node, Trace};
use crate::join::join;
use crate::{DType, MAX_RANK, Scalar, Shape, Tensor};
use thalweg_ir::ElementOp;
use thalweg_stream::Counted;

/// Parts that a read beyond both ends is joined from at most; one of more is a gather.
const MOST_PARTS: usize = 4;

/// `scale` times the place along `axis`, and `shift`; without an axis only that: `scale` is 0 then, and nowhere else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Affine {
    pub axis: Option<usize>,
    pub scale: i64,
    pub shift: i64,
}

impl Affine {
    fn constant(shift: i64) -> Affine {
        Affine { axis: None, scale: 0, shift }
    }

    fn plus(self, other: Affine, sign: i64) -> Option<Affine> {
        let axis = match (self.axis, other.axis) {
            (Some(a), Some(b)) if a != b => return None,
            (a, b) => a.or(b),
        };
        Affine { axis, scale: self.scale + sign * other.scale, shift: self.shift + sign * other.shift }.small()
    }

    fn times(self, factor: i64) -> Option<Affine> {
        Affine { axis: self.axis, scale: self.scale.checked_mul(factor)?, shift: self.shift.checked_mul(factor)? }
            .small()
    }

    /// Where nothing wraps as i32.
    fn small(self) -> Option<Affine> {
        let axis = self.axis.filter(|_| self.scale != 0);
        (self.scale.abs() < 1 << 15 && self.shift.abs() < 1 << 30).then_some(Affine { axis, ..self })
    }

    fn at(self, p: i64) -> i64 {
        self.scale * p + self.shift
    }
}

/// Of each node of a trace what it is by the result's place, if it is such a thing.
pub(super) fn affine_places(trace: &Trace, known: &[Option<Scalar>]) -> Vec<Option<Affine>> {
    let mut all: Vec<Option<Affine>> = Vec::with_capacity(trace.nodes.len());
    for ((node, _), known) in trace.nodes.iter().zip(known) {
        if let Some(number) = known {
            all.push(
                matches!(number, Scalar::Int(_)).then(|| Affine::constant(number.to_i64())).and_then(Affine::small),
            );
            continue;
        }
        let of = |i: u32| all[i as usize];
        all.push(match *node {
            Node::Place(axis) => Some(Affine { axis: Some(axis), scale: 1, shift: 0 }),
            Node::Op { op, args: [a, b, _], .. } => match (op, of(a), of(b)) {
                (ElementOp::Neg, Some(a), _) => a.times(-1),
                (ElementOp::Add, Some(a), Some(b)) => a.plus(b, 1),
                (ElementOp::Sub, Some(a), Some(b)) => a.plus(b, -1),
                (ElementOp::Mul, Some(a), Some(b)) if b.axis.is_none() => a.times(b.shift),
                (ElementOp::Mul, Some(a), Some(b)) if a.axis.is_none() => b.times(a.shift),
                _ => None,
            },
            _ => None,
        });
    }
    all
}

/// Whether a read at these places is a view of the tensor: each place follows another axis of the result, and few parts
/// make it.
pub(super) fn is_map(x: &Tensor, at: &[Affine], edge: Edge, over: &Shape) -> bool {
    let mut used = [false; MAX_RANK];
    for axis in at.iter().filter_map(|a| a.axis) {
        if over[axis] == 0 || std::mem::replace(&mut used[axis], true) {
            return false;
        }
    }
    let few = |(a, &size): (&Affine, &usize)| parts(*a, count(*a, over), size as i64, edge).is_some();
    matches!(edge, Edge::Zero | Edge::Checked) || at.iter().zip(x.dims()).all(few)
}

/// The places along the result's axis that a place follows.
fn count(a: Affine, over: &Shape) -> i64 {
    a.axis.map_or(1, |axis| over[axis]) as i64
}

/// What a read at these places, for which [`is_map`] holds, is of a result of shape `over`: a tensor that broadcasts to
/// it.
///
/// # Errors
/// The axis and the places that are outside, where there must be none.
#[track_caller]
pub(super) fn read(x: &Tensor, at: &[Affine], edge: Edge, over: &Shape) -> Result<Tensor, (usize, [i64; 2])> {
    let y = match edge {
        Edge::Zero | Edge::Checked => padded(x, at, edge, over)?,
        Edge::Clamp | Edge::Wrap => joined(x, at, edge, over),
    };
    Ok(arranged(y, at, over))
}

/// What is inside, with zeros around it.
#[track_caller]
fn padded(x: &Tensor, at: &[Affine], edge: Edge, over: &Shape) -> Result<Tensor, (usize, [i64; 2])> {
    let (mut parts, mut widths) = ([(0, 1, 0); MAX_RANK], [(0, 0); MAX_RANK]);
    for (d, &a) in at.iter().enumerate() {
        let (n, size) = (count(a, over), x.dims()[d] as i64);
        let (from, to) = inside(a, n, size);
        if edge == Edge::Checked && (from > 0 || to < n) {
            let ends = [a.at(0), a.at(n - 1)];
            return Err((d, [ends[0].min(ends[1]), ends[0].max(ends[1])]));
        }
        parts[d] = (if from < to { a.at(from) } else { 0 }, step(a), (to - from) as usize);
        widths[d] = (from as usize, (n - to) as usize);
    }
    Ok(x.sliced(&parts[..at.len()]).pad(&widths[..at.len()], Scalar::Float(0.0)))
}

/// Parts of each axis end to end.
#[track_caller]
fn joined(x: &Tensor, at: &[Affine], edge: Edge, over: &Shape) -> Tensor {
    let mut y = x.clone();
    for (d, &a) in at.iter().enumerate() {
        let parts = parts(a, count(a, over), x.dims()[d] as i64, edge).expect("it is a map");
        let part = |&(start, step, n): &(i64, i64, i64)| match step {
            0 => {
                let mut shape = *y.shape();
                shape.dims_mut()[d] = n as usize;
                y.part(d, (start, 1, 1)).broadcast_to(shape)
            }
            _ => y.part(d, (start, step, n as usize)),
        };
        let parts: Vec<Tensor> = parts.iter().map(part).collect();
        y = parts.into_iter().reduce(|a, b| join(&a, &b, d)).expect("there is a place");
    }
    y
}

/// What a read at places that are computed gives, one i64 tensor an axis of `x`: a gather of its elements in a row.
#[track_caller]
pub(super) fn gathered(x: &Tensor, at: &[Tensor], edge: Edge, over: &Shape) -> Tensor {
    if x.numel() == 0 || over.numel() == 0 {
        return Tensor::zeros_with(*over, (x.dtype(), x.device()));
    }
    let strides = x.shape().strides();
    let mut position = Tensor::zeros_with(Shape::SCALAR, (DType::I64, x.device()));
    let mut inside: Option<Tensor> = None;
    for (d, c) in at.iter().enumerate() {
        let size = x.dims()[d];
        let held = match edge {
            Edge::Wrap => c.rem(size),
            Edge::Clamp => c.clamp(0, size - 1),
            Edge::Zero | Edge::Checked => {
                let own = c.ge(0).and(c.lt(size));
                inside = Some(inside.map_or_else(|| own.clone(), |all| all.and(&own)));
                c.clamp(0, size - 1)
            }
        };
        position += held * strides[d] as i64;
    }
    let flat = Shape::new(&[over.numel()]);
    let row = x.reshaped(Shape::new(&[x.numel()]));
    let read = |position: Tensor| {
        row.gathered_by(("kernel", Counted::Plain), 0, &position.broadcast_to(*over).reshaped(flat)).reshaped(*over)
    };
    match (edge, inside) {
        (Edge::Zero, Some(inside)) => inside.where_(read(position), Scalar::Float(0.0)),
        // No element has that place: an index error where it is read.
        (Edge::Checked, Some(inside)) => read(inside.where_(position, -1)),
        _ => read(position),
    }
}

fn step(a: Affine) -> i64 {
    if a.scale == 0 { 1 } else { a.scale }
}

/// The places of the result `from..to`, of `n`, that are inside of an axis of that size.
fn inside(a: Affine, n: i64, size: i64) -> (i64, i64) {
    let Affine { scale, shift, .. } = a;
    let (from, to) = match scale {
        0 if (0..size).contains(&shift) => (0, n),
        0 => (n, n),
        s if s > 0 => (-shift.div_euclid(s), (size - 1 - shift).div_euclid(s) + 1),
        s => (-(size - 1 - shift).div_euclid(-s), shift.div_euclid(-s) + 1),
    };
    let from = from.clamp(0, n);
    (from, to.clamp(from, n))
}

/// What an axis is joined from: start, step and number of elements each; the same element again with step 0. None where
/// there are too many, or there is no element.
fn parts(a: Affine, n: i64, size: i64, edge: Edge) -> Option<Vec<(i64, i64, i64)>> {
    if size == 0 {
        return None;
    }
    if edge == Edge::Wrap {
        let (mut parts, mut p) = (vec![], 0);
        while p < n {
            if parts.len() == MOST_PARTS {
                return None;
            }
            let turn = a.at(p).div_euclid(size);
            let (_, to) = inside(Affine { shift: a.shift - turn * size, ..a }, n, size);
            parts.push((a.at(p) - turn * size, step(a), to - p));
            p = to;
        }
        return Some(parts);
    }
    let (from, to) = inside(a, n, size);
    let (low, high) = if a.scale < 0 || a.scale == 0 && a.shift >= size { (size - 1, 0) } else { (0, size - 1) };
    let all = match a.scale {
        // One place, before or behind.
        0 if from == n => vec![(low, 0, n)],
        _ => vec![(low, 0, from), (a.at(from), step(a), to - from), (high, 0, n - to)],
    };
    Some(all.into_iter().filter(|p| p.2 > 0).collect())
}

/// The dimensions in the order of the result's, those that it varies along.
fn arranged(y: Tensor, at: &[Affine], over: &Shape) -> Tensor {
    let mut order: Vec<usize> = (0..at.len()).collect();
    // Those without an axis have one element.
    order.sort_by_key(|&d| at[d].axis.map_or(0, |axis| axis + 1));
    let sorted = order.iter().enumerate().all(|(i, &d)| i == d);
    let y = if sorted { y } else { y.permute(order.iter().map(|&d| d as i64).collect::<Vec<_>>()) };
    let varies = |axis: usize| at.iter().any(|a| a.axis == Some(axis));
    let sizes: Vec<usize> = (0..over.rank()).map(|axis| if varies(axis) { over[axis] } else { 1 }).collect();
    y.reshaped(Shape::new(&sizes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is inside, and the parts of each edge, by looking at each place.
    #[test]
    fn parts_are_what_each_place_says() {
        for (scale, shift, n, size) in cases() {
            // Without a scale there is no axis, and one place.
            let (axis, n) = if scale == 0 { (None, 1) } else { (Some(0), n) };
            let a = Affine { axis, scale, shift };
            let (from, to) = inside(a, n, size);
            let places: Vec<i64> = (0..n).filter(|&p| (0..size).contains(&a.at(p))).collect();
            assert_eq!((from..to).collect::<Vec<_>>(), places, "{a:?} {n} {size}");
            for edge in [Edge::Clamp, Edge::Wrap] {
                let Some(parts) = parts(a, n, size, edge) else {
                    assert!(edge == Edge::Wrap, "{a:?} {n} {size}");
                    continue;
                };
                let got: Vec<i64> = parts.iter().flat_map(|&(s, step, n)| (0..n).map(move |i| s + step * i)).collect();
                let want = |p: i64| match edge {
                    Edge::Clamp => a.at(p).clamp(0, size - 1),
                    _ => a.at(p).rem_euclid(size),
                };
                assert_eq!(got, (0..n).map(want).collect::<Vec<_>>(), "{a:?} {n} {size} {edge:?}");
            }
        }
    }

    fn cases() -> impl Iterator<Item = (i64, i64, i64, i64)> {
        let all = (-3..=3).flat_map(|scale| (-9..=9).map(move |shift| (scale, shift)));
        all.flat_map(|(scale, shift)| (1..6).flat_map(move |n| (1..5).map(move |size| (scale, shift, n, size))))
    }
}
