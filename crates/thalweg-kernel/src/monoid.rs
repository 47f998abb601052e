//! Combination of partial results as a body, for engines without native code for a monoid.
//!
//! In: a row of the table ([`thalweg_ir::monoid`]), of one component. Out: a body without accesses, from the values 0
//! (the earlier result) and 1 (the later one) to the value 0.

use crate::{Access, AccessClass, Body, BodyBuilder, Node, NodeId, Store, turn};
use thalweg_ir::element::{Build, Expr};
use thalweg_ir::{DType, ElementOp, Loop, Monoid, Scalar};

/// Body that combines two partial results of a dtype. With `canonical`, NaN results become the canonical NaN if the row
/// of the table asks for it. Engines whose native maxima and minima give one NaN anyway do not need that.
pub fn combination(op: Monoid, dtype: DType, canonical: bool) -> Body {
    let row = op.row();
    assert_eq!(row.components(), 1, "{} is no value of a row", row.name);
    // Strict: no engine may contract what another does not.
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

/// User-defined combine ([`Loop::is_combine`]) as a map. With `n` components, operands 0 to `n - 1` are the earlier
/// element, the next `n` the later one, and the last `n` the result; `before` and `after` are the access classes of the
/// inputs.
pub fn combine_map(of: Loop, [before, after]: [AccessClass; 2]) -> Body {
    let mut body = turn(of);
    let dtypes = &of.region().args;
    let n = dtypes.len() as u16;
    for (number, class) in [before, after, AccessClass::Contiguous].into_iter().enumerate() {
        body.accesses.extend(dtypes.iter().enumerate().map(|(i, &dtype)| {
            let operand = Some(number as u16 * n + i as u16);
            Access { operand, dtype, class, per_row: false }
        }));
    }
    for node in &mut body.nodes {
        if let Node::Value { slot, .. } = *node {
            *node = Node::Load { access: slot };
        }
    }
    // The first set of an iteration's body is the loop condition.
    let results = std::mem::take(&mut body.sets).into_iter().skip(1);
    body.stores = results.map(|s| Store { node: s.node, access: 2 * n + s.slot - 1, combine: None }).collect();
    body.operands = 3 * n;
    body
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
