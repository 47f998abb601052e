//! Each legality rule, by a kernel that breaks it and a similar one that does not.

use super::graphs::{Graph, T};
use crate::cost::Costs;
use crate::partition::facts::Facts;
use crate::partition::kernels::Kernels;
use crate::partition::search::State;
use crate::segment::BitSet;
use crate::tunable::TUNABLES;
use crate::write::rules::Rule;
use thalweg_ir::{ElementOp, ReduceOp};

/// Checks that one kernel may store `stores`, if only these operations and `others` are stored.
fn one_kernel(g: &Graph, stores: &[T], others: &[T]) -> Result<(), Rule> {
    let op = |t: &T| match *t {
        T::Op(i) => i,
        T::In(_) => panic!("an input is not stored"),
    };
    let facts = Facts::new(g.0.as_segment());
    let mut all = BitSet::new(g.0.ops.len());
    stores.iter().chain(others).for_each(|t| all.insert(op(t)));
    let mut stores: Vec<usize> = stores.iter().map(op).collect();
    stores.sort_unstable();
    Kernels::new(&facts, &Costs::typical()).get(&stores, &all).map(|_| ())
}

#[test]
fn a_kernel_has_as_many_points_as_what_it_stores() {
    let mut g = Graph::new();
    let (x, y) = (g.input(&[40, 30]), g.input(&[30]));
    let (a, b, c) = (g.unary(ElementOp::Exp, x), g.unary(ElementOp::Sin, y), g.unary(ElementOp::Neg, x));
    for t in [a, b, c] {
        g.live(t);
    }
    assert_eq!(one_kernel(&g, &[a, b], &[]), Err(Rule::OtherPoints));
    assert_eq!(one_kernel(&g, &[a, c], &[]), Ok(()));
}

#[test]
fn a_kernel_has_one_kind_of_rows() {
    let mut g = Graph::new();
    // Too small for a shared pass.
    let x = g.input(&[40, 30]);
    let (rows, columns) = (g.reduce(ReduceOp::Sum, x, 1), g.reduce(ReduceOp::Sum, x, 0));
    let (more, out) = (g.reduce(ReduceOp::Max, x, 1), g.binary(ElementOp::Div, x, columns));
    let both = g.binary(ElementOp::Sub, out, rows);
    for t in [rows, columns, more, both] {
        g.live(t);
    }
    assert_eq!(one_kernel(&g, &[rows, columns], &[]), Err(Rule::OtherRows));
    assert_eq!(one_kernel(&g, &[rows, more], &[]), Ok(()));
    assert_eq!(one_kernel(&g, &[both], &[]), Err(Rule::OtherRows), "neither sum is complete");
    assert_eq!(one_kernel(&g, &[both], &[columns]), Ok(()));
}

#[test]
fn sums_over_all_rows_are_complete_after_the_launch() {
    let mut g = Graph::new();
    let x = g.input(&[400, 300]);
    let (rows, columns) = (g.reduce(ReduceOp::Sum, x, 1), g.reduce(ReduceOp::Sum, x, 0));
    let out = g.binary(ElementOp::Div, x, columns);
    for t in [rows, columns, out] {
        g.live(t);
    }
    assert_eq!(one_kernel(&g, &[rows, columns], &[]), Ok(()), "a shared pass");
    assert_eq!(one_kernel(&g, &[rows, columns, out], &[]), Err(Rule::OtherRows));
    g.0.mode.strict = true;
    assert_eq!(one_kernel(&g, &[rows, columns], &[]), Err(Rule::OtherRows), "the order of its sums is another");
}

#[test]
fn a_rows_result_is_used_at_its_row() {
    let mut g = Graph::new();
    let x = g.input(&[40, 40]);
    let rows = g.reduce(ReduceOp::Sum, x, 1);
    let flipped_rows = g.flipped(rows, 0);
    let (at, other) = (g.binary(ElementOp::Mul, x, rows), g.binary(ElementOp::Mul, x, flipped_rows));
    for t in [at, other] {
        g.live(t);
    }
    assert_eq!(one_kernel(&g, &[at], &[]), Ok(()));
    assert_eq!(one_kernel(&g, &[other], &[]), Err(Rule::ReadElsewhere));
    assert_eq!(one_kernel(&g, &[other], &[rows]), Ok(()));
}

