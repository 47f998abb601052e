//! Incremental search, from known partitions: of a component that has grown, or whose required stores changed.
//! docs/planner.md ("Partition cache") has the idea.
//!
//! In: the old kernels, by their stores, and the new operations. Out: a partition of the component, improved. It stores
//! what the old kernels store, as far as that is needed, and everything newly required, each in a kernel of its own.
//! Moves between unchanged old kernels are not tried again.
//!
//! Always true: where old kernels are no longer legal, or a fresh search starts better than by moves, there is no
//! partition, and the component is searched from scratch.

use super::greedy::GreedySearch;
use super::{Component, ComponentSearch, SearchResult, State, budget};
use crate::partition::kernels::Kernel;
use crate::partition::partition_cache::Begun;
use crate::segment::BitSet;
use crate::write::rules::{contracts, is_constant};
use rustc_hash::FxHashSet;
use std::rc::Rc;
use thalweg_ir::OpClass;
use thalweg_kernel::Contracts;

impl ComponentSearch<'_, '_, '_> {
    /// Searches from a starting point. Also returns whether the result is the optimum if the search completed, since
    /// the exact search ends it; `None` if the start is not usable.
    pub(crate) fn search_from(&mut self, begun: &Begun) -> Option<(SearchResult, bool)> {
        let (state, old) = self.adapted(begun)?;
        let limit = self.kernels.until(budget(self.effort, state.time));
        let old = if begun.converged { old } else { vec![] };
        let state = GreedySearch::new(self.kernels, state).improve(old, limit);
        let optimal = self.is_small();
        Some((self.complete_search(state, limit), optimal))
    }

    /// Continues a search from `state`, the partition where its budget ended it.
    pub(crate) fn search_on(&mut self, state: State) -> SearchResult {
        let limit = self.kernels.until(budget(self.effort, state.time));
        let state = GreedySearch::new(self.kernels, state).improve(vec![], limit);
        self.complete_search(state, limit)
    }

    /// Old kernels plus one for each newly required value; and the old kernels that are unchanged.
    fn adapted(&mut self, begun: &Begun) -> Option<(State, Vec<Rc<Kernel>>)> {
        let facts = self.kernels.facts;
        let mode = facts.ix.seg.mode;
        let op = |i: usize| facts.ix.seg.ops[i].op;
        // A search from scratch starts with moves about products, which an incremental one does not make.
        if mode.contracts == Contracts::Tiles && begun.new.iter().any(|&i| contracts(op(i), mode)) {
            return None;
        }
        let may =
            |s: &usize| facts.needed.has(*s) && (facts.required.has(*s) || !op(*s).is_view() && !is_constant(op(*s)));
        let kept = |k: &Vec<usize>| k.iter().copied().filter(may).collect::<Vec<usize>>();
        let mut stores: Vec<Vec<usize>> = begun.kernels.iter().map(kept).filter(|k| !k.is_empty()).collect();
        let known: FxHashSet<usize> = stores.iter().flatten().copied().collect();
        let added = self.added(begun, &known);
        if added.iter().any(|&i| op(i).class() == OpClass::Foreign) {
            return None;
        }
        stores.extend(added.iter().map(|&i| vec![i]));
        let mut stored = facts.required.clone();
        stores.iter().flatten().for_each(|&s| stored.insert(s));
        // Values that were live before and that nobody reads now.
        loop {
            let state = self.kernels.state_of(&stores, &stored)?;
            let mut read: FxHashSet<usize> = FxHashSet::default();
            state.kernels.iter().for_each(|k| read.extend(&k.candidate.loads));
            let unread = |s: &usize| !facts.required.has(*s) && !read.contains(s);
            let gone: Vec<usize> = stores.iter().flatten().copied().filter(unread).collect();
            if gone.is_empty() {
                state.check(facts).ok()?;
                let old = unchanged(&state, begun, &added);
                return Some((state, old));
            }
            gone.iter().for_each(|&s| stored.remove(s));
            stores.iter_mut().for_each(|k| k.retain(|s| !gone.contains(s)));
            stores.retain(|k| !k.is_empty());
        }
    }

    /// Required values that no old kernel stores. For new operations, also the stores that every search starts with.
    fn added(&mut self, begun: &Begun, known: &FxHashSet<usize>) -> Vec<usize> {
        let facts = self.kernels.facts;
        let mut wanted = BitSet::new(facts.ix.seg.ops.len());
        self.component.ops.iter().filter(|&&i| facts.required.has(i)).for_each(|&i| wanted.insert(i));
        let new = Component { ops: begun.new.clone() };
        let first = ComponentSearch { kernels: self.kernels, component: &new, effort: self.effort }.begun();
        begun.new.iter().filter(|&&i| first.has(i)).for_each(|&i| wanted.insert(i));
        facts.ranked(&wanted.iter().filter(|i| !known.contains(i)).collect::<Vec<_>>())
    }
}

/// Kernels unchanged from the old ones: equal stores, and nothing that they compute or load has become stored.
fn unchanged(state: &State, begun: &Begun, added: &[usize]) -> Vec<Rc<Kernel>> {
    let old: FxHashSet<&[usize]> = begun.kernels.iter().map(Vec::as_slice).collect();
    let same = |k: &&Rc<Kernel>| {
        let touched =
            |i: &usize| k.candidate.loads.binary_search(i).is_ok() || k.candidate.ops().binary_search(i).is_ok();
        old.contains(k.stores.as_slice()) && !added.iter().any(touched)
    };
    state.kernels.iter().filter(same).cloned().collect()
}
