//! Trait implemented by device crates.

use crate::{Allocation, Buffer, Communication, Decomposition, Error, Fourier, MemoryStats};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use thalweg_ir::{Convolution, View};
use thalweg_kernel::{Contracts, Geometry, Kernel, Machine, Moved, Residence};

/// Kernel compiled for one device. Can be launched with any sizes of its class.
pub trait Program: Send + Sync + Debug {
    /// Runs or enqueues the kernel. Operands are in the kernel's order. A written operand may share its buffer with a
    /// read one if the kernel reads each element before writing it; in a group, if the component that writes it does so
    /// and no other component reads it.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When an access of `geometry` reaches outside its operand, or geometry and kernel are of different kinds.
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error>;

    /// Bytes moved by a launch of this geometry, as the program executes it, including every pass, scratch memory and
    /// repeated reads. `in_place`: whether some output reuses the memory of an input. Called once per geometry; must
    /// not iterate over points.
    ///
    /// # Panics
    /// When geometry and kernel are of different kinds.
    fn moves(&self, geometry: &Geometry, in_place: bool) -> Moved;

    /// Bytes in use by memory that a launch of this geometry allocates from the device's pool and frees again
    /// ([`granted`](crate::granted)).
    ///
    /// # Panics
    /// When geometry and kernel are of different kinds.
    fn temporary(&self, geometry: &Geometry) -> usize {
        let _ = geometry;
        0
    }

    /// Properties of the compiled kernel, for explanations.
    fn info(&self) -> ProgramInfo;

    /// Use of the device's multiprocessors, if it has multiprocessors and the compiler reports their use; for several
    /// functions, that of the one with the lowest occupancy. Called by explanations only; may be expensive.
    fn residence(&self) -> Option<Residence> {
        None
    }

    /// Whether inputs of operand number `operand` may be read again after it was written, so that it cannot reuse the
    /// memory of an input.
    fn rereads_for(&self, operand: usize) -> bool {
        let _ = operand;
        self.info().rereads_inputs
    }
}

/// Properties of a compiled kernel.
#[derive(Clone, Debug, Default)]
pub struct ProgramInfo {
    /// Engine that executes the kernel: "avx512", "avx2", "tile", "nvrtc sm_90", …
    pub engine: String,
    /// Size of the machine code in bytes.
    pub code_bytes: usize,
    /// Nanoseconds that compilation took.
    pub compile_ns: u64,
    /// Number of values spilled from registers, if the compiler reports it.
    pub spills: Option<usize>,
    /// Whether a launch may read its inputs again after writing its outputs, so that outputs cannot reuse the memory of
    /// inputs (a fast path that passes rare elements to a slow one).
    pub rereads_inputs: bool,
}

/// Throughput of a device that executes launches asynchronously: the planner's estimates until it is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throughput {
    /// Memory bandwidth in bytes per nanosecond.
    pub memory: f64,
    /// Bandwidth of the shared cache in bytes per nanosecond.
    pub cache: f64,
    /// Capacity of the shared cache in bytes.
    pub cache_bytes: usize,
    /// Number of f32 additions per nanosecond.
    pub additions: f64,
    /// Launch overhead in nanoseconds.
    pub launch: f64,
}

/// Pending checks of launches that may have found an index out of range or an unsuitable matrix.
pub trait Check: Send + Sync + Debug {
    /// Waits for the launches and returns failed checks in launch order.
    ///
    /// # Errors
    /// When the device fails.
    fn outcome(&self) -> Result<Vec<FailedCheck>, Error>;

    /// Enqueues an assertion behind the launches: if a check fails, the device ends with an error before it runs what is
    /// enqueued later, and computes nothing more in this process. The host does not wait, and the check counts as
    /// passed. `false` where the device cannot, or a check is known to have failed; then nothing happened.
    ///
    /// # Errors
    /// When the device fails.
    fn assert(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Whether a failure of the check is also reported to all other ranks that have received values computed from the
    /// checked ones.
    fn is_shared(&self) -> bool {
        false
    }
}

/// Failed check of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedCheck {
    /// Index of the launch in its batch.
    pub launch: usize,
    /// Word written by the launch, not 0. For a decomposition, an [`Unfit::word`](crate::Unfit::word).
    pub word: u64,
}

/// Device time of launches.
pub trait Timing: Send + Sync + Debug {
    /// Nanoseconds from before the first launch to the end of the last one; `None` while they have not finished.
    ///
    /// # Errors
    /// When the device fails.
    fn elapsed(&self) -> Result<Option<u64>, Error>;
}

