//! The trait that a device crate implements.

use crate::{Allocation, Buffer, Decomposition, Error, Fourier, MemoryStats};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use thalweg_ir::View;
use thalweg_kernel::{Contracts, Geometry, Kernel, Moved, Residence};

/// A kernel compiled for one device, ready to launch with any sizes of its class.
pub trait Program: Send + Sync + Debug {
    /// Runs, or puts in the device's queue. Operands in the order of the kernel; an operand that is written may be the
    /// same buffer as one that is read, where the kernel reads each element before it writes it; in a group, where that
    /// part of it does, and no other part reads it.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When an access of `geometry` reaches outside its operand, or geometry and kernel are of different kinds.
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error>;

    /// What a launch of that geometry moves, as this program runs it: every pass, scratch and repeated reads included.
    /// `in_place` says whether some output takes the place of an input. It is asked for once a geometry, and passes
    /// over no points.
    ///
    /// # Panics
    /// When geometry and kernel are of different kinds.
    fn moves(&self, geometry: &Geometry, in_place: bool) -> Moved;

    /// What was compiled, for explanations.
    fn info(&self) -> ProgramInfo;

    /// What it takes of the device's multiprocessors, where it has such and the compiler says: of several functions
    /// that of the one that leaves most idle. Asked for by explanations; not for free.
    fn residence(&self) -> Option<Residence> {
        None
    }

    /// Whether what operand number `operand` is computed from may have to be read again after it was written, so that
    /// it may not take the place of an input.
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

/// What a device gives that runs launches on its own, while the host goes on: what the planner counts with where
/// nothing was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throughput {
    /// Bytes a nanosecond from and to memory.
    pub memory: f64,
    /// Bytes a nanosecond where everything stays in the cache that all share.
    pub cache: f64,
    /// Bytes of that cache.
    pub cache_bytes: usize,
    /// Additions of f32 a nanosecond.
    pub additions: f64,
    /// Nanoseconds from launch to launch.
    pub launch: f64,
}

/// What launches leave behind that may have met an index out of range, or a matrix that does not do.
pub trait Check: Send + Sync + Debug {
    /// Waits for the launches, and gives those that met such, in the order in which programs were launched.
    ///
    /// # Errors
    /// When the device fails.
    fn outcome(&self) -> Result<Vec<Found>, Error>;
}

/// What a launch met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The program's number in its batch.
    pub launch: usize,
    /// What it left: not 0. Of a decomposition as [`Unfit::word`](crate::Unfit::word).
    pub word: u64,
}

/// How long launches took on the device.
pub trait Timing: Send + Sync + Debug {
    /// Nanoseconds from before the first launch to the end of the last; `None` while the device has not come to it.
    ///
    /// # Errors
    /// When the device fails.
    fn elapsed(&self) -> Result<Option<u64>, Error>;
}

/// What comes back of a batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// Says whether an index was out of range, where one may have been: until then nobody has waited for the launches.
    pub check: Option<Arc<dyn Check>>,
    /// How long it took, where that was asked for and the device can tell.
    pub timing: Option<Arc<dyn Timing>>,
}

/// A device: memory, and programs that run on it.
pub trait Device: Any + Send + Sync + Debug {
    /// Its name as `THALWEG_DEVICE` takes it: "cpu", "cuda:0".
    fn name(&self) -> &str;

    /// What it is, for people: the chip's name, the instruction set in use.
    fn describe(&self) -> String;

    /// What anything measured of it holds for, in words, whatever its number and the process: the chip, what compiles for it, who
    /// drives it. `None` where nothing can be measured.
    fn identity(&self) -> Option<String> {
        Some(format!("{}, {}", self.name(), self.describe()))
    }

    /// How many threads a launch may be spread over, where the device runs on such.
    fn threads(&self) -> usize {
        1
    }

    /// What it has kernels for around matrix products ([`Kernel::Contraction`] with bodies); it is given no others.
    fn contracts(&self) -> Contracts {
        Contracts::Bare
    }

    /// What it gives, where launches run on their own: then the host's clock says nothing about them. `None` where a
    /// launch has run when it returns.
    fn throughput(&self) -> Option<Throughput> {
        None
    }

    /// Memory of at least that many bytes, uninitialised, aligned to 64.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn allocate(&self, bytes: usize) -> Result<Buffer, Error>;

    /// Memory with these bytes of the host, one stretch behind the other: [`Device::allocate`] and [`Device::write`]. A
    /// device that copies while it computes takes memory that the copy need not wait for. The bytes may change when this
    /// returns.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], and when the device fails.
    fn allocate_with(&self, stretches: &[&[u8]]) -> Result<Buffer, Error> {
        let buffer = self.allocate(stretches.iter().map(|s| s.len()).sum())?;
        let mut at = 0;
        for bytes in stretches {
            self.write(&Allocation::part(&buffer, at, bytes.len()), bytes)?;
            at += bytes.len();
        }
        Ok(buffer)
    }

