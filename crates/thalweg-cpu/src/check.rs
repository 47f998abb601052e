//! Checks of a launch before anything runs.
//!
//! In: a body's accesses, their geometry, operands, scalars. Whatever the geometry, nothing outside an operand is
//! touched after these checks, and no two points write the same element. Compiled code trusts its arguments, so these
//! checks are the only ones. Indices of gathers are data: the engine checks them as it runs.

use std::ops::Range;
use thalweg_ir::MAX_RANK;
use thalweg_kernel::{AccessClass, AccessGeometry, Body, Node};
use thalweg_runtime::Buffer;

/// Panics if a launch has another number of accesses, or fewer operands or scalars, than the body.
pub fn counts(body: &Body, accesses: &[AccessGeometry], operands: &[&Buffer], scalars: &[u64]) {
    assert_eq!(accesses.len(), body.accesses.len(), "geometry and body differ in accesses");
    assert!(operands.len() >= body.operands as usize, "{} operands, {} given", body.operands, operands.len());
    assert!(scalars.len() >= body.scalars as usize, "{} scalars, {} given", body.scalars, scalars.len());
}

/// Points at which an access is evaluated.
#[derive(Clone, Copy)]
pub struct Points<'a> {
    /// Sizes of the dimensions that the access varies over, starting with the outermost one of the domain. One of them
    /// is 0 if the access is never evaluated.
    pub extents: &'a [usize],
    /// Index in `extents` of the dimension whose stride the access class specifies (the innermost one of the domain),
    /// if the access varies over it.
    pub along: Option<usize>,
    /// Number of points of the whole domain, which an index map of an access must have too.
    pub domain: usize,
    /// Whether contiguous accesses may have a map: their elements are then packed before a call, or unpacked after it.
    pub packs: bool,
    /// Uses of the accesses by the body.
    pub uses: &'a [AccessUse],
}

/// Panics if access `number` reaches outside its operand or has another stride than its class.
pub fn access(body: &Body, number: usize, at: &AccessGeometry, points: Points<'_>, operands: &[&Buffer]) {
    let access = &body.accesses[number];
    let AccessUse { gathered, loaded, .. } = points.uses[number];
    if gathered {
        assert!(
            access.operand.is_some() && access.class != AccessClass::Mapped && at.map.is_none(),
            "access {number} is gathered from, so it must have an operand and not be mapped"
        );
        if !loaded {
            // The engine checks the indices of the gather.
            return;
        }
    }
    let extents = points.extents;
    let reach = match (&at.map, access.class) {
        (Some(map), class) if class == AccessClass::Mapped || points.packs && class == AccessClass::Contiguous => {
            assert!(class == AccessClass::Mapped || !map.is_masked(), "access {number} cannot be packed");
            assert_eq!(map.shape().numel(), points.domain, "access {number}: its map has another number of points");
            map.reach()
        }
        (None, AccessClass::Mapped) => panic!("access {number} is mapped, and its geometry has no map"),
        (_, class) => {
            if let Some(along) = points.along {
                let step = at.strides[along];
                let fits = class.step().is_none_or(|s| s == step);
                let alone = extents[along] <= 1;
                assert!(fits || alone, "access {number} is {class:?}, and its innermost stride is {step}");
            }
            (!extents.contains(&0)).then(|| strided_reach(extents, at))
        }
    };
    if let (Some(operand), Some((low, high))) = (access.operand, reach) {
        let has = operands[operand as usize].bytes() / access.dtype.size();
        assert!(
            low <= high && high < has,
            "access {number} reaches elements {low} to {high} of operand {operand}, which has {has} ({})",
            access.dtype
        );
    }
}

/// Whether access `number`, which no gather uses, has the stride of its class and stays inside its operand over `n`
/// points in one dimension. Fast form of [`access`] for the many small launches over one dimension.
#[inline]
pub fn fits_line(body: &Body, number: usize, at: &AccessGeometry, n: usize, operands: &[&Buffer]) -> bool {
    let (access, step) = (&body.accesses[number], at.strides[0]);
    let moves = access.class.step().is_none_or(|s| s == step);
    if access.class == AccessClass::Mapped || at.map.is_some() || !moves && n > 1 {
        return false;
    }
    let Some(operand) = access.operand else { return true };
    let has = operands[operand as usize].bytes() / access.dtype.size();
    let last = step.checked_mul(n as isize - 1).and_then(|s| s.checked_add(at.base));
    let inside = |position: isize| position >= 0 && (position as usize) < has;
    inside(at.base) && last.is_some_and(inside)
}

