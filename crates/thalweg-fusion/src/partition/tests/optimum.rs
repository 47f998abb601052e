//! The search compared with brute force.

use super::graphs::{choices, random};
use crate::cost::Costs;
use crate::partition::facts::Facts;
use crate::partition::kernels::Kernels;
use crate::partition::search::State;
use crate::partition::{Effort, Planner};
use crate::segment::BitSet;
use proptest::prelude::*;
use std::rc::Rc;

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
