//! The rows of a reduction: which points of a domain form a row, and how a row kernel is laid out over them.
//!
//! A reduction's *domain* has its operand's shape; a row is the points that differ along the reduced axes alone. What a
//! reduction gives is needed at every point of its row: through the map that [`to_rows`] makes. How the elements of a
//! row meet (see [`thalweg_kernel::order`]) follows from the reduction's axes and shape alone: [`runs`]. So it is the
//! same fused and unfused, and in any layout.

use super::map_layout::{SharedMaps, access_geometry, strides_of};
use crate::segment::{Indexed, ValueId};
use std::ops::Range;
use thalweg_ir::{MAX_RANK, Op, ScanOp, Shape, View};
use thalweg_kernel::{
    Access, AccessClass, Body, IndexMap, Kernel, MapGeometry, Orientation, RowGeometry, TileBox, TileGeometry,
};

/// Rows shorter than this, and runs of columns at least this long, make a kernel run across rows whatever its accesses
/// are.
const SHORT: usize = 16;

/// The operand of a reduction.
pub(crate) fn operand(ix: &Indexed<'_>, reduction: usize) -> ValueId {
    ix.tensors(reduction).next().expect("a reduction has an operand").1
}

/// The axes that a reduction reduces, as a bit mask.
pub(crate) fn axes(ix: &Indexed<'_>, reduction: usize) -> u32 {
    match ix.seg.ops[reduction].op {
        Op::Scan(_) => 1 << (ix.seg.ops[reduction].attr & 0xFF),
        _ => ix.seg.ops[reduction].attr & 0xFF,
    }
}

/// A map from the elements of something with an element a row - a reduction's result, under any shape - brought to the
/// points of the reduction's domain.
pub(crate) fn to_rows(ix: &Indexed<'_>, reduction: usize, map: IndexMap) -> IndexMap {
    let domain = ix.shape(operand(ix, reduction));
    let mut kept = domain;
    for i in (0..domain.rank()).filter(|i| axes(ix, reduction) >> i & 1 == 1) {
        kept.dims_mut()[i] = 1;
    }
    map.reshape(kept).expand(domain)
}

/// Elements a row kernel of that reduction has for each row: the size of its result.
pub(crate) fn row_count(ix: &Indexed<'_>, reduction: usize) -> usize {
    let domain = ix.shape(operand(ix, reduction));
    (0..domain.rank()).filter(|i| axes(ix, reduction) >> i & 1 == 0).map(|i| domain[i]).product()
}

/// The map from the points of the reduction's domain to the number of their row.
pub(crate) fn row_map(ix: &Indexed<'_>, reduction: usize) -> IndexMap {
    to_rows(ix, reduction, IndexMap::new(View::contiguous(Shape::new(&[row_count(ix, reduction)]))))
}

/// Whether two maps from domains of as many points lead to the same places in the same order.
pub(crate) fn same_places(a: &IndexMap, b: &IndexMap) -> bool {
    if a == b {
        return true;
    }
    let b = if a.shape() == b.shape() { b.clone() } else { b.clone().reshape(a.shape()) };
    let (Some(a), Some(b)) = (a.as_view(), b.as_view()) else { return *a == b };
    let steps = |v: &View| -> Vec<(usize, isize)> {
        (0..v.shape.rank()).filter(|&i| v.shape[i] != 1).map(|i| (v.shape[i], v.strides()[i])).collect()
    };
    a.offset == b.offset && steps(a) == steps(b)
}

/// The sizes of the row's dimensions that matter to the order of its elements, outermost first, each with the axes it
/// is merged from: reduced axes are one where nothing kept stands between them.
pub(crate) fn runs(ix: &Indexed<'_>, reduction: usize) -> Vec<(usize, Vec<usize>)> {
    let shape = ix.shape(operand(ix, reduction));
    let reduced = |i: usize| axes(ix, reduction) >> i & 1 == 1;
    let mut groups: Vec<(usize, Vec<usize>)> = vec![];
    let mut apart = true;
    for i in (0..shape.rank()).filter(|&i| shape[i] != 1) {
        if !reduced(i) {
            apart = true;
            continue;
        }
        match groups.last_mut() {
            Some(group) if !apart => {
                group.0 *= shape[i];
                group.1.push(i);
            }
            _ => groups.push((shape[i], vec![i])),
        }
        apart = false;
    }
    groups
}

/// Whether two reductions go along the same rows, and meet the elements of a row in the same order.
pub(crate) fn same_rows(ix: &Indexed<'_>, a: usize, b: usize) -> bool {
    let points = |r| ix.shape(operand(ix, r)).numel();
    a == b || points(a) == points(b) && same_places(&row_map(ix, a), &row_map(ix, b)) && same_runs(ix, a, b)
}

