//! Launch plans: launches with their arguments, and scratch memory, before there is code for them.
//!
//! Plain data, which kernel families fill and a device binds.

pub use crate::params::RuntimeArgument;

use crate::kernels::Skeleton;
use crate::params::Arguments;
use std::sync::Arc;
use thalweg_kernel::Moved;

/// Plan of a kernel: its launches, their scratch memory, and their requirements.
#[derive(Debug, Default)]
pub struct Plan {
    /// Launches, in order.
    pub stages: Vec<Draft>,
    /// Bytes of each region of scratch memory.
    pub scratch: Vec<usize>,
    /// Minimum size in bytes of each operand.
    pub needs: Vec<(u16, usize)>,
    /// Whether the launches may report an out-of-range index.
    pub checked: bool,
    /// Memory traffic of the launches.
    pub moved: Moved,
}

/// Launch whose kernel is not compiled yet.
#[derive(Debug)]
pub struct Draft {
    /// Class key and bodies of the kernel.
    pub kernel: Arc<Skeleton>,
    /// Number of blocks along x, y and z.
    pub grid: [u32; 3],
    /// Number of threads per block.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Argument words, the same in every run, except those in `patches`.
    pub words: Vec<u64>,
    /// Argument words that are patched at each run: index of the word, and its content.
    pub patches: Vec<(usize, RuntimeArgument)>,
    /// Addresses of a copy's source and target: where they are equal, the launch is left out.
    pub unless_same: Option<[RuntimeArgument; 2]>,
}

impl Draft {
    /// A launch of this kernel: its blocks, threads per block, bytes of dynamic shared memory, arguments.
    pub fn new(kernel: Skeleton, grid: [u32; 3], block: u32, shared: u32, arguments: Arguments) -> Draft {
        let Arguments { words, patches } = arguments;
        Draft { kernel: Arc::new(kernel), grid, block, shared, words, patches, unless_same: None }
    }
}

impl Plan {
    /// Appends the launches of another kernel. Its operand `o` is `operands[o]` here, and its scalars are numbered from
    /// `scalars` on.
    pub fn absorb(&mut self, other: Plan, operands: &[RuntimeArgument], scalars: u16) {
        let regions = self.scratch.len() as u16;
        for mut draft in other.stages {
            let patched = draft.patches.iter_mut().map(|(_, word)| word);
            for word in patched.chain(draft.unless_same.iter_mut().flatten()) {
                *word = match *word {
                    RuntimeArgument::Operand(o, offset) => match operands[o as usize] {
                        RuntimeArgument::Operand(to, base) => RuntimeArgument::Operand(to, base + offset),
                        RuntimeArgument::Scratch(region, base) => RuntimeArgument::Scratch(region, base + offset),
                        other => other,
                    },
                    RuntimeArgument::Scalar(s) => RuntimeArgument::Scalar(s + scalars),
                    RuntimeArgument::Reciprocal(s, wide) => RuntimeArgument::Reciprocal(s + scalars, wide),
                    RuntimeArgument::TensorMap(o, offset) => match operands[o as usize] {
                        RuntimeArgument::Operand(to, base) => RuntimeArgument::TensorMap(to, base + offset),
                        RuntimeArgument::Scratch(region, base) => {
                            RuntimeArgument::ScratchTensorMap(region, base + offset)
                        }
                        other => other,
                    },
                    RuntimeArgument::Scratch(region, offset) => RuntimeArgument::Scratch(region + regions, offset),
                    RuntimeArgument::ScratchTensorMap(region, offset) => {
                        RuntimeArgument::ScratchTensorMap(region + regions, offset)
                    }
                    other => other,
                };
            }
            self.stages.push(draft);
        }
        self.scratch.extend(other.scratch);
        self.checked |= other.checked;
        self.moved += other.moved;
        for (o, bytes) in other.needs {
            if let RuntimeArgument::Operand(to, _) = operands[o as usize] {
                self.needs.push((to, bytes));
            }
        }
    }
}

/// Maximum number of blocks along a grid's first dimension. The other dimensions allow 65,535 blocks; for more, kernels
/// loop.
pub const MAX_BLOCKS: u32 = i32::MAX as u32;

/// Number of blocks of `each` elements that cover `n`. Saturates at `u32::MAX`, which is more than [`MAX_BLOCKS`].
pub fn blocks(n: usize, each: usize) -> u32 {
    u32::try_from(n.div_ceil(each)).unwrap_or(u32::MAX)
}
