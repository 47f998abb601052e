//! What the rest of the crate needs of a GPU: memory, compiled sources, launches in order.
//!
//! In: CUDA C++ and words of arguments. Out: work in the device's queues. A [`Driver`] is a device together with one of
//! its queues; [`Driver::on`] gives the same device with another. Two implementations: the driver of a real GPU
//! ([`Cuda`]), and one that runs the same sources on the host, thread by thread, so that everything above can be tested
//! where there is no GPU (`Emulated`). A third only collects sources ([`Absent`]).
//!
//! * `absent`: no GPU, and what one would have compiled.
//! * `cublaslt`: NVIDIA's library of matrix products.
//! * `cuda`: NVIDIA's driver.
//! * `cufft`: NVIDIA's library of Fourier transforms.
//! * `cusolver`: NVIDIA's library of decompositions.
//! * `emulated` (feature `emulate`): sources compiled by g++ and run on the host.
//! * `functions`: libraries that are found at run time, as tables of functions.
//! * `nvrtc`: sources to machine code, for a GPU that need not be there.
//!
//! Always true: what is put in one queue runs in order, so memory that only this queue uses may be given to its next user
//! at once. What is in different queues runs in any order, but for what [`Driver::after`] says.

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
use thalweg_gpu::maps::{MAP_WORDS, TensorMap};
use thalweg_gpu::product::Product;
use thalweg_runtime::{Error, FourierKind};

/// What the driver says of a compiled function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: what was spilled, and arrays with computed indices.
    pub local: u32,
    /// Bytes of shared memory fixed in the code.
    pub shared: u32,
    /// Of a library's function, of which nothing else is known: bytes of workspace that it is given.
    pub workspace: Option<usize>,
}

/// A function on the device. `handle` is the driver's; `module` keeps its code loaded.
#[derive(Clone, Debug)]
pub struct Function {
    pub(crate) handle: usize,
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) module: Arc<dyn Module>,
    /// What the driver says of it.
    pub info: FunctionInfo,
}

/// Loaded code, unloaded when dropped.
pub trait Module: Send + Sync + Debug {}

/// One launch: `function` has one parameter, a struct of `arguments.len()` 64-bit words by value.
#[derive(Clone, Debug)]
pub struct Launch {
    /// What runs.
    pub function: Function,
    /// Blocks; y and z at most 65,535.
    pub grid: [u32; 3],
    /// Threads of a block, along x.
    pub block: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// The words of the argument.
    pub arguments: Vec<u64>,
    /// Whether its blocks may come to the chip while the launch before it ends, since the function waits by itself
    /// (`begin` in the prelude).
    pub early: bool,
}

/// Fourier transforms of lines that lie one behind the other, the parts of complex numbers beside each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lines {
    /// What is transformed into what.
    pub kind: FourierKind,
    /// Whether in f64, and not in f32.
    pub double: bool,
    /// Samples of a transform.
    pub n: usize,
    /// Lines.
    pub count: usize,
}

/// What a library's routine makes of a matrix. Matrices are column-major.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Routine {
    /// `potrf`: the lower half of A into L of `A = L Lᵀ`. Of matrices that are taken together anything may be in the upper one then.
    Cholesky {
        /// Rows and columns.
        n: usize,
    },
    /// `getrf`: A into L and U of `A = P L U`, and in b the row that each row was exchanged with, one after the other and
    /// counted from 1, as i32.
    Lu {
        /// Rows.
        m: usize,
        /// Columns.
        n: usize,
    },
    /// `getrs`: A and b as [`Routine::Lu`] left them, and B in c into X of `A X = B`.
    Solve {
        /// Rows and columns of A.
        n: usize,
        /// Columns of B.
        columns: usize,
    },
    /// `geqrf`: A into R, and reflections below its diagonal, with their factors in b.
    Qr {
        /// Rows.
        m: usize,
        /// Columns.
        n: usize,
    },
    /// `orgqr`: A and b as [`Routine::Qr`] left them into the first columns of the product of all reflections.
    Reflections {
        /// Rows.
        m: usize,
        /// Columns of the product.
        columns: usize,
        /// Reflections.
        k: usize,
    },
    /// `syevd`: the upper half of A into the eigenvectors, as columns, if they are asked for; b is the eigenvalues.
    Symmetric {
        /// Rows and columns.
        n: usize,
        /// Whether the vectors are asked for.
        vectors: bool,
    },
    /// `gesvdj`: A into nothing; b is the singular values, c and d are U and V. Where these are not asked for there is room for
    /// them, of as many columns of U as there are of A, or, of matrices that are taken together, of rows.
    Singular {
        /// Rows, not fewer than columns.
        m: usize,
        /// Columns, and those of V.
        n: usize,
        /// Columns of U: none, as many as there are values, or as many as there are rows.
        left: usize,
    },
    /// `trsm`: B in c, of as many rows as `columns`, into X of `X A = B`, or of `X Aᵀ = B`.
    Triangular {
        /// Rows and columns of A.
        n: usize,
        /// Rows of B.
        columns: usize,
        /// Which half of A is read.
        upper: bool,
        /// Whether A is transposed.
        transposed: bool,
        /// Whether A's diagonal is ones.
        unit: bool,
    },
}

