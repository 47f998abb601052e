//! Reach of a kernel: the operations that it would compute, down to its loads.
//!
//! In: the stores of a kernel, and the stores of all kernels. Out: the operations between them and memory, with the
//! folds and products among them; or the rule that they break.

use super::facts::Facts;
use crate::plan::KernelPlan;
use crate::segment::{BitSet, ValueId};
use crate::tunable::TUNABLES;
use crate::write::rules::{Rule, contracts, counts, is_constant, is_opaque};
use rustc_hash::FxHashSet;

/// Candidate kernel with its loads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    /// The kernel as a plan would hold it.
    pub plan: KernelPlan,
    /// Stored operations that the kernel loads, ascending.
    pub loads: Vec<usize>,
}

impl Candidate {
    /// Operations that the kernel computes, ascending.
    pub fn ops(&self) -> &[usize] {
        match &self.plan {
            KernelPlan::Map { ops, .. } | KernelPlan::Contraction { ops, .. } | KernelPlan::Opaque { ops, .. } => ops,
            KernelPlan::Group { .. } => unreachable!("groups are made of a finished plan"),
        }
    }
}

/// Operations that a kernel would compute and load.
pub(super) struct Reach {
    /// Operations that the kernel computes, ascending.
    pub ops: Vec<usize>,
    /// Stored operations that the kernel loads, ascending.
    pub loads: Vec<usize>,
    /// Reductions and scans among `ops`.
    pub folds: Vec<usize>,
    /// Matrix products among `ops` that fuse with their neighbours.
    pub products: Vec<usize>,
}

/// Stores of a candidate kernel, among the stores of all kernels.
#[derive(Clone, Copy)]
pub(crate) struct KernelStores<'k, 'a> {
    /// Facts about the segment.
    pub facts: &'k Facts<'a>,
    /// Stores of the kernel, ascending.
    pub stores: &'k [usize],
    /// Stores of all kernels.
    pub stored: &'k BitSet,
}

impl KernelStores<'_, '_> {
    /// Operations that the kernel would compute and load.
    pub(super) fn reach(&self) -> Result<Reach, Rule> {
        let KernelStores { facts, stores, stored } = *self;
        let ix = &facts.ix;
        let (mut seen, mut loads) = (FxHashSet::default(), vec![]);
        let mut left = stores.to_vec();
        let (mut ops, mut folds, mut products) = (vec![], vec![], vec![]);
        let (mut counted, mut parts) = (0, 0);
        while let Some(i) = left.pop() {
            if !seen.insert(i) {
                continue;
            }
            let op = ix.seg.ops[i].op;
            if stored.has(i) && !stores.contains(&i) && !(is_constant(op) && ix.seg.mode.fused) {
                loads.push(i);
                continue;
            }
            if is_opaque(op, ix.seg.mode) && !stores.contains(&i) {
                return Err(Rule::Opaque);
            }
            ops.push(i);
            if ix.takes_rows(i) {
                folds.push(i);
            }
            if contracts(op, ix.seg.mode) {
                products.push(i);
            }
            counted += counts(op) as usize;
            parts += op.info().limited as usize;
            if !TUNABLES.max_kernel_ops.admits(counted) || !TUNABLES.max_puts.admits(parts) {
                return Err(Rule::Full);
            }
            match facts.operands.get(&i) {
                // An opaque operation reads its operands from memory, or computes them.
                Some(operands) => {
                    for o in operands.iter().filter_map(|v| op_of(*v)) {
                        if stored.has(o) { loads.push(o) } else { left.push(o) }
                    }
                }
                None => {
                    let mut arguments = ix.tensors(i).map(|(_, v)| v);
                    let sources = arguments.by_ref().take(op.info().args_in_memory());
                    loads.extend(sources.filter_map(|v| self.loaded(v)));
                    left.extend(arguments.filter_map(op_of));
                }
            }
        }
        if ix.seg.mode.compiles_long() && !folds.is_empty() && !TUNABLES.max_fold_stores.admits(stores.len()) {
            return Err(Rule::Full);
        }
        ops.sort_unstable();
        folds.sort_unstable();
        loads.sort_unstable();
        loads.dedup();
        Ok(Reach { ops, loads, folds, products })
    }

    /// Index of the stored operation that a value is read from in memory; `None` if it is read from an input.
    fn loaded(&self, v: ValueId) -> Option<usize> {
        op_of(crate::write::movement::view_base(&self.facts.ix, v, &|i| self.stored.has(i)).0)
    }
}

fn op_of(v: ValueId) -> Option<usize> {
    match v {
        ValueId::Op(i) => Some(i),
        ValueId::Input(_) => None,
    }
}
