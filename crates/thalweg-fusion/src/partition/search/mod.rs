//! Search for the best plan of one component of a segment. ../../../../docs/planner.md has the idea.
//!
//! In: the operations of the component and their required stores. Out: a [`State`], legal for any budget.

pub(super) mod begin;
mod exact;
mod factors;
pub(super) mod greedy;
pub(super) mod grown;
pub(super) mod indexed;
mod moves;
mod weights;

use super::facts::Facts;
use super::kernels::{Kernel, Kernels};
use crate::plan::{KernelPlan, Plan};
use crate::segment::BitSet;
use crate::tunable::TUNABLES;
use crate::write::rules::Rule;
use greedy::GreedySearch;
use rustc_hash::FxHashMap;
use std::fmt;
use std::rc::Rc;

/// Search effort.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effort {
    /// No search: the first legal plan, with every reduction in a kernel of its own and everything else computed where
    /// it is needed, unless most would be computed several times.
    None,
    /// Short search, of about a quarter of the predicted run time of the first legal plan, at most the default. For
    /// segments that somebody waits for.
    Quick,
    /// Search limited to this number of visits (candidates looked up, and operations written into them), of one to two
    /// microseconds each.
    Visits(u64),
    /// Search until no move helps; finds the optimum if up to ten values may be stored.
    Full,
}

impl Default for Effort {
    /// 10,000 visits, some ten milliseconds: enough for most segments. Segments that run long are searched for as long
    /// as ten runs take.
    fn default() -> Effort {
        Effort::Visits(10_000)
    }
}

impl Effort {
    fn visits(self) -> u64 {
        match self {
            Effort::None => 0,
            Effort::Quick => Effort::default().visits(),
            Effort::Visits(n) => n,
            Effort::Full => u64::MAX,
        }
    }
}

/// Candidate plan of a component: its stores and kernels.
#[derive(Clone)]
pub(crate) struct State {
    /// All stored operations of the segment.
    pub stored: BitSet,
    /// The kernels.
    pub kernels: Vec<Rc<Kernel>>,
    /// Predicted picoseconds.
    pub time: u64,
}

/// Operations of one component of a segment, which are searched together.
pub(crate) struct Component {
    /// Indices of the operations, ascending.
    pub ops: Vec<usize>,
}

/// Result of a search for the plan of a component.
pub(crate) struct SearchResult {
    /// The best plan found.
    pub state: State,
    /// Whether the search completed within its budget.
    pub complete: bool,
}

/// Operations that each kernel of a plan stores, with group members as separate kernels; and the set of all stored
/// operations.
pub(crate) fn stores_of(plan: &Plan, operations: usize) -> (Vec<Vec<usize>>, BitSet) {
    let sorted = |part: &KernelPlan| {
        let mut all: Vec<usize> = part.writes().collect();
        all.sort_unstable();
        all
    };
    let stores: Vec<Vec<usize>> = plan.kernels.iter().flat_map(|k| k.parts()).map(sorted).collect();
    let mut stored = BitSet::new(operations);
    stores.iter().flatten().for_each(|&s| stored.insert(s));
    (stores, stored)
}

impl State {
    /// Operations that each kernel stores, and the set of all stored operations.
    pub fn stores(&self) -> (Vec<Vec<usize>>, BitSet) {
        (self.kernels.iter().map(|k| k.stores.clone()).collect(), self.stored.clone())
    }

    /// State of these kernels, sorted in canonical order, so that choices between them do not depend on the order of
    /// recording.
    fn new(stored: BitSet, mut kernels: Vec<Rc<Kernel>>) -> State {
        kernels.sort_by_key(|k| k.rank);
        let time = kernels.iter().map(|k| k.time).sum();
        State { stored, kernels, time }
    }