#[test]
fn a_value_read_at_other_points_of_its_own_kernel_is_computed_again() {
    let mut g = Graph::new();
    let x = g.input(&[40, 40]);
    let h = g.unary(ElementOp::Exp, x);
    let flipped_rows = g.flipped(h, 0);
    let out = g.binary(ElementOp::Add, h, flipped_rows);
    for t in [h, out] {
        g.live(t);
    }
    assert_eq!(one_kernel(&g, &[h, out], &[]), Ok(()));
}

#[test]
fn a_product_shares_a_kernel_with_what_surrounds_it() {
    let mut g = Graph::new();
    let (x, y) = (g.input(&[40, 30]), g.input(&[30, 40]));
    let squared = g.unary(ElementOp::Square, x);
    let p = g.matmul(squared, y);
    let out = g.unary(ElementOp::Tanh, p);
    g.live(out);
    assert_eq!(one_kernel(&g, &[p, out], &[]), Ok(()));
    assert_eq!(one_kernel(&g, &[out], &[]), Ok(()));
    assert_eq!(one_kernel(&g, &[out], &[p]), Ok(()));
    assert_eq!(one_kernel(&g, &[p], &[squared]), Ok(()));
    assert_eq!(one_kernel(&g, &[squared, out], &[]), Err(Rule::ReadElsewhere), "a factor is not complete meanwhile");
}

#[test]
fn a_kernel_has_one_product_and_rows_of_its_last_axis() {
    let mut g = Graph::new();
    let (x, y) = (g.input(&[40, 40]), g.input(&[40, 40]));
    let p = g.matmul(x, y);
    let (on_the_left, on_the_right) = (g.matmul(p, y), g.matmul(y, p));
    let (along, across) = (g.reduce(ReduceOp::Sum, p, 1), g.reduce(ReduceOp::Sum, p, 0));
    let turned = g.transposed(p);
    let other = g.binary(ElementOp::Add, p, turned);
    for t in [on_the_left, on_the_right, along, across, other] {
        g.live(t);
    }
    assert_eq!(one_kernel(&g, &[on_the_left], &[]), Ok(()), "rows of one product are a factor of the other");
    assert_eq!(one_kernel(&g, &[on_the_right], &[]), Err(Rule::SecondProduct));
    assert_eq!(one_kernel(&g, &[p, on_the_left], &[]), Err(Rule::ReadElsewhere), "read before it is complete");
    assert_eq!(one_kernel(&g, &[along], &[]), Ok(()));
    assert_eq!(one_kernel(&g, &[across], &[]), Err(Rule::OtherRows));
    assert_eq!(one_kernel(&g, &[other], &[]), Err(Rule::ReadElsewhere));
}

#[test]
fn attention_is_one_kernel() {
    let mut g = Graph::new();
    let (q, k, v, mask) = (g.input(&[60, 16]), g.input(&[16, 50]), g.input(&[50, 16]), g.input(&[60, 50]));
    let p = g.matmul(q, k);
    let scores = g.binary(ElementOp::Add, p, mask);
    let largest = g.reduce(ReduceOp::Max, scores, 1);
    let largest = g.reshaped(largest, &[60, 1]);
    let apart = g.binary(ElementOp::Sub, scores, largest);
    let e = g.unary(ElementOp::Exp, apart);
    let sum = g.reduce(ReduceOp::Sum, e, 1);
    let sum = g.reshaped(sum, &[60, 1]);
    let weights = g.binary(ElementOp::Div, e, sum);
    let out = g.matmul(weights, v);
    g.live(out);
    assert_eq!(one_kernel(&g, &[out], &[]), Ok(()));
    assert_eq!(one_kernel(&g, &[out], &[scores]), Ok(()));
}

