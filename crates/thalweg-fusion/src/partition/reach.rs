//! What a kernel that stores these would compute, down to what it loads.
//!
//! In: operations to be stored by a kernel, and what all kernels store. Out: the operations between them and memory, the
//! folds and products among them in particular; or the rule that this many, or these, break.

use super::facts::Facts;
use crate::plan::KernelPlan;
use crate::segment::{BitSet, ValueId};
use crate::tunable::TUNABLES;
use crate::write::rules::{Rule, contracts, counts, is_constant, is_opaque};
use rustc_hash::FxHashSet;
use thalweg_ir::Op;

/// What a kernel would be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    /// As it stands in a plan.
    pub plan: KernelPlan,
    /// Stored operations that it reaches, ascending: what it loads.
    pub loads: Vec<usize>,
}

/// What a kernel would compute and load.
pub(super) struct Reach {
    /// Operations computed in it, ascending.
    pub ops: Vec<usize>,
    /// Stored operations it loads, ascending.
    pub loads: Vec<usize>,
    /// Reductions and scans among `ops`.
    pub folds: Vec<usize>,
    /// Products among `ops` that share a kernel with others.
    pub products: Vec<usize>,
}

impl Reach {
    pub(super) fn of(facts: &Facts<'_>, stores: &[usize], stored: &BitSet) -> Result<Reach, Rule> {
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
            parts += (op == Op::Put) as usize;
            if !TUNABLES.max_kernel_ops.admits(counted) || !TUNABLES.max_puts.admits(parts) {
                return Err(Rule::Full);
            }
            match facts.operands.get(&i) {
                // An operation by itself has its operands in memory, or computes them.
                Some(operands) => {
                    for o in operands.iter().filter_map(|v| op_of(*v)) {
                        if stored.has(o) { loads.push(o) } else { left.push(o) }
                    }
                }
                None if op == Op::Gather => {
                    let mut arguments = ix.tensors(i).map(|(_, v)| v);
                    let source = arguments.next().expect("a gather has a source");
                    loads.extend(in_memory(facts, source, stored));
                    left.extend(arguments.filter_map(op_of));
                }
                None => left.extend(ix.tensors(i).filter_map(|(_, v)| op_of(v))),
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
}

fn op_of(v: ValueId) -> Option<usize> {
    match v {
        ValueId::Op(i) => Some(i),
        ValueId::Input(_) => None,
    }
}

/// The stored operation that a value is read from in memory.
fn in_memory(facts: &Facts<'_>, v: ValueId, stored: &BitSet) -> Option<usize> {
    op_of(crate::write::movement::view_base(&facts.ix, v, &|i| stored.has(i)).0)
}
