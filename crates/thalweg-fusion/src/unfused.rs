//! Unfused fallback: one kernel per operation, assembled from known kernels. It runs a segment at a cold start, where
//! nobody wants to wait for a search or a compiler.
//!
//! In: a segment, and a lookup of single operations as kernels (by their [`SingleKey`]). Out: a plan and its instance,
//! with the lookup's extra data for each launch, in one pass over the operations. Movement that strides express is no
//! kernel, as without fusion.
//!
//! Always true: the kernels are those that the planner gives each operation in a segment of its own without fusion. So
//! results have the bits of an unfused run.

use crate::instance::{Instance, Output, instantiate};
use crate::plan::{KernelPlan, OutputPlan, Plan, Products};
use crate::rewrite::Rewrite;
use crate::scalars::ScalarClasses;
use crate::segment::{BitSet, Indexed, Mode, Segment, ValueId};
use crate::write::movement::apply_op;
use crate::write::step::{ScalarArg, Slot, Step};
use crate::{Costs, Effort};
use std::sync::Arc;
use thalweg_ir::{Arg, DType, InputKind, MAX_ARGS, RelArg, RelOp, Shape, View};
use thalweg_kernel::IndexMap;

/// Key of a single operation's kernel: the operation with its arguments as inputs, and their layouts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SingleKey {
    op: RelOp,
    mode: Mode,
    shape: Shape,
    ints: Vec<i64>,
    inputs: Vec<(DType, View)>,
}

/// Single operation planned as a kernel.
#[derive(Debug)]
pub struct Single {
    kernel: KernelPlan,
    /// Launch of the kernel; `None` if the operation has nothing to write.
    step: Option<Step>,
}

impl Single {
    /// Launch that has to be compiled; `None` if the operation has nothing to write.
    pub fn step(&self) -> Option<&Step> {
        self.step.as_ref()
    }
}

impl SingleKey {
    /// Plans the operation; `None` if it is not a single launch.
    pub fn plan(&self) -> Option<Single> {
        let mut live = BitSet::new(1);
        live.insert(0);
        // Distinct values, so that the kernel does not assume any two to be equal.
        let scalars: Vec<u64> = (1..).take(self.op.args().filter(|a| *a == Arg::Scalar).count()).collect();
        let segment = Segment {
            ops: &[self.op],
            live: &live,
            mode: self.mode,
            shapes: &[self.shape],
            ints: &self.ints,
            scalars: &scalars,
            inputs: &self.inputs,
        };
        let mut plan = crate::plan(segment, &Costs::typical(), Effort::None).ok()?.plan;
        let mut instance = instantiate(&plan, segment, &ScalarClasses::new(&scalars))?;
        let stored = matches!(instance.outputs[..], [Output { slot: Slot::Buffer(0), .. }]);
        let one = stored && plan.kernels.len() == 1 && instance.buffers.len() == 1 && instance.steps.len() <= 1;
        one.then(|| Single { kernel: plan.kernels.remove(0), step: instance.steps.pop() })
    }
}

/// Number of kernels of a segment without fusion, and the bytes that they read and write.
pub fn unfused_work(segment: &Segment<'_>) -> (usize, usize) {
    let result = |i: usize| segment.shapes[i].numel() * segment.ops[i].dtype.size();
    let argument = |a: Arg| match a {
        Arg::Op(i) => result(i),
        Arg::Input(n) => segment.inputs[n].1.shape.numel() * segment.inputs[n].0.size(),
        Arg::Scalar | Arg::None => 0,
    };
    let kernels = segment.ops.iter().enumerate().filter(|(_, rel)| !rel.op.is_view());
    kernels.fold((0, 0), |(count, bytes), (i, rel)| {
        (count + 1, bytes + rel.args().map(argument).sum::<usize>() + result(i))
    })
}

/// Result of a lookup: a single-operation kernel with extra data; `None` if it is not a single launch.
pub type SingleLookup<P, E> = Result<Option<(P, Arc<Single>)>, E>;

/// Segment as one kernel per operation.
#[derive(Debug)]
pub struct Unfused<P> {
    /// Plan with one kernel per operation.
    pub plan: Plan,
    /// Instance of the plan.
    pub instance: Instance,
    /// Extra data of each launch of the instance, in order, from the lookup.
    pub beside: Vec<P>,
}

