//! From drafts of kernels to a plan: passes that can be one are made one, and kernels put in the order in which they run; short ones that need nothing
//! of each other in bundles.

use super::{Partition, bundles};
use crate::plan::{KernelPlan, OutputPlan, Plan};
use crate::segment::ValueId;

impl Partition<'_> {
    pub(super) fn finish(mut self, outputs: Vec<(usize, OutputPlan)>) -> Plan {
        self.share_passes();
        self.drop_empty();
        for k in 0..self.kernels.len() {
            if let Some(d) = self.kernels[k].domain {
                let shape = self.ix.shape(d);
                let others = self.kernels[k].stores.iter().map(|&s| ValueId::Op(s));
                let others = others.filter(|&s| s != d && self.ix.shape(s) == shape);
                self.same_shape.extend(others.map(|s| (s, d)));
            }
        }
        let order = self.run_order();
        let mut place = vec![0; order.len()];
        for (at, &k) in order.iter().enumerate() {
            place[k] = at;
        }
        let mut kernels = order
            .iter()
            .map(|&k| {
                let draft = &self.kernels[k];
                let sorted = |from: &Vec<usize>| {
                    let mut all = from.clone();
                    all.sort_unstable();
                    all
                };
                let stores = sorted(&draft.stores);
                let (row_stores, column_stores) = (sorted(&draft.row_stores), sorted(&draft.column_stores));
                let (rows, ops) = (draft.rows, draft.ops.iter().collect());
                match draft.domain {
                    Some(domain) => KernelPlan::Map { domain, rows, stores, row_stores, column_stores, ops },
                    None => KernelPlan::Alone { op: stores[0], operands: draft.operands.clone(), ops },
                }
            })
            .collect();
        for e in &mut self.edges {
            (e.from, e.to) = (place[e.from], place[e.to]);
        }
        self.edges.sort_by_key(|e| (e.op, e.to));
        if self.ix.seg.mode.fused {
            let readers = |&k: &usize| self.kernels[k].readers.iter().map(|&r| place[r]).collect();
            let readers: Vec<Vec<usize>> = order.iter().map(readers).collect();
            kernels = bundles::bundle(&self.ix, kernels, &readers, &mut self.edges);
        }
        Plan { kernels, outputs, edges: self.edges, same_shape: self.same_shape }
    }

    /// The kernels so that each runs after those it reads from; among those that could run, the one whose first store was recorded first.
    pub(super) fn run_order(&self) -> Vec<usize> {
        let mut waits = vec![0; self.kernels.len()];
        for k in &self.kernels {
            for &r in &k.readers {
                waits[r] += 1;
            }
        }
        let first = |k: usize| {
            let draft = &self.kernels[k];
            let all = draft.stores.iter().chain(&draft.row_stores).chain(&draft.column_stores);
            *all.min().expect("a kernel stores something")
        };
        let mut ready: std::collections::BTreeSet<(usize, usize)> =
            (0..waits.len()).filter(|&k| waits[k] == 0).map(|k| (first(k), k)).collect();
        let mut order = Vec::with_capacity(waits.len());
        while let Some((_, k)) = ready.pop_first() {
            order.push(k);
            for &r in &self.kernels[k].readers {
                waits[r] -= 1;
                if waits[r] == 0 {
                    ready.insert((first(r), r));
                }
            }
        }
        assert_eq!(order.len(), waits.len(), "the kernels of a plan are acyclic");
        order
    }
}