/// Whether two reductions over the same rows meet the elements of a row in the same order.
fn same_runs(ix: &Indexed<'_>, a: usize, b: usize) -> bool {
    let sizes = |r| runs(ix, r).into_iter().map(|g| g.0).collect::<Vec<_>>();
    sizes(a) == sizes(b)
}

/// A row body with its accesses' classes, and where they go. `maps` are over the reduction's domain; `row_stores` says
/// which of its stores are row by row.
pub(crate) fn lay_out(
    mut body: Body,
    ix: &Indexed<'_>,
    (reduction, row_stores): (usize, Range<usize>),
    domain: Shape,
    maps: &[IndexMap],
) -> (Kernel, RowGeometry) {
    let reduced = axes(ix, reduction);
    let kept: Vec<usize> = (0..domain.rank()).filter(|i| reduced >> i & 1 == 0).collect();
    let order: Vec<usize> = kept.iter().copied().chain((0..domain.rank()).filter(|i| reduced >> i & 1 == 1)).collect();
    let maps: Vec<IndexMap> = maps.iter().map(|m| m.clone().permute(&order)).collect();
    let space = RowSpace::new(&runs(ix, reduction), domain, (&kept, &order), &maps);
    for (access, (view, by_map)) in body.accesses.iter_mut().zip(space.views.iter().zip(&space.by_map)) {
        access.per_row = !by_map && view.as_ref().is_some_and(|v| space.still(v));
    }
    // What is stored point by point is, even where a row has a single point.
    for (n, s) in body.stores.iter().enumerate() {
        body.accesses[s.access as usize].per_row = row_stores.contains(&n);
    }
    let orientation = orientation(&body, &space);
    let written: Vec<u16> = body.stores.iter().map(|s| s.access).collect();
    let (mut accesses, mut shared) = (Vec::with_capacity(maps.len()), SharedMaps::default());
    for (a, (access, map)) in body.accesses.iter_mut().zip(&maps).enumerate() {
        let strided = space.strided(a, access, written.contains(&(a as u16)), orientation);
        let at = access_geometry(access, map, strided, &mut shared);
        access.class = match at.strides[space.lane(orientation)] {
            _ if at.map.is_some() => {
                // What only lies in several stretches is brought together before a call; masks are asked for point by
                // point.
                let packed = access.operand.is_some() && !map.is_masked() && orientation == Orientation::Along;
                if packed { AccessClass::Contiguous } else { AccessClass::Mapped }
            }
            1 => AccessClass::Contiguous,
            // The same along the lanes of a run, but not in the next run of the row.
            0 if orientation == Orientation::Along && !access.per_row => AccessClass::Strided,
            0 => AccessClass::Uniform,
            _ => AccessClass::Strided,
        };
        accesses.push(at);
    }
    let extents = space.dims.iter().map(|d| d.0).collect();
    (Kernel::Rows { body, orientation }, RowGeometry { extents, kept: space.kept, accesses })
}

/// The dimensions that a row kernel runs over, and how its accesses lie in them.
struct RowSpace {
    /// Sizes, each with the dimension of the views that its strides are (`usize::MAX`: none): kept ones, then those of
    /// the row as its order has them.
    dims: Vec<(usize, usize)>,
    /// How many are kept.
    kept: usize,
    /// Points of a row.
    row: usize,
    /// The accesses that are strided views.
    views: Vec<Option<View>>,
    /// The accesses that go through their maps.
    by_map: Vec<bool>,
}

impl RowSpace {
    /// `groups` are the dimensions of the row ([`runs`]), `maps` the accesses' over the domain in this order of its axes:
    /// kept ones first.
    fn new(
        groups: &[(usize, Vec<usize>)],
        domain: Shape,
        (kept, order): (&[usize], &[usize]),
        maps: &[IndexMap],
    ) -> RowSpace {
        let place = |axis: usize| order.iter().position(|&o| o == axis).expect("an axis of the domain");
        let views: Vec<Option<View>> = maps.iter().map(|m| m.as_view().copied()).collect();
        // Kept dimensions are merged where all accesses run on.
        let mut dims: Vec<(usize, usize)> = vec![];
        for (i, &axis) in kept.iter().enumerate() {
            let d = domain[axis];
            let runs_on =
                |outer: usize| views.iter().flatten().all(|v| v.strides()[outer] == v.strides()[i] * d as isize);
            match dims.last_mut() {
                _ if d == 1 => {}
                Some(last) if runs_on(last.1) => *last = (last.0 * d, i),
                _ => dims.push((d, i)),
            }
        }
        let kept = dims.len();
        // An access that does not run on over a dimension of the row goes through its map.
        let mut by_map: Vec<bool> = views.iter().map(Option::is_none).collect();
        for (size, axes) in groups {
            for (view, by_map) in views.iter().zip(&mut by_map) {
                let Some(view) = view else { continue };
                let stride = |a: usize| view.strides()[place(a)];
                *by_map |= axes.windows(2).any(|w| stride(w[0]) != stride(w[1]) * domain[w[1]] as isize);
            }
            dims.push((*size, axes.last().map_or(0, |&a| place(a))));
        }
        if groups.is_empty() {
            dims.push((1, usize::MAX));
        }
        RowSpace { dims, kept, row: groups.iter().map(|g| g.0).product(), views, by_map }
    }

