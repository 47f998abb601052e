//! The search compared with brute force.

use super::graphs::{Graph, T, choices, random};
use crate::cost::Costs;
use crate::partition::facts::Facts;
use crate::partition::kernels::Kernels;
use crate::partition::search::State;
use crate::partition::{Effort, Planner};
use crate::segment::BitSet;
use proptest::prelude::*;
use std::rc::Rc;
use thalweg_ir::ElementOp;

/// Minimum time over all sets of stored values and all their partitions.
fn brute_force(kernels: &mut Kernels<'_, '_>) -> u64 {
    let facts = kernels.facts;
    let free: Vec<usize> = facts.needed.iter().filter(|&i| facts.may_store(i)).collect();
    let mut best = u64::MAX;
    for chosen in 0..1u32 << free.len() {
        let mut stored = facts.required.clone();
        free.iter().enumerate().filter(|(n, _)| chosen >> n & 1 == 1).for_each(|(_, &i)| stored.insert(i));
        let stores: Vec<usize> = stored.iter().filter(|&i| facts.needed.has(i)).collect();
        partitions(kernels, &stores, &stored, &mut vec![], &mut best);
    }
    best
}

/// Puts the next store into each existing kernel, and into a new one.
fn partitions(
    kernels: &mut Kernels<'_, '_>,
    left: &[usize],
    stored: &BitSet,
    parts: &mut Vec<Vec<usize>>,
    best: &mut u64,
) {
    let Some((&next, left)) = left.split_first() else {
        let made: Result<Vec<Rc<_>>, _> = parts.iter().map(|p| kernels.get(p, stored)).collect();
        let Ok(made) = made else { return };
        let time = made.iter().map(|k| k.time).sum();
        let state = State { stored: stored.clone(), kernels: made, time };
        if time < *best && state.check(kernels.facts).is_ok() {
            *best = time;
        }
        return;
    };
    for p in 0..parts.len() {
        parts[p].push(next);
        partitions(kernels, left, stored, parts, best);
        parts[p].pop();
    }
    parts.push(vec![next]);
    partitions(kernels, left, stored, parts, best);
    parts.pop();
}

/// A running sum of concatenated columns is computed element by element, and by vectors from memory. Only one kernel
/// computes the concatenation, in a component too large for the exact search.
#[test]
fn a_kernel_is_split_where_its_layout_costs_much() {
    let mut g = Graph::new();
    let (a, b) = (g.input(&[40, 3000]), g.input(&[40, 3000]));
    let both = g.cat(a, b);
    let scaled = g.scaled(both, 0.5);
    let mut last = g.cumsum(scaled, 0);
    g.live(last);
    for i in 0..12 {
        let row = g.sliced(last, i, 40);
        last = g.unary(ElementOp::Tanh, row);
        last = g.cat(last, row);
        g.live(last);
    }
    let costs = Costs::typical();
    let planner = Planner { segment: g.0.as_segment(), costs: &costs, effort: Effort::Full, at_hand: None };
    let plan = planner.as_written().unwrap().plan;
    let T::Op(scaled) = scaled else { unreachable!("an operation") };
    let stored = plan.kernels.iter().flat_map(|k| k.parts()).flat_map(|k| k.writes()).any(|s| s == scaled);
    assert!(stored, "{plan:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A thousand graphs of up to ten operations.
    #[test]
    fn the_search_finds_what_brute_force_finds(c in choices(10)) {
        let g = random(&c);
        let segment = g.0.as_segment();
        let costs = Costs::typical();
        let found = Planner { segment, costs: &costs, effort: Effort::Full, at_hand: None }.as_written().unwrap();
        prop_assert!(found.complete);
        let facts = Facts::new(segment);
        let best = brute_force(&mut Kernels::new(&facts, &costs));
        prop_assert_eq!(found.time, best, "{:?}", found.plan);
    }
}
