//! Values that a kernel computes for more points than they have elements.

use super::graphs::{Graph, T};
use crate::KernelPlan;
use crate::cost::Costs;
use crate::partition::facts::Facts;
use crate::partition::kernels::Kernels;
use crate::partition::{Effort, plan};
use crate::segment::BitSet;
use thalweg_ir::{ElementOp, Op};

/// Samples of an image of many channels at computed places, weighted: the graph, its result, and the values that are
/// the same for all channels and that operations of all channels read.
fn samples(corners: usize) -> (Graph, T, Vec<usize>) {
    let mut g = Graph::new();
    let (image, at) = (g.input(&[512, 49]), g.input(&[1, 49]));
    let mut place = g.unary(ElementOp::Tanh, at);
    let mut invariant = vec![];
    let mut sum = image;
    for _ in 0..corners {
        // Each corner begins where the one before it ended, so that all weights need what the first is computed from.
        place = g.unary(ElementOp::Exp, place);
        let weight = g.unary(ElementOp::Sin, place);
        let term = g.binary(ElementOp::Mul, sum, weight);
        sum = g.binary(ElementOp::Maximum, term, image);
        let T::Op(weight) = weight else { unreachable!() };
        invariant.push(weight);
    }
    g.live(sum);
    (g, sum, invariant)
}

#[test]
fn what_all_channels_read_of_what_is_the_same_for_them_is_invariant() {
    let (g, sum, invariant) = samples(3);
    let facts = Facts::new(g.0.as_segment());
    let costs = Costs::typical();
    let mut kernels = Kernels::new(&facts, &costs);
    let T::Op(sum) = sum else { unreachable!() };
    let mut stored = BitSet::new(g.0.ops.len());
    stored.insert(sum);
    let kernel = kernels.get(&[sum], &stored).expect("an elementwise kernel");
    assert_eq!(kernels.invariant_values(&kernel, &stored), invariant);
    stored.insert(invariant[0]);
    let kernel = kernels.get(&[sum], &stored).expect("an elementwise kernel");
    assert_eq!(kernels.invariant_values(&kernel, &stored), invariant[1..]);
}

#[test]
fn functions_of_invariant_values_are_computed_once() {
    let (g, ..) = samples(12);
    let planned = plan(g.0.as_segment(), &Costs::typical(), Effort::default()).expect("every operation is a kernel");
    let functions = |k: &KernelPlan| -> bool {
        k.ops().any(|i| matches!(g.0.ops[i].op, Op::Element(ElementOp::Exp | ElementOp::Sin)))
    };
    let large = |k: &KernelPlan| k.writes().any(|s| g.0.shapes[s].numel() > 49);
    assert!(!planned.plan.kernels.iter().any(|k| large(k) && functions(k)));
}
