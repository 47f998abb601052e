//! Movement: the chain of views between a kernel's domain and a value.

use super::rows::{axes, to_rows};
use crate::segment::{Indexed, ValueId};
use std::rc::Rc;
use thalweg_ir::{Arg, Op, OpClass, Shape, View, unpack_order};
use thalweg_kernel::IndexMap;

/// One view of a path, from a value towards its consumers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step {
    /// Movement of operation `i`: a view, a pad without its constant, or the box of a `Put`.
    Op(usize),
    /// Broadcast of an elementwise operation's argument.
    Broadcast(Shape),
    /// Reshape from a stored value to the domain of the kernel that stores it.
    Reshape(Shape),
    /// Broadcast from one element per row of that reduction to the points of its domain.
    Rows(usize),
    /// Selection from the operand of the unrolled reduction `of`. Each result reads, among the elements that it is
    /// reduced from, the one with the row-major index `number`.
    Element { of: usize, number: usize },
    /// Extension by masked elements before and after along one axis (one side of a `cat`).
    Extend { axis: usize, before: usize, after: usize },
}

/// Chain of steps from a value to a kernel's domain, nearest to the value first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(Option<Rc<Link>>);

#[derive(Debug)]
struct Link {
    step: Step,
    rest: Path,
}

impl Path {
    /// Empty path: the value is indexed by the domain itself.
    pub fn identity() -> Path {
        Path(None)
    }

    /// Path with a step added at the value's end.
    pub fn after(&self, step: Step) -> Path {
        Path(Some(Rc::new(Link { step, rest: self.clone() })))
    }

    /// Whether the other path is the same object. Equal paths may be different objects.
    pub fn is(&self, other: &Path) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Map from the domain to a source, through `map` from the value to the source.
    pub fn apply(&self, ix: &Indexed<'_>, mut map: IndexMap) -> IndexMap {
        let mut at = self;
        while let Some(link) = &at.0 {
            map = link.step.apply(ix, map);
            at = &link.rest;
        }
        map
    }

    /// Map from the domain to the row-major index of a value of that shape.
    pub fn map_to(&self, ix: &Indexed<'_>, shape: Shape) -> IndexMap {
        self.apply(ix, IndexMap::new(View::contiguous(shape)))
    }
}

impl Step {
    fn apply(&self, ix: &Indexed<'_>, map: IndexMap) -> IndexMap {
        match self {
            Step::Op(i) => apply_op(ix, *i, map),
            Step::Broadcast(shape) => map.expand(*shape),
            Step::Reshape(shape) => map.reshape(*shape),
            Step::Rows(reduction) => to_rows(ix, *reduction, map),
            Step::Element { of, number } => element(ix, *of, *number, map),
            Step::Extend { axis, before, after } => {
                let mut parts = vec![(0, 0); map.shape().rank()];
                parts[*axis] = (*before, *after);
                map.pad(&parts)
            }
        }
    }
}

/// Map that selects one element of the reduction's operand for each result: the one with the row-major index `number`
/// along the reduced axes. `map` is that of the operand.
fn element(ix: &Indexed<'_>, reduction: usize, number: usize, map: IndexMap) -> IndexMap {
    let (shape, mut rest) = (map.shape(), number);
    let mut parts: Vec<(i64, i64, usize)> = (0..shape.rank()).map(|a| (0, 1, shape[a])).collect();
    for axis in (0..shape.rank()).rev().filter(|a| axes(ix, reduction) >> a & 1 == 1) {
        parts[axis] = ((rest % shape[axis]) as i64, 1, 1);
        rest /= shape[axis];
    }
    map.slice(&parts).reshape(ix.seg.shapes[reduction])
}

