//! Neural networks on [`thalweg`]: modules, optimizers, data loading and checkpoints, all in plain tensor code.
//!
//! The planner knows nothing of layers. A layer records the operations of its formula, and these fuse with the
//! operations before and after it.
//!
//! - [`Module`]: holds named tensors. `#[derive(Module)]` implements it for a struct.
//! - Layers have PyTorch's names, layouts and initialization, so that weight files load unchanged: [`Linear`],
//!   convolutions, normalizations, [`Embedding`], attention, recurrent layers, positional encodings.
//! - [`init`]: initialization of weights.
//! - [`optim`]: optimizers, schedules, gradient clipping, averages of weights.
//! - [`Checkpoint`]: a training run in one file, resumed to the same bits.
//! - [`data`]: datasets, batches, worker threads.

extern crate self as thalweg_nn;

mod checkpoint;
pub mod data;
pub mod init;
mod layers;
mod leaf;
mod mode;
mod module;
pub mod optim;
pub mod prelude;
mod state;

pub use checkpoint::Checkpoint;
pub use layers::*;
pub use mode::Mode;
pub use module::{Buffer, Kind, Module, NamePath, Slot};
pub use state::{LoadReport, StateDict};
pub use thalweg::{self, Tensor};
pub use thalweg_macros::Module;

/// Runs the examples in the README, in docs/training.md and in the guide's chapter on fine-tuning as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/training.md")]
#[doc = include_str!("../../../docs/guide/12-fine-tuning.md")]
struct Documents;
