//! Routines: operations around folds and scans that every device implements by code of its own.

use crate::ir::Type;
use thalweg_ir::{DType, Monoid, ScanOp};

/// Definition (of a struct, a function or a type) that precedes a kernel, because its routines use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Definition {
    /// Struct with the combine operation of a fold.
    Monoid(Monoid, DType),
    /// Struct with the accumulator of a scan over a buffer's elements.
    Scan {
        /// Index of the scanned buffer.
        number: u16,
        /// Operation of the scan.
        op: ScanOp,
        /// Dtype of the elements.
        dtype: DType,
    },
    /// Function that multiplies by a warpgroup ([`crate::ir::Action::WarpgroupMultiply`]), with this dtype, these
    /// layouts and this width.
    Warpgroups {
        /// Whether A and B are f16 instead of bf16.
        f16: bool,
        /// Whether A is M-major in shared memory (elements along M are contiguous), else K-major; `None` for A in
        /// registers.
        left: Option<bool>,
        /// Whether B is N-major in shared memory (elements along N are contiguous), else K-major.
        right: bool,
        /// Number of columns of the accumulator tile.
        columns: u32,
    },
    /// State of an online fold over shifted elements: their count, the shift, and sums of powers up to `power`.
    State {
        /// Index of the online fold.
        number: u16,
        /// Dtype of the sums.
        dtype: DType,
        /// Highest power that is summed.
        power: u8,
        /// Whether the fold sums powers of deviations from the mean.
        mean: bool,
    },
}

/// Source lane of a shuffle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shuffle {
    /// The lane with the given index.
    From,
    /// The lane whose index is lower by the given number; the thread's own where there is none.
    Up,
    /// The lane whose index differs in the given bits.
    Xor,
}

/// Routine that returns a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routine {
    /// Combines two partial results.
    Combine(Monoid, DType),
    /// Reduces the lanes of registers, whose contents are overwritten.
    FoldLanes(Monoid, DType),
    /// Reduces over groups of this many threads, or over warps where that is fewer. All threads get the result.
    FoldThreads(Monoid, DType, u16),
    /// Reduces the partial results that a block's warps have stored in shared memory, with this many threads a block.
    /// All threads get the result.
    FoldWarps(Monoid, DType, u16),
    /// Value that the first lane of the warp passes, returned in all lanes.
    FirstLane(DType),
    /// Mean of a thread's own elements. Arguments: their sum, their count, the number of points of the row, and the
    /// largest finite number.
    OwnMean(DType),
    /// State of an online fold over no elements, its identity.
    NoState(u16),
    /// State of elements. Arguments: their count, their shift, and sums of powers from the first on.
    State(u16),
    /// Combines two states of an online fold.
    CombineStates(u16),
    /// Combines the states of an online fold of a warp's threads, in groups of this many threads.
    StatesOfWarp(u16, u16),
    /// Combines the states of an online fold that a block's warps have stored in shared memory.
    StatesOfBlock(u16, u16),
    /// Moment about a given number, from the state of an online fold. Arguments: state, number.
    About(DType),
    /// Moment about the mean, which is known up to rounding. Arguments: state, number, mean and the relative error of a
    /// number.
    AboutMean(DType),
    /// Accumulator of no elements: the identity of a scan ([`Definition::Scan`]).
    Nothing(u16),
    /// Accumulator of a scan over one element.
    Widened(u16),
    /// Combines two accumulators of a scan, the second after the first.
    Accumulated(u16),
    /// Register value of a scan's accumulator, converted to the dtype.
    Narrowed(u16, DType),
    /// Fused multiply-add, in every mode: bits of a sum follow from its terms.
    MultiplyAdd(DType),
    /// Rounding of an f32 to TF32.
    Tf32,
    /// Bits of an f32, a u32.
    Bits,
    /// Warp shuffle. Arguments: a value, and a u32 that selects the lane. All threads of the warp must call it.
    Shuffle(Shuffle, Type),
    /// Ballot: a u32 with a bit for each thread of the warp. All threads of the warp must call it.
    Ballot,
    /// Population count of a u32.
    Ones,
    /// Whether a condition holds in some thread of the warp. All threads of the warp must call it.
    AnyOfWarp,
    /// Two to the power of an f32, by the chip's approximate instruction.
    PowerOfTwo,
    /// Rounds two f32 to f16 or bf16, packed in a u32, the first in the lower half.
    Pair(DType),
    /// Matrix descriptor advanced by this many bytes, a u32.
    Further,
    /// Whether a condition holds in some thread of the block. All threads of the block must call it.
    AnyOfBlock,
    /// Decoupled look-back of a radix sort: number of elements with a digit in the row's tiles before this one.
    /// Arguments: ticket, offset of the tile in the exchange buffer (a u64), the tile's number in its row and its own
    /// count of the digit (both u32).
    TilesBefore,
}

impl Routine {
    /// Type of the routine's result.
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
