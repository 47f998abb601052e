//! Sorts of the indices of a scatter by the place that they name.

/// Bits of a digit.
pub const BITS: u32 = 8;

/// Values of a digit, and threads of a block.
pub const DIGITS: u32 = 1 << BITS;

/// Pairs of a thread.
pub const EACH: u32 = 8;

/// Words before those of the dimensions: addresses of what is sorted and of the result, of counts and of totals;
/// indices of a row; places; tiles of a row; the digit's lowest bit; the stride of the indices; the fault.
pub const HEAD: usize = 10;

/// What a launch of a sort does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SortStep {
    /// Counts the digits of each tile.
    Count,
    /// Sums the counts of a digit over the tiles.
    Offsets,
    /// Moves pairs to where their digits are.
    Move,
}

/// What decides the source of a launch of a sort.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SortClass {
    /// What it does.
    pub step: SortStep,
    /// The dimensions of rows where it reads the indices themselves; none where it reads pairs.
    pub dims: Option<u8>,
}
