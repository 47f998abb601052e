//! Argument blocks of the GEMM and GEMV micro-kernels: a tile of sums, terms of one row, or dot products.
//!
//! Emitted code (`isa/gemm.rs`) reads these words by their offsets; the portable loops take the same arguments.

/// Arguments of a tile: `to[i, j] = from[i, j] + Σ left[i, p]·right[p, j]`, without `from` if that is null. Strides are
/// in bytes.
#[repr(C)]
pub struct TileArgs {
    /// First element of the left factor.
    pub left: *const u8,
    /// Stride between its rows; the element size if its elements are neighbours across rows.
    pub left_row: isize,
    /// Stride between its terms; the element size if its elements are neighbours across terms.
    pub left_term: isize,
    /// First element of the right factor; its columns are contiguous.
    pub right: *const u8,
    /// Stride between its terms.
    pub right_term: isize,
    /// Number of terms.
    pub terms: usize,
    /// Sums of earlier terms, or null.
    pub from: *const u8,
    /// Stride between their rows.
    pub from_row: isize,
    /// Destination of the sums.
    pub to: *mut u8,
    /// Stride between its rows.
    pub to_row: isize,
    /// Lane mask of the last vector: ones, then zeros. Set by `gemm::microkernels::Kernels`.
    pub lanes: *const u8,
    /// The lane mask as bits. Set by `gemm::microkernels::Kernels`.
    pub bits: u64,
}

/// Arguments of a stream kernel (GEMV of one row): `sums[j] = sums[j] + Σ left[p]·right[p, j]`, one chain per sum,
/// starting from 0 at the first terms of a block.
#[repr(C)]
pub struct StreamArgs {
    /// Elements of the left factor, contiguous.
    pub left: *const u8,
    /// First element of the right factor; its columns are contiguous.
    pub right: *const u8,
    /// Stride between its terms, in bytes.
    pub right_term: isize,
    /// Sums, contiguous.
    pub sums: *mut u8,
    /// Number of columns.
    pub columns: usize,
    /// As in [`TileArgs`].
    pub lanes: *const u8,
    /// As in [`TileArgs`].
    pub bits: u64,
}

/// Arguments of dot products of lines whose terms are contiguous in both factors: `sums[i, j] = Σ left[i, p]·right[p,
/// j]`. Each sum has as many chains (lanes) as fit 64 bytes; a tree of halves adds them up.
#[repr(C)]
pub struct DotArgs {
    /// First element of the left factor, as wide as the sums.
    pub left: *const u8,
    /// Stride between its rows, in bytes.
    pub left_row: isize,
    /// First element of the right factor.
    pub right: *const u8,
    /// Stride between its columns, in bytes.
    pub right_column: isize,
    /// Number of terms: a multiple of the number of chains.
    pub terms: usize,
    /// Destination of the sums, contiguous in a row.
    pub sums: *mut u8,
    /// Stride between its rows, in bytes.
    pub sums_row: isize,
}

/// Number of chains per sum of [`DotArgs`] for elements of type `W`: 64 bytes of them.
pub const fn lanes<W>() -> usize {
    64 / size_of::<W>()
}
