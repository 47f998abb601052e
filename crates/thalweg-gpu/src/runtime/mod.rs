//! Runtime of a GPU, without its vendor: launches in queues, memory, faults, and compilation of sources.
//!
//! In: plans of launches ([`crate::Plan`]), a [`Driver`], and a [`Printer`] of kernels in the driver's language. Out:
//! work in the device's queues, in an order that respects every use of memory.
//!
//! * `driver`: the interface that a backend implements. `libraries`, `ranks`: its vendor's libraries.
//! * `printer`: kernels as source text. `compiler`: their functions, cached. `ending`: a process that ends meanwhile.
//! * `launch`: kernels bound to functions. `batch`, `queue`: launches of a run in order, as a graph where that pays.
//! * `queues`, `order`: the queue that work goes into, and waits between queues. `memory`: the pool's blocks.
//! * `faults`: reports of indices out of range. `communication`: transfers between the GPUs of several ranks.
//!
//! Nothing here names a vendor: vendor-specific behaviour is behind the driver's interface.

mod batch;
mod communication;
mod compiler;
mod driver;
mod ending;
mod faults;
mod launch;
mod libraries;
mod memory;
mod order;
mod printer;
mod queue;
mod queues;
mod ranks;

pub use communication::communication;
pub use compiler::{Compiler, Unit};
pub use driver::{Driver, Event, Function, FunctionInfo, Graph, Launch, Module};
pub use ending::register as wait_at_exit;
pub use launch::{Bound, Written};
pub use libraries::{BatchBuffer, Libraries, Lines, Matrices, Routine, RoutineBuffers};
pub use memory::DeviceMemory;
pub use order::{COLLECTIVES, MEMORY, Order, TO_DEVICE};
pub use printer::{Printer, Source};
pub use queue::Queue;
pub use queues::Queues;
pub use ranks::{RankLibrary, Ranks};
