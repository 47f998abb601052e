//! Interface to a GPU: memory, compilation, launches in order.
//!
//! In: CUDA C++ and argument words. Out: work in the device's queues. A [`Driver`] is a device together with one of its
//! queues; [`Driver::on`] returns the same device with another one. Two implementations: the driver of a real GPU
//! ([`Cuda`]), and an emulator that runs the same sources on the host, thread by thread, so that everything above can
//! be tested without a GPU (`Emulated`). A third one only collects sources ([`Absent`]).
//!
//! * `absent`: no GPU; records what one would have compiled.
//! * `cublaslt`: NVIDIA's library of matrix products.
//! * `cuda`: NVIDIA's driver.
//! * `cufft`: NVIDIA's library of Fourier transforms.
//! * `cusolver`: NVIDIA's library of decompositions.
//! * `emulated` (feature `emulate`): sources compiled by g++ and run on the host.
//! * `functions`: libraries that are loaded at run time, as tables of functions.
//! * `nvrtc`: compilation of sources to machine code, for a GPU that need not be present.
//!
//! Always true: work in one queue runs in order, so memory that only this queue uses may be passed to its next user at
//! once. Work in different queues is unordered, except by [`Driver::after`].

mod absent;
mod cublaslt;
mod cuda;
mod cufft;
mod cusolver;
#[cfg(all(feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
mod emulated;
mod functions;
pub mod nvrtc;

#[cfg(all(feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
pub use emulated::{Emulated, moved};

pub use thalweg_gpu::Chip;

pub use absent::{Absent, joined, readable};
pub use cuda::Cuda;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use thalweg_gpu::Capabilities;
use thalweg_gpu::maps::{MAP_WORDS, TensorMap};
use thalweg_gpu::product::Product;
use thalweg_runtime::{Error, FourierKind};

/// Resources of a compiled function, as the driver reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of local memory per thread: spills, and arrays with computed indices.
    pub local: u32,
    /// Bytes of static shared memory.
    pub shared: u32,
    /// Bytes of workspace of a library's function, of which nothing else is known.
    pub workspace: Option<usize>,
}

/// A function on the device. `handle` is the driver's; `module` keeps its code loaded.
#[derive(Clone, Debug)]
pub struct Function {
    pub(crate) handle: usize,
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) module: Arc<dyn Module>,
    /// Resources of the function.
    pub info: FunctionInfo,
}

/// Loaded code, unloaded when dropped.
pub trait Module: Send + Sync + Debug {}

/// One launch: `function` has one parameter, a struct of `arguments.len()` 64-bit words by value.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel's function.
    pub function: Function,
    /// Number of blocks; y and z at most 65,535.
    pub grid: [u32; 3],
    /// Threads per block, along x.
    pub block: u32,
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
    /// Argument words.
    pub arguments: Vec<u64>,
    /// Programmatic dependent launch: whether blocks may start while the previous launch ends, since the function waits
    /// by itself (`begin` in the prelude).
    pub early: bool,
}

/// Batched Fourier transforms of contiguous lines, with complex numbers as interleaved pairs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lines {
    /// Kind of transform.
    pub kind: FourierKind,
    /// Whether elements are f64 instead of f32.
    pub double: bool,
    /// Samples per transform.
    pub n: usize,
    /// Number of lines.
    pub count: usize,
}

/// Routine of a library (cuSOLVER, cuBLAS) on a column-major matrix, with buffers `a` to `d` ([`RoutineBuffers`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Routine {
    /// `potrf`: the lower half of A into L of `A = L Lᵀ`. After a batched call the upper half is undefined.
    Cholesky {
        /// Number of rows and columns.
        n: usize,
    },
    /// `getrf`: A into L and U of `A = P L U`; b gets the row that each row was exchanged with, in order and counted
    /// from 1, as i32.
    Lu {
        /// Number of rows.
        m: usize,
        /// Number of columns.
        n: usize,
    },
    /// `getrs`: solves `A X = B`; A and b are results of [`Routine::Lu`], and B in c becomes X.
    Solve {
        /// Number of rows and columns of A.
        n: usize,
        /// Number of columns of B.
        columns: usize,
    },
    /// `geqrf`: A into R, with Householder reflectors below its diagonal and their factors in b.
    Qr {
        /// Number of rows.
        m: usize,
        /// Number of columns.
        n: usize,
    },
    /// `orgqr`: A and b, results of [`Routine::Qr`], into the first columns of the product of all reflectors.
    Reflections {
        /// Number of rows.
        m: usize,
        /// Number of columns of the product.
        columns: usize,
        /// Number of reflectors.
        k: usize,
    },
    /// `syevd`: the upper half of A into the eigenvectors, as columns, if requested; b gets the eigenvalues.
    Symmetric {
        /// Number of rows and columns.
        n: usize,
        /// Whether the eigenvectors are requested.
        vectors: bool,
    },
    /// `gesvdj`: b gets the singular values, c and d U and V; A is overwritten. Where U and V are not requested there
    /// is space for them nevertheless: U has as many columns as A, or in a batched call as A has rows.
    Singular {
        /// Number of rows, at least that of columns.
        m: usize,
        /// Number of columns, and of those of V.
        n: usize,
        /// Number of columns of U: 0, the number of singular values, or the number of rows.
        left: usize,
    },
    /// `trsm`: solves `X A = B`, or `X Aᵀ = B`; B in c, with `columns` rows, becomes X.
    Triangular {
        /// Number of rows and columns of A.
        n: usize,
        /// Number of rows of B.
        columns: usize,
        /// Whether the upper half of A is read, instead of the lower.
        upper: bool,
        /// Whether A is transposed.
        transposed: bool,
        /// Whether A has a unit diagonal.
        unit: bool,
    },
}

