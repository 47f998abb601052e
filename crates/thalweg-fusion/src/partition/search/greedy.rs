//! Greedy search: moves from plan to plan, the most promising first, until none gains.

use super::State;
use super::indexed::{Change, IndexedState};
use super::moves::related;
use crate::partition::kernels::{Kernel, Kernels};
use crate::partition::log::{Move, considered};
use crate::segment::ValueId;
use crate::write::rules::Rule;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Maximum number of values at which a kernel is split by way of trial.
const MAX_SPLITS: usize = 8;
/// Part of the plan's time, as a divisor, that a kernel's layout must cost for the kernel to be split, and a kernel for
/// values to be hoisted out of it.
const MIN_SPLIT_FRACTION: u64 = 64;
/// Maximum number of values that are hoisted out of a kernel at once.
const MAX_HOISTED: usize = 32;

/// Greedy search from a plan: a descent by moves.
pub(super) struct GreedySearch<'g, 'f, 'a> {
    /// Candidate kernels.
    pub kernels: &'g mut Kernels<'f, 'a>,
    /// Best plan so far.
    pub state: IndexedState,
    /// Visit count at which the search ends.
    limit: u64,
    /// Old kernels: every move between only these was tried before this search began.
    old: Converged,
    /// Kernels that existed when the last round began; moves between only these have been tried.
    converged: Converged,
}

