//! Scatters: values put in at given places along an axis.

use thalweg_ir::{DType, ScatterOp};

/// Words before those of the dimensions: addresses of tensor, index, values, result; lines; indices of a line; elements
/// of a line; strides along the axis of the four; the fault; sorted indices, or the latest ones; what a thread's number is divided by (two
/// words); threads; whether threads side by side have lines side by side.
pub const HEAD: usize = 17;

/// Words of a dimension: what it is divided by (two words), its strides in tensor, index, values, result and sorted
/// indices.
pub const EACH: usize = 7;

/// Threads of a block.
pub const BLOCK: u32 = 128;

/// What a launch does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// Copies the tensor.
    Copy,
    /// Puts the values of a line in, a thread each.
    Lines(ScatterOp),
    /// Puts the values that meet an element in, a thread each.
    Runs(ScatterOp),
    /// Puts each value in by an atomic operation.
    AtOnce(ScatterOp),
    /// Sets what is known of the latest indices to 0.
    Clear,
    /// Finds the number of the last index that names an element, plus one.
    Latest,
    /// Puts the value of that one in, or copies the element where there is none.
    Take,
}

/// What decides the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScatterClass {
    /// What the launch does.
    pub way: Way,
    /// Of tensor, values, result.
    pub dtype: DType,
    /// Dimensions beside the axis.
    pub dims: u8,
    /// Whether threads are numbered by 64 bits.
    pub wide: bool,
    /// Lines of a thread that lie side by side and have their indices in common: what fills a vector, or one.
    pub lanes: u8,
}
