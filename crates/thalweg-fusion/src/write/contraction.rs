//! Contraction writer: turns a product of a plan into its kernel, with prologues for operands that are not in memory
//! and an epilogue, each over a domain that can be run rectangle by rectangle. docs/contractions.md has the idea.

use super::body::{Outline, Written, write_body, write_input_body};
use super::boxes;
use super::map_layout::{SharedMaps, access_geometry, resolved, strides_of};
use super::movement::{layout, view_base, viewed};
use super::rows;
use super::rules::{Rule, is_constant};
use super::step::{ScalarArg, Slot, Step};
use crate::plan::Products;
use crate::scalars::ScalarClasses;
use crate::segment::{Indexed, ValueId};
use thalweg_ir::{DType, MAX_RANK, Shape, View};
use thalweg_kernel::{
    AccessClass, Body, Contraction, ContractionGeometry, Contracts, Epilogue, FactorOrder, Geometry, IndexMap, Inner,
    Kernel, MapGeometry, MatmulGeometry, Precision, Prologue, TileBox, TileGeometry, bodies, weights,
};

/// Maximum head dimensions of flash attention on a device without fused row operations: columns of the result (value
/// dimension), and terms of a score (key dimension).
const WIDEST: usize = 128;

/// Written contraction, with its geometry and operands.
pub(crate) struct ContractionKernel {
    pub kernel: Contraction,
    pub geometry: ContractionGeometry,
    /// Values that the kernel reads, in the order of its operands; a value may occur more than once.
    pub reads: Vec<ValueId>,
    pub scalars: Vec<ScalarArg>,
    /// See [`Step::in_place`].
    pub in_place: Vec<(usize, usize)>,
    /// Bytes of distinct elements read through each operand.
    pub touched: Vec<usize>,
    /// Operations computed in the kernel, each with its number of points, once per index map.
    pub computed: Vec<(usize, usize)>,
}

/// Outline of a contraction: its products and stores.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub products: Products,
    /// Operations stored with one element per accumulator.
    pub stores: &'a [usize],
    /// Operations stored row by row.
    pub row_stores: &'a [usize],
}

/// Writes the kernel that computes a product and stores the operations of `wanted`, or returns the rule that it breaks.
pub(crate) fn build_contraction(
    ix: &Indexed<'_>,
    wanted: Wanted<'_>,
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Result<ContractionKernel, Rule> {
    let Wanted { products: Products { product, inner, left_rows, rows }, stores, row_stores } = wanted;
    let points = ix.seg.shapes[product].numel();
    if stores.iter().any(|&s| ix.seg.shapes[s].numel() != points) {
        return Err(Rule::OtherPoints);
    }
    let writer = Factors { ix, stored, classes };
    let mut made = writer.product(product, (inner, left_rows))?;
    if ix.seg.mode.contracts < Contracts::Rows && !made.streams() {
        return Err(Rule::OtherRows);
    }
    // Values that the kernel writes have to be complete before an operand can be read from there.
    let mut written = stores.iter().chain(row_stores);
    if written.any(|&s| made.reads.contains(&ValueId::Op(s))) {
        return Err(Rule::ReadElsewhere);
    }
    if stores != [product] || !row_stores.is_empty() {
        let given = Some((product, made.kernel.accumulator()));
        let outline = Outline { product: given, rows, row_stores, ..Outline::map(ValueId::Op(product), stores) };
        made.epilogue(ix, outline, write_body(ix, outline, stored, classes)?);
    }
    Ok(made)
}

/// Context for writing a product with its operands.
struct Factors<'a> {
    ix: &'a Indexed<'a>,
    stored: &'a dyn Fn(usize) -> bool,
    classes: &'a ScalarClasses,
}

