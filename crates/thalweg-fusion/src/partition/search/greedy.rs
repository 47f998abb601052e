//! Greedy search: moves from plan to plan, the most promising first, until none gains.

use super::State;
use crate::partition::kernels::{Kernel, Kernels, candidate_ops};
use crate::partition::log::{Move, considered};
use crate::segment::{BitSet, ValueId};
use crate::tunable::TUNABLES;
use crate::write::rules::{Rule, is_opaque};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use thalweg_ir::{Op, OpClass};
use thalweg_kernel::Contracts;

/// Greedy search from a plan: a descent by moves.
pub(super) struct GreedySearch<'g, 'f, 'a> {
    /// Candidate kernels.
    pub kernels: &'g mut Kernels<'f, 'a>,
    /// Best plan so far.
    pub state: State,
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
        GreedySearch { kernels, state, limit: 0, old: Converged::default(), converged: Converged::default() }
    }

    /// Improves the plan until no move helps or the visit limit is reached. `old`: kernels between which every move has
    /// been tried before.
    pub fn improve(mut self, old: Vec<Rc<Kernel>>, limit: u64) -> State {
        self.limit = limit;
        self.converged = Converged(old.clone());
        self.old = Converged(old);
        loop {
            let before = self.state.time;
            let begun = self.state.kernels.clone();
            self.absorb_rows();
            self.merge();
            self.store_less();
            self.store_more();
            self.move_stores();
            if self.state.time >= before || self.kernels.visits >= limit {
                return self.state;
            }
            self.converged = Converged(begun);
        }
    }

    /// Replaces the state by the result of a move, if that is faster; returns whether it was. `about`: operations of
    /// the move, for the log.
    fn take(&mut self, (what, about): (Move, &[usize]), next: Result<State, Rule>) -> bool {
        considered(self.kernels.facts, what, about, self.state.time, time_of(&next));
        match next {
            Ok(next) if next.time < self.state.time => {
                self.state = next;
                true
            }
            _ => false,
        }
    }

    /// Keeps the result of a move in `best`, if it is faster than that and than the state.
    fn keep_faster(&self, best: &mut Option<State>, (what, about): (Move, &[usize]), next: Result<State, Rule>) {
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
        let names: Vec<usize> = self.state.kernels.iter().map(|k| k.name(self.kernels.facts)).collect();
        for name in names.into_iter().rev() {
            let mut tried: Vec<usize> = vec![];
            while self.kernels.visits < self.limit && self.state.stored.has(name) {
                let home = self.state.home(name);
                let loads = &self.state.kernels[home].candidate.loads;
                if self.old.has(&self.state.kernels[home])
                    && loads.iter().filter_map(|&l| self.state.home_of(l)).all(|k| self.old.has(&self.state.kernels[k]))
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
            if self.converged.has(&self.state.kernels[a]) && self.converged.has(&self.state.kernels[b]) {
                continue;
            }
            let gain = self.kernels.shared_bytes(&self.state, a, b);
            if gain > 0 {
                let (x, y) =
                    (self.state.kernels[a].name(self.kernels.facts), self.state.kernels[b].name(self.kernels.facts));
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
            if !self.state.kernels.iter().any(|k| k.stores.binary_search(&v).is_ok())
                || !self.converged.may_move(&self.state, v)
            {
                continue;
            }
            let next = self.kernels.not_stored(&self.state, v);
            self.take((Move::ComputeAgain, &[v]), next);
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
            let mut best: Option<State> = None;
            for home in self.kernels.places_for(&self.state, v) {
                let next = self.kernels.stored_in(&self.state, v, home);
                self.keep_faster(&mut best, (Move::Store, &[v]), next);
            }
            if let Some(best) = best {
                self.state = best;
            }
        }
    }

    /// Tries to move stores to other kernels, or to kernels of their own; makes the moves that gain.
    fn move_stores(&mut self) {
        let facts = self.kernels.facts;
        let several = self.state.kernels.iter().filter(|k| k.stores.len() > 1);
        let mut all: Vec<usize> = several.flat_map(|k| k.stores.iter().copied()).collect();
        all.sort_by_key(|&v| facts.rank[v]);
        for v in all {
            if self.kernels.visits >= self.limit {
                return;
            }
            let home = self.state.home(v);
            if self.state.kernels[home].stores.len() == 1 || self.converged.has(&self.state.kernels[home]) {
                continue;
            }
            let rest: Vec<usize> = self.state.kernels[home].stores.iter().copied().filter(|&s| s != v).collect();
            let related = (0..self.state.kernels.len())
                .filter(|&k| k != home && self.kernels.shared_bytes(&self.state, home, k) > 0);
            let places: Vec<Option<usize>> = std::iter::once(None).chain(related.map(Some)).collect();
            let mut best: Option<State> = None;
            for to in places {
                let (mut removed, mut added) = (vec![home], vec![rest.clone()]);
                let mut own = vec![v];
                if let Some(to) = to {
                    removed.push(to);
                    own.extend(&self.state.kernels[to].stores);
                    own.sort_unstable();
                }
                added.push(own);
                let next = self.kernels.changed(&self.state, (self.state.stored.clone(), &[]), &removed, &added);
                self.keep_faster(&mut best, (Move::Relocate, &[v]), next);
            }
            if let Some(best) = best {
                self.state = best;
            }
        }
    }
}

/// Set of kernels: moves between only these have been tried.
#[derive(Default)]
struct Converged(Vec<Rc<Kernel>>);

impl Converged {
    fn has(&self, kernel: &Rc<Kernel>) -> bool {
        self.0.iter().any(|k| Rc::ptr_eq(k, kernel))
    }

    /// Whether a move about value `v` has not been tried: one of the kernels that store, load or compute it is not in
    /// the set.
    fn may_move(&self, state: &State, v: usize) -> bool {
        state.kernels.iter().any(|k| {
            let c = &k.candidate;
            let concerned = k.stores.binary_search(&v).is_ok()
                || c.loads.binary_search(&v).is_ok()
                || candidate_ops(c).binary_search(&v).is_ok();
            concerned && !self.has(k)
        })
    }
}

/// Time of a move's result, or the rule that it breaks, for the log.
fn time_of(next: &Result<State, Rule>) -> Result<u64, Rule> {
    next.as_ref().map(|n| n.time).map_err(|rule| *rule)
}

/// Pairs of kernels that may share something: all if there are few kernels, else those connected by a value.
fn related(state: &State) -> Vec<(usize, usize)> {
    /// Number of neighbours each kernel is paired with, among many that read the same value.
    const NEAR: usize = 8;
    let n = state.kernels.len();
    if TUNABLES.max_paired_kernels.admits(n) {
        return (0..n).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
    }
    let mut by_value: FxHashMap<ValueId, Vec<usize>> = FxHashMap::default();
    for (k, kernel) in state.kernels.iter().enumerate() {
        let ops = kernel.stores.iter().chain(&kernel.candidate.loads).map(|&o| ValueId::Op(o));
        ops.chain(kernel.inputs.iter().map(|&i| ValueId::Input(i)))
            .for_each(|v| by_value.entry(v).or_default().push(k));
    }
    let mut pairs: Vec<(usize, usize)> = vec![];
    for all in by_value.values() {
        for (at, &a) in all.iter().enumerate() {
            pairs.extend(all[at.saturating_sub(NEAR)..at].iter().filter(|&&b| b != a).map(|&b| (a.max(b), a.min(b))));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

impl Kernels<'_, '_> {
    /// All plans that are one move away, whatever their time, within the visit limit.
    pub(crate) fn neighbours(&mut self, state: &State, limit: u64) -> Vec<State> {
        let facts = self.facts;
        let mut all: Vec<State> = vec![];
        for (a, b) in related(state) {
            if self.visits >= limit {
                return all;
            }
            if self.shared_bytes(state, a, b) > 0 {
                all.extend(self.united(state, &[a, b]));
            }
        }
        for v in state.stored.iter().filter(|&v| !facts.required.has(v)) {
            if self.visits >= limit {
                return all;
            }
            all.extend(self.not_stored(state, v));
        }
        for v in self.recomputed_values(state) {
            for home in self.places_for(state, v) {
                if self.visits >= limit {
                    return all;
                }
                all.extend(self.stored_in(state, v, home));
            }
        }
        for (home, kernel) in state.kernels.iter().enumerate().filter(|(_, k)| k.stores.len() > 1) {
            for &v in &kernel.stores {
                if self.visits >= limit {
                    return all;
                }
                let rest: Vec<usize> = kernel.stores.iter().copied().filter(|&s| s != v).collect();
                all.extend(self.changed(state, (state.stored.clone(), &[]), &[home], &[rest, vec![v]]));
            }
        }
        all
    }

    /// State in which all reductions of a class that a kernel uses, directly or through each other, are in that kernel.
    fn absorbed(&mut self, state: &State, home: usize, class: usize) -> Result<State, Rule> {
        let facts = self.facts;
        if facts.ix.seg.mode.contracts < Contracts::Rows && state.kernels[home].candidate.plan.product().is_some() {
            // Such reductions cannot join the kernel alone, only by flash attention: see `weights`.
            return Err(Rule::OtherRows);
        }
        let mut inside: Vec<usize> = vec![home];
        let mut left = state.kernels[home].candidate.loads.clone();
        while let Some(l) = left.pop() {
            // Values passed from another iteration of a loop stay stored.
            let Some(from) = state.home_of(l) else { continue };
            if facts.rows_of_value(l) == Some(class) && !inside.contains(&from) {
                inside.push(from);
                left.extend(&state.kernels[from].candidate.loads);
            }
        }
        self.united(state, &inside)
    }

    /// State with the kernels `inside` merged into one. Values that only these needed are no longer stored.
    pub(crate) fn united(&mut self, state: &State, inside: &[usize]) -> Result<State, Rule> {
        let facts = self.facts;
        let (mut stored, mut changed) = (state.stored.clone(), vec![]);
        let all: Vec<usize> = inside.iter().flat_map(|&k| state.kernels[k].stores.iter().copied()).collect();
        let read_outside = |s: usize| {
            let others = state.kernels.iter().enumerate().filter(|(k, _)| !inside.contains(k));
            others.into_iter().any(|(_, k)| k.candidate.loads.binary_search(&s).is_ok())
        };
        let read_inside = |s: usize| inside.iter().any(|&k| state.kernels[k].candidate.loads.binary_search(&s).is_ok());
        let mut stores = vec![];
        for s in all {
            if facts.required.has(s) || read_outside(s) || !read_inside(s) {
                stores.push(s);
            } else {
                stored.remove(s);
                changed.push(s);
            }
        }
        stores.sort_unstable();
        self.changed(state, (stored, &changed), inside, &[stores])
    }

    /// Bytes that two kernels both read or pass to each other: an estimate of what merging saves.
    fn shared_bytes(&self, state: &State, a: usize, b: usize) -> u64 {
        let ix = &self.facts.ix;
        let (x, y) = (&state.kernels[a], &state.kernels[b]);
        let opaque = |k: &Kernel| k.stores.iter().any(|&s| is_opaque(ix.seg.ops[s].op, ix.seg.mode));
        if opaque(x) || opaque(y) {
            return 0;
        }
        let bytes = |v: ValueId| ix.bytes(v) as u64;
        let both = |from: &[usize], to: &[usize]| -> Vec<usize> {
            from.iter().copied().filter(|v| to.binary_search(v).is_ok()).collect()
        };
        let inputs: u64 = x.inputs.iter().filter(|i| y.inputs.contains(i)).map(|&i| bytes(ValueId::Input(i))).sum();
        let (lx, ly) = (&x.candidate.loads, &y.candidate.loads);
        let handed = [both(lx, ly), both(lx, &y.stores), both(ly, &x.stores)];
        let handed: u64 = handed.iter().flatten().map(|&o| bytes(ValueId::Op(o))).sum();
        let computed = both(candidate_ops(&x.candidate), candidate_ops(&y.candidate)).len() as u64;
        inputs + handed + computed
    }

    /// State in which a stored value is recomputed where it is needed.
    fn not_stored(&mut self, state: &State, v: usize) -> Result<State, Rule> {
        let home = state.home(v);
        let mut stored = state.stored.clone();
        stored.remove(v);
        let rest: Vec<usize> = state.kernels[home].stores.iter().copied().filter(|&s| s != v).collect();
        self.changed(state, (stored, &[v]), &[home], &[rest])
    }

    /// Whether storing a value could pay. Compares an upper bound of its recomputation with a lower bound of writing
    /// and reading it. There is no such bound for a value that paddings or concatenations are computed for: what their
    /// index maps cost depends on where they are composed.
    fn may_pay(&self, state: &State, v: usize) -> bool {
        let facts = self.facts;
        let ix = &facts.ix;
        if facts.fold_of.contains_key(&v) {
            return true;
        }
        let elements = ix.seg.shapes[v].numel() as u64;
        let (mut evaluations, mut places) = (0u64, 0u64);
        for k in state.kernels.iter().filter(|k| candidate_ops(&k.candidate).binary_search(&v).is_ok()) {
            places += 1;
            evaluations += k.again.iter().find(|a| a.0 == v).map_or(elements, |a| a.1);
        }
        // Ancestors of the value, down to memory.
        let (mut work, mut bytes) = (0u64, 0u64);
        let (mut seen, mut left) = (FxHashSet::default(), vec![v]);
        while let Some(i) = left.pop() {
            if ix.seg.ops[i].op.class() == OpClass::Merge {
                return true;
            }
            work += match ix.seg.ops[i].op {
                Op::Element(e) => e.row().cost as u64 + 1,
                Op::Cast => 8,
                op => match (op.region(), op.class()) {
                    (Some(l), _) => l.cost() as u64,
                    (None, OpClass::Random) => 100,
                    (None, OpClass::Gather) => 8,
                    (None, _) => 1,
                },
            };
            for (_, a) in ix.tensors(i) {
                match a {
                    ValueId::Op(a) if !state.stored.has(a) => left.extend(seen.insert(a).then_some(a)),
                    _ => bytes += ix.bytes(a) as u64,
                }
            }
        }
        let again = evaluations.saturating_sub(elements);
        let saved = self.costs.most(again * work, places.saturating_sub(1) * bytes, facts.footprint);
        let own = ix.bytes(ValueId::Op(v)) as u64;
        let factors = (places * own) as f64 * self.costs.factor * 1e3;
        saved + factors as u64 > self.costs.least(0, own, own, facts.footprint)
    }

    /// State in which a value is also stored: by the existing kernel `home`, or with `None` by a kernel of its own.
    pub(super) fn stored_in(&mut self, state: &State, v: usize, home: Option<usize>) -> Result<State, Rule> {
        let mut stored = state.stored.clone();
        stored.insert(v);
        match home {
            None => self.changed(state, (stored, &[v]), &[], &[vec![v]]),
            Some(k) => {
                let mut stores = state.kernels[k].stores.clone();
                stores.push(v);
                stores.sort_unstable();
                self.changed(state, (stored, &[v]), &[k], &[stores])
            }
        }
    }

    /// Kernels that may store a value: one of its own (`None`), those that compute it, and, for a fold, those that
    /// share operands with a kernel that computes it.
    fn places_for(&self, state: &State, v: usize) -> Vec<Option<usize>> {
        let fold = self.facts.fold_of.contains_key(&v);
        let computes: Vec<usize> = (0..state.kernels.len())
            .filter(|&k| candidate_ops(&state.kernels[k].candidate).binary_search(&v).is_ok())
            .collect();
        // A reduction may also be computed in the pass of a kernel that reads the same tensor.
        let reads_same = |k: usize| computes.iter().any(|&c| c != k && self.shared_bytes(state, c, k) > 0);
        let others = (0..state.kernels.len()).filter(|k| fold && !computes.contains(k) && reads_same(*k));
        std::iter::once(None).chain(computes.iter().copied().chain(others).map(Some)).collect()
    }

    /// Values computed in several kernels or under several maps whose users are computed once; and reductions inside
    /// kernels.
    fn recomputed_values(&self, state: &State) -> Vec<usize> {
        let facts = self.facts;
        let ix = &facts.ix;
        let mut times: FxHashMap<usize, u32> = Default::default();
        let mut again = BitSet::new(ix.seg.ops.len());
        for k in &state.kernels {
            candidate_ops(&k.candidate).iter().for_each(|&o| *times.entry(o).or_default() += 1);
            k.again.iter().for_each(|a| again.insert(a.0));
        }
        let several = |o: usize| again.has(o) || times.get(&o).is_some_and(|&n| n > 1);
        // If its users are recomputed as often, storing one of them saves more.
        let mut behind = BitSet::new(ix.seg.ops.len());
        for (&o, _) in times.iter().filter(|(o, _)| !several(**o) || state.stored.has(**o)) {
            facts.read_by(o).for_each(|a| behind.insert(a));
        }
        // Nor can a view be stored instead of what it is a view of.
        let mut views: Vec<usize> = times.keys().copied().filter(|&o| ix.seg.ops[o].op.is_view()).collect();
        views.sort_unstable_by(|a, b| b.cmp(a));
        for o in views.into_iter().filter(|&o| !state.stored.has(o)) {
            if behind.has(o) || facts.branches(o) {
                facts.read_by(o).for_each(|a| behind.insert(a));
            }
        }
        let mut all: Vec<usize> = times
            .keys()
            .copied()
            .filter(|&o| facts.may_store(o) && !state.stored.has(o))
            .filter(|&o| several(o) && (behind.has(o) || facts.branches(o)) || facts.fold_of.contains_key(&o))
            .collect();
        all.sort_by_key(|&o| std::cmp::Reverse(facts.rank[o]));
        all
    }
}
