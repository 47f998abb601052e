//! The portable tile engine: runs any body on any machine.
//!
//! In: a [`Body`](thalweg_kernel::Body). Out: a [`TileProgram`], which computes rows of its domain in tiles of 512
//! points, or, for a row body, a [`TileInnerReduction`], which does so phase by phase. Every node is one precompiled loop over
//! the tile (the operation is selected outside the loop; the compiler vectorises the inside). Tiles stay in the
//! first-level cache and are reused by liveness. It is the engine of machines without an emitter, the slow path of
//! emitted kernels, and the reference in tests: results are those of the operation table, including `math`'s
//! polynomials. It accepts every body and every rectangle; a run fails only if an index is out of range.

mod call;
mod casts;
mod compile;
mod counted;
mod floats;
mod folds;
mod inner_axis;
mod ints;
mod lanes;
mod looped;
mod moves;
mod program;
mod quotients;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use compile::folder;
pub use compile::{compile, compile_with};
pub(crate) use counted::note;
pub use counted::{Counted, counted};
pub use inner_axis::{TileInnerReduction, compile_inner_reduction};
pub use program::TileProgram;
