//! Reductions of a few elements, such as the sum over the three coordinates of a point. A kernel of rows takes longer to
//! begin and end a row than to pass over it, and its points are the reduction's operand. Unrolled, the reduction is
//! elementwise arithmetic on so many reads, and can be computed in the kernel of whatever needs it. Its bits are the
//! same.

use super::Move;
use super::graph::Graph;
use crate::segment::{Segment, unrollable};
use crate::tunable::TUNABLES;
use thalweg_ir::{Arg, Op, RelArg, RelOp, Shape, UNROLLED};

/// Makes the moves that unroll reductions, where that pays: of computed values. What is in memory is read once by a
/// kernel of rows, too.
pub(super) fn find(graph: &mut Graph<'_>) {
    for i in graph.needed() {
        let rel = graph.ops[i];
        if matches!(rel.op, Op::Reduce(_)) && graph.is_computed(rel.args[0]) && is_short(&rel, graph.shape(rel.args[0]))
        {
            // An illegal move changes nothing.
            let _ = graph.make(Move::Unroll(i as u32));
        }
    }
}

/// Whether a reduction of a segment could be unrolled.
pub(super) fn may_pay(segment: &Segment<'_>, rel: &RelOp) -> bool {
    matches!(rel.args[0].decode(), Arg::Op(i) if is_short(rel, Some(segment.shapes[i])))
}

/// Whether a reduction of a tensor of that shape is unrolled.
fn is_short(rel: &RelOp, operand: Option<Shape>) -> bool {
    let terms = operand.and_then(|shape| unrollable(rel, shape));
    terms.is_some_and(|n| n > 1 && TUNABLES.max_unrolled_terms.admits(n))
}

impl Graph<'_> {
    /// Marks a reduction as unrolled.
    pub fn unroll(&mut self, reduction: usize) -> Option<()> {
        let rel = self.ops[reduction];
        let legal = matches!(rel.op, Op::Reduce(_)) && rel.attr & UNROLLED == 0;
        unrollable(&rel, self.shape(rel.args[0])?).filter(|_| legal)?;
        self.ops[reduction].attr |= UNROLLED;
        Some(())
    }

    /// Whether an argument is the result of elementwise operations, viewed or not.
    fn is_computed(&self, arg: RelArg) -> bool {
        let mut at = arg;
        while let Arg::Op(i) = at.decode() {
            let op = self.ops[i].op;
            if !op.is_view() {
                return op.by_element();
            }
            at = self.ops[i].args[0];
        }
        false
    }
}
