//! Maps: one result a point.

pub mod emit;
pub(crate) mod select;

use crate::body::divisors;
use crate::space::{Slots, SpaceClass};
use thalweg_kernel::Body;

/// Threads per block.
pub const BLOCK: u32 = 256;

/// Class key of a map kernel: the properties that decide its source, besides its body.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MapClass {
    /// Its domain.
    pub space: SpaceClass,
    /// Vectors per thread.
    pub vectors: u8,
    /// The two-dimensional tile of a block, where blocks have one.
    pub tile: Option<Tile>,
}

/// A tile over the innermost and another dimension. A thread's vectors follow each other along the other one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// The other dimension.
    pub dim: u8,
    /// Threads along the other dimension, neighbours in a warp. The rest of the block is along the innermost one.
    pub depth: u8,
}

impl Tile {
    /// Extent in points along the other dimension, and in vectors along the innermost one.
    pub fn sizes(self, vectors: u8) -> [usize; 2] {
        [self.depth as usize * vectors as usize, BLOCK as usize / self.depth as usize]
    }
}

/// Indices of a map's argument words.
#[derive(Clone, Debug)]
pub struct MapSlots {
    /// Words of the domain. Word 0 is the number of vectors.
    pub space: Slots,
    /// First scalar.
    pub scalars: usize,
    /// First reciprocal of the scalars that are divided by.
    pub reciprocals: usize,
    /// Address of the fault slot.
    pub fault: usize,
    /// Numbers of tiles along the innermost and the other dimension: two divisor words each.
    pub tiles: usize,
    /// Number of words.
    pub end: usize,
}

impl MapSlots {
    /// Lays out the words of a class.
    pub fn new(class: &MapClass, body: &Body) -> MapSlots {
        let space = Slots::new(&class.space, 1);
        let scalars = space.end;
        let reciprocals = scalars + body.scalars as usize;
        let fault = reciprocals + divisors(body).len();
        let tiles = fault + 1;
        MapSlots { space, scalars, reciprocals, fault, tiles, end: tiles + if class.tile.is_some() { 4 } else { 0 } }
    }
}