/// Lowest and highest element index of a strided access. A negative or huge index is returned as `usize::MAX`, which is
/// outside every operand.
pub fn strided_reach(extents: &[usize], at: &AccessGeometry) -> (usize, usize) {
    let (mut low, mut high) = (at.base as i128, at.base as i128);
    for (&extent, &stride) in extents.iter().zip(&at.strides) {
        let span = (extent as i128 - 1) * stride as i128;
        low += span.min(0);
        high += span.max(0);
    }
    let position = |p: i128| usize::try_from(p).unwrap_or(usize::MAX);
    (position(low), position(high))
}

/// Whether no two points access the same element: each stride exceeds the span of all smaller strides. Conservative for
/// an access through an index map: false unless the map is a strided view.
pub fn injective(extents: &[usize], at: &AccessGeometry) -> bool {
    let (extents, strides) = match &at.map {
        None => (extents, &at.strides[..]),
        Some(map) => match map.as_view() {
            Some(view) => (view.shape.dims(), view.strides()),
            None => return false,
        },
    };
    steps_over(extents, strides)
}

fn steps_over(extents: &[usize], strides: &[isize]) -> bool {
    let mut dims = [(0usize, 0usize); MAX_RANK];
    let mut rank = 0;
    for (&extent, &stride) in extents.iter().zip(strides).filter(|(e, _)| **e > 1) {
        dims[rank] = (stride.unsigned_abs(), extent);
        rank += 1;
    }
    dims[..rank].sort_unstable();
    let mut covered = 0usize;
    dims[..rank].iter().all(|&(stride, extent)| {
        let apart = stride > covered;
        covered = covered.saturating_add(stride.saturating_mul(extent - 1));
        apart
    })
}

/// How a body uses one of its accesses.
#[derive(Clone, Copy, Default, Debug)]
pub struct AccessUse {
    /// A gather reads through it.
    pub gathered: bool,
    /// A load or a store uses it, besides any gathers.
    pub loaded: bool,
    /// A store writes through it.
    pub stored: bool,
    /// The body reads its positions as values, not only elements or the mask.
    pub numbers: bool,
    /// The body reads which of its points are inside the mask.
    pub masked: bool,
}

/// Uses of all accesses of a body, in one pass over its nodes: a fused body has hundreds of accesses and thousands of
/// nodes, and a search for each access took longer than the launch (12 ms of a map over `[5, 35]`).
pub fn uses(body: &Body) -> Box<[AccessUse]> {
    let mut all = vec![AccessUse::default(); body.accesses.len()].into_boxed_slice();
    for node in &body.nodes {
        match *node {
            Node::Gather { access, .. } => all[access as usize].gathered = true,
            Node::Load { access } => all[access as usize].loaded = true,
            Node::Index { access, .. } => all[access as usize].numbers = true,
            Node::Valid { access } => all[access as usize].masked = true,
            _ => {}
        }
    }
    for store in &body.stores {
        let own = &mut all[store.access as usize];
        (own.loaded, own.stored) = (true, true);
    }
    all
}

/// Whether the bytes that a launch writes may overlap bytes that it reads. `reach` gives the lowest and highest element
/// index of an access; `None` if the access touches nothing.
pub fn aliased(
    body: &Body,
    uses: &[AccessUse],
    operands: &[&Buffer],
    reach: impl Fn(usize) -> Option<(usize, usize)>,
) -> bool {
    let bytes = |i: usize| -> Option<Range<usize>> {
        let access = &body.accesses[i];
        let operand = operands[access.operand? as usize];
        let (start, size) = (operand.address() as usize, access.dtype.size());
        if uses[i].gathered {
            // A gather may read any element.
            return Some(start..start + operand.bytes());
        }
        let (low, high) = reach(i)?;
        Some(start + low * size..start + (high + 1) * size)
    };
    let written: Vec<Range<usize>> = body.stores.iter().filter_map(|s| bytes(s.access as usize)).collect();
    let overlaps = |r: Range<usize>| written.iter().any(|w| r.start < w.end && w.start < r.end);
    (0..body.accesses.len()).filter(|&i| !uses[i].stored).filter_map(bytes).any(overlaps)
}
