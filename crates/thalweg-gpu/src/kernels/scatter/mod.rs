//! Scatters: values written at given indices along an axis.

pub mod emit;
pub mod index_sort;
pub mod params;
pub(crate) mod select;

use thalweg_ir::{DType, ScatterOp};

/// Threads per block.
pub const BLOCK: u32 = 128;

/// Task of a launch, and its operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterStage {
    /// Copies the tensor.
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
    /// Clears the table of the latest indices.
    Clear,
    /// Finds the position of the last index that refers to an element, plus one, by an atomic maximum.
    Latest,
    /// Stores the value of that last index, or copies the element where there is none.
    Take,
}

/// Class key: the properties that decide the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScatterClass {
    /// Task of the launch.
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