impl Factors<'_> {
    /// Writes a product with its operands. The left operand may be computed from a producer GEMM, and along rows.
    fn product(
        &self,
        product: usize,
        (inner, left_rows): (Option<(usize, usize)>, Option<usize>),
    ) -> Result<ContractionKernel, Rule> {
        let ix = self.ix;
        let (dtype, shape) = (ix.seg.ops[product].dtype, ix.seg.shapes[product]);
        let mut made = ContractionKernel::unfused(dtype, ix.seg.mode.precision(dtype));
        made.computed.push((product, shape.numel()));
        let mut views = [View::contiguous(shape); 2];
        let mut reaches = [None, None];
        let factors: Vec<_> = ix.tensors(product).map(|(_, v)| (v, self.in_memory(v))).collect();
        let split = factors.iter().find_map(|(_, found)| BatchSplit::of(shape, &found.as_ref()?.1));
        for (n, (v, found)) in factors.into_iter().enumerate() {
            let view = |map: IndexMap| split.as_ref().map_or(map.clone(), |s| s.apply(map)).as_view().copied();
            if let Some((base, view)) = found.and_then(|(base, map)| Some((base, view(map)?))) {
                made.reads.push(base);
                made.touched.push(view.distinct() * ix.dtype(v).size());
                reaches[n] = IndexMap::new(view).reach();
                views[n] = view;
                continue;
            }
            let ValueId::Op(op) = v else { unreachable!("an input lies in memory") };
            let own = View::contiguous(ix.shape(v));
            views[n] = view(IndexMap::new(own)).expect("a dimension of strides splits into two");
            let (inner, rows) = if n == 0 { (inner, left_rows) } else { (None, None) };
            let inner = inner.map(|p| self.inner(p)).transpose()?;
            let given = inner.as_ref().map(|i| (i.end, i.dtype));
            let outline = Outline { product: given, rows, ..Outline::map(v, &[]) };
            let body = write_input_body(ix, (op, outline), self.stored, self.classes)?;
            made.factor(ix, n, (body, inner), outline);
        }
        let shape = split.map_or(shape, |s| s.shape);
        made.geometry.product = product_geometry(shape, views, reaches);
        Ok(made)
    }

    /// Base of an operand in memory, and its map from there; `None` for one that is computed.
    fn in_memory(&self, v: ValueId) -> Option<(ValueId, IndexMap)> {
        let (base, chain) = view_base(self.ix, v, self.stored);
        let stored = match base {
            ValueId::Input(_) => true,
            // A constant that another kernel stores is not waited for.
            ValueId::Op(i) => (self.stored)(i) && !is_constant(self.ix.seg.ops[i].op),
        };
        stored.then(|| (base, viewed(self.ix, layout(self.ix, base), &chain)))
    }

    /// Writes the producer GEMM that a left operand is computed from, with its elementwise chain up to `end`.
    fn inner(&self, (product, end): (usize, usize)) -> Result<InnerKernel, Rule> {
        let mut made = self.product(product, (None, None))?;
        let mut dtype = made.kernel.accumulator();
        if end != product {
            let stores = [end];
            let given = Some((product, dtype));
            let outline = Outline { product: given, ..Outline::map(ValueId::Op(product), &stores) };
            made.epilogue(self.ix, outline, write_body(self.ix, outline, self.stored, self.classes)?);
            dtype = self.ix.seg.ops[end].dtype;
        }
        Ok(InnerKernel { made, end, dtype })
    }
}

/// Split of one batch dimension of a product into two, so that strides express an operand whose matrices repeat: heads of
/// keys and values that several heads of queries share, as a broadcast with two dimensions merged.
struct BatchSplit {
    axis: usize,
    /// Size of the first of the two dimensions.
    outer: usize,
    /// Shape of the product with both.
    shape: Shape,
}

impl BatchSplit {
    /// Split for an operand of a product of this shape; `None` if strides express the operand as it is, or none helps.
    fn of(shape: Shape, operand: &IndexMap) -> Option<BatchSplit> {
        let rank = shape.rank();
        if operand.as_view().is_some() || operand.is_masked() || operand.shape().rank() != rank || rank == MAX_RANK {
            return None;
        }
        let splits = (0..rank - 2).flat_map(|axis| (2..shape[axis]).map(move |outer| (axis, outer)));
        let divides =
            |&(axis, outer): &(usize, usize)| operand.shape()[axis] == shape[axis] && shape[axis].is_multiple_of(outer);
        let split = |(axis, outer)| BatchSplit { axis, outer, shape: BatchSplit::divided(shape, axis, outer) };
        splits.filter(divides).map(split).find(|s| s.apply(operand.clone()).as_view().is_some())
    }

    fn divided(shape: Shape, axis: usize, outer: usize) -> Shape {
        let mut dims = shape.dims().to_vec();
        dims.splice(axis..=axis, [outer, shape[axis] / outer]);
        Shape::new(&dims)
    }

