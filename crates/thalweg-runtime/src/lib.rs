//! Interface between plans and devices: the [`Device`] trait, [`Buffer`]s and their pool, errors, counters, traces, and
//! data that outlives a process ([`disk`]).
//!
//! A device crate implements [`Device`] and [`Program`]; nothing else of it is visible. Device memory is allocated by a
//! [`Pool`] over the device's own allocator, so that recycling and its statistics work alike on all devices.

mod backend;
mod communication;
mod counters;
mod decomposition;
mod device;
pub mod disk;
mod dump;
pub mod environment;
mod error;
mod fourier;
mod huge;
mod mapped;
mod pool;
pub mod trace;
mod uses;

pub use backend::Backend;
pub use communication::{Combine, Communication, Communicator, Completion, Span, Transfer};
pub use counters::{Counters, count, counters};
pub use decomposition::{Decomposition, DecompositionKind, Unfit};
pub use device::{Batch, Check, Device, FailedCheck, Program, ProgramInfo, Throughput, Timing};
pub use dump::dump;
pub use error::Error;
pub use fourier::{Fourier, FourierKind};
pub use huge::expect_to_fill;
pub use mapped::FileBytes;
pub use pool::{Allocation, Block, Buffer, Memory, MemoryStats, Pool, When, granted, limit_from_environment};
pub use uses::{Points, QUEUES, Uses};
