//! The plan of a loop is that of its iterations, whatever their number.

use super::graphs::{Graph, T};
use crate::cost::Costs;
use crate::partition::facts::Facts;
use crate::partition::kernels::Kernels;
use crate::partition::search::{Component, ComponentSearch};
use crate::partition::{AvailablePlans, Effort, PartitionCache, Planned, periodic, plan};
use thalweg_ir::{ElementOp, ReduceOp};

/// A prologue, and iterations that each reduce whole rows of the previous result. `every`: each iteration's result is
/// live. `dear`: an iteration's elementwise work is too expensive to repeat.
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
    let (searched, _) = b.search_all(Effort::Full).expect("it has a plan");
    assert!(repeated.time as f64 <= 1.01 * searched.time as f64, "{} ps, {} ps", repeated.time, searched.time);
}

/// Without live sums a kernel of this loop computes everything from the first iteration on, which is good for a few
/// iterations but cannot repeat.
#[test]
fn what_each_iteration_would_compute_from_all_before_is_stored() {
    let g = rows(50, false, false);
    let planned = plan(g.0.as_segment(), &Costs::typical(), Effort::default()).unwrap();
    assert!(planned.plan.kernels.len() <= 51, "{} kernels", planned.plan.kernels.len());
    // Ten times as many where the search begins with a plan that computes an operation twenty times.
    assert!(planned.visits < 20_000, "{} visits", planned.visits);
}

/// Recurrence of two values, of which products read only one, then a loss of all iterations: the segment is no loop, and
/// a first plan that stores what products read computes the other value from its beginning in each iteration.
fn recurrence(turns: usize) -> Graph {
    let mut g = Graph::new();
    let w = g.input(&[16, 16]);
    let (mut h, mut c) = (g.input(&[8, 16]), g.input(&[8, 16]));
    let mut loss = g.input(&[8, 16]);
    for _ in 0..turns {
        let gates = g.matmul(h, w);
        let (open, new) = (g.unary(ElementOp::Sigmoid, gates), g.unary(ElementOp::Tanh, gates));
        let (kept, added) = (g.binary(ElementOp::Mul, c, open), g.binary(ElementOp::Mul, open, new));
        c = g.binary(ElementOp::Add, kept, added);
        let shown = g.unary(ElementOp::Tanh, c);
        h = g.binary(ElementOp::Mul, shown, open);
        let square = g.binary(ElementOp::Mul, h, h);
        loss = g.binary(ElementOp::Add, loss, square);
    }
    let sum = g.reduce(ReduceOp::Sum, loss, 1);
    g.live(sum);
    g.live(h);
    g
}

