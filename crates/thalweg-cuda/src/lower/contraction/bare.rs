//! Bare products: by the library that the driver has; of one row or column as folds; else tiles of our own.

use crate::compiler::Compiler;
use crate::launch::Word;
use crate::lower;
use crate::plan::{Draft, Plan};
use crate::product;
use crate::traffic;
use thalweg_ir::{DType, MAX_RANK, Monoid};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, BodyBuilder, Contraction, ContractionGeometry, Geometry, Kernel,
    MatmulGeometry, Node, NodeId, Orientation, Precision, RowGeometry,
};
use thalweg_runtime::Error;

/// The launches of a product of factors in memory, operands left, right, result; the result in that dtype, which is
/// that of the factors or of the sums.
///
/// # Errors
/// [`Error::Compile`] where it has no source.
pub fn plan(c: &Contraction, g: &MatmulGeometry, written: DType, compiler: &Compiler) -> Result<Plan, Error> {
    if written == c.dtype
        && let Some(plan) = library(c, g, compiler)
    {
        return Ok(plan);
    }
    if let Some((kernel, geometry)) = folds(c, g, written) {
        return lower::plan(&kernel, &geometry, compiler);
    }
    let bare = Contraction::bare(c.dtype, c.precision);
    super::tiles(&bare, &ContractionGeometry::bare(g.clone()), written, compiler)
}

/// A product that a library computes; `None` where none does.
fn library(c: &Contraction, geometry: &MatmulGeometry, compiler: &Compiler) -> Option<Plan> {
    let launches = product::launches(c.dtype, c.precision, geometry)?;
    let (unit, workspace) = compiler.product(&launches.product)?;
    let mut plan = Plan { moved: traffic::product(geometry, c.dtype.size()), ..Plan::default() };
    plan.scratch.extend((workspace > 0).then_some(workspace));
    for [a, b, c] in launches.places {
        // Our right operand is the library's left side.
        let mut patches = vec![(0, Word::Operand(1, b)), (1, Word::Operand(0, a)), (2, Word::Operand(2, c))];
        patches.extend((workspace > 0).then_some((3, Word::Scratch(0, 0))));
        let words = vec![0; product::WORDS];
        plan.stages.push(Draft { unit: unit.clone(), grid: [1; 3], block: 1, shared: 0, words, patches });
    }
    needs(&mut plan, c.dtype, c.dtype, geometry);
    Some(plan)
}

/// Takes down the bytes that operands of a product must have.
pub fn needs(plan: &mut Plan, dtype: DType, written: DType, g: &MatmulGeometry) {
    for (o, reach) in g.reach.iter().enumerate() {
        plan.needs.extend(reach.map(|(_, high)| (o as u16, (high + 1) * dtype.size())));
    }
    let products: usize = g.batch.iter().map(|b| b.0).product();
    plan.needs.push((2, products * g.m * g.n * written.size()));
}

/// A product of one row, or of one column, as a kernel that folds: each result is the sum of a row of products, and
/// nothing is read twice. `None` in strict mode, whose sums are in the order of products, and for what has both.
fn folds(c: &Contraction, g: &MatmulGeometry, written: DType) -> Option<(Kernel, Geometry)> {
    let foldable = matches!(c.dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16 | DType::I32 | DType::I64);
    if g.m != 1 && g.n != 1 || !foldable || c.precision == Precision::Ordered || g.batch.len() + 3 > MAX_RANK {
        return None;
    }
    if g.k == 0 || g.batch.iter().any(|d| d.0 == 0) || g.m * g.n == 0 {
        return None;
    }
    // Rows are batches and the lines of the longer side; one factor is the same for all of these.
    let (lines, steps) = if g.m == 1 { (g.n, [0, g.b.2]) } else { (g.m, [g.a.1, 0]) };
    let mut extents: Vec<usize> = g.batch.iter().map(|d| d.0).collect();
    extents.extend([lines, g.k]);
    let matrix = if g.m == 1 { g.b.1 } else { g.a.2 };
    let step = if g.m == 1 { g.b.2 } else { g.a.1 };
    let along = matrix.unsigned_abs() <= step.unsigned_abs() || lines == 1;
    let orientation = if along { Orientation::Along } else { Orientation::Across };
    let kept = extents.len() - 1;
    let lane = if along { kept } else { kept - 1 };
    let at = |n: usize| {
        let mut strides = [0; MAX_RANK];
        let (base, term) = if n == 0 { (g.a.0, g.a.2) } else { (g.b.0, g.b.1) };
        for (s, d) in strides.iter_mut().zip(&g.batch) {
            *s = if n == 0 { d.1 } else { d.2 };
        }
        (strides[kept - 1], strides[kept]) = (steps[n], term);
        let distinct = extents.iter().zip(&strides).filter(|d| *d.1 != 0).map(|d| d.0).product();
        AccessGeometry { base, strides, map: None, reach: g.reach[n], distinct }
    };
    let sums = c.accumulator();
    let mut b = BodyBuilder::new(false);
    let mut accesses = vec![];
    let mut loads = [NodeId(0); 2];
    for (n, own) in loads.iter_mut().enumerate() {
        let geometry = at(n);
        let class = match geometry.strides[lane] {
            1 => AccessClass::Contiguous,
            0 => AccessClass::Uniform,
            _ => AccessClass::Strided,
        };
        let access = b.access(Access { operand: Some(n as u16), dtype: c.dtype, class, per_row: false });
        let load = b.node(Node::Load { access });
        *own = b.cast(load, sums);
        accesses.push(geometry);
    }
    let product = b.element(thalweg_ir::ElementOp::Mul, &loads);
    let sum = b.fold(Monoid::Sum, product);
    let result = b.cast(sum, written);
    let mut strides = [0; MAX_RANK];
    let mut step = 1;
    for d in (0..kept).rev() {
        strides[d] = step as isize;
        step *= extents[d];
    }
    let class = if along { AccessClass::Uniform } else { AccessClass::Contiguous };
    let access = b.access(Access { operand: Some(2), dtype: written, class, per_row: true });
    b.store(result, access);
    accesses.push(AccessGeometry { base: 0, strides, map: None, reach: Some((0, step - 1)), distinct: step });
    let geometry = Geometry::Rows(RowGeometry { extents, kept, accesses });
    Some((Kernel::Rows { body: b.finish(), orientation }, geometry))
}
