//! Argument blocks of the GEMM and GEMV micro-kernels: tiles, streams and dot products (see `gemm/microkernels.rs`).
//!
//! Emitted code (`isa/gemm.rs`) reads these words by their offsets; the portable loops take the same arguments.

/// Arguments of a tile kernel: `to[i, j] = from[i, j] + Σ left[i, p]·right[p, j]`, without `from` if that is null.
/// Strides are in bytes; a *term* is an index `p` of the K dimension.
#[repr(C)]
pub struct TileArgs {
    /// Address of the first element of A.
    pub left: *const u8,
    /// Stride between rows of A; the element size if elements are contiguous across rows.
    pub left_row: isize,
    /// Stride between terms of A; the element size if elements are contiguous across terms.
    pub left_term: isize,
    /// Address of the first element of B, whose columns are contiguous.
    pub right: *const u8,
    /// Stride between terms of B.
    pub right_term: isize,
    /// Number of terms.
    pub terms: usize,
    /// Address of the sums of earlier blocks of terms, or null for the first block.
    pub from: *const u8,
    /// Stride between rows of `from`.
    pub from_row: isize,
    /// Address that the accumulators are stored to.
    pub to: *mut u8,
    /// Stride between rows of `to`.
    pub to_row: isize,
    /// Lane mask of the last vector: ones, then zeros. Set by `gemm::microkernels::Kernels`.
    pub lanes: *const u8,
    /// The lane mask as bits. Set by `gemm::microkernels::Kernels`.
    pub bits: u64,
}

/// Arguments of a stream kernel (GEMV of one row): `sums[j] = sums[j] + Σ left[p]·right[p, j]`. Each sum is one chain,
/// which starts from 0 at the first terms of a block.
#[repr(C)]
pub struct StreamArgs {
    /// Address of the elements of A, contiguous.
    pub left: *const u8,
    /// Address of the first element of B, whose columns are contiguous.
    pub right: *const u8,
    /// Stride between terms of B, in bytes.
    pub right_term: isize,
    /// Address of the accumulators, which are contiguous and are updated in memory.
    pub sums: *mut u8,
    /// Number of columns.
    pub columns: usize,
    /// Lane mask of the last vector: see [`TileArgs::lanes`].
    pub lanes: *const u8,
    /// Bit mask of the last vector: see [`TileArgs::bits`].
    pub bits: u64,
}

/// Arguments of a dot-product kernel, for rows of A and columns of B with contiguous terms: `sums[i, j] = Σ left[i,
/// p]·right[p, j]`. Each sum has as many chains (lanes) as fit 64 bytes; a tree of halves adds them up.
#[repr(C)]
pub struct DotArgs {
    /// Address of the first element of A, whose elements are as wide as the accumulators.
    pub left: *const u8,
    /// Stride between rows of A, in bytes.
    pub left_row: isize,
    /// Address of the first element of B.
    pub right: *const u8,
    /// Stride between columns of B, in bytes.
    pub right_column: isize,
    /// Number of terms: a multiple of the number of chains.
    pub terms: usize,
    /// Address that the accumulators are stored to, contiguous in a row.
    pub sums: *mut u8,
    /// Stride between rows of `sums`, in bytes.
    pub sums_row: isize,
}

/// Number of chains (lanes) per sum of [`DotArgs`] for accumulators of type `W`: 64 bytes of them.
pub const fn lanes<W>() -> usize {
    64 / size_of::<W>()
}
