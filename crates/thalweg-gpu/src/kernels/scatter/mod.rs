//! Scatters: values written at given indices along an axis.

pub mod emit;
pub mod index_sort;
pub mod params;
pub(crate) mod select;

use thalweg_ir::{DType, ScatterOp};

/// Threads per block of every launch of a scatter.
pub const BLOCK: u32 = 128;

/// Task of a launch of a scatter, with the operation that it applies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterStage {
    /// Copies the tensor to the result.
    Copy,
    /// Scatters the values of a line in order, a thread per line.
    Lines(ScatterOp),
    /// Scatters the values of one element in order, a thread per element with values (a run of sorted indices).
    Runs(ScatterOp),
    /// Like `Runs`, but runs are cut into chunks at multiples of a number of sorted indices. The first chunk of a run
    /// goes to the result, and each further one to a partial result.
    Chunks(ScatterOp),
    /// Combines the partial results of each run that was cut with the result, a warp per run.
    Join(ScatterOp),
    /// Scatters each value by an atomic operation.
    Atomic(ScatterOp),
    /// Zeroes the table of latest indices, which `Latest` fills.
    Clear,
    /// Fills the table of latest indices by an atomic maximum: for each element the position of the last index that
    /// refers to it, plus one.
    Latest,
    /// Stores to each element the value of its latest index, or copies it where no index refers to it.
    Take,
}

/// Class key of a launch of a scatter: the properties that decide the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScatterClass {
    /// Task of this launch.
    pub stage: ScatterStage,
    /// Dtype of tensor, values and result.
    pub dtype: DType,
    /// Number of dimensions besides the axis.
    pub dims: u8,
    /// Whether thread indices take 64 bits.
    pub wide: bool,
    /// Neighbouring lines per thread, which share their indices: as many as fill a vector, or one.
    pub lanes: u8,
}
