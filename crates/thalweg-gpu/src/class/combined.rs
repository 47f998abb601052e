//! Folds and scans of rows of scratch memory by combines of the user's own.

use thalweg_ir::Loop;
use thalweg_kernel::Along;

/// What decides the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CombinedClass {
    /// The combine.
    pub of: Loop,
    /// What becomes of a row.
    pub along: Along,
}

/// Threads of a block: whole segments.
pub const BLOCK: u32 = 256;

/// Levels of a scan at most: elements, the last ones of segments, the last ones of segments of these, …
pub const LEVELS: usize = 11;

impl CombinedClass {
    /// Components of an element.
    pub fn components(&self) -> usize {
        self.of.region().args.len()
    }

    /// Words: the components' addresses; those of the results of a fold, or of the memory of a scan; points of a row, the
    /// steps from row to row and from point to point, elements of a row in the memory of a scan.
    pub fn words(&self) -> usize {
        2 * self.components() + 4
    }
}
