//! Histograms: sums of integers in tables in shared memory.

use super::map::{MapClass, MapSlots};
use thalweg_ir::DType;
use thalweg_kernel::NodeId;

/// Threads per block. Many, since each block adds its table to the result.
pub const BLOCK: u32 = 512;

/// Blocks per multiprocessor.
pub const BLOCKS: usize = 4;

/// What is added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Added {
    /// One number for all points.
    Same,
    /// The value of this node of the body.
    Element(NodeId),
}

/// Class key: the properties that decide the source, besides the body, which stores nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CountedClass {
    /// Its domain, without tiles.
    pub map: MapClass,
    /// The node of the index.
    pub index: NodeId,
    /// The addend.
    pub added: Added,
    /// Dtype of the result: an integer of 32 or 64 bits.
    pub dtype: DType,
}

impl CountedClass {
    /// Bytes of a bin in a table.
    pub fn size(&self) -> usize {
        match self.added {
            Added::Same => 4,
            Added::Element(_) => self.dtype.size(),
        }
    }
}

/// Indices of the argument words, after those of a map.
#[derive(Clone, Copy, Debug)]
pub struct CountedSlots {
    /// Number of bins.
    pub places: usize,
    /// Tables per block, a power of two. The copies of a bin are neighbours in shared memory.
    pub tables: usize,
    /// Address of the first bin of the result.
    pub to: usize,
    /// Elements from bin to bin.
    pub step: usize,
    /// Address of the number that is added for all points.
    pub value: usize,
    /// Number of words.
    pub end: usize,
}

impl CountedSlots {
    /// Lays out the words after those of a map.
    pub fn new(map: &MapSlots) -> CountedSlots {
        let first = map.end;
        let [places, tables, to, step, value, end] = [0, 1, 2, 3, 4, 5].map(|i| first + i);
        CountedSlots { places, tables, to, step, value, end }
    }
}
