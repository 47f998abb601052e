//! What a kernel needs to run, before there is code of it: launches with the words of their arguments, and scratch memory.
//!
//! Plain data, which `lower` makes of kernels, and a device binds.

use crate::skeleton::Skeleton;
use std::sync::Arc;
use thalweg_kernel::Moved;

/// A word that changes from run to run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Word {
    /// The address of an operand, plus so many bytes.
    Operand(u16, i64),
    /// A scalar.
    Scalar(u16),
    /// The reciprocal of one, as f64 or as f32.
    Reciprocal(u16, bool),
    /// The address of a region of scratch memory, plus so many bytes.
    Scratch(u16, i64),
    /// The map of an operand, [`crate::maps::MAP_WORDS`] words, whose first element is so many bytes behind its address.
    Map(u16, i64),
    /// The same of a region of scratch memory.
    ScratchMap(u16, i64),
    /// Where an index out of range is told.
    Fault,
    /// Counters that are 0 between launches.
    Counters,
    /// Memory of so many bytes in which blocks of a launch tell each other something, in words that also say which
    /// launch wrote them.
    Told(usize),
}

/// The launches of a kernel.
#[derive(Debug, Default)]
pub struct Plan {
    /// Launches, in order.
    pub stages: Vec<Draft>,
    /// Bytes of each region of scratch memory.
    pub scratch: Vec<usize>,
    /// Bytes that each operand must have.
    pub needs: Vec<(u16, usize)>,
    /// Whether an index may be out of range.
    pub checked: bool,
    /// What the launches move.
    pub moved: Moved,
}

/// A launch, before there is code for it.
#[derive(Debug)]
pub struct Draft {
    /// What runs.
    pub kernel: Arc<Skeleton>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Words that stay.
    pub words: Vec<u64>,
    /// Words that change.
    pub patches: Vec<(usize, Word)>,
}

impl Plan {
    /// Takes in what another kernel does, its operands being these, its scalars from that number on.
    pub fn absorb(&mut self, other: Plan, operands: &[Word], scalars: u16) {
        let regions = self.scratch.len() as u16;
        for mut draft in other.stages {
            for (_, word) in &mut draft.patches {
                *word = match *word {
                    Word::Operand(o, offset) => match operands[o as usize] {
                        Word::Operand(to, base) => Word::Operand(to, base + offset),
                        Word::Scratch(region, base) => Word::Scratch(region, base + offset),
                        other => other,
                    },
                    Word::Scalar(s) => Word::Scalar(s + scalars),
                    Word::Reciprocal(s, wide) => Word::Reciprocal(s + scalars, wide),
                    Word::Map(o, offset) => match operands[o as usize] {
                        Word::Operand(to, base) => Word::Map(to, base + offset),
                        Word::Scratch(region, base) => Word::ScratchMap(region, base + offset),
                        other => other,
                    },
                    Word::Scratch(region, offset) => Word::Scratch(region + regions, offset),
                    Word::ScratchMap(region, offset) => Word::ScratchMap(region + regions, offset),
                    other => other,
                };
            }
            self.stages.push(draft);
        }
        self.scratch.extend(other.scratch);
        self.checked |= other.checked;
        self.moved += other.moved;
        for (o, bytes) in other.needs {
            if let Word::Operand(to, _) = operands[o as usize] {
                self.needs.push((to, bytes));
            }
        }
    }
}

/// Blocks that a grid may have along its first dimension. Along the others there are at most 65,535, and kernels go
/// through what is more.
pub const MOST_BLOCKS: u32 = i32::MAX as u32;

/// Blocks of so many that cover `n`; where these are more than can be told, more than [`MOST_BLOCKS`].
pub fn blocks(n: usize, each: usize) -> u32 {
    u32::try_from(n.div_ceil(each)).unwrap_or(u32::MAX)
}