    /// Indices of the kernels that each kernel reads from.
    pub fn reads(&self) -> Vec<Vec<usize>> {
        let mut home: FxHashMap<usize, usize> = FxHashMap::default();
        for (k, kernel) in self.kernels.iter().enumerate() {
            home.extend(kernel.stores.iter().map(|&s| (s, k)));
        }
        let reads = |(k, kernel): (usize, &Rc<Kernel>)| {
            let mut from: Vec<usize> = kernel.candidate.loads.iter().filter_map(|l| home.get(l).copied()).collect();
            from.sort_unstable();
            from.dedup();
            from.retain(|&f| f != k);
            from
        };
        self.kernels.iter().enumerate().map(reads).collect()
    }

    /// Checks the rules about several kernels. Takes time in proportion to the loads of all kernels.
    pub fn check(&self, facts: &Facts<'_>) -> Result<(), Rule> {
        const NOBODY: u32 = u32::MAX;
        let (operations, n) = (facts.ix.seg.ops.len(), self.kernels.len());
        let mut home = vec![NOBODY; operations];
        for (k, kernel) in self.kernels.iter().enumerate() {
            kernel.stores.iter().for_each(|&s| home[s] = k as u32);
        }
        // Number of loads of each kernel that others store, and the kernels that read from each, in one list.
        let mut read = vec![false; operations];
        let (mut waits, mut ends) = (vec![0u32; n], vec![0u32; n]);
        let from = |k: usize, l: usize| Some(home[l]).filter(|&h| h != NOBODY && h != k as u32);
        for (k, kernel) in self.kernels.iter().enumerate() {
            for &l in &kernel.candidate.loads {
                read[l] = true;
                if let Some(h) = from(k, l) {
                    waits[k] += 1;
                    ends[h as usize] += 1;
                }
            }
        }
        let mut total = 0;
        for end in &mut ends {
            total += *end;
            *end = total;
        }
        let mut begins = ends.clone();
        let mut readers = vec![0u32; total as usize];
        for (k, kernel) in self.kernels.iter().enumerate() {
            for h in kernel.candidate.loads.iter().filter_map(|&l| from(k, l)) {
                begins[h as usize] -= 1;
                readers[begins[h as usize] as usize] = k as u32;
            }
        }
        // Removes kernels that wait for no remaining one (Kahn's algorithm).
        let mut free: Vec<usize> = (0..n).filter(|&k| waits[k] == 0).collect();
        let mut left = n;
        while let Some(k) = free.pop() {
            left -= 1;
            for &r in &readers[begins[k] as usize..ends[k] as usize] {
                waits[r as usize] -= 1;
                if waits[r as usize] == 0 {
                    free.push(r as usize);
                }
            }
        }
        if left > 0 {
            return Err(Rule::Cycle);
        }
        let unread = |&s: &usize| !facts.required.has(s) && !read[s];
        if self.kernels.iter().any(|k| k.stores.iter().any(unread)) { Err(Rule::Unread) } else { Ok(()) }
    }
}

/// Error: operation that is illegal as a kernel even by itself, with all of its arguments stored. That is a defect of
/// the planner, since every operation must be legal alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoPlan {
    /// Index of the operation in the segment.
    pub op: usize,
    /// Name of the operation.
    pub name: &'static str,
    /// Rule that the operation's kernel breaks.
    pub rule: Rule,
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}, {}, is no kernel by itself: {}", self.op, self.name, self.rule)
    }
}

impl std::error::Error for NoPlan {}

/// Approximate time of a visit, in picoseconds.
const VISIT_PS: u64 = 1_500_000;

/// Divisor of the first plan's time that gives the budget of a quick search. With cold caches a visit takes half as
/// long again as [`VISIT_PS`], and the start of the search as much again.
const QUICKLY: u64 = 6;

/// Maximum duration of a default search of a slow segment, in runs of the first plan (`RUNS`), and its maximum number
/// of visits (`MAX_VISITS`).
const RUNS: u64 = 10;
const MAX_VISITS: u64 = 1_000_000;

