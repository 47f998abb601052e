//! Rows of weights that need not be known whole: what lets `softmax(q·kᵀ + mask)·v` go through its keys once.
//!
//! In `Σ_j w[j]·v[j]` the weights of a softmax are `w[j] = exp(x[j] - m)·c`, with `m` the maximum of the row and `c` what
//! follows from `m` and from the sum of the exponentials. Both are known only at the end of the row. But whatever `m` and
//! `m'` are, `exp(x - m) = exp(m' - m)·exp(x - m')`: sums that were made with the maximum so far are multiplied by a
//! number of the row where a larger one is met, and by `c` at the end (Milakov and Gimelshein 2018; Dao and others 2022).
//! Weights without folds (a sigmoid in the place of the softmax) need neither.
//!
//! In: the body of a left factor, over its rows or point by point. Out: what is computed at each point, and once a row.
//! A row whose scores are all -∞ has no weights either way: its results are NaN where the body's are.

use crate::{Body, BodyBuilder, Node, NodeId, widen};
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};

/// A row of weights, for one pass.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Weights {
    /// What is computed at a point, as its only store: the score `x` that is exponentiated, or the weight itself where
    /// `once` is none. In f32.
    pub point: Body,
    /// What a weight is multiplied by at the end.
    pub once: Option<Once>,
}

/// What follows from the folds of a row of weights.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Once {
    /// Stores the factor `c`; it reads the values of the row.
    pub body: Body,
    /// The value that is the maximum of the scores.
    pub max: u16,
    /// The value that is the sum of the exponentials.
    pub sum: u16,
}

/// The weights that a body computes, where they can be had in one pass.
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
    /// What is the same at all points of a row.
    row: Vec<bool>,
    /// What follows from a fold.
    folded: Vec<bool>,
}

impl Find<'_> {
    /// The value before it was converted between floats.
    fn float(&self, mut id: NodeId) -> NodeId {
        while let Node::Cast { arg, dtype } = self.body.nodes[id.index()]
            && dtype.is_float()
            && self.body.dtype(arg).is_float()
        {
            id = arg;
        }
        id
    }

    /// The value before it was rounded to a narrow float.
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

    /// Whether a value is a multiple of `e` by something of the row.
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

/// The nodes that such a node is among what they are computed from, or that are such.
fn depends(body: &Body, is: impl Fn(&Node) -> bool) -> Vec<bool> {
    let mut all = vec![false; body.nodes.len()];
    for i in 0..all.len() {
        all[i] = is(&body.nodes[i]) || body.args(NodeId(i as u32)).any(|a| all[a.index()]);
    }
    all
}

/// The nodes that follow from scalars, constants and folds alone.
fn of_the_row(body: &Body) -> Vec<bool> {
    let at_points = depends(body, |n| n.access().is_some() || matches!(n, Node::Scanned { .. }));
    at_points.into_iter().map(|p| !p).collect()
}

/// What stands in the place of a node.
#[derive(Clone, Copy)]
pub(crate) enum Put {
    One,
    /// One that comes before it.
    Node(NodeId),
}

/// The body that stores nothing but this value, as f32 where it is a float, through its last access; with something else
/// in the place of a node.
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

    /// A row body of `x` of bf16 with a mask: `f(builder, x + mask)` is what is stored.
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
