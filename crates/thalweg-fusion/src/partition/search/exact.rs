//! Exact search: the best plan of a small component.
//!
//! Stored sets are tried in order of their lower bounds. For one set, the best partition into kernels is found by
//! dynamic programming over its subsets: `best(T) = min over kernels K ⊆ T that hold T's lowest member of time(K) +
//! best(T \ K)`. That ignores rules about several kernels, which must not wait for each other. If the result breaks
//! such a rule, a depth-first search over partitions uses `best` as lower bound of the rest.

use super::{ComponentSearch, SearchResult, State};
use crate::partition::kernels::{Kernel, Kernels};
use crate::segment::{BitSet, ValueId};
use crate::write::rules::{Rule, is_opaque};
use std::rc::Rc;

impl ComponentSearch<'_, '_, '_> {
    /// Fastest plan of the component, or the fastest found within `limit` visits.
    pub(super) fn optimum(&mut self, choices: &[usize], found: State, limit: u64) -> SearchResult {
        let facts = self.kernels.facts;
        // Sets are bit masks over the canonical order, so that ties do not depend on the order of recording.
        let required: Vec<usize> = self.component.ops.iter().copied().filter(|&i| facts.required.has(i)).collect();
        let (required, choices) = (facts.ranked(&required), &facts.ranked(choices)[..]);
        let mut sets: Vec<(u64, u32)> =
            (0..1u32 << choices.len()).map(|chosen| (self.kernels.least(&required, choices, chosen), chosen)).collect();
        sets.sort_unstable();
        let mut best = found;
        for (least, chosen) in sets {
            if least >= best.time {
                break;
            }
            if self.kernels.visits >= limit {
                return SearchResult { state: best, complete: false };
            }
            let mut stored = facts.required.clone();
            let picked = (0..choices.len()).filter(|n| chosen >> n & 1 == 1).map(|n| choices[n]);
            let mut all = required.clone();
            picked.for_each(|c| {
                stored.insert(c);
                all.push(c);
            });
            let all = facts.ranked(&all);
            if let Some(state) = self.kernels.best_partition(&all, stored, best.time) {
                best = state;
            }
        }
        SearchResult { state: best, complete: true }
    }
}

impl Kernels<'_, '_> {
    /// Lower bound of the time of any plan with these stores: everything read and written once at the best rate, in the
    /// minimum number of launches.
    fn least(&self, required: &[usize], choices: &[usize], chosen: u32) -> u64 {
        let facts = self.facts;
        let ix = &facts.ix;
        let launched = |&i: &usize| ix.seg.shapes[i].numel() > 0;
        let opaque = required.iter().filter(|&&i| launched(&i) && is_opaque(ix.seg.ops[i].op, ix.seg.mode)).count();
        let together = required.iter().filter(|&&i| launched(&i) && !is_opaque(ix.seg.ops[i].op, ix.seg.mode)).count();
        let picked: Vec<usize> = (0..choices.len()).filter(|n| chosen >> n & 1 == 1).map(|n| choices[n]).collect();
        // A value stored by choice is read by another kernel than its own.
        let launches = match (opaque, together, picked.iter().any(launched)) {
            (0, _, true) => 2,
            (_, 0, any) => opaque + any as usize,
            _ => opaque + 1,
        };
        let bytes = |i: usize| ix.bytes(ValueId::Op(i)) as u64;
        let written: u64 = required.iter().map(|&i| bytes(i)).sum();
        let extra: u64 = picked.iter().map(|&i| bytes(i)).sum();
        self.costs.least(launches as u64, extra, written + extra, facts.footprint)
    }

    /// Best partition of a set of stores into kernels, if it is faster than `bound`.
    fn best_partition(&mut self, stores: &[usize], stored: BitSet, bound: u64) -> Option<State> {
        let facts = self.facts;
        let n = stores.len();
        let full = (1usize << n) - 1;
        let mut made: Vec<Option<Rc<Kernel>>> = vec![None; 1 << n];
        for (set, made) in made.iter_mut().enumerate().skip(1) {
            let mut members: Vec<usize> = (0..n).filter(|i| set >> i & 1 == 1).map(|i| stores[i]).collect();
            members.sort_unstable();
            *made = self.get(&members, &stored).ok();
        }
        // `best[set]`, with the kernel that holds the set's lowest member.
        let mut best: Vec<(u64, usize)> = vec![(u64::MAX, 0); 1 << n];
        best[0].0 = 0;
        for set in 1..=full {
            for kernel in subsets_with_lowest(set) {
                if let Some(k) = &made[kernel] {
                    let time = k.time.saturating_add(best[set & !kernel].0);
                    best[set] = best[set].min((time, kernel));
                }
            }
        }
        if best[full].0 >= bound {
            return None;
        }
        let mut parts = vec![];
        let mut left = full;
        while left != 0 {
            parts.push(best[left].1);
            left &= !best[left].1;
        }
        let state = |parts: &[usize]| -> Result<State, Rule> {
            let kernels: Vec<Rc<Kernel>> = parts.iter().map(|&p| made[p].clone().expect("a legal kernel")).collect();
            let state = State::new(stored.clone(), kernels);
            state.check(facts).map(|()| state)
        };
        if let Ok(state) = state(&parts) {
            return Some(state);
        }
        let mut search = DepthFirst { made: &made, best: &best, bound, found: None };
        search.on(full, 0, &mut vec![], &state);
        search.found
    }
}

/// Branch and bound over partitions, depth first.
struct DepthFirst<'a> {
    made: &'a [Option<Rc<Kernel>>],
    best: &'a [(u64, usize)],
    bound: u64,
    found: Option<State>,
}

impl DepthFirst<'_> {
    fn on(&mut self, left: usize, time: u64, parts: &mut Vec<usize>, state: &dyn Fn(&[usize]) -> Result<State, Rule>) {
        if time.saturating_add(self.best[left].0) >= self.bound {
            return;
        }
        if left == 0 {
            if let Ok(found) = state(parts) {
                self.bound = found.time;
                self.found = Some(found);
            }
            return;
        }
        for kernel in subsets_with_lowest(left) {
            if let Some(k) = &self.made[kernel] {
                parts.push(kernel);
                self.on(left & !kernel, time + k.time, parts, state);
                parts.pop();
            }
        }
    }
}

/// Subsets of a bit set that contain its lowest member.
fn subsets_with_lowest(set: usize) -> impl Iterator<Item = usize> {
    let lowest = set & set.wrapping_neg();
    let rest = set & !lowest;
    let mut sub = Some(rest);
    std::iter::from_fn(move || {
        let now = sub?;
        sub = (now != 0).then(|| (now - 1) & rest);
        Some(now | lowest)
    })
}