    /// The dimension that lanes lie in.
    fn lane(&self, orientation: Orientation) -> usize {
        match orientation {
            Orientation::Along => self.dims.len() - 1,
            Orientation::Across => self.kept - 1,
        }
    }

    /// Whether a view stands still along a row.
    fn still(&self, view: &View) -> bool {
        self.dims[self.kept..].iter().all(|&(d, at)| d == 1 || stride_of(view, at) == 0)
    }

    /// First position and strides of an access that goes by strides.
    fn strided(
        &self,
        number: usize,
        access: &Access,
        written: bool,
        orientation: Orientation,
    ) -> Option<(isize, [isize; MAX_RANK])> {
        let view = self.views[number].as_ref().filter(|_| !self.by_map[number])?;
        let mut strides = [0; MAX_RANK];
        for (stride, &(d, dim)) in strides.iter_mut().zip(&self.dims) {
            *stride = if d == 1 { 0 } else { stride_of(view, dim) };
        }
        // A row of one point, a single row, or no points at all: any stride serves.
        let lane = self.lane(orientation);
        let written = written && !access.per_row;
        if self.dims[lane].0 == 1 && (written || !access.per_row) || self.row == 0 && written {
            strides[lane] = 1;
        }
        Some((view.offset, strides))
    }
}

/// The stride of a view in a dimension, of which there may be none.
fn stride_of(view: &View, at: usize) -> isize {
    if at == usize::MAX { 0 } else { view.strides()[at] }
}

/// A row body along the last dimension of a domain whose other dimensions stay as they are, so that blocks of rows can
/// be run. Its stores from number `row_stores` on are row by row.
pub(crate) fn lay_out_tiled(
    mut body: Body,
    row_stores: usize,
    domain: Shape,
    maps: &[IndexMap],
) -> (Kernel, TileGeometry) {
    let lane = domain.rank() - 1;
    let points: Vec<u16> = body.stores.iter().take(row_stores).map(|s| s.access).collect();
    let rows: Vec<u16> = body.stores.iter().skip(row_stores).map(|s| s.access).collect();
    let (mut accesses, mut shared) = (Vec::with_capacity(maps.len()), SharedMaps::default());
    for (n, (access, map)) in body.accesses.iter_mut().zip(maps).enumerate() {
        let n = n as u16;
        let at = access_geometry(access, map, strides_of(map), &mut shared);
        if at.map.is_some() {
            let packed = access.operand.is_some() && !map.is_masked();
            access.class = if packed { AccessClass::Contiguous } else { AccessClass::Mapped };
        } else {
            access.per_row = rows.contains(&n) || !points.contains(&n) && at.strides[lane] == 0;
            access.class = match at.strides[lane] {
                _ if points.contains(&n) => AccessClass::Contiguous,
                _ if access.per_row => AccessClass::Uniform,
                1 => AccessClass::Contiguous,
                _ => AccessClass::Strided,
            };
        }
        accesses.push(at);
    }
    let extents = domain.dims().to_vec();
    let part = TileBox { origin: vec![0; lane + 1], geometry: MapGeometry { extents: extents.clone(), accesses } };
    // All dimensions before the last two number products.
    let tiles = TileGeometry { extents, rows: lane - 1, columns: lane, boxes: vec![part] };
    (Kernel::Rows { body, orientation: Orientation::Along }, tiles)
}

/// Which way the accesses lie, those that the points differ in.
fn orientation(body: &Body, space: &RowSpace) -> Orientation {
    let RowSpace { dims, kept, row, views, by_map } = space;
    let (kept, row) = (*kept, *row);
    let sorts = body.scans.iter().any(|s| matches!(s.op, ScanOp::Sort | ScanOp::Argsort));
    let combines = body.stores.iter().any(|s| s.combine.is_some());
    if kept == 0 || sorts || combines || by_map.contains(&true) {
        return Orientation::Along;
    }
    let (columns, column_at) = dims[kept - 1];
    let (run, run_at) = dims[dims.len() - 1];
    let (mut along, mut across) = (0usize, 0usize);
    for (access, view) in body.accesses.iter().zip(views) {
        let (Some(view), Some(_), false) = (view, access.operand, access.per_row) else { continue };
        let unit = |at: usize| at != usize::MAX && view.strides()[at].abs() == 1;
        along += unit(run_at) as usize;
        across += unit(column_at) as usize;
    }
    if along >= across {
        let short = run < SHORT && row <= 4 * SHORT && columns >= 4 * SHORT;
        if short { Orientation::Across } else { Orientation::Along }
    } else {
        Orientation::Across
    }
}
