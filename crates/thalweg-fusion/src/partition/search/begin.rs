//! The plan that a search begins with: legal, whatever the component is.
//!
//! Stored is what has to be, every reduction, scan and product (or what is made of its sums alone), and what keeps a
//! kernel from being too much: operations in the middle of long chains, and values that would be computed in too many
//! places. Where a kernel breaks another rule all the same,
//! everything that it would compute is stored: down to one operation a kernel, which is what runs without fusion. Only
//! if that is no kernel either there is no plan, and the answer is the rule.

use super::{Component, NoPlan, State};
use crate::partition::facts::Facts;
use crate::partition::kernels::{Kernel, Kernels, computed_by};
use crate::segment::{BitSet, ValueId};
use crate::tunable::TUNABLES;
use crate::write::rules::{Rule, contracts, counts, is_constant, is_opaque};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use thalweg_ir::Op;

/// The first legal plan of a component.
pub(super) fn begin(kernels: &mut Kernels<'_, '_>, component: &Component) -> Result<State, NoPlan> {
    let stored = begun(kernels.facts, component);
    until_legal(kernels, component, stored)
}

/// A plan that begins with what several kernels of the first one would compute again stored, where that is much.
pub(super) fn begin_shared(kernels: &mut Kernels<'_, '_>, component: &Component) -> Result<State, NoPlan> {
    let mut stored = begun(kernels.facts, component);
    store_shared(kernels.facts, component, &mut stored);
    until_legal(kernels, component, stored)
}

/// What the first plan stores: every fold and product, with the chain that only serves the next.
pub(super) fn begun(facts: &Facts<'_>, component: &Component) -> BitSet {
    let mut stored = facts.required.clone();
    let seg = facts.ix.seg;
    for &i in &component.ops {
        if contracts(seg.ops[i].op, seg.mode) {
            stored.insert(facts.end_of_product(i));
            facts.ix.tensors(i).filter_map(|(_, v)| in_memory(facts, v)).for_each(|base| stored.insert(base));
        } else if facts.ix.takes_rows(i) {
            stored.insert(facts.end_of_chain(i));
        }
    }
    cut_long_chains(facts, component, &mut stored);
    cut_chains_of_parts(facts, component, &mut stored);
    stored
}

/// What is stored of a product's factor from the start: what its windows are taken of, where that is computed, since it
/// would be so again for each window; and what it is joined of, since each block of it would find out anew which part an
/// element comes from.
fn in_memory(facts: &Facts<'_>, mut v: ValueId) -> Option<usize> {
    let seg = facts.ix.seg;
    let mut windows = false;
    while let ValueId::Op(i) = v {
        let op = seg.ops[i].op;
        if op == Op::Cat {
            return facts.may_store(i).then_some(i);
        }
        if !op.is_view() {
            return (windows && !is_constant(op)).then_some(i);
        }
        let of = facts.ix.tensors(i).next()?.1;
        windows |= op == Op::Window && seg.shapes[i].numel() > facts.ix.shape(of).numel();
        v = of;
    }
    None
}

/// Additions an element, over all kernels that compute a value, from which it is rather stored: about what writing it
/// once and reading it in each of them takes.
const MUCH: u64 = 32;

