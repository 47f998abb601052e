//! One-pass weights (online softmax): allows flash attention, `softmax(q·kᵀ + mask)·v` with a single pass over the
//! keys.
//!
//! In `Σ_j w[j]·v[j]` the weights of a softmax are `w[j] = exp(x[j] - m)·c`, where `m` is the maximum of the row and
//! `c` depends on `m` and on the sum of the exponentials. Both are known only at the end of the row. But for any `m`
//! and `m'`, `exp(x - m) = exp(m' - m)·exp(x - m')`. So accumulators computed with the maximum so far are rescaled when
//! a larger one is found, and multiplied by `c` at the end (Milakov and Gimelshein 2018; Dao and others 2022). Weights
//! without folds (a sigmoid instead of the softmax) need neither.
//!
//! In: the body of a left operand, over its rows or elementwise. Out: the computation per point, and the one per row. A
//! row whose scores are all -∞ has no weights either way: its results are NaN where the body's are.

use crate::{Body, BodyBuilder, Node, NodeId, widen};
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};

/// Weights of a row, computed in one pass.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Weights {
    /// Computation per point, with a single store in f32: the score `x` that is exponentiated, or the weight itself if
    /// `once` is none.
    pub point: Body,
    /// Row factor that weighted sums are multiplied by at the end; `None` if weights depend on no fold.
    pub once: Option<Once>,
}

/// Computation of the row factor from the folds of a row of weights.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Once {
    /// Body that stores the factor `c`; it reads the values of the row.
    pub body: Body,
    /// Index of the row value that is the maximum of the scores.
    pub max: u16,
    /// Index of the row value that is the sum of the exponentials.
    pub sum: u16,
}

/// Weights that a body computes, if they can be computed in one pass.
pub fn weights(body: &Body) -> Option<Weights> {
    let body = &widen(body);
    let [store] = body.stores[..] else { return None };
    if !body.dtype(store.node).is_float() || body.strict || !body.scans.is_empty() || store.combine.is_some() {
        return None;
    }
    let find = Find { body, row: of_the_row(body), folded: depends(body, |n| matches!(n, Node::Value { .. })) };
    let value = find.narrowed(store.node);
    if body.folds.is_empty() {
        return Some(Weights { point: only(body, value, None), once: None });
    }
    let [a, b] = body.folds[..] else { return None };
    let (max, sum) = if a.op == Monoid::Max { (a, b) } else { (b, a) };
    if max.op != Monoid::Max || sum.op != Monoid::Sum {
        return None;
    }
    let e = find.float(sum.node);
    let Node::Element { op: ElementOp::Exp, args: [difference, ..], dtype: DType::F32 } = body.nodes[e.index()] else {
        return None;
    };
    let Node::Element { op: ElementOp::Sub, args: [x, shift, _], .. } = body.nodes[difference.index()] else {
        return None;
    };
    let shifts = find.float(shift);
    let is_max = matches!(body.nodes[shifts.index()], Node::Value { slot, .. } if slot == max.slot);
    if !is_max || find.float(x) != find.float(max.node) || find.folded[x.index()] || !find.linear(value, e) {
        return None;
    }
    let once = Once { body: only(body, value, Some((e, Put::One))), max: max.slot, sum: sum.slot };
    Some(Weights { point: only(body, find.narrowed(x), None), once: Some(once) })
}

struct Find<'a> {
    body: &'a Body,
    /// Whether each node is the same at all points of a row.
    row: Vec<bool>,
    /// Whether each node depends on a fold.
    folded: Vec<bool>,
}

impl Find<'_> {
    /// Strips conversions between floats from a value.
    fn float(&self, mut id: NodeId) -> NodeId {
        while let Node::Cast { arg, dtype } = self.body.nodes[id.index()]
            && dtype.is_float()
            && self.body.dtype(arg).is_float()
        {
            id = arg;
        }
        id
    }

    /// Strips a rounding to a narrow float from a value.
    fn narrowed(&self, id: NodeId) -> NodeId {
        match self.body.nodes[id.index()] {
            Node::Cast { arg, dtype: DType::BF16 | DType::F16 } if self.body.dtype(arg) == DType::F32 => arg,
            Node::Cast { arg, dtype: DType::F32 } if self.float(id) != arg && self.body.dtype(arg) != DType::F32 => {
                let wide = self.narrowed(arg);
                if self.body.dtype(wide) == DType::F32 { wide } else { id }
            }
            _ => id,
        }
    }

    /// Whether a value is a multiple of `e` by a row value.
    fn linear(&self, id: NodeId, e: NodeId) -> bool {
        let row = |id: NodeId| self.row[id.index()];
        if id == e {
            return true;
        }
        match self.body.nodes[id.index()] {
            Node::Cast { arg, dtype } => dtype.is_float() && self.body.dtype(arg).is_float() && self.linear(arg, e),
            Node::Element { op: ElementOp::Mul, args: [a, b, _], .. } => {
                self.linear(a, e) && row(b) || row(a) && self.linear(b, e)
            }
            Node::Element { op: ElementOp::Div, args: [a, b, _], .. } => self.linear(a, e) && row(b),
            _ => false,
        }
    }
}