/// Results of a batch of launches.
#[derive(Debug, Default)]
pub struct Batch {
    /// Pending checks, if an index may be out of range or a matrix unsuitable. The launches have not been waited for.
    pub check: Option<Arc<dyn Check>>,
    /// Device time of the batch, if requested and supported by the device.
    pub timing: Option<Arc<dyn Timing>>,
}

/// Device: allocates memory, compiles programs, and runs them.
pub trait Device: Any + Send + Sync + Debug {
    /// Name of the device as in `THALWEG_DEVICE`: "cpu", "cuda:0".
    fn name(&self) -> &str;

    /// Description: name of the chip, instruction set in use.
    fn describe(&self) -> String;

    /// Description of the hardware and software to which measurements apply, independent of device number and process:
    /// chip, compiler, driver. `None` if nothing can be measured.
    fn identity(&self) -> Option<String> {
        Some(format!("{}, {}", self.name(), self.describe()))
    }

    /// Maximum number of threads for a launch, if the device runs on CPU threads.
    fn threads(&self) -> usize {
        1
    }

    /// Machine facts that determine how programs cut kernels; the planner counts calls and strips by them.
    fn machine(&self) -> Machine {
        if self.throughput().is_some() { Machine::gpu() } else { Machine::default() }
    }

    /// Supported fusion with matrix products ([`Kernel::Contraction`] with bodies); other such kernels are never passed
    /// to the device.
    fn contracts(&self) -> Contracts {
        Contracts::Bare
    }

    /// Whether a library of the device computes a convolution, so that it may be recorded as a foreign operation.
    fn convolves(&self, convolution: &Convolution) -> bool {
        let _ = convolution;
        false
    }

    /// Throughput, if launches are asynchronous, so that the host's clock cannot time them. `None` if launches have
    /// finished when they return.
    fn throughput(&self) -> Option<Throughput> {
        None
    }

    /// Allocates at least `bytes` bytes, uninitialised, aligned to 64.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn allocate(&self, bytes: usize) -> Result<Buffer, Error>;

    /// Allocates memory and copies bytes of the host to it, one range after the other, like [`Device::allocate`] and
    /// [`Device::write`]. Devices with asynchronous copies choose memory for which the copy need not wait. The bytes
    /// may change when this returns.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], and when the device fails.
    fn allocate_with(&self, spans: &[&[u8]]) -> Result<Buffer, Error> {
        let buffer = self.allocate(spans.iter().map(|s| s.len()).sum())?;
        let mut at = 0;
        for bytes in spans {
            self.write(&Allocation::part(&buffer, at, bytes.len()), bytes)?;
            at += bytes.len();
        }
        Ok(buffer)
    }

    /// Allocates memory and copies the first bytes of a buffer on another device to it, without passing through the
    /// host. `None` if the devices cannot; then nothing happened.
    fn allocate_from(&self, other: &dyn Device, buffer: &Buffer, bytes: usize) -> Option<Result<Buffer, Error>> {
        let _ = (other, buffer, bytes);
        None
    }

    /// Program of a kernel: from the device's program cache, or compiled now.
    ///
    /// # Errors
    /// [`Error::Compile`].
    fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>, Error>;

