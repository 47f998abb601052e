//! Online reductions: what lets a fold that depends on an earlier one over the same row run in the same pass over
//! memory.
//!
//! The squares of `x - mean` need the mean, `exp(x - max)` needs the maximum, so each takes a second pass, and a row
//! that is longer than the caches is read from memory twice. But both passes may run on one block of the row with the
//! block's *own* mean or maximum while it is in the nearest cache, and the blocks' results be put together afterwards:
//!
//! - with `μ` the mean of all and `μ_b` that of a block, `Σ(x - μ)² = Σ_b [Σ(x - μ_b)² + n_b·(μ_b - μ)²]` (Chan, Golub
//!   and LeVeque 1979);
//! - whatever `m` and `m_b` are, `Σexp(x - m) = Σ_b exp(m_b - m)·Σexp(x - m_b)` (Milakov and Gimelshein 2018).
//!
//! The mean that a block is shifted by is rounded, and may be a unit in the last place of a large mean off. So the
//! block also gives what is left, its *residual* `Σ(x - m_b)`: from it, mean and squares of the block are corrected
//! (the two-pass algorithm of Chan and others). What comes out is better than what two passes give, which has the error
//! of the rounded mean in every square.
//!
//! In: a body and its phases. Out: the phases that may run together block by block, and an online form of each fold of
//! the later pass. How they run is the device's; how results are put together is here, in f64 and in the order of the
//! blocks, so it depends on nothing else.

use crate::reciprocal::RowNodes;
use crate::{Body, Fold, Node, NodeId, Phases};
use std::ops::Range;
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};

/// Which rescaling identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnlineKind {
    /// A sum and the squares of what differs from its mean.
    Squares,
    /// A maximum and the exponentials of what differs from it.
    Exponentials,
}

/// How a fold follows from what it is in blocks, each with an earlier fold of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnlineFold {
    /// Which.
    pub kind: OnlineKind,
    /// The earlier fold: of [`OnlineKind::Squares`] the sum, of [`OnlineKind::Exponentials`] the maximum.
    pub first: u16,
    /// The fold that depends on it.
    pub second: u16,
    /// The value of the row that elements are shifted by: the mean, or the maximum.
    pub shift: u16,
    /// The fold of what is left, of [`OnlineKind::Squares`].
    pub residual: Option<u16>,
    /// Of all these.
    pub dtype: DType,
}

/// The online reductions of a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnlinePasses {
    /// The phases that run together, block by block: from the first pass to the second, with what runs once a row
    /// between.
    pub phases: Range<usize>,
    /// One for each fold of the second pass that is not a residual.
    pub list: Vec<OnlineFold>,
}

/// What a block gives of a rescaling identity.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Part {
    /// Elements of the block.
    pub points: f64,
    /// What they were shifted by.
    pub shift: f64,
    /// The fold over the block.
    pub result: f64,
    /// What is left (0 where the identity has none).
    pub residual: f64,
}

/// `Σ(x - m)²` or `Σexp(x - m)`.
struct Pattern {
    kind: OnlineKind,
    x: NodeId,
    shift: NodeId,
    /// `x - m`.
    difference: NodeId,
}

fn element(body: &Body, id: NodeId) -> Option<(ElementOp, [NodeId; 3])> {
    match body.nodes[id.index()] {
        Node::Element { op, args, .. } => Some((op, args)),
        _ => None,
    }
}

fn pattern(body: &Body, fold: &Fold) -> Option<Pattern> {
    if fold.op != Monoid::Sum || !matches!(body.dtype(fold.node), DType::F32 | DType::F64) {
        return None;
    }
    let (kind, difference) = match element(body, fold.node)? {
        (ElementOp::Exp, [d, ..]) => (OnlineKind::Exponentials, d),
        (ElementOp::Square, [d, ..]) => (OnlineKind::Squares, d),
        (ElementOp::Mul, [d, e, _]) if d == e => (OnlineKind::Squares, d),
        _ => return None,
    };
    let (ElementOp::Sub, [x, shift, _]) = element(body, difference)? else { return None };
    Some(Pattern { kind, x, shift, difference })
}

