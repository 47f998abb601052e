//! The plan that a search begins with: legal, whatever the component is.
//!
//! Stored is what has to be, every reduction, and what keeps a kernel from being too much: operations in the middle of long chains, and values
//! that would be computed in too many places.

use super::{Component, State};
use crate::partition::facts::Facts;
use crate::partition::kernels::{Kernel, Kernels};
use crate::segment::{BitSet, ValueId};
use crate::write::rules::{MAX_KERNEL_OPS, MAX_MAPS, Rule, counts, is_constant, is_opaque, takes_rows};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use thalweg_ir::Op;

/// The first legal plan of a component.
pub(super) fn begin(kernels: &mut Kernels<'_, '_>, component: &Component) -> State {
    let facts = kernels.facts;
    let mut stored = facts.required.clone();
    for &i in component.ops.iter().filter(|&&i| takes_rows(facts.ix.seg.ops[i].op)) {
        stored.insert(facts.end_of_chain(i));
    }
    cut_long_chains(facts, component, &mut stored);
    loop {
        match one_by_one(kernels, component, &stored) {
            Ok(made) => return State::new(facts, stored, made),
            Err((i, Rule::Full)) if store_repeated(facts, i, &mut stored) => {}
            Err((i, rule)) => {
                let (op, fused) = (facts.ix.seg.ops[i].op, facts.ix.seg.mode.fused);
                panic!("operation {i}, {}, is no kernel by itself (fused: {fused}): {rule}", op.name())
            }
        }
    }
}

/// A kernel for each value that is stored, or the first that is none and why.
fn one_by_one(
    kernels: &mut Kernels<'_, '_>,
    component: &Component,
    stored: &BitSet,
) -> Result<Vec<Rc<Kernel>>, (usize, Rule)> {
    let stores = component.ops.iter().filter(|&&i| stored.has(i));
    stores.map(|&i| kernels.get(&[i], stored).map_err(|rule| (i, rule))).collect()
}

/// Stores operations in the middle of what would be too much for one kernel.
fn cut_long_chains(facts: &Facts<'_>, component: &Component, stored: &mut BitSet) {
    if component.ops.len() <= MAX_KERNEL_OPS {
        return;
    }
    let ix = &facts.ix;
    let n = ix.seg.ops.len();
    let mut reach: FxHashMap<usize, BitSet> = FxHashMap::default();
    for &i in &component.ops {
        let op = ix.seg.ops[i].op;
        let mut own = BitSet::new(n);
        if counts(op) {
            own.insert(i);
        }
        if !is_opaque(op) {
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
        if own.count() > MAX_KERNEL_OPS / 4 && counts(op) {
            stored.insert(i);
        }
        reach.insert(i, own);
    }
}

/// Stores what the kernel of `store` would compute in more than `MAX_MAPS` places; whether there is any. Ways to a value are counted, of which some may lead
/// to the same places: so it is asked only where a kernel is full.
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
        if i != store && ways[i] > MAX_MAPS && counts(op) {
            stored.insert(i);
            any = true;
            continue;
        }
        // What a gather takes from is in memory.
        for (_, v) in ix.tensors(i).skip((op == Op::Gather) as usize) {
            if let ValueId::Op(a) = v {
                ways[a] = ways[a].saturating_add(ways[i]);
            }
        }
    }
    any
}
