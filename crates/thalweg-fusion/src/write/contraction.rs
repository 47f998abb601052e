//! From a product of a plan to its kernel: bodies for the factors that are not in memory and for what is made of the
//! sums, each over a domain that can be run rectangle by rectangle. docs/contractions.md has the idea.

use super::body::{Outline, Written, write_body, write_input_body};
use super::boxes;
use super::map_layout::resolved;
use super::movement::{layout, strided, view_base};
use super::rules::Rule;
use super::step::{ScalarArg, Slot, Step};
use crate::scalars::ScalarClasses;
use crate::segment::{Indexed, ValueId};
use std::sync::Arc;
use thalweg_ir::{MAX_RANK, Shape, View};
use thalweg_kernel::{
    AccessClass, AccessGeometry, Body, Computed, Contraction, ContractionGeometry, Epilogue, Geometry, IndexMap,
    Kernel, MapGeometry, MatmulGeometry, TileBox, TileGeometry,
};

/// A contraction with sizes.
pub(crate) struct ContractionKernel {
    pub kernel: Contraction,
    pub geometry: ContractionGeometry,
    /// The values it reads, in the order of its operands: a value may be there more than once.
    pub reads: Vec<ValueId>,
    pub scalars: Vec<ScalarArg>,
    /// See [`Step::in_place`].
    pub in_place: Vec<(usize, usize)>,
    /// Bytes of distinct elements that it reads through each operand.
    pub touched: Vec<usize>,
    /// The operations computed in it with the number of points that they are computed for, each once for every index
    /// map.
    pub computed: Vec<(usize, usize)>,
}

