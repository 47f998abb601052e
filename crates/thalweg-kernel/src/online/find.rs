//! Detection of online reductions: the function of an earlier fold that a later fold sums.
//!
//! In: a body and a fold of it. Out: the fold's operand as `w·(x - m)^p·e^(a·(x - m))` ([`Monomial`]), or as a value
//! selected where `x` is `m` ([`Choice`]), and the definition of `m` ([`Shift`]). It is derived from products, squares,
//! quotients, negations and exponentials; `w` is any factor that does not depend on a fold.

use super::{Rate, Shift};
use crate::reciprocal::RowNodes;
use crate::{Body, BodyBuilder, Fold, Node, NodeId};
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};

/// Highest power of `x - m` that is detected.
const POWERS: u8 = 4;
/// Maximum depth of nested operations that a [`Monomial`] is derived from.
const DEPTH: u32 = 8;

/// Operand of a sum as `w·(x - m)^power·e^(rate·(x - m))`, the form that can be rescaled from one `m` to another.
#[derive(Clone, Debug)]
pub struct Monomial {
    pub x: NodeId,
    /// Node of `m`, a row value that depends on an earlier fold.
    pub shift: NodeId,
    pub power: u8,
    pub rate: Rate,
    /// Factors of `w`, each with `true` if `w` is divided by it.
    weights: Vec<(NodeId, bool)>,
    /// Nodes of the exponentials `e^(…)` in the product.
    exponentials: Vec<NodeId>,
    negative: bool,
}

/// Match of an operand that is selected where `x` equals the row's maximum or minimum, and is the identity elsewhere.
/// The index of a maximum is the minimum of such selected indices.
pub struct Choice {
    /// Index of the fold that computes the maximum or minimum.
    pub first: u16,
    /// Node of the row's maximum or minimum.
    pub value: NodeId,
}

pub struct Find<'a> {
    pub body: &'a Body,
    pub nodes: &'a RowNodes,
}

impl Monomial {
    pub fn is_weighted(&self) -> bool {
        !self.weights.is_empty() || self.negative
    }

    /// Number of lowest powers whose moments need no fold: the moment 0 of an unweighted sum is the number of elements.
    pub fn counted(&self) -> u8 {
        (self.weights.is_empty() && self.exponentials.is_empty() && !self.negative && self.power > 0) as u8
    }

    /// Builds the node of the moment with another power of `x - m` and the same weights and exponentials.
    pub fn moment(&self, b: &mut BodyBuilder, power: u8) -> NodeId {
        let mut all: Vec<NodeId> = self.exponentials.clone();
        all.extend(self.weights.iter().filter(|w| !w.1).map(|w| w.0));
        if power > 0 {
            let d = b.element(ElementOp::Sub, &[self.x, self.shift]);
            all.extend((0..power).map(|_| d));
        }
        let product = all.into_iter().reduce(|x, y| b.element(ElementOp::Mul, &[x, y]));
        let dtype = b.body().dtype(self.x);
        let mut node = product.unwrap_or_else(|| b.constant(Scalar::Int(1), dtype));
        for (w, _) in self.weights.iter().filter(|w| w.1) {
            node = b.element(ElementOp::Div, &[node, *w]);
        }
        if self.negative { b.element(ElementOp::Neg, &[node]) } else { node }
    }

    fn times(mut self, other: Monomial) -> Option<Monomial> {
        let power = self.power + other.power;
        if (self.x, self.shift) != (other.x, other.shift) || power > POWERS {
            return None;
        }
        self.power = power;
        self.rate = match (self.rate.is_none(), other.rate.is_none()) {
            (_, true) => self.rate,
            (true, false) => other.rate,
            // Equal scalars: e^(a·d)·e^(b·d).
            _ if self.rate.scalars == other.rate.scalars => {
                Rate { constant: self.rate.constant + other.rate.constant, ..self.rate }
            }
            _ => return None,
        };
        self.weights.extend(other.weights);
        self.exponentials.extend(other.exponentials);
        self.negative ^= other.negative;
        // Exponentials that cancel leave a weight that is not 1.
        (self.rate.is_none() == self.exponentials.is_empty()).then_some(self)
    }
}

