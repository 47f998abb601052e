//! From a map kernel of a plan to its body and geometry: every operation in it is written down under the index map
//! through which it is needed, and movement disappears into the accesses.
//!
//! Here is the way from the stores to the loads; `nodes` writes an operation, `accesses` what is read, `finished` lays
//! out the result.

mod accesses;
mod finished;
mod nodes;

use super::movement::{Path, Step, arguments, is_in_order};
use super::rows;
use super::rules::{Rule, counts, hopeless_maps, is_constant};
use super::step::ScalarArg;
use crate::exact;
use crate::scalars::ScalarClasses;
use crate::segment::{Indexed, ValueId};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use thalweg_ir::{DType, Op, Shape};
use thalweg_kernel::{Access, AccessClass, Body, BodyBuilder, Geometry, IndexMap, Kernel, NodeId};

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

/// Writes the kernel that an outline describes, or says which rule it breaks. Whether the rows of a shared pass are one
/// dimension is known only from the layout of all its accesses.
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
    // Rows of another tensor than the one whose shape the domain has: an equality of sizes that the plan assumes.
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
        if self.outline.row_stores.contains(&i) || self.ix.seg.ops[i].op.is_fold() {
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
        let node = self.builder.cast(node, self.ix.seg.ops[product].dtype);
        Ok(self.rounded(product, node))
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
            _ => {
                let node = self.operation(i, path, arguments, &args);
                Ok(self.rounded(i, node))
            }
        }
    }

    /// The node of an operation, rounded to its dtype where the operation is exact.
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
