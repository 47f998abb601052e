//! Initial plan of a search: legal for any component.
//!
//! It stores required results, every reduction, scan and product (or the end of its elementwise epilogue), and values
//! that keep kernels within limits: operations in the middle of long chains, and values that would be computed in too
//! many places. If a kernel still breaks a rule, everything that it would compute is stored, down to one operation per
//! kernel, as without fusion. Only if that is illegal too there is no plan, and the result is the rule.

use super::{ComponentSearch, NoPlan, State};
use crate::partition::facts::Facts;
use crate::partition::kernels::Kernel;
use crate::segment::{BitSet, ValueId};
use crate::tunable::TUNABLES;
use crate::write::rules::{Rule, contracts, counts, is_constant, is_opaque};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use thalweg_ir::{Op, OpClass};

/// Minimum number of times that a first plan computes an operation, on average, at which another one is made, too.
const MAX_REPETITION: usize = 2;
/// Minimum number of times at which only the other one is made, if that repeats little: to write kernels that compute each
/// iteration of a loop from the beginning takes time that is quadratic in the iterations.
const HOPELESS_REPETITION: usize = 8;

impl ComponentSearch<'_, '_, '_> {
    /// First legal plan of the component. If its kernels would compute most operations several times, one that stores
    /// what several kernels compute is made, too, or instead of it: a loop that passes on two values, of which the first
    /// plan stores one, computes the other in each iteration from all iterations before. To store it in one iteration
    /// after the other takes a move each, of which each writes all later kernels again.
    pub(super) fn begin(&mut self) -> Result<State, NoPlan> {
        let stored = self.begun();
        if !self.kernels.facts.ix.seg.mode.fused {
            return self.until_legal(stored);
        }
        if self.repeats(&stored, HOPELESS_REPETITION) {
            let mut shared = stored.clone();
            self.store_shared(&mut shared);
            if !self.repeats(&shared, MAX_REPETITION) {
                return self.until_legal(shared);
            }
        }
        let begun = self.until_legal(stored)?;
        let computed: usize = begun.kernels.iter().map(|k| k.candidate.ops().len()).sum();
        if computed < MAX_REPETITION * self.component.ops.len() {
            return Ok(begun);
        }
        // From what the first one stores so that its kernels are legal.
        let mut shared = begun.stored.clone();
        self.store_shared(&mut shared);
        let shared = self.until_legal(shared)?;
        Ok(if shared.time < begun.time { shared } else { begun })
    }

    /// Whether kernels with these stores, one each, would compute at least `times` as many operations as there are.
    fn repeats(&self, stored: &BitSet, times: usize) -> bool {
        let (facts, most) = (self.kernels.facts, times * self.component.ops.len());
        let mut computed = 0;
        self.component.ops.iter().filter(|&&i| stored.has(i)).any(|&i| {
            computed += facts.computed_by(i, stored).len();
            computed >= most
        })
    }

    /// First legal plan that in addition stores values which several kernels would recompute, if that is expensive.
    pub(super) fn begin_shared(&mut self) -> Result<State, NoPlan> {
        let mut stored = self.begun();
        self.store_shared(&mut stored);
        self.until_legal(stored)
    }

    /// Stores of the first plan: every fold and product, or the end of its single-use chain.
    pub(in crate::partition) fn begun(&self) -> BitSet {
        let facts = self.kernels.facts;
        let mut stored = facts.required.clone();
        let seg = facts.ix.seg;
        for &i in &self.component.ops {
            if contracts(seg.ops[i].op, seg.mode) {
                stored.insert(facts.end_of_product(i));
                facts.ix.tensors(i).filter_map(|(_, v)| facts.in_memory(v)).for_each(|base| stored.insert(base));
            } else if facts.ix.takes_rows(i) {
                stored.insert(facts.end_of_chain(i));
            }
        }
        self.cut_long_chains(&mut stored);
        self.cut_chains_of_parts(&mut stored);
        stored
    }

    /// Stores values that more than one kernel would compute, at the point where their users diverge: everything before
    /// them is then computed once.
    pub(in crate::partition) fn store_shared(&self, stored: &mut BitSet) {
        let facts = self.kernels.facts;
        let ix = &facts.ix;
        let n = ix.seg.ops.len();
        // For each operation, the kernels (by their store) that compute it, and whether its users are in different
        // kernels.
        let mut homes: FxHashMap<usize, (BitSet, bool)> = FxHashMap::default();
        for &user in self.component.ops.iter().rev().filter(|&&i| facts.needed.has(i)) {
            let of_user = match homes.get(&user) {
                Some((homes, _)) if !stored.has(user) => homes.clone(),
                _ => {
                    let mut own = BitSet::new(n);
                    own.insert(user);
                    own
                }
            };
            for a in facts.read_by(user).filter(|&a| !stored.has(a)) {
                match homes.get_mut(&a) {
                    Some((all, part)) => {
                        *part |= *all != of_user;
                        all.union(&of_user);
                    }
                    None => {
                        homes.insert(a, (of_user.clone(), false));
                    }
                }
            }
        }
        // Additions per element of each operation, accumulated from stored values, which cost nothing.
        let mut additions = vec![0u64; n];
        for &i in &self.component.ops {
            if stored.has(i) {
                continue;
            }
            // An operand read twice counts twice, which overflows over a long chain without saturation.
            let own = own_additions(ix.seg.ops[i].op);
            additions[i] = facts.read_by(i).fold(own, |sum, a| sum.saturating_add(additions[a]));
            let Some((kernels, true)) = homes.get(&i) else { continue };
            let again = kernels.count() as u64;
            if again > 1 && again.saturating_mul(additions[i]) >= MUCH && facts.may_store(i) {
                stored.insert(i);
                additions[i] = 0;
            }
        }
    }

    /// Plan that stores at least `stored`, each value in a kernel of its own, and everything that these kernels need to
    /// be legal.
    pub(in crate::partition) fn until_legal(&mut self, mut stored: BitSet) -> Result<State, NoPlan> {
        let facts = self.kernels.facts;
        loop {
            match self.one_by_one(&stored) {
                Ok(made) => return Ok(State::new(stored, made)),
                Err((i, Rule::Full)) if facts.store_repeated(i, &mut stored) => {}
                Err((i, rule)) if facts.store_all_inside(i, &mut stored) => {
                    let name = facts.ix.seg.ops[i].op.name();
                    tracing::debug!(target: "thalweg::plan", operation = i, name, %rule, "stored is all that its kernel would compute");
                }
                Err((op, rule)) => return Err(NoPlan { op, name: facts.ix.seg.ops[op].op.name(), rule }),
            }
        }
    }

    /// A kernel for each stored value (one for all results of one call), or the first illegal one in canonical order
    /// with its rule. Stores added for that one may change other kernels.
    fn one_by_one(&mut self, stored: &BitSet) -> Result<Vec<Rc<Kernel>>, (usize, Rule)> {
        let stores: Vec<usize> = self.component.ops.iter().copied().filter(|&i| stored.has(i)).collect();
        let facts = self.kernels.facts;
        // Results of one call are written by one launch.
        let first = |i: usize| !stores.iter().any(|&s| s < i && facts.ix.is_same_call(s, i));
        let firsts = facts.ranked(&stores).into_iter().filter(|&i| !facts.is_foreign(i) || first(i));
        let whole = |i: usize| match facts.is_foreign(i) {
            true => stores.iter().copied().filter(|&s| s == i || facts.ix.is_same_call(s, i)).collect(),
            false => vec![i],
        };
        firsts.map(|i| self.kernels.get(&whole(i), stored).map_err(|rule| (i, rule))).collect()
    }

    /// Adds to `stored` operations in the middle of chains that are too long for one kernel.
    fn cut_long_chains(&self, stored: &mut BitSet) {
        let facts = self.kernels.facts;
        if TUNABLES.max_kernel_ops.admits(self.component.ops.len()) {
            return;
        }
        let ix = &facts.ix;
        let n = ix.seg.ops.len();
        let most = TUNABLES.max_kernel_ops.get() / 4;
        let mut reach: FxHashMap<usize, BitSet> = FxHashMap::default();
        for &i in &self.component.ops {
            let op = ix.seg.ops[i].op;
            let mut own = BitSet::new(n);
            if counts(op) {
                own.insert(i);
            }
            if !is_opaque(op, ix.seg.mode) {
                for (_, v) in ix.tensors(i) {
                    if let ValueId::Op(a) = v
                        && !stored.has(a)
                        && let Some(reach) = reach.get(&a)
                    {
                        own.union(reach);
                    }
                }
            }
            // A quarter of the limit: an operation has up to three arguments, each of which adds as much.
            if own.count() > most && counts(op) {
                stored.insert(i);
            }
            reach.insert(i, own);
        }
    }

    /// Adds to `stored` every n-th result of a long chain of `Put`s, so that no kernel has more than `max_puts`.
    fn cut_chains_of_parts(&self, stored: &mut BitSet) {
        let facts = self.kernels.facts;
        let ops = facts.ix.seg.ops;
        let most = TUNABLES.max_puts.get();
        if TUNABLES.max_puts.admits(self.component.ops.iter().filter(|&&i| ops[i].op.info().limited).count()) {
            return;
        }
        // Number of `Put`s between each operation and stored values.
        let mut parts = vec![0usize; ops.len()];
        for &i in &self.component.ops {
            let before = facts.read_by(i).filter(|&a| !stored.has(a)).map(|a| parts[a]).sum::<usize>();
            parts[i] = before.min(most) + ops[i].op.info().limited as usize;
            if ops[i].op.info().limited && parts[i] >= most && facts.may_store(i) {
                stored.insert(i);
            }
        }
    }
}

