//! Data structures of a compiled tile program: steps and registers.

use super::folds::Folder;
use super::lanes::{Code, Loop};
use thalweg_ir::{Compute, DType};
use thalweg_kernel::{Access, AccessClass};

/// Maximum number of points per tile: a dozen f32 registers of this size fit the smallest first-level caches.
pub(super) const TILE: usize = 512;

/// Index of a register, which holds the lanes of a tile.
pub(super) type Register = u32;

/// Source of a value that is uniform over all points.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Bits(u64),
    Scalar(u16),
    /// Value of the row, by slot.
    Row(u16),
}

/// Store mode: how a register's lanes are written to memory.
#[derive(Clone)]
pub(super) enum Write {
    /// Contiguous elements, by a loop that converts the lanes.
    Dense(Loop),
    /// Strided elements of `size` bytes. Lanes are converted first, if needed, by the loop into the register.
    Apart { size: usize, convert: Option<(Loop, Register)> },
    /// Combination with the previous contents, contiguous or strided.
    Combine(Folder),
}

/// Copy of a register's lanes: source, destination, bytes per lane.
pub(super) type Move = (Register, Register, usize);

/// A loop with a data-dependent trip count, run over all lanes of a tile until none is active.
pub(super) struct Looping {
    /// Maximum number of iterations.
    pub most: u32,
    /// Copies of the initial values to the registers of the carried values.
    pub first: Vec<Move>,
    /// Register of the enclosing loop's active lanes, if there is one.
    pub around: Option<Register>,
    /// Register of the active lanes, i.e. those that have another iteration.
    pub active: Register,
    /// Steps that compute the condition (`go`), and the register of its result (`goes`).
    pub go: Vec<Step>,
    pub goes: Register,
    /// Remaining steps of an iteration, which compute the new carried values.
    pub rest: Vec<Step>,
    /// Copies of carried values that are assigned to other carried values, made before any of them changes.
    pub swapped: Vec<Move>,
    /// Updates of the carried values, in the active lanes.
    pub next: Vec<Move>,
}

/// Step of a tile program: one loop over the lanes of a tile.
pub(super) enum Step {
    /// Fills all lanes of a register with one value.
    Fill { value: Value, width: usize, out: Register },
    /// Loads contiguous elements. With `in_place`, if no conversion is needed and the rows of the block are contiguous
    /// too, the register refers to the elements in memory instead.
    Load { access: u16, convert: Option<Loop>, size: usize, width: usize, in_place: bool, out: Register },
    /// Loads the single element of each row, and fills the row's lanes with it.
    Uniform { access: u16, dtype: DType, width: usize, out: Register },
    /// Gathers strided or mapped elements, in their memory format.
    Gather { access: u16, size: usize, class: AccessClass, out: Register },
    /// Gathers elements at data-dependent offsets, in their memory format.
    Indexed { access: u16, size: usize, offset: Register, inside: Register, out: Register },
    /// Computes positions as u32 or (`wide`) i64 lanes.
    Index { access: u16, wide: bool, out: Register },
    /// Computes which positions are not masked out.
    Valid { access: u16, out: Register },
    /// Applies the code of an operation to registers.
    Apply { code: Code, args: [Register; 3], out: Register },
    /// Runs a loop with a data-dependent trip count.
    Loop(Box<Looping>),
    /// Folds a register into the accumulator lanes of a fold.
    Fold { value: Register, code: Folder, lanes: Register },
    /// Stores a register through an access.
    Store { access: u16, value: Register, write: Write },
}

/// A fold of a pass: its code and accumulator lanes.
pub(super) struct Folding {
    pub identity: u64,
    pub width: usize,
    pub code: Folder,
    /// Register whose first lanes are the accumulator lanes of the fold.
    pub lanes: Register,
    /// Slot of the row's value that receives the result.
    pub slot: u16,
}

/// Assignment of a register's first lane to a value of the row.
pub(super) struct Setting {
    pub value: Register,
    pub width: usize,
    pub slot: u16,
}

/// A compiled map body, or phase of a row body: its steps, by how often they run, and its registers.
#[derive(Default)]
pub(super) struct Pass {
    /// Steps that run once per call: they compute values that are uniform over all points.
    pub hoisted: Vec<Step>,
    /// Steps that run once per row: they compute values that are uniform in the row. Only in row bodies.
    pub row: Vec<Step>,
    /// Steps that run for each tile, stores last (an output may overlap an input).
    pub steps: Vec<Step>,
    /// Folds, whose lanes are initialised before a row and reduced after it.
    pub folds: Vec<Folding>,
    /// Values of the row that are set after its last tile.
    pub sets: Vec<Setting>,
    /// Byte offset of each register's tile, and whether its contents outlive a tile.
    pub places: Vec<(usize, bool)>,
    /// Total bytes of the registers that outlive a tile, and of the other registers.
    pub bytes: (usize, usize),
}

/// Assigns final offsets to the registers of passes that run alternately (each was laid out from 0): registers that
/// outlive a tile are consecutive, the others of all passes overlap. Returns the total bytes.
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

/// A map body compiled for the tile engine: a list of loops over tiles of 512 points. A run returns false only if a
/// `Gather` is out of range; it needs no slow path.
pub struct TileProgram {
    pub(super) pass: Pass,
    /// Total bytes of all registers.
    pub(super) bytes: usize,
    pub(super) accesses: Vec<Access>,
    /// Number of operands of the launch. Operands with higher indices are scratch tables that the driver added.
    pub(super) operands: u16,
}

/// Bytes of a lane that holds a value of a dtype.
pub(super) fn width(dtype: DType) -> usize {
    match dtype.compute() {
        Compute::F64 | Compute::I64 | Compute::U64 => 8,
        Compute::F32 | Compute::I32 | Compute::U32 => 4,
        Compute::Mask => 1,
    }
}
