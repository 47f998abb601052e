//! Histograms: sums of integers in tables in shared memory.

pub mod emit;
pub mod params;
pub(crate) mod select;

use crate::kernels::map::MapClass;
use thalweg_ir::DType;
use thalweg_kernel::NodeId;

/// Threads per block. Many, since each block adds its table to the result.
pub const BLOCK: u32 = 512;

/// Blocks per multiprocessor.
pub const BLOCKS: usize = 4;

/// Maximum bytes of a block's tables. A multiprocessor has four times that, and a block gets no more without requesting
/// it.
pub const ROOM: usize = 48 << 10;

/// Maximum number of tables per block. Of 4, 8 and 16 measured on an H200, eight is best for 100 bins, and none is
/// worse for 1,000.
pub const TABLES: usize = 8;

/// The addend.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Addend {
    /// One number for all points.
    Same,
    /// The value of this node of the body.
    Element(NodeId),
}

/// Class key: the properties that decide the source, besides the body, which stores nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HistogramClass {
    /// Its domain, without tiles.
    pub map: MapClass,
    /// The node of the index.
    pub index: NodeId,
    /// The addend.
    pub added: Addend,
    /// Dtype of the result: an integer of 32 or 64 bits.
    pub dtype: DType,
}

impl HistogramClass {
    /// Bytes of a bin in a table.
    pub fn size(&self) -> usize {
        match self.added {
            Addend::Same => 4,
            Addend::Element(_) => self.dtype.size(),
        }
    }
}
