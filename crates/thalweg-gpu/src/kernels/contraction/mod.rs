//! Lowering of contractions: chooses the form of a contraction and plans its launches.
//!
//! In: a contraction with its geometry. Out: a [`Plan`] whose operands are the contraction's. The forms:
//!
//! * `unfused`: fallback, several launches; every contraction can take it.
//! * `gemv`: a product of few rows or columns with its epilogue, as a row kernel that folds terms.
//! * `library`: an unfused GEMM, by a library.
//! * `gemm`: a tiled GEMM, one kernel with prologues and epilogue.
//! * `gemm::tma`: a warp-specialized TMA GEMM for operands of 2-byte elements, one kernel with a producer thread.
//! * `alignment`: copies of operands whose rows begin at any address, for any of the other forms.
//! * `attention`: flash attention, two products, with softmax or other weights between them in one kernel.
//!
//! `cost` decides by estimated times.

mod alignment;
mod cost;
mod library;
pub mod params;
mod unfused;

use crate::kernels::attention;
use crate::kernels::gemm::{self, tma};
use crate::kernels::gemv;
use crate::kernels::plan::Plan;
use crate::target::Target;
use thalweg_ir::DType;
use thalweg_kernel::{Contraction, ContractionGeometry};
use thalweg_runtime::Error;

pub use crate::kernels::gemm::tma::select::{Sibling, add_grouped};

/// Plans the launches of a contraction.
///
/// # Errors
/// [`Error::Compile`] if the contraction has no source, such as one of bools.
pub fn plan(c: &Contraction, g: &ContractionGeometry, target: &dyn Target) -> Result<Plan, Error> {
    if c.dtype == DType::Bool {
        let message = "bool has no matrix product".into();
        return Err(Error::Compile { device: target.device().into(), message });
    }
    plan_writing(c, g, c.dtype, target)
}

/// Plans a contraction. Without an epilogue, accumulators are stored in dtype `written`.
fn plan_writing(c: &Contraction, g: &ContractionGeometry, written: DType, target: &dyn Target) -> Result<Plan, Error> {
    if (!c.is_unfused() || gemv::is_worth_it(&g.product))
        && let Some(plan) = gemv::plan(c, g, written, target)
    {
        return plan;
    }
    if let Some(plan) = alignment::plan(c, g, written, target) {
        return plan;
    }
    if c.is_unfused() && !(cost::is_own(c, g, target.chip()) && cost::tiles(c, g, target)) {
        return library::plan(c, &g.product, written, target);
    }
    if let Some(plan) = attention::select::plan(c, g, written, target) {
        return Ok(plan);
    }
    if fits_after_short_factor(c, g) {
        return unfused::plan(c, g, written, target);
    }
    if gemm::select::fits(c, g) && cost::tiles(c, g, target) {
        return tiles(c, g, written, target);
    }
    unfused::plan(c, g, written, target)
}

/// Returns the contraction that remains once computed operands are stored: its operands are matrices in memory.
fn without_factors(c: &Contraction, g: &ContractionGeometry) -> (Contraction, ContractionGeometry) {
    let bare = ContractionGeometry::unfused(g.product.clone());
    (
        Contraction { epilogue: c.epilogue.clone(), ..Contraction::unfused(c.dtype, c.precision) },
        ContractionGeometry { epilogue: g.epilogue.clone(), ..bare },
    )
}

/// Whether the product is a GEMV once its short operand has been computed to memory.
fn fits_after_short_factor(c: &Contraction, g: &ContractionGeometry) -> bool {
    let long = usize::from(g.product.m <= g.product.n);
    let (rest, of_rest) = without_factors(c, g);
    c.factors[1 - long].is_some() && c.factors[long].is_none() && gemv::kernel(&rest, &of_rest, c.dtype).is_some()
}

/// Plans one tiled kernel, a TMA GEMM if possible.
fn tiles(c: &Contraction, g: &ContractionGeometry, written: DType, target: &dyn Target) -> Result<Plan, Error> {
    let tma = if cost::is_split_k(c, g, target.chip()) { None } else { tma::select::plan(c, g, written, target) };
    tma.map_or_else(|| gemm::select::plan(c, g, written, target), Ok)
}

/// Number of elements of the product's result.
fn points(g: &ContractionGeometry) -> usize {
    g.batches() * g.product.m * g.product.n
}
