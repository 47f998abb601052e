//! Affine indices of an index kernel, and the reads at them.
//!
//! In: the integers of a trace. Out: scale and shift of those that are `scale·p + shift`, with `p` the index along one
//! axis of the result; and views of a tensor that hold, at each index of the result, the element that is read there:
//! slices with steps, padding, concatenated segments. All of these are index maps, so the source of a read may itself be
//! computed inside the kernel, and the gradient is the inverse map. Other reads are gathers.

use super::repr::Edge;
use super::trace::{Node, Trace};
use crate::join::join;
use crate::{DType, MAX_RANK, Scalar, Shape, Tensor};
use thalweg_ir::ElementOp;
use thalweg_stream::Counted;

/// Maximum number of segments that a read beyond both ends is concatenated from; a read of more is a gather.
const MAX_SEGMENTS: usize = 4;

/// Affine index: `scale` times the index along `axis`, plus `shift`. `scale` is 0 if and only if there is no axis.
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

    /// Returns the index if it cannot overflow i32.
    fn small(self) -> Option<Affine> {
        let axis = self.axis.filter(|_| self.scale != 0);
        (self.scale.abs() < 1 << 15 && self.shift.abs() < 1 << 30).then_some(Affine { axis, ..self })
    }

    fn at(self, p: i64) -> i64 {
        self.scale * p + self.shift
    }
}

/// For each node of a trace, the affine index that it computes, if any.
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

/// Whether a read at these indices is a view of the tensor: each index varies along another axis of the result, and few
/// segments are concatenated.
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

/// Number of indices of the result along the axis that the index `a` varies with.
fn count(a: Affine, over: &Shape) -> i64 {
    a.axis.map_or(1, |axis| over[axis]) as i64
}

/// The view of `x` that a read at these indices is, where [`is_map`] is true: a tensor that broadcasts to the result's
/// shape `over`.
///
/// # Errors
/// The axis and the first and last index, if [`Edge::Checked`] and they are out of bounds.
#[track_caller]
pub(super) fn read(x: &Tensor, at: &[Affine], edge: Edge, over: &Shape) -> Result<Tensor, (usize, [i64; 2])> {
    let y = match edge {
        Edge::Zero | Edge::Checked => padded(x, at, edge, over)?,
        Edge::Clamp | Edge::Wrap => joined(x, at, edge, over),
    };
    Ok(arranged(y, at, over))
}

/// Elements that are in bounds, padded with zeros for those that are not.
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

/// Concatenates segments along each axis.
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

/// A read at computed indices, one i64 tensor for each axis of `x`: a gather from the flattened elements.
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
        // No element has index -1: an index error where the result is read.
        (Edge::Checked, Some(inside)) => read(inside.where_(position, -1)),
        _ => read(position),
    }
}

fn step(a: Affine) -> i64 {
    if a.scale == 0 { 1 } else { a.scale }
}

/// The range `from..to` of the `n` result indices that are in bounds of an axis of that size.
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

/// The segments that an axis is concatenated from: start, step and number of elements each; step 0 repeats one element.
/// `None` if there are too many, or the axis is empty.
fn parts(a: Affine, n: i64, size: i64, edge: Edge) -> Option<Vec<(i64, i64, i64)>> {
    if size == 0 {
        return None;
    }
    if edge == Edge::Wrap {
        let (mut parts, mut p) = (vec![], 0);
        while p < n {
            if parts.len() == MAX_SEGMENTS {
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
        // A single index, which is out of bounds.
        0 if from == n => vec![(low, 0, n)],
        _ => vec![(low, 0, from), (a.at(from), step(a), to - from), (high, 0, n - to)],
    };
    Some(all.into_iter().filter(|p| p.2 > 0).collect())
}

/// Reorders the dimensions to those of the result that they vary along.
fn arranged(y: Tensor, at: &[Affine], over: &Shape) -> Tensor {
    let mut order: Vec<usize> = (0..at.len()).collect();
    // Dimensions without an axis have one element.
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

    /// Compares ranges in bounds, and the segments of each edge mode, with a check of every index.
    #[test]
    fn parts_are_what_each_place_says() {
        for (scale, shift, n, size) in cases() {
            // Without a scale there is no axis, and one index.
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
