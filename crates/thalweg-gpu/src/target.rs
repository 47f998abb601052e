//! What a chip is like, and what lowering asks of its device.

use crate::maps::{MAP_WORDS, TensorMap};
use crate::product::Product;
use thalweg_ir::{DType, ElementOp};

/// Counters of a queue that are 0 between launches, of 32 bits ([`crate::Word::Counters`]).
pub const COUNTERS: usize = 1 << 16;

/// The most blocks of a launch that may wait for one another.
pub const COMPANY: usize = 16;

/// What a chip is like.
#[derive(Clone, Debug, PartialEq)]
pub struct Chip {
    /// Its name, for people.
    pub name: String,
    /// Compute capability: 90 for 9.0.
    pub sm: u32,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads that a multiprocessor holds.
    pub threads: u32,
    /// Registers of a multiprocessor.
    pub registers: u32,
    /// Bytes of shared memory that a block may ask for.
    pub shared: u32,
    /// Bytes of the second-level cache.
    pub l2: usize,
    /// Bytes of memory.
    pub memory: usize,
    /// Bytes a nanosecond that memory could give: its clock by its width.
    pub bandwidth: f64,
    /// Cycles a nanosecond of a multiprocessor, at most.
    pub clock: f64,
    /// Bytes that the argument of a launch may have.
    pub arguments: usize,
    /// Words, allocated at a time, in which launches report an index out of range: one for each launch that may meet one, until
    /// it is asked.
    pub faults: usize,
    /// Who compiles, with version: part of the key under which machine code is kept.
    pub compiler: String,
}

impl Chip {
    /// How many blocks of a launch may wait for one another, each alone on a multiprocessor if it has to be: so few that eight launches
    /// whose blocks do, all begun and none complete, leave multiprocessors to the first of them.
    pub fn company(&self) -> usize {
        (self.multiprocessors as usize / 8).clamp(1, COMPANY)
    }
}

/// What lowering asks of a device.
pub trait Target {
    /// The device's name, for errors.
    fn device(&self) -> &str;

    /// What the chip is like.
    fn chip(&self) -> &Chip;

    /// Whether the device has code for an operation on arguments of that dtype. What it has none for is opened into
    /// simpler operations ([`thalweg_kernel::expand`]).
    fn is_native(&self, op: ElementOp, dtype: DType) -> bool;

    /// The map of a tensor, by which the chip copies boxes of it; `None` where it does not.
    fn map(&self, map: &TensorMap) -> Option<[u64; MAP_WORDS]>;

    /// Bytes of workspace that a library's product takes; `None` where no library computes it.
    fn product(&self, product: &Product) -> Option<usize>;
}