/// The fold that a row's value is a multiple of.
fn multiple(body: &Body, nodes: &RowNodes, mut id: NodeId) -> Option<u16> {
    let fixed = |id: NodeId| nodes.once[id.index()] && !nodes.folded[id.index()];
    loop {
        id = match body.nodes[id.index()] {
            Node::Value { slot, .. } => return Some(slot),
            Node::Cast { arg, dtype } if dtype.is_float() && body.dtype(arg).is_float() => arg,
            Node::Element { op: ElementOp::Div, args: [a, c, _], .. } if fixed(c) => a,
            Node::Element { op: ElementOp::Mul, args: [a, c, _], .. } if fixed(c) => a,
            Node::Element { op: ElementOp::Mul, args: [c, a, _], .. } if fixed(c) => a,
            _ => return None,
        };
    }
}

/// The fold that a row's value is, where it is not replaced by something fixed (an infinite maximum by 0).
fn chosen(body: &Body, nodes: &RowNodes, id: NodeId) -> Option<u16> {
    let fixed = |id: NodeId| nodes.once[id.index()] && !nodes.folded[id.index()];
    let value = |id: NodeId| match body.nodes[id.index()] {
        Node::Value { slot, .. } => Some(slot),
        _ => None,
    };
    match element(body, id) {
        Some((ElementOp::Where, [when, a, c])) if nodes.once[when.index()] => match (value(a), value(c)) {
            (Some(slot), None) if fixed(c) => Some(slot),
            (None, Some(slot)) if fixed(a) => Some(slot),
            _ => None,
        },
        _ => value(id),
    }
}

/// The earlier fold that a pattern is about.
fn first(body: &Body, nodes: &RowNodes, pattern: &Pattern) -> Option<u16> {
    let (slot, op) = match pattern.kind {
        OnlineKind::Squares => (multiple(body, nodes, pattern.shift)?, Monoid::Sum),
        OnlineKind::Exponentials => (chosen(body, nodes, pattern.shift)?, Monoid::Max),
    };
    let fold = &body.folds[slot as usize];
    (fold.op == op && fold.node == pattern.x).then_some(slot)
}

/// The body with the residuals that rescaling identities want, as folds behind those that it has.
pub fn with_residuals(body: &Body) -> Body {
    let nodes = RowNodes::of(body);
    let mut out = body.clone();
    for fold in &body.folds {
        let Some(p) = pattern(body, fold) else { continue };
        let wanted = p.kind == OnlineKind::Squares && first(body, &nodes, &p).is_some();
        if wanted && residual(&out, p.difference).is_none() {
            out.folds.push(Fold { op: Monoid::Sum, node: p.difference, slot: out.folds.len() as u16 });
        }
    }
    out
}

fn residual(body: &Body, difference: NodeId) -> Option<u16> {
    body.folds.iter().find(|f| f.op == Monoid::Sum && f.node == difference).map(|f| f.slot)
}

/// The rescaling identities by which the first two passes of a body (one with [`with_residuals`]) run as one. None
/// where some fold of the second pass obeys none, where the second pass stores point by point, or where what runs once
/// a row cannot run for a block.
pub fn online_passes(body: &Body, phases: &Phases) -> Option<OnlinePasses> {
    let combines = body.stores.iter().any(|s| s.combine.is_some());
    // What a pass keeps in a buffer would be shifted by the block's own value.
    if body.strict || combines || !phases.buffers.is_empty() {
        return None;
    }
    let mut passes = (0..phases.list.len()).filter(|&p| !phases.list[p].once);
    let (one, two) = (passes.next()?, passes.next()?);
    let (earlier, later) = (&phases.list[one].body, &phases.list[two].body);
    let gathers = |b: &Body| b.nodes.iter().any(|n| matches!(n, Node::Gather { .. }));
    // Stores of what is the same for a row go elsewhere while blocks run, so nothing may be read through them.
    let read = |access: u16| body.nodes.iter().any(|n| n.access() == Some(access));
    let once = &phases.list[one + 1..two];
    if !later.stores.is_empty() || once.iter().any(|p| gathers(&p.body) || p.body.stores.iter().any(|s| read(s.access)))
    {
        return None;
    }
    let nodes = RowNodes::of(body);
    let mut list = vec![];
    let mut left = vec![];
    for fold in later.folds.iter().map(|f| &body.folds[f.slot as usize]) {
        match rescaled(body, phases, &nodes, fold).filter(|l| earlier.folds.iter().any(|f| f.slot == l.first)) {
            Some(rescaled) => list.push(rescaled),
            None => left.push(fold.slot),
        }
    }
    let residuals = left.iter().all(|slot| list.iter().any(|l| l.residual == Some(*slot)));
    (residuals && !list.is_empty()).then_some(OnlinePasses { phases: one..two + 1, list })
}