impl Find<'_> {
    fn element(&self, id: NodeId) -> Option<(ElementOp, [NodeId; 3])> {
        match self.body.nodes[id.index()] {
            Node::Element { op, args, .. } => Some((op, args)),
            _ => None,
        }
    }

    /// Whether a node has one value for all points of the row and depends on no fold.
    fn fixed(&self, id: NodeId) -> bool {
        self.nodes.once[id.index()] && !self.nodes.folded[id.index()]
    }

    /// [`Monomial`] form of a fold's operand; only for sums in f32 and f64.
    pub fn monomial_of(&self, fold: &Fold) -> Option<Monomial> {
        let float = matches!(self.body.dtype(fold.node), DType::F32 | DType::F64);
        (fold.op == Monoid::Sum && float).then(|| self.monomial(fold.node, DEPTH))?
    }

    fn monomial(&self, id: NodeId, depth: u32) -> Option<Monomial> {
        let depth = depth.checked_sub(1)?;
        let (op, [a, b, _]) = self.element(id)?;
        // Whether a node depends on no fold, so that it may be a weight.
        let weight = |id: NodeId| !self.nodes.folded[id.index()];
        let weighted = |id: NodeId, by: NodeId, below: bool| {
            let mut m = self.monomial(id, depth)?;
            m.weights.push((by, below));
            Some(m)
        };
        match op {
            ElementOp::Sub => self.difference(id),
            ElementOp::Exp => {
                let (mut m, rate) = self.multiple_of_difference(a, depth)?;
                (m.power, m.rate, m.exponentials) = (0, rate, vec![id]);
                Some(m)
            }
            ElementOp::Square => {
                let m = self.monomial(a, depth)?;
                m.clone().times(m)
            }
            ElementOp::Neg => {
                let mut m = self.monomial(a, depth)?;
                m.negative ^= true;
                Some(m)
            }
            ElementOp::Mul if weight(a) => weighted(b, a, false),
            ElementOp::Mul if weight(b) => weighted(a, b, false),
            ElementOp::Mul if a == b => {
                let m = self.monomial(a, depth)?;
                m.clone().times(m)
            }
            ElementOp::Mul => self.monomial(a, depth)?.times(self.monomial(b, depth)?),
            ElementOp::Div if weight(b) => weighted(a, b, true),
            _ => None,
        }
    }

    /// [`Monomial`] form of a node that is `x - m`, or `m - x` (then with its sign changed), where `m` is a row value
    /// that depends on a fold.
    fn difference(&self, id: NodeId) -> Option<Monomial> {
        let (ElementOp::Sub, [a, b, _]) = self.element(id)? else { return None };
        let of_row = |id: NodeId| self.nodes.once[id.index()] && self.nodes.folded[id.index()];
        let of_points = |id: NodeId| !self.nodes.once[id.index()] && !self.nodes.folded[id.index()];
        let (x, shift, negative) = match (of_points(a) && of_row(b), of_row(a) && of_points(b)) {
            (true, _) => (a, b, false),
            (_, true) => (b, a, true),
            _ => return None,
        };
        let (weights, exponentials) = (vec![], vec![]);
        Some(Monomial { x, shift, power: 1, rate: Rate::NONE, weights, exponentials, negative })
    }

    /// Form `a·(x - m)` of a node, where `a` is a product of constants and launch scalars.
    fn multiple_of_difference(&self, id: NodeId, depth: u32) -> Option<(Monomial, Rate)> {
        let depth = depth.checked_sub(1)?;
        let scaled = |id: NodeId, by: NodeId, below: bool| {
            let (m, mut rate) = self.multiple_of_difference(id, depth)?;
            match self.body.nodes[by.index()] {
                Node::Scalar { slot, dtype } => rate.scalars.push((slot, dtype, below)),
                Node::Const { bits, dtype } => {
                    let c = Scalar::from_bits(bits, dtype).to_f64();
                    rate.constant = if below { rate.constant / c } else { rate.constant * c };
                }
                _ => return None,
            }
            (rate.constant.is_finite() && rate.constant != 0.0).then_some((m, rate))
        };
        match self.element(id)? {
            (ElementOp::Sub, _) => {
                let mut m = self.difference(id)?;
                let constant = if m.negative { -1.0 } else { 1.0 };
                m.negative = false;
                Some((m, Rate { constant, scalars: vec![] }))
            }
            (ElementOp::Neg, [a, ..]) => {
                let (m, mut rate) = self.multiple_of_difference(a, depth)?;
                rate.constant = -rate.constant;
                Some((m, rate))
            }
            (ElementOp::Mul, [a, b, _]) if self.fixed(b) => scaled(a, b, false),
            (ElementOp::Mul, [a, b, _]) if self.fixed(a) => scaled(b, a, false),
            (ElementOp::Div, [a, b, _]) if self.fixed(b) => scaled(a, b, true),
            _ => None,
        }
    }

    /// Definition of `m`, and the folds that it depends on. `None` if a block may not replace `m` by its own value.
    pub fn shift(&self, m: &Monomial) -> Option<(Shift, Vec<u16>)> {
        let is = |slot: u16, ops: &[Monoid]| {
            let fold = &self.body.folds[slot as usize];
            ops.contains(&fold.op) && fold.node == m.x
        };
        if let Some(slot) = self.replaced(m.shift).filter(|&s| is(s, &[Monoid::Max, Monoid::Min])) {
            return Some((Shift::Extreme(slot), vec![slot]));
        }
        if !m.rate.is_none() {
            return None;
        }
        if let Some(slot) = self.multiple(m.shift).filter(|&s| is(s, &[Monoid::Sum])) {
            return Some((Shift::Mean(slot), vec![slot]));
        }
        // Weighted mean Σwx/Σw: a block may use its own, regardless of the weights of the fold itself.
        let (ElementOp::Div, [above, below, _]) = self.element(m.shift)? else { return None };
        let [above, below] = [above, below].map(|id| self.value(id));
        let (above, below) = (above?, below?);
        let [sum, total] = [above, below].map(|s| &self.body.folds[s as usize]);
        let (ElementOp::Mul, [a, b, _]) = self.element(sum.node)? else { return None };
        let of = [(a, b), (b, a)].contains(&(m.x, total.node));
        (of && sum.op == Monoid::Sum && total.op == Monoid::Sum).then(|| (Shift::Own, vec![above, below]))
    }

    fn value(&self, id: NodeId) -> Option<u16> {
        match self.body.nodes[id.index()] {
            Node::Value { slot, .. } => Some(slot),
            _ => None,
        }
    }

    /// Index of the fold that a row value is a constant multiple of.
    fn multiple(&self, mut id: NodeId) -> Option<u16> {
        loop {
            id = match self.body.nodes[id.index()] {
                Node::Value { slot, .. } => return Some(slot),
                Node::Cast { arg, dtype } if dtype.is_float() && self.body.dtype(arg).is_float() => arg,
                Node::Element { op: ElementOp::Div, args: [a, c, _], .. } if self.fixed(c) => a,
                Node::Element { op: ElementOp::Mul, args: [a, c, _], .. } if self.fixed(c) => a,
                Node::Element { op: ElementOp::Mul, args: [c, a, _], .. } if self.fixed(c) => a,
                _ => return None,
            };
        }
    }

    /// Index of the fold whose result a row value is. The result may be replaced by a fixed value under a condition, as
    /// softmax replaces an infinite maximum by 0.
    fn replaced(&self, id: NodeId) -> Option<u16> {
        match self.element(id) {
            Some((ElementOp::Where, [when, a, c])) if self.nodes.once[when.index()] => {
                match (self.value(a), self.value(c)) {
                    (Some(slot), None) if self.fixed(c) => Some(slot),
                    (None, Some(slot)) if self.fixed(a) => Some(slot),
                    _ => None,
                }
            }
            _ => self.value(id),
        }
    }

    /// Index of the body's fold that computes the moment with another power; `None` if there is none.
    pub fn moment(&self, m: &Monomial, power: u8) -> Option<u16> {
        let mut b = BodyBuilder::copy(self.body);
        let node = m.moment(&mut b, power);
        self.body.folds.iter().find(|f| f.op == Monoid::Sum && f.node == node).map(|f| f.slot)
    }

    /// [`Choice`] form of a fold's operand: selected where `x` is the row's maximum or minimum, the identity elsewhere.
    pub fn choice_of(&self, fold: &Fold) -> Option<Choice> {
        let (ElementOp::Where, [hit, y, none]) = self.element(fold.node)? else { return None };
        let identity = fold.op.identity(self.body.dtype(fold.node));
        let is_none = matches!(self.body.nodes[none.index()], Node::Const { bits, .. } if bits == identity);
        if !is_none || self.nodes.folded[y.index()] {
            return None;
        }
        let (op, [a, b, _]) = self.element(hit)?;
        let is = |id: NodeId| self.is_extreme(id);
        match op {
            ElementOp::Eq => is(hit).map(|(_, c)| c),
            ElementOp::Or => [(a, b), (b, a)].into_iter().find_map(|(hit, nan)| {
                let (x, choice) = is(hit)?;
                let (ElementOp::Ne, [p, q, _]) = self.element(nan)? else { return None };
                (p == x && q == x).then_some(choice)
            }),
            _ => None,
        }
    }

    /// Match of a node that compares `x` with its own maximum or minimum: `x`, and the fold.
    fn is_extreme(&self, id: NodeId) -> Option<(NodeId, Choice)> {
        let (ElementOp::Eq, [a, b, _]) = self.element(id)? else { return None };
        [(a, b), (b, a)].into_iter().find_map(|(x, value)| {
            let first = self.value(value)?;
            let fold = &self.body.folds[first as usize];
            let extreme = matches!(fold.op, Monoid::Max | Monoid::Min) && fold.node == x;
            extreme.then_some((x, Choice { first, value }))
        })
    }
}
