//! Known plans: found again for an equivalent component, or a similar one.

use super::graphs::{Graph, T, choices, random};
use crate::cost::Costs;
use crate::partition::{AvailablePlans, Effort, PartitionCache, Planned, plan_with};
use crate::segment::BitSet;
use proptest::prelude::*;
use thalweg_ir::{ElementOp, ReduceOp};

fn planned_with(g: &Graph, effort: Effort, parts: &PartitionCache) -> Planned {
    let at_hand = AvailablePlans { parts, further: None };
    plan_with(g.0.as_segment(), &Costs::typical(), effort, Some(at_hand)).expect("every operation is a kernel")
}

fn planned(g: &Graph, parts: &PartitionCache) -> Planned {
    planned_with(g, Effort::default(), parts)
}

fn anew(g: &Graph) -> Planned {
    plan_with(g.0.as_segment(), &Costs::typical(), Effort::default(), None).expect("every operation is a kernel")
}

/// Rounds of operations over whole rows and columns, more than the exact search handles.
fn block(g: &mut Graph, x: T, rounds: usize) -> T {
    let mut a = x;
    for n in 0..rounds {
        let e = g.unary(ElementOp::Exp, a);
        let sum = g.reduce(ReduceOp::Sum, e, n % 2);
        let share = g.binary(ElementOp::Div, e, sum);
        let wave = g.unary(ElementOp::Sin, share);
        let top = g.reduce(ReduceOp::Max, wave, 1);
        a = g.binary(ElementOp::Sub, wave, top);
    }
    a
}

fn of_block(size: usize, rounds: usize, then: impl FnOnce(&mut Graph, T) -> T) -> Graph {
    let mut g = Graph::new();
    let x = g.input(&[size, size]);
    let a = block(&mut g, x, rounds);
    let last = then(&mut g, a);
    g.live(last);
    g
}

#[test]
fn a_component_that_was_met_in_another_segment_is_not_searched_again() {
    let parts = PartitionCache::new();
    let first = of_block(256, 6, |_, a| a);
    let found = planned(&first, &parts);
    assert!(found.complete && found.parts == Default::default());
    // Another segment, whose first component shares nothing with the second.
    let mut second = Graph::new();
    let (x, y) = (second.input(&[256, 256]), second.input(&[256, 256]));
    let other = second.unary(ElementOp::Tanh, x);
    let other = block(&mut second, other, 3);
    second.live(other);
    let same = block(&mut second, y, 6);
    second.live(same);
    let (apart, with) = (anew(&second), planned(&second, &parts));
    assert_eq!((with.parts.taken, with.parts.grown), (1, 0));
    assert!(with.plan == apart.plan && with.time == apart.time, "{} ps, {} ps", with.time, apart.time);
    let mut alone = Graph::new();
    let x = alone.input(&[256, 256]);
    let a = alone.unary(ElementOp::Tanh, x);
    let a = block(&mut alone, a, 3);
    alone.live(a);
    let alone = anew(&alone).visits;
    let operations = second.0.ops.len() as u64;
    assert!(with.visits <= alone + 3 * operations, "{} visits for {alone} and {operations}", with.visits);
    assert!(2 * apart.visits > 5 * with.visits, "{} and {} visits", apart.visits, with.visits);
}

#[test]
fn what_grows_at_its_end_is_searched_for_where_it_grew() {
    let parts = PartitionCache::new();
    let first = planned(&of_block(256, 12, |_, a| a), &parts);
    type Then = fn(&mut Graph, T) -> T;
    let then: [Then; 3] = [
        |g, a| g.unary(ElementOp::Tanh, a),
        |g, a| g.reduce(ReduceOp::Sum, a, 0),
        |g, a| {
            let t = g.unary(ElementOp::Tanh, a);
            g.reduce(ReduceOp::Sum, t, 1)
        },
    ];
    for then in then {
        let g = of_block(256, 12, then);
        let (with, without) = (planned(&g, &parts), anew(&g));
        assert_eq!((with.parts.taken, with.parts.grown), (0, 1));
        assert!(!with.complete, "what was begun from another plan is worth a second look");
        assert!(5 * with.visits < without.visits.min(first.visits), "{} and {} visits", with.visits, without.visits);
        assert!(with.time as f64 <= 1.02 * without.time as f64, "{} and {} ps", with.time, without.time);
        // Now it is known itself.
        let again = planned(&g, &parts);
        assert_eq!((again.parts.taken, again.parts.grown, again.plan), (1, 0, with.plan));
    }
}

