//! Components of a segment, which share nothing worth sharing and are searched separately. Of similar components one is
//! searched, and a component with a known plan is not searched at all.

use super::canonical::root;
use super::facts::Facts;
use super::kernels::Kernels;
use super::partition_cache::{Look, Standing};
use super::search::{Component, ComponentSearch, Effort, NoPlan, SearchResult, State};
use crate::segment::{BitSet, ValueId};
use crate::tunable::TUNABLES;
use crate::write::rules::is_constant;
use rustc_hash::FxHashMap;

impl Kernels<'_, '_> {
    /// Best plan of the whole segment, and whether all searches completed.
    ///
    /// # Errors
    /// When a component has no legal plan.
    pub(super) fn search_all(&mut self, effort: Effort) -> Result<(State, bool), NoPlan> {
        let facts = self.facts;
        let mut whole = State { stored: facts.required.clone(), kernels: vec![], time: 0 };
        let mut complete = true;
        let mut spent = 0;
        let mut seen: FxHashMap<Look, Solved> = FxHashMap::default();
        // A segment small enough for the exact search is one component.
        let all: Vec<usize> = facts.needed.iter().collect();
        let values = all.iter().filter(|&&i| facts.required.has(i) || facts.may_store(i)).count();
        let components = if TUNABLES.max_exact_values.admits(values) && facts.ix.seg.mode.fused {
            vec![Component { ops: all }]
        } else {
            facts.components(&all)
        };
        for component in components {
            let ranked = facts.ranked(&component.ops);
            let look = Look::of(facts, &ranked);
            let as_before = seen.get(&look).and_then(|solved| Some((solved.of(self, &ranked)?, solved.complete)));
            let before = self.visits;
            let (state, ended) = match as_before {
                Some(before) => before,
                None => {
                    let found = self.solved(&component, component_budget(effort, spent, component.ops.len()))?;
                    spent += self.visits - before;
                    seen.insert(look, Solved::new(&ranked, &found.state, found.complete));
                    (found.state, found.complete)
                }
            };
            complete &= ended;
            whole.stored.union(&state.stored);
            whole.time += state.time;
            whole.kernels.extend(state.kernels);
        }
        Ok((whole, complete))
    }

    /// Plan of a component: a known one, from any segment; else one found by a search, starting from similar known
    /// plans or from scratch.
    ///
    /// # Errors
    /// When the component has no legal plan.
    pub(super) fn solved(&mut self, component: &Component, effort: Effort) -> Result<SearchResult, NoPlan> {
        let facts = self.facts;
        let Some(at_hand) = self.at_hand.filter(|_| facts.ix.seg.mode.fused && effort != Effort::None) else {
            return ComponentSearch { kernels: self, component, effort }.search();
        };
        let (parts, further, quickly) = (at_hand.parts, at_hand.further.is_some(), self.quickly);
        let ranked = facts.ranked(&component.ops);
        let looks = (Look::of(facts, &component.ops), Look::of(facts, &ranked));
        let part = parts.alike(facts, (&component.ops, &ranked), (&looks.0, &looks.1), quickly);
        let before = part.and_then(|(part, stores)| {
            let state = self.plan_of(&stores)?;
            Some((SearchResult { state, complete: part.standing == Standing::Ended }, part.standing))
        });
        let (found, standing) = match before {
            Some((before, standing)) if !further || standing == Standing::Ended => {
                self.parts.taken += 1;
                return Ok(before);
            }
            Some((before, Standing::Stopped)) => {
                let found = ComponentSearch { kernels: self, component, effort }.search_on(before.state);
                let standing = Standing::of(found.complete);
                (found, standing)
            }
            Some((before, _)) => {
                let found = ComponentSearch { kernels: self, component, effort }.search()?;
                let standing = Standing::of(found.complete);
                let better = found.state.time < before.state.time;
                (if better { found } else { SearchResult { state: before.state, ..found } }, standing)
            }
            None => {
                let near = parts.near(facts, (&component.ops, &looks.0), quickly, |ops| {
                    facts.components(ops).into_iter().map(|c| c.ops).collect()
                });
                let begun =
                    near.and_then(|begun| ComponentSearch { kernels: self, component, effort }.search_from(&begun));
                match begun {
                    Some((found, optimal)) => {
                        self.parts.grown += 1;
                        let standing = match found.complete {
                            true if optimal => Standing::Ended,
                            true => Standing::Grown,
                            false => Standing::Stopped,
                        };
                        (SearchResult { complete: standing == Standing::Ended, ..found }, standing)
                    }
                    None => {
                        let found = ComponentSearch { kernels: self, component, effort }.search()?;
                        let standing = Standing::of(found.complete);
                        (found, standing)
                    }
                }
            }
        };
        // A result of a hardly started search is no useful starting point for others.
        let quick = quickly && standing != Standing::Ended;
        parts.keep(facts, (&component.ops, &ranked), looks, &found.state.stores().0, (standing, quick));
        Ok(found)
    }

