//! Unfused GEMM as a row kernel: each element of the result is a row that folds its terms. For chips without tiles
//! ([`crate::Capabilities::tiles`]).
//!
//! In: a product of operands in memory. Out: a plan of a [`Kernel::Rows`] over `[batch…, m, n, k]`. Neighbouring threads
//! have neighbouring columns, which read one element of the left operand and neighbours of the right one; elements that
//! several rows read come from the caches. Example: `[64, 96]` by `[96, 32]` is 2,048 rows of 96 terms.

use crate::kernels;
use crate::kernels::plan::Plan;
use crate::target::Target;
use thalweg_ir::{DType, ElementOp, MAX_RANK, Monoid};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, BodyBuilder, Contraction, Geometry, Kernel, MatmulGeometry, Node, Orientation,
    Precision, RowGeometry,
};
use thalweg_runtime::Error;

/// Plans a product; operands: left, right, result. Sums are stored in dtype `written`.
///
/// # Errors
/// [`Error::Compile`] for products whose terms must be added in order, and for those of too many batch dimensions.
pub fn plan(c: &Contraction, p: &MatmulGeometry, written: DType, target: &dyn Target) -> Result<Plan, Error> {
    let refused = |message: &str| Error::Compile { device: target.device().into(), message: message.into() };
    if c.precision == Precision::Ordered {
        return Err(refused("a matrix product has no strict mode there"));
    }
    let extents: Vec<usize> = p.batch.iter().map(|d| d.0).chain([p.m, p.n, p.k]).collect();
    if extents.len() > MAX_RANK {
        return Err(refused("a matrix product has too many batch dimensions"));
    }
    let kept = extents.len() - 1;
    // Strides of the result in batch dimensions, row-major.
    let inner = |d: usize| extents[d + 1..kept].iter().product::<usize>() as isize;
    let of_batch = |n: usize| p.batch.iter().map(move |d| if n == 0 { d.1 } else { d.2 });
    let left: Vec<isize> = of_batch(0).chain([p.a.1, 0, p.a.2]).collect();
    let right: Vec<isize> = of_batch(1).chain([0, p.b.2, p.b.1]).collect();
    let result: Vec<isize> = (0..kept).map(inner).chain([0]).collect();
    // Lanes are along the dimension in which the right operand is contiguous, if it is.
    let along = p.n == 1 || p.b.1.unsigned_abs() < p.b.2.unsigned_abs();
    let lane = if along { kept } else { kept - 1 };
    let mut builder = BodyBuilder::new(false);
    let mut accesses = vec![];
    let mut access = |b: &mut BodyBuilder, (operand, dtype): (u16, DType), base: isize, steps: &[isize], reach| {
        let mut strides = [0; MAX_RANK];
        strides[..steps.len()].copy_from_slice(steps);
        let distinct = extents.iter().zip(steps).filter(|(_, s)| **s != 0).map(|(e, _)| e).product();
        accesses.push(AccessGeometry { base, strides, map: None, reach, distinct });
        let (class, per_row) = (AccessClass::of_step(steps[lane]), operand == 2);
        b.access(Access { operand: Some(operand), dtype, class, per_row })
    };
    let sides = [(0, p.a.0, &left, p.reach[0]), (1, p.b.0, &right, p.reach[1])];
    let factors = sides.map(|(n, base, steps, reach)| {
        let access = access(&mut builder, (n, c.dtype), base, steps, reach);
        let loaded = builder.node(Node::Load { access });
        builder.cast(loaded, c.accumulator())
    });
    let product = builder.element(ElementOp::Mul, &factors);
    let sum = builder.fold(Monoid::Sum, product);
    let sum = builder.cast(sum, written);
    let last = extents[..kept].iter().product::<usize>().checked_sub(1);
    let to = access(&mut builder, (2, written), 0, &result, last.map(|last| (0, last)));
    builder.store(sum, to);
    let orientation = if along { Orientation::InnerAxis } else { Orientation::OuterAxis };
    let kernel = Kernel::Rows { body: builder.finish(), orientation };
    let geometry = RowGeometry { extents, kept, accesses };
    kernels::plan(&kernel, &Geometry::Rows(geometry), target)
}