/// Whether `is` holds for each node or for one that it depends on.
fn depends(body: &Body, is: impl Fn(&Node) -> bool) -> Vec<bool> {
    let mut all = vec![false; body.nodes.len()];
    for i in 0..all.len() {
        all[i] = is(&body.nodes[i]) || body.args(NodeId(i as u32)).any(|a| all[a.index()]);
    }
    all
}

/// Whether each node depends only on scalars, constants and folds.
fn of_the_row(body: &Body) -> Vec<bool> {
    let at_points = depends(body, |n| n.access().is_some() || matches!(n, Node::Scanned { .. }));
    at_points.into_iter().map(|p| !p).collect()
}

/// Replacement of a node in [`only`].
#[derive(Clone, Copy)]
pub(crate) enum Put {
    One,
    /// A node that comes before the replaced one.
    Node(NodeId),
}

/// Body that stores only this value, as f32 if it is a float, through its last access; optionally with a node replaced.
pub(crate) fn only(body: &Body, root: NodeId, other: Option<(NodeId, Put)>) -> Body {
    let mut from = body.clone();
    (from.folds, from.stores) = (vec![], vec![]);
    let access = from.accesses.len() - 1;
    let mut b = BodyBuilder::like(&from);
    let mut place: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    for (i, node) in body.nodes.iter().enumerate().take(root.index() + 1) {
        let new = match *node {
            _ if other.is_some_and(|o| o.0.index() == i) => match other {
                Some((_, Put::Node(id))) => place[id.index()],
                _ => b.constant(Scalar::Float(1.0), DType::F32),
            },
            Node::Element { op, .. } => {
                let args: Vec<NodeId> = body.args(NodeId(i as u32)).map(|a| place[a.index()]).collect();
                b.element(op, &args)
            }
            Node::Cast { dtype, arg } => b.cast(place[arg.index()], dtype),
            node => b.node(node.with_args(|a| place[a.index()])),
        };
        place.push(new);
    }
    let value = place[root.index()];
    let value = if b.body().dtype(value).is_float() { b.cast(value, DType::F32) } else { value };
    b.store(value, access as u16);
    let mut out = b.finish();
    out.accesses[access].dtype = DType::F32;
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;

    /// Row body of a bf16 `x` with a mask; it stores `f(builder, x + mask)`.
    fn body(f: impl FnOnce(&mut BodyBuilder, NodeId) -> NodeId) -> Body {
        let mut b = BodyBuilder::new(false);
        let at = [0, 1].map(|o| b.access(Access::contiguous(o, DType::BF16)));
        let [x, mask] = at.map(|access| b.node(Node::Load { access }));
        let score = b.element(ElementOp::Add, &[x, mask]);
        let w = f(&mut b, score);
        let w = b.cast(w, DType::BF16);
        let out = b.access(Access::contiguous(2, DType::BF16));
        b.store(w, out);
        b.finish()
    }

    fn exponential(b: &mut BodyBuilder, score: NodeId) -> [NodeId; 2] {
        let x = b.cast(score, DType::F32);
        let max = b.fold(Monoid::Max, x);
        let difference = b.element(ElementOp::Sub, &[x, max]);
        let e = b.element(ElementOp::Exp, &[difference]);
        [e, b.fold(Monoid::Sum, e)]
    }

    #[test]
    fn a_softmax_is_scores_and_a_factor_of_the_row() {
        let softmax = body(|b, score| {
            let [e, sum] = exponential(b, score);
            b.element(ElementOp::Div, &[e, sum])
        });
        let w = weights(&softmax).unwrap();
        let once = w.once.unwrap();
        assert_eq!((once.max, once.sum), (0, 1));
        let text = once.body.to_string();
        assert!(text.contains("div") && !text.contains("load"), "{text}");
        let text = w.point.to_string();
        assert!(text.contains("add") && !text.contains("exp"), "{text}");
    }

    #[test]
    fn a_sigmoid_is_weights_by_themselves() {
        let w = weights(&body(|b, score| b.element(ElementOp::Sigmoid, &[score]))).unwrap();
        assert!(w.once.is_none() && w.point.to_string().contains("sigmoid"));
    }

    #[test]
    fn what_is_not_a_multiple_of_the_exponentials_is_none() {
        let plus = body(|b, score| {
            let [e, sum] = exponential(b, score);
            b.element(ElementOp::Add, &[e, sum])
        });
        assert_eq!(weights(&plus), None);
        let of_others = body(|b, score| {
            let [e, _] = exponential(b, score);
            let all = b.cast(score, DType::F32);
            let sum = b.fold(Monoid::Sum, all);
            b.element(ElementOp::Div, &[e, sum])
        });
        assert_eq!(weights(&of_others), None);
        let by_point = body(|b, score| {
            let [e, sum] = exponential(b, score);
            let x = b.cast(score, DType::F32);
            let y = b.element(ElementOp::Mul, &[e, x]);
            b.element(ElementOp::Div, &[y, sum])
        });
        assert_eq!(weights(&by_point), None);
    }
}
