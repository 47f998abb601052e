//! Routines: what every device has code of its own for, around the arithmetic of folds and scans.

use super::Type;
use thalweg_ir::{DType, Monoid, ScanOp};

/// What stands in front of a kernel for its routines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Definition {
    /// How two partial results of a fold are put together.
    Monoid(Monoid, DType),
    /// What a scan of a buffer's elements accumulates.
    Scan {
        /// Number of the buffer.
        number: u16,
        /// The scan.
        op: ScanOp,
        /// Of the elements.
        dtype: DType,
    },
    /// What is known of elements that were shifted: how many, by what, and sums of powers up to that one; whether what is
    /// wanted is about their mean.
    State {
        /// Number of the online fold.
        number: u16,
        /// Of the sums.
        dtype: DType,
        /// The highest power.
        power: u8,
        /// Whether it is about the mean.
        mean: bool,
    },
}

/// A routine that gives a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routine {
    /// Two partial results put together.
    Combine(Monoid, DType),
    /// The lanes of registers folded, which are used up.
    FoldLanes(Monoid, DType),
    /// What threads have, folded over groups of so many, or over warps where that is fewer: all get the result.
    FoldThreads(Monoid, DType, u16),
    /// What warps of a block of so many threads have left in shared memory, folded: all threads get the result.
    FoldWarps(Monoid, DType, u16),
    /// What the first thread of a warp has.
    FirstLane(DType),
    /// The mean of a thread's own elements: of their sum, their number, the row's points and the largest number.
    OwnMean(DType),
    /// The state of nothing.
    NoState(u16),
    /// Of so many elements, their shift, and sums of powers from the first on.
    State(u16),
    /// Two states put together.
    CombineStates(u16),
    /// The states of a warp's threads, put together, in groups of so many threads.
    StatesOfWarp(u16, u16),
    /// Those that a block's warps have left in shared memory.
    StatesOfBlock(u16, u16),
    /// What a state says of elements that differ from a number.
    About(DType),
    /// The same where that is their mean but for rounding: of state, number, mean and the relative error of a number.
    AboutMean(DType),
}

impl Routine {
    /// The type of what it gives.
    pub fn ty(self) -> Type {
        match self {
            Routine::Combine(_, dtype)
            | Routine::FoldLanes(_, dtype)
            | Routine::FoldThreads(_, dtype, _)
            | Routine::FoldWarps(_, dtype, _)
            | Routine::FirstLane(dtype)
            | Routine::OwnMean(dtype)
            | Routine::About(dtype)
            | Routine::AboutMean(dtype) => Type::Held(dtype),
            Routine::NoState(l)
            | Routine::State(l)
            | Routine::CombineStates(l)
            | Routine::StatesOfWarp(l, _)
            | Routine::StatesOfBlock(l, _) => Type::State(l),
        }
    }
}
