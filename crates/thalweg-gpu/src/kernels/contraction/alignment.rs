//! Alignment copies: operands whose rows begin at any address are copied to scratch memory with rows aligned to 16
//! bytes.
//!
//! In: a contraction with an operand of 2-byte elements that vector copies cannot read, such as gradients of 50,257
//! logits. Out: launches that copy such operands, then those of the contraction of the copies; or nothing, where copies
//! would not pay.
//!
//! Always true: whether an operand is copied depends on sizes, layouts and chip alone.

use crate::kernels;
use crate::kernels::gemm::Math;
use crate::kernels::gemm::select::{self, COPY, alignable, copy_of, factor_strides};
use crate::kernels::plan::Plan;
use crate::params::RuntimeArgument;
use crate::target::Target;
use crate::tunable::TUNABLES;
use thalweg_ir::{DType, MAX_RANK};
use thalweg_kernel::{Contraction, ContractionGeometry, Geometry, Kernel};
use thalweg_runtime::Error;

/// Plans the copies and the contraction; `None` where no operand needs a copy.
pub fn plan(
    c: &Contraction,
    g: &ContractionGeometry,
    written: DType,
    target: &dyn Target,
) -> Option<Result<Plan, Error>> {
    let p = &g.product;
    let all = p.m.saturating_mul(p.n).saturating_mul(p.k);
    let large = || TUNABLES.min_odd_product.reached_by(all) && TUNABLES.min_copied_side.reached_by(p.m.min(p.n));
    if select::math(c, target.chip()) != Math::Warpgroup || g.batches() != 1 || !large() {
        return None;
    }
    let odd = [0, 1].map(|n| c.factors[n].is_none().then(|| neighbours(c, g, n)).flatten());
    odd.iter().any(Option::is_some).then(|| copied(c, g, odd, written, target))
}

/// Orientation of a misaligned operand, whose lines or terms are not aligned to 16 bytes: whether terms are neighbours.
/// `None` for other operands.
fn neighbours(c: &Contraction, g: &ContractionGeometry, n: usize) -> Option<bool> {
    let (first, line, term) = factor_strides(&g.product, n);
    let pitch = if term == 1 { line } else { term };
    let odd = !alignable([first, pitch].into_iter(), c.dtype.size());
    (odd && (term == 1 || line == 1)).then_some(term == 1)
}

fn copied(
    c: &Contraction,
    g: &ContractionGeometry,
    odd: [Option<bool>; 2],
    written: DType,
    target: &dyn Target,
) -> Result<Plan, Error> {
    let (mut plan, mut g) = (Plan::default(), g.clone());
    let (mut operands, mut next) = (vec![], 0u16);
    for (n, odd) in odd.into_iter().enumerate() {
        let count = c.factors[n].as_ref().map_or(1, |f| f.reads() as u16);
        let own = (next..next + count).map(|o| RuntimeArgument::Operand(o, 0));
        match odd {
            Some(along) => operands.push(copy(&mut plan, (c.dtype, n, along), &mut g, (next, target))?),
            None => operands.extend(own),
        }
        next += count;
    }
    let rest = c.epilogue.as_ref().map_or(1, |e| e.reads - 1 + e.writes);
    operands.extend((next..next + rest).map(|o| RuntimeArgument::Operand(o, 0)));
    plan.absorb(crate::kernels::contraction::plan_writing(c, &g, written, target)?, &operands, 0);
    Ok(plan)
}

/// Adds the launch that copies operand `n` (A 0, B 1), and returns its address. The geometry is updated to the copy.
fn copy(
    plan: &mut Plan,
    (dtype, n, along): (DType, usize, bool),
    g: &mut ContractionGeometry,
    (operand, target): (u16, &dyn Target),
) -> Result<RuntimeArgument, Error> {
    let p = &mut g.product;
    let (first, line, term) = factor_strides(p, n);
    let lines = if n == 0 { p.m } else { p.n };
    let (outer, inner) = if along { ((lines, line), p.k) } else { ((p.k, term), lines) };
    let mut strides = [0; MAX_RANK];
    (strides[0], strides[1]) = (outer.1, 1);
    let (body, mut tiles) = copy_of(dtype, dtype, vec![outer.0, inner], (first, strides, p.reach[n]), false);
    let pitch = inner.next_multiple_of(COPY / dtype.size());
    let mut geometry = tiles.boxes.remove(0).geometry;
    let write = &mut geometry.accesses[1];
    write.strides[0] = pitch as isize;
    write.reach = Some((0, outer.0 * pitch - 1));
    plan.scratch.push(outer.0 * pitch * dtype.size());
    let region = RuntimeArgument::Scratch(plan.scratch.len() as u16 - 1, 0);
    let launch = kernels::plan(&Kernel::Map(body), &Geometry::Map(geometry), target)?;
    plan.absorb(launch, &[RuntimeArgument::Operand(operand, 0), region], 0);
    let pitch = pitch as isize;
    let [line, term] = if along { [pitch, 1] } else { [1, pitch] };
    *(if n == 0 { &mut p.a } else { &mut p.b }) = if n == 0 { (0, line, term) } else { (0, term, line) };
    p.reach[n] = Some((0, outer.0 * pitch as usize - 1));
    Ok(region)
}
