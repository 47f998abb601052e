//! From a map kernel of a plan to its body and geometry: every operation in it is written down under the index map
//! through which it is needed, and movement disappears into the accesses.

use super::boxes;
use super::map_layout::{lay_out, lay_out_box};
use super::movement::{Path, Step, arguments, is_in_order, layout, strided, view_base};
use super::rows;
use super::rules::{HOPELESS_MAPS, Rule, counts, is_constant, takes_rows};
use super::step::{Part, ScalarArg};
use crate::scalars::ScalarClasses;
use crate::segment::{Indexed, ValueId};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use thalweg_ir::{Arg, DType, ElementOp, Monoid, Op, REVERSE, ReduceOp, Scalar, Shape, View};
use thalweg_kernel::{
    Access, AccessClass, Body, BodyBuilder, Geometry, IndexMap, Kernel, MapGeometry, Node, NodeId, random::random_node,
};

/// A map kernel with sizes.
pub(crate) struct MapKernel {
    pub kernel: Kernel,
    pub geometry: Geometry,
    /// The values it reads, in the order of its operands; what it writes follows.
    pub reads: Vec<ValueId>,
    pub scalars: Vec<ScalarArg>,
    pub in_place: Vec<(usize, usize)>,
    /// Bytes of distinct elements that it reads of each of them.
    pub touched: Vec<usize>,
    /// The operations computed in it, each once for every index map it is needed under.
    pub computed: Vec<usize>,
}

/// A body over a domain, not laid out yet.
pub(crate) struct Written {
    pub body: Body,
    /// Of each access, the map from the domain.
    pub maps: Vec<IndexMap>,
    /// See [`MapKernel`].
    pub reads: Vec<ValueId>,
    pub scalars: Vec<ScalarArg>,
    pub in_place: Vec<(usize, usize)>,
    pub touched: Vec<usize>,
    pub computed: Vec<usize>,
}

/// What a kernel stores, and over which domain.
#[derive(Clone, Copy)]
pub(crate) struct Outline<'a> {
    /// The value whose shape is the domain.
    pub domain: ValueId,
    /// The reduction or scan that makes rows of it.
    pub rows: Option<usize>,
    /// Operations stored point by point.
    pub stores: &'a [usize],
    /// Operations stored row by row.
    pub row_stores: &'a [usize],
    /// Reductions put together from all rows.
    pub column_stores: &'a [usize],
    /// The matrix product whose sums the kernel is given at its points, the domain being its shape, or what another
    /// kernel has made of them; with the dtype that it is given them in.
    pub product: Option<(usize, DType)>,
}

impl<'a> Outline<'a> {
    /// Of a map kernel that stores these point by point.
    pub fn map(domain: ValueId, stores: &'a [usize]) -> Outline<'a> {
        Outline { domain, rows: None, stores, row_stores: &[], column_stores: &[], product: None }
    }
}

impl Outline<'_> {
    fn writes(&self) -> impl Iterator<Item = usize> + '_ {
        self.stores.iter().chain(self.row_stores).chain(self.column_stores).copied()
    }
}

struct Writer<'a> {
    ix: &'a Indexed<'a>,
    domain: Shape,
    outline: Outline<'a>,
    stored: &'a dyn Fn(usize) -> bool,
    classes: &'a ScalarClasses,
    builder: BodyBuilder,
    /// Maps from the domain to row-major elements.
    orders: Maps,
    /// The node of a value under one of them.
    done: FxHashMap<(ValueId, MapId), NodeId>,
    /// The access to a value (or to an index space without one) under a map.
    accesses: FxHashMap<(Option<ValueId>, IndexMap), u16>,
    maps: Vec<IndexMap>,
    sources: Vec<Option<ValueId>>,
    reads: Vec<ValueId>,
    scalars: Vec<ScalarArg>,
    computed: Vec<usize>,
    /// How often each operation is computed.
    times: FxHashMap<usize, usize>,
}

/// Index maps, each once and known by a number: most values of a kernel are needed under the same one.
#[derive(Default)]
struct Maps {
    all: Vec<Rc<IndexMap>>,
    numbers: FxHashMap<Rc<IndexMap>, MapId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct MapId(usize);

impl Maps {
    fn number(&mut self, map: IndexMap) -> MapId {
        let map = Rc::new(map);
        *self.numbers.entry(map).or_insert_with_key(|map| {
            self.all.push(map.clone());
            MapId(self.all.len() - 1)
        })
    }

