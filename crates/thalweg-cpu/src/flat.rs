//! Maps over one dimension without tables and gathers: nearly all elementwise kernels, once adjacent dimensions are
//! merged.
//!
//! In: a body with its [`Facts`] from compilation, a geometry, operands, scalars. A launch found *flat* has passed
//! every check and runs in chunks of [`CHUNK`] points. Any other launch - including an invalid one - takes the general
//! path (`launch.rs`). A launch of few points spends most of its time on what happens before it runs, and a group has
//! hundreds of them, so this path has few steps.

use crate::check::{self, AccessUse};
use crate::engine::{Engine, OutOfRange};
use crate::launch_common::{CHUNK, Stores, straight_ns};
use std::ops::Range;
use thalweg_kernel::{AccessClass, Body, MapGeometry};
use thalweg_runtime::Buffer;

/// Properties of a body that launches need, independent of sizes.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Arithmetic cost of a point, in additions.
    pub cost: u64,
    /// Uses of the accesses by the body.
    pub uses: Box<[AccessUse]>,
    /// Whether the body has no gathers and no mapped accesses, and all stores are contiguous and to operands.
    plain: bool,
}

impl Facts {
    /// Derives the properties of a body.
    pub fn new(body: &Body) -> Facts {
        let uses = check::uses(body);
        let gathers = uses.iter().any(|u| u.gathered);
        let mapped = body.accesses.iter().any(|a| a.class == AccessClass::Mapped);
        let writes = body.stores.iter().all(|s| {
            let access = &body.accesses[s.access as usize];
            access.class == AccessClass::Contiguous && access.operand.is_some()
        });
        Facts { cost: body.cost(), plain: !gathers && !mapped && writes, uses }
    }

    /// Whether a launch is flat and sound to run.
    pub fn is_flat(&self, body: &Body, geometry: &MapGeometry, operands: &[&Buffer], scalars: &[u64]) -> bool {
        let &[n] = &geometry.extents[..] else { return false };
        self.plain
            && (1..=isize::MAX as usize).contains(&n)
            && geometry.accesses.len() == body.accesses.len()
            && operands.len() >= body.operands as usize
            && scalars.len() >= body.scalars as usize
            && geometry.accesses.iter().enumerate().all(|(i, at)| check::fits_line(body, i, at, n, operands))
    }

    /// Estimated nanoseconds that one thread takes for a flat launch.
    pub fn estimate_ns(&self, body: &Body, geometry: &MapGeometry) -> f64 {
        let points = geometry.extents[0];
        let accesses = body.accesses.iter().zip(&geometry.accesses).filter(|(a, _)| a.operand.is_some());
        let bytes: usize = accesses.map(|(a, at)| at.distinct.min(points) * a.dtype.size()).sum();
        straight_ns(points as f64, self.cost, bytes as f64)
    }
}

/// Runs a range of chunks, and stops at the first failure.
///
/// # Safety
/// The launch is flat.
///
/// # Errors
/// As [`Engine::run`].
pub unsafe fn run(
    (engine, body): (&Engine, &Body),
    geometry: &MapGeometry,
    operands: &[&Buffer],
    scalars: &[u64],
    range: Range<usize>,
    stores: Stores<'_>,
    args: &mut Vec<u64>,
) -> Result<(), OutOfRange> {
    let n = geometry.extents[0];
    let start = range.start * CHUNK;
    args.clear();
    for (access, at) in body.accesses.iter().zip(&geometry.accesses) {
        // A single point has any stride, but its step must be that of its class.
        let step = if n == 1 { access.class.step().unwrap_or(0) } else { at.strides[0] };
        let first = at.base.wrapping_add(step.wrapping_mul(start as isize));
        let word = match access.operand {
            Some(o) => {
                let bytes = first.wrapping_mul(access.dtype.size() as isize);
                operands[o as usize].address().wrapping_offset(bytes) as u64
            }
            None => first as u64,
        };
        args.extend([word, 0, step as u64, 0]);
    }
    args.extend_from_slice(scalars);
    for chunk in range.clone() {
        let points = CHUNK.min(n - chunk * CHUNK);
        // SAFETY: every access is inside its operand for all points, and these are some of them. No other chunk writes
        // its elements, since stores are contiguous.
        unsafe {
            if stores.may_stream(args, 1) {
                engine.run_streaming(args, points, 1)?;
            } else {
                engine.run(args, points, 1, stores.in_place)?;
            }
        }
        if chunk + 1 < range.end {
            for (i, access) in body.accesses.iter().enumerate() {
                let unit = access.operand.map_or(1, |_| access.dtype.size());
                let moved = (args[4 * i + 2] as i64).wrapping_mul((CHUNK * unit) as i64);
                args[4 * i] = args[4 * i].wrapping_add(moved as u64);
            }
        }
    }
    Ok(())
}
