//! Tensors as the chip's copies of boxes see them (TMA, sm_90).
//!
//! In: how a tensor lies. Out: a *map*, 128 bytes that only the driver can write, among the words of a launch. A copy
//! brings a box of the tensor to shared memory, in lines of 128 bytes whose parts are exchanged as warpgroups want them,
//! and zeros for what is outside.

/// Words of a map; its first stands at a multiple of 64 bytes.
pub const MAP_WORDS: usize = 16;
/// Dimensions that a map may have.
pub const MAP_RANK: usize = 5;
/// Bytes of a line in shared memory.
pub const LINE: usize = 128;

/// A tensor of 16-bit elements, and the box that a copy takes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Whether elements are f16, not bf16.
    pub f16: bool,
    /// Sizes, the innermost dimension first, whose elements are neighbours.
    pub extents: Vec<usize>,
    /// Bytes from element to element of each dimension but the first: multiples of 16.
    pub strides: Vec<usize>,
    /// Elements of a box along each dimension: a line, and at most 256 of any other.
    pub tile: [u32; MAP_RANK],
}

impl TensorMap {
    /// Whether a driver can write it.
    pub fn is_possible(&self) -> bool {
        let rank = self.extents.len();
        let sizes = self.extents.iter().all(|&n| (1..=u32::MAX as usize).contains(&n));
        let strides = self.strides.iter().all(|&s| s > 0 && s.is_multiple_of(16) && s < 1 << 40);
        let tile = self.tile[0] as usize * 2 == LINE && self.tile[1..].iter().all(|n| (1..=256).contains(n));
        (2..=MAP_RANK).contains(&rank) && self.strides.len() == rank - 1 && sizes && strides && tile
    }

    /// Bytes that a copy brings, what is outside counted.
    pub fn bytes(&self) -> u32 {
        self.tile.iter().product::<u32>() * 2
    }
}