    /// Memory with what the first bytes of a buffer on another device hold: without the host in between where the devices
    /// can, else `None`, and nothing was done.
    fn allocate_from(&self, other: &dyn Device, buffer: &Buffer, bytes: usize) -> Option<Result<Buffer, Error>> {
        let _ = (other, buffer, bytes);
        None
    }

    /// The program of a kernel: from the device's program cache, or compiled now.
    ///
    /// # Errors
    /// [`Error::Compile`].
    fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>, Error>;

    /// The programs of kernels for launches of that geometry each, and of no other. A device that compiles for sizes
    /// does so here, for several kernels at once.
    ///
    /// # Errors
    /// [`Error::Compile`].
    fn prepare(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Arc<dyn Program>>, Error> {
        launches.iter().map(|(kernel, _)| self.program(kernel)).collect()
    }

    /// The programs of such launches as far as nobody has to wait for a compiler: it emits code in microseconds, they
    /// were compiled before, or a program that is there can run them, if not as fast. What the disk cache holds is loaded
    /// now. A program has the results of that of [`Device::prepare`], which differ in the last place at most, and in
    /// strict mode not at all.
    ///
    /// # Errors
    /// [`Error::Compile`].
    fn at_once(&self, launches: &[(&Kernel, &Geometry)]) -> Result<Vec<Option<Arc<dyn Program>>>, Error> {
        Ok(self.prepare(launches)?.into_iter().map(Some).collect())
    }

    /// How many compilations [`Device::prepare`] would make somebody wait for, of milliseconds each; none on a device
    /// that emits code in microseconds. What the disk cache holds is loaded now.
    fn uncompiled(&self, launches: &[(&Kernel, &Geometry)]) -> usize {
        let _ = launches;
        0
    }

    /// Is called before other threads than those that wait for it call [`Device::prepare`]: what has to be, for the
    /// process to end in good order while a compiler works.
    fn compile_in_background(&self) {}

    /// Calls `run`, which allocates and launches programs of this device, and sees to it that everything is in the
    /// queue when it returns. The device may keep the launches back until then; other threads that want the queue wait.
    /// `key` is the same where the same programs are launched in the same order, and never used for others; without one
    /// each launch is put in the queue by itself. `timed` asks how long it takes, as the device's own clock says.
    ///
    /// # Errors
    /// What `run` gives, and when the device fails.
    fn batch(&self, key: Option<u64>, timed: bool, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Batch, Error> {
        let _ = (key, timed);
        run().map(|()| Batch::default())
    }

    /// Calls `run`, which puts launches in the queue, and tells how long they take by the device's own clock, from what
    /// was in the queue before to the last of them: at least as long as the host takes to put them there, where the
    /// queue was empty. `None` where launches have ended when `run` returns, so that the host's clock says it.
    ///
    /// # Errors
    /// What `run` gives, and when the device fails.
    fn clocked(&self, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Option<Arc<dyn Timing>>, Error> {
        run().map(|()| None)
    }

    /// Puts a Fourier transform in the queue, by a library of the device: of the parts in `x`, which lie as their views
    /// say, into the beginnings of `y`, row-major. A real side has one part. `None` where there is no such library, it does
    /// not compute this transform, or there is no memory for what it needs besides: then nothing was done.
    fn fourier(&self, of: &Fourier, x: &[(&Buffer, &View)], y: &[&Buffer]) -> Option<Result<(), Error>> {
        let _ = (of, x, y);
        None
    }

    /// Puts decompositions in the queue, by a library of the device: of the matrices in `x`, `[.., rows, columns]` as their
    /// views say, into the beginnings of `y`, row-major. What comes back is to be asked before a result is given to anybody:
    /// its word is an [`Unfit`](crate::Unfit). `None` where there is no such library, it does not compute this one, or there
    /// is no memory for what it needs besides: then nothing was done.
    fn decompose(&self, of: &Decomposition, x: &[(&Buffer, &View)], y: &[&Buffer]) -> Option<Result<Batch, Error>> {
        let _ = (of, x, y);
        None
    }

    /// Copies bytes from the host to the start of a buffer.
    ///
    /// # Errors
    /// When the device fails.
    fn write(&self, buffer: &Buffer, bytes: &[u8]) -> Result<(), Error>;

    /// Says that a buffer, in which everything that writes it is in the device's queue, is about to be read: a read that comes
    /// later need not wait for what is put in the queue meanwhile.
    fn will_read(&self, buffer: &Buffer) {
        let _ = buffer;
    }

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

    /// The bytes of a buffer that was just allocated, and that nobody else holds, all set to zero: for the host to write
    /// where the device will look for them. `None` on a device with memory of its own, and where somebody else holds the
    /// buffer.
    fn zeroed_bytes<'a>(&self, buffer: &'a mut Buffer) -> Option<&'a mut [u8]> {
        let _ = buffer;
        None
    }
}
