//! Flash attention as a move: weights between two products, on a device with tile contractions, are one kernel or
//! three.
//!
//! A device with tile contractions folds nothing along rows of an operand, except one-pass weights whose scores are
//! another product's accumulators (docs/gpu-contractions.md). A softmax alone can be merged with neither product, only
//! all of it with both. No pairwise move leads there, so this is a separate move: it merges the product of the weights,
//! the folds along its left operand's rows, and the product of the scores. The products' operands have to be in memory
//! and are stored if they are not.

use super::greedy::GreedySearch;
use super::indexed::IndexedState;
use crate::partition::log::{Move, considered};
use crate::write::rules::Rule;
use thalweg_ir::{ElementOp, Op};
use thalweg_kernel::Contracts;

impl GreedySearch<'_, '_, '_> {
    /// Makes all flash attention moves that gain.
    pub(super) fn stream(&mut self) {
        let facts = self.kernels.facts;
        if facts.ix.seg.mode.contracts != Contracts::Tiles {
            return;
        }
        // A kernel is named by one of its stores, which stays the same while others are merged, unless it is inside of
        // one.
        let products = self
            .state
            .canonical()
            .into_iter()
            .map(|k| self.state.kernel(k))
            .filter(|k| self.has_exponentials(k.candidate.ops()));
        let names: Vec<usize> = products.filter(|k| k.candidate.plan.product().is_some()).map(|k| k.name).collect();
        for name in names {
            if !self.state.stored.has(name) {
                continue;
            }
            let next = self.flash_attention(self.state.home(name));
            let time = next.as_ref().map(|n| n.time).map_err(|rule| *rule);
            considered(facts, Move::AbsorbRows, &[name], self.state.time, time);
            if let Ok(next) = next
                && next.time < self.state.time
            {
                self.state = next;
            }
        }
    }

    fn has_exponentials(&self, ops: &[usize]) -> bool {
        ops.iter().any(|&i| self.kernels.facts.ix.seg.ops[i].op == Op::Element(ElementOp::Exp))
    }

    /// State in which a product, the weights that are its left operand, and the product of the scores are one kernel.
    fn flash_attention(&mut self, home: usize) -> Result<IndexedState, Rule> {
        let facts = self.kernels.facts;
        let inside = self.inside(home);
        let products: Vec<usize> =
            inside.iter().filter_map(|&k| self.state.kernel(k).candidate.plan.product()).collect();
        let (&[a, b], Some(outer)) = (&products[..], self.state.kernel(home).candidate.plan.product()) else {
            return Err(Rule::SecondProduct);
        };
        let inner = if a == outer { b } else { a };
        // Operands of both products: queries, keys and values.
        let operands = facts.ix.tensors(inner).chain(facts.ix.tensors(outer).skip(1));
        let computed: Vec<usize> = operands.filter_map(|(_, v)| self.computed(v)).collect();
        let mut stored = self.state.clone();
        let names: Vec<usize> = inside.iter().map(|&k| self.state.kernel(k).name).collect();
        for v in computed {
            if !stored.stored.has(v) {
                stored.apply(self.kernels.stored_in(&stored, v, None)?);
            }
        }
        let mut inside: Vec<usize> = names.into_iter().map(|n| stored.home(n)).collect();
        inside.sort_unstable();
        stored.apply(self.kernels.united(&stored, &inside)?);
        Ok(stored)
    }

    /// Indices of the kernels to merge: that of a product, those of the folds that it reads, and those of the products
    /// that these fold.
    fn inside(&self, home: usize) -> Vec<usize> {
        let loads = |k: usize| self.state.kernel(k).candidate.loads.iter().copied();
        let mut inside = vec![home];
        let class = loads(home).find_map(|l| self.kernels.facts.rows_of_value(l));
        // Two rounds: the sum of exponentials may be in another kernel than the maximum, which it reads.
        for _ in 0..2 {
            let folds = inside
                .iter()
                .flat_map(|&k| loads(k))
                .filter(|&l| class.is_some() && self.kernels.facts.rows_of_value(l) == class);
            let folds: Vec<usize> = folds.map(|l| self.state.home(l)).collect();
            inside.extend(folds);
            inside.sort_unstable();
            inside.dedup();
        }
        let folds = inside.iter().filter(|&&k| k != home);
        let behind: Vec<usize> = folds.flat_map(|&k| loads(k)).map(|l| self.state.home(l)).collect();
        inside.extend(behind.into_iter().filter(|&k| self.state.kernel(k).candidate.plan.product().is_some()));
        inside.sort_unstable();
        inside.dedup();
        inside
    }
}
