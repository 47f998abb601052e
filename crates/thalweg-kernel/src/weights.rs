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

use crate::{Body, BodyBuilder, Contraction, ContractionGeometry, Kernel, Node, NodeId, TileGeometry, widen};
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

/// Scores of which a row sees those of its first keys only: the others are -∞, whatever they are computed from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Seen {
    /// Row `r` sees keys below `r + ahead`.
    pub ahead: i64,
    /// A scalar, of f32, that is added to that, or subtracted if so; it is a whole number below 2²⁴, or nothing is known.
    pub moved: Option<(u16, bool)>,
    /// The scalar, of f32, that unseen scores are: unless it is -∞, nothing is known. `None` where they are -∞.
    pub hidden: Option<u16>,
    /// What a score is that is seen, for the body that it was found in: the same operands, accesses and scalars.
    pub body: Body,
}

/// Which keys the rows of a product of weights see, where what is made of a score says so by comparing places, as a causal
/// mask does; with the number of the body that says it, of [`scores`].
pub fn seen(c: &Contraction, g: &ContractionGeometry) -> Option<(usize, Seen)> {
    let scores = scores(c, g)?;
    let (last, before) = scores.split_last()?;
    if let Some(seen) = seen_by(&last.0, last.1) {
        return Some((before.len(), seen));
    }
    // What is -∞ before stays so where nothing else is made of it.
    let [first] = before else { return None };
    let root = last.0.stores[0].node;
    let plain = matches!(last.0.nodes[uncast(&last.0, root).index()], Node::Load { .. });
    seen_by(&first.0, first.1).filter(|_| plain).map(|seen| (0, seen))
}

/// What is made of a score before it is a weight, each with its domain, where weights can be had in one pass: the first
/// product's epilogue, where it has one, then what is exponentiated.
pub fn scores<'a>(c: &Contraction, g: &'a ContractionGeometry) -> Option<Vec<(Body, &'a TileGeometry)>> {
    let (factor, tiles) = c.factors[0].as_deref().zip(g.factors[0].as_deref())?;
    let (inner, of_inner) = factor.inner.as_deref().zip(g.inner.as_deref())?;
    let one = |kernel: &Kernel| match kernel {
        Kernel::Map(body) | Kernel::Rows { body, .. } => weights(body),
        _ => None,
    };
    let mut all = vec![];
    if let Some((epilogue, t)) = inner.product.epilogue.as_deref().zip(of_inner.epilogue.as_deref()) {
        all.push((one(&epilogue.kernel)?.point, t));
    }
    all.push((one(&factor.kernel)?.point, tiles));
    Some(all)
}

/// The same of one body.
fn seen_by(body: &Body, tiles: &TileGeometry) -> Option<Seen> {
    use ElementOp::{Ge, Gt, Le, Lt, Where};
    if tiles.boxes.len() != 1 {
        return None;
    }
    // One dimension of rows and one of keys, whose places are exact as floats.
    let [rows, keys] = [tiles.rows, tiles.columns];
    let plain = keys == rows + 1 && tiles.extents.len() == keys + 1;
    if !plain || tiles.extents[rows..].iter().any(|&n| n >= 1 << 24) {
        return None;
    }
    let choice = uncast(body, body.stores[0].node);
    let Node::Element { op: Where, args: [condition, yes, no], .. } = body.nodes[choice.index()] else { return None };
    // Whether a value is -∞, by which scalar if by one.
    let hidden = |id: NodeId| match body.nodes[id.index()] {
        Node::Const { bits, dtype } => (Scalar::from_bits(bits, dtype).to_f64() == f64::NEG_INFINITY).then_some(None),
        Node::Scalar { slot, dtype: DType::F32 } => Some(Some(slot)),
        _ => None,
    };
    let (score, when, hidden) = match (hidden(no), hidden(yes)) {
        (Some(by), _) => (yes, true, by),
        (_, Some(by)) => (no, false, by),
        _ => return None,
    };
    let Node::Element { op, args: [a, b, _], .. } = body.nodes[condition.index()] else { return None };
    let place = |id: NodeId, along: usize| place(body, tiles, id, along);
    // As `key op row`.
    let turned = |op: ElementOp| match op {
        Lt => Gt,
        Le => Ge,
        Gt => Lt,
        Ge => Le,
        other => other,
    };
    let (op, key, row) = match (place(a, keys).zip(place(b, rows)), place(a, rows).zip(place(b, keys))) {
        (Some((key, row)), _) => (op, key, row),
        (_, Some((row, key))) => (turned(op), key, row),
        _ => return None,
    };
    let by = match (row.1, key.1) {
        (by, None) => by,
        (None, Some((slot, minus))) => Some((slot, !minus)),
        _ => return None,
    };
    let ahead = match (op, when) {
        (Le, true) | (Gt, false) => row.0 - key.0 + 1,
        (Lt, true) | (Ge, false) => row.0 - key.0,
        _ => return None,
    };
    let body = only(body, body.stores[0].node, Some((choice, Put::Node(score))));
    Some(Seen { ahead, moved: by, hidden, body })
}

/// The first of the places that a value stands for along one dimension, step by step: those of an access without an
/// operand; and the scalar that is added to them, or subtracted if so.
fn place(body: &Body, tiles: &TileGeometry, id: NodeId, along: usize) -> Option<(i64, Option<(u16, bool)>)> {
    let id = uncast(body, id);
    let scalar = |id: NodeId| match body.nodes[id.index()] {
        Node::Scalar { slot, dtype: DType::F32 } => Some(slot),
        _ => None,
    };
    let moved = |id: NodeId, slot: u16, minus: bool| match place(body, tiles, id, along)? {
        (first, None) => Some((first, Some((slot, minus)))),
        _ => None,
    };
    match body.nodes[id.index()] {
        Node::Index { access, .. } => {
            let at = &tiles.boxes[0].geometry.accesses[access as usize];
            let mut steps = tiles.extents.iter().zip(at.strides).enumerate();
            let straight = steps.all(|(d, (&n, s))| n == 1 || s == (d == along) as isize);
            (at.map.is_none() && straight).then_some((at.base as i64, None))
        }
        Node::Element { op: ElementOp::Add, args: [x, y, _], .. } => match (scalar(x), scalar(y)) {
            (Some(slot), _) => moved(y, slot, false),
            (_, Some(slot)) => moved(x, slot, false),
            _ => None,
        },
        Node::Element { op: ElementOp::Sub, args: [x, y, _], .. } => moved(x, scalar(y)?, true),
        _ => None,
    }
}

/// The value before it was converted to what holds it.
fn uncast(body: &Body, mut id: NodeId) -> NodeId {
    while let Node::Cast { arg, dtype } = body.nodes[id.index()]
        && matches!(dtype, DType::F32 | DType::F64 | DType::I64 | DType::U32 | DType::I32)
    {
        id = arg;
    }
    id
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
enum Put {
    One,
    /// One that comes before it.
    Node(NodeId),
}

/// The body that stores nothing but this value, as f32 where it is a float, through its last access; with something else
/// in the place of a node.
fn only(body: &Body, root: NodeId, other: Option<(NodeId, Put)>) -> Body {
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