#[test]
fn a_product_runs_by_itself_where_the_device_has_no_contractions() {
    let mut g = Graph::new();
    g.0.mode.contracts = thalweg_kernel::Contracts::Bare;
    let (x, y) = (g.input(&[40, 40]), g.input(&[40, 40]));
    let p = g.matmul(x, y);
    let out = g.unary(ElementOp::Tanh, p);
    g.live(out);
    assert_eq!(one_kernel(&g, &[p, out], &[]), Err(Rule::Opaque));
    assert_eq!(one_kernel(&g, &[out], &[]), Err(Rule::Opaque), "nor is it computed inside another");
    assert_eq!(one_kernel(&g, &[out], &[p]), Ok(()));
}

#[test]
fn reductions_of_nothing_run_by_themselves() {
    let mut g = Graph::new();
    let x = g.input(&[3, 0]);
    let (a, b) = (g.reduce(ReduceOp::Sum, x, 1), g.reduce(ReduceOp::Max, x, 1));
    for t in [a, b] {
        g.live(t);
    }
    assert_eq!(one_kernel(&g, &[a, b], &[]), Err(Rule::NoRows));
    assert_eq!(one_kernel(&g, &[a], &[b]), Ok(()));
}

#[test]
fn a_kernel_holds_so_many_operations() {
    let mut g = Graph::new();
    let mut x = g.input(&[8]);
    for _ in 0..TUNABLES.max_kernel_ops.get() {
        x = g.unary(ElementOp::Neg, x);
    }
    let middle = x;
    let end = g.unary(ElementOp::Exp, x);
    g.live(end);
    assert_eq!(one_kernel(&g, &[end], &[]), Err(Rule::Full));
    assert_eq!(one_kernel(&g, &[end], &[middle]), Ok(()));
}

#[test]
fn kernels_do_not_wait_for_each_other() {
    let mut g = Graph::new();
    let x = g.input(&[40, 40]);
    let h = g.unary(ElementOp::Exp, x);
    let columns = g.reduce(ReduceOp::Sum, h, 0);
    let out = g.binary(ElementOp::Div, h, columns);
    let rest = g.unary(ElementOp::Sin, x);
    for t in [h, out, rest] {
        g.live(t);
    }
    let facts = Facts::new(g.0.as_segment());
    let costs = Costs::typical();
    let mut kernels = Kernels::new(&facts, &costs);
    let mut stored = facts.required.clone();
    stored.insert(1);
    // The sum reads h where it does not compute it, and out reads the sum.
    let mut state = |parts: &[&[usize]]| {
        let made = parts.iter().map(|p| kernels.get(p, &stored).expect("a kernel by itself is allowed"));
        let state = State { stored: stored.clone(), kernels: made.collect(), time: 0 };
        state.check(&facts)
    };
    assert_eq!(state(&[&[0, 2], &[1], &[3]]), Err(Rule::Cycle));
    assert_eq!(state(&[&[0], &[1], &[2], &[3]]), Ok(()));
    assert_eq!(state(&[&[0, 3], &[1], &[2]]), Ok(()));
}

#[test]
fn what_need_not_be_stored_is_stored_for_somebody() {
    let mut g = Graph::new();
    let x = g.input(&[40]);
    let h = g.unary(ElementOp::Exp, x);
    let (a, b) = (g.binary(ElementOp::Add, h, x), g.binary(ElementOp::Mul, h, x));
    for t in [a, b] {
        g.live(t);
    }
    let facts = Facts::new(g.0.as_segment());
    let costs = Costs::typical();
    let mut kernels = Kernels::new(&facts, &costs);
    let mut stored = facts.required.clone();
    stored.insert(0);
    let one = [kernels.get(&[0, 1, 2], &stored).unwrap()].to_vec();
    assert_eq!(State { stored: stored.clone(), kernels: one, time: 0 }.check(&facts), Err(Rule::Unread));
    let two = [kernels.get(&[0, 1], &stored).unwrap(), kernels.get(&[2], &stored).unwrap()].to_vec();
    assert_eq!(State { stored, kernels: two, time: 0 }.check(&facts), Ok(()));
}
