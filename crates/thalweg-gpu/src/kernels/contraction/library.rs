//! Unfused GEMM: by the driver's library; as row reductions (GEMV) for few rows or columns; else by tiles of our own.

use crate::kernels::Skeleton;
use crate::kernels::contraction::params::LibraryArguments;
use crate::kernels::plan::{Draft, Plan};
use crate::params::RuntimeArgument;
use crate::target::Target;
use crate::{product, traffic};
use thalweg_ir::DType;
use thalweg_kernel::{Contraction, ContractionGeometry, MatmulGeometry};
use thalweg_runtime::Error;

/// Plans a product of operands in memory; operands: left, right, result. The result's dtype is `written`: the operands'
/// dtype or the accumulators'.
///
/// # Errors
/// [`Error::Compile`] if the product has no source.
pub fn plan(c: &Contraction, g: &MatmulGeometry, written: DType, target: &dyn Target) -> Result<Plan, Error> {
    if written == c.dtype
        && let Some(plan) = library(c, g, target)
    {
        return Ok(plan);
    }
    let bare = Contraction::unfused(c.dtype, c.precision);
    if let Some(plan) = crate::kernels::gemv::plan(&bare, &ContractionGeometry::unfused(g.clone()), written, target) {
        return plan;
    }
    crate::kernels::contraction::tiles(&bare, &ContractionGeometry::unfused(g.clone()), written, target)
}

/// Plans a product by the library; `None` if the library does not support the product.
fn library(c: &Contraction, geometry: &MatmulGeometry, target: &dyn Target) -> Option<Plan> {
    let launches = product::launches(c.dtype, c.precision, geometry)?;
    let workspace = target.product(&launches.product)?;
    let mut plan = Plan { moved: traffic::product(geometry, c.dtype.size()), ..Plan::default() };
    plan.scratch.extend((workspace > 0).then_some(workspace));
    for [a, b, c] in launches.places {
        let arguments = LibraryArguments {
            left: RuntimeArgument::Operand(1, b),
            right: RuntimeArgument::Operand(0, a),
            result: RuntimeArgument::Operand(2, c),
            workspace: (workspace > 0).then_some(RuntimeArgument::Scratch(0, 0)),
        };
        let kernel = Skeleton::Library(launches.product);
        plan.stages.push(Draft::new(kernel, [1; 3], 1, 0, arguments.fill()));
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