    /// Plan of a component from the stores of its kernels, if it is legal.
    fn plan_of(&mut self, stores: &[Vec<usize>]) -> Option<State> {
        let mut stored: BitSet = self.facts.required.clone();
        stores.iter().flatten().for_each(|&s| stored.insert(s));
        self.legal_state_of(stores, &stored)
    }
}

/// Minimum number of visits per operation of a component, whatever other components have spent: enough for the obvious
/// moves.
const MIN_VISITS_PER_OP: u64 = 30;

/// Remaining budget for a component of `operations` operations, after `spent` visits for other components.
fn component_budget(effort: Effort, spent: u64, operations: usize) -> Effort {
    match effort {
        Effort::Visits(n) => Effort::Visits(n.saturating_sub(spent).max(n.min(MIN_VISITS_PER_OP * operations as u64))),
        other => other,
    }
}

impl Facts<'_> {
    /// Splits operations, ascending, into components connected by values, or by an input that is worth reading once.
    fn components(&self, ops: &[usize]) -> Vec<Component> {
        let ix = &self.ix;
        let n = ix.seg.ops.len();
        let mut parent: Vec<usize> = (0..n).collect();
        let mut reader: Vec<Option<usize>> = vec![None; ix.seg.inputs.len()];
        for &i in ops {
            // Through views that no kernel computes.
            let viewed = self.operands.get(&i).into_iter().flatten().filter_map(|v| match v {
                ValueId::Op(a) => Some(a),
                ValueId::Input(_) => None,
            });
            for &other in self.in_memory.get(&i).into_iter().flatten().chain(viewed) {
                let (a, b) = (root(&mut parent, i), root(&mut parent, other));
                parent[a.max(b)] = a.min(b);
            }
            for (_, v) in ix.tensors(i) {
                let other = match v {
                    ValueId::Op(a) if is_constant(ix.seg.ops[a].op) && ix.seg.mode.fused => None,
                    ValueId::Op(a) => Some(a),
                    ValueId::Input(a) if !TUNABLES.min_joining_input.reached_by(ix.bytes(v)) => reader[a].take(),
                    ValueId::Input(a) => reader[a].replace(i),
                };
                if let Some(other) = other {
                    let (a, b) = (root(&mut parent, i), root(&mut parent, other));
                    parent[a.max(b)] = a.min(b);
                }
            }
        }
        let mut components: Vec<Component> = vec![];
        let mut at: FxHashMap<usize, usize> = FxHashMap::default();
        for &i in ops {
            let root = root(&mut parent, i);
            let n = *at.entry(root).or_insert(components.len());
            match components.get_mut(n) {
                Some(component) => component.ops.push(i),
                None => components.push(Component { ops: vec![i] }),
            }
        }
        // In canonical order: the first of similar components is searched, and early ones get most of the budget.
        components.sort_by_cached_key(|p| p.ops.iter().map(|&i| self.rank[i]).min());
        components
    }
}

/// Plan of a component as sets of stores, which are given by rank in the canonical order.
struct Solved {
    kernels: Vec<Vec<usize>>,
    complete: bool,
}

impl Solved {
    fn new(ranked: &[usize], state: &State, complete: bool) -> Solved {
        let place: FxHashMap<usize, usize> = ranked.iter().enumerate().map(|(at, &i)| (i, at)).collect();
        let kernels = state.kernels.iter().map(|k| k.stores.iter().map(|s| place[s]).collect()).collect();
        Solved { kernels, complete }
    }

    /// Applies the plan to a similar component; `None` if its sizes do not allow that.
    fn of(&self, kernels: &mut Kernels<'_, '_>, ranked: &[usize]) -> Option<State> {
        let stores = |places: &Vec<usize>| {
            let mut stores: Vec<usize> = places.iter().map(|&at| ranked[at]).collect();
            stores.sort_unstable();
            stores
        };
        let all: Vec<Vec<usize>> = self.kernels.iter().map(stores).collect();
        kernels.plan_of(&all)
    }
}
