//! Interface to a GPU: memory, compilation, launches in order.
//!
//! In: source and argument words. Out: work in the device's queues. A [`Driver`] is a device together with one of its
//! queues; [`Driver::on`] returns the same device with another one. A backend implements it: for its real GPU, and for
//! one that tests emulate.
//!
//! Always true: work in one queue runs in order, so memory that only this queue uses may be passed to its next user at
//! once. Work in different queues is unordered, except by [`Driver::after`].

use super::libraries::Libraries;
use super::ranks::RankLibrary;
use crate::maps::{MAP_WORDS, TensorMap};
use crate::product::Product;
use crate::target::Chip;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use thalweg_ir::Convolution;
use thalweg_runtime::Error;

/// Resources of a compiled function, as the driver reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Number of registers per thread.
    pub registers: u32,
    /// Bytes of local memory per thread: spills, and arrays with computed indices.
    pub local: u32,
    /// Bytes of static shared memory.
    pub shared: u32,
    /// Bytes of workspace of a library's function, of which nothing else is known.
    pub workspace: Option<usize>,
}

/// Compiled function, loaded on the device.
#[derive(Clone, Debug)]
pub struct Function {
    /// Handle of the function, as the driver defines it.
    pub handle: usize,
    /// Module with the function's code, which stays loaded as long as this reference exists.
    pub module: Arc<dyn Module>,
    /// Resources of the function.
    pub info: FunctionInfo,
}

/// Loaded code, unloaded when dropped.
pub trait Module: Send + Sync + Debug {}

/// Kernel launch. The function has one parameter, a struct of `arguments.len()` 64-bit words by value.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Function that the launch runs.
    pub function: Function,
    /// Number of blocks; y and z at most 65,535.
    pub grid: [u32; 3],
    /// Threads per block, along x.
    pub block: u32,
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
    /// 64-bit words of the kernel arguments.
    pub arguments: Vec<u64>,
    /// Programmatic dependent launch: whether blocks may start while the previous launch ends, since the function waits
    /// by itself.
    pub early: bool,
}

/// Several launches that are submitted as one: a CUDA graph.
pub trait Graph: Send + Sync + Debug {
    /// Submits the launches in order, with other arguments and grids where `launches` differ from the last run.
    /// Functions, blocks and number of launches are those of its creation.
    ///
    /// # Errors
    /// When the device fails.
    fn run(&mut self, launches: &[Launch]) -> Result<(), Error>;
}

/// An event: a point in a queue.
pub trait Event: Send + Sync + Debug {
    /// Waits until the device has reached it.
    ///
    /// # Errors
    /// When the device fails.
    fn wait(&self) -> Result<(), Error>;

    /// Whether the device has reached the event.
    ///
    /// # Errors
    /// When the device fails.
    fn has_happened(&self) -> Result<bool, Error>;

    /// Nanoseconds on the device from an earlier event to this one; waits for this one. Both are [`Driver::event`]s.
    ///
    /// # Errors
    /// When the device fails.
    fn since(&self, earlier: &dyn Event) -> Result<f64, Error>;

    /// Handle of the event as the driver defines it, for `since`.
    fn handle(&self) -> usize;
}

/// A GPU and one of its queues. Methods may be called on any thread, several at once.
pub trait Driver: Any + Send + Sync + Debug {
    /// Returns the same GPU with another queue.
    ///
    /// # Panics
    /// When `queue` is not below [`thalweg_runtime::QUEUES`].
    fn on(&self, queue: usize) -> Arc<dyn Driver>;

    /// Properties of the chip.
    fn chip(&self) -> &Chip;

    /// Whether work may go into several queues. If not, all of it goes into the first one.
    fn has_queues(&self) -> bool {
        true
    }

    /// Whether launches that are repeated often are submitted as graphs.
    fn has_graphs(&self) -> bool {
        true
    }

    /// Name of the driver with its version; `None` where launches compute nothing, and take no time.
    fn version(&self) -> Option<String>;

    /// Allocates memory for work that is submitted to the queue from now on, aligned to 256 bytes; `None` when there is
    /// none.
    fn obtain(&self, bytes: usize) -> Option<u64>;

    /// Frees memory after all work in the queue has run.
    fn release(&self, address: u64);

    /// Compiles source, in the driver's language, to machine code for this chip. May be called on any thread.
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's messages.
    fn compile(&self, source: &str) -> Result<Vec<u8>, Error>;

    /// Loads machine code of [`Driver::compile`] and finds functions in it.
    ///
    /// # Errors
    /// When the driver refuses.
    fn load(&self, image: &[u8], functions: &[&str]) -> Result<Vec<Function>, Error>;

    /// Maximum number of resident blocks of a function on a multiprocessor.
    fn occupancy(&self, function: &Function, block: u32, shared: u32) -> u32;

    /// Submits a launch.
    ///
    /// # Errors
    /// When the device refuses, or an earlier launch failed.
    fn launch(&self, launch: &Launch) -> Result<(), Error>;

