//! Properties of a chip, and the interface of the device that lowering plans for.

use crate::maps::{MAP_WORDS, TensorMap};
use crate::product::Product;
use thalweg_ir::{Convolution, DType, ElementOp};

/// Number of 32-bit counters of a queue that are 0 between launches ([`crate::RuntimeArgument::Counters`]).
pub const COUNTERS: usize = 1 << 16;

/// Maximum number of co-resident blocks of a launch that may wait for one another.
pub const MAX_CORESIDENT_BLOCKS: usize = 16;

/// Instructions of a chip beyond arithmetic of single threads. Kernel families ask for these, never for a chip's version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Matrix multiplication by a warp: bf16, f16 and TF32 operands in registers (`mma.sync`).
    pub warp_matrix: bool,
    /// Matrix multiplication by a warpgroup: bf16 and f16 operands in shared memory (`wgmma`).
    pub warpgroup_matrix: bool,
    /// Copies of boxes of a tensor to shared memory, by a tensor map (TMA).
    pub tensor_maps: bool,
    /// Exchange between blocks of a launch: a block sees what another one has written before a fence, and co-resident
    /// blocks make progress. Chained scans, radix sorts and online folds need it; split rows and split-K take two
    /// launches without it.
    pub exchange: bool,
    /// Synchronization of a warp's threads without the rest of their block. Where there is none, all threads of a block
    /// take part in a shuffle.
    pub warps: bool,
    /// Scans of rows in registers. Where there are none, rows are scanned in scratch memory.
    pub held_scans: bool,
    /// Asynchronous copies from global to shared memory (`cp.async`). Where there are none, tiled GEMMs copy through
    /// registers.
    pub async_copies: bool,
    /// Shared memory whose size a launch requests: histograms.
    pub dynamic_shared: bool,
    /// Arguments at computed offsets, which launches of several kernels or problems have (horizontal fusion).
    pub groups: bool,
    /// Atomic updates of 64-bit integers and of f64.
    pub wide_atomics: bool,
}

/// Properties of a chip.
#[derive(Clone, Debug, PartialEq)]
pub struct Chip {
    /// Name of the chip, for people.
    pub name: String,
    /// Version of the instruction set, for the compiler and for people: compute capability 9.0 is 90.
    pub sm: u32,
    /// Instructions that kernels may use.
    pub capabilities: Capabilities,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Resident threads of a multiprocessor.
    pub threads: u32,
    /// Registers of a multiprocessor.
    pub registers: u32,
    /// Bytes of shared memory that a block may request.
    pub shared: u32,
    /// Bytes of the second-level cache.
    pub l2: usize,
    /// Bytes of memory.
    pub memory: usize,
    /// Peak memory bandwidth in bytes a nanosecond: memory clock by bus width.
    pub bandwidth: f64,
    /// Maximum clock of a multiprocessor, in cycles a nanosecond.
    pub clock: f64,
    /// Maximum bytes of a launch's arguments.
    pub arguments: usize,
    /// Number of fault slots that are allocated at a time. A launch that may meet an out-of-range index takes one,
    /// until its result is checked.
    pub faults: usize,
    /// Compiler with its version: part of the key under which machine code is cached.
    pub compiler: String,
}

impl Chip {
    /// Maximum number of blocks of a launch that may wait for one another, each alone on a multiprocessor if need be.
    /// An eighth of the multiprocessors: if eight such launches have all begun and none is complete, the first of them
    /// still finds free multiprocessors.
    pub fn coresident_blocks(&self) -> usize {
        (self.multiprocessors as usize / 8).clamp(1, MAX_CORESIDENT_BLOCKS)
    }
}

/// Device that lowering plans for.
pub trait Target {
    /// Name of the device, for errors.
    fn device(&self) -> &str;

    /// Properties of the chip.
    fn chip(&self) -> &Chip;

    /// Whether the device has code for an operation on arguments of that dtype. Other operations are expanded into
    /// simpler ones ([`thalweg_kernel::expand`]).
    fn is_native(&self, op: ElementOp, dtype: DType) -> bool;

    /// Returns the tensor map by which the chip copies boxes of a tensor (TMA); `None` where it cannot.
    fn map(&self, map: &TensorMap) -> Option<[u64; MAP_WORDS]>;

    /// Bytes of workspace of a library's GEMM; `None` where no library computes it.
    fn product(&self, product: &Product) -> Option<usize>;

    /// Bytes of workspace of a library's convolution; `None` where no library computes it.
    fn convolution(&self, convolution: &Convolution) -> Option<usize>;
}
