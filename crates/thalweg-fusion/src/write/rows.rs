//! Rows of a reduction: the points that form a row, and the layout of a row kernel.
//!
//! A reduction's *domain* has its operand's shape. A row is a set of points that differ only along the reduced axes.
//! The result of a reduction is needed at every point of its row, through the map that [`to_rows`] makes. The order in
//! which the elements of a row are combined (see [`thalweg_kernel::order`]) follows from the reduction's axes and shape
//! alone: [`runs`]. So it is the same fused and unfused, and in any layout.

use super::map_layout::{SharedMaps, access_geometry, strides_of};
use crate::segment::{Indexed, ValueId};
use crate::tunable::TUNABLES;
use std::ops::Range;
use thalweg_ir::{MAX_RANK, OpClass, ScanOp, Shape, View};
use thalweg_kernel::{
    Access, AccessClass, Body, IndexMap, Kernel, MapGeometry, Orientation, RowGeometry, TileBox, TileGeometry, dims,
};

/// Operand of a reduction.
pub(crate) fn operand(ix: &Indexed<'_>, reduction: usize) -> ValueId {
    ix.tensors(reduction).next().expect("a reduction has an operand").1
}

/// Axes along which a reduction or scan runs, as a bit mask.
pub(crate) fn axes(ix: &Indexed<'_>, reduction: usize) -> u32 {
    match ix.seg.ops[reduction].op {
        op if op.class() == OpClass::Scan => 1 << (ix.seg.ops[reduction].attr & 0xFF),
        _ => ix.seg.ops[reduction].attr & 0xFF,
    }
}

/// Broadcasts a map over one element per row (a reduction's result, under any shape) to the points of the reduction's
/// domain.
pub(crate) fn to_rows(ix: &Indexed<'_>, reduction: usize, map: IndexMap) -> IndexMap {
    let domain = ix.shape(operand(ix, reduction));
    let mut kept = domain;
    for i in (0..domain.rank()).filter(|i| axes(ix, reduction) >> i & 1 == 1) {
        kept.dims_mut()[i] = 1;
    }
    map.reshape(kept).expand(domain)
}

/// Number of rows of that reduction: the size of its result.
pub(crate) fn row_count(ix: &Indexed<'_>, reduction: usize) -> usize {
    let domain = ix.shape(operand(ix, reduction));
    (0..domain.rank()).filter(|i| axes(ix, reduction) >> i & 1 == 0).map(|i| domain[i]).product()
}

/// Map from the points of the reduction's domain to the index of their row.
pub(crate) fn row_map(ix: &Indexed<'_>, reduction: usize) -> IndexMap {
    to_rows(ix, reduction, IndexMap::new(View::contiguous(Shape::new(&[row_count(ix, reduction)]))))
}

/// Whether two maps from domains of equal size read the same positions in the same order.
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

/// Sizes of the row's dimensions that determine the order of its elements, outermost first, each with the axes it is
/// merged from. Adjacent reduced axes are merged if no kept axis is between them.
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

/// Whether two reductions go along the same rows and combine a row's elements in the same order.
pub(crate) fn same_rows(ix: &Indexed<'_>, a: usize, b: usize) -> bool {
    let points = |r| ix.shape(operand(ix, r)).numel();
    a == b || points(a) == points(b) && same_places(&row_map(ix, a), &row_map(ix, b)) && same_runs(ix, a, b)
}

/// Whether two reductions over the same rows combine a row's elements in the same order.
fn same_runs(ix: &Indexed<'_>, a: usize, b: usize) -> bool {
    let sizes = |r| runs(ix, r).into_iter().map(|g| g.0).collect::<Vec<_>>();
    sizes(a) == sizes(b)
}

/// Dimensions of a row kernel, outermost first: those that enumerate the rows, then those of a row.
struct Dims {
    /// Size of each dimension, and the dimension that its strides come from, in maps whose reduced axes were moved last
    /// (`None`: an extra dimension of size 1).
    dims: Vec<(usize, Option<usize>)>,
    kept: usize,
    /// For each access, whether it goes through its map, because no strides exist over these dimensions.
    by_map: Vec<bool>,
}

