//! A search that begins from partitions that are known: those of a component that has grown since, or of which other
//! results have to be stored. docs/planner.md ("Near misses") has the idea.
//!
//! In: the old kernels, by what they store, and the operations that are new. Out: a partition of the component, improved.
//! Stored is what the old kernels store, as far as somebody needs it, and what has to be besides, each by a kernel of its
//! own; moves between old kernels that nothing has changed are not tried again.
//!
//! Always true: where the old kernels are none any more, or the beginning of a search knows better than its moves, there is
//! no partition, and the component is searched for from nothing.

use super::{Component, Effort, Found, State, begin, budget, greedy, is_small, to_the_end};
use crate::partition::facts::Facts;
use crate::partition::kernels::{Kernel, Kernels, candidate_ops};
use crate::partition::parts::Begun;
use crate::segment::BitSet;
use crate::write::rules::{contracts, is_constant};
use rustc_hash::FxHashSet;
use std::rc::Rc;
use thalweg_ir::Op;
use thalweg_kernel::Contracts;

/// Searches from there on, and says whether what is found is the optimum; `None` where that leads nowhere.
pub(crate) fn search_from(
    kernels: &mut Kernels<'_, '_>,
    component: &Component,
    begun: &Begun,
    effort: Effort,
) -> Option<(Found, bool)> {
    let (state, old) = adapted(kernels, component, begun)?;
    let limit = kernels.until(budget(effort, &state));
    let old = if begun.converged { old } else { vec![] };
    let state = greedy::improve(kernels, state, old, limit);
    let optimal = is_small(kernels.facts, component);
    Some((to_the_end(kernels, component, state, limit), optimal))
}

/// Goes on with a search that its budget ended, from the partition where it stopped.
pub(crate) fn search_on(kernels: &mut Kernels<'_, '_>, component: &Component, state: State, effort: Effort) -> Found {
    let limit = kernels.until(budget(effort, &state));
    let state = greedy::improve(kernels, state, vec![], limit);
    to_the_end(kernels, component, state, limit)
}

/// The old kernels, and one for each value that has to be stored besides; and those of the old ones that are as they were.
fn adapted(kernels: &mut Kernels<'_, '_>, component: &Component, begun: &Begun) -> Option<(State, Vec<Rc<Kernel>>)> {
    let facts = kernels.facts;
    let mode = facts.ix.seg.mode;
    let op = |i: usize| facts.ix.seg.ops[i].op;
    // What begins a search there is about products.
    if mode.contracts == Contracts::Tiles && begun.new.iter().any(|&i| contracts(op(i), mode)) {
        return None;
    }
    let may = |s: &usize| facts.needed.has(*s) && (facts.required.has(*s) || !op(*s).is_view() && !is_constant(op(*s)));
    let kept = |k: &Vec<usize>| k.iter().copied().filter(may).collect::<Vec<usize>>();
    let mut stores: Vec<Vec<usize>> = begun.kernels.iter().map(kept).filter(|k| !k.is_empty()).collect();
    let known: FxHashSet<usize> = stores.iter().flatten().copied().collect();
    let added = added(facts, component, begun, &known);
    if added.iter().any(|&i| matches!(op(i), Op::Foreign(_))) {
        return None;
    }
    stores.extend(added.iter().map(|&i| vec![i]));
    let mut stored = facts.required.clone();
    stores.iter().flatten().for_each(|&s| stored.insert(s));
    // What was live once, and nobody reads now.
    loop {
        let state = State::of(kernels, &stores, &stored)?;
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

/// What has to be stored and is by none of the old kernels; of what is new, too, what every search begins with.
fn added(facts: &Facts<'_>, component: &Component, begun: &Begun, known: &FxHashSet<usize>) -> Vec<usize> {
    let mut wanted = BitSet::new(facts.ix.seg.ops.len());
    component.ops.iter().filter(|&&i| facts.required.has(i)).for_each(|&i| wanted.insert(i));
    let new = Component { ops: begun.new.clone() };
    let first = begin::begun(facts, &new);
    begun.new.iter().filter(|&&i| first.has(i)).for_each(|&i| wanted.insert(i));
    facts.ranked(&wanted.iter().filter(|i| !known.contains(i)).collect::<Vec<_>>())
}

/// The kernels that are the old ones: the same stores, and nothing that they compute or load is stored since.
fn unchanged(state: &State, begun: &Begun, added: &[usize]) -> Vec<Rc<Kernel>> {
    let old: FxHashSet<&[usize]> = begun.kernels.iter().map(Vec::as_slice).collect();
    let same = |k: &&Rc<Kernel>| {
        let touched = |i: &usize| {
            k.candidate.loads.binary_search(i).is_ok() || candidate_ops(&k.candidate).binary_search(i).is_ok()
        };
        old.contains(k.stores.as_slice()) && !added.iter().any(touched)
    };
    state.kernels.iter().filter(same).cloned().collect()
}
