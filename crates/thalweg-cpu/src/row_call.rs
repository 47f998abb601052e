//! Calling convention of compiled bodies: a call computes rows of the domain.
//!
//! The driver (`launch.rs`) iterates over the outer dimensions of a launch and calls the body on rectangles of `rows ×
//! n` points, in which the innermost dimension has `n` points. Both engines - the x86-64 emitter and the tile engine -
//! implement this convention.

/// Number of argument words of [`RowArgs`] per access.
pub const ACCESS_WORDS: usize = 4;

/// The argument block of a call: the words that compiled code reads. Access `a` has the words from `4·a` on:
///
/// | word | with an operand | index only |
/// |---|---|---|
/// | 0 | address of the first point's element (`Mapped`: of position 0 of the operand) | position of the first point (`Mapped`: unused) |
/// | 1 | bytes from row to row | positions from row to row |
/// | 2 | `Strided`: elements between neighbours of a row (of outputs, too), else unused | the same, in positions |
/// | 3 | `Mapped`: address of `n` i32 positions, -1 where masked out; such a call has one row. Of an access that a `Gather` reads through, which is not mapped: address of two words, the address of the operand's element 0 and the number of its elements | `Mapped`: the same |
///
/// A [`Gather`](thalweg_kernel::Node::Gather) computes as an i64 that wraps the index
/// `(address of the point - address of element 0) / size + offset`. It reads that element if the index as a u64 is less than the number of elements and
/// `inside` is true; else it reads nothing. So nothing outside the operand is read, whatever offsets, `inside` and word
/// 0 are.
///
/// After all accesses, scalar `s` is the word at `4·accesses + s`, in the form of `Scalar::to_bits`. For
/// [`InnerReduction`], the accesses are those of the body's phases (buffers included), and two more words follow the
/// scalars: the address of the row's values, 8 bytes each, by slot, in the form of `Scalar::to_bits`; and the number of
/// rows that may be processed side by side, 1 to [`MAX_ROWS_ABREAST`]. Each buffer has space for that many rows, word 1
/// apart; groups of rows reuse it.
pub type RowArgs = [u64];

/// Maximum number of rows that emitted code of a row body interleaves, so that their chains of dependent folds overlap.
pub const MAX_ROWS_ABREAST: usize = 4;

/// A compiled map body, which computes rectangles of its domain.
pub trait Rows: Send + Sync {
    /// Computes `rows × n` points. Emitted code returns false if some lane needs the slow path: the tile engine, which
    /// needs none, must then compute the whole rectangle again; inputs are unchanged, outputs are unspecified. The tile
    /// engine returns false if an index is out of range: outputs are unspecified, and the launch has failed. Emitted
    /// code leaves the detection of that to the tile engine.
    ///
    /// # Safety
    /// `args` holds the words that [`RowArgs`] describes for the body that this was compiled from, and every address
    /// reached through them for these points is readable (of stores: writable, and written by nobody else meanwhile).
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize) -> bool;
}

/// A compiled row body for rows in the innermost dimension: a call's `n` points are neighbours in a row, and each of
/// its rows is a whole row of the kernel or a block of one. Rows run one after the other, each through all phases of
/// the call.
///
/// Phases are those of [`thalweg_kernel::phases`]. A phase over points reads values of the row, folds the `n` points as
/// one block of [`thalweg_kernel::order`] (so a fold needs `n` of at most [`thalweg_kernel::order::BLOCK`]) and stores.
/// A phase that runs once per row computes values of the row and stores one element through each access that is per
/// row, whatever `n` is.
pub trait InnerReduction: Send + Sync {
    /// Runs these phases in order for each row. Values of the row from phases before `phases.start` are read from
    /// memory; values that these phases compute are written there (those of the last row; optional if `phases` are
    /// all). `n` may be 0: folds then give their identity. Returns false as [`Rows::run`] does; outputs, and the
    /// buffers and values that these phases produce, are then unspecified. The caller performs the scans of phases, so
    /// a phase with scans is the last of a call.
    ///
    /// # Safety
    /// As for [`Rows::run`]; buffers do not overlap operands, and rows of a call may share them.
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize, phases: std::ops::Range<usize>) -> bool;
}
