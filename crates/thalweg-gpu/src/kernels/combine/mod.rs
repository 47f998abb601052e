//! Folds and scans of rows of scratch memory by user-defined combines.

pub mod emit;
pub mod params;
pub(crate) mod select;

use thalweg_ir::Loop;
use thalweg_kernel::Along;

/// Class key of a combined kernel: the properties that decide its source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CombineClass {
    /// User-defined combine.
    pub of: Loop,
    /// Mode of the combine: fold or scan.
    pub along: Along,
}

/// Threads per block. Each block processes whole segments of rows.
pub const BLOCK: u32 = 256;

/// Maximum number of levels of a scan: elements, the last elements of segments, the last of segments of these, …
pub const LEVELS: usize = 11;

impl CombineClass {
    /// Number of components (tensors) that an element consists of.
    pub fn components(&self) -> usize {
        self.of.region().args.len()
    }
}
