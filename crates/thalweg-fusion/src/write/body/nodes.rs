//! Nodes of an operation whose arguments have been written.

use super::{Argument, MapId, Writer};
use crate::segment::ValueId;
use crate::write::movement::{Path, layout, strided, view_base};
use crate::write::rows;
use crate::write::rules::Rule;
use crate::write::step::BitRange;
use thalweg_ir::element::Expr;
use thalweg_ir::{Arg, COMPONENT, DType, ElementOp, Monoid, Op, REVERSE, ReduceOp, Scalar, Shape, View};
use thalweg_kernel::{Along, BodyBuilder, IndexMap, Node, NodeId, order, random::random_node};

/// Adds an unrolled fold in the order of a row's fold (`thalweg_kernel::order`). Each element is alone in its lane, and
/// lane `l` is combined with lane `l + 8`, then `l + 4` …
fn unrolled(b: &mut BodyBuilder, op: Monoid, dtype: DType, mut lanes: Vec<NodeId>) -> NodeId {
    debug_assert!(lanes.len() <= order::LANES);
    let row = op.row();
    let put = |b: &mut BodyBuilder, x: NodeId, y: NodeId| {
        let mut out = vec![];
        (row.combine)(b, &[Expr(x.0)], &[Expr(y.0)], &mut out);
        NodeId(out[0].0)
    };
    if op == Monoid::Sum && dtype.is_float() {
        // A lane starts with +0, which absorbs a -0.
        let zero = b.constant(Scalar::Float(0.0), dtype);
        lanes[0] = put(b, zero, lanes[0]);
    }
    let mut half = order::LANES / 2;
    while half > 0 {
        for l in half..lanes.len().min(2 * half) {
            lanes[l - half] = put(b, lanes[l - half], lanes[l]);
        }
        lanes.truncate(half);
        half /= 2;
    }
    lanes[0]
}

