//! Neural networks on [`thalweg`]: modules, optimisers, data and checkpoints, all in plain tensor code.
//!
//! Nothing here is known to the planner. A layer records the operations that its formula has, and they fuse with
//! whatever stands before and behind them.
//!
//! - [`Module`]: what holds tensors with names. `#[derive(Module)]` makes one of a struct.
//! - Layers have PyTorch's names, layouts and initialisation, so that files of its weights load as they are.
//!   [`Linear`], convolutions, normalisations, [`Embedding`], attention, recurrent networks, positions.
//! - [`init`]: how weights start.
//! - [`optim`]: optimisers, schedules, clipping, averages.
//! - [`Checkpoint`]: a training in one file, resumed to the bit.
//! - [`data`]: datasets, batches, threads that make them ahead.

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
pub use state::StateDict;
pub use thalweg::{self, Tensor};
pub use thalweg_macros::Module;

/// The examples in the README and in docs/training.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/training.md")]
struct Documents;
