//! The launches of operations that run by themselves, their operands read through strided views.

use crate::instance::{Slot, Step};
use crate::movement::{layout, strided, view_base};
use crate::segment::{Indexed, ValueId};
use thalweg_ir::{Op, Shape, View};
use thalweg_kernel::{Geometry, IndexMap, Kernel, MatmulGeometry, ScatterGeometry};

/// The launch of an operation by itself; `None` where its operands have no strides.
pub(crate) fn alone(
    ix: &Indexed<'_>,
    op: usize,
    kernel_index: usize,
    slot: &dyn Fn(ValueId) -> Slot,
    stored: &dyn Fn(usize) -> bool,
) -> Option<Step> {
    let rel = &ix.seg.ops[op];
    let mut operands = Vec::new();
    let mut views = Vec::new();
    for (_, v) in ix.tensors(op) {
        let (base, chain) = view_base(ix, v, stored);
        views.push(strided(ix, layout(ix, base), &chain)?);
        operands.push(slot(base));
    }
    let first_write = operands.len();
    operands.push(slot(ValueId::Op(op)));
    let mut in_place = vec![];
    let bytes_read: usize = ix.tensors(op).zip(&views).map(|((_, v), view)| view.distinct() * ix.dtype(v).size()).sum();
    let arg = ix.tensors(op).next().expect("it has an operand").1;
    let dtype = ix.dtype(arg);
    let (kernel, geometry) = match rel.op {
        Op::Matmul => {
            let shape = ix.seg.shapes[op];
            let rank = shape.rank();
            let matrix = |v: &View| {
                let r = v.shape.rank();
                (v.offset, v.strides()[r - 2], v.strides()[r - 1])
            };
            let whole = |v: &View| {
                let mut dims = shape.dims().to_vec();
                let r = v.shape.rank();
                dims[rank - 2..].copy_from_slice(&v.shape[r - 2..]);
                v.expand(Shape::new(&dims))
            };
            let (a, b) = (whole(&views[0]), whole(&views[1]));
            let geometry = MatmulGeometry {
                batch: (0..rank - 2).map(|i| (shape[i], a.strides()[i], b.strides()[i])).collect(),
                m: shape[rank - 2],
                n: shape[rank - 1],
                k: a.shape[rank - 1],
                a: matrix(&views[0]),
                b: matrix(&views[1]),
                reach: [reach(&views[0]), reach(&views[1])],
            };
            (Kernel::Matmul { dtype }, Geometry::Matmul(geometry))
        }
        Op::Scatter(scatter) => {
            let axis = rel.attr as usize;
            let all = [views[0], views[1], views[2], View::contiguous(views[0].shape)];
            let (n, size) = (views[1].shape[axis], views[0].shape[axis]);
            // Written over where it lies, if nothing else is read from there.
            if ix.seg.mode.fused && views[0].is_contiguous() && !operands[1..3].contains(&operands[0]) {
                in_place.push((3, 0));
            }
            (Kernel::Scatter { op: scatter, dtype }, Geometry::Scatter(around(axis, n, size, &all)))
        }
        other => unreachable!("{} is computed with others", other.name()),
    };
    Some(Step {
        kernel_index,
        kernel,
        geometry,
        operands,
        first_write,
        scalars: vec![],
        in_place,
        release: vec![],
        release_inputs: vec![],
        out_of_range: None,
        bytes_read,
        bytes_written: ix.bytes(ValueId::Op(op)),
    })
}

fn reach(view: &View) -> Option<(usize, usize)> {
    IndexMap::new(*view).reach()
}

/// The geometry of what goes along an axis of views whose shapes are the same but for it. Neighbouring dimensions over which all views run on are
/// merged.
fn around(axis: usize, n: usize, size: usize, views: &[View]) -> ScatterGeometry {
    let shape = views[0].shape;
    let strides = |i: usize| {
        let mut all = [0; 4];
        for (to, view) in all.iter_mut().zip(views) {
            *to = view.strides()[i];
        }
        all
    };
    let merged = |dims: std::ops::Range<usize>| {
        let mut out: Vec<(usize, [isize; 4])> = vec![];
        for i in dims.filter(|&i| shape[i] != 1) {
            let (d, s) = (shape[i], strides(i));
            match out.last_mut() {
                Some(last) if last.1 == s.map(|s| s * d as isize) => *last = (last.0 * d, s),
                _ => out.push((d, s)),
            }
        }
        out
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
    }
}
