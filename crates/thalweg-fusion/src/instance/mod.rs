//! Instances: plans instantiated for concrete sizes.
//!
//! In: a plan and a segment of its pattern. Out: the kernels' bodies and geometry, and the value of every operand.
//! Locations and order of launches are the memory plan's (`memory/`). A body is the same for all sizes of a class, so a
//! device finds its program again. A plan with an assumption that these sizes break (equal shapes, a view that strides
//! express) has no instance for them.

use crate::write::body::{Outline, build_map};
mod group;
mod resize;

use crate::cost::{CostFeatures, Costs};
use crate::plan::{KernelPlan, OutputPlan, Plan};
use crate::scalars::ScalarClasses;
use crate::segment::{Indexed, Segment, ValueId};
use crate::write::contraction::{Wanted, contraction};
use crate::write::movement::{layout, strided, view_base};
use crate::write::opaque::opaque;
use crate::write::rules::Rule;
use crate::write::step::{Form, Slot, Step};
use group::group;
use resize::{form, resized};
use thalweg_ir::{OpClass, View};

/// Plan with sizes: launches, each after those it reads from.
#[derive(Debug)]
pub struct Instance {
    /// Launches of the plan's kernels.
    pub steps: Vec<Step>,
    /// Views of the live-outs, in order of the operations.
    pub outputs: Vec<Output>,
    /// Bytes of each buffer that a launch writes.
    pub buffers: Vec<usize>,
    /// Whether results may share memory: false without fusion.
    pub fused: bool,
}

/// Live-out of an instance: where its elements are after the run.
#[derive(Clone, Debug)]
pub struct Output {
    /// Index of the operation.
    pub op: usize,
    /// Slot of the memory that holds the elements.
    pub slot: Slot,
    /// View of that memory, of the live-out's shape.
    pub view: View,
}

/// Instantiates a plan for the sizes of a segment; `None` if the plan does not fit them.
pub fn instantiate(plan: &Plan, segment: Segment<'_>, classes: &ScalarClasses) -> Option<Instance> {
    instantiate_from(plan, segment, classes, None)
}

/// Like [`instantiate`], given an instance of the same plan and classes for other sizes. Kernels whose body does not
/// change are resized instead of written again.
pub fn instantiate_like(
    before: &Instance,
    plan: &Plan,
    segment: Segment<'_>,
    classes: &ScalarClasses,
) -> Option<Instance> {
    instantiate_from(plan, segment, classes, Some(before))
}

fn instantiate_from(
    plan: &Plan,
    segment: Segment<'_>,
    classes: &ScalarClasses,
    before: Option<&Instance>,
) -> Option<Instance> {
    if plan.rewrite.is_empty() {
        return instantiate_as_written(plan, segment, classes, before);
    }
    let rewritten = plan.rewrite.apply(&segment)?;
    let mut instance = instantiate_as_written(plan, rewritten.segment(&segment), classes, before)?;
    for output in &mut instance.outputs {
        output.op = rewritten.original(output.op)?;
    }
    Some(instance)
}

