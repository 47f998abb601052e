//! Common imports: `use thalweg::prelude::*;`.
//!
//! Holds [`Tensor`] and the types of its methods' arguments and results, [`Error`], [`kernel`](macro@crate::kernel) and
//! the types of its parameters.

pub use crate::kernel::{Edge, Field, Real, Row};
pub use crate::{
    Attention, Border, By, ClassLoss, Conv, ConvTranspose, DType, Data, Device, Element, Error, Generator, Histogram,
    Interpolation, IntoOperand, Pool, Reduction, Scalar, ScatterOp, Shape, SliceArg, Tensor, kernel, manual_seed,
};
