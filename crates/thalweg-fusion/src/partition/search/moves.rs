//! Moves from a plan to another: what each changes, and which may gain.

use super::State;
use super::indexed::{Change, IndexedState};
use crate::partition::kernels::{Kernel, Kernels};
use crate::segment::{BitSet, ValueId};
use crate::tunable::TUNABLES;
use crate::write::rules::{Rule, is_opaque};
use rustc_hash::{FxHashMap, FxHashSet};
use thalweg_ir::{Op, OpClass};
use thalweg_kernel::Contracts;

/// Pairs of kernels that may share something: all if there are few kernels, else those connected by a value. In
/// canonical order, the later kernel of a pair first.
pub(super) fn related(state: &IndexedState) -> Vec<(usize, usize)> {
    /// Number of neighbours each kernel is paired with, among many that read the same value.
    const NEAR: usize = 8;
    let numbers = state.canonical();
    let n = numbers.len();
    if TUNABLES.max_paired_kernels.admits(n) {
        let numbers = &numbers;
        return (0..n).flat_map(|a| (0..a).map(move |b| (numbers[a], numbers[b]))).collect();
    }
    let mut by_value: FxHashMap<ValueId, Vec<usize>> = FxHashMap::default();
    for (k, &number) in numbers.iter().enumerate() {
        let kernel = state.kernel(number);
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
    pairs.into_iter().map(|(a, b)| (numbers[a], numbers[b])).collect()
}

impl Kernels<'_, '_> {
    /// All plans that are one move away, whatever their time, within the visit limit.
    pub(crate) fn neighbours(&mut self, state: &State, limit: u64) -> Vec<State> {
        let facts = self.facts;
        let state = &IndexedState::new(facts, state.clone());
        let mut all: Vec<State> = vec![];
        for (a, b) in related(state) {
            if self.visits >= limit {
                return all;
            }
            if self.shared_bytes(state, a, b) > 0 {
                all.extend(self.united(state, &[a, b]).map(|c| state.with(c)));
            }
        }
        for v in state.stored.iter().filter(|&v| !facts.required.has(v)) {
            if self.visits >= limit {
                return all;
            }
            all.extend(self.not_stored(state, v).map(|c| state.with(c)));
        }
        for v in self.recomputed_values(state) {
            for home in self.places_for(state, v) {
                if self.visits >= limit {
                    return all;
                }
                all.extend(self.stored_in(state, v, home).map(|c| state.with(c)));
            }
        }
        for home in state.canonical() {
            let kernel = state.kernel(home);
            for &v in kernel.stores.iter().filter(|_| kernel.stores.len() > 1) {
                if self.visits >= limit {
                    return all;
                }
                let rest: Vec<usize> = kernel.stores.iter().copied().filter(|&s| s != v).collect();
                let apart = self.changed(state, (state.stored.clone(), &[]), &[home], &[rest, vec![v]]);
                all.extend(apart.map(|c| state.with(c)));
            }
        }
        all
    }

    /// Change after which all reductions of a class that a kernel uses, directly or through each other, are in that
    /// kernel.
    pub(super) fn absorbed(&mut self, state: &IndexedState, home: usize, class: usize) -> Result<Change, Rule> {
        let facts = self.facts;
        if facts.ix.seg.mode.contracts < Contracts::Rows && state.kernel(home).candidate.plan.product().is_some() {
            // Such reductions cannot join the kernel alone, only by flash attention: see `weights`.
            return Err(Rule::OtherRows);
        }
        let mut inside: Vec<usize> = vec![home];
        let mut left = state.kernel(home).candidate.loads.clone();
        while let Some(l) = left.pop() {
            // Values passed from another iteration of a loop stay stored.
            let Some(from) = state.home_of(l) else { continue };
            if facts.rows_of_value(l) == Some(class) && !inside.contains(&from) {
                inside.push(from);
                left.extend(&state.kernel(from).candidate.loads);
            }
        }
        self.united(state, &inside)
    }

    /// Change that merges the kernels `inside` into one. Values that only these needed are no longer stored.
    pub(crate) fn united(&mut self, state: &IndexedState, inside: &[usize]) -> Result<Change, Rule> {
        let facts = self.facts;
        let (mut stored, mut changed) = (state.stored.clone(), vec![]);
        let all: Vec<usize> = inside.iter().flat_map(|&k| state.kernel(k).stores.iter().copied()).collect();
        let read_outside = |s: usize| state.loading(s).iter().any(|k| !inside.contains(k));
        let read_inside = |s: usize| state.loading(s).iter().any(|k| inside.contains(k));
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
    pub(super) fn shared_bytes(&self, state: &IndexedState, a: usize, b: usize) -> u64 {
        let ix = &self.facts.ix;
        let (x, y) = (state.kernel(a), state.kernel(b));
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
        let computed = both(x.candidate.ops(), y.candidate.ops()).len() as u64;
        inputs + handed + computed
    }

    /// Change after which a stored value is recomputed where it is needed.
    pub(super) fn not_stored(&mut self, state: &IndexedState, v: usize) -> Result<Change, Rule> {
        let home = state.home(v);
        let mut stored = state.stored.clone();
        stored.remove(v);
        let rest: Vec<usize> = state.kernel(home).stores.iter().copied().filter(|&s| s != v).collect();
        self.changed(state, (stored, &[v]), &[home], &[rest])
    }

    /// Whether storing a value could pay. Compares an upper bound of its recomputation with a lower bound of writing
    /// and reading it. There is no such bound for a value that paddings or concatenations are computed for: what their
    /// index maps cost depends on where they are composed.
    pub(super) fn may_pay(&self, state: &IndexedState, v: usize) -> bool {
        let facts = self.facts;
        let ix = &facts.ix;
        if facts.fold_of.contains_key(&v) {
            return true;
        }
        let elements = ix.seg.shapes[v].numel() as u64;
        let (mut evaluations, mut places) = (0u64, 0u64);
        for k in state.computing(v) {
            places += 1;
            evaluations += state.kernel(k).again.iter().find(|a| a.0 == v).map_or(elements, |a| a.1);
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

    /// Change after which a value is also stored: by the existing kernel `home`, or with `None` by a kernel of its own.
    pub(super) fn stored_in(&mut self, state: &IndexedState, v: usize, home: Option<usize>) -> Result<Change, Rule> {
        let mut stored = state.stored.clone();
        stored.insert(v);
        match home {
            None => self.changed(state, (stored, &[v]), &[], &[vec![v]]),
            Some(k) => {
                let mut stores = state.kernel(k).stores.clone();
                stores.push(v);
                stores.sort_unstable();
                self.changed(state, (stored, &[v]), &[k], &[stores])
            }
        }
    }

    /// Kernels that may store a value: one of its own (`None`), those that compute it, and, for a fold, those that
    /// share operands with a kernel that computes it.
    pub(super) fn places_for(&self, state: &IndexedState, v: usize) -> Vec<Option<usize>> {
        let computes = state.computing(v);
        let mut others = vec![];
        // A reduction may also be computed in the pass of a kernel that reads the same tensor.
        if self.facts.fold_of.contains_key(&v) {
            for &c in &computes {
                others.extend(state.related(c).into_iter().filter(|&k| self.shared_bytes(state, c, k) > 0));
            }
            others.retain(|k| !computes.contains(k));
        }
        let others = state.ranked(others);
        std::iter::once(None).chain(computes.into_iter().chain(others).map(Some)).collect()
    }

    /// Values that a kernel computes for at least twice as many points as they have elements, and that operations read
    /// which it does not compute so often, directly or through values that are not worth storing; in ascending order.
    pub(crate) fn invariant_values(&self, kernel: &Kernel, stored: &BitSet) -> Vec<usize> {
        let facts = self.facts;
        let ix = &facts.ix;
        let again: FxHashMap<usize, u64> = kernel.again.iter().copied().collect();
        let repeated = |o: usize| again.get(&o).is_some_and(|&points| points >= 2 * ix.seg.shapes[o].numel() as u64);
        // Operations that another one reads which is not repeated.
        let mut read: FxHashSet<usize> = kernel.stores.iter().copied().collect();
        let mut values = vec![];
        let mut ops = kernel.candidate.ops().to_vec();
        ops.sort_unstable();
        for o in ops.into_iter().rev() {
            // Of others it is not known how often they are computed.
            let known = facts.may_store(o) && !ix.seg.ops[o].op.is_view();
            if if known { !repeated(o) } else { read.contains(&o) } {
                read.extend(facts.read_by(o));
            } else if known && read.contains(&o) && !stored.has(o) {
                values.push(o);
            }
        }
        values.reverse();
        values
    }

    /// Values computed in several kernels or under several maps whose users are computed once; and reductions inside
    /// kernels.
    pub(super) fn recomputed_values(&self, state: &IndexedState) -> Vec<usize> {
        let facts = self.facts;
        let ix = &facts.ix;
        let mut times: FxHashMap<usize, u32> = Default::default();
        let mut again = BitSet::new(ix.seg.ops.len());
        for k in state.kernels() {
            k.candidate.ops().iter().for_each(|&o| *times.entry(o).or_default() += 1);
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
