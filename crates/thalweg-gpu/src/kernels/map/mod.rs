//! Maps: one result a point.

pub mod emit;
pub mod params;
pub(crate) mod select;

use crate::space::SpaceClass;

/// Threads per block of a map.
pub const BLOCK: u32 = 256;

/// Class key of a map kernel: the properties that decide its source, besides its body.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MapClass {
    /// Domain of the map: dimensions, lanes and addressing modes.
    pub space: SpaceClass,
    /// Number of vectors per thread.
    pub vectors: u8,
    /// The two-dimensional tile of a block, where blocks have one.
    pub tile: Option<Tile>,
}

/// A tile over the innermost and another dimension. A thread's vectors follow each other along the other one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// Index of the tile's other dimension, besides the innermost one.
    pub dim: u8,
    /// Threads along the other dimension, neighbours in a warp. The rest of the block is along the innermost one.
    pub depth: u8,
}

impl Tile {
    /// Extents of a tile: in points along the other dimension, and in vectors along the innermost one.
    pub fn sizes(self, vectors: u8) -> [usize; 2] {
        [self.depth as usize * vectors as usize, BLOCK as usize / self.depth as usize]
    }
}
