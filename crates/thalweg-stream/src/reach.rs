//! Dependences of each result of a run: on which inputs, and on which gathers and scatters.
//!
//! In: an instance with the operations that it computes. Out: sets of these for each result and each launch. So an
//! index out of range fails the results that depend on it, and no others. Always true: sets are conservative. If it is
//! unknown which operations a launch contains, its set has all of them.

use thalweg_fusion::{BitSet, Instance, Plan};
use thalweg_ir::{Arg, OpClass, RelOp, Shape};
use thalweg_kernel::Kernel;

/// Gather or scatter of a segment, by index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Indexed {
    /// Index of the operation.
    pub op: usize,
    pub scatters: bool,
    pub axis: usize,
    /// Size of the axis that is indexed.
    pub size: usize,
}

/// Dependences of results and launches; see the module.
#[derive(Debug)]
pub(crate) struct Reach {
    /// Gathers and scatters of the segment.
    pub indexed: Vec<Indexed>,
    /// Dependences of each output: a set of inputs, and a set of indices into `indexed`.
    pub outputs: Vec<(BitSet, BitSet)>,
    /// Dependences of each step: a set of indices into `indexed`.
    pub steps: Vec<BitSet>,
}

/// Whether a launch may read an index that is out of range.
pub(crate) fn may_be_out_of_range(instance: &Instance) -> bool {
    instance.steps.iter().any(|s| s.out_of_range.is_some() || matches!(*s.kernel, Kernel::Scatter { .. }))
}

impl Reach {
    /// Dependences in an instance of a plan; `shape` gives the shapes of operations and inputs.
    pub fn new(plan: &Plan, instance: &Instance, ops: &[RelOp], inputs: usize, shape: &dyn Fn(Arg) -> Shape) -> Reach {
        let mut indexed: Vec<Indexed> = vec![];
        for (op, rel) in ops.iter().enumerate() {
            if rel.op.info().index_arg.is_some()
                && let Some(from) = rel.args().next()
            {
                let axis = (rel.attr & 7) as usize;
                let size = shape(from).dims().get(axis).copied().unwrap_or(0);
                indexed.push(Indexed { op, scatters: rel.op.class() == OpClass::Scatter, axis, size });
            }
        }
        let mut all: Vec<(BitSet, BitSet)> = Vec::with_capacity(ops.len());
        for (i, rel) in ops.iter().enumerate() {
            let mut own = (BitSet::new(inputs), BitSet::new(indexed.len()));
            for arg in rel.args() {
                match arg {
                    Arg::Input(n) => own.0.insert(n),
                    Arg::Op(o) => {
                        own.0.union(&all[o].0);
                        own.1.union(&all[o].1);
                    }
                    _ => {}
                }
            }
            if let Ok(at) = indexed.binary_search_by_key(&i, |x| x.op) {
                own.1.insert(at);
            }
            all.push(own);
        }
        let outputs = instance.outputs.iter().map(|o| all[o.op].clone()).collect();
        let step = |s: &thalweg_fusion::Step| {
            let mut own = BitSet::new(indexed.len());
            let kernel = plan.kernels.get(s.kernel_index).filter(|_| !plan.is_rewritten());
            // A rewritten segment has other operation indices, so its launches may contain any operation.
            match kernel {
                Some(kernel) => kernel
                    .ops()
                    .filter_map(|op| indexed.binary_search_by_key(&op, |x| x.op).ok())
                    .for_each(|at| own.insert(at)),
                None => (0..indexed.len()).for_each(|at| own.insert(at)),
            }
            own
        };
        let steps = instance.steps.iter().map(step).collect();
        Reach { indexed, outputs, steps }
    }
}