    /// Programs of kernels, each for launches of one geometry only. Devices that specialize for sizes do so here, and
    /// compile several kernels concurrently.
    ///
    /// # Errors
    /// [`Error::Compile`].
    fn prepare(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Arc<dyn Program>>, Error> {
        launches.iter().map(|(kernel, _)| self.program(kernel)).collect()
    }

    /// Programs of such launches that are available without waiting for a compiler: code that is emitted in
    /// microseconds or was compiled before, or an existing program that can execute the launch, if more slowly. Loads
    /// entries of the disk cache. Results agree with those of programs from [`Device::prepare`] except for the last
    /// place, and in strict mode exactly.
    ///
    /// # Errors
    /// [`Error::Compile`].
    fn at_once(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Option<Arc<dyn Program>>>, Error> {
        Ok(self.prepare(launches)?.into_iter().map(Some).collect())
    }

    /// Number of compilations, of milliseconds each, that [`Device::prepare`] would wait for; 0 on devices that emit
    /// code in microseconds. Loads entries of the disk cache.
    fn uncompiled(&self, launches: &[(&Kernel, &Geometry)]) -> usize {
        let _ = launches;
        0
    }

    /// Called before background threads call [`Device::prepare`]. Prepares for process exit while a compiler is
    /// running.
    fn compile_in_background(&self) {}

    /// Calls `run`, which allocates and launches programs of this device; everything is enqueued when it returns. The
    /// device may buffer the launches until then; other threads that use the queue wait. `key` identifies a sequence of
    /// programs: equal keys mean the same programs in the same order. Without a key each launch is enqueued separately.
    /// `timed` requests its duration by the device's clock.
    ///
    /// # Errors
    /// Errors of `run`, and when the device fails.
    fn batch(&self, key: Option<u64>, timed: bool, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Batch, Error> {
        let _ = (key, timed);
        run().map(|()| Batch::default())
    }

    /// Calls `run`, which enqueues launches, and measures their duration by the device's clock, from the preceding
    /// queue contents to the last launch: at least as long as enqueueing takes, if the queue was empty. `None` if
    /// launches have finished when `run` returns, so that the host's clock can be used.
    ///
    /// # Errors
    /// Errors of `run`, and when the device fails.
    fn clocked(&self, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Option<Arc<dyn Timing>>, Error> {
        run().map(|()| None)
    }

    /// Enqueues a Fourier transform by a library of the device, from the components in `x`, laid out by their views, to
    /// the start of `y`, row-major. A real side has one component. `None` if there is no such library, it does not
    /// support this transform, or there is not enough workspace; then nothing happened.
    fn fourier(&self, of: &Fourier, x: &[(&Buffer, &View)], y: &[&Buffer]) -> Option<Result<(), Error>> {
        let _ = (of, x, y);
        None
    }

    /// Enqueues decompositions by a library of the device, from the matrices in `x`, `[.., rows, columns]` laid out by
    /// their views, to the start of `y`, row-major. The returned check must be queried before results are used; its
    /// word is an [`Unfit`](crate::Unfit). `None` if there is no such library, it does not support this decomposition,
    /// or there is not enough workspace; then nothing happened.
    fn decompose(&self, of: &Decomposition, x: &[(&Buffer, &View)], y: &[&Buffer]) -> Option<Result<Batch, Error>> {
        let _ = (of, x, y);
        None
    }

    /// Library that moves data between this device and those of other ranks.
    ///
    /// # Errors
    /// When there is none, with what to install.
    fn communication(&self) -> Result<Arc<dyn Communication>, Error> {
        Err(Error::Device { device: self.name().into(), message: "it has no library of collectives".into() })
    }

    /// Copies bytes from the host to the start of a buffer.
    ///
    /// # Errors
    /// When the device fails.
    fn write(&self, buffer: &Buffer, bytes: &[u8]) -> Result<(), Error>;

    /// Announces a read of a buffer all of whose writes are enqueued: a later read need not wait for launches enqueued
    /// in between.
    fn will_read(&self, buffer: &Buffer) {
        let _ = buffer;
    }

    /// Copies a buffer's first bytes to the host, after everything enqueued before.
    ///
    /// # Errors
    /// When the device fails.
    fn read(&self, buffer: &Buffer, bytes: &mut [u8]) -> Result<(), Error>;

    /// Makes everything that the calling thread enqueues later, and all later copies and allocations, wait for the work
    /// that another library has enqueued in a stream of its own on this device. `stream` is the driver's handle, such
    /// as a `CUstream`. The host does not wait. Does nothing on devices whose work has finished when a call returns.
    ///
    /// # Errors
    /// When the device fails.
    fn after_stream(&self, stream: usize) -> Result<(), Error> {
        let _ = stream;
        Ok(())
    }

    /// Makes everything that another library enqueues later in its stream wait for what the calling thread has enqueued,
    /// as [`Device::after_stream`] in the other direction.
    ///
    /// # Errors
    /// When the device fails.
    fn before_stream(&self, stream: usize) -> Result<(), Error> {
        let _ = stream;
        Ok(())
    }

    /// Waits until everything enqueued has finished.
    ///
    /// # Errors
    /// When the device fails.
    fn synchronize(&self) -> Result<(), Error>;

    /// Statistics of the memory pool.
    fn memory(&self) -> MemoryStats;

    /// Resets [`MemoryStats::peak`] to the bytes in use.
    fn reset_peak(&self);

    /// Sets [`MemoryStats::limit`], the maximum bytes in use in buffers. Existing buffers are not affected.
    fn set_memory_limit(&self, bytes: Option<usize>);

    /// Direct view of the buffer's bytes; `None` on devices with separate memory. The caller must ensure that nobody
    /// writes them while the slice is alive.
    fn host_bytes<'a>(&self, buffer: &'a Buffer) -> Option<&'a [u8]>;

    /// Mutable view of the bytes of a newly allocated buffer, set to zero, for direct writes by the host. `None` on
    /// devices with separate memory and if the buffer is shared.
    fn zeroed_bytes<'a>(&self, buffer: &'a mut Buffer) -> Option<&'a mut [u8]> {
        let _ = buffer;
        None
    }
}
