//! Operations with the user's own source.

pub mod params;
pub(crate) mod select;

use thalweg_ir::Foreign;

/// Class key of a foreign kernel: the properties that decide its source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ForeignClass {
    /// Operation with the user's source.
    pub of: Foreign,
    /// Block dimensions, in threads.
    pub block: [u32; 3],
}
