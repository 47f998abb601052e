//! Operands of products, on a device with tile contractions: stored from the start of a search.
//!
//! In: a legal plan. Out: one that stores the operands of its products. They may still be recomputed where the search
//! finds that faster. docs/planner.md, "Factors in memory", has the idea.

use super::greedy::GreedySearch;
use crate::partition::log::{Move, considered};
use crate::segment::ValueId;
use crate::write::rules::{contracts, is_constant};
use rustc_hash::FxHashSet;
use thalweg_kernel::Contracts;

impl GreedySearch<'_, '_, '_> {
    /// Where the device reads operands of products by tiles: stores those operands that are computed, but not from
    /// another product, each by a kernel of its own. Something writes them to memory in any case. Only a stored operand
    /// can be fused into the kernel that produces it (a norm), or be written once for several products (a cast of
    /// weights).
    pub(super) fn store_factors(&mut self) {
        let facts = self.kernels.facts;
        if facts.ix.seg.mode.contracts != Contracts::Tiles {
            return;
        }
        let mut factors: Vec<usize> = vec![];
        for k in self.state.kernels() {
            let ops = k.candidate.ops();
            let products = ops.iter().copied().filter(|&i| contracts(facts.ix.seg.ops[i].op, facts.ix.seg.mode));
            let all = products.flat_map(|i| facts.ix.tensors(i)).filter_map(|(_, v)| self.computed(v));
            // Operands that depend on another product, as the weights of attention do, are not stored here.
            factors.extend(all.filter(|&i| facts.may_store(i) && !self.is_of_product(i)));
        }
        factors.sort_unstable();
        factors.dedup();
        let mut stored = self.state.stored.clone();
        factors.iter().for_each(|&i| stored.insert(i));
        let own: Vec<Vec<usize>> = factors.iter().map(|&i| vec![i]).collect();
        let next = self.kernels.changed(&self.state, (stored, &factors), &[], &own);
        considered(facts, Move::Store, &factors, self.state.time, next.as_ref().map(|n| n.time).map_err(|rule| *rule));
        match next {
            Ok(next) => self.state.apply(next),
            // Stores them one by one, so that one illegal store does not prevent the others.
            Err(_) => factors.iter().for_each(|&i| {
                if let Ok(next) = self.kernels.stored_in(&self.state, i, None) {
                    self.state.apply(next);
                }
            }),
        }
    }

    /// Whether a value depends on a product through values that are not stored.
    fn is_of_product(&self, i: usize) -> bool {
        let (mut seen, mut left) = (FxHashSet::default(), vec![i]);
        while let Some(i) = left.pop() {
            if contracts(self.kernels.facts.ix.seg.ops[i].op, self.kernels.facts.ix.seg.mode) {
                return true;
            }
            left.extend(self.kernels.facts.read_by(i).filter(|&a| !self.state.stored.has(a) && seen.insert(a)));
        }
        false
    }

    /// Operation that a value is a view of, if it is computed in the kernel that reads it; `None` for a value in memory
    /// (stored, or an input) and for a constant.
    pub(super) fn computed(&self, mut v: ValueId) -> Option<usize> {
        while let ValueId::Op(i) = v {
            let op = self.kernels.facts.ix.seg.ops[i].op;
            if self.state.stored.has(i) || is_constant(op) {
                return None;
            }
            if !op.is_view() {
                return Some(i);
            }
            v = self.kernels.facts.ix.tensors(i).next()?.1;
        }
        None
    }
}
