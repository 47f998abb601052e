//! Common imports: `use thalweg::prelude::*;`.

pub use crate::kernel::Real;
pub use crate::{
    Border, By, ClassLoss, DType, Data, Device, Element, Error, Generator, IntoOperand, Reduction, Scalar, ScatterOp,
    Shape, SliceArg, Tensor, kernel, manual_seed,
};
