//! What a launch refuses before anything runs.
//!
//! In: a body's accesses, where a geometry says they go, operands, scalars. Whatever geometry is given, nothing outside
//! an operand is touched afterwards, and no two points write one element. Compiled code trusts its arguments, so all
//! trust begins here. Where a gather leads is data: that the engine checks.

use std::ops::Range;
use thalweg_ir::MAX_RANK;
use thalweg_kernel::{AccessClass, AccessGeometry, Body, Node};
use thalweg_runtime::Buffer;

/// Refuses a launch with fewer accesses, operands or scalars than the body has.
pub fn counts(body: &Body, accesses: &[AccessGeometry], operands: &[&Buffer], scalars: &[u64]) {
    assert_eq!(accesses.len(), body.accesses.len(), "geometry and body differ in accesses");
    assert!(operands.len() >= body.operands as usize, "{} operands, {} given", body.operands, operands.len());
    assert!(scalars.len() >= body.scalars as usize, "{} scalars, {} given", body.scalars, scalars.len());
}

/// The points that an access is asked for.
#[derive(Clone, Copy)]
pub struct Points<'a> {
    /// The dimensions that it moves along, the first of the domain's; of size 0 if it is not asked for at all.
    pub extents: &'a [usize],
    /// The dimension that its class is about, where that is one of them.
    pub along: Option<usize>,
    /// How many points the whole domain has, which a map has to have too.
    pub domain: usize,
    /// Whether contiguous accesses may have a map, by which their elements are brought together before a call, or apart
    /// behind it.
    pub packs: bool,
}

/// Refuses access `number` if it reaches outside its operand or moves otherwise than its class says.
pub fn access(body: &Body, number: usize, at: &AccessGeometry, points: Points<'_>, operands: &[&Buffer]) {
    let access = &body.accesses[number];
    if gathered(body, number) {
        assert!(
            access.operand.is_some() && access.class != AccessClass::Mapped && at.map.is_none(),
            "access {number} is gathered from, so it must have an operand and not be mapped"
        );
        if !loaded(body, number) {
            // Where it reads, the engine checks.
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

/// Whether access `number`, which nothing is gathered through, moves as its class says and stays inside its operand
/// over `n` points in one dimension: what [`access`] finds too, for the many small launches that are no more than that.
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

/// Lowest and highest position of a strided access; out of every operand's range where it is negative or absurd.
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

/// Whether no two points share an element: each stride steps over all that the smaller ones reach. Of maps strided views
/// alone are found to be so.
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

/// Whether something is gathered through an access.
pub fn gathered(body: &Body, access: usize) -> bool {
    body.nodes.iter().any(|n| matches!(n, Node::Gather { access: a, .. } if *a as usize == access))
}

/// Whether the elements that an access itself points at are read or written.
fn loaded(body: &Body, access: usize) -> bool {
    let load = |n: &Node| matches!(n, Node::Load { access: a } if *a as usize == access);
    body.nodes.iter().any(load) || body.stores.iter().any(|s| s.access as usize == access)
}

/// Whether some operand that is written may also be read, `reach` being the lowest and highest position of an access.
pub fn aliased(body: &Body, operands: &[&Buffer], reach: impl Fn(usize) -> Option<(usize, usize)>) -> bool {
    let bytes = |i: usize| -> Option<Range<usize>> {
        let access = &body.accesses[i];
        let operand = operands[access.operand? as usize];
        let (start, size) = (operand.address() as usize, access.dtype.size());
        if gathered(body, i) {
            // Any of its elements.
            return Some(start..start + operand.bytes());
        }
        let (low, high) = reach(i)?;
        Some(start + low * size..start + (high + 1) * size)
    };
    let stored = |i: usize| body.stores.iter().any(|s| s.access as usize == i);
    body.stores.iter().filter_map(|s| bytes(s.access as usize)).any(|w| {
        (0..body.accesses.len()).filter(|&i| !stored(i)).filter_map(bytes).any(|r| r.start < w.end && w.start < r.end)
    })
}
