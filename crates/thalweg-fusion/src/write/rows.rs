//! The rows of a reduction: which points of a domain form a row, and how a row kernel is laid out over them.
//!
//! A reduction's *domain* has its operand's shape; a row is the points that differ along the reduced axes alone. What a
//! reduction gives is needed at every point of its row: through the map that [`to_rows`] makes. How the elements of a
//! row meet (see [`thalweg_kernel::order`]) follows from the reduction's axes and shape alone: [`runs`]. So it is the
//! same fused and unfused, and in any layout.

use crate::segment::{Indexed, ValueId};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;
use thalweg_ir::{MAX_RANK, Op, ScanOp, Shape, View};
use thalweg_kernel::{
    AccessClass, AccessGeometry, Body, IndexMap, Kernel, MapGeometry, Orientation, RowGeometry, TileBox, TileGeometry,
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
    let place = |axis: usize| order.iter().position(|&o| o == axis).expect("an axis of the domain");
    let views: Vec<Option<View>> = maps.iter().map(|m| m.as_view().copied()).collect();
    // Kept dimensions are merged where all accesses run on.
    let mut dims: Vec<(usize, usize)> = vec![];
    for (i, &axis) in kept.iter().enumerate() {
        let d = domain[axis];
        let runs_on = |outer: usize| views.iter().flatten().all(|v| v.strides()[outer] == v.strides()[i] * d as isize);
        match dims.last_mut() {
            _ if d == 1 => {}
            Some(last) if runs_on(last.1) => *last = (last.0 * d, i),
            _ => dims.push((d, i)),
        }
    }
    let kept_dims = dims.len();
    // Dimensions of the row as its order has them; an access that does not run on over one of them goes through its
    // map.
    let mut by_map: Vec<bool> = views.iter().map(Option::is_none).collect();
    let groups = runs(ix, reduction);
    for (size, axes) in &groups {
        for (view, by_map) in views.iter().zip(&mut by_map) {
            let Some(view) = view else { continue };
            let stride = |a: usize| view.strides()[place(a)];
            *by_map |= axes.windows(2).any(|w| stride(w[0]) != stride(w[1]) * domain[w[1]] as isize);
        }
        dims.push((*size, axes.last().map_or(0, |&a| place(a))));
    }
    let unit_row = groups.is_empty();
    if unit_row {
        dims.push((1, usize::MAX));
    }
    let stride_of = |v: &View, at: usize| if at == usize::MAX { 0 } else { v.strides()[at] };
    let row: usize = groups.iter().map(|g| g.0).product();
    for ((access, view), by_map) in body.accesses.iter_mut().zip(&views).zip(&by_map) {
        let still = |v: &View| dims[kept_dims..].iter().all(|&(d, at)| d == 1 || stride_of(v, at) == 0);
        access.per_row = !by_map && view.as_ref().is_some_and(still);
    }
    // What is stored point by point is, even where a row has a single point.
    for (n, s) in body.stores.iter().enumerate() {
        body.accesses[s.access as usize].per_row = row_stores.contains(&n);
    }
    let orientation = orientation(&body, &views, &by_map, &dims, kept_dims, row);
    let lane = match orientation {
        Orientation::Along => dims.len() - 1,
        Orientation::Across => kept_dims - 1,
    };
    let mut shared: FxHashMap<&IndexMap, Arc<IndexMap>> = FxHashMap::default();
    let mut accesses = Vec::with_capacity(maps.len());
    for (a, map) in maps.iter().enumerate() {
        let access = &mut body.accesses[a];
        let mut at = AccessGeometry {
            base: 0,
            strides: [0; MAX_RANK],
            map: None,
            reach: access.operand.and_then(|_| map.reach()),
            distinct: map.distinct(),
        };
        if let (Some(view), false) = (&views[a], by_map[a]) {
            at.base = view.offset;
            for (stride, &(d, dim)) in at.strides.iter_mut().zip(&dims) {
                *stride = if d == 1 { 0 } else { stride_of(view, dim) };
            }
            // A row of one point, a single row, or no points at all: any stride serves.
            let written = body.stores.iter().any(|s| s.access as usize == a) && !access.per_row;
            if dims[lane].0 == 1 && (written || !access.per_row) || row == 0 && written {
                at.strides[lane] = 1;
            }
            access.class = match at.strides[lane] {
                1 => AccessClass::Contiguous,
                // The same along the lanes of a run, but not in the next run of the row.
                0 if orientation == Orientation::Along && !access.per_row => AccessClass::Strided,
                0 => AccessClass::Uniform,
                _ => AccessClass::Strided,
            };
        } else {
            // What only lies in several stretches is brought together before a call; masks are asked for point by
            // point.
            let packed = access.operand.is_some() && !map.is_masked() && orientation == Orientation::Along;
            access.class = if packed { AccessClass::Contiguous } else { AccessClass::Mapped };
            at.map = Some(shared.entry(map).or_insert_with(|| Arc::new(map.clone())).clone());
        }
        accesses.push(at);
    }
    let extents = dims.iter().map(|d| d.0).collect();
    (Kernel::Rows { body, orientation }, RowGeometry { extents, kept: kept_dims, accesses })
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
    let mut accesses = Vec::with_capacity(maps.len());
    for (n, (access, map)) in body.accesses.iter_mut().zip(maps).enumerate() {
        let n = n as u16;
        let mut at = AccessGeometry {
            base: 0,
            strides: [0; MAX_RANK],
            map: None,
            reach: access.operand.and_then(|_| map.reach()),
            distinct: map.distinct(),
        };
        let Some(view) = map.as_view() else {
            let packed = access.operand.is_some() && !map.is_masked();
            access.class = if packed { AccessClass::Contiguous } else { AccessClass::Mapped };
            at.map = Some(Arc::new(map.clone()));
            accesses.push(at);
            continue;
        };
        at.base = view.offset;
        at.strides[..=lane].copy_from_slice(view.strides());
        access.per_row = rows.contains(&n) || !points.contains(&n) && at.strides[lane] == 0;
        access.class = match at.strides[lane] {
            _ if points.contains(&n) => AccessClass::Contiguous,
            _ if access.per_row => AccessClass::Uniform,
            1 => AccessClass::Contiguous,
            _ => AccessClass::Strided,
        };
        accesses.push(at);
    }
    let extents = domain.dims().to_vec();
    let part = TileBox { origin: vec![0; lane + 1], geometry: MapGeometry { extents: extents.clone(), accesses } };
    // All dimensions before the last two number products.
    let tiles = TileGeometry { extents, rows: lane - 1, columns: lane, boxes: vec![part] };
    (Kernel::Rows { body, orientation: Orientation::Along }, tiles)
}

/// Which way the accesses lie, those that the points differ in.
fn orientation(
    body: &Body,
    views: &[Option<View>],
    by_map: &[bool],
    dims: &[(usize, usize)],
    kept: usize,
    row: usize,
) -> Orientation {
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