/// Instantiates a plan for a segment to which the plan's rewrite has been applied already.
fn instantiate_as_written(
    plan: &Plan,
    segment: Segment<'_>,
    classes: &ScalarClasses,
    before: Option<&Instance>,
) -> Option<Instance> {
    let ix = Indexed::new(segment);
    let mut buffers = Vec::new();
    let mut buffer_of = vec![None; segment.ops.len()];
    for kernel in &plan.kernels {
        for s in kernel.writes() {
            buffer_of[s] = Some(buffers.len());
            buffers.push(ix.bytes(ValueId::Op(s)));
        }
    }
    let slot = |v: ValueId| match v {
        ValueId::Input(i) => Slot::Input(i),
        ValueId::Op(i) => Slot::Buffer(buffer_of[i].expect("an operand in memory is stored")),
    };
    let stored = |i: usize| buffer_of[i].is_some();
    let worker = Worker { ix: &ix, slot: &slot, buffer_of: &buffer_of, stored: &stored, classes, before: None };
    let mut steps = Vec::new();
    for (kernel_index, kernel) in plan.kernels.iter().enumerate() {
        let mut parts = Vec::with_capacity(kernel.parts().len());
        // A launch for other sizes is identified by its kernel. In a group it could belong to any member, if the others
        // had nothing to write.
        let before = before.filter(|_| kernel.parts().len() == 1);
        let worker = Worker { before, ..worker };
        for part in kernel.parts() {
            parts.extend(worker.step(part, kernel_index).ok()?);
        }
        // Members of a group that have something to write.
        if parts.len() > 1 {
            steps.push(group(parts, out_of_range(&ix, kernel)));
        } else {
            steps.extend(parts);
        }
    }
    let mut outputs = Vec::with_capacity(plan.outputs.len());
    for &(op, how) in &plan.outputs {
        let (base, view) = match how {
            OutputPlan::Stored => (ValueId::Op(op), View::contiguous(segment.shapes[op])),
            OutputPlan::Alias => {
                let (base, chain) = view_base(&ix, ValueId::Op(op), &|i| i != op && stored(i));
                (base, strided(&ix, layout(&ix, base), &chain)?)
            }
        };
        outputs.push(Output { op, slot: slot(base), view });
    }
    Some(Instance { steps, outputs, buffers, fused: segment.mode.fused })
}

/// Context for instantiating the steps of a plan.
#[derive(Clone, Copy)]
struct Worker<'a> {
    ix: &'a Indexed<'a>,
    slot: &'a dyn Fn(ValueId) -> Slot,
    /// Buffer of each stored operation; `None` for the others.
    buffer_of: &'a [Option<usize>],
    stored: &'a dyn Fn(usize) -> bool,
    classes: &'a ScalarClasses,
    /// Instance of the same plan for other sizes, to adapt its launches.
    before: Option<&'a Instance>,
}

impl Worker<'_> {
    /// Launch adapted from one for other sizes, if nothing but sizes has changed.
    fn resized(&self, kernel: &KernelPlan, kernel_index: usize, form: &Option<Form>) -> Option<Step> {
        let form = form.as_ref()?;
        let alike = |s: &&Step| s.kernel_index == kernel_index && s.form.as_ref() == Some(form);
        let before = self.before?.steps.iter().find(alike)?;
        let value = |slot: &Slot| match *slot {
            Slot::Input(i) => Some(ValueId::Input(i)),
            Slot::Buffer(b) => self.buffer_of.iter().position(|&of| of == Some(b)).map(ValueId::Op),
        };
        let reads: Option<Vec<ValueId>> = before.operands[..before.first_write].iter().map(value).collect();
        resized(self.ix, kernel, before, &reads?)
    }

    /// Launch of a kernel that is not a group. `None` if it has nothing to write; the broken rule if the sizes do not
    /// fit.
    fn step(&self, plan: &KernelPlan, kernel_index: usize) -> Result<Option<Step>, Rule> {
        let (ix, slot) = (self.ix, self.slot);
        let shapes = ix.seg.shapes;
        match plan {
            KernelPlan::Map { domain, rows, stores, row_stores, column_stores, .. } => {
                // Nothing to write: all results are empty. A reduction over no elements still has results.
                if plan.writes().all(|s| shapes[s].numel() == 0) {
                    return Ok(None);
                }
                let form = form(ix, plan);
                if let Some(step) = self.resized(plan, kernel_index, &form) {
                    debug_assert!(
                        Worker { before: None, ..*self }
                            .step(plan, kernel_index)
                            .is_ok_and(|s| s.is_some_and(|s| format!("{s:?}") == format!("{step:?}"))),
                        "{step:?} is not what is written for these sizes"
                    );
                    return Ok(Some(step));
                }
                let outline =
                    Outline { domain: *domain, rows: *rows, stores, row_stores, column_stores, product: None };
                let map = build_map(ix, outline, self.stored, self.classes)?;
                let first_write = map.reads.len();
                let operands = map.reads.iter().copied().chain(plan.writes().map(ValueId::Op)).map(slot).collect();
                Ok(Some(Step {
                    kernel_index,
                    kernel: map.kernel.into(),
                    geometry: map.geometry.into(),
                    operands,
                    first_write,
                    scalars: map.scalars,
                    // Without fusion every operation has memory of its own, as its explanation says.
                    in_place: if ix.seg.mode.fused { map.in_place } else { vec![] },
                    out_of_range: out_of_range(ix, plan),
                    bytes_read: map.touched.iter().sum(),
                    touched: map.touched,
                    bytes_written: plan.writes().map(|s| ix.bytes(ValueId::Op(s))).sum(),
                    form,
                }))
            }
            KernelPlan::Contraction { products, stores, row_stores, .. } => {
                if plan.writes().all(|s| shapes[s].numel() == 0) {
                    return Ok(None);
                }
                let wanted = Wanted { products: *products, stores, row_stores };
                let mut step = contraction(ix, wanted, kernel_index, slot, self.stored, self.classes)?;
                step.out_of_range = out_of_range(ix, plan);
                Ok(Some(step))
            }
            KernelPlan::Opaque { stores, operands, .. } => {
                // A scatter into an empty tensor still has to report that no index is in range.
                let scatter = Some(stores[0]).filter(|&op| ix.seg.ops[op].op.class() == OpClass::Scatter);
                let indices = scatter.and_then(|op| ix.tensors(op).nth(1));
                let nothing = plan.writes().all(|s| shapes[s].numel() == 0);
                if nothing && indices.is_none_or(|(_, v)| ix.shape(v).numel() == 0) {
                    return Ok(None);
                }
                opaque(ix, (stores, operands), kernel_index, slot, self.stored, self.classes)
                    .map(|(step, _)| Some(step))
            }
            KernelPlan::Group { .. } => unreachable!("a part has no parts"),
        }
    }
}

