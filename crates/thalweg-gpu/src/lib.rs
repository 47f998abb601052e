//! What all GPUs share: how a kernel is spread over a chip for the sizes at hand.
//!
//! In: a kernel and a geometry, and a [`Target`] that says what the chip is like. Out: a [`Plan`]: launches of
//! [`Skeleton`]s with the words of their arguments, and scratch memory. Nothing here is text or knows a driver: a
//! device's own crate makes code of skeletons, and runs launches.
//!
//! * `target`: what a chip is like, and what is asked of its device. `maps`, `product`: tensors that a chip copies by
//!   boxes, products that a library computes.
//! * `space`: the domain of a launch. `class`: what decides a kernel's code, and where the words of its argument are.
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
