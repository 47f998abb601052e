//! What a kernel needs to run, before its functions are compiled: launches with the words of their arguments, and
//! scratch memory.
//!
//! Plain data, which `lower` makes of kernels. Out: a [`Bound`].

use crate::compiler::{Compiler, Unit};
use crate::launch::{Bound, Stage, Word};
use std::sync::Arc;
use thalweg_kernel::Moved;
use thalweg_runtime::Error;

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

/// A launch whose function is not compiled yet.
#[derive(Debug)]
pub struct Draft {
    /// Its source.
    pub unit: Arc<Unit>,
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

    /// The plan with functions.
    ///
    /// # Errors
    /// [`Error::Compile`].
    pub fn bind(self, compiler: &Compiler) -> Result<Bound, Error> {
        let mut stages = Vec::with_capacity(self.stages.len());
        for d in self.stages {
            let function = compiler.function(&d.unit)?;
            let Draft { grid, block, shared, words, patches, .. } = d;
            stages.push(Stage { function, grid, block, shared, words, patches });
        }
        Ok(Bound::new(stages, self.scratch, self.needs, self.checked))
    }
}

/// Blocks that a grid may have along its first dimension. Along the others there are at most 65,535, and kernels go
/// through what is more.
pub const MOST_BLOCKS: u32 = i32::MAX as u32;

/// Blocks of so many that cover `n`; where these are more than can be told, more than [`MOST_BLOCKS`].
pub fn blocks(n: usize, each: usize) -> u32 {
    u32::try_from(n.div_ceil(each)).unwrap_or(u32::MAX)
}
