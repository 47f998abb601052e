//! Unfused fallback: a contraction as several launches. Operands are computed to scratch memory, then comes the
//! product, then the epilogue (which may be fused with the product).
//!
//! In: any contraction. Out: ordinary launches of maps, row kernels and products. Every contraction can take this form.
//! It is chosen where a library's product is faster than a fused kernel of our own.

use crate::kernels;
use crate::kernels::contraction::{library, points};
use crate::kernels::plan::Plan;
use crate::params::RuntimeArgument;
use crate::target::Target;
use thalweg_ir::DType;
use thalweg_kernel::{Contraction, ContractionGeometry, Geometry, Kernel, RowGeometry, TileGeometry};
use thalweg_runtime::Error;

/// Plans the launches. Without an epilogue, accumulators are stored in dtype `written`.
///
/// # Errors
/// [`Error::Compile`] if one of the launches has no source.
pub fn plan(c: &Contraction, g: &ContractionGeometry, written: DType, target: &dyn Target) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    let (mut next, mut scalars) = (0u16, 0u16);
    let mut take = |n: usize| {
        next += n as u16;
        (next - n as u16..next).map(|o| RuntimeArgument::Operand(o, 0)).collect::<Vec<RuntimeArgument>>()
    };
    let mut sides = [RuntimeArgument::Operand(0, 0); 2];
    for (n, side) in sides.iter_mut().enumerate() {
        let Some((f, tiles)) = c.factors[n].as_deref().zip(g.factors[n].as_deref()) else {
            *side = take(1)[0];
            continue;
        };
        let mut kernel = f.kernel.clone();
        let mut sums = None;
        if let Some((inner, geometry)) = f.inner.as_deref().zip(g.inner.as_deref()) {
            let mut all = take(inner.product.reads());
            let own = inner.product.epilogue.is_none().then(|| between(&inner.product));
            let region = scratch(&mut plan, points(geometry), own.unwrap_or(inner.dtype));
            all.push(region);
            let product = crate::kernels::contraction::plan_writing(
                &inner.product,
                geometry,
                own.unwrap_or(inner.dtype),
                target,
            )?;
            plan.absorb(product, &all, scalars);
            scalars += inner.product.scalars() as u16;
            kernel = own.map_or(kernel.clone(), |dtype| reading(&kernel, inner.sums, dtype));
            sums = Some((inner.sums, region));
        }
        let mut all = take(f.operands);
        if let Some((at, region)) = sums {
            all.insert(at as usize, region);
        }
        *side = scratch(&mut plan, tiles.points(), c.dtype);
        all.push(*side);
        plan.absorb(kernels::plan(&kernel, &whole(&kernel, tiles), target)?, &all, scalars);
        scalars += f.scalars as u16;
    }
    if c.factors.iter().any(Option::is_some) {
        // The rest of the contraction has its operands in memory: it takes any form.
        let (rest, of_rest) = crate::kernels::contraction::without_factors(c, g);
        let mut all = sides.to_vec();
        all.extend(take(c.epilogue.as_ref().map_or(1, |e| (e.reads - 1 + e.writes) as usize)));
        plan.absorb(crate::kernels::contraction::plan_writing(&rest, &of_rest, written, target)?, &all, scalars);
        return Ok(plan);
    }
    let (e, tiles) = c.epilogue.as_deref().zip(g.epilogue.as_deref()).expect("a bare product is not opened");
    let sums = scratch(&mut plan, points(g), between(c));
    plan.absorb(library::plan(c, &g.product, between(c), target)?, &[sides[0], sides[1], sums], 0);
    let kernel = reading(&e.kernel, e.sums, between(c));
    let mut all = take(e.reads as usize - 1);
    all.insert(e.sums as usize, sums);
    all.extend(take(e.writes as usize));
    plan.absorb(kernels::plan(&kernel, &whole(&kernel, tiles), target)?, &all, scalars);
    Ok(plan)
}

/// Dtype of accumulators in memory between two launches. It is the product's dtype, as in an unfused program; in strict
/// mode it is the accumulator dtype, so that nothing is rounded that a fused kernel would not round.
fn between(c: &Contraction) -> DType {
    if c.precision == thalweg_kernel::Precision::Ordered { c.accumulator() } else { c.dtype }
}

/// Adds a scratch region for `points` elements; returns its address as an argument.
fn scratch(plan: &mut Plan, points: usize, dtype: DType) -> RuntimeArgument {
    plan.scratch.push((points * dtype.size()).max(64));
    RuntimeArgument::Scratch(plan.scratch.len() as u16 - 1, 0)
}

/// Geometry of a kernel over the whole domain of a contraction's body.
pub fn whole(kernel: &Kernel, tiles: &TileGeometry) -> Geometry {
    let first = || tiles.boxes[0].geometry.clone();
    match kernel {
        Kernel::Map(_) => Geometry::Map(first()),
        Kernel::Boxes(_) => Geometry::Boxes(tiles.boxes.iter().map(|b| b.geometry.clone()).collect()),
        Kernel::Rows { .. } => {
            let g = first();
            Geometry::Rows(RowGeometry { kept: g.extents.len() - 1, extents: g.extents, accesses: g.accesses })
        }
        other => unreachable!("no part of a contraction: {other:?}"),
    }
}

/// Copies a kernel, with `operand` read in dtype `dtype` instead of its own.
fn reading(kernel: &Kernel, operand: u16, dtype: DType) -> Kernel {
    match kernel {
        Kernel::Map(body) => Kernel::Map(thalweg_kernel::reading(body, operand, dtype)),
        Kernel::Boxes(all) => Kernel::Boxes(all.iter().map(|b| thalweg_kernel::reading(b, operand, dtype)).collect()),
        Kernel::Rows { body, orientation } => {
            Kernel::Rows { body: thalweg_kernel::reading(body, operand, dtype), orientation: *orientation }
        }
        other => unreachable!("no part of a contraction: {other:?}"),
    }
}
