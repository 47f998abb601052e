//! Products whose transpose is used elementwise: `f((a·b)ᵀ)`. An epilogue reads accumulators at its own index, so a
//! transpose in between would end the kernel. `bᵀ·aᵀ` is the same product with views as operands, and `f` becomes its
//! epilogue.

use super::Move;
use super::graph::Graph;
use thalweg_ir::{Arg, Op, RelArg, RelOp};

/// Maximum number of ancestors of an operand that are visited.
const NEAR: usize = 64;

/// Makes the moves that transpose products, where that pays.
pub(super) fn find(graph: &mut Graph<'_>) {
    for i in graph.needed() {
        // A transpose used only as a view, as a product's operand or a result, costs nothing.
        let computes = |u: usize| graph.ops[u].op.by_element() && graph.ops[u].args().any(|a| a == Arg::Op(i));
        if graph.ops[i].op == Op::Permute
            && matches!(graph.ops[i].args[0].decode(), Arg::Op(p) if graph.ops[p].op == Op::Matmul)
            && !graph.is_live(i)
            && (0..graph.ops.len()).any(|u| graph.is_needed(u) && computes(u))
        {
            // An illegal move changes nothing.
            let _ = graph.make(Move::Transpose(i as u32));
        }
    }
}

impl Graph<'_> {
    /// Rewrites `(a·b)ᵀ` as `bᵀ·aᵀ`.
    pub fn transpose_product(&mut self, transpose: usize) -> Option<()> {
        let (_, of) = self.transposed(RelArg::op(transpose))?;
        let Arg::Op(product) = of.decode() else { return None };
        let [a, b] = self.factors(product)?;
        // A right operand may contain neither product nor fold, so the new right operand must not either.
        if !self.is_inner(product) || !self.is_plain(a) || !self.is_plain(b) {
            return None;
        }
        let left = self.add_transposed(transpose, b)?;
        let right = self.add_transposed(transpose, a)?;
        debug_assert_eq!(self.product_shape(left, right), Some(self.shapes[transpose]));
        let rel = &mut self.ops[transpose];
        *rel = RelOp { op: Op::Matmul, attr: 0, args: RelOp::pack(&[left, right]), ..*rel };
        Some(())
    }

    /// Whether an argument is computed from inputs by elementwise operations and views, at most [`NEAR`] of them.
    fn is_plain(&self, arg: RelArg) -> bool {
        let (mut seen, mut left) = (vec![], vec![arg.decode()]);
        while let Some(at) = left.pop() {
            let Arg::Op(i) = at else { continue };
            if seen.contains(&i) {
                continue;
            }
            let op = self.ops[i].op;
            if seen.len() == NEAR || !(op.by_element() || op.is_view()) {
                return false;
            }
            seen.push(i);
            left.extend(self.ops[i].args());
        }
        true
    }
}