impl<'g, 'f, 'a> GreedySearch<'g, 'f, 'a> {
    /// Creates a search that starts from `state`.
    pub fn new(kernels: &'g mut Kernels<'f, 'a>, state: State) -> GreedySearch<'g, 'f, 'a> {
        let state = IndexedState::new(kernels.facts, state);
        GreedySearch { kernels, state, limit: 0, old: Converged::default(), converged: Converged::default() }
    }

    /// Improves the plan until no move helps or the visit limit is reached. `old`: kernels between which every move has
    /// been tried before.
    pub fn improve(mut self, old: Vec<Rc<Kernel>>, limit: u64) -> State {
        self.limit = limit;
        self.converged = Converged::of(old.iter());
        self.old = Converged::of(old.iter());
        loop {
            let before = self.state.time;
            let begun = Converged::of(self.state.kernels());
            self.absorb_rows();
            self.merge();
            self.store_less();
            self.hoist();
            self.store_more();
            self.split();
            self.move_stores();
            if self.state.time >= before || self.kernels.visits >= limit {
                return self.state.to_state();
            }
            self.converged = begun;
        }
    }

    /// Replaces the state by the result of a move, if that is faster; returns whether it was. `about`: operations of
    /// the move, for the log.
    fn take(&mut self, (what, about): (Move, &[usize]), next: Result<Change, Rule>) -> bool {
        considered(self.kernels.facts, what, about, self.state.time, time_of(&next));
        match next {
            Ok(next) if next.time < self.state.time => {
                self.state.apply(next);
                true
            }
            _ => false,
        }
    }

    /// Keeps the result of a move in `best`, if it is faster than that and than the state.
    fn keep_faster(&self, best: &mut Option<Change>, (what, about): (Move, &[usize]), next: Result<Change, Rule>) {
        considered(self.kernels.facts, what, about, self.state.time, time_of(&next));
        if let Ok(next) = next
            && next.time < best.as_ref().map_or(self.state.time, |b| b.time)
        {
            *best = Some(next);
        }
    }

    /// Tries the moves that merge reductions of one row class, and their producers, into the kernel that uses them;
    /// makes those that gain.
    fn absorb_rows(&mut self) {
        // A kernel is named by one of its stores, which stays the same while kernels are merged.
        let names: Vec<usize> = self.state.canonical().into_iter().map(|k| self.state.kernel(k).name).collect();
        for name in names.into_iter().rev() {
            let mut tried: Vec<usize> = vec![];
            while self.kernels.visits < self.limit && self.state.stored.has(name) {
                let home = self.state.home(name);
                let loads = &self.state.kernel(home).candidate.loads;
                if self.old.has(self.state.kernel(home))
                    && loads.iter().filter_map(|&l| self.state.home_of(l)).all(|k| self.old.has(self.state.kernel(k)))
                {
                    break;
                }
                let own = loads.iter().filter(|&&l| self.state.home_of(l).is_some());
                let classes = own.filter_map(|&l| self.kernels.facts.rows_of_value(l));
                let Some(class) = classes.filter(|c| !tried.contains(c)).min() else { break };
                tried.push(class);
                let next = self.kernels.absorbed(&self.state, home, class);
                if self.take((Move::AbsorbRows, &[name]), next) {
                    tried.clear();
                }
            }
        }
    }

    /// Tries to merge kernels that read the same values or pass values to each other; makes the moves that gain.
    fn merge(&mut self) {
        let rank = &self.kernels.facts.rank;
        let mut pairs: Vec<(u64, usize, usize)> = vec![];
        for (a, b) in related(&self.state) {
            if self.converged.has(self.state.kernel(a)) && self.converged.has(self.state.kernel(b)) {
                continue;
            }
            let gain = self.kernels.shared_bytes(&self.state, a, b);
            if gain > 0 {
                let (x, y) = (self.state.kernel(a).name, self.state.kernel(b).name);
                pairs.push(if rank[x] < rank[y] { (gain, x, y) } else { (gain, y, x) });
            }
        }
        pairs.sort_by_key(|&(gain, x, y)| (std::cmp::Reverse(gain), rank[x], rank[y]));
        for (_, x, y) in pairs {
            if self.kernels.visits >= self.limit {
                return;
            }
            if !self.state.stored.has(x) || !self.state.stored.has(y) {
                continue;
            }
            let (a, b) = (self.state.home(x), self.state.home(y));
            if a != b {
                let next = self.kernels.united(&self.state, &[a, b]);
                self.take((Move::Merge, &[x, y]), next);
            }
        }
    }

    /// Tries to recompute stored values wherever they are needed, instead of storing them; makes the moves that gain.
    fn store_less(&mut self) {
        let facts = self.kernels.facts;
        let mut chosen: Vec<usize> = self.state.stored.iter().filter(|&i| !facts.required.has(i)).collect();
        chosen.sort_by_key(|&i| facts.rank[i]);
        for v in chosen {
            if self.kernels.visits >= self.limit {
                return;
            }
            // Stored by another component, or tried before.
            if self.state.home_of(v).is_none() || !self.converged.may_move(&self.state, v) {
                continue;
            }
            let next = self.kernels.not_stored(&self.state, v);
            self.take((Move::ComputeAgain, &[v]), next);
        }
    }

    /// Tries to hoist what a kernel computes for more points than it has elements, such as the coordinates of a grid for
    /// each channel: stores at once all values of that kind that the rest of the kernel reads, those of one size by one
    /// kernel. To store one of them alone may gain nothing, as the others need what it is computed from. Makes the
    /// moves that gain.
    fn hoist(&mut self) {
        let facts = self.kernels.facts;
        let names: Vec<usize> = self.state.canonical().into_iter().map(|k| self.state.kernel(k).name).collect();
        for name in names {
            if self.kernels.visits >= self.limit {
                return;
            }
            if !self.state.stored.has(name) {
                continue;
            }
            let kernel = self.state.kernel(self.state.home(name)).clone();
            if self.converged.has(&kernel) || kernel.time < self.state.time / MIN_SPLIT_FRACTION {
                continue;
            }
            let values = self.kernels.invariant_values(&kernel, &self.state.stored);
            if values.len() < 2 || values.len() > MAX_HOISTED {
                continue;
            }
            let mut stored = self.state.stored.clone();
            values.iter().for_each(|&v| stored.insert(v));
            let mut by_size: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
            values.iter().for_each(|&v| by_size.entry(facts.ix.seg.shapes[v].numel()).or_default().push(v));
            let mut own: Vec<Vec<usize>> = by_size.into_values().collect();
            own.sort_unstable();
            let next = self.kernels.changed(&self.state, (stored, &values), &[], &own);
            self.take((Move::Hoist, &values), next);
        }
    }

    /// Tries to store values that are computed several times, by a kernel of their own or by one that computes them;
    /// makes the moves that gain.
    fn store_more(&mut self) {
        for v in self.kernels.recomputed_values(&self.state) {
            if self.kernels.visits >= self.limit {
                return;
            }
            if self.state.stored.has(v)
                || !self.converged.may_move(&self.state, v)
                || !self.kernels.may_pay(&self.state, v)
            {
                continue;
            }
            let mut best: Option<Change> = None;
            for home in self.kernels.places_for(&self.state, v) {
                let next = self.kernels.stored_in(&self.state, v, home);
                self.keep_faster(&mut best, (Move::Store, &[v]), next);
            }
            if let Some(best) = best {
                self.state.apply(best);
            }
        }
    }

    /// Tries to split kernels whose layout costs much, at values that only they compute: a running sum of concatenated
    /// rows is computed element by element, one of stored rows by vectors. Makes the moves that gain.
    fn split(&mut self) {
        let facts = self.kernels.facts;
        let names: Vec<usize> = self.state.canonical().into_iter().map(|k| self.state.kernel(k).name).collect();
        for name in names {
            if !self.state.stored.has(name) {
                continue;
            }
            let kernel = self.state.kernel(self.state.home(name)).clone();
            if self.converged.has(&kernel) || kernel.excess < self.state.time / MIN_SPLIT_FRACTION {
                continue;
            }
            let stores = |v: usize| {
                let bytes = facts.ix.bytes(ValueId::Op(v)) as u64;
                self.kernels.costs.least(1, bytes, bytes, facts.footprint) < kernel.excess
            };
            let inside = kernel.candidate.ops().iter().copied();
            let mut choices: Vec<usize> =
                inside.filter(|&v| facts.may_store(v) && !self.state.stored.has(v) && stores(v)).collect();
            choices.sort_by_key(|&v| std::cmp::Reverse(facts.rank[v]));
            let mut best: Option<Change> = None;
            for v in choices.into_iter().take(MAX_SPLITS) {
                if self.kernels.visits >= self.limit {
                    break;
                }
                let next = self.kernels.stored_in(&self.state, v, None);
                self.keep_faster(&mut best, (Move::Split, &[v]), next);
            }
            if let Some(best) = best {
                self.state.apply(best);
            }
        }
    }

    /// Tries to move stores to other kernels, or to kernels of their own; makes the moves that gain.
    fn move_stores(&mut self) {
        let facts = self.kernels.facts;
        let several = self.state.kernels().filter(|k| k.stores.len() > 1);
        let mut all: Vec<usize> = several.flat_map(|k| k.stores.iter().copied()).collect();
        all.sort_by_key(|&v| facts.rank[v]);
        for v in all {
            if self.kernels.visits >= self.limit {
                return;
            }
            let home = self.state.home(v);
            if self.state.kernel(home).stores.len() == 1 || self.converged.has(self.state.kernel(home)) {
                continue;
            }
            let rest: Vec<usize> = self.state.kernel(home).stores.iter().copied().filter(|&s| s != v).collect();
            let related = self.state.related(home).into_iter();
            let related = related.filter(|&k| self.kernels.shared_bytes(&self.state, home, k) > 0);
            let places: Vec<Option<usize>> = std::iter::once(None).chain(related.map(Some)).collect();
            let mut best: Option<Change> = None;
            for to in places {
                let (mut removed, mut added) = (vec![home], vec![rest.clone()]);
                let mut own = vec![v];
                if let Some(to) = to {
                    removed.push(to);
                    own.extend(&self.state.kernel(to).stores);
                    own.sort_unstable();
                }
                added.push(own);
                let next = self.kernels.changed(&self.state, (self.state.stored.clone(), &[]), &removed, &added);
                self.keep_faster(&mut best, (Move::Relocate, &[v]), next);
            }
            if let Some(best) = best {
                self.state.apply(best);
            }
        }
    }
}

/// Set of kernels: moves between only these have been tried.
#[derive(Default)]
struct Converged(FxHashMap<*const Kernel, Rc<Kernel>>);

impl Converged {
    fn of<'k>(kernels: impl Iterator<Item = &'k Rc<Kernel>>) -> Converged {
        Converged(kernels.map(|k| (Rc::as_ptr(k), k.clone())).collect())
    }

    fn has(&self, kernel: &Rc<Kernel>) -> bool {
        self.0.contains_key(&Rc::as_ptr(kernel))
    }

    /// Whether a move about value `v` has not been tried: one of the kernels that store, load or compute it is not in
    /// the set.
    fn may_move(&self, state: &IndexedState, v: usize) -> bool {
        state.concerned(v).any(|k| !self.has(state.kernel(k)))
    }
}

/// Time of a move's result, or the rule that it breaks, for the log.
fn time_of(next: &Result<Change, Rule>) -> Result<u64, Rule> {
    next.as_ref().map(|n| n.time).map_err(|rule| *rule)
}
