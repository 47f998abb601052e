//! Unfused GEMM: by the driver's library; of few rows or columns as folds; else by tiles of our own.

use crate::plan::Word;
use crate::plan::{Draft, Plan};
use crate::product;
use crate::skeleton::Skeleton;
use crate::target::Target;
use crate::traffic;
use std::sync::Arc;
use thalweg_ir::DType;
use thalweg_kernel::{Contraction, ContractionGeometry, MatmulGeometry};
use thalweg_runtime::Error;

/// Plans a product of factors in memory; operands: left, right, result. The result is in dtype `written`, that of the
/// factors or of the sums.
///
/// # Errors
/// [`Error::Compile`] where it has no source.
pub fn plan(c: &Contraction, g: &MatmulGeometry, written: DType, target: &dyn Target) -> Result<Plan, Error> {
    if written == c.dtype
        && let Some(plan) = library(c, g, target)
    {
        return Ok(plan);
    }
    let bare = Contraction::unfused(c.dtype, c.precision);
    if let Some(plan) = super::folded::plan(&bare, &ContractionGeometry::unfused(g.clone()), written, target) {
        return plan;
    }
    super::tiles(&bare, &ContractionGeometry::unfused(g.clone()), written, target)
}

/// Plans a product by the library; `None` where it does not support it.
fn library(c: &Contraction, geometry: &MatmulGeometry, target: &dyn Target) -> Option<Plan> {
    let launches = product::launches(c.dtype, c.precision, geometry)?;
    let workspace = target.product(&launches.product)?;
    let kernel = Arc::new(Skeleton::Product(launches.product));
    let mut plan = Plan { moved: traffic::product(geometry, c.dtype.size()), ..Plan::default() };
    plan.scratch.extend((workspace > 0).then_some(workspace));
    for [a, b, c] in launches.places {
        // The library is column-major: our right operand is its left one.
        let mut patches = vec![(0, Word::Operand(1, b)), (1, Word::Operand(0, a)), (2, Word::Operand(2, c))];
        patches.extend((workspace > 0).then_some((3, Word::Scratch(0, 0))));
        let words = vec![0; product::WORDS];
        plan.stages.push(Draft { kernel: kernel.clone(), grid: [1; 3], block: 1, shared: 0, words, patches });
    }
    needs(&mut plan, c.dtype, c.dtype, geometry);
    Some(plan)
}

/// Records the minimum sizes of a product's operands in bytes.
pub fn needs(plan: &mut Plan, dtype: DType, written: DType, g: &MatmulGeometry) {
    for (o, reach) in g.reach.iter().enumerate() {
        plan.needs.extend(reach.map(|(_, high)| (o as u16, (high + 1) * dtype.size())));
    }
    let products: usize = g.batch.iter().map(|b| b.0).product();
    plan.needs.push((2, products * g.m * g.n * written.size()));
}
