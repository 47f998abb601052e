//! What a compiled body is called with: rows of its domain.
//!
//! The driver (`launch.rs`) passes the outer dimensions of a launch and hands out rectangles of `rows × n` points, in
//! which the innermost dimension runs to `n`. Both engines - the x86-64 emitter and the tile engine - take the same
//! call.

/// Words of [`RowArgs`] for each access.
pub const ACCESS_WORDS: usize = 4;

/// The argument block of a call, as the words that compiled code reads. For access `a`, at word `4·a`:
///
/// | word | with an operand | index only |
/// |---|---|---|
/// | 0 | address of the first point's element (`Mapped`: of position 0 of the operand) | position of the first point (`Mapped`: unused) |
/// | 1 | bytes from row to row | positions from row to row |
/// | 2 | `Strided`: elements between neighbours along a row (of what is written too), else unused | the same, in positions |
/// | 3 | `Mapped`: address of `n` i32 positions, -1 where masked out; such a call has one row. Of an access that a `Gather` goes through, which is not mapped: address of two words, that of the operand's element 0 and the number of its elements | `Mapped`: the same |
///
/// A [`Gather`](thalweg_kernel::Node::Gather) reads the element at `(address of the point - address of element 0) /
/// size + offset`, as an i64 that wraps, if that as a u64 is less than the number of elements, and `inside` is true;
/// else it reads nothing. So whatever offsets, `inside` and word 0 are, nothing outside the operand is read.
///
/// After all accesses, scalar `s` is the word at `4·accesses + s`, in the form of `Scalar::to_bits`. For [`Along`] the
/// accesses are those of the body's phases (buffers included), and after the scalars come two words more: the address
/// of the row's values, 8 bytes each, by slot, in the form of `Scalar::to_bits`; and how many rows may be passed over
/// side by side, 1 to [`MOST_ROWS_ABREAST`]: as many rows buffers have room for, word 1 of a buffer apart (they do not
/// go on from one group of rows to the next).
pub type RowArgs = [u64];

/// The most rows that a call passes side by side.
pub const MOST_ROWS_ABREAST: usize = 4;

/// A compiled body.
pub trait Rows: Send + Sync {
    /// Computes `rows × n` points. Returns false if some lane needs the slow path: then the whole rectangle is to be
    /// computed again by the tile engine, which needs none; inputs are as they were, outputs are unspecified. From the
    /// tile engine false means that an index is out of range: outputs are unspecified, and the launch has failed. Other
    /// engines hand such a rectangle back.
    ///
    /// # Safety
    /// `args` holds the words that [`RowArgs`] describes for the body this was compiled from, and every address reached
    /// through them for these points is readable (of stores: writable, and not written by anyone else meanwhile).
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize) -> bool;
}

/// A compiled row body, run along its rows: a call's `n` points are neighbours in a row, and each of its rows is a
/// whole row of the kernel or a part of one. Rows run one after the other, each through all phases of the call.
///
/// Phases are those of [`thalweg_kernel::phases`]. A phase over points reads values of the row, folds the `n` points as
/// one block of [`thalweg_kernel::order`] (so `n` is at most [`thalweg_kernel::order::BLOCK`] where it folds) and
/// stores; a phase that runs once a row computes values of the row and stores one element through accesses that are per
/// row, whatever `n` is.
pub trait Along: Send + Sync {
    /// Runs these phases, one after the other, for each row. Values of the row that phases before `phases.start` gave
    /// are read from memory, and those that these phases give are written there (of the last row; need not be, where
    /// `phases` are all). `n` may be 0: folds then give their identity. Returns false as [`Rows::run`] does; outputs,
    /// and the buffers and values that these phases give, are then unspecified. Scans of the phases are the caller's,
    /// so a phase with scans is the last of a call.
    ///
    /// # Safety
    /// As [`Rows::run`]; buffers are no memory of operands, and rows of a call may share them.
    unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize, phases: std::ops::Range<usize>) -> bool;
}
