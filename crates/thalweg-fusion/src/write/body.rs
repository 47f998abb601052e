//! Body writer: turns a map kernel of a plan into its body and geometry. Every operation is written under the index map
//! through which it is needed; movement disappears into the accesses.
//!
//! This file proceeds from the stores to the loads. `nodes` writes one operation, `accesses` the loads, and `finished`
//! lays out the result.

mod accesses;
mod finished;
mod nodes;

use super::movement::{Path, Step, arguments, is_in_order};
use super::rules::{Rule, counts, hopeless_maps, is_constant};
use super::step::ScalarArg;
use super::{boxes, rows};
use crate::exact;
use crate::scalars::ScalarClasses;
use crate::segment::{Indexed, ValueId};
use crate::tunable::TUNABLES;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use thalweg_ir::{DType, MAX_ARGS, Op, Shape};
use thalweg_kernel::{Access, AccessClass, Body, BodyBuilder, Geometry, IndexMap, Kernel, NodeId};

/// Map kernel with sizes.
pub(crate) struct MapKernel {
    pub kernel: Kernel,
    pub geometry: Geometry,
    /// Values that the kernel reads, in the order of its operands; the stores follow.
    pub reads: Vec<ValueId>,
    pub scalars: Vec<ScalarArg>,
    pub in_place: Vec<(usize, usize)>,
    /// Bytes of distinct elements read, for each of `reads`.
    pub touched: Vec<usize>,
    /// Operations computed in the kernel: each once per index map under which it is needed.
    pub computed: Vec<usize>,
}

/// Written body over a domain whose dimensions are not laid out yet.
pub(crate) struct Written {
    pub body: Body,
    /// Map from the domain to the source, for each access.
    pub maps: Vec<IndexMap>,
    /// See [`MapKernel`].
    pub reads: Vec<ValueId>,
    pub scalars: Vec<ScalarArg>,
    pub in_place: Vec<(usize, usize)>,
    pub touched: Vec<usize>,
    pub computed: Vec<usize>,
}

/// Domain and stores of a kernel to write.
#[derive(Clone, Copy)]
pub(crate) struct Outline<'a> {
    /// Value whose shape is the domain.
    pub domain: ValueId,
    /// Reduction or scan that defines the rows; `None` for a map.
    pub rows: Option<usize>,
    /// Operations stored point by point.
    pub stores: &'a [usize],
    /// Operations stored row by row.
    pub row_stores: &'a [usize],
    /// Reductions over all rows, combined across rows by the launch.
    pub column_stores: &'a [usize],
    /// Matrix product whose accumulators the kernel receives at its points (the domain is its shape), or an operation
    /// that another kernel computed from these; with the dtype in which it receives them.
    pub product: Option<(usize, DType)>,
}

impl<'a> Outline<'a> {
    /// Outline of a map kernel that stores these operations point by point.
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
    /// Interned maps, each from the domain to the row-major elements of a value.
    orders: Maps,
    /// Node that computes a value under a map, for values written so far.
    done: FxHashMap<(ValueId, MapId), NodeId>,
    /// Index of the access to a value (or to an index space without one) under a map.
    accesses: FxHashMap<(Option<ValueId>, IndexMap), u16>,
    maps: Vec<IndexMap>,
    sources: Vec<Option<ValueId>>,
    reads: Vec<ValueId>,
    scalars: Vec<ScalarArg>,
    computed: Vec<usize>,
    /// Number of index maps under which each operation is computed.
    times: FxHashMap<usize, usize>,
}

/// Interned index maps, equal ones by one number: most values of a kernel are needed under the same map.
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

/// Argument of an operation that is being written.
struct Argument {
    v: ValueId,
    path: Path,
    /// Map from the domain to the value's row-major elements.
    map: MapId,
}

/// Entry of the stack on which operations are written, from the stores to the loads. Without `arguments` the operation
/// is seen for the first time; with them it is ready to be written.
struct Visit {
    op: usize,
    path: Path,
    map: MapId,
    arguments: Option<Vec<Argument>>,
}

