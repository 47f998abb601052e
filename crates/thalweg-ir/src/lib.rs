//! Program representation of Thalweg: dtypes, shapes, views, scalars, and the operations that a stream records.
//!
//! This crate executes nothing. The meaning, cost and derivative of an elementwise operation are one row of a table
//! ([`element::ROWS`]); monoids are rows of another one ([`monoid::MONOIDS`]); all other recorded operations are
//! variants of [`Op`].

mod convolution;
mod dtype;
pub mod element;
mod foreign;
mod interned;
pub mod monoid;
mod op;
mod region;
mod scalar;
mod shape;
pub mod tunable;
mod view;

pub use convolution::{Convolution, ConvolutionAxis, ConvolutionPass, ConvolutionRoutine, ConvolutionTensor, MAX_AXES};
pub use dtype::{Compute, DType, FloatInfo, to_odd};
pub use element::ElementOp;
pub use foreign::{Foreign, ForeignCode, ForeignLaunch, ForeignSource};
pub use monoid::{Monoid, ReduceOp};
pub use op::{
    Arg, COMPONENT, DiscreteChoice, InputKind, IntArgs, Op, OpClass, OpInfo, REVERSE, RandomKind, RelArg, RelOp,
    Rounding, ScanOp, ScatterOp, UNROLLED, pack_order, unpack_order,
};
pub use region::{First, Loop, MAX_ARGS, Region, RegionNode};
pub use scalar::Scalar;
pub use shape::{MAX_RANK, Shape};
pub use view::View;
