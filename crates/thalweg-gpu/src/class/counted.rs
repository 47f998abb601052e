//! Sums of integers in few places.

use super::map::{MapClass, MapSlots};
use thalweg_ir::DType;
use thalweg_kernel::NodeId;

/// Threads of a block: many, since each block adds its table to the result.
pub const BLOCK: u32 = 512;

/// Blocks of a multiprocessor.
pub const BLOCKS: usize = 4;

/// What is added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Added {
    /// One number for all points.
    Same,
    /// What this node of the body is.
    Element(NodeId),
}

/// What decides the source, beside the body, which stores nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CountedClass {
    /// Its domain; no tiles.
    pub map: MapClass,
    /// The node that is the index.
    pub index: NodeId,
    /// What is added.
    pub added: Added,
    /// Of the result: an integer of 32 or 64 bits.
    pub dtype: DType,
}

impl CountedClass {
    /// Bytes of a place in a table.
    pub fn size(&self) -> usize {
        match self.added {
            Added::Same => 4,
            Added::Element(_) => self.dtype.size(),
        }
    }
}

/// Where the words are, behind those of a map.
#[derive(Clone, Copy, Debug)]
pub struct CountedSlots {
    /// Places.
    pub places: usize,
    /// Tables of a block, a power of two; a place has one word after the other.
    pub tables: usize,
    /// Address of the first place.
    pub to: usize,
    /// Elements from place to place.
    pub step: usize,
    /// Address of the number that is added to all.
    pub value: usize,
    /// Words in all.
    pub end: usize,
}

impl CountedSlots {
    /// Behind these.
    pub fn new(map: &MapSlots) -> CountedSlots {
        let first = map.end;
        let [places, tables, to, step, value, end] = [0, 1, 2, 3, 4, 5].map(|i| first + i);
        CountedSlots { places, tables, to, step, value, end }
    }
}