/// Map with movement operation `i` applied.
pub(crate) fn apply_op(ix: &Indexed<'_>, i: usize, map: IndexMap) -> IndexMap {
    let (rel, shape, ints) = (&ix.seg.ops[i], ix.seg.shapes[i], ix.ints(i));
    match rel.op {
        Op::Reshape => map.reshape(shape),
        Op::Permute => map.permute(&unpack_order(rel.attr, shape.rank())),
        Op::Expand => map.expand(shape),
        Op::Slice => {
            let parts: Vec<(i64, i64, usize)> = ints.chunks_exact(3).map(|c| (c[0], c[1], c[2] as usize)).collect();
            map.slice(&parts)
        }
        Op::Window => map.window(rel.attr as usize, ints[0] as usize, ints[1] as usize),
        Op::Pad | Op::Put => {
            let parts: Vec<(usize, usize)> = ints.chunks_exact(2).map(|c| (c[0] as usize, c[1] as usize)).collect();
            map.pad(&parts)
        }
        other => unreachable!("{} moves nothing", other.name()),
    }
}

/// Value that a chain of pure views starts from, and the chain's operations, the last one first. The chain ends at a
/// view that is `stored`.
pub(crate) fn view_base(ix: &Indexed<'_>, v: ValueId, stored: &dyn Fn(usize) -> bool) -> (ValueId, Vec<usize>) {
    let (mut at, mut chain) = (v, vec![]);
    while let ValueId::Op(i) = at {
        if !ix.seg.ops[i].op.is_view() || stored(i) {
            break;
        }
        chain.push(i);
        at = match ix.seg.ops[i].args[0].decode() {
            Arg::Op(n) => ValueId::Op(n),
            Arg::Input(n) => ValueId::Input(n),
            other => unreachable!("a view of {other:?}"),
        };
    }
    (at, chain)
}

/// Whether a map from a domain of `points` reads its source in order, element by element.
pub(crate) fn is_in_order(map: &IndexMap, points: usize, source: usize) -> bool {
    points == source && map.as_view().is_some_and(View::is_contiguous)
}

/// Layout of a chain of views over a base, if it is one strided view.
pub(crate) fn strided(ix: &Indexed<'_>, base: View, chain: &[usize]) -> Option<View> {
    viewed(ix, base, chain).as_view().copied()
}

/// Map of a chain of views over a base.
pub(crate) fn viewed(ix: &Indexed<'_>, base: View, chain: &[usize]) -> IndexMap {
    chain.iter().rev().fold(IndexMap::new(base), |map, &i| apply_op(ix, i, map))
}

/// Layout of a value in memory: an input as given, a stored result row-major.
pub(crate) fn layout(ix: &Indexed<'_>, v: ValueId) -> View {
    match v {
        ValueId::Input(i) => ix.seg.inputs[i].1,
        ValueId::Op(i) => View::contiguous(ix.seg.shapes[i]),
    }
}

/// Tensor arguments of operation `i` where it is computed under `path` in a kernel over `domain`, each with its own
/// path.
pub(crate) fn arguments(ix: &Indexed<'_>, i: usize, path: &Path, domain: Shape) -> Vec<(ValueId, Path)> {
    let (op, shape) = (ix.seg.ops[i].op, ix.seg.shapes[i]);
    if ix.is_unrolled(i) {
        let (_, v) = ix.tensors(i).next().expect("a reduction has an operand");
        let count = ix.shape(v).numel() / shape.numel();
        return (0..count).map(|number| (v, path.after(Step::Element { of: i, number }))).collect();
    }
    ix.tensors(i)
        .map(|(n, v)| {
            let own = ix.shape(v);
            let path = match op {
                Op::Cat => {
                    let axis = ix.seg.ops[i].attr as usize;
                    let rest = shape[axis] - own[axis];
                    let (before, after) = if n == 0 { (0, rest) } else { (rest, 0) };
                    path.after(Step::Extend { axis, before, after })
                }
                Op::Pad => path.after(Step::Op(i)),
                Op::Put if n == 0 => path.clone(),
                Op::Put => path.after(Step::Op(i)),
                // Whole rows are read, for any element.
                _ if ix.takes_rows(i) && own == domain => Path::identity(),
                _ if ix.takes_rows(i) => Path::identity().after(Step::Reshape(domain)),
                _ if op.class() == OpClass::Gather => path.clone(),
                _ if op.is_view() => path.after(Step::Op(i)),
                _ if own != shape => path.after(Step::Broadcast(shape)),
                _ => path.clone(),
            };
            (v, path)
        })
        .collect()
}
