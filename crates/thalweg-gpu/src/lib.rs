//! GPU lowering, shared by all GPU backends: spreads a kernel over a chip for given sizes.
//!
//! In: a kernel, a geometry, and a [`Target`] that describes the chip. Out: a [`Plan`]: launches of [`Skeleton`]s with
//! their kernel arguments, and scratch memory. A backend's crate prints skeletons as source, and has a driver, on which
//! `runtime` runs the launches.
//!
//! * `target`: the chip's properties, and the device interface that lowering uses. `maps`, `product`: tensor maps (TMA
//!   descriptors) and GEMMs that a library computes.
//! * `kernels`: kernel families: class keys, kernel arguments, selection, programs. `emit`: statements that families share.
//! * `space`: the domain of a launch. `params`: kernel arguments, declared once. `operands`: addresses of operands.
//! * `ir`: programs. `dsl`: programs written by hand, in a small DSL.
//! * `runtime`: queues, memory, faults and compilation, over a driver.
//! * `body`: queries of bodies. `traffic`: bytes that launches move. `tunable`: thresholds of selection.

pub mod body;
mod dsl;
pub mod emit;
pub mod ir;
pub mod kernels;
pub mod maps;
pub mod operands;
pub mod params;
pub mod product;
pub mod runtime;
pub mod space;
pub mod target;
pub mod traffic;
pub mod tunable;

pub use kernels::plan::{Draft, Plan};
pub use kernels::{Skeleton, plan};
pub use params::RuntimeArgument;
pub use target::{Capabilities, Chip, Target};
