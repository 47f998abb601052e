//! Lowering of contractions: chooses the form of a contraction and plans its launches.
//!
//! In: a contraction with its geometry. Out: a [`Plan`] whose operands are the contraction's. The forms:
//!
//! * `open`: unfused fallback, several launches; every contraction can take it.
//! * `folded`: GEMV, a product of few rows or columns with its epilogue, as a row kernel that folds terms.
//! * `bare`: an unfused GEMM, by a library.
//! * `tile`: a tiled GEMM, one kernel with prologues and epilogue.
//! * `fed`: a warp-specialized TMA GEMM for narrow factors, one kernel with a producer thread.
//! * `aside`: alignment copies of factors whose rows begin at any address, for any of the other forms.
//! * `streamed`: flash attention, two products, with softmax or other weights between them in one kernel.
//!
//! `choice` decides by estimated times.

mod aside;
mod bare;
mod choice;
mod fed;
mod folded;
mod open;
mod streamed;
mod tile;

use crate::plan::Plan;
use crate::target::Target;
use thalweg_ir::DType;
use thalweg_kernel::{Contraction, ContractionGeometry};
use thalweg_runtime::Error;

pub use fed::{Sibling, add_together};

/// Plans the launches of a contraction.
///
/// # Errors
/// [`Error::Compile`] where there is no source for it.
pub fn plan(c: &Contraction, g: &ContractionGeometry, target: &dyn Target) -> Result<Plan, Error> {
    if c.dtype == DType::Bool {
        let message = "bool has no matrix product".into();
        return Err(Error::Compile { device: target.device().into(), message });
    }
    plan_writing(c, g, c.dtype, target)
}

/// Plans a contraction whose sums are written in dtype `written` where it has no epilogue.
fn plan_writing(c: &Contraction, g: &ContractionGeometry, written: DType, target: &dyn Target) -> Result<Plan, Error> {
    if (!c.is_unfused() || folded::is_worth_it(&g.product))
        && let Some(plan) = folded::plan(c, g, written, target)
    {
        return plan;
    }
    if let Some(plan) = aside::plan(c, g, written, target) {
        return plan;
    }
    if c.is_unfused() && !(choice::is_own(c, g, target.chip()) && choice::tiles(c, g, target)) {
        return bare::plan(c, &g.product, written, target);
    }
    if let Some(plan) = streamed::plan(c, g, written, target) {
        return Ok(plan);
    }
    if folded::fits_behind_short(c, g) {
        return open::plan(c, g, written, target);
    }
    if tile::fits(c, g) && choice::tiles(c, g, target) {
        return tiles(c, g, written, target);
    }
    open::plan(c, g, written, target)
}

/// The contraction that remains after its factors are computed.
fn without_factors(c: &Contraction, g: &ContractionGeometry) -> (Contraction, ContractionGeometry) {
    let bare = ContractionGeometry::unfused(g.product.clone());
    (
        Contraction { epilogue: c.epilogue.clone(), ..Contraction::unfused(c.dtype, c.precision) },
        ContractionGeometry { epilogue: g.epilogue.clone(), ..bare },
    )
}

/// Plans one tiled kernel, by TMA where possible.
fn tiles(c: &Contraction, g: &ContractionGeometry, written: DType, target: &dyn Target) -> Result<Plan, Error> {
    let fed = if choice::is_shared(c, g, target.chip()) { None } else { fed::plan(c, g, written, target) };
    fed.map_or_else(|| tile::plan(c, g, written, target), Ok)
}

/// Elements of the product's result.
fn points(g: &ContractionGeometry) -> usize {
    g.batches() * g.product.m * g.product.n
}
