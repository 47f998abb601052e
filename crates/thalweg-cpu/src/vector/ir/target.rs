//! Description of an instruction set to the machine-neutral stages.
//!
//! Lowering, scheduling, register allocation and the loops around a step ask a [`Target`] what differs by machine:
//! vector length, register files, native operations, operands that may be in memory. An instruction set fills one in as
//! a `static`, and encodes what the stages produce. Always true: a target is constant, so code depends on the body and
//! the target only.

use super::{Inst, Op, Val, Vir};
use thalweg_ir::{DType, Monoid};

/// Representation of masks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Masks {
    /// In a register file of their own; this many registers are the allocator's, numbered from 1.
    Registers(usize),
    /// As vectors of 0 and -1, with lanes as wide as those compared. One vector register, the last, is reserved in
    /// steps that need the mask of the last step or of a gather.
    Vectors,
}

/// Facts about an instruction set.
pub struct Target {
    /// Bytes of a vector register.
    pub vector_bytes: usize,
    /// Number of vector registers.
    pub vectors: usize,
    /// Representation of masks.
    pub masks: Masks,
    /// Number of general registers for pointers of accesses.
    pub pointers: usize,
    /// Unroll factors to try, the largest first: interleaved copies of a step hide the latency of its instructions.
    pub unroll: &'static [usize],
    /// Whether one instruction (or a sequence without operands of its own) has this meaning on lanes of this many
    /// bytes. If not, lowering builds the meaning from others.
    pub native: fn(Op, u8) -> bool,
    /// How the set combines elements in a fold; `None` if it cannot.
    pub combine: fn(Monoid, DType) -> Option<Combine>,
    /// Constraints on the operands of an instruction.
    pub operands: fn(&Inst) -> Operands,
    /// Builds [`Op::Pack`] of a value from operations of the set's own ([`Op::Machine`]). Called if packing is not
    /// native.
    pub pack: fn(&mut Vir, u8, Val) -> Val,
}

/// Combination of elements in a fold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// By one instruction, which may read the element from memory.
    Single,
    /// By several, with the element in a register and this many temporaries.
    Sequence { temporaries: usize },
}

/// Constants that an instruction can read from memory without a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Constants {
    /// No constant.
    None,
    /// Constants of lanes of this many bytes.
    Lane(u8),
    /// Any constant.
    All,
}

/// Constraints on the operands of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// Arguments that may be in memory (at most one of them at a time), as bits.
    pub memory: u8,
    /// Constants that such an argument may be.
    pub constants: Constants,
    /// Whether the first two arguments may be swapped.
    pub commutes: bool,
    /// Arguments whose register the result may take over, by preference; if not empty, it must take over one.
    pub overwrites: &'static [u8],
    /// Whether the result is written before the arguments have been read.
    pub early: bool,
}

impl Target {
    /// Whether masks have registers of their own.
    pub fn mask_registers(&self) -> bool {
        matches!(self.masks, Masks::Registers(_))
    }

    /// Number of mask registers of the allocator.
    pub fn masks(&self) -> usize {
        match self.masks {
            Masks::Registers(n) => n,
            Masks::Vectors => 0,
        }
    }
}

impl Constants {
    /// Whether a constant of lanes of this many bytes can be read from memory.
    pub fn admit(self, lane: u8) -> bool {
        match self {
            Constants::None => false,
            Constants::Lane(l) => l == lane,
            Constants::All => true,
        }
    }
}
