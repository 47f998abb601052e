//! Partial results of a fold put together, as a body: what an engine compiles that has no code of its own for a monoid.
//!
//! In: a row of the table ([`thalweg_ir::monoid`]), of one component. Out: a body without accesses, from the values 0
//! (what came before) and 1 (what comes after) to the value 0.

use crate::{Body, BodyBuilder, Node, NodeId};
use thalweg_ir::element::{Build, Expr};
use thalweg_ir::{DType, ElementOp, Monoid, Scalar};

/// What puts two partial results of a dtype together. `canonical`: where the row says so, a NaN is made the one that
/// all are; not for those whose own extremes give one NaN anyway.
pub fn combination(op: Monoid, dtype: DType, canonical: bool) -> Body {
    let row = op.row();
    assert_eq!(row.components(), 1, "{} is no value of a row", row.name);
    // Strict: no engine is to contract what another does not.
    let mut b = BodyBuilder::new(true);
    let [before, after] = [0, 1].map(|slot| Expr(b.node(Node::Value { slot, dtype }).0));
    let mut out = vec![];
    (row.combine)(&mut b, &[before], &[after], &mut out);
    let mut result = out[0];
    if canonical && row.canonical_nan && dtype.is_float() {
        let nan = BodyBuilder::constant(&mut b, Scalar::Float(f64::NAN), dtype);
        let is = b.op(ElementOp::Ne, &[result, result]);
        result = b.op(ElementOp::Where, &[is, Expr(nan.0), result]);
    }
    b.set(0, NodeId(result.0));
    b.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_combination_of_one_operation_is_one_node() {
        let sum = combination(Monoid::Sum, DType::F32, true);
        assert_eq!((sum.nodes.len(), sum.sets.len()), (3, 1));
        let most = combination(Monoid::Max, DType::F32, true);
        assert!(matches!(most.nodes.last(), Some(Node::Element { op: ElementOp::Where, .. })), "{most:?}");
        assert_eq!(combination(Monoid::Max, DType::I64, true).nodes.len(), 3);
    }
}
