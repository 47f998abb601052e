//! Layout of a map body over its domain: merged dimensions, and the class of each access.

use super::boxes::renumbered;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use thalweg_ir::{MAX_RANK, Shape, View};
use thalweg_kernel::{Access, AccessClass, AccessGeometry, Body, IndexMap, MapGeometry, dims, resolve};

/// Index maps of a kernel's accesses; equal maps share one allocation.
pub(crate) type SharedMaps<'a> = FxHashMap<&'a IndexMap, Arc<IndexMap>>;

/// Geometry of an access: base and strides if `strided` is given, else its index map, which accesses with equal maps
/// share.
pub(crate) fn access_geometry<'a>(
    access: &Access,
    map: &'a IndexMap,
    strided: Option<(isize, [isize; MAX_RANK])>,
    shared: &mut SharedMaps<'a>,
) -> AccessGeometry {
    let (base, strides) = strided.unwrap_or_default();
    let through = || shared.entry(map).or_insert_with(|| Arc::new(map.clone())).clone();
    AccessGeometry {
        base,
        strides,
        map: strided.is_none().then(through),
        reach: access.operand.and_then(|_| map.reach()),
        distinct: map.distinct(),
    }
}

/// Base and strides over the domain, for a map that is one strided view; `None` for other maps.
pub(crate) fn strides_of(map: &IndexMap) -> Option<(isize, [isize; MAX_RANK])> {
    let view = map.as_view()?;
    let mut strides = [0; MAX_RANK];
    strides[..view.shape.rank()].copy_from_slice(view.strides());
    Some((view.offset, strides))
}

/// Body and geometry on one box of the domain. Each box is reshaped separately, since the operands of a `cat` may have
/// been moved in different ways (attention heads of three concatenated tensors).
pub(crate) fn lay_out_box(body: &Body, maps: &[IndexMap], part: &[(usize, usize)]) -> (Body, MapGeometry) {
    let (body, maps) = resolved(body, maps, part);
    let extents: Vec<usize> = part.iter().map(|p| p.1).collect();
    let (shape, maps) = renumbered(Shape::new(&extents), &maps);
    lay_out(body, shape, &maps)
}

/// Body on one box of the domain, without the masks that are constant there, and the maps of the remaining accesses.
pub(crate) fn resolved(body: &Body, maps: &[IndexMap], part: &[(usize, usize)]) -> (Body, Vec<IndexMap>) {
    let on_box: Vec<Option<IndexMap>> = maps.iter().map(|m| m.on_box(part)).collect();
    // A mask further inside the map is still evaluated per point.
    let inside: Vec<Option<bool>> = on_box
        .iter()
        .map(|m| match m {
            None => Some(false),
            Some(m) => (!m.is_masked()).then_some(true),
        })
        .collect();
    let (body, kept) = resolve(body, &inside);
    let maps = kept.iter().map(|&a| on_box[a].clone().expect("an access in use is inside")).collect();
    (body, maps)
}

/// Lays out a body over a domain: sets the class of each access, and returns the body with its geometry, in which
/// dimensions are merged as far as possible.
pub(crate) fn lay_out(mut body: Body, domain: Shape, maps: &[IndexMap]) -> (Body, MapGeometry) {
    let writes: Vec<bool> = (0..maps.len()).map(|a| body.stores.iter().any(|s| s.access as usize == a)).collect();
    let (extents, strides) = collapse(domain, maps, &writes);
    let mut shared = SharedMaps::default();
    let mut accesses = Vec::with_capacity(maps.len());
    for ((access, map), strides) in body.accesses.iter_mut().zip(maps).zip(strides) {
        let strided = map.as_view().map(|view| (view.offset, strides.unwrap_or_default()));
        let at = access_geometry(access, map, strided, &mut shared);
        access.class = match (&at.map, at.strides[extents.len() - 1]) {
            (Some(_), _) => AccessClass::Mapped,
            (None, step) => AccessClass::of_step(step),
        };
        accesses.push(at);
    }
    (body, MapGeometry { extents, accesses })
}

/// Domain with neighbouring dimensions merged where every strided access is contiguous from one into the next, and the
/// strides of each map over it (`None` if a map is not a strided view).
fn collapse(domain: Shape, maps: &[IndexMap], writes: &[bool]) -> (Vec<usize>, Vec<Option<[isize; MAX_RANK]>>) {
    let views: Vec<Option<&View>> = maps.iter().map(IndexMap::as_view).collect();
    let runs_on = |o: usize, i: usize, n: usize| views.iter().flatten().all(|v| dims::runs_on(v.strides(), o, i, n));
    let merged = dims::merge(domain.dims(), 0..domain.rank(), false, runs_on);
    let mut extents: Vec<usize> = merged.iter().map(|m| m.extent).collect();
    // Stores are contiguous in the innermost dimension; on a box one column wide this needs an extra dimension of size
    // 1.
    let gaps = |at: usize| views.iter().zip(writes).any(|(v, w)| *w && v.is_some_and(|v| v.strides()[at] != 1));
    let alone = merged.last().is_none_or(|m| gaps(m.inner));
    let strides = views
        .iter()
        .map(|v| {
            v.map(|v| {
                let mut s = [0; MAX_RANK];
                for (at, m) in merged.iter().enumerate() {
                    s[at] = v.strides()[m.inner];
                }
                if alone {
                    s[merged.len()] = 1;
                }
                s
            })
        })
        .collect();
    if alone {
        extents.push(1);
    }
    (extents, strides)
}