#[test]
fn one_operation_less_or_another_one_is_a_near_miss_too() {
    let parts = PartitionCache::new();
    planned(&of_block(256, 12, |g, a| g.unary(ElementOp::Tanh, a)), &parts);
    for then in [|_: &mut Graph, a: T| a, |g: &mut Graph, a: T| g.unary(ElementOp::Sqrt, a)] {
        let g = of_block(256, 12, then);
        let (with, without) = (planned(&g, &parts), anew(&g));
        assert_eq!((with.parts.taken, with.parts.grown), (0, 1));
        assert!(2 * with.visits < without.visits, "{} and {} visits", with.visits, without.visits);
        assert!(with.time as f64 <= 1.02 * without.time as f64, "{} and {} ps", with.time, without.time);
    }
}

#[test]
fn other_live_results_and_other_sizes_begin_from_what_is_known() {
    let parts = PartitionCache::new();
    let mut held = of_block(256, 12, |_, a| a);
    // As if handles of the last round were still held.
    let n = held.0.ops.len();
    held.0.live.insert(n - 3);
    held.0.live.insert(n - 4);
    planned(&held, &parts);
    let dropped = of_block(256, 12, |_, a| a);
    let (with, without) = (planned(&dropped, &parts), anew(&dropped));
    assert_eq!((with.parts.taken, with.parts.grown), (0, 1));
    assert!(3 * with.visits < without.visits, "{} and {} visits", with.visits, without.visits);
    assert!(with.time as f64 <= 1.02 * without.time as f64, "{} and {} ps", with.time, without.time);
    // In the other order.
    let parts = PartitionCache::new();
    planned(&dropped, &parts);
    let (with, without) = (planned(&held, &parts), anew(&held));
    assert_eq!((with.parts.taken, with.parts.grown), (0, 1));
    assert!(3 * with.visits < without.visits, "{} and {} visits", with.visits, without.visits);
    assert!(with.time as f64 <= 1.02 * without.time as f64, "{} and {} ps", with.time, without.time);
    let larger = of_block(900, 12, |_, a| a);
    let (with, without) = (planned(&larger, &parts), anew(&larger));
    assert_eq!((with.parts.taken, with.parts.grown), (0, 1));
    assert!(with.visits < without.visits, "{} and {} visits", with.visits, without.visits);
    assert!(with.time as f64 <= 1.02 * without.time as f64, "{} and {} ps", with.time, without.time);
}

/// Two components that were known separately, and an operation that joins them.
#[test]
fn what_joins_parts_begins_from_all_of_them() {
    let parts = PartitionCache::new();
    for rounds in [6, 8] {
        planned(&of_block(256, rounds, |_, a| a), &parts);
    }
    let mut g = Graph::new();
    let (x, y) = (g.input(&[256, 256]), g.input(&[256, 256]));
    let (a, b) = (block(&mut g, x, 6), block(&mut g, y, 8));
    let sum = g.binary(ElementOp::Add, a, b);
    g.live(sum);
    let (with, without) = (planned(&g, &parts), anew(&g));
    assert_eq!((with.parts.taken, with.parts.grown), (0, 1));
    assert!(2 * with.visits < without.visits, "{} and {} visits", with.visits, without.visits);
    assert!(with.time as f64 <= 1.02 * without.time as f64, "{} and {} ps", with.time, without.time);
}

#[test]
fn a_search_that_was_stopped_goes_on_from_where_it_stopped() {
    let parts = PartitionCache::new();
    let g = of_block(256, 12, |_, a| a);
    let full = anew(&g);
    let stopped = planned_with(&g, Effort::Visits(20), &parts);
    assert!(full.complete && !stopped.complete);
    assert_eq!(planned_with(&g, Effort::Visits(20), &parts).time, stopped.time, "taken, as nobody goes on");
    let go_on = || true;
    let at_hand = AvailablePlans { parts: &parts, further: Some(&go_on) };
    let on = plan_with(g.0.as_segment(), &Costs::typical(), Effort::Visits(1_000_000), Some(at_hand)).unwrap();
    assert!(on.complete && on.time < stopped.time, "{} and {} ps", on.time, stopped.time);
    assert!(on.time as f64 <= 1.02 * full.time as f64, "{} and {} ps", on.time, full.time);
    assert!(on.visits < full.visits, "{} and {} visits", on.visits, full.visits);
    assert_eq!(planned(&g, &parts).time, on.time, "it is known now");
    // A search that is stopped still has a plan.
    let parts = PartitionCache::new();
    planned_with(&g, Effort::Visits(20), &parts);
    let at_hand = AvailablePlans { parts: &parts, further: Some(&|| false) };
    let ended = plan_with(g.0.as_segment(), &Costs::typical(), Effort::Visits(1_000_000), Some(at_hand)).unwrap();
    assert!(!ended.complete && ended.time <= stopped.time && ended.visits < 1_000_000, "{} visits", ended.visits);
}