impl Facts<'_> {
    /// Value that is stored from the start because a product's operand reads it. It is the computed source of windows,
    /// which would be recomputed for each window, or a concatenation, where each block would decide again which side an
    /// element comes from.
    fn in_memory(&self, mut v: ValueId) -> Option<usize> {
        let seg = self.ix.seg;
        let mut windows = false;
        while let ValueId::Op(i) = v {
            let op = seg.ops[i].op;
            if op == Op::Cat {
                return self.may_store(i).then_some(i);
            }
            if !op.is_view() {
                return (windows && !is_constant(op)).then_some(i);
            }
            let of = self.ix.tensors(i).next()?.1;
            windows |= op.info().windows && seg.shapes[i].numel() > self.ix.shape(of).numel();
            v = of;
        }
        None
    }

    /// Adds to `stored` everything that the kernel of `store` would compute. Returns whether there is anything.
    fn store_all_inside(&self, store: usize, stored: &mut BitSet) -> bool {
        let inside = self.computed_by(store, stored);
        let ops = &self.ix.seg.ops;
        let inside = inside.into_iter().filter(|&i| i != store && counts(ops[i].op)).collect::<Vec<_>>();
        inside.iter().for_each(|&i| stored.insert(i));
        !inside.is_empty()
    }

    fn is_foreign(&self, i: usize) -> bool {
        self.ix.seg.ops[i].op.class() == OpClass::Foreign
    }

    /// Adds to `stored` the operations that the kernel of `store` would compute under more than `max_maps` maps.
    /// Returns whether there are any. It counts paths to a value, some of which may have equal maps, so it is used only
    /// if a kernel is full.
    fn store_repeated(&self, store: usize, stored: &mut BitSet) -> bool {
        let ix = &self.ix;
        let mut ways = vec![0usize; store + 1];
        ways[store] = 1;
        let mut any = false;
        // An argument precedes its use, so all paths to an operation are known when it is visited.
        for i in (0..=store).rev().filter(|&i| self.needed.has(i)) {
            let op = ix.seg.ops[i].op;
            if ways[i] == 0 || i != store && (stored.has(i) || is_constant(op)) {
                continue;
            }
            if i != store && counts(op) && !TUNABLES.max_maps.admits(ways[i]) {
                stored.insert(i);
                any = true;
                continue;
            }
            // A gather reads its source from memory.
            let sources = ix.tensors(i).take(op.info().args_in_memory());
            let in_memory = sources.filter(|(_, v)| matches!(v, ValueId::Op(_))).count();
            for a in self.read_by(i).skip(in_memory) {
                ways[a] = ways[a].saturating_add(ways[i]);
            }
        }
        any
    }
}

/// Minimum number of additions per element, over all kernels that compute a value, at which the value is stored
/// instead: about the cost of writing it once and reading it in each of them.
const MUCH: u64 = 32;

/// Approximate cost of an operation per element, in additions.
fn own_additions(op: Op) -> u64 {
    match op {
        Op::Element(e) => u64::from(e.row().cost),
        op => match (op.region(), op.class()) {
            (Some(l), _) => u64::from(l.cost()),
            (None, OpClass::Random) => 100,
            (None, OpClass::Gather) => 10,
            (None, _) => u64::from(counts(op)),
        },
    }
}
