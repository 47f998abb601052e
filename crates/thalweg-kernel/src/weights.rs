//! One-pass weights (online softmax): allows flash attention, `softmax(q·kᵀ + mask)·v` with a single pass over the
//! keys.
//!
//! In `Σ_j w[j]·v[j]` the weights of a softmax are `w[j] = exp(x[j] - m)·c`, where `m` is the maximum of the row and
//! `c` depends on `m` and on the sum of the exponentials. Both are known only at the end of the row. But for any `m`
//! and `m'`, `exp(x - m) = exp(m' - m)·exp(x - m')`. So accumulators computed with the maximum so far are rescaled when
//! a larger one is found, and multiplied by `c` at the end (Milakov and Gimelshein 2018; Dao and others 2022). Weights
//! without folds (a sigmoid instead of the softmax) need neither.
//!
//! A body may shift its scores by a function `h(m)` of the maximum instead: programs replace -∞, so that rows whose scores
//! are all -∞ have weights of 0 instead of NaN. The kernel's own shift `s` is `m`, or 0 where `m` is -∞. What it sums up is
//! multiplied by `exp(s - h(m))` at the end.
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
    let of_scores = find.float(x) == find.float(max.node) && !find.folded[x.index()];
    if !of_scores || !find.linear(value, e) || !find.is_of(shift, max.slot) {
        return None;
    }
    let is_max = matches!(body.nodes[find.float(shift).index()], Node::Value { .. });
    let factor = match is_max {
        true => only(body, value, Some((e, Put::One))),
        false => shifted(body, (value, e), shift, [max.slot, sum.slot]),
    };
    let once = Once { body: factor, max: max.slot, sum: sum.slot };
    Some(Weights { point: only(body, find.narrowed(x), None), once: Some(once) })
}

/// Factor `c` of the row for weights `exp(x - shift)·c`, from the maximum and the sum of exponentials that the kernel has
/// with its own shift. A sum of 0 stays 0.
fn shifted(body: &Body, (value, e): (NodeId, NodeId), shift: NodeId, [max, sum]: [u16; 2]) -> Body {
    let mut b = builder(body);
    let number = |b: &mut BodyBuilder, v: f64| b.constant(Scalar::Float(v), DType::F32);
    let [max, total] = [max, sum].map(|slot| b.node(Node::Value { slot, dtype: DType::F32 }));
    let of_body = copied(body, &mut b, shift, |_, _| None);
    let (lowest, zero, one) = (number(&mut b, f64::NEG_INFINITY), number(&mut b, 0.0), number(&mut b, 1.0));
    let hidden = b.element(ElementOp::Eq, &[max, lowest]);
    let own = b.element(ElementOp::Where, &[hidden, zero, max]);
    let apart = b.element(ElementOp::Sub, &[own, of_body]);
    let factor = b.element(ElementOp::Exp, &[apart]);
    let empty = b.element(ElementOp::Eq, &[total, zero]);
    let factor = b.element(ElementOp::Where, &[empty, one, factor]);
    let of_sum = b.element(ElementOp::Mul, &[total, factor]);
    let root = copied(body, &mut b, value, |i, _| match body.nodes[i] {
        _ if i == e.index() => Some(factor),
        Node::Value { slot, .. } if slot == sum => Some(of_sum),
        _ => None,
    });
    storing(body, b, root)
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

    /// Whether a value is an f32 function of the row value `slot` alone.
    fn is_of(&self, id: NodeId, slot: u16) -> bool {
        let others = depends(self.body, |n| matches!(n, Node::Value { slot: s, .. } if *s != slot));
        self.row[id.index()] && self.folded[id.index()] && !others[id.index()] && self.body.dtype(id) == DType::F32
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
    let mut b = builder(body);
    let one = b.constant(Scalar::Float(1.0), DType::F32);
    let value = copied(body, &mut b, root, |i, place| match other {
        Some((node, Put::Node(id))) if node.index() == i => Some(place[id.index()]),
        Some((node, Put::One)) if node.index() == i => Some(one),
        _ => None,
    });
    storing(body, b, value)
}

/// Builder of a body with the accesses and scalars of this one, without its folds and stores.
fn builder(body: &Body) -> BodyBuilder {
    let mut from = body.clone();
    (from.folds, from.stores) = (vec![], vec![]);
    BodyBuilder::like(&from)
}

/// Copies the nodes of a body up to `root`; returns the copy of `root`. `replaced` gets the number of a node and the
/// copies of those before it, and returns what takes its place.
fn copied(
    body: &Body,
    b: &mut BodyBuilder,
    root: NodeId,
    replaced: impl Fn(usize, &[NodeId]) -> Option<NodeId>,
) -> NodeId {
    let mut place: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    for (i, node) in body.nodes.iter().enumerate().take(root.index() + 1) {
        let new = replaced(i, &place).unwrap_or_else(|| match *node {
            Node::Element { op, .. } => {
                let args: Vec<NodeId> = body.args(NodeId(i as u32)).map(|a| place[a.index()]).collect();
                b.element(op, &args)
            }
            Node::Cast { dtype, arg } => b.cast(place[arg.index()], dtype),
            node => b.node(node.with_args(|a| place[a.index()])),
        });
        place.push(new);
    }
    place[root.index()]
}

/// Body with a single store of a value, as f32 if it is a float, through the last access.
fn storing(body: &Body, mut b: BodyBuilder, value: NodeId) -> Body {
    let access = body.accesses.len() - 1;
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
    fn a_shift_may_be_a_function_of_the_maximum() {
        let shifted = |of_sum: bool| {
            body(|b, score| {
                let x = b.cast(score, DType::F32);
                let max = b.fold(Monoid::Max, x);
                let lowest = b.scalar(0, DType::F32);
                let mut shift = b.element(ElementOp::Maximum, &[max, lowest]);
                if of_sum {
                    let all = b.fold(Monoid::Sum, x);
                    shift = b.element(ElementOp::Add, &[shift, all]);
                }
                let difference = b.element(ElementOp::Sub, &[x, shift]);
                let e = b.element(ElementOp::Exp, &[difference]);
                let sum = b.fold(Monoid::Sum, e);
                b.element(ElementOp::Div, &[e, sum])
            })
        };
        let w = weights(&shifted(false)).unwrap();
        let text = w.once.unwrap().body.to_string();
        assert!(text.contains("exp") && text.contains("maximum") && !text.contains("load"), "{text}");
        assert!(!w.point.to_string().contains("maximum"));
        assert_eq!(weights(&shifted(true)), None);
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