/// Writes the kernel of an outline, or returns the rule that it breaks. Only the layout of all accesses shows whether a
/// row of a shared pass is one dimension, so that rule is checked last.
pub(crate) fn build_map(
    ix: &Indexed<'_>,
    outline: Outline<'_>,
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Result<MapKernel, Rule> {
    let map = write(ix, outline, stored, classes)?.laid_out();
    match &map.geometry {
        Geometry::Rows(rows) if !outline.column_stores.is_empty() && rows.extents.len() != rows.kept + 1 => {
            Err(Rule::BrokenRows)
        }
        _ => Ok(map),
    }
}

/// Writes the body of an outline.
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
    // The rows belong to another tensor than the one whose shape is the domain: the plan assumes equal sizes.
    if let Some(r) = outline.rows
        && ix.shape(rows::operand(ix, r)).numel() != ix.shape(outline.domain).numel()
    {
        return Err(Rule::OtherPoints);
    }
    let mut w = Writer::new(ix, outline, stored, classes);
    let mut values = vec![];
    for s in outline.writes() {
        let path = w.path_to(s)?;
        let node = if outline.column_stores.contains(&s) { w.operand(s)? } else { w.value(s, path.clone())? };
        values.push((s, path, node));
    }
    // Written operands follow the read ones.
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
    w.within_limits()
}

/// Writes the map kernel that computes an operation over its own shape, as private input of an enclosing kernel, such
/// as the index of a scatter. Its output is no value of the plan.
pub(crate) fn build_input(
    ix: &Indexed<'_>,
    op: usize,
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Result<MapKernel, Rule> {
    write_input(ix, (op, Outline::map(ValueId::Op(op), &[])), stored, classes).map(|w| w.laid_out())
}

/// Writes the prologue body of a GEMM operand: the body that computes operation `op` over its own shape. The outline
/// may have rows (a row body), and the product whose accumulators the body receives.
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
    w.within_limits()
}

/// Number of nodes that a dimension of a level of an index map counts as. NVRTC takes far longer for one, with its division
/// in each of a thread's points: 8 s for 37 maps of 300 dimensions. The limit is for such kernels; those of tens of maps
/// compile in a second, and run as fast as several.
const NODES_PER_MAP_DIMENSION: usize = 16;