/// A routine over several matrices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Matrices {
    /// What is made of each.
    pub routine: Routine,
    /// Whether they are f64, and not f32.
    pub double: bool,
    /// How many.
    pub count: usize,
    /// Whether they are small, and taken together.
    pub batched: bool,
}

/// Where what a routine takes of each matrix lies.
#[derive(Clone, Copy, Default, Debug)]
pub struct Place {
    /// The address of the first matrix' part.
    pub at: u64,
    /// Bytes to the next one's.
    pub step: usize,
    /// The address of a list of the addresses of all, where they are taken together.
    pub list: u64,
}

/// Where everything lies that a routine takes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Places {
    /// A.
    pub a: Place,
    /// See [`Routine`].
    pub b: Place,
    /// See [`Routine`].
    pub c: Place,
    /// See [`Routine`].
    pub d: Place,
    /// What the library says of each matrix: an i32, 0 where all is well.
    pub infos: u64,
    /// As many bytes as [`Driver::routine`] says.
    pub work: u64,
}

/// Several launches that the device knows as one.
pub trait Graph: Send + Sync + Debug {
    /// Puts them in the queue, one after the other, with other arguments and grids where `launches` differ from the
    /// last time. Functions, blocks and number of launches are those it was made with.
    ///
    /// # Errors
    /// When the device fails.
    fn run(&mut self, launches: &[Launch]) -> Result<(), Error>;
}

/// A point in a queue.
pub trait Event: Send + Sync + Debug {
    /// Returns when the device has come to it.
    ///
    /// # Errors
    /// When the device fails.
    fn wait(&self) -> Result<(), Error>;

    /// Whether the device has come to it.
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

/// A GPU and one of its queues. Methods may be called on any thread, several at once.
pub trait Driver: Any + Send + Sync + Debug {
    /// The same GPU with the queue of that number.
    ///
    /// # Panics
    /// When there is none: from [`thalweg_runtime::QUEUES`] on.
    fn on(&self, queue: usize) -> Arc<dyn Driver>;

    /// What the chip is like.
    fn chip(&self) -> &Chip;

    /// Who drives it, with the version; `None` where launches compute nothing, and take no time.
    fn version(&self) -> Option<String>;

    /// Memory of that many bytes, aligned to 256, for what is put in the queue from now on; `None` when there is none.
    fn obtain(&self, bytes: usize) -> Option<u64>;

    /// Gives memory back, when everything in the queue has run.
    fn release(&self, address: u64);

    /// CUDA C++ to machine code for this chip. May be called on any thread.
    ///
    /// # Errors
    /// [`Error::Compile`] with what the compiler said.
    fn compile(&self, source: &str) -> Result<Vec<u8>, Error>;

    /// Loads machine code of [`Driver::compile`] and finds functions in it (`extern "C" __global__`).
    ///
    /// # Errors
    /// When the driver refuses.
    fn load(&self, image: &[u8], functions: &[&str]) -> Result<Vec<Function>, Error>;

    /// Blocks of that function that a multiprocessor holds at once.
    fn occupancy(&self, function: &Function, block: u32, shared: u32) -> u32;

    /// Puts a launch in the queue.
    ///
    /// # Errors
    /// When the device refuses, or an earlier launch failed.
    fn launch(&self, launch: &Launch) -> Result<(), Error>;

