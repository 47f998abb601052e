//! Tensor maps (TMA descriptors, sm_90).
//!
//! In: the layout of a tensor. Out: a *map*, 128 bytes that only the driver can encode, among the arguments of a launch. A
//! copy brings a box of the tensor to shared memory, in lines of 128 bytes with the 128-byte swizzle of `wgmma`, and
//! zeros for elements out of bounds.

/// Number of 64-bit words of a tensor map, whose first word is aligned to 64 bytes.
pub const MAP_WORDS: usize = 16;
/// Maximum number of dimensions of a tensor map.
pub const MAP_RANK: usize = 5;
/// Bytes of a line of a box in shared memory.
pub const LINE: usize = 128;

/// Tensor map before its encoding: a tensor of 16-bit elements, and the box of it that a copy takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Whether elements are f16 instead of bf16.
    pub f16: bool,
    /// Extents, the innermost (contiguous) dimension first.
    pub extents: Vec<usize>,
    /// Stride in bytes of each dimension but the first: a multiple of 16.
    pub strides: Vec<usize>,
    /// Elements of a box along each dimension: a line of the first one, at most 256 of any other.
    pub tile: [u32; MAP_RANK],
}

impl TensorMap {
    /// Whether a driver can encode the tensor map.
    pub fn is_possible(&self) -> bool {
        let rank = self.extents.len();
        let sizes = self.extents.iter().all(|&n| (1..=u32::MAX as usize).contains(&n));
        let strides = self.strides.iter().all(|&s| s > 0 && s.is_multiple_of(16) && s < 1 << 40);
        let tile = self.tile[0] as usize * 2 == LINE && self.tile[1..].iter().all(|n| (1..=256).contains(n));
        (2..=MAP_RANK).contains(&rank) && self.strides.len() == rank - 1 && sizes && strides && tile
    }

    /// Bytes of shared memory that a copy of one box fills, including elements out of bounds.
    pub fn bytes(&self) -> u32 {
        self.tile.iter().product::<u32>() * 2
    }
}