impl Dims {
    fn stride(&self, view: &View, at: usize) -> isize {
        self.dims[at].1.map_or(0, |d| view.strides()[d])
    }

    fn row(&self) -> usize {
        self.dims[self.kept..].iter().map(|d| d.0).product()
    }
}

/// Axes of a domain, kept ones first, and the number of kept ones. Reduced axes are in logical order if the order of a
/// row's elements is fixed, else in memory order.
fn axes_in_order(
    ix: &Indexed<'_>,
    (reduction, rank): (usize, usize),
    body: &Body,
    maps: &[IndexMap],
) -> (Vec<usize>, usize) {
    let reduced = axes(ix, reduction);
    let (mut order, mut row): (Vec<usize>, Vec<usize>) = (0..rank).partition(|i| reduced >> i & 1 == 0);
    if is_free(ix, body) {
        // Order of the view with the most elements.
        let read = body.accesses.iter().zip(maps).filter(|(a, _)| a.operand.is_some()).map(|(_, m)| m);
        let steps = |m: &IndexMap| {
            let view = *m.as_view()?;
            let moves = row.iter().all(|&i| view.shape[i] == 1 || view.strides()[i] != 0);
            moves.then_some((m.distinct(), view))
        };
        if let Some((_, view)) = read.filter_map(steps).max_by_key(|(distinct, _)| *distinct) {
            row.sort_by_key(|&i| std::cmp::Reverse(view.strides()[i].unsigned_abs()));
        }
    }
    let kept = order.len();
    order.extend(row);
    (order, kept)
}

/// Whether the elements of a row may be combined in any order. Results then need not be the same in every layout, and
/// nothing in the body depends on the order.
fn is_free(ix: &Indexed<'_>, body: &Body) -> bool {
    !ix.seg.mode.strict && body.scans.is_empty() && body.combined.is_empty()
}

/// Dimensions of a row kernel over a domain whose reduced axes come last, from dimension `kept` on.
fn row_dims(domain: Shape, kept: usize, groups: &[Vec<usize>], views: &[Option<View>]) -> Dims {
    // Kept dimensions are merged where all accesses are contiguous.
    let mut dims: Vec<(usize, Option<usize>)> = vec![];
    for i in (0..kept).filter(|&i| domain[i] != 1) {
        match dims.last_mut() {
            Some(last) if last.1.is_some_and(|o| run_on(views, domain, o, i)) => *last = (last.0 * domain[i], Some(i)),
            _ => dims.push((domain[i], Some(i))),
        }
    }
    let kept = dims.len();
    // Dimensions of the row follow its order; an access that is not contiguous over one of them goes through its map.
    let mut by_map: Vec<bool> = views.iter().map(Option::is_none).collect();
    for group in groups {
        for (view, by_map) in views.iter().zip(&mut by_map) {
            let Some(s) = view.as_ref().map(View::strides) else { continue };
            *by_map |= group.windows(2).any(|w| s[w[0]] != s[w[1]] * domain[w[1]] as isize);
        }
        dims.push((group.iter().map(|&i| domain[i]).product(), group.last().copied()));
    }
    if groups.is_empty() {
        dims.push((1, None));
    }
    Dims { dims, kept, by_map }
}

/// Whether all accesses are contiguous from dimension `i` of a domain into dimension `outer`.
fn run_on(views: &[Option<View>], domain: Shape, outer: usize, i: usize) -> bool {
    views.iter().flatten().all(|v| dims::runs_on(v.strides(), outer, i, domain[i]))
}

