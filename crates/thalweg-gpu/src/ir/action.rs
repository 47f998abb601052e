//! Routines without a result.

use crate::ir::{Expr, Name, Slot};
use thalweg_ir::{DType, Monoid};

/// Arithmetic of a matrix multiplication by a warp (`mma.sync`), with f32 accumulators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Math {
    /// bf16, `[16, 16]` by `[16, 8]`.
    Bf16,
    /// f16, `[16, 16]` by `[16, 8]`.
    F16,
    /// TF32, `[16, 8]` by `[8, 8]`.
    Tf32,
}

/// Operand A of a warpgroup's multiplication, 64 by 16.
#[derive(Clone, PartialEq, Debug)]
pub enum Left {
    /// Operand in shared memory, given by its descriptor.
    Matrix(Expr),
    /// Operand in registers: four u32 of a register array, at these indices of all dimensions but the last.
    Registers(Name, Vec<Expr>),
}

/// Synchronization of warpgroups that multiply in turns (ping-pong schedule).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rotation {
    /// Hardware named barrier: the next warpgroup waits at it, the previous one only arrives.
    NamedBarrier,
    /// Signal in shared memory by each warp of the previous warpgroup.
    Mbarrier,
}

/// Routine that returns no value but fills registers or memory, or synchronizes threads.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Reduction of registers over the threads of a warp that share rows. The warp is a grid: `wide` threads along
    /// neighbouring rows, 32 / `wide` threads along the points of each row.
    FoldPoints {
        /// Monoid that reduces the registers.
        monoid: Monoid,
        /// Dtype of the registers.
        dtype: DType,
        /// Number of threads of the warp along neighbouring rows.
        wide: u16,
        /// Registers to reduce; they receive the results.
        registers: Name,
    },
    /// All-reduce of row segments held by co-resident blocks: each publishes its partial results and waits for those of
    /// the others. All threads of the block must call it.
    FoldBlocks {
        /// Monoid that combines partial results.
        monoid: Monoid,
        /// Dtype of the registers.
        dtype: DType,
        /// Variable that receives the result, in all threads.
        value: Name,
        /// Partial results of the block's warps in shared memory: by lane and vector of rows, sixteen each, and one of
        /// padding against bank conflicts.
        parts: Name,
        /// Shared memory from which all threads read the result.
        all: Name,
        /// Ticket of the block in the exchange ([`crate::ir::Statement::Ticket`]).
        ticket: Name,
        /// Offset in the ticket's exchange buffer, a u64; index of this block among those of the row, and their number,
        /// both u32.
        at: [Expr; 3],
    },
    /// Pushes a result onto a tree ([`crate::ir::Statement::Tree`]).
    Push {
        /// Name of the tree.
        tree: Name,
        /// Result to push.
        value: Expr,
    },
    /// Memory fence: this thread's writes are visible to threads of other blocks that are signalled from here on.
    Fence,
    /// Resets a counter of the queue to 0 for the next launch.
    Reset {
        /// Operand with the queue's counters.
        counters: Name,
        /// Index of the counter.
        at: Expr,
    },
    /// Stores the state of an online fold.
    StoreState {
        /// Operand in which states are stored.
        operand: Name,
        /// Offset of the state in the operand.
        at: Expr,
        /// State to store.
        value: Expr,
    },
    /// Asynchronous copy from global to shared memory (`cp.async`), of 16 bytes or of one element.
    AsyncCopy {
        /// Shared array, and index of the first element.
        to: (Name, Expr),
        /// Source operand in global memory, and offset of the first element.
        from: (Name, Expr),
        /// Number of bytes that are copied.
        bytes: u32,
        /// Number of valid bytes of 16, an i32; for a single element, whether it is valid. The rest is filled with
        /// zeros.
        kept: Option<Expr>,
    },
    /// Stores a row's elements of bf16 or f16 to memory of any alignment. Each of four neighbouring threads has eight
    /// elements of each block of 32. All threads of the warp must call it.
    StoreInterleaved {
        /// Operand with the rows.
        operand: Name,
        /// Offset of the row's first element, an i64.
        at: Expr,
        /// Source registers: elements in pairs, four u32 a block.
        from: Name,
        /// Condition that the row exists, so that it is stored.
        kept: Expr,
    },
    /// Commits the copies since the last commit as a group (`cp.async.commit_group`).
    CopiesCommit,
    /// Waits until at most this many groups are pending (`cp.async.wait_group`).
    CopiesWait(u32),
    /// Proxy fence: writes to shared memory are visible to asynchronous copies and `wgmma`.
    AsyncFence,
    /// Loads four neighbouring elements from shared memory to registers, aligned to four elements.
    LoadShared {
        /// Destination registers: four of a register array, at these indices of all dimensions but the last.
        to: (Name, Vec<Expr>),
        /// Shared array of the same type, and index of the first element.
        from: (Name, Expr),
    },
    /// Loads four 8 × 8 matrices of 2-byte elements from shared memory to a warp's registers (`ldmatrix.x4`).
    Fragments {
        /// Destination registers: four u32 of a register array, at these indices of all dimensions but the last.
        to: (Name, Vec<Expr>),
        /// Shared array, and index of the first element of this thread's line.
        from: (Name, Expr),
        /// Whether each 8 × 8 matrix is transposed.
        transposed: bool,
    },
    /// Multiplies two small matrices and adds to accumulators of a warp (`mma.sync`).
    Multiply {
        /// Arithmetic: dtype and shape of the matrices.
        math: Math,
        /// Accumulators: four registers of the thread.
        sums: (Name, Vec<Expr>),
        /// Operand A: four u32 registers.
        left: (Name, Vec<Expr>),
        /// Operand B: two u32 registers.
        right: [Expr; 2],
    },
    /// Orders register accesses before the warpgroup's next multiplications (`wgmma.fence`).
    WarpgroupFence,
    /// Asynchronous multiplication by a warpgroup, 64 rows by 16 terms (`wgmma`,
    /// [`crate::ir::Definition::Warpgroups`]).
    WarpgroupMultiply {
        /// Whether A and B are f16 instead of bf16.
        f16: bool,
        /// Accumulator register array, with the indices of the dimensions before columns.
        sums: (Name, Vec<Expr>),
        /// Operand A, and whether it is M-major (elements along M are contiguous in shared memory), else K-major.
        left: (Left, bool),
        /// Operand B in shared memory, and whether it is N-major (elements along N are contiguous), else K-major.
        right: (Expr, bool),
        /// Number of columns of the accumulator tile.
        columns: u32,
        /// Whether to add to the accumulators instead of overwriting them. With A in registers it always adds.
        keep: Expr,
    },
    /// Commits the multiplications since the last commit as a group (`wgmma.commit_group`).
    WarpgroupCommit,
    /// Waits until at most this many groups are pending (`wgmma.wait_group`).
    WarpgroupWait(u32),
    /// Compiler barrier for accumulators: reads of these registers stay after it.
    Kept(Name, Vec<Expr>),
    /// Initializes an mbarrier, a 64-bit element of shared memory, for this many arrivals a phase.
    BarrierStart((Name, Expr), u32),
    /// Makes initialized mbarriers visible to asynchronous copies.
    BarriersStarted,
    /// Arrives at an mbarrier.
    BarrierArrive((Name, Expr)),
    /// Arrives at an mbarrier, and announces how many bytes (a u32) copies will still add to its phase.
    BarrierExpect((Name, Expr), Expr),
    /// Waits at an mbarrier until the phase of this parity (a u32) is complete.
    BarrierWait((Name, Expr), Expr),
    /// Prefetches a tensor map.
    TensorMapPrefetch(Slot),
    /// Copies a box of a tensor by its tensor map (TMA).
    TensorMapCopy {
        /// Shared array, and index of the first element.
        to: (Name, Expr),
        /// Kernel argument with the tensor map.
        map: Slot,
        /// Mbarrier that counts the copied bytes.
        barrier: (Name, Expr),
        /// Coordinates of the box, an i32 for each dimension.
        at: Vec<Expr>,
    },
    /// Lowers the warpgroup's registers to this many a thread (`setmaxnreg.dec`).
    RegistersLess(u32),
    /// Raises the warpgroup's registers to this many a thread (`setmaxnreg.inc`).
    RegistersMore(u32),
    /// Starts the rotation of this many warpgroups that multiply in turns: the first may begin.
    RotationStart(u32),
    /// Waits for this warpgroup's turn. Arguments: mbarriers in shared memory, and a phase variable that flips each
    /// time.
    RotationWait(Rotation, Name, Name),
    /// Passes the turn to the next of this many warpgroups.
    RotationSignal(Rotation, Name, u32),
    /// Stores the accumulators of a pass, 16 rows of a warp, to shared memory.
    StoreAccumulators {
        /// Index of the pass in `cases`.
        pass: Expr,
        /// Destination shared array, and its indices of all dimensions but the last.
        to: (Name, Vec<Expr>),
        /// Pitch of the shared array from row to row, in elements.
        pitch: u32,
        /// Number of blocks of eight columns.
        eights: u32,
        /// For each pass, its accumulators and their first block of eight columns.
        cases: Vec<((Name, Vec<Expr>), u32)>,
    },
    /// Scan of the vectors of a row or of a tile, which the row's threads have interleaved in registers. All threads of
    /// a block must call it.
    Scan {
        /// Index of the scanned buffer.
        number: u16,
        /// Threads per row.
        group: u16,
        /// Whether the scan runs from the end.
        back: bool,
        /// Registers with the vectors.
        buffer: Name,
        /// Index of the thread within its row.
        thread: Expr,
        /// Number of vectors in the row or tile.
        count: Expr,
        /// Shared memory with a partial result for each warp and vector.
        parts: Name,
        /// Decoupled look-back: the ticket, and the index of the row, the index of the tile, and the number of tiles
        /// per row.
        links: Option<(Name, Vec<Expr>)>,
    },
}

impl Action {
    /// Whether all threads of a block must reach the action.
    pub fn is_collective(&self) -> bool {
        matches!(self, Action::Scan { .. } | Action::FoldBlocks { .. })
    }
}