/// Writes the kernel that computes a product and stores these, or says which rule it breaks.
pub(crate) fn build_contraction(
    ix: &Indexed<'_>,
    (product, stores): (usize, &[usize]),
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Result<ContractionKernel, Rule> {
    let dtype = ix.seg.ops[product].dtype;
    let shape = ix.seg.shapes[product];
    let mut made = ContractionKernel {
        kernel: Contraction::bare(dtype, ix.seg.mode.precision(dtype)),
        geometry: ContractionGeometry::bare(product_geometry(shape, [shape; 2].map(View::contiguous), [None, None])),
        reads: vec![],
        scalars: vec![],
        in_place: vec![],
        touched: vec![],
        computed: vec![(product, shape.numel())],
    };
    let mut views = [View::contiguous(shape); 2];
    let mut reaches = [None, None];
    for (n, (_, v)) in ix.tensors(product).enumerate() {
        let (base, chain) = view_base(ix, v, stored);
        let in_memory = match base {
            ValueId::Input(_) => true,
            ValueId::Op(i) => stored(i),
        };
        match strided(ix, layout(ix, base), &chain).filter(|_| in_memory) {
            Some(view) => {
                made.reads.push(base);
                made.touched.push(view.distinct() * ix.dtype(v).size());
                reaches[n] = IndexMap::new(view).reach();
                views[n] = view;
            }
            None => {
                let ValueId::Op(op) = v else { unreachable!("an input lies in memory") };
                views[n] = View::contiguous(ix.shape(v));
                made.factor(n, write_input_body(ix, op, stored, classes)?, ix.shape(v));
            }
        }
    }
    // What the kernel writes has to be complete before a factor can be read from there.
    if made.reads.iter().any(|r| matches!(r, ValueId::Op(i) if stores.contains(i))) {
        return Err(Rule::ReadElsewhere);
    }
    made.geometry.product = product_geometry(shape, views, reaches);
    if stores != [product] {
        let outline = Outline { product: Some(product), ..Outline::map(ValueId::Op(product), stores) };
        made.epilogue(ix, (product, stores.len()), write_body(ix, outline, stored, classes)?, shape);
    }
    Ok(made)
}

/// The launch of a contraction.
pub(crate) fn contraction(
    ix: &Indexed<'_>,
    (product, stores): (usize, &[usize]),
    kernel_index: usize,
    slot: &dyn Fn(ValueId) -> Slot,
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Result<Step, Rule> {
    let made = build_contraction(ix, (product, stores), stored, classes)?;
    let first_write = made.reads.len();
    let mut distinct: Vec<(ValueId, usize)> = vec![];
    for (&v, &bytes) in made.reads.iter().zip(&made.touched) {
        let all = layout(ix, v).distinct() * ix.dtype(v).size();
        match distinct.iter_mut().find(|d| d.0 == v) {
            Some(d) => d.1 = all.min(d.1 + bytes),
            None => distinct.push((v, bytes)),
        }
    }
    Ok(Step {
        kernel_index,
        kernel: Kernel::Contraction(made.kernel),
        geometry: Geometry::Contraction(Box::new(made.geometry)),
        operands: made.reads.iter().copied().chain(stores.iter().map(|&s| ValueId::Op(s))).map(slot).collect(),
        first_write,
        scalars: made.scalars,
        in_place: if ix.seg.mode.fused { made.in_place } else { vec![] },
        out_of_range: None,
        bytes_read: distinct.iter().map(|d| d.1).sum(),
        touched: made.touched,
        bytes_written: stores.iter().map(|&s| ix.bytes(ValueId::Op(s))).sum(),
        form: None,
    })
}

impl ContractionKernel {
    /// Adds factor `n`, computed by that body.
    fn factor(&mut self, n: usize, body: Written, shape: Shape) {
        let (kernel, tiles) = tiled(&body, shape);
        let points = shape.numel();
        self.computed.extend(body.computed.iter().map(|&op| (op, points)));
        let computed = Computed { kernel, operands: body.reads.len(), scalars: body.scalars.len() };
        self.kernel.factors[n] = Some(Box::new(computed));
        self.geometry.factors[n] = Some(Box::new(tiles));
        self.reads.extend(body.reads);
        self.touched.extend(body.touched);
        self.scalars.extend(body.scalars);
    }

    /// Adds what is made of the sums and gives so many results.
    fn epilogue(&mut self, ix: &Indexed<'_>, (product, writes): (usize, usize), mut body: Written, shape: Shape) {
        // Where nothing that is stored is made of them, the sums are an operand all the same.
        let sums = body.reads.iter().position(|v| *v == ValueId::Op(product));
        let sums = sums.expect("what a contraction stores is made of its sums");
        let (kernel, tiles) = tiled(&body, shape);
        let points = shape.numel();
        // The product is counted already.
        let others = body.computed.iter().filter(|&&op| op != product);
        self.computed.extend(others.map(|&op| (op, points)));
        let reads = body.reads.len();
        self.kernel.epilogue = Some(Box::new(Epilogue {
            kernel,
            sums: sums as u16,
            reads: reads as u16,
            writes: writes as u16,
            scalars: body.scalars.len() as u16,
        }));
        self.geometry.epilogue = Some(Box::new(tiles));
        let before = self.reads.len();
        let factors = self.reads.clone();
        body.reads.remove(sums);
        body.touched.remove(sums);
        // A result may take the place of what is read at its own point, unless a factor is read from there.
        let place = |read: usize| before + read - (read > sums) as usize;
        for (written, read) in body.in_place.into_iter().filter(|p| p.1 != sums) {
            let at = place(read);
            if !factors.contains(&body.reads[at - before]) {
                self.in_place.push((before + written - 1, at));
            }
        }
        debug_assert!(ix.seg.mode.fused, "without fusion a product is alone");
        self.reads.extend(body.reads);
        self.touched.extend(body.touched);
        self.scalars.extend(body.scalars);
    }
}

/// The sizes of a product of two views.
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

/// A body over `[batch…, rows, columns]` as a kernel that can be run on rectangles of rows and columns.
fn tiled(written: &Written, shape: Shape) -> (Kernel, TileGeometry) {
    let (mut domain, mut maps) = boxes::renumbered(shape, &written.maps);
    let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    if groups(&domain, m, n).is_none() {
        // Sizes of 1 went when the points were renumbered; one is needed where a group has no other.
        let room = domain.rank() < MAX_RANK;
        domain = if room { domain.insert(domain.rank(), 1) } else { shape };
        maps = match room {
            true => maps.into_iter().map(|map| map.reshape(domain)).collect(),
            false => written.maps.clone(),
        };
    }
    let (rows, columns) = groups(&domain, m, n).expect("a shape has rows and columns of its own");
    let parts = boxes::boxes(domain, &maps);
    let laid: Vec<(Body, TileBox)> = parts.iter().map(|part| on_box(&written.body, &maps, part, parts.len())).collect();
    let (mut bodies, boxes): (Vec<Body>, Vec<TileBox>) = laid.into_iter().unzip();
    let kernel = if bodies.len() == 1 { Kernel::Map(bodies.remove(0)) } else { Kernel::Boxes(bodies) };
    (kernel, TileGeometry { extents: domain.dims().to_vec(), rows, columns, boxes })
}

/// Where the rows and the columns begin among the dimensions of a domain, if both have one: as late as can be.
fn groups(domain: &Shape, m: usize, n: usize) -> Option<(usize, usize)> {
    let size = |from: usize, to: usize| domain[from..to].iter().product::<usize>();
    let rank = domain.rank();
    let columns = (0..rank).rev().find(|&at| size(at, rank) == n)?;
    let rows = (0..=columns).rev().find(|&at| size(at, columns) == m)?;
    Some((rows, columns))
}

/// The body on one box of the domain, of so many.
fn on_box(body: &Body, maps: &[IndexMap], part: &[(usize, usize)], boxes: usize) -> (Body, TileBox) {
    let shape: Vec<usize> = part.iter().map(|p| p.1).collect();
    let (mut body, maps) = if boxes == 1 { (body.clone(), maps.to_vec()) } else { resolved(body, maps, part) };
    let lane = shape.len() - 1;
    let mut accesses = Vec::with_capacity(maps.len());
    let written: Vec<u16> = body.stores.iter().map(|s| s.access).collect();
    for (n, (access, map)) in body.accesses.iter_mut().zip(&maps).enumerate() {
        let mut at = AccessGeometry {
            base: 0,
            strides: [0; MAX_RANK],
            map: None,
            reach: access.operand.and_then(|_| map.reach()),
            distinct: map.distinct(),
        };
        access.class = match map.as_view() {
            None => {
                at.map = Some(Arc::new(map.clone()));
                AccessClass::Mapped
            }
            Some(view) => {
                at.base = view.offset;
                at.strides[..=lane].copy_from_slice(view.strides());
                match at.strides[lane] {
                    _ if written.contains(&(n as u16)) => AccessClass::Contiguous,
                    1 => AccessClass::Contiguous,
                    0 => AccessClass::Uniform,
                    _ => AccessClass::Strided,
                }
            }
        };
        accesses.push(at);
    }
    let origin = part.iter().map(|p| p.0).collect();
    (body, TileBox { origin, geometry: MapGeometry { extents: shape, accesses } })
}