    fn get(&self, MapId(n): MapId) -> &Rc<IndexMap> {
        &self.all[n]
    }
}

/// An argument of an operation that is being written.
struct Argument {
    v: ValueId,
    path: Path,
    /// From the domain to its row-major elements.
    map: MapId,
}

/// An operation on the way from the stores to the loads: met for the first time, or, with arguments, when they have
/// been written.
struct Visit {
    op: usize,
    path: Path,
    map: MapId,
    arguments: Option<Vec<Argument>>,
}

/// Writes the kernel that an outline describes, or says which rule it breaks.
pub(crate) fn build_map(
    ix: &Indexed<'_>,
    outline: Outline<'_>,
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Result<MapKernel, Rule> {
    write(ix, outline, stored, classes).map(|w| w.laid_out())
}

/// Writes the body that an outline describes.
pub(super) fn write_body(
    ix: &Indexed<'_>,
    outline: Outline<'_>,
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Result<Written, Rule> {
    write(ix, outline, stored, classes).map(Writer::finish)
}

fn write<'a>(
    ix: &'a Indexed<'a>,
    outline: Outline<'a>,
    stored: &'a dyn Fn(usize) -> bool,
    classes: &'a ScalarClasses,
) -> Result<Writer<'a>, Rule> {
    let mut w = Writer::new(ix, outline, stored, classes);
    let mut values = vec![];
    for s in outline.writes() {
        let path = w.path_to(s)?;
        let node = if outline.column_stores.contains(&s) { w.operand(s)? } else { w.value(s, path.clone())? };
        values.push((s, path, node));
    }
    // Operands that are written follow those that are read.
    for (n, (s, path, node)) in values.into_iter().enumerate() {
        let operand = Some((w.reads.len() + n) as u16);
        let dtype = ix.seg.ops[s].dtype;
        let access = w.builder.access(Access { operand, dtype, class: AccessClass::Contiguous, per_row: false });
        w.maps.push(path.map_to(ix, ix.seg.shapes[s]));
        w.sources.push(Some(ValueId::Op(s)));
        match ix.seg.ops[s].op {
            Op::Reduce(op) if outline.column_stores.contains(&s) => w.builder.store_combined(node, access, op.monoid()),
            _ => w.builder.store(node, access),
        }
    }
    Ok(w)
}

/// Writes the kernel that computes an operation over its own shape, for the one that surrounds it: what it writes is no
/// value of the plan.
pub(crate) fn build_input(
    ix: &Indexed<'_>,
    op: usize,
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Result<MapKernel, Rule> {
    write_input(ix, (op, Outline::map(ValueId::Op(op), &[])), stored, classes).map(|w| w.laid_out())
}

/// Writes the body that computes an operation over its own shape; the outline may have rows and a product of that
/// shape.
pub(super) fn write_input_body(
    ix: &Indexed<'_>,
    input: (usize, Outline<'_>),
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Result<Written, Rule> {
    write_input(ix, input, stored, classes).map(Writer::finish)
}

fn write_input<'a>(
    ix: &'a Indexed<'a>,
    (op, outline): (usize, Outline<'a>),
    stored: &'a dyn Fn(usize) -> bool,
    classes: &'a ScalarClasses,
) -> Result<Writer<'a>, Rule> {
    let mut w = Writer::new(ix, outline, stored, classes);
    let node = w.value(op, Path::identity())?;
    let access = Access {
        operand: Some(w.reads.len() as u16),
        dtype: ix.seg.ops[op].dtype,
        class: AccessClass::Contiguous,
        per_row: false,
    };
    let access = w.builder.access(access);
    w.maps.push(Path::identity().map_to(ix, ix.seg.shapes[op]));
    w.sources.push(None);
    w.builder.store(node, access);
    Ok(w)
}

impl<'a> Writer<'a> {
    fn new(
        ix: &'a Indexed<'a>,
        outline: Outline<'a>,
        stored: &'a dyn Fn(usize) -> bool,
        classes: &'a ScalarClasses,
    ) -> Writer<'a> {
        Writer {
            ix,
            domain: ix.shape(outline.domain),
            outline,
            stored,
            classes,
            builder: BodyBuilder::new(ix.seg.mode.strict),
            orders: Maps::default(),
            done: FxHashMap::default(),
            accesses: FxHashMap::default(),
            maps: vec![],
            sources: vec![],
            reads: vec![],
            scalars: vec![],
            computed: vec![],
            times: FxHashMap::default(),
        }
    }
}

impl Writer<'_> {
    /// The way from the domain to an operation that the kernel stores.
    fn path_to(&self, s: usize) -> Result<Path, Rule> {
        let own = self.ix.seg.shapes[s];
        if self.outline.stores.contains(&s) {
            if own.numel() != self.domain.numel() {
                return Err(Rule::OtherPoints);
            }
            let reshaped = || Path::identity().after(Step::Reshape(self.domain));
            return Ok(if own == self.domain { Path::identity() } else { reshaped() });
        }
        if self.outline.column_stores.contains(&s) {
            return Ok(Path::identity().after(Step::Rows(s)));
        }
        match self.outline.rows {
            Some(r) if own.numel() == rows::row_count(self.ix, r) => Ok(Path::identity().after(Step::Rows(r))),
            _ => Err(Rule::OtherPoints),
        }
    }

    /// The node of a reduction's operand at the points of this kernel.
    fn operand(&mut self, reduction: usize) -> Result<NodeId, Rule> {
        let arguments = arguments(self.ix, reduction, &Path::identity(), self.domain);
        let (v, path) = arguments.into_iter().next().expect("a reduction has an operand");
        self.computed.push(reduction);
        match v {
            ValueId::Input(_) => Ok(self.load(v, &path)),
            ValueId::Op(i) => self.value(i, path),
        }
    }

    /// Whether an operation of this kernel is computed where the map leads.
    fn computed_at(&self, i: usize, map: &IndexMap) -> bool {
        let own = self.ix.seg.shapes[i];
        if self.outline.row_stores.contains(&i) || matches!(self.ix.seg.ops[i].op, Op::Reduce(_)) {
            let Some(reduction) = self.outline.rows else { return false };
            let row = |r| rows::row_map(self.ix, r);
            return own.numel() == rows::row_count(self.ix, reduction) && rows::same_places(&row(reduction), map);
        }
        is_in_order(map, self.domain.numel(), own.numel())
    }

    /// Whether an operation that takes rows takes those of this kernel.
    fn has_rows_of(&self, i: usize) -> bool {
        self.outline.rows.is_some_and(|r| rows::same_rows(self.ix, r, i))
    }

    /// The node of operation `root` under `path`. Iterative, since a chain may be as long as a segment.
    fn value(&mut self, root: usize, path: Path) -> Result<NodeId, Rule> {
        let map = self.orders.number(path.map_to(self.ix, self.ix.seg.shapes[root]));
        let mut stack = vec![Visit { op: root, path, map, arguments: None }];
        let mut last = None;
        while let Some(mut visit) = stack.pop() {
            let (i, key) = (visit.op, (ValueId::Op(visit.op), visit.map));
            if let Some(arguments) = visit.arguments.take() {
                let node = self.write(i, &visit.path, &arguments)?;
                self.computed.push(i);
                self.done.insert(key, node);
                last = Some(node);
                continue;
            }
            if let Some(&node) = self.done.get(&key) {
                last = Some(node);
                continue;
            }
            if self.outline.product.is_some_and(|p| p.0 == i) {
                let node = self.sums(i, &visit.path, visit.map)?;
                self.computed.push(i);
                self.done.insert(key, node);
                last = Some(node);
                continue;
            }
            // What the kernel stores is computed in it: read at other points than it is stored at, computed again.
            let here = self.outline.writes().any(|s| s == i);
            let constant = is_constant(self.ix.seg.ops[i].op) && self.ix.seg.mode.fused;
            if (self.stored)(i) && !here && !constant {
                let node = self.load(ValueId::Op(i), &visit.path);
                self.done.insert(key, node);
                last = Some(node);
                continue;
            }
            if self.ix.seg.ops[i].op == Op::Matmul {
                return Err(Rule::SecondProduct);
            }
            let times = self.times.entry(i).or_default();
            *times += 1;
            if *times > HOPELESS_MAPS && counts(self.ix.seg.ops[i].op) {
                return Err(Rule::Full);
            }
            if takes_rows(self.ix.seg.ops[i].op) {
                if !self.has_rows_of(i) || self.outline.column_stores.contains(&i) {
                    return Err(Rule::OtherRows);
                }
                if !self.computed_at(i, self.orders.get(visit.map)) {
                    return Err(Rule::ReadElsewhere);
                }
            }
            // What a gather takes from is read in memory.
            let in_memory = (self.ix.seg.ops[i].op == Op::Gather) as usize;
            let arguments: Vec<Argument> = arguments(self.ix, i, &visit.path, self.domain)
                .into_iter()
                .skip(in_memory)
                .map(|(v, path)| self.argument(v, path, &visit))
                .collect();
            let computed = arguments.iter().rev().filter_map(|a| match a.v {
                ValueId::Op(op) => Some(Visit { op, path: a.path.clone(), map: a.map, arguments: None }),
                ValueId::Input(_) => None,
            });
            stack.push(Visit { arguments: None, ..visit });
            let at = stack.len() - 1;
            stack.extend(computed);
            stack[at].arguments = Some(arguments);
        }
        Ok(last.expect("the root has a node"))
    }

    /// The sums of the kernel's product at its points, rounded to their dtype: elsewhere they are not complete.
    fn sums(&mut self, product: usize, path: &Path, map: MapId) -> Result<NodeId, Rule> {
        let own = self.ix.seg.shapes[product].numel();
        if !is_in_order(self.orders.get(map), self.domain.numel(), own) {
            return Err(Rule::ReadElsewhere);
        }
        let node = self.load(ValueId::Op(product), path);
        Ok(self.builder.cast(node, self.ix.seg.ops[product].dtype))
    }

    /// An argument of the operation that is visited.
    fn argument(&mut self, v: ValueId, path: Path, of: &Visit) -> Argument {
        let shape = self.ix.shape(v);
        // An elementwise operation's is most often needed where the operation is.
        let alike = path.is(&of.path) && shape == self.ix.seg.shapes[of.op];
        let map = if alike { of.map } else { self.orders.number(path.map_to(self.ix, shape)) };
        Argument { v, path, map }
    }

    /// The node of an operation whose arguments have been written before.
    fn write(&mut self, i: usize, path: &Path, arguments: &[Argument]) -> Result<NodeId, Rule> {
        let args: Vec<NodeId> = arguments
            .iter()
            .map(|a| match a.v {
                ValueId::Input(_) => match self.done.get(&(a.v, a.map)) {
                    Some(&node) => node,
                    None => {
                        let node = self.load(a.v, &a.path);
                        self.done.insert((a.v, a.map), node);
                        node
                    }
                },
                ValueId::Op(_) => self.done[&(a.v, a.map)],
            })
            .collect();
        match self.ix.seg.ops[i].op {
            Op::Gather => {
                let source = self.ix.tensors(i).next().expect("a gather has a source").1;
                self.gather(i, path, source, args[0])
            }
            _ => Ok(self.operation(i, path, arguments, &args)),
        }
    }

    fn operation(&mut self, i: usize, path: &Path, arguments: &[Argument], args: &[NodeId]) -> NodeId {
        let rel = &self.ix.seg.ops[i];
        match rel.op {
            Op::Element(e) => {
                let dtype = self.ix.operand_dtype(i);
                let mut tensors = args.iter();
                let nodes: Vec<NodeId> = rel
                    .args()
                    .enumerate()
                    .map(|(n, a)| match a {
                        Arg::Scalar => self.scalar(i, n, dtype),
                        _ => *tensors.next().expect("one node a tensor"),
                    })
                    .collect();
                self.builder.element(e, &nodes)
            }
            Op::Cast => self.builder.cast(args[0], rel.dtype),
            Op::Full => self.scalar(i, 0, rel.dtype),
            Op::Iota => {
                let index = self.index(path, self.ix.seg.shapes[i]);
                self.builder.cast(index, rel.dtype)
            }
            Op::Random(kind) => {
                let position = self.position_words(path, self.ix.seg.shapes[i]);
                let key = [Part::Low, Part::High].map(|part| self.scalar_part(i, 0, DType::U32, part));
                random_node(&mut self.builder, kind, rel.dtype, position, key)
            }
            Op::Pad => {
                let outside = self.scalar(i, 1, rel.dtype);
                self.inside_or(arguments[0].map, args[0], outside)
            }
            Op::Cat => self.inside_or(arguments[0].map, args[0], args[1]),
            Op::Reduce(reduce) => self.reduction(i, reduce, args[0]),
            Op::Scan(op) => {
                let narrow = rel.dtype;
                let node = self.builder.scan(op, rel.attr & REVERSE != 0, args[0]);
                self.builder.cast(node, narrow)
            }
            _ if rel.op.is_view() => args[0],
            other => unreachable!("{} is opaque", other.name()),
        }
    }

    /// A reduction as folds over the row.
    fn reduction(&mut self, i: usize, op: ReduceOp, x: NodeId) -> NodeId {
        let dtype = self.ix.seg.ops[i].dtype;
        let b = &mut self.builder;
        let carried = Monoid::carried(b.body().dtype(x));
        let wide = b.cast(x, carried);
        let folded = b.fold(op.monoid(), wide);
        if op == ReduceOp::Any {
            // Not "≠ 0": of nothing the fold is the lowest integer.
            let zero = b.constant(Scalar::Int(0), carried);
            return b.element(ElementOp::Gt, &[folded, zero]);
        }
        let bound = op.monoid().identity(carried) != op.monoid().identity(dtype);
        if op.plain().is_some() && bound && carried != dtype && dtype.is_int() {
            // Of nothing the fold is a bound of the wider integers.
            let (low, high) = dtype.int_range();
            let [low, high] = [low, high].map(|v| b.constant(Scalar::Int(v), carried));
            let inside = b.element(ElementOp::Clamp, &[folded, low, high]);
            return b.cast(inside, dtype);
        }
        if !matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMin) {
            return b.cast(folded, dtype);
        }
        // The first place where the extremum stands; a NaN is one where it is the result. It is looked for in another
        // pass.
        b.repeatable();
        let mut hit = b.element(ElementOp::Eq, &[wide, folded]);
        if carried.is_float() {
            let nan = b.element(ElementOp::Ne, &[wide, wide]);
            hit = b.element(ElementOp::Or, &[hit, nan]);
        }
        let place = self.place_in_row(i);
        let b = &mut self.builder;
        let none = b.constant(Scalar::Int(u32::MAX as i64), DType::U32);
        let candidate = b.element(ElementOp::Where, &[hit, place, none]);
        let first = b.fold(Monoid::Min, candidate);
        b.cast(first, dtype)
    }

