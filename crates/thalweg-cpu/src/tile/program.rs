//! A compiled tile program: its steps and registers, as plain data.

use super::folds::Folder;
use super::lanes::{Code, Loop};
use thalweg_ir::{Compute, DType};
use thalweg_kernel::{Access, AccessClass};

/// Maximum points per tile: a dozen f32 registers of this size fit the smallest first-level caches.
pub(super) const TILE: usize = 512;

/// Number of a register: a tile of lanes.
pub(super) type Register = u32;

/// Source of a value that is uniform over all points.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Bits(u64),
    Scalar(u16),
    /// A value of the row.
    Row(u16),
}

/// Store mode of a register.
#[derive(Clone)]
pub(super) enum Write {
    /// Contiguous, with conversion.
    Dense(Loop),
    /// Strided, to elements of this size; converted first, if needed, into the register.
    Apart { size: usize, convert: Option<(Loop, Register)> },
    /// Combined with the previous contents, contiguous or strided.
    Combine(Folder),
}

/// Copy of a register's lanes: source, destination, bytes per lane.
pub(super) type Move = (Register, Register, usize);

/// A loop over the lanes of a tile.
pub(super) struct Looping {
    /// Maximum number of iterations.
    pub most: u32,
    /// Initial values of the carried values.
    pub first: Vec<Move>,
    /// Active lanes of the enclosing loop, if there is one.
    pub around: Option<Register>,
    /// Active lanes: those that have another iteration.
    pub active: Register,
    /// Steps that compute the condition (`go`), and the register of its result (`goes`).
    pub go: Vec<Step>,
    pub goes: Register,
    /// Remaining steps of an iteration.
    pub rest: Vec<Step>,
    /// Carried values that become others: copied before any of them changes.
    pub swapped: Vec<Move>,
    /// Updates of carried values in the active lanes.
    pub next: Vec<Move>,
}

/// One pass over a tile.
pub(super) enum Step {
    /// Fills all lanes with one value.
    Fill { value: Value, width: usize, out: Register },
    /// Loads contiguous elements; without a conversion, and if the rows are contiguous too, they are used in place.
    Load { access: u16, convert: Option<Loop>, size: usize, width: usize, in_place: bool, out: Register },
    /// Loads one element per row.
    Uniform { access: u16, dtype: DType, width: usize, out: Register },
    /// Gathers strided or mapped elements, in their memory format.
    Gather { access: u16, size: usize, class: AccessClass, out: Register },
    /// Gathers elements at data-dependent offsets, in their memory format.
    Indexed { access: u16, size: usize, offset: Register, inside: Register, out: Register },
    /// Computes positions, as u32 or i64.
    Index { access: u16, wide: bool, out: Register },
    /// Computes the mask of valid positions.
    Valid { access: u16, out: Register },
    /// Applies a loop to registers.
    Apply { code: Code, args: [Register; 3], out: Register },
    /// Iterates over registers until no lane is active.
    Loop(Box<Looping>),
    /// Folds a register into the lanes of a fold.
    Fold { value: Register, code: Folder, lanes: Register },
    /// Stores a register.
    Store { access: u16, value: Register, write: Write },
}

/// State of a fold.
pub(super) struct Folding {
    pub identity: u64,
    pub width: usize,
    pub code: Folder,
    /// Accumulator lanes of the fold, at the start of a register.
    pub lanes: Register,
    /// Value of the row that receives the result.
    pub slot: u16,
}

/// A value of the row, set from the first lane of a register.
pub(super) struct Setting {
    pub value: Register,
    pub width: usize,
    pub slot: u16,
}

/// A compiled body: its steps, by how often they run, and its registers.
#[derive(Default)]
pub(super) struct Pass {
    /// Run once per call: values uniform over all points.
    pub hoisted: Vec<Step>,
    /// Run once per row: values uniform in the row. Only in passes along rows.
    pub row: Vec<Step>,
    /// Run for each tile, stores last (an output may overlap an input).
    pub steps: Vec<Step>,
    /// Folds, which are initialised before a row and finished after it.
    pub folds: Vec<Folding>,
    /// Values of the row that are set after it.
    pub sets: Vec<Setting>,
    /// Offset of each register's tile, and whether its contents outlive a tile.
    pub places: Vec<(usize, bool)>,
    /// Bytes of registers that outlive a tile, and of the others.
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
    /// Bytes of all registers.
    pub(super) bytes: usize,
    pub(super) accesses: Vec<Access>,
    /// Operands of the launch; later ones are a driver's own.
    pub(super) operands: u16,
}

/// Bytes per lane.
pub(super) fn width(dtype: DType) -> usize {
    match dtype.compute() {
        Compute::F64 | Compute::I64 | Compute::U64 => 8,
        Compute::F32 | Compute::I32 | Compute::U32 => 4,
        Compute::Mask => 1,
    }
}