#[test]
fn a_recurrence_takes_visits_in_proportion_to_its_length() {
    let visits = |turns: usize| {
        let g = recurrence(turns);
        let (facts, costs) = (Facts::new(g.0.as_segment()), Costs::typical());
        let mut kernels = Kernels::new(&facts, &costs);
        kernels.search_all(Effort::Visits(1)).expect("it has a plan");
        kernels.visits
    };
    let (few, many) = (visits(60), visits(240));
    assert!(many < 6 * few, "{few} visits of 60 turns, {many} of 240");
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

/// Iterations of a primal-dual method on an image, with its energy: both values are read at neighbouring points, so a
/// kernel that computes many iterations has too many index maps, and the first plan stores what it repeats.
fn primal_dual(turns: usize) -> Graph {
    let mut g = Graph::new();
    // Differences to the next row, or to the row before, along the first axis or the last.
    let difference = |g: &mut Graph, a: T, (along, back): (usize, bool)| {
        let a = if along == 1 { g.transposed(a) } else { a };
        let (first, last) = (g.sliced(a, 0, 1), g.sliced(a, 255, 1));
        let rest = g.sliced(a, usize::from(!back), 255);
        let near = if back { g.cat(first, rest) } else { g.cat(rest, last) };
        let between = g.binary(ElementOp::Sub, near, a);
        if along == 1 { g.transposed(between) } else { between }
    };
    let image = g.input(&[256, 256]);
    let (mut x, mut mean) = (image, image);
    let (mut p, mut q) = (g.input(&[256, 256]), g.input(&[256, 256]));
    for _ in 0..turns {
        let (rows, columns) = (difference(&mut g, mean, (0, false)), difference(&mut g, mean, (1, false)));
        let (raised_p, raised_q) = (g.binary(ElementOp::Add, p, rows), g.binary(ElementOp::Add, q, columns));
        let (square_p, square_q) = (g.unary(ElementOp::Square, raised_p), g.unary(ElementOp::Square, raised_q));
        let squares = g.binary(ElementOp::Add, square_p, square_q);
        let norm = g.unary(ElementOp::Sqrt, squares);
        p = g.binary(ElementOp::Div, raised_p, norm);
        q = g.binary(ElementOp::Div, raised_q, norm);
        let (of_p, of_q) = (difference(&mut g, p, (0, true)), difference(&mut g, q, (1, true)));
        let change = g.binary(ElementOp::Add, of_p, of_q);
        let (lower, near) = (g.binary(ElementOp::Add, x, change), g.scaled(image, 0.2));
        let next = g.binary(ElementOp::Add, lower, near);
        let twice = g.scaled(next, 2.0);
        mean = g.binary(ElementOp::Sub, twice, x);
        x = next;
    }
    let slope = difference(&mut g, x, (0, false));
    let square = g.unary(ElementOp::Square, slope);
    let energy = g.reduce(ReduceOp::Sum, square, 1);
    for t in [x, energy, p, q, mean] {
        g.live(t);
    }
    g
}

#[test]
fn a_first_plan_is_no_worse_than_those_that_store_what_kernels_repeat() {
    for g in [primal_dual(10), stencil(40), rows(20, false, false), recurrence(40)] {
        let (facts, costs) = (Facts::new(g.0.as_segment()), Costs::typical());
        let mut kernels = Kernels::new(&facts, &costs);
        let component = Component { ops: facts.needed.iter().collect() };
        let mut search = ComponentSearch { kernels: &mut kernels, component: &component, effort: Effort::None };
        let stored = search.begun();
        let repaired = search.until_legal(stored).expect("it has a plan");
        let mut shared = repaired.stored.clone();
        search.store_shared(&mut shared);
        let shared = search.until_legal(shared).expect("it has a plan");
        let first = search.search().expect("it has a plan").state.time;
        assert!(first <= repaired.time.min(shared.time), "{first}, {} and {} ps", repaired.time, shared.time);
    }
}

/// Steps of a stencil on a line, each computed from the previous one, shifted both ways.
fn stencil(turns: usize) -> Graph {
    let mut g = Graph::new();
    let mut a = g.input(&[4096, 2]);
    for _ in 0..turns {
        let (first, last) = (g.sliced(a, 0, 1), g.sliced(a, 4095, 1));
        let (from, to) = (g.sliced(a, 1, 4095), g.sliced(a, 0, 4095));
        let (left, right) = (g.cat(first, to), g.cat(from, last));
        let near = g.binary(ElementOp::Add, left, right);
        let own = g.scaled(a, 2.0);
        let change = g.binary(ElementOp::Sub, near, own);
        let scaled = g.scaled(change, 0.1);
        a = g.binary(ElementOp::Add, a, scaled);
    }
    g.live(a);
    g
}

/// The quick plan of a loop repeats that of an iteration, and takes a few visits per operation.
#[test]
fn quickly_a_turn_is_planned_for_all() {
    let quick = |g: &Graph| plan(g.0.as_segment(), &Costs::typical(), Effort::Quick).expect("it has a plan");
    for (turns, more) in [(20, 40), (21, 80)] {
        let (g, longer) = (stencil(turns), stencil(turns + more));
        let (few, many) = (quick(&g), quick(&longer));
        assert!(!few.complete);
        assert_eq!(many.plan.kernels.len() - few.plan.kernels.len(), more, "one kernel a turn");
        let operations = more * (longer.0.ops.len() - g.0.ops.len()) / more;
        assert!(many.visits - few.visits <= 2 * operations as u64, "{} and {} visits", few.visits, many.visits);
    }
}

/// Row folds of an iteration join the kernel that uses them, even if other iterations pass on folded values, too.
#[test]
fn quickly_turns_that_fold_rows_are_planned_for_all() {
    let g = rows(40, true, true);
    let quick = plan(g.0.as_segment(), &Costs::typical(), Effort::Quick).expect("it has a plan");
    let turns = crate::partition::plan_of_turns(
        g.0.as_segment(),
        &Costs::typical(),
        AvailablePlans { parts: &PartitionCache::new(), further: None },
    );
    assert_eq!(turns.expect("it is a loop").plan, quick.plan);
    assert!(quick.visits <= 4 * g.0.ops.len() as u64 + 200, "{} visits of {} operations", quick.visits, g.0.ops.len());
}
