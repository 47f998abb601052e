//! Scatters that compute their index or values, found through views that no kernel computes. And kernels that break an
//! unforeseen rule: there is a plan anyway.

use super::graphs::{Graph, T};
use crate::cost::Costs;
use crate::instance::instantiate;
use crate::partition::facts::Facts;
use crate::partition::kernels::Kernels;
use crate::partition::search::{Component, ComponentSearch};
use crate::partition::{Effort, plan};
use crate::scalars::ScalarClasses;
use crate::write::rules::Rule;
use thalweg_ir::{ElementOp, ReduceOp, ScatterOp};

/// Plans a graph with every effort; the instance fits the segment.
fn is_planned(g: &Graph) {
    let (segment, costs) = (g.0.as_segment(), Costs::typical());
    for effort in [Effort::None, Effort::default(), Effort::Full] {
        let planned = plan(segment, &costs, effort).unwrap_or_else(|rule| panic!("{effort:?}: {rule}"));
        let classes = ScalarClasses::new(segment.scalars);
        assert!(instantiate(&planned.plan, segment, &classes).is_some(), "{effort:?}: {:?}", planned.plan);
    }
}

fn number(t: T) -> usize {
    match t {
        T::Op(i) => i,
        T::In(_) => panic!("an input is no operation"),
    }
}

/// Fuzzer program 895004733: the scatter reads `doubled` through a view, so its follower (`seen`) is not its only
/// reader.
#[test]
fn a_scatter_reads_a_reduction_through_a_view_and_goes_into_another() {
    let mut g = Graph::new();
    let x = g.input(&[13, 17]);
    let s = g.unary(ElementOp::Sigmoid, x);
    let (over_rows, over_columns) = (g.reduce(ReduceOp::Prod, s, 0), g.reduce(ReduceOp::Max, s, 1));
    let doubled = g.scaled(over_rows, 2.0);
    let seen = g.unary(ElementOp::Sigmoid, doubled);
    let values = g.transposed(doubled);
    let index = g.index(&[17, 1]);
    let out = g.scatter(ScatterOp::Max, over_columns, index, values);
    g.live(seen);
    g.live(out);
    let facts = Facts::new(g.0.as_segment());
    assert!(facts.branches(number(doubled)), "the scatter is a reader, too");
    assert_eq!(facts.end_of_chain(number(over_rows)), number(doubled));
    is_planned(&g);
}

/// Fuzzer program 888003745: a slice between the reduction and the scatter, with a single element.
#[test]
fn a_scatter_reads_a_slice_of_what_hangs_on_a_reduction() {
    let mut g = Graph::new();
    let (x, target) = (g.input(&[1, 1]), g.input(&[1, 1]));
    let product = g.reduce(ReduceOp::Prod, x, 1);
    let doubled = g.scaled(product, 2.0);
    let seen = g.unary(ElementOp::Sigmoid, doubled);
    let values = g.sliced(doubled, 0, 1);
    let into = g.unary(ElementOp::Sigmoid, target);
    let index = g.index(&[1, 1]);
    let out = g.scatter(ScatterOp::Prod, into, index, values);
    g.live(seen);
    g.live(out);
    is_planned(&g);
}

#[test]
fn what_a_scatter_would_compute_too_often_is_stored() {
    let mut g = Graph::new();
    let (x, target) = (g.input(&[4, 16]), g.input(&[20, 1024]));
    let mut a = g.unary(ElementOp::Exp, x);
    for _ in 0..8 {
        a = g.cat(a, a);
    }
    let values = g.transposed(a);
    let index = g.index(&[16, 1024]);
    let out = g.scatter(ScatterOp::Add, target, index, values);
    g.live(out);
    is_planned(&g);
}

/// Only required results are stored at first: no reduction, though two of them go along different rows.
#[test]
fn a_kernel_that_breaks_a_rule_is_taken_apart() {
    let mut g = Graph::new();
    let x = g.input(&[40, 30]);
    let (rows, columns) = (g.reduce(ReduceOp::Sum, x, 1), g.reduce(ReduceOp::Sum, x, 0));
    let part = g.binary(ElementOp::Sub, x, columns);
    let out = g.binary(ElementOp::Div, part, rows);
    g.live(out);
    let facts = Facts::new(g.0.as_segment());
    let costs = Costs::typical();
    let mut kernels = Kernels::new(&facts, &costs);
    let alone = kernels.get(&[number(out)], &facts.required).map(|_| ());
    assert_eq!(alone, Err(Rule::OtherRows));
    let component = Component { ops: facts.needed.iter().collect() };
    let state = ComponentSearch { kernels: &mut kernels, component: &component, effort: Effort::None }.until_legal(facts.required.clone()).expect("one operation a kernel");
    assert_eq!(state.stored.iter().collect::<Vec<_>>(), [rows, columns, part, out].map(number));
    assert_eq!(state.kernels.len(), 4);
    assert_eq!(state.check(&facts), Ok(()));
}
