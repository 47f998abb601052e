//! Products whose transpose is computed with: `f((a·b)ᵀ)`, element by element. A sum meets what follows it at its own
//! place, so that a transpose between them would be a kernel's end. `bᵀ·aᵀ` is the same product, its factors are views, and
//! what follows is its epilogue.

use super::Move;
use super::graph::Graph;
use thalweg_ir::{Arg, Op, RelArg, RelOp};

/// Operations behind a factor that are looked at.
const NEAR: usize = 64;

/// Makes the moves that pay.
pub(super) fn find(graph: &mut Graph<'_>) {
    for i in graph.needed() {
        // A transpose that is only looked through, as a factor or a result, costs nothing as it is.
        let computes = |u: usize| graph.ops[u].op.by_element() && graph.ops[u].args().any(|a| a == Arg::Op(i));
        if graph.ops[i].op == Op::Permute
            && matches!(graph.ops[i].args[0].decode(), Arg::Op(p) if graph.ops[p].op == Op::Matmul)
            && !graph.is_live(i)
            && (0..graph.ops.len()).any(|u| graph.is_needed(u) && computes(u))
        {
            // One that is not legal changes nothing.
            let _ = graph.make(Move::Transpose(i as u32));
        }
    }
}

impl Graph<'_> {
    /// `(a·b)ᵀ` as `bᵀ·aᵀ`.
    pub fn transpose_product(&mut self, transpose: usize) -> Option<()> {
        let (_, of) = self.transposed(RelArg::op(transpose))?;
        let Arg::Op(product) = of.decode() else { return None };
        let [a, b] = self.factors(product)?;
        // A right factor may be no product and no fold; so neither may what becomes one.
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

    /// Whether an argument is computed from inputs element by element.
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