    /// The place of a point along the one axis that operation `i` reduces.
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

    /// The element of `source`, which is in memory, at the place along the axis that the index says.
    fn gather(&mut self, i: usize, path: &Path, source: ValueId, index: NodeId) -> Result<NodeId, Rule> {
        let ix = self.ix;
        let axis = ix.seg.ops[i].attr as usize;
        let (base, chain) = view_base(ix, source, &|i| (self.stored)(i));
        if self.outline.writes().any(|s| ValueId::Op(s) == base) {
            return Err(Rule::ReadElsewhere);
        }
        let view = strided(ix, layout(ix, base), &chain).ok_or(Rule::NoStrides)?;
        let (size, stride) = (view.shape[axis], view.strides()[axis]);
        // Along the other axes the element stands where the result does.
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
            // No strides lead there, or none that run on along a row: the place along the other axes is a number too.
            // Points that a mask leaves out read element 0.
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

    /// A number that the sizes give, as a scalar of the launch: so that the body is the same for all sizes.
    fn size(&mut self, value: i64) -> NodeId {
        self.scalar_argument(ScalarArg::Size(value), DType::I64)
    }

    /// `value` where the map from the domain leads somewhere, else `other`.
    fn inside_or(&mut self, map: MapId, value: NodeId, other: NodeId) -> NodeId {
        let map = self.orders.get(map).clone();
        if !map.is_masked() {
            return value;
        }
        let access = self.access(None, (*map).clone());
        let valid = self.builder.node(Node::Valid { access });
        self.builder.element(ElementOp::Where, &[valid, value, other])
    }

    fn load(&mut self, v: ValueId, path: &Path) -> NodeId {
        let map = path.apply(self.ix, IndexMap::new(layout(self.ix, v)));
        let access = self.access(Some(v), map);
        self.builder.node(Node::Load { access })
    }

    /// The row-major index in a space of that shape, as u32 or, where that is too small, i64.
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

    fn access(&mut self, source: Option<ValueId>, map: IndexMap) -> u16 {
        if let Some(&a) = self.accesses.get(&(source, map.clone())) {
            return a;
        }
        let operand = source.map(|v| {
            let at = self.reads.iter().position(|r| *r == v).unwrap_or_else(|| {
                self.reads.push(v);
                self.reads.len() - 1
            });
            u16::try_from(at).expect("a kernel has at most 65,536 operands")
        });
        let dtype = match source {
            None => DType::U32,
            Some(ValueId::Op(i)) if self.outline.product.is_some_and(|p| p.0 == i) => {
                self.outline.product.expect("just asked").1
            }
            Some(v) => self.ix.dtype(v),
        };
        // The class follows from the sizes, below.
        let access = self.builder.access(Access { operand, dtype, class: AccessClass::Contiguous, per_row: false });
        self.maps.push(map.clone());
        self.sources.push(source);
        self.accesses.insert((source, map), access);
        access
    }

    fn scalar(&mut self, op: usize, arg: usize, dtype: DType) -> NodeId {
        self.scalar_part(op, arg, dtype, Part::Whole)
    }

    fn scalar_part(&mut self, op: usize, arg: usize, dtype: DType, part: Part) -> NodeId {
        let index = self.classes.representative(self.ix.scalar(op, arg)) as u32;
        self.scalar_argument(ScalarArg::Segment { index, part }, dtype)
    }

    fn scalar_argument(&mut self, wanted: ScalarArg, dtype: DType) -> NodeId {
        let slot = self.scalars.iter().position(|s| *s == wanted).unwrap_or_else(|| {
            self.scalars.push(wanted);
            self.scalars.len() - 1
        });
        let slot = u16::try_from(slot).expect("a kernel has at most 65,536 scalars");
        self.builder.scalar(slot, dtype)
    }

    /// The kernel, its domain laid out as one.
    fn laid_out(mut self) -> MapKernel {
        let body = std::mem::take(&mut self.builder).finish();
        let (kernel, geometry) = self.kernel(body);
        let Written { reads, scalars, in_place, touched, computed, .. } = self.finish();
        MapKernel { kernel, geometry, reads, scalars, in_place, touched, computed }
    }

    fn finish(mut self) -> Written {
        let body = std::mem::take(&mut self.builder).finish();
        let distinct: Vec<usize> = self.maps.iter().map(IndexMap::distinct).collect();
        let points = self.domain.numel();
        let touched = self
            .reads
            .iter()
            .map(|v| {
                let of_value = self.sources.iter().zip(&distinct).filter(|(s, _)| **s == Some(*v));
                let touched: usize = of_value.map(|(_, n)| n).sum();
                touched.min(layout(self.ix, *v).distinct()) * self.ix.dtype(*v).size()
            })
            .collect();
        let mut in_place = vec![];
        for (n, &s) in self.outline.stores.iter().enumerate() {
            let size = self.ix.seg.ops[s].dtype.size();
            for (r, v) in self.reads.iter().enumerate() {
                let mut own = self.sources.iter().zip(&self.maps).filter(|(s, _)| **s == Some(*v));
                let whole = self.ix.shape(*v).numel() == points && self.ix.dtype(*v).size() == size;
                if whole && own.all(|(_, m)| m.as_view().is_some_and(View::is_contiguous)) {
                    in_place.push((self.reads.len() + n, r));
                }
            }
        }
        let Writer { maps, reads, scalars, computed, .. } = self;
        Written { body, maps, reads, scalars, in_place, touched, computed }
    }
}

impl Writer<'_> {
    fn kernel(&self, body: Body) -> (Kernel, Geometry) {
        if let Some(reduction) = self.outline.rows {
            let points = self.outline.stores.len();
            let row_stores = points..points + self.outline.row_stores.len();
            let (mut kernel, geometry) = rows::lay_out(body, self.ix, (reduction, row_stores), self.domain, &self.maps);
            if let Kernel::Rows { body, .. } = &mut kernel {
                // Of a tensor without elements there is none for the whole row either.
                let empty = |v: &Option<ValueId>| v.is_some_and(|v| self.ix.shape(v).numel() == 0);
                for (access, _) in body.accesses.iter_mut().zip(&self.sources).filter(|(_, v)| empty(v)) {
                    access.per_row = false;
                }
            }
            return (kernel, Geometry::Rows(geometry));
        }
        let (domain, maps) = boxes::renumbered(self.domain, &self.maps);
        let boxes = boxes::boxes(domain, &maps);
        if boxes.len() == 1 {
            let (body, geometry) = lay_out(body, domain, &maps);
            return (Kernel::Map(body), Geometry::Map(geometry));
        }
        let laid: Vec<(Body, MapGeometry)> = boxes.iter().map(|b| lay_out_box(&body, &maps, b)).collect();
        let (bodies, geometries) = laid.into_iter().unzip();
        (Kernel::Boxes(bodies), Geometry::Boxes(geometries))
    }
}