    /// A library's function that computes that product: its words are the addresses of left side, right side, result
    /// and workspace, grid and block do not matter. The same for the same product each time, and so are its bits.
    /// `None` where there is no such library, or it does not compute this product, or computes it wrongly.
    fn product(&self, _product: &Product) -> Option<Function> {
        None
    }

    /// Bytes of workspace that a library needs for these transforms. `None` where there is no such library, or it does not
    /// compute them.
    fn transform(&self, _lines: &Lines) -> Option<usize> {
        None
    }

    /// Puts transforms that [`Driver::transform`] knows in the queue: addresses of the lines, of the results (the same where
    /// both are complex), and of the workspace. Without a factor. What goes in may be written over.
    ///
    /// # Errors
    /// When the device or the library refuses.
    fn run_transform(&self, lines: &Lines, _places: [u64; 3]) -> Result<(), Error> {
        Err(Error::Device { device: self.chip().name.clone(), message: format!("there is no library for {lines:?}") })
    }

    /// Bytes of workspace that a library needs for this routine. `None` where there is no such library, or it does not have it
    /// for these sizes.
    fn routine(&self, _of: &Matrices) -> Option<usize> {
        None
    }

    /// Puts a routine that [`Driver::routine`] knows in the queue. What the library says that keeps it from that, where it
    /// does: then who asked may do without.
    ///
    /// # Errors
    /// When the device refuses.
    fn run_routine(&self, of: &Matrices, _places: &Places) -> Result<Result<(), String>, Error> {
        Ok(Err(format!("there is no library for {of:?}")))
    }

    /// A map of a tensor that begins at no address yet. `None` where the chip has no copies of boxes, or cannot make this
    /// one.
    fn map(&self, _map: &TensorMap) -> Option<[u64; MAP_WORDS]> {
        None
    }

    /// Sets the address of a map of [`Driver::map`], a multiple of 16: its words among those of a launch.
    fn place(&self, _map: &mut [u64], _address: u64) {}

    /// A graph of launches.
    ///
    /// # Errors
    /// When the device refuses.
    fn graph(&self, launches: &[Launch]) -> Result<Box<dyn Graph>, Error>;

    /// Puts a fill with bytes of that value in the queue.
    ///
    /// # Errors
    /// When the device refuses.
    fn fill(&self, address: u64, value: u8, bytes: usize) -> Result<(), Error>;

    /// Copies to the device, in the queue's order; `bytes` may be reused when it returns (through pinned staging).
    ///
    /// # Errors
    /// When the device fails.
    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error>;

    /// [`Driver::write`] of several stretches, one behind the other.
    ///
    /// # Errors
    /// When the device fails.
    fn write_all(&self, address: u64, stretches: &[&[u8]]) -> Result<(), Error> {
        let mut at = address;
        stretches.iter().try_for_each(|bytes| {
            self.write(at, bytes)?;
            at += bytes.len() as u64;
            Ok(())
        })
    }

    /// Copies from the device after everything in the queue, and waits for it (and for nothing put in the queue later).
    ///
    /// # Errors
    /// When the device fails, now or in an earlier launch.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error>;

    /// Copies within the device, in the queue's order; the ranges do not overlap.
    ///
    /// # Errors
    /// When the device refuses.
    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error>;

    /// Copies from another GPU to this one, in the order of this queue and not of the other's; the host has no part in it
    /// where the chips can. `None` where they are of different kinds, and nothing was done.
    fn copy_from(&self, other: &dyn Driver, from: u64, to: u64, bytes: usize) -> Option<Result<(), Error>> {
        let _ = (other, from, to, bytes);
        None
    }

    /// A point in the queue: here.
    ///
    /// # Errors
    /// When the device refuses.
    fn event(&self) -> Result<Box<dyn Event>, Error>;

    /// A point in the queue that does not tell the time, and is cheaper to wait for.
    ///
    /// # Errors
    /// When the device refuses.
    fn point(&self) -> Result<Box<dyn Event>, Error> {
        self.event()
    }

    /// Has what is put in the queue from now on run after an event, which may be of another queue. The host does not
    /// wait, and the event may be dropped then.
    ///
    /// # Errors
    /// When the device refuses.
    fn after(&self, event: &dyn Event) -> Result<(), Error>;

    /// Waits for everything in all queues.
    ///
    /// # Errors
    /// When the device failed.
    fn synchronize(&self) -> Result<(), Error>;
}
