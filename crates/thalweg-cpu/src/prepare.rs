//! What both engines make of a body before they compile it.
//!
//! They do the same here, so that a kernel gives the same bits whichever engine runs it: the emitter may refuse a fused kernel whose operations
//! it takes one by one.

use crate::math;
use thalweg_ir::{Compute, DType, ElementOp};
use thalweg_kernel::{Body, expand, reciprocals, widen};

/// The body without narrow arithmetic and with only the operations that the engines have code for.
pub(crate) fn prepare(body: &Body) -> Body {
    expand(&reciprocals(&widen(body)), &native)
}

/// Whether the engines take an operation as it is; others are opened into simpler ones where they can be.
fn native(op: ElementOp, dtype: DType) -> bool {
    op.row().expand.is_none()
        || match dtype.compute() {
            Compute::F32 => math::has_f32(op),
            Compute::F64 => math::has_f64(op),
            _ => false,
        }
}
