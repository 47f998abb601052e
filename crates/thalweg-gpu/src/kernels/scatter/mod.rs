//! Scatters: values written at given indices along an axis.

pub mod emit;
pub mod index_sort;
pub mod params;
pub(crate) mod select;

use thalweg_ir::{DType, ScatterOp};

/// Threads per block of every launch of a scatter.
pub const BLOCK: u32 = 128;

/// Task of one launch of a scatter, with the scatter's operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterStage {
    /// Scatters the values of a line in order, a thread per line.
    Lines(ScatterOp),
    /// Scatters all values of an element in order, in the thread of the element's first sorted index (indices of an
    /// element are a run of equal ones).
    Runs(ScatterOp),
    /// Like `Runs`, but runs are cut where the position among sorted indices is a multiple of the chunk length. The
    /// first chunk of a run is applied to the result, each later chunk to a partial result.
    Chunks(ScatterOp),
    /// Combines the result with the partial results of each run that `Chunks` cut, a warp per run.
    Join(ScatterOp),
    /// Scatters each value by an atomic operation.
    Atomic(ScatterOp),
    /// Adds by atomic operations, one for each run of neighbouring indices that refer to the same element: the threads
    /// of a warp add their values first.
    Aggregated,
    /// Fills the table of latest indices by an atomic maximum: for each element, the position of the last index that
    /// refers to the element, plus one.
    Latest,
    /// Stores to each element the value of its latest index. An element that no index refers to is copied from the
    /// tensor.
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
    /// Number of neighbouring lines per thread, which share their indices: as many as fill a vector, or 1.
    pub lanes: u8,
}
