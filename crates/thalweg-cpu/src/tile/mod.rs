//! The portable tile engine: runs any body on any machine.
//!
//! In: a [`Body`](thalweg_kernel::Body). Out: a [`TileProgram`], which computes rows of its domain a tile of 512 points
//! at a time, or, of a row body, an [`AlongTile`], which does so phase by phase. Every node is one pass of a
//! precompiled loop over the tile (the choice of operation is outside the loop; the compiler vectorises the inside),
//! tiles stay in the first-level cache and are reused by liveness. It is the engine of machines without an emitter, the
//! slow path of the emitter's kernels, and the second opinion in tests: results are what the operation table says,
//! `math`'s polynomials included. It refuses nothing and hands nothing back: where a run of it fails, an index is out
//! of range.

mod along;
mod call;
mod casts;
mod compile;
mod counted;
mod floats;
mod folds;
mod ints;
mod lanes;
mod looped;
mod moves;
mod program;
mod quotients;
mod run;
#[cfg(test)]
mod tests;

pub use along::{AlongTile, compile_along};
pub(crate) use compile::folder;
pub use compile::{compile, compile_with};
pub(crate) use counted::note;
pub use counted::{Counted, counted};
pub use program::TileProgram;