#[test]
fn what_grew_is_searched_for_from_nothing_once_there_is_time() {
    let parts = PartitionCache::new();
    planned(&of_block(256, 12, |_, a| a), &parts);
    let g = of_block(256, 12, |g, a| g.reduce(ReduceOp::Sum, a, 0));
    let grown = planned(&g, &parts);
    let go_on = || true;
    let at_hand = AvailablePlans { parts: &parts, further: Some(&go_on) };
    let on = plan_with(g.0.as_segment(), &Costs::typical(), Effort::Visits(1_000_000), Some(at_hand)).unwrap();
    assert!(on.complete && on.time <= grown.time.min(anew(&g).time), "{} ps after {}", on.time, grown.time);
    assert!(planned(&g, &parts).complete);
}

#[test]
fn a_quick_search_takes_what_there_is_and_leaves_nothing_to_others() {
    let parts = PartitionCache::new();
    let g = of_block(1024, 12, |_, a| a);
    let quick = planned_with(&g, Effort::Quick, &parts);
    assert!(!quick.complete);
    let again = planned_with(&g, Effort::Quick, &parts);
    assert_eq!((again.parts.taken, again.time), (1, quick.time));
    let found = planned(&g, &parts);
    assert_eq!((found.parts, &found.plan), (Default::default(), &anew(&g).plan), "searched for from nothing");
    let taken = planned_with(&g, Effort::Quick, &parts);
    assert_eq!((taken.parts.taken, taken.time), (1, found.time));
}

#[test]
fn there_are_no_more_parts_than_there_may_be_and_other_costs_have_none() {
    let parts = PartitionCache::new();
    let graphs: Vec<Graph> = (1..8).map(|rounds| of_block(64, rounds, |_, a| a)).collect();
    graphs.iter().for_each(|g| drop(planned(g, &parts)));
    assert_eq!(parts.count(), 7);
    let costs = Costs { launch: 9.0, ..Costs::typical() };
    let at_hand = AvailablePlans { parts: &parts, further: None };
    let other = plan_with(graphs[0].0.as_segment(), &costs, Effort::default(), Some(at_hand)).unwrap();
    assert_eq!((other.parts.taken, other.parts.grown, parts.count()), (0, 0, 1));
}

/// Graph with other live results: each operation is live where `live` says so, the last one in any case.
fn with_live(g: &Graph, live: &[bool]) -> Graph {
    let mut out = Graph(g.0.clone());
    out.0.live = BitSet::new(4096);
    let n = out.0.ops.len();
    (0..n).filter(|&i| i == n - 1 || live.get(i) == Some(&true)).for_each(|i| out.0.live.insert(i));
    out
}

/// Asserts that everything required is stored, and each stored value once.
fn assert_whole(g: &Graph, found: &Planned) {
    // The plan of a rewritten segment refers to its operations.
    let rewritten = found.plan.rewrite.apply(&g.0.as_segment());
    let segment = rewritten.as_ref().map_or(g.0.as_segment(), |r| r.segment(&g.0.as_segment()));
    let facts = crate::partition::facts::Facts::new(segment);
    let mut all: Vec<usize> = found.plan.kernels.iter().flat_map(|k| k.writes()).collect();
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "stored twice");
    assert!(facts.required.iter().all(|i| all.binary_search(&i).is_ok()), "something is not stored");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Graphs that grow by one operation at a time, with changing live results: plans from known components are whole,
    /// and those of few values are the optimum.
    #[test]
    fn near_misses_have_plans_as_good_as_new_ones(c in choices(14), live in prop::collection::vec(prop::bool::weighted(0.3), 14)) {
        let parts = PartitionCache::new();
        for long in 1..=c.1.len() {
            let g = random(&(c.0, c.1[..long].to_vec()));
            for g in [with_live(&g, &live[long - 1..]), with_live(&g, &[])] {
                let (with, without) = (planned(&g, &parts), anew(&g));
                assert_whole(&g, &with);
                if without.complete && with.complete && with.parts.taken == 0 {
                    // Greedy moves from another start may lead further; the optimum is unique in time.
                    prop_assert!(with.time <= without.time, "{:?}, {:?}", with.plan, without.plan);
                }
            }
        }
    }
}
