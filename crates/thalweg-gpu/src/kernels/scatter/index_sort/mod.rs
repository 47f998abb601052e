//! Radix sorts of the indices of a scatter by their destination element.

pub mod emit;
pub mod params;
pub(crate) mod select;

/// Number of bits of a digit, and so of the element index per pass.
pub const BITS: u32 = 8;

/// Number of digit values, and threads per block.
pub const DIGITS: u32 = 1 << BITS;

/// Number of sorted pairs (destination element, position of the index) per thread; a tile has `EACH * DIGITS` pairs.
pub const EACH: u32 = 8;

/// Step of a radix pass, a launch of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SortStep {
    /// Counts the pairs of each digit in each tile.
    Count,
    /// Sums the counts of each digit over the tiles, to offsets.
    Offsets,
    /// Moves the pairs of each tile to the offsets of their digits.
    Move,
}

/// Class key of one launch of a sort: the properties that decide its source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexSortClass {
    /// Step that the launch runs.
    pub step: SortStep,
    /// Number of row dimensions, if the launch reads the indices themselves; `None` if it reads pairs of an earlier
    /// pass.
    pub dims: Option<u8>,
}
