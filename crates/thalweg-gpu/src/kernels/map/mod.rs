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
    /// Two-dimensional tile of a block; `None` if blocks cover the points in order.
    pub tile: Option<Tile>,
}

/// Tile over the innermost dimension and one outer dimension. A thread's vectors follow each other along the outer
/// dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// Index of the tile's outer dimension.
    pub dim: u8,
    /// Number of threads along the outer dimension; they are neighbours in a warp. The block's other threads are along
    /// the innermost dimension.
    pub depth: u8,
}

impl Tile {
    /// Extents of a tile: in points along the outer dimension, and in vectors along the innermost dimension.
    pub fn sizes(self, vectors: u8) -> [usize; 2] {
        [self.depth as usize * vectors as usize, BLOCK as usize / self.depth as usize]
    }
}
