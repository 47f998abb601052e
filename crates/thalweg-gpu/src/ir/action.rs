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

/// The left factor of a warpgroup's multiplication, 64 by 16.
#[derive(Clone, PartialEq, Debug)]
pub enum Left {
    /// In shared memory.
    Matrix(Expr),
    /// Four u32 of registers: the indices of all dimensions but the last.
    Registers(Name, Vec<Expr>),
}

/// How warpgroups that multiply in turns tell each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Both meet at a barrier of the chip, at which the one before does not wait.
    Met,
    /// Each warp of the one before tells it in shared memory.
    Told,
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
    /// What blocks have folded of the parts of rows that they hold, put together: each tells the others, and waits until they have told.
    /// All threads of a block come here.
    FoldBlocks {
        /// How.
        monoid: Monoid,
        /// Of the registers.
        dtype: DType,
        /// The result, for all threads.
        value: Name,
        /// What the warps of the block have folded, in shared memory: by lane and vector of rows, sixteen, and one more for the banks.
        parts: Name,
        /// Shared memory for the result.
        all: Name,
        /// The ticket.
        ticket: Name,
        /// Where in the ticket's words they tell it, a u64; the number of this block and how many they are, both u32.
        at: [Expr; 3],
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
    /// Narrow floats that four threads side by side have of a row, eight of each of its blocks of 32, to memory, wherever that begins. All
    /// threads of a warp come here.
    StoreDealt {
        /// The operand.
        operand: Name,
        /// The position of the row's first element, an i64.
        at: Expr,
        /// The elements, two in a u32, four of these a block.
        from: Name,
        /// Whether the row is there.
        kept: Expr,
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
    /// What registers hold is known to all multiplications of the warpgroup from here on.
    WarpgroupFence,
    /// The same by a warpgroup, of 64 rows and 16 terms ([`super::Definition::Warpgroups`]).
    WarpgroupMultiply {
        /// Of f16, or of bf16.
        f16: bool,
        /// The sums: the indices before those of columns.
        sums: (Name, Vec<Expr>),
        /// The left factor, and whether its lines lie together.
        left: (Left, bool),
        /// The right one, in shared memory.
        right: (Expr, bool),
        /// Columns.
        columns: u32,
        /// Whether sums are added to; else they are what there was nothing before. A factor in registers always adds.
        keep: Expr,
    },
    /// The warpgroup's multiplications since the last one of these belong together.
    WarpgroupCommit,
    /// All multiplications of the warpgroup are done, but for the latest so many.
    WarpgroupWait(u32),
    /// What multiplications leave in these registers is not used before.
    Kept(Name, Vec<Expr>),
    /// A barrier in shared memory, an element of 64 bits, at which so many threads come to the end of a phase.
    BarrierStart((Name, Expr), u32),
    /// Barriers are there for copies of boxes.
    BarriersStarted,
    /// A thread comes to it.
    BarrierArrive((Name, Expr)),
    /// A thread comes to it, and so many bytes will, a u32.
    BarrierExpect((Name, Expr), Expr),
    /// Until the phase of that parity, a u32, is over.
    BarrierWait((Name, Expr), Expr),
    /// A map of a tensor will be used soon: its first word.
    MapAhead(usize),
    /// A box of a tensor, copied by its map.
    MapCopy {
        /// The shared elements, and which one comes first.
        to: (Name, Expr),
        /// The first word of the map.
        map: usize,
        /// The barrier that the bytes come to.
        barrier: (Name, Expr),
        /// Where it begins, an i32 for each dimension.
        at: Vec<Expr>,
    },
    /// The warpgroup gives registers away, down to so many a thread.
    RegistersLess(u32),
    /// It takes them, up to so many.
    RegistersMore(u32),
    /// Warpgroups that multiply in turns: the first of so many may begin.
    FirstTurn(u32),
    /// This warpgroup's turn: barriers in shared memory, and a variable that changes each time.
    TakeTurn(Turn, Name, Name),
    /// The next one's, of so many.
    GiveTurn(Turn, Name, u32),
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
        matches!(self, Action::Scan { .. } | Action::FoldBlocks { .. })
    }
}
