//! Flash attention as a move: weights between two products, on a device with tile contractions, are one kernel or
//! three.
//!
//! A device with tile contractions folds nothing along rows of an operand, except one-pass weights whose scores are
//! another product's accumulators (docs/gpu-contractions.md). A softmax alone can be merged with neither product, only
//! all of it with both. No pairwise move leads there, so this is a separate move: it merges the product of the weights,
//! the folds along its left operand's rows, and the product of the scores. The products' operands have to be in memory
//! and are stored if they are not.

use super::State;
use super::factors::computed;
use super::greedy::{stored_in, united};
use crate::partition::facts::Facts;
use crate::partition::kernels::{Kernels, candidate_ops};
use crate::partition::log::{Move, considered};
use crate::write::rules::Rule;
use thalweg_ir::{ElementOp, Op};
use thalweg_kernel::Contracts;

/// Makes all flash attention moves that gain.
pub(super) fn stream(kernels: &mut Kernels<'_, '_>, state: &mut State) {
    let facts = kernels.facts;
    if facts.ix.seg.mode.contracts != Contracts::Tiles {
        return;
    }
    // A kernel is named by one of its stores, which stays the same while others are merged, unless it is inside of one.
    let products = state.kernels.iter().filter(|k| has_exponentials(facts, candidate_ops(&k.candidate)));
    let names: Vec<usize> = products.filter(|k| k.candidate.plan.product().is_some()).map(|k| k.name(facts)).collect();
    for name in names {
        if !state.stored.has(name) {
            continue;
        }
        let next = flash_attention(kernels, state, state.home(name));
        let time = next.as_ref().map(|n| n.time).map_err(|rule| *rule);
        considered(facts, Move::AbsorbRows, &[name], state.time, time);
        if let Ok(next) = next
            && next.time < state.time
        {
            *state = next;
        }
    }
}

fn has_exponentials(facts: &Facts<'_>, ops: &[usize]) -> bool {
    ops.iter().any(|&i| facts.ix.seg.ops[i].op == Op::Element(ElementOp::Exp))
}

/// State in which a product, the weights that are its left operand, and the product of the scores are one kernel.
fn flash_attention(kernels: &mut Kernels<'_, '_>, state: &State, home: usize) -> Result<State, Rule> {
    let facts = kernels.facts;
    let inside = inside(facts, state, home);
    let products: Vec<usize> = inside.iter().filter_map(|&k| state.kernels[k].candidate.plan.product()).collect();
    let (&[a, b], Some(outer)) = (&products[..], state.kernels[home].candidate.plan.product()) else {
        return Err(Rule::SecondProduct);
    };
    let inner = if a == outer { b } else { a };
    // Operands of both products: queries, keys and values.
    let operands = facts.ix.tensors(inner).chain(facts.ix.tensors(outer).skip(1));
    let computed: Vec<usize> = operands.filter_map(|(_, v)| computed(facts, state, v)).collect();
    let mut stored = state.clone();
    let names: Vec<usize> = inside.iter().map(|&k| state.kernels[k].name(facts)).collect();
    for v in computed {
        if !stored.stored.has(v) {
            stored = stored_in(kernels, &stored, v, None)?;
        }
    }
    let mut inside: Vec<usize> = names.into_iter().map(|n| stored.home(n)).collect();
    inside.sort_unstable();
    united(kernels, &stored, &inside)
}

/// Indices of the kernels to merge: that of a product, those of the folds that it reads, and those of the products that
/// these fold.
fn inside(facts: &Facts<'_>, state: &State, home: usize) -> Vec<usize> {
    let loads = |k: usize| state.kernels[k].candidate.loads.iter().copied();
    let mut inside = vec![home];
    let class = loads(home).find_map(|l| facts.rows_of_value(l));
    // Two rounds: the sum of exponentials may be in another kernel than the maximum, which it reads.
    for _ in 0..2 {
        let folds =
            inside.iter().flat_map(|&k| loads(k)).filter(|&l| class.is_some() && facts.rows_of_value(l) == class);
        let folds: Vec<usize> = folds.map(|l| state.home(l)).collect();
        inside.extend(folds);
        inside.sort_unstable();
        inside.dedup();
    }
    let folds = inside.iter().filter(|&&k| k != home);
    let behind: Vec<usize> = folds.flat_map(|&k| loads(k)).map(|l| state.home(l)).collect();
    inside.extend(behind.into_iter().filter(|&k| state.kernels[k].candidate.plan.product().is_some()));
    inside.sort_unstable();
    inside.dedup();
    inside
}
