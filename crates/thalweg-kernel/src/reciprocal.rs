//! Division by a value of the row as multiplication by its reciprocal.
//!
//! A division takes as long as a dozen multiplications, and norms and softmax divide by one value all along a row. So
//! `x / s` becomes `(x·p)·(1/(s·p))`, where the part that depends on `s` alone is computed once per row. `p` is 1,
//! except for `s` so small or so large that its reciprocal would overflow or lose digits; then it is 2^±64. It takes
//! nothing out of range that stays in range in `x / s`: if `x·p` overflows or underflows, so does `x / s`. Zero,
//! infinity and NaN give the results of a division. The result is within 1.5 ulp; strict bodies are unchanged.

use crate::{Body, BodyBuilder, Node, NodeId};
use thalweg_ir::{DType, ElementOp, Scalar};

/// Dependence of a row body's nodes on points and folds.
pub(crate) struct RowNodes {
    /// Whether each node is the same for all points of a row.
    pub once: Vec<bool>,
    /// Whether each node depends on a fold.
    pub folded: Vec<bool>,
}

impl RowNodes {
    pub fn of(body: &Body) -> RowNodes {
        let n = body.nodes.len();
        let (mut once, mut folded) = (vec![false; n], vec![false; n]);
        for i in 0..n {
            let id = NodeId(i as u32);
            let node = &body.nodes[i];
            once[i] = body.args(id).all(|a| once[a.index()])
                && node.access().is_none_or(|a| body.accesses[a as usize].per_row)
                && !matches!(node, Node::Scanned { .. });
            folded[i] = matches!(node, Node::Value { .. }) || body.args(id).any(|a| folded[a.index()]);
        }
        RowNodes { once, folded }
    }
}

/// Body in which divisions by values of the row are replaced, whether these depend on folds or are read from memory (a
/// gradient divides by a fold of the forward pass). Divisions by constants of all rows are left to the device.
pub fn reciprocals(body: &Body) -> Body {
    if body.strict || body.folds.is_empty() {
        return body.clone();
    }
    let n = body.nodes.len();
    let RowNodes { once, folded } = RowNodes::of(body);
    // Quotients that a [`Node::Round`] reads: they are rounded once, as a division is.
    let mut exact = vec![false; n];
    for node in &body.nodes {
        if let Node::Round { arg } = *node {
            exact[arg.index()] = true;
        }
    }
    let mut read = vec![false; n];
    let mut b = BodyBuilder::like(body);
    let mut place: Vec<NodeId> = Vec::with_capacity(n);
    for i in 0..n {
        let id = NodeId(i as u32);
        read[i] = matches!(body.nodes[i], Node::Load { .. }) || body.args(id).any(|a| read[a.index()]);
        let new = match body.nodes[i] {
            Node::Element { op: ElementOp::Div, dtype, args } if matches!(dtype, DType::F32 | DType::F64) => {
                let [x, s, _] = args.map(NodeId::index);
                let (p, q) = (place[x], place[s]);
                if !exact[i] && !once[x] && once[s] && (folded[s] || read[s]) {
                    quotient(&mut b, dtype, p, q)
                } else {
                    b.element(ElementOp::Div, &[p, q])
                }
            }
            Node::Element { op, .. } => {
                let args: Vec<NodeId> = body.args(id).map(|a| place[a.index()]).collect();
                b.element(op, &args)
            }
            Node::Cast { dtype, arg } => b.cast(place[arg.index()], dtype),
            other => b.node(other.with_args(|a| place[a.index()])),
        };
        place.push(new);
    }
    b.take_roots(body, &place);
    b.finish()
}

fn quotient(b: &mut BodyBuilder, dtype: DType, x: NodeId, s: NodeId) -> NodeId {
    use ElementOp::{Abs, Div, Gt, Lt, Mul, Where};
    let power = |b: &mut BodyBuilder, n: i32| b.constant(Scalar::Float(2f64.powi(n)), dtype);
    let bound = if dtype == DType::F32 { 96 } else { 960 };
    let (one, up, down) = (power(b, 0), power(b, 64), power(b, -64));
    let (low, high) = (power(b, -bound), power(b, bound));
    let size = b.element(Abs, &[s]);
    let (small, large) = (b.element(Lt, &[size, low]), b.element(Gt, &[size, high]));
    let p = b.element(Where, &[large, down, one]);
    let p = b.element(Where, &[small, up, p]);
    let scaled = b.element(Mul, &[s, p]);
    let inverse = b.element(Div, &[one, scaled]);
    let x = b.element(Mul, &[x, p]);
    // Rounded, so that it is not contracted with a sum: equal quotients stay equal.
    let product = b.element(Mul, &[x, inverse]);
    b.round(product)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, AccessClass};
    use thalweg_ir::Monoid;

    /// Body that sums `x / s` over each row, where `s` is read once per row or at each point.
    fn quotients(per_row: bool, strict: bool) -> Body {
        let mut b = BodyBuilder::new(strict);
        let mut access = |operand, per_row| {
            let class = if per_row { AccessClass::Uniform } else { AccessClass::Contiguous };
            b.access(Access { operand: Some(operand), dtype: DType::F32, class, per_row })
        };
        let (x, s, to) = (access(0, false), access(1, per_row), access(2, true));
        let [x, s] = [x, s].map(|access| b.node(Node::Load { access }));
        let q = b.element(ElementOp::Div, &[x, s]);
        let sum = b.fold(Monoid::Sum, q);
        b.store(sum, to);
        b.finish()
    }

    /// Number of divisions at each point, and once per row.
    fn divisions(body: &Body) -> [usize; 2] {
        let RowNodes { once, .. } = RowNodes::of(body);
        let divides = |n: &usize| matches!(body.nodes[*n], Node::Element { op: ElementOp::Div, .. });
        let (rows, points): (Vec<usize>, Vec<usize>) = (0..body.nodes.len()).filter(divides).partition(|n| once[*n]);
        [points.len(), rows.len()]
    }

    #[test]
    fn what_a_row_reads_once_is_divided_by_once() {
        assert_eq!(divisions(&reciprocals(&quotients(true, false))), [0, 1]);
        assert_eq!(divisions(&reciprocals(&quotients(false, false))), [1, 0], "another divisor at each point");
        assert_eq!(divisions(&reciprocals(&quotients(true, true))), [1, 0], "strict bodies divide");
    }
}
