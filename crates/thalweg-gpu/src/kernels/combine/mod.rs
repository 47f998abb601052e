//! Folds and scans of rows of scratch memory by user-defined combines.

pub mod emit;
pub(crate) mod select;

use thalweg_ir::Loop;
use thalweg_kernel::Along;

/// Class key of a combined kernel: the properties that decide its source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CombinedClass {
    /// The combine.
    pub of: Loop,
    /// Fold or scan.
    pub along: Along,
}

/// Threads per block. A block has whole segments.
pub const BLOCK: u32 = 256;

/// Maximum number of levels of a scan: elements, the last elements of segments, the last of segments of these, …
pub const LEVELS: usize = 11;

impl CombinedClass {
    /// Components of an element.
    pub fn components(&self) -> usize {
        self.of.region().args.len()
    }

    /// Number of argument words: the components' addresses; those of the results of a fold, or of a scan's scratch;
    /// points of a row, strides from row to row and from point to point, elements of a row in a scan's scratch.
    pub fn words(&self) -> usize {
        2 * self.components() + 4
    }
}
