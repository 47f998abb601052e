//! The plan of a loop is that of its turns, whatever their number.

use super::graphs::{Graph, T};
use crate::cost::Costs;
use crate::partition::components::search_all;
use crate::partition::facts::Facts;
use crate::partition::kernels::Kernels;
use crate::partition::{Effort, Planned, periodic, plan};
use thalweg_ir::{ElementOp, ReduceOp};

/// A prologue, and turns that each take whole rows of what the one before gave. `every`: each turn's result is live.
/// `dear`: what a turn does to each element is not worth doing again.
fn rows(turns: usize, every: bool, dear: bool) -> Graph {
    let mut g = Graph::new();
    let x = g.input(&[256, 512]);
    let mut a = g.unary(ElementOp::Sin, x);
    for _ in 0..turns {
        let sum = g.reduce(ReduceOp::Sum, a, 1);
        let scaled = g.scaled(sum, 0.5);
        let shifted = g.binary(ElementOp::Add, a, scaled);
        let columns = g.reduce(ReduceOp::Max, shifted, 0);
        let square = g.binary(ElementOp::Mul, shifted, shifted);
        a = g.binary(ElementOp::Sub, square, columns);
        if dear {
            let e = g.unary(ElementOp::Exp, a);
            let t = g.unary(ElementOp::Tanh, e);
            a = g.unary(ElementOp::Sin, t);
        }
        if every {
            g.live(a);
        }
    }
    g.live(a);
    g
}

fn planned(g: &Graph) -> Planned {
    plan(g.0.as_segment(), &Costs::typical(), Effort::default()).expect("every operation is a kernel")
}

#[test]
fn the_search_sees_a_few_turns_however_many_there_are() {
    for every in [false, true] {
        let [few, many, more] = [20, 50, 80].map(|turns| planned(&rows(turns, every, true)));
        let of_turn = many.plan.kernels.len() - few.plan.kernels.len();
        assert!((30..=90).contains(&of_turn), "{of_turn} kernels for thirty turns");
        assert_eq!(more.plan.kernels.len() - many.plan.kernels.len(), of_turn);
        let (less, grown) = (many.visits - few.visits, more.visits - many.visits);
        assert!(less == grown && few.visits > 5 * less, "{}, {} and {} visits", few.visits, many.visits, more.visits);
    }
}

#[test]
fn what_is_repeated_is_as_good_as_what_is_searched() {
    let (g, costs) = (rows(20, true, true), Costs::typical());
    let facts = Facts::new(g.0.as_segment());
    let (mut a, mut b) = (Kernels::new(&facts, &costs), Kernels::new(&facts, &costs));
    let (repeated, _) = periodic::search(&mut a, Effort::Full).expect("it is a loop");
    let (searched, _) = search_all(&mut b, Effort::Full).expect("it has a plan");
    assert!(repeated.time as f64 <= 1.01 * searched.time as f64, "{} ps, {} ps", repeated.time, searched.time);
}

/// Without live sums a kernel of this loop computes everything from the first turn on, which is good for a few turns
/// and nothing to be repeated.
#[test]
fn kernels_that_grow_from_turn_to_turn_are_not_repeated() {
    let (g, costs) = (rows(50, false, false), Costs::typical());
    let facts = Facts::new(g.0.as_segment());
    assert!(periodic::search(&mut Kernels::new(&facts, &costs), Effort::default()).is_none());
}

#[test]
fn turns_of_other_sizes_are_no_loop() {
    let mut g = Graph::new();
    let mut a = g.input(&[64, 100]);
    let mut last: T = a;
    for turn in 0..30 {
        let e = g.unary(ElementOp::Exp, a);
        last = g.reduce(ReduceOp::Sum, e, 1);
        a = g.sliced(e, 1, 63 - turn);
    }
    g.live(last);
    let facts = Facts::new(g.0.as_segment());
    let costs = Costs::typical();
    assert!(periodic::search(&mut Kernels::new(&facts, &costs), Effort::default()).is_none());
    planned(&g);
}
