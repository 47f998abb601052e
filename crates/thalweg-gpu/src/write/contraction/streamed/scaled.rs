//! Scores that are a multiple of something by a number of the launch, as `q·k/√d` are: the number joins the one that
//! turns exponentials into powers of two, and is multiplied with once a step instead of once a score.
//!
//! In: what is made of a score that is seen. Out: the same without the multiplication, which is made up for where the
//! number may not join, since it is not above zero (maxima would be minima).

use super::Streamed;
use crate::class::streamed::{StreamedClass, StreamedSlots};
use crate::ir::{Expr, Statement, Type};
use thalweg_ir::{DType, ElementOp};
use thalweg_kernel::{Body, Node, NodeId};

/// What is known of such scores.
pub(super) struct Scaled {
    /// Which of what is made of scores multiplies.
    pub(super) number: usize,
    /// The factor.
    factor: Expr,
    /// What is made of a score that is seen: without the factor.
    pub(super) whole: Body,
}

/// A product with a number of the launch: its node, what is multiplied, and the number, which nothing else reads.
fn multiple(body: &Body, id: NodeId) -> Option<[NodeId; 3]> {
    let Node::Element { op: ElementOp::Mul, args: [a, b, _], dtype: DType::F32 } = body.nodes[id.index()] else {
        return None;
    };
    let number = |id: NodeId| {
        let once = (0..body.nodes.len()).flat_map(|n| body.args(NodeId(n as u32))).filter(|&n| n == id).count() == 1;
        once && matches!(
            body.nodes[id.index()],
            Node::Scalar { dtype: DType::F32, .. } | Node::Const { dtype: DType::F32, .. }
        )
    };
    match () {
        () if number(b) => Some([id, a, b]),
        () if number(a) => Some([id, b, a]),
        () => None,
    }
}

/// The number.
fn number(body: &Body, id: NodeId, scalars: usize) -> Expr {
    match body.nodes[id.index()] {
        Node::Scalar { slot, dtype } => Expr::Scalar(dtype, scalars + slot as usize),
        Node::Const { bits, dtype } => Expr::Constant(dtype, bits),
        _ => unreachable!("a number of the launch"),
    }
}

/// The body without its multiplication.
fn without(body: &Body, [product, multiplied, _]: [NodeId; 3]) -> Body {
    let mut body = body.clone();
    body.nodes[product.index()] = body.nodes[multiplied.index()];
    body
}

/// What is known of the scores of a class, where they are such multiples and weights are powers of two.
pub(super) fn scaled(class: &StreamedClass, slots: &StreamedSlots) -> Option<Scaled> {
    if class.once.is_none() || !class.math.is_narrow() {
        return None;
    }
    let body = |n: usize| &class.points[n].0.body;
    let root = |body: &Body| body.stores[0].node;
    // What hands a score on changes nothing.
    let hands_on = |n: usize| matches!(body(n).nodes[root(body(n)).index()], Node::Load { .. });
    let last = class.points.len() - 1;
    let found = if last > 0 && hands_on(last) { last - 1 } else { last };
    let whole = match &class.seen {
        None => body(found),
        // Where nothing hides scores the body is another one.
        Some((n, seen)) if *n as usize == found => &seen.body,
        Some(_) => return None,
    };
    let at = multiple(whole, root(whole))?;
    let factor = number(whole, at[2], slots.points[found].scalars);
    Some(Scaled { number: found, factor, whole: without(whole, at) })
}

impl Streamed<'_> {
    /// Statements that say what the factor is and where it has gone: `factor`, `joins`, `joined`, `by`.
    pub(super) fn scale(&self) -> Vec<Statement> {
        let Some(scaled) = &self.scaled else { return vec![] };
        let constant = |x: f32| Expr::Constant(DType::F32, x.to_bits().into());
        let hides =
            if self.class.seen.is_some() { Expr::name("hides", Type::BOOL) } else { Expr::Constant(DType::Bool, 1) };
        self.text()
            .value("number", scaled.factor.clone())
            .value("hides", hides)
            .value("most", constant(1e30))
            .value("log2e", constant(std::f32::consts::LOG2_E))
            .statements(&[r"
let factor = number, joins = hides && factor > zero && factor < most;
let joined = joins ? factor : one, by = joined * log2e;
"])
    }

    /// Statements behind [`Scaled::whole`], where the factor has not joined the exponent.
    pub(super) fn scale_late(&self) -> Vec<Statement> {
        self.text().value("joins", Expr::name("joins", Type::BOOL)).value("factor", super::f32("factor")).statements(&[
            r"
if !joins {
    for j: i32 in 0..EIGHTS unroll {
        for e: i32 in 0..4 unroll { s[j][e] *= factor; }
    }
}
",
        ])
    }
}