fn rescaled(body: &Body, phases: &Phases, nodes: &RowNodes, fold: &Fold) -> Option<OnlineFold> {
    let p = pattern(body, fold)?;
    let first = first(body, nodes, &p)?;
    let shift = match body.nodes[p.shift.index()] {
        Node::Value { slot, .. } => slot,
        _ => phases.held.iter().find(|(n, _)| *n == p.shift)?.1,
    };
    let residual = match p.kind {
        OnlineKind::Squares => Some(residual(body, p.difference)?),
        OnlineKind::Exponentials => None,
    };
    Some(OnlineFold { kind: p.kind, first, second: fold.slot, shift, residual, dtype: body.dtype(fold.node) })
}

impl OnlineFold {
    /// What stands for the earlier fold of a row of `row` elements in a block of `points`, whose own is `value` (both
    /// in the form of [`Scalar::to_bits`]): what makes the block's own mean of it.
    pub fn local(&self, value: u64, points: usize, row: usize) -> u64 {
        if self.kind == OnlineKind::Exponentials {
            return value;
        }
        let v = Scalar::from_bits(value, self.dtype).to_f64();
        let scaled = v * (row as f64 / points as f64);
        let most = if self.dtype == DType::F32 { f32::MAX as f64 } else { f64::MAX };
        // A finite block stays finite: its squares are to be infinite, not NaN.
        Scalar::Float(if v.is_finite() { scaled.clamp(-most, most) } else { scaled }).to_bits(self.dtype)
    }

    /// The fold over the row: `parts` are those of its blocks, in order, `value` is its earlier fold and `shift` what
    /// follows from that.
    pub fn whole(&self, parts: &[Part], value: f64, shift: f64) -> f64 {
        match self.kind {
            OnlineKind::Squares => self.squares(parts, value, shift),
            OnlineKind::Exponentials => pairwise(parts, &|p| exponentials(p, shift)),
        }
    }

    fn squares(&self, parts: &[Part], value: f64, shift: f64) -> f64 {
        // What went out of range on the way is corrected by nothing.
        let plain = pairwise(parts, &|p| p.result);
        if !plain.is_finite() {
            return plain;
        }
        let points = pairwise(parts, &|p| p.points);
        // Means are counted from one of them: large ones have no digits left for how they differ.
        let origin = parts.first().map_or(0.0, |p| p.shift);
        let mean = |p: &Part| (p.shift - origin) + p.residual / p.points;
        let digits = if self.dtype == DType::F32 { f32::EPSILON as f64 } else { f64::EPSILON };
        // The body's mean has the errors of the sum and of its own rounding. Where it is the mean but for those, the
        // exact one is meant; where it is something else (the sum divided by another number), that is.
        let wanted = value / points;
        let about = if (shift - wanted).abs() <= 8.0 * digits * wanted.abs() {
            pairwise(parts, &|p| p.points * mean(p)) / points
        } else {
            shift - origin
        };
        pairwise(parts, &|p| {
            let away = mean(p) - about;
            (p.result - p.residual * p.residual / p.points).max(0.0) + p.points * away * away
        })
    }
}

fn exponentials(p: &Part, shift: f64) -> f64 {
    let factor = libm::exp(p.shift - shift);
    if p.shift == f64::NEG_INFINITY {
        // -∞ - -∞ has made the block NaN, but beside a finite maximum each of its elements is 0.
        return factor * p.points;
    }
    // Nothing of a block whose sum is 0, however much larger its own shift was.
    if p.result == 0.0 && !shift.is_nan() { 0.0 } else { p.result * factor }
}

