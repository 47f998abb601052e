//! Access descriptors of a generic launch: a word for each access, with the index of its argument words and its dtype
//! and addressing mode.

use thalweg_gpu::space::{Slots, SpaceClass, Way};
use thalweg_ir::DType;
use thalweg_kernel::Access;

/// Maximum number of views in an index map.
const LEVELS: usize = 6;

/// Index of the descriptor words.
pub struct Described {
    first: usize,
    count: usize,
}

impl Described {
    /// Descriptors from word `first` on, one an access.
    pub fn new(first: usize, count: usize) -> Described {
        Described { first, count }
    }

    /// Index of the word after them.
    pub fn end(&self) -> usize {
        self.first + self.count
    }

    /// Operand by which an instruction refers to an access.
    pub fn of(&self, access: u16) -> Option<u32> {
        ((access as usize) < self.count).then(|| (self.first + access as usize) as u32)
    }

    /// Writes the descriptors; `None` where an index map has too many views.
    pub fn fill(&self, accesses: &[Access], class: &SpaceClass, slots: &Slots, words: &mut [u64]) -> Option<()> {
        for (k, access) in accesses.iter().enumerate() {
            let map = match &class.ways[k] {
                Way::Strided { .. } => 0,
                Way::Mapped(levels) => 1 << 16 | views(levels)? << 20,
            };
            words[self.first + k] = slots.accesses[k] as u64 | map | number(access.dtype) << 56;
        }
        Some(())
    }
}

fn number(dtype: DType) -> u64 {
    dtype as u64
}

/// Encoding of an index map's views, six bits each: its rank, whether it has a mask, and a bit that is set.
fn views(levels: &[(u8, bool)]) -> Option<u64> {
    let one = |&(rank, masked): &(u8, bool)| u64::from(rank) | u64::from(masked) << 4 | 1 << 5;
    (levels.len() <= LEVELS).then(|| levels.iter().rev().fold(0, |all, level| all << 6 | one(level)))
}
