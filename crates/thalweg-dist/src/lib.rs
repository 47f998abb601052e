//! Collectives on [`thalweg`]'s tensors: programs that compute on several threads, processes or hosts.
//!
//! - [`World`]: the ranks that compute together, as threads of a process or as processes.
//! - Collectives are methods of [`World`]: `all_reduce`, `all_gather`, `reduce_scatter`, `broadcast`, `all_to_all`,
//!   `send`, `receive`, `barrier`. They are recorded like any operation, and have gradients.
//! - [`DataParallel`]: training in which each rank computes the gradients of its part of every batch.
//! - [`ShardedOptimizer`]: an optimizer whose state is divided among the ranks (ZeRO-1).
//!
//! ```
//! use thalweg_dist::{DataParallel, World};
//! use thalweg_nn::optim::Sgd;
//! use thalweg_nn::prelude::*;
//!
//! let losses = World::local(2, |world| {
//!     manual_seed(world.rank() as u64);
//!     let mut model = Linear::new(3, 1);
//!     let parallel = DataParallel::new(&world);
//!     parallel.broadcast(&mut model)?;
//!     let (x, y) = (Tensor::randn([8, 3]), Tensor::randn([8, 1]));
//!     let loss = model.forward(&x).mse_loss(&y, Reduction::Mean);
//!     let mut gradients = loss.backward();
//!     parallel.average(&model, &mut gradients);
//!     parallel.step(&mut Sgd::new(0.1), &mut model, &gradients);
//!     loss.item::<f32>()
//! })?;
//! assert_eq!(losses.len(), 2);
//! # Ok::<(), Error>(())
//! ```

mod buckets;
mod collectives;
mod data_parallel;
mod device;
mod engine;
mod environment;
mod member;
mod reduce;
mod rendezvous;
mod sharded;
mod traffic;
mod watch;
mod world;

pub use data_parallel::DataParallel;
pub use reduce::ReduceOp;
pub use sharded::ShardedOptimizer;
pub use traffic::{Traffic, TrafficTable};
pub use world::{World, WorldOptions};

/// Runs the examples in docs/distributed.md as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/distributed.md")]
struct Documents;
