//! Routines that give no value.

use super::{Expr, Name};
use thalweg_ir::{DType, Monoid};

/// A routine that gives no value.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Registers folded over threads of a warp of which so many have rows side by side, and the others their points.
    FoldPoints {
        /// How.
        monoid: Monoid,
        /// Of the registers.
        dtype: DType,
        /// Threads whose rows are side by side.
        wide: u16,
        /// The registers.
        registers: Name,
    },
    /// One more result for a tree of them ([`super::Statement::Tree`]).
    Push {
        /// The tree.
        tree: Name,
        /// The result.
        value: Expr,
    },
    /// What a thread has written is there for the threads of other blocks that come to know of it from here on.
    Fence,
    /// A counter of the queue's is 0 again, as the next launch finds it.
    Reset {
        /// The counters.
        counters: Name,
        /// Its position.
        at: Expr,
    },
    /// A state to memory.
    StoreState {
        /// The operand.
        operand: Name,
        /// Its position.
        at: Expr,
        /// The state.
        value: Expr,
    },
    /// A scan of a row's vectors, or of a tile's, of which threads have every so manieth in registers. All threads of a
    /// block come here.
    Scan {
        /// Number of its buffer.
        number: u16,
        /// Threads of a row.
        group: u16,
        /// Whether from the end.
        back: bool,
        /// The registers.
        buffer: Name,
        /// The thread's number.
        thread: Expr,
        /// How many vectors there are.
        count: Expr,
        /// Shared memory for a result of each warp and vector.
        parts: Name,
        /// Where tiles tell each other: the ticket, and the numbers of row, tile, and tiles of a row.
        links: Option<(Name, Vec<Expr>)>,
    },
}

impl Action {
    /// Whether all threads of a block have to come to it.
    pub fn is_met(&self) -> bool {
        matches!(self, Action::Scan { .. })
    }
}
