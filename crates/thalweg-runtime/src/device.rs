//! The trait that a device crate implements.

use crate::{Buffer, Error, MemoryStats};
use std::fmt::Debug;
use std::sync::Arc;
use thalweg_kernel::{Geometry, Kernel};

/// A kernel compiled for one device, ready to launch with any sizes of its class.
pub trait Program: Send + Sync + Debug {
    /// Runs, or puts in the device's queue. Operands in the order of the kernel; an operand that is written may be
    /// the same buffer as one that is read, where the kernel reads each element before it writes it; in a bundle, where that part of it does,
    /// and no other part reads it.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When an access of `geometry` reaches outside its operand, or geometry and kernel are of different kinds.
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error>;

    /// What was compiled, for explanations.
    fn info(&self) -> ProgramInfo;

    /// Whether what operand number `operand` is computed from may have to be read again after it was written, so that it may not take the place
    /// of an input.
    fn rereads_for(&self, operand: usize) -> bool {
        let _ = operand;
        self.info().rereads_inputs
    }
}

/// What a compiled kernel is like.
#[derive(Clone, Debug, Default)]
pub struct ProgramInfo {
    /// Who runs it: "avx512", "avx2", "tile", "nvrtc sm_90", …
    pub engine: String,
    /// Size of the machine code.
    pub code_bytes: usize,
    /// Time that compiling took.
    pub compile_ns: u64,
    /// Values spilled from registers, where the compiler says.
    pub spills: Option<usize>,
    /// Whether a launch may have to read its inputs again after it wrote its outputs, so that no output may take
    /// the place of an input (a fast path that hands rare elements to a slow one).
    pub rereads_inputs: bool,
}

/// A device: memory, and programs that run on it.
pub trait Device: Send + Sync + Debug {
    /// Its name as `THALWEG_DEVICE` takes it: "cpu", "cuda:0".
    fn name(&self) -> &str;

    /// What it is, for people: the chip's name, the instruction set in use.
    fn describe(&self) -> String;

    /// How many threads a launch may be spread over, where the device runs on such.
    fn threads(&self) -> usize {
        1
    }

    /// Memory of at least that many bytes, uninitialised, aligned to 64.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn allocate(&self, bytes: usize) -> Result<Buffer, Error>;

    /// The program of a kernel: from the device's memory of programs, or compiled now.
    ///
    /// # Errors
    /// [`Error::Compile`].
    fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>, Error>;

    /// The programs of kernels for launches of that geometry each, and of no other. A device that compiles for sizes does so here, for several kernels at once.
    ///
    /// # Errors
    /// [`Error::Compile`].
    fn prepare(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Arc<dyn Program>>, Error> {
        launches.iter().map(|(kernel, _)| self.program(kernel)).collect()
    }

    /// Waits for what was queued where an index may have been out of range in it, and says whether one was.
    ///
    /// # Errors
    /// When the device fails.
    fn check_indices(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Copies bytes from the host to the start of a buffer.
    ///
    /// # Errors
    /// When the device fails.
    fn write(&self, buffer: &Buffer, bytes: &[u8]) -> Result<(), Error>;

    /// Copies a buffer's first bytes to the host, after everything queued before.
    ///
    /// # Errors
    /// When the device fails.
    fn read(&self, buffer: &Buffer, bytes: &mut [u8]) -> Result<(), Error>;

    /// Returns when everything queued has run.
    ///
    /// # Errors
    /// When the device fails.
    fn synchronize(&self) -> Result<(), Error>;

    /// The memory pool's figures.
    fn memory(&self) -> MemoryStats;

    /// Sets [`MemoryStats::peak`] to what is in use now.
    fn reset_peak(&self);

    /// Bytes that may be in use in buffers at once: [`MemoryStats::limit`]. What is in use already stays.
    fn set_memory_limit(&self, bytes: Option<usize>);

    /// The buffer's bytes where the host can see them as they are; `None` on a device with memory of its own.
    /// What is written there by others while the slice lives would be seen: the caller makes sure nobody does.
    fn host_bytes<'a>(&self, buffer: &'a Buffer) -> Option<&'a [u8]>;
}
