//! Routines that give no value.

use super::{Expr, Name};
use thalweg_ir::{DType, Monoid};

/// Arithmetic of a multiplication of small matrices by the threads of a warp, with sums in f32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Math {
    /// [16, 16] by [16, 8] of bf16.
    Bf16,
    /// The same of f16.
    F16,
    /// [16, 8] by [8, 8] of TF32.
    Tf32,
}

/// A factor in shared memory as warpgroups take it: lines of 128 bytes whose parts are exchanged.
#[derive(Clone, PartialEq, Debug)]
pub struct Lines {
    /// The shared elements.
    pub of: Name,
    /// Where it begins.
    pub at: Expr,
    /// Bytes from 64 lines to the next 64, or from 64 terms to the next.
    pub leading: u32,
    /// Bytes from 16 terms to the next 16.
    pub step: u32,
}

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
    /// Bytes of memory copied to shared memory past the registers, 16 or those of an element.
    CopyAhead {
        /// The shared elements, and which one comes first.
        to: (Name, Expr),
        /// The operand, and the position of the first element.
        from: (Name, Expr),
        /// How many.
        bytes: u32,
        /// Of 16 bytes how many are there, an i32; of an element whether it is there. What is not comes as zeros.
        kept: Option<Expr>,
    },
    /// What was copied ahead since the last one of these is a step.
    CopiesCommit,
    /// All steps but so many have come.
    CopiesWait(u32),
    /// What was written to shared memory is there for what reads it by other ways than threads do.
    AsyncFence,
    /// Matrices from shared memory to the registers of a warp, four of 8 by 8 elements of two bytes.
    Fragments {
        /// Four u32 of registers: the indices of all dimensions but the last.
        to: (Name, Vec<Expr>),
        /// The shared elements, and the first of this thread's line.
        from: (Name, Expr),
        /// Whether they are transposed on the way.
        transposed: bool,
    },
    /// Sums in the registers of a warp, and the product of two small matrices added to them.
    Multiply {
        /// The arithmetic.
        math: Math,
        /// Four sums.
        sums: (Name, Vec<Expr>),
        /// Four u32 of the left matrix.
        left: (Name, Vec<Expr>),
        /// Two of the right one.
        right: [Expr; 2],
    },
    /// The same by a warpgroup, of 64 rows and so many terms in shared memory ([`super::Definition::Warpgroups`]).
    WarpgroupMultiply {
        /// Of f16, or of bf16.
        f16: bool,
        /// The sums: the index before those of columns.
        sums: (Name, Vec<Expr>),
        /// The factors.
        factors: Box<[Lines; 2]>,
        /// Whether their lines lie together.
        across: [bool; 2],
        /// Columns.
        columns: u32,
        /// Times 16 terms.
        steps: u32,
    },
    /// All multiplications of the warpgroup are done.
    WarpgroupWait,
    /// The sums of 16 rows of a warp, eight columns so many times, to shared memory.
    HandOn {
        /// Which of the cases.
        pass: Expr,
        /// The shared elements, and an index of them.
        to: (Name, Vec<Expr>),
        /// Elements from row to row.
        pitch: u32,
        /// How many times eight columns.
        eights: u32,
        /// For each case sums, and the first of their eights.
        cases: Vec<((Name, Vec<Expr>), u32)>,
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
