//! Description of an instruction set to the machine-neutral stages.
//!
//! Lowering, scheduling, register allocation and the loops around a step get machine-specific properties from a
//! [`Target`]: vector length, register files, native operations, operands that may be in memory. Each instruction set
//! defines its target as a `static`, and encodes the linear code that the stages produce. Always true: a target is
//! constant, so code depends on the body and the target only.

use super::{Inst, Op, Val, Vir};
use thalweg_ir::{DType, Monoid};

/// Representation of masks (one truth value per lane) on an instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Masks {
    /// In mask registers. The number is how many of them the allocator may use; they are numbered from 1.
    Registers(usize),
    /// In vector registers, as lanes of 0 and -1 that are as wide as the compared lanes. The last vector register is
    /// reserved in steps that need the mask of a masked step or of a gather.
    Vectors,
}

/// Description of an instruction set: registers, native operations, and constraints on operands.
pub struct Target {
    /// Bytes of a vector register.
    pub vector_bytes: usize,
    /// Number of vector registers.
    pub vectors: usize,
    /// Representation of masks on this instruction set.
    pub masks: Masks,
    /// Number of general registers for pointers of accesses.
    pub pointers: usize,
    /// Unroll factors to try, the largest first: interleaved copies of a step hide the latency of its instructions.
    pub unroll: &'static [usize],
    /// Whether one instruction (or a sequence without operands of its own) performs an operation on lanes of this many
    /// bytes. If not, lowering builds the operation from others.
    pub native: fn(Op, u8) -> bool,
    /// Returns how the instruction set combines elements in a fold; `None` if it has no instructions for that.
    pub combine: fn(Monoid, DType) -> Option<Combine>,
    /// Constraints on the operands of an instruction.
    pub operands: fn(&Inst) -> Operands,
    /// Builds [`Op::Pack`] of a value from operations specific to the instruction set ([`Op::Machine`]). Called if
    /// packing is not native.
    pub pack: fn(&mut Vir, u8, Val) -> Val,
}

/// Implementation of the combination of elements in a fold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// A single instruction, which may read the element from memory.
    Single,
    /// Several instructions, with the element in a register and this many temporary registers.
    Sequence { temporaries: usize },
}

/// Constants of the constant pool that an instruction can read as a memory operand, without a separate load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Constants {
    /// No constants: each needs a load.
    None,
    /// Constants whose lanes have this many bytes.
    Lane(u8),
    /// Constants with lanes of any size.
    All,
}

/// Constraints on the operands of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// Bit set of the arguments that may be memory operands (at most one of them at a time).
    pub memory: u8,
    /// Constants that may be such a memory operand.
    pub constants: Constants,
    /// Whether the first two arguments may be swapped.
    pub commutes: bool,
    /// Arguments whose register the result may overwrite, by preference. If the list is not empty, the instruction is
    /// destructive: the result must overwrite one of them.
    pub overwrites: &'static [u8],
    /// Whether the result is written before the arguments have been read.
    pub early: bool,
}

impl Target {
    /// Whether masks have registers of their own.
    pub fn mask_registers(&self) -> bool {
        matches!(self.masks, Masks::Registers(_))
    }

    /// Number of mask registers that the allocator may use.
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