/// Assembles a segment. `known` looks up an operation's kernel, with extra data such as its program.
///
/// # Errors
/// Errors of `known`. `Ok(None)` if an operation is not a single launch.
pub fn unfused<P, E>(
    segment: Segment<'_>,
    known: &mut dyn FnMut(&SingleKey) -> SingleLookup<P, E>,
) -> Result<Option<Unfused<P>>, E> {
    let ix = Indexed::new(segment);
    let n = segment.ops.len();
    let plan = Plan { kernels: Vec::with_capacity(n), outputs: vec![], rewrite: Rewrite::default() };
    let instance = Instance { steps: Vec::with_capacity(n), outputs: vec![], buffers: vec![], fused: false };
    let mut made = Assembly {
        ix: &ix,
        unfused: Unfused { plan, instance, beside: Vec::with_capacity(n) },
        lies: ResultLayouts { at: vec![None; n], buffer_of: vec![0; n] },
        asked: Asked::new(Mode { fused: false, ..segment.mode }),
    };
    for i in needed(&ix).iter() {
        if let Some(view) = made.lies.moved(&ix, i) {
            made.lies.at[i] = Some(view);
        } else {
            made.asked.ask(&ix, i, &made.lies);
            if !(made.put(i, known)? || made.store_views(i, known)? && made.put(i, known)?) {
                return Ok(None);
            }
        }
        if segment.live.has(i) {
            let (base, view) = made.lies.at[i].expect("it was put there");
            let how = if base == ValueId::Op(i) { OutputPlan::Stored } else { OutputPlan::Alias };
            made.unfused.plan.outputs.push((i, how));
            made.unfused.instance.outputs.push(Output { op: i, slot: made.lies.slot(base), view });
        }
    }
    Ok(Some(made.unfused))
}

/// Unfused segment that is being assembled.
struct Assembly<'a, P> {
    ix: &'a Indexed<'a>,
    unfused: Unfused<P>,
    lies: ResultLayouts,
    asked: Asked,
}

impl<P> Assembly<'_, P> {
    /// Adds the kernel that was asked for, whose result is that of operation `i`. Returns whether it is a single launch.
    fn put<E>(&mut self, i: usize, known: &mut dyn FnMut(&SingleKey) -> SingleLookup<P, E>) -> Result<bool, E> {
        let Some((given, single)) = known(&self.asked.key)? else { return Ok(false) };
        let (ix, Unfused { plan, instance, beside }) = (self.ix, &mut self.unfused);
        let own = (ValueId::Op(i), View::contiguous(ix.seg.shapes[i]));
        let buffer = instance.buffers.len();
        instance.buffers.push(ix.bytes(ValueId::Op(i)));
        if let Some(step) = &single.step {
            let mut step = self.asked.step(ix, i, step, plan.kernels.len(), &self.lies);
            step.operands[step.first_write..].fill(Slot::Buffer(buffer));
            instance.steps.push(step);
            beside.push(given);
        }
        plan.kernels.push(self.asked.kernel(i, &single.kernel));
        (self.lies.at[i], self.lies.buffer_of[i]) = (Some(own), buffer);
        Ok(true)
    }

    /// Stores the views that operation `i` reads, as some operations, such as a library's convolution, take dense
    /// operands only; then asks for the operation again. Returns whether something was stored.
    fn store_views<E>(&mut self, i: usize, known: &mut dyn FnMut(&SingleKey) -> SingleLookup<P, E>) -> Result<bool, E> {
        let mut stored = false;
        for (_, v) in self.ix.tensors(i) {
            let ValueId::Op(a) = v else { continue };
            let (base, view) = self.lies.of(self.ix, v);
            if base != v || !view.is_contiguous() {
                self.asked.ask_copy(self.ix, a, (base, view));
                stored |= self.put(a, known)?;
            }
        }
        self.asked.ask(self.ix, i, &self.lies);
        Ok(stored)
    }
}

/// Operations that a live result depends on.
fn needed(ix: &Indexed<'_>) -> BitSet {
    let mut needed = ix.seg.live.clone();
    for i in (0..ix.seg.ops.len()).rev() {
        if needed.has(i) {
            ix.tensors(i).for_each(|(_, v)| {
                if let ValueId::Op(a) = v {
                    needed.insert(a);
                }
            });
        }
    }
    needed
}

/// Memory layouts of the results of the operations processed so far.
struct ResultLayouts {
    /// Value that each operation's result is a view of, and that view.
    at: Vec<Option<(ValueId, View)>>,
    /// Index of the buffer of each operation that has one.
    buffer_of: Vec<usize>,
}

impl ResultLayouts {
    /// Base value and view of a value.
    fn of(&self, ix: &Indexed<'_>, v: ValueId) -> (ValueId, View) {
        match v {
            ValueId::Input(n) => (v, ix.seg.inputs[n].1),
            ValueId::Op(i) => self.at[i].expect("an argument precedes its use"),
        }
    }

    /// Base value and view of a view operation's result; `None` if strides do not express it.
    fn moved(&self, ix: &Indexed<'_>, i: usize) -> Option<(ValueId, View)> {
        if !ix.seg.ops[i].op.is_view() {
            return None;
        }
        let (_, v) = ix.tensors(i).next()?;
        let (base, view) = self.of(ix, v);
        Some((base, *apply_op(ix, i, IndexMap::new(view)).as_view()?))
    }

    fn slot(&self, base: ValueId) -> Slot {
        match base {
            ValueId::Input(n) => Slot::Input(n),
            ValueId::Op(i) => Slot::Buffer(self.buffer_of[i]),
        }
    }
}