    /// Map of an operand with its batch dimension split. An operand that lacks the dimension stays as it is; one element
    /// of it becomes two dimensions of one.
    fn apply(&self, map: IndexMap) -> IndexMap {
        let own = map.shape();
        let Some(axis) = (self.axis + own.rank() + 1).checked_sub(self.shape.rank()) else { return map };
        let outer = if own[axis] == 1 { 1 } else { self.outer };
        map.reshape(BatchSplit::divided(own, axis, outer))
    }
}

/// Written producer GEMM of an operand: its kernel, the operation that it ends with, and the dtype of its result.
struct InnerKernel {
    made: ContractionKernel,
    end: usize,
    dtype: DType,
}

/// Builds the launch of a contraction.
pub(crate) fn contraction(
    ix: &Indexed<'_>,
    wanted: Wanted<'_>,
    kernel_index: usize,
    slot: &dyn Fn(ValueId) -> Slot,
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Result<Step, Rule> {
    let made = build_contraction(ix, wanted, stored, classes)?;
    let first_write = made.reads.len();
    let mut distinct: Vec<(ValueId, usize)> = vec![];
    for (&v, &bytes) in made.reads.iter().zip(&made.touched) {
        let all = layout(ix, v).distinct() * ix.dtype(v).size();
        match distinct.iter_mut().find(|d| d.0 == v) {
            Some(d) => d.1 = all.min(d.1 + bytes),
            None => distinct.push((v, bytes)),
        }
    }
    let writes = || wanted.stores.iter().chain(wanted.row_stores).map(|&s| ValueId::Op(s));
    Ok(Step {
        kernel_index,
        kernel: Kernel::Contraction(made.kernel).into(),
        geometry: Geometry::Contraction(Box::new(made.geometry)).into(),
        operands: made.reads.iter().copied().chain(writes()).map(slot).collect(),
        first_write,
        scalars: made.scalars,
        in_place: if ix.seg.mode.fused { made.in_place } else { vec![] },
        out_of_range: None,
        bytes_read: distinct.iter().map(|d| d.1).sum(),
        touched: made.touched,
        bytes_written: writes().map(|v| ix.bytes(v)).sum(),
        form: None,
    })
}

impl ContractionKernel {
    /// Whether a left operand that is computed from another product has weights that flash attention can compute in one
    /// pass on tensor cores; true without such an operand.
    fn streams(&self) -> bool {
        let Some((factor, tiles)) = self.kernel.factors[0].as_deref().zip(self.geometry.factors[0].as_deref()) else {
            return true;
        };
        let Some((inner, of_inner)) = factor.inner.as_deref().zip(self.geometry.inner.as_deref()) else {
            return true;
        };
        let narrow = self.geometry.product.n <= WIDEST && of_inner.product.k <= WIDEST;
        let bare = inner.product.factors.iter().chain(&self.kernel.factors[1..]).all(Option::is_none);
        let [body] = bodies(&factor.kernel) else { return false };
        narrow && bare && tiles.boxes.len() == 1 && weights(body).is_some()
    }

    fn unfused(dtype: DType, precision: Precision) -> ContractionKernel {
        let (reach, m) = ([None, None], 0);
        let nothing = MatmulGeometry { batch: vec![], m, n: 0, k: 0, a: (0, 0, 0), b: (0, 0, 0), reach };
        ContractionKernel {
            kernel: Contraction::unfused(dtype, precision),
            geometry: ContractionGeometry::unfused(nothing),
            reads: vec![],
            scalars: vec![],
            in_place: vec![],
            touched: vec![],
            computed: vec![],
        }
    }

    /// Adds the prologue of operand `n`: its body, and the producer GEMM if there is one.
    fn factor(
        &mut self,
        ix: &Indexed<'_>,
        n: usize,
        (mut body, inner): (Written, Option<InnerKernel>),
        outline: Outline<'_>,
    ) {
        let (mut order, (mut kernel, mut tiles)) = (FactorOrder::Own, laid_out(ix, &body, outline));
        let shape = ix.shape(outline.domain);
        // GPU tiles support only the operand's own order.
        let may_turn = ix.seg.mode.contracts == Contracts::Rows && outline.rows.is_none() && inner.is_none();
        if may_turn && strided_elements(&kernel, &tiles) > 0 {
            let turned = tiled(ix, &body, shape, FactorOrder::Turned);
            if strided_elements(&turned.0, &turned.1) < strided_elements(&kernel, &tiles) {
                (order, (kernel, tiles)) = (FactorOrder::Turned, turned);
            }
        }
        self.count(ix, &body, outline, shape);
        let inner = inner.map(|InnerKernel { made, end, dtype }| {
            let sums = body.remove(end);
            self.reads.extend(made.reads);
            self.touched.extend(made.touched);
            self.scalars.extend(made.scalars);
            self.computed.extend(made.computed);
            self.geometry.inner = Some(Box::new(made.geometry));
            Box::new(Inner { product: made.kernel, sums, dtype })
        });
        let prologue = Prologue { kernel, order, operands: body.reads.len(), scalars: body.scalars.len(), inner };
        self.kernel.factors[n] = Some(Box::new(prologue));
        self.geometry.factors[n] = Some(Box::new(tiles));
        self.reads.extend(body.reads);
        self.touched.extend(body.touched);
        self.scalars.extend(body.scalars);
    }

    /// Adds the epilogue to the kernel.
    fn epilogue(&mut self, ix: &Indexed<'_>, outline: Outline<'_>, mut body: Written) {
        let product = outline.product.expect("an epilogue is of a product").0;
        let (kernel, tiles) = laid_out(ix, &body, outline);
        self.count(ix, &body, outline, ix.seg.shapes[product]);
        let reads = body.reads.len();
        let factors = self.reads.clone();
        let sums = body.remove(product);
        self.kernel.epilogue = Some(Box::new(Epilogue {
            kernel,
            sums,
            reads: reads as u16,
            writes: (outline.stores.len() + outline.row_stores.len()) as u16,
            scalars: body.scalars.len() as u16,
        }));
        self.geometry.epilogue = Some(Box::new(tiles));
        // A result may reuse the memory of an operand read at the same point, unless a matrix operand is read from
        // there.
        let before = factors.len();
        for (written, read) in body.in_place.iter().filter(|p| p.1 != sums as usize) {
            let read = read - (*read > sums as usize) as usize;
            if !factors.contains(&body.reads[read]) {
                self.in_place.push((before + written - 1, before + read));
            }
        }
        self.reads.extend(body.reads);
        self.touched.extend(body.touched);
        self.scalars.extend(body.scalars);
    }

    /// Adds the operations that a body over `shape` computes to `computed`. Products are counted elsewhere.
    fn count(&mut self, ix: &Indexed<'_>, body: &Written, outline: Outline<'_>, shape: Shape) {
        let rows = outline.rows.map(|r| rows::row_count(ix, r));
        let others = body.computed.iter().filter(|&&op| outline.product.is_none_or(|p| p.0 != op));
        self.computed.extend(others.map(|&op| {
            let once_a_row = rows == Some(ix.seg.shapes[op].numel());
            (op, if once_a_row { ix.seg.shapes[op].numel() } else { shape.numel() })
        }));
    }
}

impl Written {
    /// Removes the accumulators of a product from the values read from memory, since the epilogue gets them directly.
    /// Returns their operand index in the body.
    fn remove(&mut self, product: usize) -> u16 {
        let sums = self.reads.iter().position(|v| *v == ValueId::Op(product));
        let sums = sums.expect("what is computed from a product reads its sums");
        self.reads.remove(sums);
        self.touched.remove(sums);
        sums as u16
    }
}

/// Lays out a prologue over its operand's shape, or an epilogue over the accumulators' shape. Returns a kernel that can
/// run on rectangles of rows and columns, and its geometry.
fn laid_out(ix: &Indexed<'_>, written: &Written, outline: Outline<'_>) -> (Kernel, TileGeometry) {
    let shape = ix.shape(outline.domain);
    match outline.rows {
        Some(_) => {
            let points = written.body.stores.len() - outline.row_stores.len();
            rows::lay_out_tiled(written.body.clone(), points, shape, &written.maps)
        }
        None => tiled(ix, written, shape, FactorOrder::Own),
    }
}

/// Number of elements that a kernel's strided and mapped accesses read or write.
fn strided_elements(kernel: &Kernel, tiles: &TileGeometry) -> usize {
    let boxes = bodies(kernel).iter().zip(&tiles.boxes);
    let strided = |body: &Body| {
        body.accesses.iter().filter(|a| matches!(a.class, AccessClass::Strided | AccessClass::Mapped)).count()
    };
    boxes.map(|(body, part)| strided(body) * part.geometry.points()).sum()
}

/// Geometry of a product of two views.
pub(super) fn product_geometry(shape: Shape, views: [View; 2], reach: [Option<(usize, usize)>; 2]) -> MatmulGeometry {
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
    let [a, b] = views.each_ref().map(whole);
    MatmulGeometry {
        batch: (0..rank - 2).map(|i| (shape[i], a.strides()[i], b.strides()[i])).collect(),
        m: shape[rank - 2],
        n: shape[rank - 1],
        k: a.shape[rank - 1],
        a: matrix(&views[0]),
        b: matrix(&views[1]),
        reach,
    }
}

/// Lays out a body over `[batch…, rows, columns]`, or over `[batch…, columns, rows]` of its transpose, as a kernel that
/// can run on rectangles of rows and columns.
fn tiled(ix: &Indexed<'_>, written: &Written, shape: Shape, order: FactorOrder) -> (Kernel, TileGeometry) {
    let (shape, own) = match order {
        FactorOrder::Own => (shape, written.maps.clone()),
        FactorOrder::Turned => {
            let axes: Vec<usize> = (0..shape.rank() - 2).chain([shape.rank() - 1, shape.rank() - 2]).collect();
            let turned: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
            (Shape::new(&turned), written.maps.iter().map(|map| map.clone().permute(&axes)).collect())
        }
    };
    let (mut domain, mut maps) = boxes::renumbered(shape, &own);
    let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    if groups(&domain, m, n).is_none() {
        // Renumbering dropped dimensions of size 1; one is added back where a group has no other.
        let room = domain.rank() < MAX_RANK;
        domain = if room { domain.insert(domain.rank(), 1) } else { shape };
        maps = match room {
            true => maps.into_iter().map(|map| map.reshape(domain)).collect(),
            false => own,
        };
    }
    let (rows, columns) = groups(&domain, m, n).expect("a shape has rows and columns of its own");
    let parts = boxes::cut(domain, &maps, ix.seg.mode);
    let laid: Vec<(Body, TileBox)> = parts.iter().map(|part| on_box(&written.body, &maps, part, parts.len())).collect();
    let (mut bodies, boxes): (Vec<Body>, Vec<TileBox>) = laid.into_iter().unzip();
    let kernel = if bodies.len() == 1 { Kernel::Map(bodies.remove(0)) } else { Kernel::Boxes(bodies) };
    (kernel, TileGeometry { extents: domain.dims().to_vec(), rows, columns, boxes })
}

/// First dimension of the rows (whose sizes multiply to `m`) and of the columns (`n`) of a domain `[batch…, rows…,
/// columns…]`, as late as possible; `None` if no dimensions have these products.
fn groups(domain: &Shape, m: usize, n: usize) -> Option<(usize, usize)> {
    let size = |from: usize, to: usize| domain[from..to].iter().product::<usize>();
    let rank = domain.rank();
    let columns = (0..rank).rev().find(|&at| size(at, rank) == n)?;
    let rows = (0..=columns).rev().find(|&at| size(at, columns) == m)?;
    Some((rows, columns))
}

/// Lays out a body on the box `part`, one of the domain's `boxes` boxes.
fn on_box(body: &Body, maps: &[IndexMap], part: &[(usize, usize)], boxes: usize) -> (Body, TileBox) {
    let shape: Vec<usize> = part.iter().map(|p| p.1).collect();
    let (mut body, maps) = if boxes == 1 { (body.clone(), maps.to_vec()) } else { resolved(body, maps, part) };
    let lane = shape.len() - 1;
    let (mut accesses, mut shared) = (Vec::with_capacity(maps.len()), SharedMaps::default());
    let written: Vec<u16> = body.stores.iter().map(|s| s.access).collect();
    for (n, (access, map)) in body.accesses.iter_mut().zip(&maps).enumerate() {
        let at = access_geometry(access, map, strides_of(map), &mut shared);
        access.class = match (&at.map, at.strides[lane]) {
            (Some(_), _) => AccessClass::Mapped,
            _ if written.contains(&(n as u16)) => AccessClass::Contiguous,
            (None, 1) => AccessClass::Contiguous,
            (None, 0) => AccessClass::Uniform,
            _ => AccessClass::Strided,
        };
        accesses.push(at);
    }
    let origin = part.iter().map(|p| p.0).collect();
    (body, TileBox { origin, geometry: MapGeometry { extents: shape, accesses } })
}
