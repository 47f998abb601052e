//! The accesses of a generic launch: a word each that says where their words are and how they are to be read.

use thalweg_gpu::space::{Slots, SpaceClass, Way};
use thalweg_ir::DType;
use thalweg_kernel::Access;

/// Views that an index map may lead through.
const LEVELS: usize = 6;

/// Where the words about accesses are.
pub struct Described {
    first: usize,
    count: usize,
}

impl Described {
    /// From that word on, a word an access.
    pub fn new(first: usize, count: usize) -> Described {
        Described { first, count }
    }

    /// The word behind.
    pub fn end(&self) -> usize {
        self.first + self.count
    }

    /// The operand by which an instruction names an access.
    pub fn of(&self, access: u16) -> Option<u32> {
        ((access as usize) < self.count).then(|| (self.first + access as usize) as u32)
    }

    /// Writes them; `None` where a map leads through too many views.
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

/// Six bits a view: its rank, whether it masks, and that it is there.
fn views(levels: &[(u8, bool)]) -> Option<u64> {
    let one = |&(rank, masked): &(u8, bool)| u64::from(rank) | u64::from(masked) << 4 | 1 << 5;
    (levels.len() <= LEVELS).then(|| levels.iter().rev().fold(0, |all, level| all << 6 | one(level)))
}