impl<'a> Writer<'a> {
    /// Rejects, for a slow compiler, a body with more accesses than the arguments of a launch can hold, or with more
    /// code than compiles in about a second.
    fn within_limits(self) -> Result<Writer<'a>, Rule> {
        let fits = || TUNABLES.max_accesses.admits(self.maps.len()) && self.compiles_soon();
        if !self.ix.seg.mode.compiles_long() || fits() { Ok(self) } else { Err(Rule::Full) }
    }

    /// Whether the code has few enough nodes, with a body for each box of the domain. In boxes most index maps are
    /// strides; elsewhere the code computes them.
    fn compiles_soon(&self) -> bool {
        let nodes = self.builder.body().nodes.len();
        let of_maps = self.map_dimensions() * NODES_PER_MAP_DIMENSION;
        let few = |nodes: usize| TUNABLES.max_compiled_nodes.admits(nodes);
        if self.outline.rows.is_some() || of_maps == 0 && few(nodes * TUNABLES.max_boxes.get()) {
            return few(nodes + of_maps);
        }
        let (domain, maps) = boxes::renumbered(self.domain, &self.maps);
        match boxes::cut(domain, &maps, self.ix.seg.mode).len() {
            0 | 1 => few(nodes + of_maps),
            boxes => few(nodes * boxes),
        }
    }

    /// Number of dimensions of all levels of the index maps that strides do not express; 0 for as many maps as a single
    /// operation may have, which cannot be split.
    fn map_dimensions(&self) -> usize {
        let maps = || self.maps.iter().filter(|map| map.as_view().is_none());
        let dimensions = || maps().flat_map(IndexMap::levels).map(|(view, _)| view.shape.rank()).sum();
        if maps().count() > MAX_ARGS { dimensions() } else { 0 }
    }

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
    /// Path from the domain to an operation that the kernel stores.
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

    /// Writes the operand of a reduction at the points of this kernel; returns its node.
    fn operand(&mut self, reduction: usize) -> Result<NodeId, Rule> {
        let arguments = arguments(self.ix, reduction, &Path::identity(), self.domain);
        let (v, path) = arguments.into_iter().next().expect("a reduction has an operand");
        self.computed.push(reduction);
        match v {
            ValueId::Input(_) => Ok(self.load(v, &path)),
            ValueId::Op(i) => self.value(i, path),
        }
    }

    /// Whether this kernel computes operation `i` at the points that the map reads.
    fn computed_at(&self, i: usize, map: &IndexMap) -> bool {
        let own = self.ix.seg.shapes[i];
        if self.outline.row_stores.contains(&i) || self.ix.seg.ops[i].op.is_fold() {
            let Some(reduction) = self.outline.rows else { return false };
            let row = |r| rows::row_map(self.ix, r);
            return own.numel() == rows::row_count(self.ix, reduction) && rows::same_places(&row(reduction), map);
        }
        is_in_order(map, self.domain.numel(), own.numel())
    }

    /// Whether an operation over rows uses the rows of this kernel.
    fn has_rows_of(&self, i: usize) -> bool {
        self.outline.rows.is_some_and(|r| rows::same_rows(self.ix, r, i))
    }

    /// Writes operation `root` under `path`, with everything it depends on; returns its node. Iterative, since a chain
    /// may be as long as a segment.
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
            // Values stored by this kernel are computed in it; if read at other points, they are recomputed there.
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
            if *times > hopeless_maps() && counts(self.ix.seg.ops[i].op) {
                return Err(Rule::Full);
            }
            if self.ix.takes_rows(i) {
                if !self.has_rows_of(i) || self.outline.column_stores.contains(&i) {
                    return Err(Rule::OtherRows);
                }
                if !self.computed_at(i, self.orders.get(visit.map)) {
                    return Err(Rule::ReadElsewhere);
                }
            }
            // A gather reads its source from memory.
            let in_memory = self.ix.seg.ops[i].op.info().args_in_memory();
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

    /// Loads the product's accumulators, and rounds them to the product's dtype; returns the node. Fails if the map
    /// reads them at other points than the kernel's own, where they are incomplete.
    fn sums(&mut self, product: usize, path: &Path, map: MapId) -> Result<NodeId, Rule> {
        let own = self.ix.seg.shapes[product].numel();
        if !is_in_order(self.orders.get(map), self.domain.numel(), own) {
            return Err(Rule::ReadElsewhere);
        }
        let node = self.load(ValueId::Op(product), path);
        let node = self.builder.cast(node, self.ix.seg.ops[product].dtype);
        Ok(self.rounded(product, node))
    }

    /// Argument `v` of the visited operation `of`, with its path and map.
    fn argument(&mut self, v: ValueId, path: Path, of: &Visit) -> Argument {
        let shape = self.ix.shape(v);
        // Fast path: an elementwise operation's argument usually has the map of the operation.
        let alike = path.is(&of.path) && shape == self.ix.seg.shapes[of.op];
        let map = if alike { of.map } else { self.orders.number(path.map_to(self.ix, shape)) };
        Argument { v, path, map }
    }

    /// Writes an operation whose arguments have been written; returns its node.
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
            _ => {
                let node = self.operation(i, path, arguments, &args);
                Ok(self.rounded(i, node))
            }
        }
    }

    /// Rounds the node of an operation to its dtype if the operation is exact; returns the node. If roundings inside
    /// the operation might be contracted away, also makes the body repeatable.
    fn rounded(&mut self, i: usize, node: NodeId) -> NodeId {
        if !exact::is_exact(self.ix, i) {
            return node;
        }
        let rel = &self.ix.seg.ops[i];
        if exact::may_contract_inside(rel.op, rel.dtype) && !self.builder.body().strict {
            self.builder.repeatable();
        }
        self.builder.round(node)
    }
}
