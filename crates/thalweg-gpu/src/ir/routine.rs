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
    /// Multiplications by warpgroups ([`super::Action::WarpgroupMultiply`]): of f16 or of bf16, how the factors come, and how
    /// many columns there are.
    Warpgroups {
        /// Of f16.
        f16: bool,
        /// Whether the left factor's lines lie together in shared memory; of one in registers none.
        left: Option<bool>,
        /// Whether the right factor's do.
        right: bool,
        /// Columns.
        columns: u32,
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

/// Where a thread of a warp takes a value from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shuffle {
    /// The thread of that number.
    From,
    /// The one so many before it; where there is none, its own.
    Up,
    /// The one whose number differs in those bits.
    Xor,
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
    /// What a scan has accumulated of nothing ([`Definition::Scan`]).
    Nothing(u16),
    /// The same of an element.
    Widened(u16),
    /// What it has accumulated, and what comes behind that, put together.
    Accumulated(u16),
    /// What it has accumulated as an element.
    Narrowed(u16, DType),
    /// A product and a sum, rounded once whatever the mode: bits of a sum follow from its terms.
    MultiplyAdd(DType),
    /// An f32 rounded to TF32.
    Tf32,
    /// The bits of an f32, a u32.
    Bits,
    /// What another thread of the warp has: of a value, and a u32 that says which thread. All threads of the warp come here.
    Shuffle(Shuffle, Type),
    /// A bit of a u32 for each thread of the warp, whether something holds there. All threads of the warp come here.
    Ballot,
    /// How many bits of a u32 are set.
    Ones,
    /// Whether something holds in a thread of the warp. All of them come here.
    AnyOfWarp,
    /// Two to the power of an f32, as the chip has it.
    PowerOfTwo,
    /// Two f32 rounded to f16 or to bf16, the first in the lower half of a u32.
    Pair(DType),
    /// A matrix that begins so many bytes further, a u32.
    Further,
    /// Whether something holds in a thread of the block. All of them come here.
    AnyOfBlock,
    /// How often a digit stands in the tiles of a row before this one: of a ticket, where in its words the tile tells it,
    /// the tile's number in its row, and how often the tile itself has it, all u32 but the place, a u64.
    TilesBefore,
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
            | Routine::AboutMean(dtype)
            | Routine::Narrowed(_, dtype)
            | Routine::MultiplyAdd(dtype) => Type::Held(dtype),
            Routine::Nothing(scan) | Routine::Widened(scan) | Routine::Accumulated(scan) => Type::Wide(scan),
            Routine::Shuffle(_, ty) => ty,
            Routine::Further => Type::Matrix,
            Routine::PowerOfTwo | Routine::Tf32 => Type::Held(DType::F32),
            Routine::AnyOfWarp => Type::BOOL,
            Routine::Pair(_) | Routine::Bits | Routine::Ballot | Routine::Ones | Routine::TilesBefore => Type::U32,
            Routine::AnyOfBlock => Type::BOOL,
            Routine::NoState(l)
            | Routine::State(l)
            | Routine::CombineStates(l)
            | Routine::StatesOfWarp(l, _)
            | Routine::StatesOfBlock(l, _) => Type::State(l),
        }
    }
}
