//! Operations that exceed one kernel are planned: without a search, and with one.

use super::graphs::{Graph, T};
use crate::cost::Costs;
use crate::partition::{Effort, plan};
use crate::tunable::TUNABLES;
use thalweg_ir::ElementOp;

/// Plans with both efforts; returns the number of kernels after a search.
fn kernels(g: &Graph) -> usize {
    let costs = Costs::typical();
    let planned = [Effort::None, Effort::default()].map(|effort| plan(g.0.as_segment(), &costs, effort).unwrap());
    planned[1].plan.kernels.len()
}

fn chain(g: &mut Graph, mut a: T, length: usize) -> T {
    for _ in 0..length {
        a = g.unary(ElementOp::Sin, a);
    }
    a
}

#[test]
fn views_do_not_fill_a_kernel() {
    let mut g = Graph::new();
    let x = g.input(&[16, 16]);
    let mut a = g.unary(ElementOp::Exp, x);
    for _ in 0..TUNABLES.max_kernel_ops.get() + 10 {
        a = g.transposed(a);
    }
    let out = g.unary(ElementOp::Exp, a);
    g.live(out);
    assert_eq!(kernels(&g), 1);
}

#[test]
fn constants_do_not_fill_a_kernel() {
    let mut g = Graph::new();
    let mut a = g.input(&[16, 16]);
    for _ in 0..TUNABLES.max_kernel_ops.get() / 2 + 10 {
        let constant = g.full(&[16, 16], 2.0);
        a = g.binary(ElementOp::Add, a, constant);
    }
    g.live(a);
    assert_eq!(kernels(&g), 1);
}

#[test]
fn long_chains_that_meet_are_cut() {
    let mut g = Graph::new();
    let x = g.input(&[16, 16]);
    let [a, b, c] = [1, 2, 3].map(|_| chain(&mut g, x, TUNABLES.max_kernel_ops.get() / 2));
    let out = g.select(a, b, c);
    g.live(out);
    assert!(kernels(&g) > 1);
}

#[test]
fn a_value_that_is_needed_at_many_places_is_stored() {
    let mut g = Graph::new();
    let x = g.input(&[64, 16]);
    let e = g.unary(ElementOp::Exp, x);
    let mut sum = g.sliced(e, 0, 32);
    for from in 1..30 {
        let part = g.sliced(e, from, 32);
        sum = g.binary(ElementOp::Add, sum, part);
    }
    g.live(sum);
    assert_eq!(kernels(&g), 2);
}

#[test]
fn a_value_that_is_doubled_again_and_again_is_stored() {
    let mut g = Graph::new();
    let x = g.input(&[4, 16]);
    let mut a = g.unary(ElementOp::Exp, x);
    for _ in 0..20 {
        a = g.cat(a, a);
    }
    g.live(a);
    assert!(kernels(&g) > 1);
}