    /// Returns a library's function that computes a product. Its argument words are the addresses of left operand,
    /// right operand, result and workspace; grid and block are ignored. The same product always gets the same function,
    /// and so the same bits. `None` where there is no such library, or it does not support the product, or computes it
    /// wrongly.
    fn product(&self, _product: &Product) -> Option<Function> {
        None
    }

    /// Returns a library's function that computes a convolution. Its argument words are the addresses of both operands,
    /// the result and the workspace; grid and block are ignored. The same convolution always gets the same function.
    /// `None` where there is no such library, or it does not support the convolution.
    fn convolution(&self, _convolution: &Convolution) -> Option<Function> {
        None
    }

    /// Libraries of Fourier transforms and decompositions; `None` if there are none.
    fn libraries(&self) -> Option<&dyn Libraries> {
        None
    }

    /// Library of transfers between ranks, in this queue.
    ///
    /// # Errors
    /// When there is none, with what to install.
    fn ranks(&self) -> Result<Arc<dyn RankLibrary>, String> {
        Err("the driver has no library of collectives".into())
    }

    /// Encodes the tensor map of a tensor, without its address. `None` where the chip has no TMA, or cannot encode this
    /// one.
    fn map(&self, _map: &TensorMap) -> Option<[u64; MAP_WORDS]> {
        None
    }

    /// Sets the address, a multiple of 16, in a tensor map of [`Driver::map`] among the words of a launch.
    fn place(&self, _map: &mut [u64], _address: u64) {}

    /// Creates a graph of launches.
    ///
    /// # Errors
    /// When the device refuses.
    fn graph(&self, launches: &[Launch]) -> Result<Box<dyn Graph>, Error>;

    /// Submits an assertion that 64-bit words are 0. If one is not, the context ends with an error, and nothing that is
    /// submitted later runs. `false` where there are no assertions; then nothing happened.
    ///
    /// # Errors
    /// When the device refuses.
    fn assert_zero(&self, _address: u64, _words: usize) -> Result<bool, Error> {
        Ok(false)
    }

    /// Submits a fill with bytes of that value.
    ///
    /// # Errors
    /// When the device refuses.
    fn fill(&self, address: u64, value: u8, bytes: usize) -> Result<(), Error>;

    /// Copies to the device, in the queue's order; `bytes` may be reused when it returns (through pinned staging).
    ///
    /// # Errors
    /// When the device fails.
    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Copies several spans to the device, one after the other ([`Driver::write`]).
    ///
    /// # Errors
    /// When the device fails.
    fn write_all(&self, address: u64, spans: &[&[u8]]) -> Result<(), Error> {
        let mut at = address;
        spans.iter().try_for_each(|bytes| {
            self.write(at, bytes)?;
            at += bytes.len() as u64;
            Ok(())
        })
    }

    /// Copies from the device after all work in the queue, and waits for the copy (but not for work that is submitted
    /// later).
    ///
    /// # Errors
    /// When the device fails, now or in an earlier launch.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error>;

    /// Copies within the device, in the queue's order; the ranges do not overlap.
    ///
    /// # Errors
    /// When the device refuses.
    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error>;

    /// Copies from another GPU to this one, in the order of this queue and not of the other's; directly where the chips
    /// support it. `None` where the drivers are of different kinds, and nothing was done.
    fn copy_from(&self, other: &dyn Driver, from: u64, to: u64, bytes: usize) -> Option<Result<(), Error>> {
        let _ = (other, from, to, bytes);
        None
    }

    /// Records an event at the current end of the queue.
    ///
    /// # Errors
    /// When the device refuses.
    fn event(&self) -> Result<Box<dyn Event>, Error>;

    /// Records an event without a timestamp, which is cheaper to wait for.
    ///
    /// # Errors
    /// When the device refuses.
    fn point(&self) -> Result<Box<dyn Event>, Error> {
        self.event()
    }

    /// Makes later work of the queue wait for an event, which may be of another queue. The host does not wait, and the
    /// event may be dropped afterwards.
    ///
    /// # Errors
    /// When the device refuses.
    fn after(&self, event: &dyn Event) -> Result<(), Error>;

    /// Event after all work that another library has submitted to a stream of its own. `stream` is the driver's handle of
    /// the stream, 0 for the default stream of the context. `None` where other libraries have no streams.
    ///
    /// # Errors
    /// When the device refuses.
    fn stream_event(&self, stream: usize) -> Result<Option<Box<dyn Event>>, Error> {
        let _ = stream;
        Ok(None)
    }

    /// Makes later work of another library's stream, as in [`Driver::stream_event`], wait for all work of the queue. The
    /// host does not wait.
    ///
    /// # Errors
    /// When the device refuses.
    fn before_stream(&self, stream: usize) -> Result<(), Error> {
        let _ = stream;
        Ok(())
    }

    /// Waits for all work in all queues.
    ///
    /// # Errors
    /// When the device failed.
    fn synchronize(&self) -> Result<(), Error>;
}
