//! Radix sorts of the indices of a scatter by their destination element.

pub mod emit;
pub mod params;
pub(crate) mod select;

/// Bits of a digit.
pub const BITS: u32 = 8;

/// Number of digit values, and threads per block.
pub const DIGITS: u32 = 1 << BITS;

/// Number of pairs per thread.
pub const EACH: u32 = 8;

/// Step of a pass, a launch of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SortStep {
    /// Counts the digits of each tile.
    Count,
    /// Sums the counts of a digit over the tiles.
    Offsets,
    /// Moves pairs to the offsets of their digits.
    Move,
}

/// Class key of one launch of a sort: the properties that decide its source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexSortClass {
    /// Task of the launch.
    pub step: SortStep,
    /// Number of row dimensions where the launch reads the indices themselves; `None` where it reads pairs.
    pub dims: Option<u8>,
}