impl Instance {
    /// Cost features of a launch of this instance.
    pub fn features(&self, step: &Step, costs: &Costs) -> CostFeatures {
        let bytes = |slot: &Slot| match *slot {
            Slot::Buffer(b) => self.buffers[b],
            Slot::Input(_) => unreachable!("a kernel writes buffers"),
        };
        let written: Vec<usize> = step.operands[step.first_write..].iter().map(bytes).collect();
        costs.features(&step.kernel, &step.geometry, &step.touched, &written)
    }

    /// Bytes that all launches write, as a footprint: see [`crate::Costs::time`].
    pub fn footprint(&self) -> u64 {
        self.buffers.iter().sum::<usize>() as u64
    }

    /// Predicted picoseconds of all launches; `footprint` as in [`Costs::time`].
    pub fn time(&self, costs: &Costs, footprint: u64) -> u64 {
        self.steps.iter().map(|s| costs.time(&self.features(s, costs), footprint)).sum()
    }

    /// Number of bytes that all launches read.
    pub fn bytes_read(&self) -> usize {
        self.steps.iter().map(|s| s.bytes_read).sum()
    }

    /// Number of bytes that all launches write.
    pub fn bytes_written(&self) -> usize {
        self.steps.iter().map(|s| s.bytes_written).sum()
    }
}

/// Error message that names the gathers of a kernel, for an index out of range.
fn out_of_range(ix: &Indexed<'_>, kernel: &KernelPlan) -> Option<String> {
    let gathers = |part: &&KernelPlan| matches!(part, KernelPlan::Map { .. } | KernelPlan::Contraction { .. });
    let of_maps = kernel.parts().iter().filter(gathers);
    let mut all: Vec<String> = of_maps
        .flat_map(KernelPlan::ops)
        .filter(|&i| ix.seg.ops[i].op.class() == OpClass::Gather)
        .map(|i| {
            let axis = ix.seg.ops[i].attr as usize;
            let source = ix.tensors(i).next().expect("a gather has a tensor").1;
            format!("axis {axis} of size {}", ix.shape(source)[axis])
        })
        .collect();
    all.dedup();
    (!all.is_empty()).then(|| format!("gather: an index is out of range for {}", all.join(" or ")))
}
