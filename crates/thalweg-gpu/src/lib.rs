//! GPU lowering, shared by all GPU backends: spreads a kernel over a chip for given sizes.
//!
//! In: a kernel, a geometry, and a [`Target`] that describes the chip. Out: a [`Plan`]: launches of [`Skeleton`]s with
//! their kernel arguments, and scratch memory. Nothing here prints source or knows a driver: a device's own crate
//! generates code from skeletons and runs launches.
//!
//! * `target`: the chip's properties, and what lowering asks of its device. `maps`, `product`: tensor maps (TMA
//!   descriptors) and GEMMs that a library computes.
//! * `space`: the domain of a launch. `class`: what decides a kernel's code, and the layout of its argument words.
//! * `skeleton`: all kinds of kernels.
//! * `text`: programs that are written by hand.
//! * `plan`: launches. `lower`: plans from kernels. `traffic`: what launches move. `tunable`: thresholds of all of these.

pub mod class;
pub mod ir;
mod lower;
pub mod maps;
pub mod plan;
pub mod product;
pub mod skeleton;
pub mod space;
pub mod target;
mod text;
pub mod traffic;
pub mod tunable;
pub mod write;

pub use lower::{operands, plan};
pub use plan::{Draft, Plan, Word};
pub use skeleton::Skeleton;
pub use target::{Chip, Target};