/// A routine over a batch of matrices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Matrices {
    /// Routine for each matrix.
    pub routine: Routine,
    /// Whether elements are f64 instead of f32.
    pub double: bool,
    /// Number of matrices.
    pub count: usize,
    /// Whether the matrices are small, and one batched call takes all.
    pub batched: bool,
}

/// Buffer of a routine, for all matrices of a batch.
#[derive(Clone, Copy, Default, Debug)]
pub struct BatchBuffer {
    /// Address of the first matrix' part.
    pub at: u64,
    /// Bytes from one matrix' part to the next.
    pub step: usize,
    /// Address of a list of the addresses of all parts, for batched calls.
    pub list: u64,
}

/// Buffers of a routine.
#[derive(Clone, Copy, Default, Debug)]
pub struct RoutineBuffers {
    /// Matrix A.
    pub a: BatchBuffer,
    /// Operand b, see [`Routine`].
    pub b: BatchBuffer,
    /// Operand c, see [`Routine`].
    pub c: BatchBuffer,
    /// Operand d, see [`Routine`].
    pub d: BatchBuffer,
    /// Address of the library's status of each matrix: an i32, 0 for success.
    pub infos: u64,
    /// Address of the workspace, of the size that [`Driver::routine`] returns.
    pub work: u64,
}

/// A CUDA graph: several launches that are submitted as one.
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

    /// Whether the device has reached it.
    ///
    /// # Errors
    /// When the device fails.
    fn has_happened(&self) -> Result<bool, Error>;

    /// Nanoseconds on the device from an earlier event to this one; waits for this one. Both are [`Driver::event`]s.
    ///
    /// # Errors
    /// When the device fails.
    fn since(&self, earlier: &dyn Event) -> Result<f64, Error>;

    /// The driver's handle, for `since`.
    fn handle(&self) -> usize;
}

/// Returns the capabilities of a chip of compute capability `sm` (90 for 9.0).
pub(crate) fn capabilities(sm: u32) -> Capabilities {
    // Only sm_90 has wgmma.
    Capabilities { warp_matrix: sm >= 80, warpgroup_matrix: sm == 90, tensor_maps: sm >= 90 }
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

    /// Driver with its version; `None` where launches compute nothing, and take no time.
    fn version(&self) -> Option<String>;

    /// Allocates memory for work that is submitted to the queue from now on, aligned to 256 bytes; `None` when there is
    /// none.
    fn obtain(&self, bytes: usize) -> Option<u64>;

    /// Frees memory after all work in the queue has run.
    fn release(&self, address: u64);

    /// Compiles CUDA C++ to machine code for this chip. May be called on any thread.
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's messages.
    fn compile(&self, source: &str) -> Result<Vec<u8>, Error>;

    /// Loads machine code of [`Driver::compile`] and finds functions in it (`extern "C" __global__`).
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

    /// Returns a library's function that computes a product. Its words are the addresses of left side, right side,
    /// result and workspace; grid and block are ignored. The same product always gets the same function, and so the
    /// same bits. `None` where there is no such library, or it does not support the product, or computes it wrongly.
    fn product(&self, _product: &Product) -> Option<Function> {
        None
    }

    /// Bytes of workspace that a library needs for these transforms. `None` where there is no such library, or it does not
    /// compute them.
    fn transform(&self, _lines: &Lines) -> Option<usize> {
        None
    }

    /// Submits transforms that [`Driver::transform`] supports: addresses of the lines, of the results (the same where
    /// both are complex), and of the workspace. Results are not scaled. The input may be overwritten.
    ///
    /// # Errors
    /// When the device or the library refuses.
    fn run_transform(&self, lines: &Lines, _places: [u64; 3]) -> Result<(), Error> {
        Err(Error::Device { device: self.chip().name.clone(), message: format!("there is no library for {lines:?}") })
    }

    /// Bytes of workspace that a library needs for this routine. `None` where there is no such library, or it does not
    /// support these sizes.
    fn routine(&self, _of: &Matrices) -> Option<usize> {
        None
    }

    /// Submits a routine that [`Driver::routine`] supports. The inner error is the library's reason not to run it; the
    /// caller may use another implementation then.
    ///
    /// # Errors
    /// When the device refuses.
    fn run_routine(&self, of: &Matrices, _places: &RoutineBuffers) -> Result<Result<(), String>, Error> {
        Ok(Err(format!("there is no library for {of:?}")))
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

    /// Waits for all work in all queues.
    ///
    /// # Errors
    /// When the device failed.
    fn synchronize(&self) -> Result<(), Error>;
}