/// Dimensions of the row, from dimension `kept` on, in groups that are iterated as one dimension. A group's dimensions
/// are contiguous for all accesses. With `fixed`, which marks accesses that cannot be staged, a short innermost group
/// is merged further if it is contiguous for these.
fn merged(domain: Shape, kept: usize, views: &[Option<View>], fixed: Option<&[bool]>) -> Vec<Vec<usize>> {
    let fixed: Option<Vec<Option<View>>> =
        fixed.map(|w| views.iter().zip(w).filter(|(_, w)| **w).map(|(v, _)| *v).collect());
    let mut groups: Vec<Vec<usize>> = vec![];
    for i in (kept..domain.rank()).rev().filter(|&i| domain[i] != 1) {
        let size = |g: &[usize]| g.iter().map(|&i| domain[i]).product::<usize>();
        let may_join = |g: &[usize]| fixed.as_ref().is_some_and(|w| run_on(w, domain, i, g[0]));
        let short = groups.len() == 1 && !TUNABLES.min_run.reached_by(size(&groups[0])) && may_join(&groups[0]);
        match groups.first_mut() {
            Some(group) if short || run_on(views, domain, i, group[0]) => group.insert(0, i),
            _ => groups.insert(0, vec![i]),
        }
    }
    groups
}

/// Lays out a row body: sets the class of each access, and returns the kernel with its geometry. `maps` are over the
/// reduction's domain; `row_stores` is the range of the body's stores that write one element per row.
pub(crate) fn lay_out(
    mut body: Body,
    ix: &Indexed<'_>,
    (reduction, row_stores): (usize, Range<usize>),
    domain: Shape,
    maps: &[IndexMap],
) -> (Kernel, RowGeometry) {
    let (order, kept) = axes_in_order(ix, (reduction, domain.rank()), &body, maps);
    let maps: Vec<IndexMap> = maps.iter().map(|m| m.clone().permute(&order)).collect();
    let views: Vec<Option<View>> = maps.iter().map(|m| m.as_view().copied()).collect();
    let domain = Shape::new(&order.iter().map(|&o| domain[o]).collect::<Vec<_>>());
    let written: Vec<bool> = (0..maps.len()).map(|n| body.stores.iter().any(|s| s.access as usize == n)).collect();
    // Stores can be staged on devices that support it, unless they are combined with existing values.
    let combines = body.stores.iter().any(|s| s.combine.is_some());
    let fixed = if ix.seg.mode.parts_rows() && !combines { vec![false; maps.len()] } else { written.clone() };
    let per_row = |body: &Body, d: &Dims, n: usize| {
        // A point store stays one even if a row has a single point.
        if let Some(store) = body.stores.iter().position(|s| s.access as usize == n) {
            return row_stores.contains(&store);
        }
        let still = |v: &View| (d.kept..d.dims.len()).all(|at| d.dims[at].0 == 1 || d.stride(v, at) == 0);
        !d.by_map[n] && views[n].as_ref().is_some_and(still)
    };
    let laid = |body: &mut Body, groups: &[Vec<usize>]| {
        let d = row_dims(domain, kept, groups, &views);
        for n in 0..maps.len() {
            body.accesses[n].per_row = per_row(body, &d, n);
        }
        let orientation = orientation(body, &views, &d, ix.seg.mode.parts_rows());
        (d, orientation)
    };
    let (d, orientation) = if is_free(ix, &body) {
        match laid(&mut body, &merged(domain, kept, &views, None)) {
            // Along memory order, staging costs less than short runs.
            (_, Orientation::InnerAxis) => laid(&mut body, &merged(domain, kept, &views, Some(&fixed))),
            across => across,
        }
    } else {
        let place = |axis: &usize| order.iter().position(|o| o == axis).expect("an axis of the domain");
        let groups: Vec<Vec<usize>> = runs(ix, reduction).iter().map(|g| g.1.iter().map(place).collect()).collect();
        laid(&mut body, &groups)
    };
    let lane = match orientation {
        Orientation::InnerAxis => d.dims.len() - 1,
        Orientation::OuterAxis => d.kept - 1,
    };
    let (mut accesses, mut shared) = (Vec::with_capacity(maps.len()), SharedMaps::default());
    for (n, (access, map)) in body.accesses.iter_mut().zip(&maps).enumerate() {
        let strided = views[n].as_ref().filter(|_| !d.by_map[n]).map(|view| {
            let mut strides = [0; MAX_RANK];
            for (at, stride) in strides.iter_mut().enumerate().take(d.dims.len()) {
                *stride = if d.dims[at].0 == 1 { 0 } else { d.stride(view, at) };
            }
            // A row of one point, a single row, or no points: any stride works.
            let points = written[n] && !access.per_row;
            if d.dims[lane].0 == 1 && (points || !access.per_row) || d.row() == 0 && points {
                strides[lane] = 1;
            }
            (view.offset, strides)
        });
        let at = access_geometry(access, map, strided, &mut shared);
        access.class = match at.strides[lane] {
            _ if at.map.is_some() => class_by_map(access, map, orientation),
            1 => AccessClass::Contiguous,
            // A row without points reads nothing.
            0 if !access.per_row && d.row() == 0 => AccessClass::Strided,
            // Constant along a run, if not in the next run of the row.
            0 => AccessClass::Uniform,
            -1 if orientation == Orientation::InnerAxis && !written[n] && !access.per_row => AccessClass::Reversed,
            _ => AccessClass::Strided,
        };
        accesses.push(at);
    }
    let extents = d.dims.iter().map(|d| d.0).collect();
    (Kernel::Rows { body, orientation }, RowGeometry { extents, kept: d.kept, accesses })
}