/// Visit budget of a search that starts from a plan of `begun` picoseconds.
fn budget(effort: Effort, begun: u64) -> u64 {
    match effort {
        Effort::Quick => effort.visits().min(begun / (QUICKLY * VISIT_PS)),
        effort if effort == Effort::default() => effort.visits().max((begun * RUNS / VISIT_PS).min(MAX_VISITS)),
        effort => effort.visits(),
    }
}

impl Kernels<'_, '_> {
    /// State with one kernel for each element of `stores`; `None` if one of them is illegal.
    pub fn state_of(&mut self, stores: &[Vec<usize>], stored: &BitSet) -> Option<State> {
        let made: Result<Vec<_>, Rule> = stores.iter().map(|s| self.get(s, stored)).collect();
        Some(State::new(stored.clone(), made.ok()?))
    }

    /// State with one kernel for each element of `stores`; `None` if one of them, or the whole, is illegal.
    pub fn legal_state_of(&mut self, stores: &[Vec<usize>], stored: &BitSet) -> Option<State> {
        self.state_of(stores, stored).filter(|state| state.check(self.facts).is_ok())
    }
}

/// Search for the best plan of one component.
pub(crate) struct ComponentSearch<'s, 'f, 'a> {
    /// Candidate kernels.
    pub kernels: &'s mut Kernels<'f, 'a>,
    /// The component.
    pub component: &'s Component,
    /// Effort of the search.
    pub effort: Effort,
}

impl<'f, 'a> ComponentSearch<'_, 'f, 'a> {
    /// Searches from scratch.
    ///
    /// # Errors
    /// When the component has no legal plan.
    pub fn search(mut self) -> Result<SearchResult, NoPlan> {
        let effort = self.effort;
        let state = self.begin()?;
        if !self.kernels.facts.ix.seg.mode.fused || effort == Effort::None {
            return Ok(SearchResult { state, complete: effort != Effort::None });
        }
        let greedy = self.with_products(state);
        let limit = greedy.kernels.until(budget(effort, greedy.state.time));
        let state = greedy.improve(vec![], limit);
        if self.kernels.visits >= limit && effort == Effort::Quick {
            return Ok(SearchResult { state, complete: false });
        }
        if self.kernels.visits >= limit {
            // Most of the remaining moves store values that many kernels recompute, one move each. A plan that starts
            // with these stored may be better, and gets the same budget.
            let other = self.begin_shared()?;
            let other = self.with_products(other);
            let state = if other.state.time < state.time {
                let limit = other.kernels.until(effort.visits());
                other.improve(vec![], limit)
            } else {
                state
            };
            return Ok(SearchResult { state, complete: false });
        }
        Ok(self.complete_search(state, limit))
    }

    /// Greedy search from a first plan, after the moves about operands of products.
    fn with_products(&mut self, state: State) -> GreedySearch<'_, 'f, 'a> {
        let mut greedy = GreedySearch::new(self.kernels, state);
        greedy.stream();
        greedy.store_factors();
        greedy
    }

    /// Whether so few values may be stored that the exact search is used.
    fn is_small(&self) -> bool {
        let facts = self.kernels.facts;
        let values = self.component.ops.iter().filter(|&&i| facts.required.has(i) || facts.may_store(i)).count();
        TUNABLES.max_exact_values.admits(values)
    }

    /// Completes a search in which no move gains: runs the exact search, if few values may be stored.
    fn complete_search(&mut self, state: State, limit: u64) -> SearchResult {
        if self.kernels.visits >= limit {
            return SearchResult { state, complete: false };
        }
        if !self.is_small() {
            return SearchResult { state, complete: true };
        }
        let facts = self.kernels.facts;
        let choices: Vec<usize> = self.component.ops.iter().copied().filter(|&i| facts.may_store(i)).collect();
        self.optimum(&choices, state, limit)
    }
}
