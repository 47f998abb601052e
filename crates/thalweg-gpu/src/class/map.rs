//! Maps: one result a point.

use super::body::divisors;
use crate::space::{Slots, SpaceClass};
use thalweg_kernel::Body;

/// Threads of a block.
pub const BLOCK: u32 = 256;

/// What decides the source of a map kernel, beside its body.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MapClass {
    /// Its domain.
    pub space: SpaceClass,
    /// Vectors that a thread takes.
    pub vectors: u8,
    /// How blocks cover tiles, where they do.
    pub tile: Option<Tile>,
}

/// A tile of the innermost dimension and another one. A thread's vectors follow each other along that one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// The other dimension.
    pub dim: u8,
    /// Threads along it, neighbours in a warp; the others of the block stand along the innermost one.
    pub depth: u8,
}

impl Tile {
    /// Points along the other dimension, and vectors along the innermost one.
    pub fn sizes(self, vectors: u8) -> [usize; 2] {
        [self.depth as usize * vectors as usize, BLOCK as usize / self.depth as usize]
    }
}

/// Where the words of a map are.
#[derive(Clone, Debug)]
pub struct MapSlots {
    /// Of the domain; word 0 is the number of vectors.
    pub space: Slots,
    /// The first scalar.
    pub scalars: usize,
    /// The reciprocals of those that are divided by.
    pub reciprocals: usize,
    /// Where an index out of range is told.
    pub fault: usize,
    /// How many tiles there are along the innermost dimension, and along the other one: two words each, to divide by.
    pub tiles: usize,
    /// Words in all.
    pub end: usize,
}

impl MapSlots {
    /// Those of a class.
    pub fn new(class: &MapClass, body: &Body) -> MapSlots {
        let space = Slots::new(&class.space, 1);
        let scalars = space.end;
        let reciprocals = scalars + body.scalars as usize;
        let fault = reciprocals + divisors(body).len();
        let tiles = fault + 1;
        MapSlots { space, scalars, reciprocals, fault, tiles, end: tiles + if class.tile.is_some() { 4 } else { 0 } }
    }
}
