//! The language of Thalweg: dtypes, shapes, views, scalars, and the operations that a stream records.
//!
//! This crate runs nothing. What an elementwise operation means, costs and differentiates to is one
//! row of one table ([`element::ROWS`]), and how many values become one is a row of another
//! ([`monoid::MONOIDS`]); everything else that can stand in a stream is a variant of [`Op`].

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

pub use dtype::{Compute, DType, FloatInfo};
pub use element::ElementOp;
pub use foreign::{Foreign, ForeignLaunch, ForeignSource};
pub use monoid::{Monoid, ReduceOp};
pub use op::{
    Arg, COMPONENT, InputKind, Op, REVERSE, RandomKind, RelArg, RelOp, ScanOp, ScatterOp, pack_order, unpack_order,
};
pub use region::{First, Loop, MAX_ARGS, Region, RegionNode};
pub use scalar::Scalar;
pub use shape::{MAX_RANK, Shape};
pub use view::View;
