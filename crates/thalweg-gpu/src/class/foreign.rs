//! Operations whose source is the user's.

use thalweg_ir::Foreign;

/// What decides the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ForeignClass {
    /// The operation.
    pub of: Foreign,
    /// Threads of a block.
    pub block: [u32; 3],
}

impl ForeignClass {
    /// Words: the addresses of operands and results, the sizes, the numbers.
    pub fn words(&self) -> usize {
        let s = self.of.source();
        s.operands.len() + s.results.len() + s.sizes + s.numbers.len()
    }
}