/// Lookup key, whose memory is reused from operation to operation, and the values of the segment for its inputs.
struct Asked {
    key: SingleKey,
    /// Argument for each input of the key, and the base value that it is a view of.
    arguments: Vec<(ValueId, ValueId)>,
}

impl Asked {
    fn new(mode: Mode) -> Asked {
        let op =
            RelOp { op: thalweg_ir::Op::Cast, dtype: DType::F32, rank: 0, attr: 0, args: [RelArg::NONE; MAX_ARGS] };
        let key = SingleKey { op, mode, shape: Shape::new(&[]), ints: vec![], inputs: vec![] };
        Asked { key, arguments: vec![] }
    }

    fn ask(&mut self, ix: &Indexed<'_>, i: usize, lies: &ResultLayouts) {
        let (key, arguments) = (&mut self.key, &mut self.arguments);
        key.inputs.clear();
        key.ints.clear();
        arguments.clear();
        key.op = ix.seg.ops[i];
        key.shape = ix.seg.shapes[i];
        key.ints.extend_from_slice(ix.ints(i));
        for (n, v) in ix.tensors(i) {
            let (base, view) = lies.of(ix, v);
            let alike = |&at: &usize| arguments[at].1 == base && key.inputs[at].1 == view;
            let at = (0..arguments.len()).find(alike).unwrap_or(arguments.len());
            if at == arguments.len() {
                arguments.push((v, base));
                key.inputs.push((ix.dtype(v), view));
            }
            let kind = InputKind { dtype: ix.dtype(v), rank: view.shape.rank(), contiguous: view.is_contiguous() };
            key.op.args[n] = RelArg::input(at, kind);
        }
    }

    /// Asks for a copy of a view, the result of operation `i`: a cast to the dtype that it has.
    fn ask_copy(&mut self, ix: &Indexed<'_>, i: usize, (base, view): (ValueId, View)) {
        let (key, dtype, shape) = (&mut self.key, ix.seg.ops[i].dtype, ix.seg.shapes[i]);
        let kind = InputKind { dtype, rank: shape.rank(), contiguous: view.is_contiguous() };
        let args = RelOp::pack(&[RelArg::input(0, kind)]);
        key.op = RelOp { op: thalweg_ir::Op::Cast, dtype, rank: shape.rank() as u8, attr: 0, args };
        key.shape = shape;
        key.ints.clear();
        key.inputs.clear();
        key.inputs.push((dtype, view));
        self.arguments.clear();
        self.arguments.push((ValueId::Op(i), base));
    }

    /// Launch of the single operation, with its operands mapped to the segment's.
    fn step(&self, ix: &Indexed<'_>, i: usize, single: &Step, kernel_index: usize, lies: &ResultLayouts) -> Step {
        let slot = |s: &Slot| match *s {
            Slot::Input(n) => lies.slot(self.arguments[n].1),
            Slot::Buffer(_) => Slot::Buffer(lies.buffer_of[i]),
        };
        let scalar = |s: &ScalarArg| match *s {
            ScalarArg::Segment { index, part } => ScalarArg::Segment { index: index + ix.first_scalar(i) as u32, part },
            size => size,
        };
        Step {
            kernel_index,
            kernel: single.kernel.clone(),
            geometry: single.geometry.clone(),
            operands: single.operands.iter().map(slot).collect(),
            first_write: single.first_write,
            scalars: single.scalars.iter().map(scalar).collect(),
            in_place: single.in_place.clone(),
            out_of_range: single.out_of_range.clone(),
            touched: single.touched.clone(),
            bytes_read: single.bytes_read,
            bytes_written: single.bytes_written,
            form: None,
        }
    }

    /// Kernel plan of the single operation, with its values mapped to the segment's.
    fn kernel(&self, i: usize, single: &KernelPlan) -> KernelPlan {
        let value = |v: ValueId| match v {
            ValueId::Input(n) => self.arguments[n].0,
            ValueId::Op(_) => ValueId::Op(i),
        };
        let all = |of: &[usize]| vec![i; of.len()];
        match single {
            KernelPlan::Map { domain, rows, stores, row_stores, column_stores, ops } => KernelPlan::Map {
                domain: value(*domain),
                rows: rows.map(|_| i),
                stores: all(stores),
                row_stores: all(row_stores),
                column_stores: all(column_stores),
                ops: all(ops),
            },
            KernelPlan::Contraction { stores, row_stores, ops, .. } => KernelPlan::Contraction {
                products: Products { product: i, inner: None, left_rows: None, rows: None },
                stores: all(stores),
                row_stores: all(row_stores),
                ops: all(ops),
            },
            KernelPlan::Opaque { operands, ops, .. } => KernelPlan::Opaque {
                stores: vec![i],
                operands: operands.iter().map(|&v| value(v)).collect(),
                ops: all(ops),
            },
            KernelPlan::Group { .. } => unreachable!("one operation is no group"),
        }
    }
}
