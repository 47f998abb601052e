//! Operands of foreign operations: in memory as the operation reads them, or copied there.

use super::graphs::{Graph, T};
use crate::KernelPlan;
use crate::cost::Costs;
use crate::partition::{Effort, plan};
use thalweg_ir::ElementOp;

/// Kernels of a plan for a convolution of what `operand` makes from the elements of a row from position `from` on.
fn kernels(from: usize, operand: impl FnOnce(&mut Graph, T) -> T) -> Vec<KernelPlan> {
    let mut g = Graph::new();
    let (x, weights) = (g.input(&[64]), g.input(&[1, 1, 3]));
    let x = operand(&mut g, x);
    let x = g.sliced(x, from, 32);
    let x = g.reshaped(x, &[1, 1, 32]);
    let y = g.convolution(x, weights);
    g.live(y);
    plan(g.0.as_segment(), &Costs::typical(), Effort::default()).expect("every operation is a kernel").plan.kernels
}

#[test]
fn a_routine_reads_aligned_views_and_copies_of_others() {
    // Four elements are 16 bytes.
    for (from, copies) in [(0, 0), (4, 0), (1, 1), (6, 1)] {
        assert_eq!(kernels(from, |_, x| x).len(), 1 + copies, "a view of an input from {from} on");
        // A computed operand is stored as the routine reads it, whatever the offset.
        assert_eq!(kernels(from, |g, x| g.unary(ElementOp::Exp, x)).len(), 2, "a view of a result from {from} on");
    }
}