/// Stores values that more than one kernel would compute, where their ways part: everything before them is then
/// computed once.
fn store_shared(facts: &Facts<'_>, component: &Component, stored: &mut BitSet) {
    let ix = &facts.ix;
    let n = ix.seg.ops.len();
    // For each operation the kernels, by what they store, that compute it, and whether its users differ in that.
    let mut homes: FxHashMap<usize, (BitSet, bool)> = FxHashMap::default();
    for &user in component.ops.iter().rev().filter(|&&i| facts.needed.has(i)) {
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
    // Additions that an element takes from what is stored, ascending: what was stored on the way costs nothing further.
    let mut additions = vec![0u64; n];
    for &i in &component.ops {
        if stored.has(i) {
            continue;
        }
        // What an operation reads twice counts twice: over a long chain that is more than a number holds.
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

/// Additions that an operation amounts to, an element, roughly.
fn own_additions(op: Op) -> u64 {
    match op {
        Op::Element(e) => u64::from(e.row().cost),
        Op::Loop(l) | Op::FoldBy(l) | Op::ScanBy(l) => u64::from(l.cost()),
        Op::Random(_) => 100,
        Op::Gather => 10,
        op => u64::from(counts(op)),
    }
}

/// The plan that stores at least these, each by a kernel of its own, and what else these kernels need to be allowed.
pub(in crate::partition) fn until_legal(
    kernels: &mut Kernels<'_, '_>,
    component: &Component,
    mut stored: BitSet,
) -> Result<State, NoPlan> {
    let facts = kernels.facts;
    loop {
        match one_by_one(kernels, component, &stored) {
            Ok(made) => return Ok(State::new(facts, stored, made)),
            Err((i, Rule::Full)) if store_repeated(facts, i, &mut stored) => {}
            Err((i, rule)) if store_all_inside(facts, i, &mut stored) => {
                let name = facts.ix.seg.ops[i].op.name();
                tracing::debug!(target: "thalweg::plan", operation = i, name, %rule, "stored is all that its kernel would compute");
            }
            Err((op, rule)) => return Err(NoPlan { op, name: facts.ix.seg.ops[op].op.name(), rule }),
        }
    }
}

/// Stores everything that the kernel of `store` would compute; whether there is anything.
fn store_all_inside(facts: &Facts<'_>, store: usize, stored: &mut BitSet) -> bool {
    let inside = computed_by(facts, store, stored);
    let ops = &facts.ix.seg.ops;
    let inside = inside.into_iter().filter(|&i| i != store && counts(ops[i].op)).collect::<Vec<_>>();
    inside.iter().for_each(|&i| stored.insert(i));
    !inside.is_empty()
}

/// A kernel for each value that is stored (for the results of one call together), or the first in the canonical order that is none and why: what is stored for
/// its sake may make a kernel of another.
fn one_by_one(
    kernels: &mut Kernels<'_, '_>,
    component: &Component,
    stored: &BitSet,
) -> Result<Vec<Rc<Kernel>>, (usize, Rule)> {
    let stores: Vec<usize> = component.ops.iter().copied().filter(|&i| stored.has(i)).collect();
    let facts = kernels.facts;
    // Results of one call are written by one launch.
    let first = |i: usize| !stores.iter().any(|&s| s < i && facts.ix.is_same_call(s, i));
    let firsts = facts.ranked(&stores).into_iter().filter(|&i| !is_foreign(facts, i) || first(i));
    let whole = |i: usize| match is_foreign(facts, i) {
        true => stores.iter().copied().filter(|&s| s == i || facts.ix.is_same_call(s, i)).collect(),
        false => vec![i],
    };
    firsts.map(|i| kernels.get(&whole(i), stored).map_err(|rule| (i, rule))).collect()
}

fn is_foreign(facts: &Facts<'_>, i: usize) -> bool {
    matches!(facts.ix.seg.ops[i].op, Op::Foreign(_))
}

/// Stores operations in the middle of what would be too much for one kernel.
fn cut_long_chains(facts: &Facts<'_>, component: &Component, stored: &mut BitSet) {
    if TUNABLES.max_kernel_ops.admits(component.ops.len()) {
        return;
    }
    let ix = &facts.ix;
    let n = ix.seg.ops.len();
    let most = TUNABLES.max_kernel_ops.get() / 4;
    let mut reach: FxHashMap<usize, BitSet> = FxHashMap::default();
    for &i in &component.ops {
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
        // A quarter of what is allowed: an operation has up to three arguments, each of which brings as much.
        if own.count() > most && counts(op) {
            stored.insert(i);
        }
        reach.insert(i, own);
    }
}

/// Stores every so many results of a tensor that is written to part by part.
fn cut_chains_of_parts(facts: &Facts<'_>, component: &Component, stored: &mut BitSet) {
    let ops = facts.ix.seg.ops;
    let most = TUNABLES.max_puts.get();
    if TUNABLES.max_puts.admits(component.ops.iter().filter(|&&i| ops[i].op == Op::Put).count()) {
        return;
    }
    // How many parts are put in on the way to an operation from what is stored.
    let mut parts = vec![0usize; ops.len()];
    for &i in &component.ops {
        let before = facts.read_by(i).filter(|&a| !stored.has(a)).map(|a| parts[a]).sum::<usize>();
        parts[i] = before.min(most) + (ops[i].op == Op::Put) as usize;
        if ops[i].op == Op::Put && parts[i] >= most && facts.may_store(i) {
            stored.insert(i);
        }
    }
}

/// Stores what the kernel of `store` would compute in more than `max_maps` places; whether there is any. Ways to a
/// value are counted, of which some may lead to the same places: so it is asked only where a kernel is full.
fn store_repeated(facts: &Facts<'_>, store: usize, stored: &mut BitSet) -> bool {
    let ix = &facts.ix;
    let mut ways = vec![0usize; store + 1];
    ways[store] = 1;
    let mut any = false;
    // An argument precedes its use, so all ways to an operation are known when it is come to.
    for i in (0..=store).rev().filter(|&i| facts.needed.has(i)) {
        let op = ix.seg.ops[i].op;
        if ways[i] == 0 || i != store && (stored.has(i) || is_constant(op)) {
            continue;
        }
        if i != store && counts(op) && !TUNABLES.max_maps.admits(ways[i]) {
            stored.insert(i);
            any = true;
            continue;
        }
        // What a gather takes from is in memory.
        let in_memory = op == Op::Gather && matches!(ix.tensors(i).next(), Some((_, ValueId::Op(_))));
        for a in facts.read_by(i).skip(in_memory as usize) {
            ways[a] = ways[a].saturating_add(ways[i]);
        }
    }
    any
}