/// The sum over blocks, halves first.
fn pairwise(parts: &[Part], of: &impl Fn(&Part) -> f64) -> f64 {
    match parts {
        [] => 0.0,
        [one] => of(one),
        _ => {
            let (a, b) = parts.split_at(parts.len() / 2);
            pairwise(a, of) + pairwise(b, of)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, AccessClass, BodyBuilder, phases};

    fn access(b: &mut BodyBuilder, operand: u16, per_row: bool) -> u16 {
        let class = if per_row { AccessClass::Uniform } else { AccessClass::Contiguous };
        b.access(Access { operand: Some(operand), dtype: DType::F32, class, per_row })
    }

    fn input(b: &mut BodyBuilder) -> NodeId {
        let access = access(b, 0, false);
        b.node(Node::Load { access })
    }

    fn found(b: BodyBuilder) -> Option<OnlinePasses> {
        let body = with_residuals(&b.finish());
        online_passes(&body, &phases(&body, false))
    }

    /// The sum of the squares of what differs from `scale` of the sum.
    fn squares(b: &mut BodyBuilder, x: NodeId, scale: impl Fn(&mut BodyBuilder, NodeId) -> NodeId) -> (NodeId, NodeId) {
        let s = b.fold(Monoid::Sum, x);
        let mean = scale(b, s);
        let d = b.element(ElementOp::Sub, &[x, mean]);
        let q = b.element(ElementOp::Square, &[d]);
        (mean, b.fold(Monoid::Sum, q))
    }

    fn divided(b: &mut BodyBuilder, s: NodeId) -> NodeId {
        let n = b.scalar(0, DType::F32);
        b.element(ElementOp::Div, &[s, n])
    }

    #[test]
    fn a_variance_is_found_with_its_mean() {
        let mut b = BodyBuilder::new(false);
        let (x, y, z) = (input(&mut b), access(&mut b, 1, true), access(&mut b, 2, true));
        let other = b.fold(Monoid::Max, x);
        let (mean, q) = squares(&mut b, x, divided);
        let both = b.element(ElementOp::Add, &[q, other]);
        b.store(both, y);
        b.store(mean, z);
        let online = found(b).expect("an online form");
        assert_eq!(online.phases, 0..3);
        let rescaled = online.list[0];
        assert_eq!(
            (rescaled.kind, rescaled.first, rescaled.second, rescaled.residual),
            (OnlineKind::Squares, 1, 2, Some(3))
        );
        assert_eq!(rescaled.shift, 4, "the mean is computed once a row");
    }

    #[test]
    fn softmax_is_found_with_an_infinite_maximum_replaced_or_not() {
        for replaced in [false, true] {
            let mut b = BodyBuilder::new(false);
            let (x, y) = (input(&mut b), access(&mut b, 1, false));
            let mut m = b.fold(Monoid::Max, x);
            if replaced {
                let (finite, zero) = (b.element(ElementOp::IsFinite, &[m]), b.constant(Scalar::Int(0), DType::F32));
                m = b.element(ElementOp::Where, &[finite, m, zero]);
            }
            let d = b.element(ElementOp::Sub, &[x, m]);
            let e = b.element(ElementOp::Exp, &[d]);
            let s = b.fold(Monoid::Sum, e);
            let out = b.element(ElementOp::Div, &[e, s]);
            b.store(out, y);
            let online = found(b).expect("an online form");
            assert_eq!(online.list.len(), 1);
            assert_eq!(online.list[0].kind, OnlineKind::Exponentials);
            assert_eq!(online.list[0].shift, if replaced { 2 } else { 0 });
        }
    }

    #[test]
    fn what_has_no_rescaling_identity_keeps_its_passes() {
        // A fold that depends on the mean otherwise.
        let mut b = BodyBuilder::new(false);
        let (x, y) = (input(&mut b), access(&mut b, 1, true));
        let (mean, q) = squares(&mut b, x, divided);
        let p = b.element(ElementOp::Mul, &[x, mean]);
        let p = b.fold(Monoid::Sum, p);
        let out = b.element(ElementOp::Add, &[p, q]);
        b.store(out, y);
        assert_eq!(found(b), None);
        // A mean of something else, a mean with something added, and what is divided by another fold.
        let scales: [fn(&mut BodyBuilder, NodeId) -> NodeId; 2] = [
            |b, s| {
                let one = b.constant(Scalar::Int(1), DType::F32);
                b.element(ElementOp::Add, &[s, one])
            },
            |b, s| {
                let x = NodeId(0);
                let m = b.fold(Monoid::Max, x);
                b.element(ElementOp::Div, &[s, m])
            },
        ];
        for scale in scales {
            let mut b = BodyBuilder::new(false);
            let (x, y) = (input(&mut b), access(&mut b, 1, true));
            let (_, q) = squares(&mut b, x, scale);
            b.store(q, y);
            assert_eq!(found(b), None);
        }
        // Strict, and with what is stored in the same pass.
        for strict in [false, true] {
            let mut b = BodyBuilder::new(strict);
            let (x, y, z) = (input(&mut b), access(&mut b, 1, true), access(&mut b, 2, false));
            let (mean, q) = squares(&mut b, x, divided);
            b.store(q, y);
            if !strict {
                let d = b.element(ElementOp::Sub, &[x, mean]);
                b.store(d, z);
            }
            assert_eq!(found(b), None);
        }
    }

    fn rescaled(kind: OnlineKind) -> OnlineFold {
        OnlineFold { kind, first: 0, second: 1, shift: 2, residual: None, dtype: DType::F32 }
    }

    #[test]
    fn squares_of_blocks_are_those_of_the_row() {
        let x: Vec<f64> = (0..1000).map(|i| ((i * 37) % 101) as f64 + 1e6).collect();
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        let want: f64 = x.iter().map(|v| (v - mean).powi(2)).sum();
        // Shifts that are a little off are corrected by what is left.
        let parts: Vec<Part> = x
            .chunks(64)
            .map(|c| {
                let points = c.len() as f64;
                let shift = c.iter().sum::<f64>() / points + 0.3;
                let result = c.iter().map(|v| (v - shift).powi(2)).sum();
                Part { points, shift, result, residual: c.iter().map(|v| v - shift).sum() }
            })
            .collect();
        let rescaled = rescaled(OnlineKind::Squares);
        let got = rescaled.whole(&parts, mean * n, mean + 0.05);
        assert!((got - want).abs() < 1e-9 * want, "{got} {want}");
        // About something else than the mean.
        let got = rescaled.whole(&parts, mean * n, mean + 10.0);
        let want = want + n * 100.0;
        assert!((got - want).abs() < 1e-6 * want, "{got} {want}");
        // A block out of range.
        let mut wild = parts.clone();
        (wild[3].result, wild[3].residual) = (f64::INFINITY, f64::INFINITY);
        assert_eq!(rescaled.whole(&wild, mean * n, mean), f64::INFINITY);
        wild[5].result = f64::NAN;
        assert!(rescaled.whole(&wild, mean * n, mean).is_nan());
        let big = Scalar::Float(1e38).to_bits(DType::F32);
        assert_eq!(Scalar::from_bits(rescaled.local(big, 10, 1000), DType::F32), Scalar::Float(f32::MAX as f64));
    }

    #[test]
    fn exponentials_of_blocks_are_those_of_the_row() {
        let rescaled = rescaled(OnlineKind::Exponentials);
        let low = f64::NEG_INFINITY;
        let part = |shift: f64, result: f64| Part { points: 4.0, shift, result, residual: 0.0 };
        let whole = |parts: &[Part], shift: f64| rescaled.whole(parts, shift, shift);
        let got = whole(&[part(1.0, 2.0), part(3.0, 1.5), part(-900.0, 3.0)], 3.0);
        assert!((got - (2.0 * (-2f64).exp() + 1.5)).abs() < 1e-12);
        // A block of nothing but -∞, alone and not.
        assert_eq!(whole(&[part(low, f64::NAN), part(3.0, 1.5)], 3.0), 1.5);
        assert!(whole(&[part(low, f64::NAN)], low).is_nan());
        // Shifted by 0 instead, beside a maximum that exp(0 - max) would overflow for.
        assert_eq!(whole(&[part(0.0, 0.0), part(-1000.0, 1.5)], -1000.0), 1.5);
        assert!(whole(&[part(f64::INFINITY, f64::NAN), part(3.0, 1.5)], f64::INFINITY).is_nan());
        assert!(whole(&[part(f64::NAN, f64::NAN), part(3.0, 1.5)], f64::NAN).is_nan());
    }
}