impl Writer<'_> {
    pub(super) fn operation(&mut self, i: usize, path: &Path, arguments: &[Argument], args: &[NodeId]) -> NodeId {
        let rel = &self.ix.seg.ops[i];
        match rel.op {
            Op::Element(e) => {
                let dtype = self.ix.operand_dtype(i);
                let nodes = self.with_scalars(i, args, |_| dtype);
                self.builder.element(e, &nodes)
            }
            Op::Loop(l) => {
                let nodes = self.with_scalars(i, args, |n| l.region().args[n]);
                let of = self.builder.looped(l, &nodes);
                self.builder.node(Node::Looped { of, number: rel.attr as u16, dtype: rel.dtype })
            }
            Op::Cast => {
                // A conversion of bf16 or f16 sees the value that memory would hold.
                let narrow = matches!(self.builder.body().dtype(args[0]), DType::BF16 | DType::F16);
                let x = if narrow { self.builder.round(args[0]) } else { args[0] };
                self.builder.cast(x, rel.dtype)
            }
            Op::Bitcast => self.builder.bitcast(args[0], rel.dtype),
            Op::Full => self.scalar(i, 0, rel.dtype),
            Op::Iota => {
                let index = self.index(path, self.ix.seg.shapes[i]);
                self.builder.cast(index, rel.dtype)
            }
            Op::Random(kind) => {
                let position = self.position_words(path, self.ix.seg.shapes[i]);
                let key = [BitRange::Low, BitRange::High].map(|part| self.scalar_part(i, 0, DType::U32, part));
                random_node(&mut self.builder, kind, rel.dtype, position, key)
            }
            Op::Pad => {
                let outside = self.scalar(i, 1, rel.dtype);
                self.inside_or(arguments[0].map, args[0], outside)
            }
            Op::Cat => self.inside_or(arguments[0].map, args[0], args[1]),
            Op::Put => self.inside_or(arguments[1].map, args[1], args[0]),
            Op::Reduce(reduce) => self.reduction(i, reduce, args),
            Op::Scan(op) => {
                let narrow = rel.dtype;
                let node = self.builder.scan(op, rel.attr & REVERSE != 0, args[0]);
                self.builder.cast(node, narrow)
            }
            Op::FoldBy(of) => self.builder.combined(of, Along::Fold, args, (rel.attr >> COMPONENT) as u16),
            Op::ScanBy(of) => {
                let along = if rel.attr & REVERSE != 0 { Along::Reversed } else { Along::Scan };
                self.builder.combined(of, along, args, (rel.attr >> COMPONENT) as u16)
            }
            _ if rel.op.is_view() => args[0],
            other => unreachable!("{} is opaque", other.name()),
        }
    }

    /// Nodes of operation `i`'s arguments, in order: `tensors` where they are tensors, scalars of dtype `dtype(n)`
    /// elsewhere.
    fn with_scalars(&mut self, i: usize, tensors: &[NodeId], dtype: impl Fn(usize) -> DType) -> Vec<NodeId> {
        let mut tensors = tensors.iter();
        let args = self.ix.seg.ops[i].args().enumerate();
        args.map(|(n, a)| match a {
            Arg::Scalar => self.scalar(i, n, dtype(n)),
            _ => *tensors.next().expect("one node a tensor"),
        })
        .collect()
    }

    /// Adds a reduction, as a fold over the row or as arithmetic on its unrolled elements; returns its node.
    fn reduction(&mut self, i: usize, op: ReduceOp, x: &[NodeId]) -> NodeId {
        let dtype = self.ix.seg.ops[i].dtype;
        let b = &mut self.builder;
        let carried = Monoid::carried(b.body().dtype(x[0]));
        let elements: Vec<NodeId> = x.iter().map(|x| b.cast(*x, carried)).collect();
        let (wide, is_unrolled) = (elements[0], self.ix.is_unrolled(i));
        let folded = match is_unrolled {
            true => unrolled(b, op.monoid(), carried, elements.clone()),
            false => b.fold(op.monoid(), wide),
        };
        if op == ReduceOp::Any {
            // Not `!= 0`: the fold of nothing is the lowest integer.
            let zero = b.constant(Scalar::Int(0), carried);
            return b.element(ElementOp::Gt, &[folded, zero]);
        }
        let bound = op.monoid().identity(carried) != op.monoid().identity(dtype);
        if op.plain().is_some() && bound && carried != dtype && dtype.is_int() {
            // The fold of nothing is a bound of the wider integers.
            let (low, high) = Scalar::int_bounds(dtype);
            let [low, high] = [low, high].map(|v| b.constant(v, carried));
            let inside = b.element(ElementOp::Clamp, &[folded, low, high]);
            return b.cast(inside, dtype);
        }
        if !matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMin) {
            return b.cast(folded, dtype);
        }
        // Index of the first element equal to the maximum or minimum. If that is NaN, the first NaN matches.
        let hit = |b: &mut BodyBuilder, x: NodeId| {
            let equal = b.element(ElementOp::Eq, &[x, folded]);
            if !carried.is_float() {
                return equal;
            }
            let nan = b.element(ElementOp::Ne, &[x, x]);
            b.element(ElementOp::Or, &[equal, nan])
        };
        if is_unrolled {
            let mut first = b.constant(Scalar::Int(elements.len() as i64 - 1), DType::U32);
            for (at, &x) in elements.iter().enumerate().rev().skip(1) {
                let (hit, at) = (hit(b, x), b.constant(Scalar::Int(at as i64), DType::U32));
                first = b.element(ElementOp::Where, &[hit, at, first]);
            }
            return b.cast(first, dtype);
        }
        // It is found in a second pass.
        b.repeatable();
        let hit = hit(b, wide);
        let place = self.place_in_row(i);
        let b = &mut self.builder;
        let none = b.constant(Scalar::Int(u32::MAX as i64), DType::U32);
        let candidate = b.element(ElementOp::Where, &[hit, place, none]);
        let first = b.fold(Monoid::Min, candidate);
        b.cast(first, dtype)
    }

    /// Adds the index of a point along the one axis that operation `i` reduces; returns its node.
    fn place_in_row(&mut self, i: usize) -> NodeId {
        let shape = self.ix.shape(rows::operand(self.ix, i));
        let axis = rows::axes(self.ix, i).trailing_zeros() as usize;
        assert!(shape[axis] < u32::MAX as usize, "places along an axis fit 32 bits");
        let mut along = Shape::new(&vec![1; shape.rank()]);
        along.dims_mut()[axis] = shape[axis];
        let map = IndexMap::new(View::contiguous(along)).expand(shape);
        let map = if shape == self.domain { map } else { map.reshape(self.domain) };
        let access = self.access(None, map);
        self.builder.node(Node::Index { access, dtype: DType::U32 })
    }

    /// Adds the load of the element of `source`, which is in memory, at the given index along the axis; returns its
    /// node.
    pub(super) fn gather(&mut self, i: usize, path: &Path, source: ValueId, index: NodeId) -> Result<NodeId, Rule> {
        let ix = self.ix;
        if self.is_nowhere(ix.seg.shapes[i]) {
            return Ok(self.zero(ix.seg.ops[i].dtype));
        }
        let axis = ix.seg.ops[i].attr as usize;
        let (base, chain) = view_base(ix, source, &|i| (self.stored)(i));
        if self.outline.writes().any(|s| ValueId::Op(s) == base) {
            return Err(Rule::ReadElsewhere);
        }
        let view = strided(ix, layout(ix, base), &chain).ok_or(Rule::NoStrides)?;
        let (size, stride) = (view.shape[axis], view.strides()[axis]);
        // Along the other axes, the element has the index of the result.
        let mut across = view;
        across = across.slice(
            &(0..view.shape.rank()).map(|a| (0, 1, if a == axis { 1 } else { view.shape[a] })).collect::<Vec<_>>(),
        );
        let map = path.apply(ix, IndexMap::new(across.expand(ix.seg.shapes[i])));
        let index = self.builder.cast(index, DType::I64);
        let (zero, end) = (self.builder.constant(Scalar::Int(0), DType::I64), self.size(size as i64));
        let b = &mut self.builder;
        let (low, high) = (b.element(ElementOp::Ge, &[index, zero]), b.element(ElementOp::Lt, &[index, end]));
        let mut inside = b.element(ElementOp::And, &[low, high]);
        let step = self.size(stride as i64);
        let mut offset = self.builder.element(ElementOp::Mul, &[index, step]);
        let access = if self.outline.rows.is_none() && map.as_view().is_some() {
            self.access(Some(base), map)
        } else {
            // There are no strides, or they do not continue along a row: the position along the other axes is computed
            // as well. Points that a mask leaves out read element 0.
            let places = self.access(None, map.clone());
            let b = &mut self.builder;
            let place = b.node(Node::Index { access: places, dtype: DType::I64 });
            offset = b.element(ElementOp::Add, &[offset, place]);
            if map.is_masked() && ix.shape(base).numel() > 0 {
                let valid = b.node(Node::Valid { access: places });
                let masked = b.element(ElementOp::Not, &[valid]);
                inside = b.element(ElementOp::Or, &[inside, masked]);
                offset = b.element(ElementOp::Where, &[valid, offset, zero]);
            }
            let start = View::new(Shape::SCALAR, &[], 0).expand(self.domain);
            self.access(Some(base), IndexMap::new(start))
        };
        Ok(self.builder.node(Node::Gather { access, offset, inside }))
    }

    /// Adds the selection of `value` where the map from the domain reads an element, else of `other`; returns only one
    /// of them, and adds nothing, if all points agree.
    fn inside_or(&mut self, map: MapId, value: NodeId, other: NodeId) -> NodeId {
        let map = self.orders.get(map).clone();
        if !map.is_masked() {
            return value;
        }
        if map.distinct() == 0 && self.domain.numel() > 0 {
            return other;
        }
        let access = self.access(None, (*map).clone());
        let valid = self.builder.node(Node::Valid { access });
        self.builder.element(ElementOp::Where, &[valid, value, other])
    }

    /// Adds the row-major index in a space of that shape, as u32 or, if that is too small, i64; returns its node.
    fn index(&mut self, path: &Path, shape: Shape) -> NodeId {
        let dtype = if shape.numel() as u64 <= 1 << 32 { DType::U32 } else { DType::I64 };
        let access = self.access(None, path.map_to(self.ix, shape));
        self.builder.node(Node::Index { access, dtype })
    }

    fn position_words(&mut self, path: &Path, shape: Shape) -> [NodeId; 2] {
        let index = self.index(path, shape);
        if self.builder.body().dtype(index) == DType::U32 {
            return [index, self.builder.constant(Scalar::Int(0), DType::U32)];
        }
        let shift = self.builder.constant(Scalar::Int(32), DType::I64);
        let high = self.builder.element(ElementOp::Shr, &[index, shift]);
        [self.builder.cast(index, DType::U32), self.builder.cast(high, DType::U32)]
    }
}