/// Class of an access through its map: a source in several contiguous chunks is staged before a call; masks are
/// evaluated per point.
fn class_by_map(access: &Access, map: &IndexMap, orientation: Orientation) -> AccessClass {
    let packed = access.operand.is_some() && !map.is_masked() && orientation == Orientation::InnerAxis;
    if packed { AccessClass::Contiguous } else { AccessClass::Mapped }
}

/// Lays out a row body along the last dimension of a domain whose other dimensions stay as they are, so that blocks of
/// rows can run separately. Stores of the body from index `row_stores` on write one element per row.
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
            access.class = class_by_map(access, map, Orientation::InnerAxis);
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
    // All dimensions before the last two number products of a batch.
    let tiles = TileGeometry { extents, rows: lane - 1, columns: lane, boxes: vec![part] };
    (Kernel::Rows { body, orientation: Orientation::InnerAxis }, tiles)
}

/// Whether the rows are the columns of many small matrices (`[20000, 11, 3]` folded over the middle axis), and only their
/// folds are stored.
fn are_narrow(body: &Body, d: &Dims) -> bool {
    let columns = d.dims[d.kept - 1].0;
    let matrices: usize = d.dims[..d.kept - 1].iter().map(|d| d.0).product();
    let folds = body.scans.is_empty() && body.stores.iter().all(|s| body.accesses[s.access as usize].per_row);
    folds && matrices > columns && TUNABLES.max_narrow_matrix.admits(columns * (50 + d.row()))
}

/// Orientation of a row kernel: inner-axis or outer-axis, whichever makes more accesses contiguous. On a device that
/// calls code for each strip (`by_strips`), small matrices of rows are inner-axis.
fn orientation(body: &Body, views: &[Option<View>], d: &Dims, by_strips: bool) -> Orientation {
    let sorts = body.scans.iter().any(|s| matches!(s.op, ScanOp::Sort | ScanOp::Argsort));
    let combines = body.stores.iter().any(|s| s.combine.is_some());
    if d.kept == 0 || sorts || combines || d.by_map.contains(&true) {
        return Orientation::InnerAxis;
    }
    let (column, run) = (d.kept - 1, d.dims.len() - 1);
    let (mut along, mut across) = (0usize, 0usize);
    for (access, view) in body.accesses.iter().zip(views) {
        let (Some(view), Some(_), false) = (view, access.operand, access.per_row) else { continue };
        along += (d.stride(view, run).abs() == 1) as usize;
        across += (d.stride(view, column).abs() == 1) as usize;
    }
    if along >= across {
        let least = TUNABLES.min_row.get();
        let long = d.row() <= 4 * least && d.dims[column].0 >= 4 * least;
        let short = !TUNABLES.min_row.reached_by(d.dims[run].0) && long;
        if short { Orientation::OuterAxis } else { Orientation::InnerAxis }
    } else if by_strips && are_narrow(body, d) {
        Orientation::InnerAxis
    } else {
        Orientation::OuterAxis
    }
}
