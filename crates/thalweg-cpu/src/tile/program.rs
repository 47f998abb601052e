//! A compiled tile program: its steps and registers, plain data.

use super::folds::Folder;
use super::lanes::{Code, Loop};
use thalweg_ir::{Compute, DType};
use thalweg_kernel::{Access, AccessClass};

/// Points that a loop handles at once: a dozen f32 registers of this size fit the smallest first-level caches.
pub(super) const TILE: usize = 512;

/// A tile of lanes, by number.
pub(super) type Register = u32;

/// Where a value that is the same for all points comes from.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Bits(u64),
    Scalar(u16),
    /// A value of the row.
    Row(u16),
}

/// How a register gets to memory.
#[derive(Clone)]
pub(super) enum Write {
    /// To neighbours, converted.
    Dense(Loop),
    /// To elements of this size which are apart; converted first, if need be, into the register.
    Apart { size: usize, convert: Option<(Loop, Register)> },
    /// Put together with what is there, neighbours or not.
    Combine(Folder),
}

/// A register's lanes into another one's: from, to, bytes of a lane.
pub(super) type Move = (Register, Register, usize);

/// A loop over the lanes of a tile.
pub(super) struct Looping {
    /// Turns after which it ends in any case.
    pub most: u32,
    /// What the carried values begin as.
    pub first: Vec<Move>,
    /// The lanes that have turns in the loop around it, if there is one.
    pub around: Option<Register>,
    /// The lanes that have another turn.
    pub active: Register,
    /// What tells that, and where it is then.
    pub go: Vec<Step>,
    pub goes: Register,
    /// What else a turn does.
    pub rest: Vec<Step>,
    /// Carried values that others become: copied before any of them changes.
    pub swapped: Vec<Move>,
    /// What carried values become in the lanes that are active.
    pub next: Vec<Move>,
}

/// One pass over a tile.
pub(super) enum Step {
    /// The same value in all lanes.
    Fill { value: Value, width: usize, out: Register },
    /// Neighbours in memory; without a conversion, and if the rows follow one another, they are used where they are.
    Load { access: u16, convert: Option<Loop>, size: usize, width: usize, in_place: bool, out: Register },
    /// One element a row.
    Uniform { access: u16, dtype: DType, width: usize, out: Register },
    /// Elements as memory holds them, from here and there.
    Gather { access: u16, size: usize, class: AccessClass, out: Register },
    /// Elements as memory holds them, at offsets that are data.
    Indexed { access: u16, size: usize, offset: Register, inside: Register, out: Register },
    /// Positions, as u32 or i64.
    Index { access: u16, wide: bool, out: Register },
    /// Whether positions are inside.
    Valid { access: u16, out: Register },
    /// A loop over registers.
    Apply { code: Code, args: [Register; 3], out: Register },
    /// Turns over registers until no lane is left.
    Loop(Box<Looping>),
    /// A register into the lanes of a fold.
    Fold { value: Register, code: Folder, lanes: Register },
    /// A register to memory.
    Store { access: u16, value: Register, write: Write },
}

/// A fold in the course of a row.
pub(super) struct Folding {
    pub identity: u64,
    pub width: usize,
    pub code: Folder,
    /// Its lanes, at the start of a register.
    pub lanes: Register,
    /// The value of the row that it gives.
    pub slot: u16,
}

/// A value of the row from the first lane of a register.
pub(super) struct Setting {
    pub value: Register,
    pub width: usize,
    pub slot: u16,
}

/// A body compiled: its steps, by how often they run, and its registers.
#[derive(Default)]
pub(super) struct Pass {
    /// Run once for a call: what is the same for all points.
    pub hoisted: Vec<Step>,
    /// Run once for a row: what is the same for all its points. Only in passes along rows.
    pub row: Vec<Step>,
    /// Run for each tile, stores last (an output may lie over an input).
    pub steps: Vec<Step>,
    /// What has to be begun before a row and ended after it.
    pub folds: Vec<Folding>,
    /// The values of the row that are there after it.
    pub sets: Vec<Setting>,
    /// Where each register's tile starts, and whether what is in it has to outlast a tile.
    pub places: Vec<(usize, bool)>,
    /// Bytes of registers that are kept, and of the others.
    pub bytes: (usize, usize),
}

/// Lays out the registers of passes that run in turns, which so far have begun at 0: those that are kept side by side,
/// the others of all passes in the same place. Gives the bytes of all together.
pub(super) fn lay_out(passes: &mut [&mut Pass]) -> usize {
    let kept: usize = passes.iter().map(|p| p.bytes.0).sum();
    let others = passes.iter().map(|p| p.bytes.1).max().unwrap_or(0);
    let mut start = 0;
    for pass in passes {
        for (offset, keep) in &mut pass.places {
            *offset += if *keep { start } else { kept };
        }
        start += pass.bytes.0;
    }
    kept + others
}

/// A map body compiled for the tile engine: a list of loops, run over tiles of 512 points. Needs no slow path: a run
/// gives false where a `Gather` reached outside its operand.
pub struct TileProgram {
    pub(super) pass: Pass,
    /// Bytes of all registers.
    pub(super) bytes: usize,
    pub(super) accesses: Vec<Access>,
    /// Operands of the launch; what comes after are a driver's own places.
    pub(super) operands: u16,
}

/// Bytes of a lane.
pub(super) fn width(dtype: DType) -> usize {
    match dtype.compute() {
        Compute::F64 | Compute::I64 | Compute::U64 => 8,
        Compute::F32 | Compute::I32 | Compute::U32 => 4,
        Compute::Mask => 1,
    }
}
