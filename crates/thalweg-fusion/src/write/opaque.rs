//! Launches of opaque operations, with operands read through strided views.
//!
//! In: the operation, and the values that its operands are views of. A matrix product is opaque on a device without
//! contractions, and has its operands in memory. A scatter's index and values, if not in memory, are computed by the
//! launch, each over the shape of the value it is a view of, and read through that view. Operands of a foreign
//! operation are dense and row-major.

use super::body::{MapKernel, build_input};
use super::contraction::product_geometry;
use super::movement::{layout, strided, view_base};
use super::rules::Rule;
use super::step::{BitRange, ScalarArg, Slot, Step};
use crate::scalars::ScalarClasses;
use crate::segment::{Indexed, ValueId};
use thalweg_ir::{DType, Foreign, ForeignLaunch, Op, ScatterOp, View};
use thalweg_kernel::{
    Computed, Contraction, ContractionGeometry, ForeignGeometry, Geometry, IndexMap, Kernel, ScatterGeometry,
    ScatterOrder, dims,
};

/// Launch of an opaque operation that writes `stores` (several are results of one call) and whose operands are views of
/// `viewed`; or the rule that it breaks. Also returns the operations that the launch computes for its operands, each with
/// its number of points, once per map.
pub(crate) fn opaque(
    ix: &Indexed<'_>,
    (stores, viewed): (&[usize], &[ValueId]),
    kernel_index: usize,
    slot: &dyn Fn(ValueId) -> Slot,
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Result<(Step, Vec<(usize, usize)>), Rule> {
    let op = stores[0];
    let mut o = Operands { slots: vec![], touched: vec![], scalars: vec![], read: vec![], computed: vec![] };
    let read = o.all(ix, (op, viewed), slot, stored, classes)?;
    let first_write = o.slots.len();
    let dtype = ix.dtype(ix.tensors(op).next().expect("it has an operand").1);
    let mut in_place = vec![];
    let (kernel, geometry) = match ix.seg.ops[op].op {
        Op::Matmul => product(ix, op, [read[0].view, read[1].view], dtype),
        Op::Scatter(scatter) => {
            // In place, if no other operand is the same buffer.
            if ix.seg.mode.fused && read[0].view.is_contiguous() && !o.slots[1..].contains(&o.slots[0]) {
                in_place.push((first_write, 0));
            }
            scattered((scatter, dtype, ix.seg.mode.scatter_order()), ix.seg.ops[op].attr as usize, read)
        }
        Op::Foreign(of) => {
            // With other sizes these may no longer be one call, and then not one kernel.
            if !stores[1..].iter().all(|&s| ix.is_same_call(op, s)) {
                return Err(Rule::Opaque);
            }
            let count = of.source().numbers.len() as u32;
            let numbers = (0..count).map(|n| ix.first_scalar(op) as u32 + n);
            o.scalars.extend(numbers.map(|index| ScalarArg::Segment { index, part: BitRange::Whole }));
            foreign(ix, of, stores, &read)?
        }
        other => unreachable!("{} is computed with others", other.name()),
    };
    o.slots.extend(stores.iter().map(|&s| slot(ValueId::Op(s))));
    let step = Step {
        kernel_index,
        kernel: kernel.into(),
        geometry: geometry.into(),
        operands: o.slots,
        first_write,
        scalars: o.scalars,
        in_place,
        out_of_range: None,
        touched: o.touched,
        bytes_read: o.read.iter().map(|r| r.1).sum(),
        bytes_written: stores.iter().map(|&s| ix.bytes(ValueId::Op(s))).sum(),
        form: None,
    };
    Ok((step, o.computed))
}

/// Kernel and geometry of a matrix product of two views.
fn product(ix: &Indexed<'_>, op: usize, views: [View; 2], dtype: DType) -> (Kernel, Geometry) {
    let product = product_geometry(ix.seg.shapes[op], views, [reach(&views[0]), reach(&views[1])]);
    let kernel = Contraction::unfused(dtype, ix.seg.mode.precision(dtype));
    (Kernel::Contraction(kernel), Geometry::Contraction(Box::new(ContractionGeometry::unfused(product))))
}

/// Kernel and geometry of a scatter into the first operand, by the indices in the second, of the values in the third.
fn scattered((op, dtype, order): (ScatterOp, DType, ScatterOrder), axis: usize, read: Vec<Read>) -> (Kernel, Geometry) {
    let [into, index, values] = [0, 1, 2].map(|n| read[n].view);
    let all = [into, index, values, View::contiguous(into.shape)];
    let mut geometry = around(axis, index.shape[axis], into.shape[axis], &all);
    let mut computed = [None, None];
    for (n, input) in read.into_iter().skip(1).enumerate() {
        let Some(MapKernel { kernel, geometry: own, reads, scalars, .. }) = input.computed else { continue };
        computed[n] = Some(Box::new(Computed { kernel, operands: reads.len(), scalars: scalars.len() }));
        geometry.inputs[n] = Some(Box::new(own));
    }
    (Kernel::Scatter { op, dtype, order, inputs: computed }, Geometry::Scatter(geometry))
}

/// Kernel and geometry of a foreign operation that writes these results.
fn foreign(ix: &Indexed<'_>, of: Foreign, stores: &[usize], read: &[Read]) -> Result<(Kernel, Geometry), Rule> {
    if read.iter().enumerate().any(|(n, r)| !of.reads(n, &r.view)) {
        return Err(Rule::NoStrides);
    }
    let (launch, rest) = ix.ints(stores[0]).split_at(ForeignLaunch::INTS);
    let (sizes, results) = rest.split_at(of.source().sizes);
    let geometry = ForeignGeometry {
        launch: ForeignLaunch::from_ints(launch),
        sizes: sizes.to_vec(),
        operands: read.iter().map(|r| (r.view.offset, r.view.shape.numel())).collect(),
        results: results.iter().map(|&bytes| bytes as usize).collect(),
    };
    let wanted = stores.iter().map(|&s| ix.seg.ops[s].attr as u16).collect();
    Ok((Kernel::Foreign { of, wanted }, Geometry::Foreign(geometry)))
}

/// Operand of an opaque operation.
struct Read {
    view: View,
    /// Kernel that computes the operand inside the launch; `None` if it is in memory.
    computed: Option<MapKernel>,
}

/// Operands of a launch.
struct Operands {
    slots: Vec<Slot>,
    /// Bytes of distinct elements read, by slot.
    touched: Vec<usize>,
    scalars: Vec<ScalarArg>,
    /// Distinct values, each with the bytes of its distinct elements read.
    read: Vec<(ValueId, usize)>,
    /// Operations that are computed inside the launch, each with its number of points.
    computed: Vec<(usize, usize)>,
}

impl Operands {
    /// Adds all operands of an operation, each a view of the corresponding value.
    fn all(
        &mut self,
        ix: &Indexed<'_>,
        (op, viewed): (usize, &[ValueId]),
        slot: &dyn Fn(ValueId) -> Slot,
        stored: &dyn Fn(usize) -> bool,
        classes: &ScalarClasses,
    ) -> Result<Vec<Read>, Rule> {
        let one = |((_, v), &base): ((_, ValueId), &ValueId)| {
            let (_, chain) = view_base(ix, v, &|i| ValueId::Op(i) == base);
            let view = strided(ix, layout(ix, base), &chain).ok_or(Rule::NoStrides)?;
            let computed = match base {
                // An operand without elements is neither computed nor read.
                ValueId::Op(i) if !stored(i) && view.shape.numel() == 0 => {
                    self.slots.push(self.slots[0]);
                    self.touched.push(0);
                    None
                }
                ValueId::Op(i) if !stored(i) => {
                    let input = build_input(ix, i, stored, classes)?;
                    self.slots.extend(input.reads.iter().map(|&v| slot(v)));
                    self.touched.extend(&input.touched);
                    self.scalars.extend(&input.scalars);
                    self.computed.extend(input.computed.iter().map(|&op| (op, ix.seg.shapes[i].numel())));
                    input.reads.iter().zip(&input.touched).for_each(|(&v, &bytes)| self.reads(ix, v, bytes));
                    Some(input)
                }
                _ => {
                    let bytes = view.distinct() * ix.dtype(v).size();
                    self.slots.push(slot(base));
                    self.touched.push(bytes);
                    self.reads(ix, base, bytes);
                    None
                }
            };
            Ok(Read { view, computed })
        };
        ix.tensors(op).zip(viewed).map(one).collect()
    }

    /// Adds `bytes` to the bytes read of a value, which other operands may read as well: at most all its bytes.
    fn reads(&mut self, ix: &Indexed<'_>, v: ValueId, bytes: usize) {
        let all = layout(ix, v).distinct() * ix.dtype(v).size();
        match self.read.iter_mut().find(|r| r.0 == v) {
            Some(r) => r.1 = all.min(r.1 + bytes),
            None => self.read.push((v, bytes)),
        }
    }
}

fn reach(view: &View) -> Option<(usize, usize)> {
    IndexMap::new(*view).reach()
}

/// Geometry of a scatter along `axis`, of views whose shapes differ only there. Neighbouring dimensions over which all
/// views are contiguous are merged.
fn around(axis: usize, n: usize, size: usize, views: &[View]) -> ScatterGeometry {
    let shape = views[0].shape;
    let strides = |i: usize| {
        let mut all = [0; 4];
        for (to, view) in all.iter_mut().zip(views) {
            *to = view.strides()[i];
        }
        all
    };
    let merged = |range: std::ops::Range<usize>| -> Vec<(usize, [isize; 4])> {
        let runs_on = |o: usize, i: usize, n: usize| views.iter().all(|v| dims::runs_on(v.strides(), o, i, n));
        let all = dims::merge(shape.dims(), range, false, runs_on);
        all.into_iter().map(|m| (m.extent, strides(m.inner))).collect()
    };
    let mut base = [0; 4];
    for (to, view) in base.iter_mut().zip(views) {
        *to = view.offset;
    }
    ScatterGeometry {
        axis,
        outer: merged(0..axis),
        inner: merged(axis + 1..shape.rank()),
        n,
        size,
        steps: strides(axis),
        base,
        inputs: [None, None],
    }
}
