//! Histograms: sums of integers in tables in shared memory.

pub mod emit;
pub mod params;
pub(crate) mod select;

use crate::kernels::map::MapClass;
use thalweg_ir::DType;
use thalweg_kernel::NodeId;

/// Threads per block. Many, since each block adds its table to the result.
pub const BLOCK: u32 = 512;

/// Number of blocks per multiprocessor in the launch of a histogram.
pub const BLOCKS: usize = 4;

/// Value that each point adds to its bin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Addend {
    /// Single number, added for all points.
    Same,
    /// Value of this node of the body at each point.
    Element(NodeId),
}

/// Class key of a histogram: the properties that decide the source, besides the body, which stores nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HistogramClass {
    /// Class of the map that computes index and addend, without tiles.
    pub map: MapClass,
    /// Node with the index of the bin.
    pub index: NodeId,
    /// Value that a point adds.
    pub added: Addend,
    /// Dtype of the result: an integer of 32 or 64 bits.
    pub dtype: DType,
}

impl HistogramClass {
    /// Bytes of a bin in a table in shared memory.
    pub fn size(&self) -> usize {
        match self.added {
            Addend::Same => 4,
            Addend::Element(_) => self.dtype.size(),
        }
    }
}
