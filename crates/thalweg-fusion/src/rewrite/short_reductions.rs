//! Reductions of a few elements, such as the sum over the three coordinates of a point. A kernel of rows takes longer to
//! begin and end a row than to pass over it, and its points are the reduction's operand. Unrolled, the reduction is
//! elementwise arithmetic on so many reads, and can be computed in the kernel of whatever needs it. The same holds for the
//! sum of a few rows, whose partial results would pass through the cache several times. Its bits are the same.

use super::Move;
use super::graph::Graph;
use crate::segment::{Segment, unrollable};
use crate::tunable::TUNABLES;
use thalweg_ir::{Arg, Op, RelArg, RelOp, Shape, UNROLLED};

/// Minimum number of neighbouring results of a sum of rows that is unrolled: a vector.
const MIN_NEIGHBOURS: usize = 16;

/// Makes the moves that unroll reductions, where that pays: of computed values, and of rows. Neighbours in memory are
/// read once by a kernel of rows, too.
pub(super) fn find(graph: &mut Graph<'_>) {
    for i in graph.needed() {
        let rel = graph.ops[i];
        let Some(operand) = graph.shape(rel.args[0]).filter(|_| matches!(rel.op, Op::Reduce(_))) else { continue };
        if is_of_rows(&rel, operand) || graph.is_computed(rel.args[0]) && is_short(&rel, operand) {
            // An illegal move changes nothing.
            let _ = graph.make(Move::Unroll(i as u32));
        }
    }
}

/// Whether a reduction of a segment could be unrolled.
pub(super) fn may_pay(segment: &Segment<'_>, rel: &RelOp) -> bool {
    match rel.args[0].decode() {
        Arg::Op(i) => is_short(rel, segment.shapes[i]) || is_of_rows(rel, segment.shapes[i]),
        Arg::Input(i) => is_of_rows(rel, segment.inputs[i].1.shape),
        _ => false,
    }
}

/// Whether a reduction of a tensor of that shape has few terms.
fn is_short(rel: &RelOp, operand: Shape) -> bool {
    unrollable(rel, operand).is_some_and(|n| n > 1 && TUNABLES.max_unrolled_terms.admits(n))
}

/// Whether a reduction of a tensor of that shape is of a few rows, with many neighbouring results.
fn is_of_rows(rel: &RelOp, operand: Shape) -> bool {
    let neighbours = operand.iter().enumerate().rev().take_while(|(axis, _)| rel.attr >> axis & 1 == 0);
    neighbours.map(|(_, size)| size).product::<usize>() >= MIN_NEIGHBOURS
        && unrollable(rel, operand).is_some_and(|n| n > 1 && TUNABLES.max_unrolled_rows.admits(n))
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
