//! What the loops of a product are called with: a tile of sums, terms of one row, or lines whose terms are neighbours.
//!
//! Emitted code (`x64/product.rs`) reads these words by their offsets; the portable loops take the same call.

/// A tile: `to[i, j] = from[i, j] + Σ left[i, p]·right[p, j]`, without `from` where that is null. Strides are in bytes.
#[repr(C)]
pub struct TileArgs {
    /// The left factor's first element.
    pub left: *const u8,
    /// From row to row of it; an element where the form goes along its lines.
    pub left_row: isize,
    /// From term to term of it; an element where the form goes along its terms.
    pub left_term: isize,
    /// The right factor's first element; its columns are neighbours.
    pub right: *const u8,
    /// From term to term of it.
    pub right_term: isize,
    /// How many terms.
    pub terms: usize,
    /// Sums of earlier terms, or null.
    pub from: *const u8,
    /// From row to row of them.
    pub from_row: isize,
    /// Where the sums go.
    pub to: *mut u8,
    /// From row to row there.
    pub to_row: isize,
    /// Set by `contract::kernel::Kernels`: ones for the lanes of the last vector, then zeros.
    pub lanes: *const u8,
    /// Set by `contract::kernel::Kernels`: the same in bits.
    pub bits: u64,
}

/// Terms of one row: `sums[j] = sums[j] + Σ left[p]·right[p, j]` in one chain, from 0 at the first terms of a block.
#[repr(C)]
pub struct StreamArgs {
    /// Elements of the left factor, neighbours.
    pub left: *const u8,
    /// The right factor's first element; its columns are neighbours.
    pub right: *const u8,
    /// From term to term of it, in bytes.
    pub right_term: isize,
    /// Sums, neighbours.
    pub sums: *mut u8,
    /// How many.
    pub columns: usize,
    /// As in [`TileArgs`].
    pub lanes: *const u8,
    /// As in [`TileArgs`].
    pub bits: u64,
}

/// Products of lines whose terms are neighbours on both sides: `sums[i, j] = Σ left[i, p]·right[p, j]`, in as many chains
/// as 64 bytes hold, which are added up in halves.
#[repr(C)]
pub struct DotArgs {
    /// The left factor's first element, as wide as sums.
    pub left: *const u8,
    /// From row to row of it, in bytes.
    pub left_row: isize,
    /// The right factor's first element.
    pub right: *const u8,
    /// From column to column of it, in bytes.
    pub right_column: isize,
    /// How many terms: a multiple of the chains.
    pub terms: usize,
    /// Where the sums go; those of a row are neighbours.
    pub sums: *mut u8,
    /// From row to row of them, in bytes.
    pub sums_row: isize,
}
